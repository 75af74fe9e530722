//! Waits and signals beyond those of one fence: of several, with events, from several contexts; and the objects that only
//! contexts wait for (sync §2.2, §2.4).

use std::sync::Arc;

use kmt_calls::{
    Call, CreatedSyncObject, EventCall, FenceFlags, OpenSyncObjectRequest, Refusal, Reply, ShareCall, SignalFlags,
    SyncCall, SyncObjectAccess, SyncObjectKind, SyncObjectRequest, WaitFlags,
};
use kmt_link::Link;
use wddm_types::{NtStatus, RawHandle, VidPnTargetId};

use crate::device::Device;
use crate::fence::{Fence, NtHandle};
use crate::{Owned, expect_reply};

/// An event of the operating system: asynchronous waits and the process itself set it.
pub struct Event {
    owned: Owned,
}

impl Event {
    /// An event that is not set. With `manual_reset` it stays set until it is reset; else one wait takes it.
    ///
    /// # Errors
    /// When the process has too many handles.
    pub fn create(link: &Arc<dyn Link>, manual_reset: bool) -> Result<Event, Refusal> {
        let handle =
            expect_reply!(link.call(Call::Event(EventCall::Create { manual_reset }))?, Reply::Handle(handle) => handle);
        let destroy = |event| Call::Event(EventCall::Close { event });
        Ok(Event { owned: Owned { link: Arc::clone(link), handle, destroy } })
    }

    /// Blocks until it is set.
    ///
    /// # Errors
    /// When the kernel has gone.
    pub fn wait(&self) -> Result<(), Refusal> {
        self.owned.link.call(Call::Event(EventCall::Wait { event: self.handle(), block: true })).map(drop)
    }

    /// Whether it is set; takes it then, unless it is reset by hand.
    ///
    /// # Errors
    /// When the kernel has gone.
    pub fn take(&self) -> Result<bool, Refusal> {
        match self.owned.link.call(Call::Event(EventCall::Wait { event: self.handle(), block: false })) {
            Ok(_) => Ok(true),
            Err(refusal) if refusal.status == NtStatus::TIMEOUT => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }

    /// `SetEvent`.
    ///
    /// # Errors
    /// When the kernel has gone.
    pub fn set(&self) -> Result<(), Refusal> {
        self.owned.link.call(Call::Event(EventCall::Set { event: self.handle() })).map(drop)
    }

    /// `ResetEvent`.
    ///
    /// # Errors
    /// When the kernel has gone.
    pub fn reset(&self) -> Result<(), Refusal> {
        self.owned.link.call(Call::Event(EventCall::Reset { event: self.handle() })).map(drop)
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }
}

/// A mutex, semaphore, packet fence or CPU notification: contexts wait for it and signal it, the CPU does neither.
pub struct SyncObject {
    owned: Owned,
    global_share: RawHandle,
}

impl SyncObject {
    /// `D3DKMTOpenSynchronizationObject`: opens a shared object of another process, by its global handle.
    ///
    /// # Errors
    /// When nothing has that handle.
    pub fn open(link: &Arc<dyn Link>, global_share: RawHandle) -> Result<SyncObject, Refusal> {
        SyncObject::opened(link, SyncCall::OpenSynchronizationObject { shared: global_share })
    }

    /// `D3DKMTOpenSyncObjectFromNtHandle`: by the token of an NT handle, with the access that it gives.
    ///
    /// # Errors
    /// When there is no such NT handle; `ACCESS_DENIED` when it gives no access at all.
    pub fn open_from_nt_handle(link: &Arc<dyn Link>, handle: u64) -> Result<SyncObject, Refusal> {
        SyncObject::opened(link, SyncCall::OpenSyncObjectFromNtHandle { handle })
    }

    /// `D3DKMTOpenSyncObjectFromNtHandle2` of an object without a word in memory: the open goes with this device.
    ///
    /// # Errors
    /// As of [`SyncObject::open_from_nt_handle`]; when it is of another adapter, or a fence.
    ///
    /// # Panics
    /// For fences with a word in memory, which [`Device::open_sync_object`] opens.
    pub fn open_for(device: &Device, handle: u64) -> Result<SyncObject, Refusal> {
        let request = OpenSyncObjectRequest { handle, ..OpenSyncObjectRequest::default() };
        let call = SyncCall::OpenSyncObjectFromNtHandle2 { device: device.handle(), request };
        SyncObject::opened(device.link(), call)
    }

