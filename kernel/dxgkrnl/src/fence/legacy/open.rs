//! A process's opens of synchronization objects without a word in memory, and the names by which others get theirs (sync §2.2, §2.3,
//! §3.4). An object lives as long as it is open or an NT handle names it; a global handle does not keep it.

use events::Event;
use kmt_calls::{FenceFlags, OpenSyncObjectRequest, Refusal, SyncObjectAccess};
use wddm_types::ProcessId;

use crate::adapter::Adapter;
use crate::fence::flags::PointUse;
use crate::fence::open::check_open;
use crate::machine::Cx;
use crate::object::DeviceNumber;
use crate::refusal::{access_denied, invalid, no_memory};
use crate::store::{ObjectNumber, object_number};

object_number! {
    /// A device's open of an object without a word in memory, for as long as the adapter runs.
    SyncOpenNumber
}

/// An open.
#[derive(Clone, Copy, Debug)]
pub struct SyncOpen {
    /// The process that has the handle.
    pub process: ProcessId,
    /// The device that it goes with; `None`: opened by a call that names none, it goes with its process.
    pub device: Option<DeviceNumber>,
    /// The object that it opens.
    pub object: u64,
    access: SyncObjectAccess,
}

impl SyncOpen {
    pub(super) fn of_creator(process: ProcessId, device: DeviceNumber, object: u64) -> SyncOpen {
        SyncOpen { process, device: Some(device), object, access: SyncObjectAccess::ALL_ACCESS }
    }
}

impl Adapter {
    pub(super) fn add_sync_open(&mut self, open: SyncOpen) -> SyncOpenNumber {
        let number = self.sync_opens.insert(open);
        self.sync_objects[open.object].opens += 1;
        if let Some(device) = open.device {
            self.devices[device].sync_objects.insert(number);
        }
        number
    }

    /// `D3DKMTOpenSynchronizationObject`: by the global handle, which knows no rights.
    // spec: sync §2.2
    pub fn open_global_sync_object(&mut self, cx: &mut Cx<'_>, process: ProcessId, object: u64) -> SyncOpenNumber {
        self.open_sync_object(cx, SyncOpen { process, device: None, object, access: SyncObjectAccess::ALL_ACCESS })
    }

    /// `D3DKMTOpenSyncObjectFromNtHandle`, and with a device `D3DKMTOpenSyncObjectFromNtHandle2`.
    // spec: sync §2.2, sync §2.3, sync §3.3 step 1
    pub fn open_named_sync_object(
        &mut self,
        cx: &mut Cx<'_>,
        (process, device): (ProcessId, Option<DeviceNumber>),
        (object, access): (u64, SyncObjectAccess),
        request: OpenSyncObjectRequest,
    ) -> Result<SyncOpenNumber, Refusal> {
        check_open(access, &request)?;
        if !request.flags.is_empty() {
            return Err(invalid(format!("{:?} is for monitored fences", request.flags)));
        }
        Ok(self.open_sync_object(cx, SyncOpen { process, device, object, access }))
    }

    fn open_sync_object(&mut self, cx: &mut Cx<'_>, open: SyncOpen) -> SyncOpenNumber {
        let number = self.add_sync_open(open);
        cx.emit(
            self.index,
            Event::SyncObjectOpened { process: open.process.0, object: open.object, open: number.raw() },
        );
        number
    }

    /// `D3DKMTDestroySynchronizationObject`: the last destroys it.
    // spec: sync §3.4
    pub fn close_sync_object(&mut self, cx: &mut Cx<'_>, number: SyncOpenNumber) {
        self.abandon_created(cx, number);
        let open = self.sync_opens.remove(number).expect("an open is closed once");
        if let Some(device) = open.device.and_then(|device| self.devices.get_mut(device)) {
            device.sync_objects.remove(&number);
        }
        self.sync_objects[open.object].opens -= 1;
        self.drop_unreached(cx, open.object);
    }

    /// `D3DKMTShareObjects`: it has one name more.
    // spec: sync §2.2, sync §5
    pub fn share_sync_object(&mut self, open: SyncOpenNumber, access: SyncObjectAccess) -> Result<u64, Refusal> {
        let open = &self.sync_opens[open];
        let object = &mut self.sync_objects[open.object];
        let unknown = access.difference(SyncObjectAccess::ALL_ACCESS);
        if !unknown.is_empty() {
            return Err(invalid(format!("access {:#x} is nothing that a synchronization object has", unknown.bits())));
        }
        if !object.flags.contains(FenceFlags::NT_SECURITY_SHARING) {
            return Err(invalid("the synchronization object was not created with NtSecuritySharing"));
        }
        if !open.access.contains(access) {
            return Err(access_denied("the process's own open gives less access than the NT handle asks for"));
        }
        object.names = object.names.checked_add(1).ok_or_else(|| no_memory("the object has too many names"))?;
        Ok(open.object)
    }

    /// Gives an object that has a name one more.
    pub fn name_sync_object_again(&mut self, object: u64) -> Result<(), Refusal> {
        let names = &mut self.sync_objects[object].names;
        *names = names.checked_add(1).ok_or_else(|| no_memory("the object has too many names"))?;
        Ok(())
    }

    /// A name has gone.
    pub fn unname_sync_object(&mut self, cx: &mut Cx<'_>, object: u64) {
        self.sync_objects[object].names -= 1;
        self.drop_unreached(cx, object);
    }

    /// The object of an open, if contexts of its process may do this with it.
    // spec: sync §2.2, sync §5
    pub fn usable_sync_object(&self, open: SyncOpenNumber, what: PointUse) -> Result<u64, Refusal> {
        let open = &self.sync_opens[open];
        let wanted = what.access();
        if !open.access.contains(wanted) {
            return Err(access_denied(format!("the NT handle that it was opened by does not give {wanted:?}")));
        }
        Ok(open.object)
    }

    fn drop_unreached(&mut self, cx: &mut Cx<'_>, object: u64) {
        let known = &self.sync_objects[object];
        if known.opens == 0 && known.names == 0 {
            self.destroy_sync_object(cx, object);
        }
    }
}
