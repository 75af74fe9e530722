//! Calls about names of shared objects (memory §2.7, sync §2.2): making and closing NT handles, and what opens a
//! synchronization object by one. Resources are opened where resources are.

use kmt_calls::{OpenSyncObjectRequest, Refusal, Reply, ShareCall, ShareName, SyncObjectAccess};
use wddm_types::{AdapterIndex, GpuVa, ProcessId, RawHandle};

use crate::adapter::Opened;
use crate::call::{Turn, done};
use crate::cross_adapter::CrossFences;
use crate::effect::{Answer, Cx};
use crate::global_handle::Global;
use crate::keyed_mutex::KeyedMutexes;
use crate::machine::adapters::Adapters;
use crate::machine::cross_adapter;
use crate::nt_handle::Shared;
use crate::number::{
    CrossFenceNumber, DeviceNumber, FenceOpenNumber, KeyedMutexNumber, NtHandleNumber, ResourceBodyNumber,
    SyncObjectNumber,
};
use crate::object::Object;
use crate::refusal::{access_denied, invalid, not_supported};
use crate::store::ObjectNumber;

impl Turn<'_> {
    pub(super) fn on_share(&mut self, cx: &mut Cx<'_>, call: ShareCall) -> Result<Answer, Refusal> {
        match call {
            ShareCall::ShareObjects { objects, access, name } => {
                let token = self.share_objects(cx, (&objects, name.as_deref()), access)?;
                done(Reply::NtHandle(token.raw()))
            }
            ShareCall::OpenNtHandleFromName { name, access, sync_object } => {
                self.open_by_name(cx, &name, access, sync_object)
            }
            ShareCall::GetSharedResourceAdapterLuid { share } => {
                let mut adapters = self.adapters.iter();
                let found = adapters.find(|adapter| self.resource_named(adapter.index(), share).is_ok());
                let found = found.ok_or_else(|| invalid(format!("{share:?} names no shared resource")))?;
                done(Reply::Adapters(vec![(found.luid(), found.name().to_owned())]))
            }
            ShareCall::CheckSharedResourceAccess { resource, process } => self.check_access(resource, process),
            ShareCall::TakeNtHandle { handle } => {
                let (object, name) = self.nt_handles.handed_over(NtHandleNumber::from_raw(handle))?;
                self.name_again(object)?;
                let taken = match name {
                    Some(name) => self.nt_handles.share_as(self.from, object, &name),
                    None => self.nt_handles.share(self.from, object, None),
                };
                if taken.is_err() {
                    self.unname(cx, object);
                }
                done(Reply::NtHandle(taken?.raw()))
            }
            ShareCall::CloseNtHandle { handle } => {
                let gone = self.nt_handles.close(self.from, NtHandleNumber::from_raw(handle))?;
                self.unname(cx, gone);
                done(Reply::Done)
            }
        }
    }

    /// The fence of an NT handle for a device. The older call tells nothing of MonitoredValue.
    // spec: sync §3.3, sync §3.13, sync §6 A11
    pub(super) fn open_fence(
        &mut self,
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        device: DeviceNumber,
        request: OpenSyncObjectRequest,
        native: bool,
    ) -> Result<Answer, Refusal> {
        let (fence, access) = match self.nt_handles.named(NtHandleNumber::from_raw(request.handle))? {
            Shared::Fence { adapter, fence, access } if adapter == index => (fence, access),
            Shared::CrossFence { fence, access } => {
                return self.open_cross_fence(cx, (index, device), (fence, access), request, native);
            }
            Shared::Fence { .. } => return Err(invalid("a fence of another adapter, created without CrossAdapter")),
            Shared::SyncObject { adapter, object, access } => {
                if native || adapter != index {
                    return Err(invalid("the NT handle names no native fence, and nothing of this adapter"));
                }
                return self.open_named(cx, adapter, Some(device), (object, access), request);
            }
            Shared::Resource { .. } | Shared::ResourceSet { .. } => {
                return Err(invalid("an NT handle of a resource, not of a synchronization object"));
            }
            Shared::Process { .. } | Shared::Ended => {
                return Err(invalid("an NT handle of a process, not of a synchronization object"));
            }
        };
        let adapter = &mut self.adapters[index];
        let monitored = adapter.is_monitored(fence);
        if monitored && native {
            return Err(invalid("a monitored fence of this adapter: OpenSyncObjectFromNtHandle2 opens it"));
        }
        let opened = adapter.open_shared_fence(cx, device, (fence, access), request)?;
        self.opened_fence(cx, index, opened, monitored, native)
    }

    /// The fence of several adapters: this one may have it already, or comes to it.
    // spec: sync §3.3 step 3, sync §3.13
    fn open_cross_fence(
        &mut self,
        cx: &mut Cx<'_>,
        (index, device): (AdapterIndex, DeviceNumber),
        (cross, access): (CrossFenceNumber, SyncObjectAccess),
        request: OpenSyncObjectRequest,
        native: bool,
    ) -> Result<Answer, Refusal> {
        let adapter = &mut self.adapters[index];
        let opener = adapter.as_opener();
        let (word, flags, native_here) = self.cross_fences.lend(cross, opener);
        if native && !native_here {
            return Err(match opener.has_native_fences {
                true => invalid("a monitored fence of this adapter: OpenSyncObjectFromNtHandle2 opens it"),
                false => not_supported("the adapter has no native fences: OpenSyncObjectFromNtHandle2 opens it"),
            });
        }
        let opened = match adapter.part_in(cross) {
            Some(fence) => adapter.open_shared_fence(cx, device, (fence, access), request)?,
            None => {
                let opened = adapter.join_fence(cx, device, (word, flags, native_here), access, request)?;
                if self.cross_fences.is_always_signaled(cross) {
                    adapter.signal_open_always(cx, opened.0);
                }
                opened
            }
        };
        self.opened_fence(cx, index, opened, !native_here, native)
    }

    fn opened_fence(
        &mut self,
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        (open, private_data): Opened,
        monitored: bool,
        native: bool,
    ) -> Result<Answer, Refusal> {
        let handle = self.name(Object::Fence(index, open))?;
        if monitored {
            let opened = self.adapters[index].created_monitored_fence(cx, open, handle);
            return self.when_mapped(cx, index, Reply::MonitoredFence(opened));
        }
        let mut opened = self.adapters[index].created_fence(open, handle, private_data);
        if !native {
            opened.monitored_va = GpuVa::NULL;
        }
        // spec: sync §1.5 (GPU VA readiness): answered when the addresses are there
        self.when_mapped(cx, index, Reply::Fence(opened))
    }

    /// `D3DKMTShareObjects`: one resource, one synchronization object, or the set in which a resource has its keyed mutex with it.
    // spec: sync §2.2, memory §2.7
    fn share_objects(
        &mut self,
        cx: &mut Cx<'_>,
        (objects, name): (&[RawHandle], Option<&str>),
        access: SyncObjectAccess,
    ) -> Result<NtHandleNumber, Refusal> {
        let object = match *objects {
            [handle] => self.name_one(handle, access)?,
            [resource, keyed_mutex, sync_object] => self.name_set(resource, keyed_mutex, sync_object)?,
            _ => return Err(invalid(format!("one handle names 1 or 3 objects, not {}", objects.len()))),
        };
        let token = self.nt_handles.share(self.from, object, name);
        if token.is_err() {
            // It is open, so that it outlives the name that it did not get.
            self.unname(cx, object);
        }
        token
    }

    /// `D3DKMTCheckSharedResourceAccess`. Every process that the kernel knows may open what has a global handle; a resource that NT handles
    /// name is for the processes that have opened it or have an NT handle of it.
    // spec: memory §2.7
    fn check_access(&self, resource: RawHandle, process: ProcessId) -> Result<Answer, Refusal> {
        let (index, body) = match self.globals.get(resource) {
            Some(Global::Resource { adapter, body }) => (adapter, body),
            _ => {
                let (adapter, number) = self.any_resource(resource)?;
                (adapter, self.adapters[adapter].body_of_resource(number))
            }
        };
        let adapter = &self.adapters[index];
        let by_nt_handle = adapter.is_shared_by_nt_handle(body)?;
        if adapter.has_opened(process, body) || self.nt_handles.has_resource(process, index, body) {
            return done(Reply::Done);
        }
        let number = process.0;
        if process != self.from && !self.adapters.iter().any(|adapter| adapter.knows(process)) {
            return Err(invalid(format!("no adapter knows process {number}; D3DKMTEnumProcesses tells the numbers")));
        }
        match by_nt_handle {
            false => done(Reply::Done),
            true => Err(access_denied(format!(
                "process {number} has neither opened {resource} nor an NT handle of it; share one with it"
            ))),
        }
    }

    pub(super) fn unname(&mut self, cx: &mut Cx<'_>, object: Shared) {
        unname((&mut *self.adapters, self.cross_fences, self.keyed_mutexes), cx, object);
    }

    /// One object has a name more.
    fn name_one(&mut self, handle: RawHandle, access: SyncObjectAccess) -> Result<Shared, Refusal> {
        Ok(match self.process.handles.get(handle) {
            Some(&Object::Fence(adapter, open)) => {
                self.alive_fence(adapter, open)?;
                let (fence, cross) = self.adapters[adapter].share_fence(open, access)?;
                match cross {
                    None => Shared::Fence { adapter, fence, access },
                    Some(cross) => {
                        self.cross_fences.name(cross)?;
                        Shared::CrossFence { fence: cross, access }
                    }
                }
            }
            Some(&Object::Legacy(adapter, open)) => {
                self.about = Some(adapter);
                let known = &mut self.adapters[adapter];
                known.running()?;
                Shared::SyncObject { adapter, object: known.share_sync_object(open, access)?, access }
            }
            _ => {
                let (adapter, body) = self.shareable_resource(handle)?;
                self.adapters[adapter].name_resource(body);
                Shared::Resource { adapter, body }
            }
        })
    }

    fn shareable_resource(&mut self, handle: RawHandle) -> Result<(AdapterIndex, ResourceBodyNumber), Refusal> {
        let (adapter, number) = self.any_resource(handle)?;
        let device = self.adapters[adapter].device_of_resource(number);
        self.alive(adapter, device)?;
        Ok((adapter, self.adapters[adapter].may_share_resource(number)?))
    }

    /// Gives a resource, its keyed mutex and its synchronization object one more name that they share. A process that opens it may do
    /// everything with the synchronization object.
    // spec: sync §2.2 (allowed sets)
    fn name_set(
        &mut self,
        resource: RawHandle,
        keyed_mutex: RawHandle,
        sync_object: RawHandle,
    ) -> Result<Shared, Refusal> {
        let (adapter, body) = self.shareable_resource(resource)?;
        let open = self.keyed_mutex(keyed_mutex)?;
        let keyed_mutex = self.keyed_mutexes.open_of(open).expect("a handle names it").mutex;
        let open = match self.process.handles.get(sync_object) {
            Some(&Object::Legacy(on, open)) if on == adapter => open,
            _ => return Err(invalid("with a resource and its keyed mutex goes an object without a word in memory")),
        };
        self.keyed_mutexes.name(keyed_mutex)?;
        match self.adapters[adapter].share_sync_object(open, SyncObjectAccess::ALL_ACCESS) {
            Ok(sync_object) => {
                self.adapters[adapter].name_resource(body);
                Ok(Shared::ResourceSet { adapter, body, keyed_mutex, sync_object })
            }
            Err(refusal) => {
                self.keyed_mutexes.take_name_back(keyed_mutex);
                Err(refusal)
            }
        }
    }

    /// A shared resource on this adapter.
    pub(super) fn resource_named(&self, index: AdapterIndex, share: ShareName) -> Result<SharedResource, Refusal> {
        let named = |body, with| SharedResource { body, with };
        match share {
            ShareName::Global(handle) => match self.globals.get(handle) {
                Some(Global::Resource { adapter, body }) if adapter == index => Ok(SharedResource { body, with: None }),
                _ => Err(invalid("no resource of this adapter has this global handle")),
            },
            ShareName::NtHandle(handle) => match self.nt_handles.named(NtHandleNumber::from_raw(handle))? {
                Shared::Resource { adapter, body } if adapter == index => Ok(named(body, None)),
                Shared::ResourceSet { adapter, body, keyed_mutex, sync_object } if adapter == index => {
                    Ok(named(body, Some((keyed_mutex, sync_object))))
                }
                Shared::Resource { .. } | Shared::ResourceSet { .. } => Err(invalid("a resource of another adapter")),
                Shared::Fence { .. } | Shared::CrossFence { .. } | Shared::SyncObject { .. } => {
                    Err(invalid("an NT handle of a synchronization object, not of a resource"))
                }
                Shared::Process { .. } | Shared::Ended => Err(invalid("an NT handle of a process, not of a resource")),
            },
        }
    }

    fn alive_fence(&mut self, adapter: AdapterIndex, open: FenceOpenNumber) -> Result<(), Refusal> {
        match self.adapters[adapter].device_of_fence_open(open) {
            Some(device) => self.alive(adapter, device),
            None => Err(invalid("a fence of the kernel's own")),
        }
    }
}

