//! Calls on synchronization objects: handles become objects of the calling process, and lists are measured (sync §2.4,
//! §3.2–§3.6, §5).

use gpu_fence::LegacyKind;
use kmt_calls::{
    FenceFlags, FencePrivateData, NativeFenceRequest, Refusal, Reply, SignalFlags, SyncCall, SyncObjectKind,
    SyncObjectRequest, WaitFlags,
};
use wddm_types::{AdapterIndex, NtStatus, RawHandle, VidPnTargetId};

use crate::adapter::Adapter;
use crate::call::{Turn, done};
use crate::cross_adapter::Wanted;
use crate::effect::{Answer, Cx};
use crate::machine::cross_adapter;
use crate::number::{DeviceNumber, EventName, FenceNumber, NtHandleNumber, PacketContextNumber, SyncObjectNumber};
use crate::object::Object;
use crate::packet::Signal;
use crate::refusal::invalid;
use crate::store::ObjectNumber;
use crate::sync::{CommonWord, POINTS_MAX, PointUse};

/// `D3DDDI_MAX_BROADCAST_CONTEXT` (sync §0).
const BROADCAST_MAX: usize = 64;

/// The objects that a list of a context's call names.
#[derive(Default)]
struct Listed {
    /// Fences with a word in memory, and values.
    points: Vec<(FenceNumber, u64)>,
    /// Objects without.
    objects: Vec<SyncObjectNumber>,
    /// The value for these.
    fence_value: u64,
}

