//! Calls about synchronization objects without a word in memory that go from process to process, and the global handles that they and
//! resources go by (sync §2.2, memory §2.7).

use kmt_calls::{CreatedSyncObject, FenceFlags, OpenSyncObjectRequest, Refusal, Reply, SyncObjectAccess};
use wddm_types::{AdapterIndex, RawHandle};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::global_handle::{GLOBAL_HANDLES_MAX, Global};
use crate::nt_handle::Shared;
use crate::number::{DeviceNumber, NtHandleNumber, ResourceNumber, SyncObjectNumber, SyncOpenNumber};
use crate::object::Object;
use crate::refusal::{invalid, no_memory};

impl Turn<'_> {
    /// Asked before an object is made that will have a global handle.
    pub(super) fn room_for_global(&self) -> Result<(), Refusal> {
        match self.globals.has_room() {
            true => Ok(()),
            false => Err(no_memory(format!("the machine has {GLOBAL_HANDLES_MAX} global handles"))),
        }
    }

    /// The global handle of a resource that was just created; NONE: it is not shared that way.
    // spec: memory §2.7
    pub(super) fn name_resource(&mut self, index: AdapterIndex, resource: ResourceNumber) -> RawHandle {
        let adapter = &mut self.adapters[index];
        let Some(body) = adapter.shared_by_global(resource) else { return RawHandle::NONE };
        let name = self.globals.name(Global::Resource { adapter: index, body });
        adapter.resource_goes_by(body, name);
        name
    }

    /// The names of a synchronization object that was just created.
    // spec: sync §2.2, sync §2.3: with NtSecuritySharing it has no global handle
    pub(super) fn name_sync_object(
        &mut self,
        index: AdapterIndex,
        open: SyncOpenNumber,
        flags: FenceFlags,
    ) -> Result<CreatedSyncObject, Refusal> {
        let handle = self.name(Object::Legacy(index, open))?;
        let by_global = flags.contains(FenceFlags::SHARED) && !flags.contains(FenceFlags::NT_SECURITY_SHARING);
        let adapter = &mut self.adapters[index];
        let object = adapter.sync_object_of(open);
        let global_share = match by_global {
            true => self.globals.name(Global::SyncObject { adapter: index, object }),
            false => RawHandle::NONE,
        };
        adapter.sync_object_goes_by(object, global_share);
        Ok(CreatedSyncObject { object: handle, global_share })
    }

    /// `D3DKMTOpenSynchronizationObject`. It names no device: the open goes with the process.
    // spec: sync §2.2
    pub(super) fn open_by_global(&mut self, cx: &mut Cx<'_>, shared: RawHandle) -> Result<Answer, Refusal> {
        let Some(Global::SyncObject { adapter: index, object }) = self.globals.get(shared) else {
            return Err(invalid("no synchronization object has this global handle"));
        };
        self.about = Some(index);
        let adapter = &mut self.adapters[index];
        adapter.running()?;
        let open = adapter.open_global_object(cx, self.from, object);
        done(Reply::Handle(self.name(Object::Legacy(index, open))?))
    }

    /// `D3DKMTOpenSyncObjectFromNtHandle`. A fence with a word in memory is opened for a device, by the second form.
    // spec: sync §2.2
    pub(super) fn open_by_nt_handle(&mut self, cx: &mut Cx<'_>, handle: NtHandleNumber) -> Result<Answer, Refusal> {
        match self.nt_handles.named(handle)? {
            Shared::SyncObject { adapter: index, object, access } => {
                self.about = Some(index);
                self.adapters[index].running()?;
                self.open_named(cx, index, None, (object, access), OpenSyncObjectRequest::default())
            }
            Shared::Fence { .. } | Shared::CrossFence { .. } => {
                Err(invalid("a fence with a word in memory: OpenSyncObjectFromNtHandle2 opens it for a device"))
            }
            Shared::Resource { .. } | Shared::ResourceSet { .. } | Shared::Process { .. } | Shared::Ended => {
                Err(invalid("an NT handle of no synchronization object"))
            }
        }
    }

    /// Opens what an NT handle names, with the access that it gives.
    pub(super) fn open_named(
        &mut self,
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        device: Option<DeviceNumber>,
        object: (SyncObjectNumber, SyncObjectAccess),
        request: OpenSyncObjectRequest,
    ) -> Result<Answer, Refusal> {
        let adapter = &mut self.adapters[index];
        let open = adapter.open_named_object(cx, (self.from, device), object, request)?;
        done(Reply::Handle(self.name(Object::Legacy(index, open))?))
    }
}