    fn opened(link: &Arc<dyn Link>, call: SyncCall) -> Result<SyncObject, Refusal> {
        let handle = expect_reply!(link.call(Call::Sync(call))?, Reply::Handle(handle) => handle);
        Ok(SyncObject::named(link, CreatedSyncObject { object: handle, global_share: RawHandle::NONE }))
    }

    fn named(link: &Arc<dyn Link>, created: CreatedSyncObject) -> SyncObject {
        let destroy = |fence| Call::Sync(SyncCall::DestroySynchronizationObject { fence });
        let owned = Owned { link: Arc::clone(link), handle: created.object, destroy };
        SyncObject { owned, global_share: created.global_share }
    }

    /// The global handle, on the value that created it `Shared` and without NtSecuritySharing; else NONE. It dies with the last open.
    pub fn global_share(&self) -> RawHandle {
        self.global_share
    }

    /// `D3DKMTShareObjects`: a name by which other processes open it, with this access.
    ///
    /// # Errors
    /// When it was not created with NtSecuritySharing; `ACCESS_DENIED` for more access than this open has.
    pub fn share(&self, access: SyncObjectAccess) -> Result<NtHandle, Refusal> {
        let call = Call::Share(ShareCall::ShareObjects { objects: vec![self.handle()], access, name: None });
        let token = expect_reply!(self.owned.link.call(call)?, Reply::NtHandle(token) => token);
        Ok(NtHandle::adopt(Arc::clone(&self.owned.link), token))
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }
}

/// Contexts as a signal names them: [`crate::Context`] and [`crate::VirtualContext`] give their handles.
pub type ContextHandle = RawHandle;

impl Device {
    /// `D3DKMTCreateSynchronizationObject2` for a monitored fence.
    ///
    /// # Errors
    /// As the request's rules say (sync §2.2, §2.3).
    pub fn create_monitored_fence(&self, flags: FenceFlags, initial_value: u64) -> Result<Fence, Refusal> {
        let kind = SyncObjectKind::MonitoredFence { initial_value, engine_affinity: 0 };
        let created = self.request_object(kind, flags)?;
        let created = expect_reply!(created, Reply::MonitoredFence(created) => created);
        Ok(Fence::monitored(Arc::clone(self.link()), created))
    }

    /// The same for a periodic monitored fence: its value is one more `time_100ns` units of 100 ns before each vertical blank of a
    /// target that is shown.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` when the adapter has no displays; `INVALID_PARAMETER` for more than its refresh period; `ACCESS_DENIED` when it
    /// is signalled.
    pub fn create_periodic_fence(
        &self,
        flags: FenceFlags,
        target: VidPnTargetId,
        time_100ns: u64,
    ) -> Result<Fence, Refusal> {
        let kind = SyncObjectKind::PeriodicMonitoredFence { target: target.0, time_100ns, engine_affinity: 0 };
        let created = self.request_object(kind, flags)?;
        let created = expect_reply!(created, Reply::MonitoredFence(created) => created);
        Ok(Fence::monitored(Arc::clone(self.link()), created))
    }

    /// The same for an object without a word in memory.
    ///
    /// # Errors
    /// As the request's rules say.
    ///
    /// # Panics
    /// For monitored fences, which have methods of their own.
    pub fn create_sync_object(&self, kind: SyncObjectKind, flags: FenceFlags) -> Result<SyncObject, Refusal> {
        let created = expect_reply!(self.request_object(kind, flags)?, Reply::SyncObject(created) => created);
        Ok(SyncObject::named(self.link(), created))
    }

    fn request_object(&self, kind: SyncObjectKind, flags: FenceFlags) -> Result<Reply, Refusal> {
        let request = SyncObjectRequest { kind, flags };
        self.link().call(Call::Sync(SyncCall::CreateSynchronizationObject2 { device: self.handle(), request }))
    }

    /// Blocks until one of the fences has reached its value (`WaitAny`).
    ///
    /// # Errors
    /// As of [`Device::wait`].
    pub fn wait_any(&self, points: &[(&Fence, u64)]) -> Result<(), Refusal> {
        self.wait_with(points, None, WaitFlags::WAIT_ANY)
    }