impl Turn<'_> {
    pub(super) fn on_sync(&mut self, cx: &mut Cx<'_>, call: SyncCall) -> Result<Answer, Refusal> {
        match call {
            SyncCall::CreateNativeFence { device, request } => self.create_native_fence(cx, device, request),
            SyncCall::CreateSynchronizationObject2 { device, request } => {
                let (index, device) = self.live_device(device)?;
                self.create_sync_object(cx, index, device, request)
            }
            SyncCall::DestroySynchronizationObject { fence } => self.destroy_sync_object(cx, fence),
            SyncCall::WaitForSynchronizationObjectFromCpu { device, points, async_event, flags } => {
                self.wait_from_cpu(cx, device, (&points, flags), async_event)
            }
            SyncCall::SignalSynchronizationObjectFromCpu { device, points, flags } => {
                let (index, _) = self.live_device(device)?;
                let points = self.points(cx, index, &points, PointUse::CpuSignal)?;
                self.adapters[index].signal_from_cpu(cx, &points, flags)?;
                done(Reply::Done)
            }
            SyncCall::OpenNativeFenceFromNtHandle { device, request } => {
                let (index, device) = self.live_device(device)?;
                self.open_fence(cx, index, device, request, true)
            }
            SyncCall::OpenSyncObjectFromNtHandle2 { device, request } => {
                let (index, device) = self.live_device(device)?;
                if request.private_data != FencePrivateData::default() {
                    return Err(invalid("OpenSyncObjectFromNtHandle2 has no private data: reserved bytes are 0"));
                }
                self.open_fence(cx, index, device, request, false)
            }
            SyncCall::OpenSyncObjectFromNtHandle { handle } => {
                self.open_by_nt_handle(cx, NtHandleNumber::from_raw(handle))
            }
            SyncCall::OpenSynchronizationObject { shared } => self.open_by_global(cx, shared),
            SyncCall::WaitForSynchronizationObjectFromGpu { context, points } => {
                let (index, number, _) = self.live_packet_context(context)?;
                let Listed { points, objects, fence_value } = self.listed(cx, index, &points, PointUse::GpuWait)?;
                self.adapters[index].packet_wait(cx, number, &points, objects, fence_value)?;
                done(Reply::Done)
            }
            SyncCall::WaitForSynchronizationObject2 { context, objects, fence_value } => {
                let (index, number, _) = self.live_packet_context(context)?;
                let objects = self.sync_objects(index, &objects, PointUse::GpuWait)?;
                self.adapters[index].packet_wait(cx, number, &[], objects, fence_value)?;
                done(Reply::Done)
            }
            SyncCall::SignalSynchronizationObjectFromGpu { context, points } => {
                let (index, contexts) = self.broadcast(&[context])?;
                let listed = self.listed(cx, index, &points, PointUse::GpuSignal)?;
                self.signal(cx, index, &contexts, listed, RawHandle::NONE, SignalFlags::empty())
            }
            SyncCall::SignalSynchronizationObjectFromGpu2 { contexts, points, event, flags } => {
                let (index, contexts) = self.broadcast(&contexts)?;
                let of_event = flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) && points.is_empty();
                let listed =
                    if of_event { Listed::default() } else { self.listed(cx, index, &points, PointUse::GpuSignal)? };
                self.signal(cx, index, &contexts, listed, event, flags)
            }
            SyncCall::SignalSynchronizationObject2 { context, objects, broadcast, fence_value, event, flags } => {
                let contexts: Vec<RawHandle> = std::iter::once(context).chain(broadcast).collect();
                let (index, contexts) = self.broadcast(&contexts)?;
                let of_event = flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) && objects.is_empty();
                let objects =
                    if of_event { Vec::new() } else { self.sync_objects(index, &objects, PointUse::GpuSignal)? };
                let listed = Listed { points: Vec::new(), objects, fence_value };
                self.signal(cx, index, &contexts, listed, event, flags)
            }
        }
    }

    fn create_native_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: RawHandle,
        request: NativeFenceRequest,
    ) -> Result<Answer, Refusal> {
        let (index, device) = self.live_device(device)?;
        let (open, private_data) = match request.flags.contains(FenceFlags::CROSS_ADAPTER) {
            false => self.adapters[index].create_native_fence(cx, device, request, None)?,
            true => {
                let wanted = Wanted { native: true, by_display: false, flags: request.flags };
                cross_adapter::create(cx, (self.cross_fences, self.adapters), index, wanted, |cx, adapter, word| {
                    adapter.create_native_fence(cx, device, request, Some(word))
                })?
            }
        };
        let handle = self.name(Object::Fence(index, open))?;
        let created = self.adapters[index].created_fence(open, handle, private_data);
        self.when_mapped(cx, index, Reply::Fence(created))
    }

    /// Closes what a process opened or made by itself: a legacy object or a fence.
    fn destroy_sync_object(&mut self, cx: &mut Cx<'_>, named: RawHandle) -> Result<Answer, Refusal> {
        if let Some(&Object::Legacy(index, open)) = self.process.handles.get(named) {
            self.about = Some(index);
            self.adapters[index].close_sync_object(cx, open);
            self.process.handles.remove(named);
            return done(Reply::Done);
        }
        let (index, open) = self.fence(named)?;
        self.about = Some(index);
        let adapter = &mut self.adapters[index];
        if !adapter.is_closed_by_process(open) {
            return Err(invalid("the fence belongs to a queue and goes with it"));
        }
        adapter.close_fence(cx, open);
        self.process.handles.remove(named);
        done(Reply::Done)
    }

    /// Has the calling thread, or an event of its process, wait for fences.
    fn wait_from_cpu(
        &mut self,
        cx: &mut Cx<'_>,
        device: RawHandle,
        (points, flags): (&[(RawHandle, u64)], WaitFlags),
        async_event: RawHandle,
    ) -> Result<Answer, Refusal> {
        let (index, device) = self.live_device(device)?;
        let points = match self.points(cx, index, points, PointUse::CpuWait) {
            Ok(points) => points,
            Err(refusal) => return Err(self.refused_wait(index, async_event, refusal)),
        };
        let event = self.some_event(async_event)?;
        self.adapters[index].wait_from_cpu(cx, self.token, device, &points, event, flags)
    }

    fn create_sync_object(
        &mut self,
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        device: DeviceNumber,
        request: SyncObjectRequest,
    ) -> Result<Answer, Refusal> {
        let flags = request.flags;
        let event = match request.kind {
            SyncObjectKind::CpuNotification { event } => Some(self.process.event(event)?),
            _ => None,
        };
        if flags.contains(FenceFlags::SHARED) {
            self.room_for_global()?;
        }
        let (adapter, of) = (&mut self.adapters[index], (self.from, device));
        let open = match request.kind {
            SyncObjectKind::MonitoredFence { initial_value, engine_affinity } => {
                let create = |cx: &mut Cx<'_>, adapter: &mut Adapter, word: Option<CommonWord>| {
                    adapter.create_monitored_fence(cx, device, flags, initial_value, engine_affinity, word)
                };
                let open = match flags.contains(FenceFlags::CROSS_ADAPTER) {
                    false => create(cx, adapter, None)?,
                    true => {
                        let made = |cx: &mut Cx<'_>, adapter: &mut Adapter, word| create(cx, adapter, Some(word));
                        let wanted = Wanted { native: false, by_display: false, flags };
                        cross_adapter::create(cx, (self.cross_fences, self.adapters), index, wanted, made)?
                    }
                };
                let handle = self.name(Object::Fence(index, open))?;
                let created = self.adapters[index].created_monitored_fence(cx, open, handle);
                return self.when_mapped(cx, index, Reply::MonitoredFence(created));
            }
            SyncObjectKind::MutexObject { owned } => {
                adapter.create_sync_object(cx, of, flags, LegacyKind::MutexObject { owned })?
            }
            SyncObjectKind::Semaphore { max_count: max, initial_count: initial } => {
                adapter.create_sync_object(cx, of, flags, LegacyKind::Semaphore { max, initial })?
            }
            SyncObjectKind::Fence { value } => {
                adapter.create_sync_object(cx, of, flags, LegacyKind::Fence { value })?
            }
            SyncObjectKind::CpuNotification { .. } => {
                let name = EventName { process: self.from, number: event.expect("resolved above") };
                adapter.create_cpu_notification(cx, of, flags, name)?
            }
            SyncObjectKind::PeriodicMonitoredFence { target, time_100ns, engine_affinity } => {
                let when = (VidPnTargetId(target), time_100ns);
                let create = |cx: &mut Cx<'_>, adapter: &mut Adapter, word: Option<CommonWord>| {
                    adapter.create_periodic_fence(cx, device, flags, when, engine_affinity, word)
                };
                let open = match flags.contains(FenceFlags::CROSS_ADAPTER) {
                    false => create(cx, adapter, None)?,
                    true => {
                        let made = |cx: &mut Cx<'_>, adapter: &mut Adapter, word| create(cx, adapter, Some(word));
                        let wanted = Wanted { native: false, by_display: true, flags };
                        cross_adapter::create(cx, (self.cross_fences, self.adapters), index, wanted, made)?
                    }
                };
                let handle = self.name(Object::Fence(index, open))?;
                let created = self.adapters[index].created_monitored_fence(cx, open, handle);
                return self.when_mapped(cx, index, Reply::MonitoredFence(created));
            }
            // spec: sync §6 A10
            SyncObjectKind::Other(7) => return Err(invalid("a native fence is created by CreateNativeFence")),
            SyncObjectKind::Other(number) => return Err(invalid(format!("synchronization object type {number}"))),
        };
        done(Reply::SyncObject(self.name_sync_object(index, open, flags)?))
    }

    /// The contexts of a signal, all of one adapter, none twice.
    // spec: sync §2.4
    fn broadcast(&mut self, list: &[RawHandle]) -> Result<(AdapterIndex, Vec<PacketContextNumber>), Refusal> {
        broadcast(list, "context", |handle| self.live_packet_context(handle).map(|(index, number, _)| (index, number)))
    }

    // spec: sync §2.4
    fn signal(
        &mut self,
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        contexts: &[PacketContextNumber],
        listed: Listed,
        event: RawHandle,
        flags: SignalFlags,
    ) -> Result<Answer, Refusal> {
        let known =
            SignalFlags::SIGNAL_AT_SUBMISSION | SignalFlags::ENQUEUE_CPU_EVENT | SignalFlags::ALLOW_FENCE_REWIND;
        if !known.contains(flags) {
            return Err(invalid(format!("signal flags {:#x} are reserved", flags.difference(known).bits())));
        }
        let Listed { points, objects, fence_value } = listed;
        let event = match flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) {
            true if !points.is_empty() || !objects.is_empty() => {
                return Err(invalid("EnqueueCpuEvent signals no objects"));
            }
            true => Some(EventName { process: self.from, number: self.process.event(event)? }),
            false if event != RawHandle::NONE => return Err(invalid("an event without EnqueueCpuEvent")),
            false => None,
        };
        let signal = Signal { points, objects, fence_value, event, flags, fed: Vec::new() };
        self.adapters[index].packet_signal(cx, contexts, signal)?;
        done(Reply::Done)
    }

    /// `hAsyncEvent`: none, or one that there is.
    // spec: sync §5
    /// A wait that `NoWait` forbids sets its event all the same, so that a thread which sleeps for it goes on; no fence changes.
    // spec: sync §2.4
    fn refused_wait(&mut self, index: AdapterIndex, event: RawHandle, refusal: Refusal) -> Refusal {
        if refusal.status == NtStatus::ACCESS_DENIED
            && let Ok(Some(event)) = self.some_event(event)
        {
            self.adapters[index].set_event(event);
        }
        refusal
    }

    pub(super) fn some_event(&mut self, handle: RawHandle) -> Result<Option<EventName>, Refusal> {
        if handle == RawHandle::NONE {
            return Ok(None);
        }
        Ok(Some(EventName { process: self.from, number: self.process.event(handle)? }))
    }

    /// Fences and objects of a context's call. The call has one value for all packet fences.
    // spec: sync §2.4
    fn listed(
        &self,
        cx: &Cx<'_>,
        index: AdapterIndex,
        list: &[(RawHandle, u64)],
        what: PointUse,
    ) -> Result<Listed, Refusal> {
        check_count(list.len())?;
        let mut listed = Listed::default();
        for (handle, value) in list {
            if matches!(self.process.handles.get(*handle), Some(Object::Legacy(..))) {
                let object = self.sync_object(index, *handle, what)?;
                if !listed.objects.is_empty() && listed.fence_value != *value {
                    return Err(invalid("one FenceValue goes for all objects without a word in memory"));
                }
                listed.objects.push(object);
                listed.fence_value = *value;
            } else {
                listed.points.extend(self.points(cx, index, &[(*handle, *value)], what)?);
            }
        }
        Ok(listed)
    }

    fn sync_objects(
        &self,
        index: AdapterIndex,
        list: &[RawHandle],
        what: PointUse,
    ) -> Result<Vec<SyncObjectNumber>, Refusal> {
        check_count(list.len())?;
        list.iter().map(|handle| self.sync_object(index, *handle, what)).collect()
    }

    fn sync_object(&self, index: AdapterIndex, handle: RawHandle, what: PointUse) -> Result<SyncObjectNumber, Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::Legacy(adapter, open)) if *adapter == index => {
                self.adapters[index].usable_sync_object(*open, what)
            }
            Some(Object::Legacy(..)) => Err(invalid("a synchronization object of another adapter")),
            Some(Object::Fence(..)) => Err(invalid("a fence with a word in memory has values of its own")),
            _ => Err(invalid(format!("{handle} is no synchronization object of this process and adapter"))),
        }
    }
}