/// A resource as its name says.
pub struct SharedResource {
    /// The body that its devices share.
    pub body: ResourceBodyNumber,
    /// The keyed mutex and the synchronization object that go with it.
    pub with: Option<(KeyedMutexNumber, SyncObjectNumber)>,
}

/// Where what is named is kept.
type Named<'a> = (&'a mut Adapters, &'a mut CrossFences, &'a mut KeyedMutexes);

/// A name of this object has gone.
pub fn unname((adapters, cross_fences, keyed_mutexes): Named<'_>, cx: &mut Cx<'_>, object: Shared) {
    let adapter = match object {
        Shared::Resource { adapter, body } => {
            adapters[adapter].unname_resource(cx, body);
            adapter
        }
        Shared::ResourceSet { adapter, body, keyed_mutex, sync_object } => {
            adapters[adapter].unname_resource(cx, body);
            keyed_mutexes.unname(cx, keyed_mutex);
            adapters[adapter].unname_sync_object(cx, sync_object);
            adapter
        }
        Shared::Fence { adapter, fence, .. } => {
            adapters[adapter].unname_fence(cx, fence);
            adapter
        }
        Shared::CrossFence { fence, .. } => return cross_adapter::unname(cx, (cross_fences, adapters), fence),
        Shared::SyncObject { adapter, object, .. } => {
            adapters[adapter].unname_sync_object(cx, object);
            adapter
        }
        Shared::Process { .. } | Shared::Ended => return,
    };
    adapters[adapter].name_ended(cx);
}