    /// Sets an event once, when the fences have reached their values: all, or one with `WAIT_ANY`.
    ///
    /// # Errors
    /// As of [`Device::wait`].
    pub fn wait_async(&self, points: &[(&Fence, u64)], event: &Event, flags: WaitFlags) -> Result<(), Refusal> {
        self.wait_with(points, Some(event), flags)
    }

    pub(crate) fn wait_with(
        &self,
        points: &[(&Fence, u64)],
        event: Option<&Event>,
        flags: WaitFlags,
    ) -> Result<(), Refusal> {
        let async_event = event.map_or(RawHandle::NONE, Event::handle);
        let points = listed(points);
        let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
            device: self.handle(),
            points,
            async_event,
            flags,
        });
        self.link().call(call).map(drop)
    }

    /// Signals fences from the CPU; with `ALLOW_FENCE_REWIND` also to lower values.
    ///
    /// # Errors
    /// When a value is lower and may not be: nothing has changed.
    pub fn signal_with(&self, points: &[(&Fence, u64)], flags: SignalFlags) -> Result<(), Refusal> {
        let call = Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu {
            device: self.handle(),
            points: listed(points),
            flags,
        });
        self.link().call(call).map(drop)
    }

    /// `D3DKMTSignalSynchronizationObjectFromGpu2`: the fences get their values when all these contexts have come so far.
    ///
    /// # Errors
    /// When a handle is wrong or a fence may not be signalled: nothing has changed.
    pub fn signal_from_gpu(
        &self,
        contexts: &[ContextHandle],
        points: &[(&Fence, u64)],
        flags: SignalFlags,
    ) -> Result<(), Refusal> {
        let (contexts, points) = (contexts.to_vec(), listed(points));
        let call = Call::Sync(SyncCall::SignalSynchronizationObjectFromGpu2 {
            contexts,
            points,
            event: RawHandle::NONE,
            flags,
        });
        self.link().call(call).map(drop)
    }

    /// Sets an event when all these contexts have come so far (`EnqueueCpuEvent`).
    ///
    /// # Errors
    /// As of [`Device::signal_from_gpu`].
    pub fn enqueue_cpu_event(&self, contexts: &[ContextHandle], event: &Event) -> Result<(), Refusal> {
        let (contexts, event, flags) = (contexts.to_vec(), event.handle(), SignalFlags::ENQUEUE_CPU_EVENT);
        let call =
            Call::Sync(SyncCall::SignalSynchronizationObjectFromGpu2 { contexts, points: Vec::new(), event, flags });
        self.link().call(call).map(drop)
    }

    /// `D3DKMTWaitForSynchronizationObject2`: later work of the context is held until it can have all of these. `fence_value` is for the
    /// packet fences among them.
    ///
    /// # Errors
    /// When an object is none that contexts wait for.
    pub fn wait_objects(
        &self,
        context: ContextHandle,
        objects: &[&SyncObject],
        fence_value: u64,
    ) -> Result<(), Refusal> {
        let objects = objects.iter().map(|object| object.handle()).collect();
        self.link()
            .call(Call::Sync(SyncCall::WaitForSynchronizationObject2 { context, objects, fence_value }))
            .map(drop)
    }

    /// `D3DKMTSignalSynchronizationObject2`: signals them when the first context and all others have come so far.
    ///
    /// # Errors
    /// When no context is named, or an object is none of these types.
    pub fn signal_objects(
        &self,
        contexts: &[ContextHandle],
        objects: &[&SyncObject],
        fence_value: u64,
    ) -> Result<(), Refusal> {
        let (first, broadcast) =
            contexts.split_first().map_or((RawHandle::NONE, Vec::new()), |(f, b)| (*f, b.to_vec()));
        let objects = objects.iter().map(|object| object.handle()).collect();
        let (event, flags) = (RawHandle::NONE, SignalFlags::empty());
        let call = Call::Sync(SyncCall::SignalSynchronizationObject2 {
            context: first,
            objects,
            broadcast,
            fence_value,
            event,
            flags,
        });
        self.link().call(call).map(drop)
    }
}

fn listed(points: &[(&Fence, u64)]) -> Vec<(RawHandle, u64)> {
    points.iter().map(|(fence, value)| (fence.handle(), *value)).collect()
}