/// The targets of a broadcast: contexts or queues, all of one adapter, none twice.
// spec: sync §2.4
pub(super) fn broadcast<N: ObjectNumber + PartialEq>(
    list: &[RawHandle],
    kind: &str,
    mut find: impl FnMut(RawHandle) -> Result<(AdapterIndex, N), Refusal>,
) -> Result<(AdapterIndex, Vec<N>), Refusal> {
    if list.is_empty() || list.len() > BROADCAST_MAX {
        return Err(invalid(format!("a call names 1 to {BROADCAST_MAX} {kind}s, not {}", list.len())));
    }
    let (index, _) = find(list[0])?;
    let mut numbers = Vec::with_capacity(list.len());
    for handle in list {
        let (on, number) = find(*handle)?;
        if on != index {
            return Err(invalid(format!("a {kind} of another adapter")));
        }
        if numbers.contains(&number) {
            return Err(invalid(format!("a {kind} is named twice")));
        }
        numbers.push(number);
    }
    Ok((index, numbers))
}

// spec: sync §0
fn check_count(objects: usize) -> Result<(), Refusal> {
    if objects == 0 || objects > POINTS_MAX {
        return Err(invalid(format!("a call names 1 to {POINTS_MAX} objects, not {objects}")));
    }
    Ok(())
}
