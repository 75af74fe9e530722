//! The calls: handles are resolved in the table of the process that calls, then the adapter does the rest.
//!
//! Every handle is an allegation. One that is unknown, stale, of another process or of another kind is
//! `INVALID_PARAMETER` (memory §9.3), and nothing has changed.

mod allocation;
mod display;
mod escape;
mod event;
mod gpu_va;
mod info;
mod keyed_mutex;
mod lock;
mod name;
mod offer;
mod packet;
mod priority;
mod property;
mod queue;
mod residency;
mod resolve;
mod share;
mod statistics;
mod sync;
mod sync_object;
mod targets;
mod turned;

pub use allocation::CreatedSurface;
pub use share::unname;

use ddi::StandardAllocation;
use kmt_calls::{
    Call, CreateAllocationFlags, CreatedPagingQueue, KeyedMutexCall, NotificationCall, PacketCall, ProcessAccess,
    QueueCall, Refusal, Reply, SectionCall, StatisticsCall, SyncCall,
};
use wddm_types::{AdapterIndex, ProcessId, RawHandle};

use crate::adapter::Adapter;
use crate::call::info::{info, result_of};
use crate::call::turned::Turned;
use crate::cross_adapter::CrossFences;
use crate::features;
use crate::global_handle::GlobalHandles;
use crate::keyed_mutex::KeyedMutexes;
use crate::machine::{Answer, Cx, Machine, Token};
use crate::nt_handle::NtHandles;
use crate::object::{Object, Process};
use crate::quota::{self, Kind, QuotaLeft};
use crate::refusal::{invalid, no_memory};
use crate::scarcity::Lacking;
use crate::section::Sections;

/// Carries out one call.
pub fn dispatch(machine: &mut Machine, cx: &mut Cx<'_>, from: ProcessId, token: Token, call: Call) -> Answer {
    let name = call.name();
    match in_turn(machine, cx, (from, token), quota::needs(&call), |turn, cx| turn.perform(cx, call)) {
        Err(refusal) => Answer::Done(Err(refusal)),
        // Settling may have ended destructions already.
        Ok(Turned { result: Err(refusal), lacking: Some(lacking), memory_changed, .. })
            if memory_changed || machine.is_coming(from, &lacking) =>
        {
            machine.wait_for_memory(from, token, lacking, refusal);
            Answer::Later(token)
        }
        Ok(turned) => turned.told(machine, cx, (from, name)).unwrap_or_else(|refusal| Answer::Done(Err(refusal))),
    }
}

/// Creates what no call asks for, as an object of the process `from`.
// spec: memory §2.7
pub fn create_standard(
    machine: &mut Machine,
    cx: &mut Cx<'_>,
    (from, token): (ProcessId, Token),
    device: RawHandle,
    wanted: StandardAllocation,
) -> Result<CreatedSurface, Refusal> {
    let needs = &[Kind::Handles, Kind::CommittedBytes, Kind::MemoryFiles];
    let turned = in_turn(machine, cx, (from, token), needs, |turn, cx| {
        let mut touched = None;
        let result = turn.create_surface(cx, device, wanted, &mut touched);
        (touched, result)
    })?;
    turned.told(machine, cx, (from, "CreateStandardAllocation"))
}

/// Acts for a process, and settles the adapter that the act touched.
///
/// # Errors
/// The kernel does not know the process.
fn in_turn<T>(
    machine: &mut Machine,
    cx: &mut Cx<'_>,
    (from, token): (ProcessId, Token),
    needs: &[Kind],
    act: impl FnOnce(&mut Turn<'_>, &mut Cx<'_>) -> (Option<AdapterIndex>, Result<T, Refusal>),
) -> Result<Turned<T>, Refusal> {
    let room = machine.room_of(from, needs);
    let process = machine.processes.get_mut(&from);
    let process = process.ok_or_else(|| invalid("the process is not known to the kernel"))?;
    process.handles.allow_more(room.left(Kind::Handles));
    machine.adapters.iter_mut().for_each(|adapter| adapter.room = room);
    let Machine { adapters, nt_handles, globals, cross_fences, sections, keyed_mutexes, .. } = machine;
    let mut turn = Turn {
        process,
        adapters,
        nt_handles,
        globals,
        cross_fences,
        sections,
        keyed_mutexes,
        from,
        token,
        room,
        lacking: None,
    };
    let (touched, result) = act(&mut turn, cx);
    let lacking = turn.lacking;
    // Deferred work belongs to no call, so no quota limits it.
    machine.adapters.iter_mut().for_each(|adapter| adapter.room = QuotaLeft::default());
    let stamp =
        |machine: &Machine| lacking.as_ref().map(|lacking| machine.adapters[lacking.adapter.0 as usize].memory_stamp());
    let before = stamp(machine);
    if let Some(adapter) = touched {
        machine.adapters[adapter.0 as usize].settle(cx);
    }
    let memory_changed = before != stamp(machine);
    Ok(Turned { touched, result, lacking, memory_changed })
}

struct Turn<'a> {
    process: &'a mut Process,
    adapters: &'a mut Vec<Adapter>,
    nt_handles: &'a mut NtHandles,
    globals: &'a mut GlobalHandles,
    cross_fences: &'a mut CrossFences,
    sections: &'a mut Sections,
    keyed_mutexes: &'a mut KeyedMutexes,
    from: ProcessId,
    token: Token,
    room: QuotaLeft,
    /// The call is refused for want of this, and may wait for it.
    lacking: Option<Lacking>,
}

type Performed = (Option<AdapterIndex>, Result<Answer, Refusal>);

impl Turn<'_> {
    /// Performs a call; says which adapter it touched.
    fn perform(&mut self, cx: &mut Cx<'_>, call: Call) -> Performed {
        let mut touched = None;
        if !self.process.handles.has_room(names(&call)) {
            return (None, Err(self.handles_full(names(&call))));
        }
        let room = self.room.take(Kind::SyncObjects, quota::sync_objects(&call));
        if let Err(refusal) = room.and_then(|()| self.room.take(Kind::Queued, quota::packets(&call))) {
            return (None, Err(refusal));
        }
        let result = self.on_kernel(cx, call, &mut touched);
        (touched, result)
    }

    /// Calls that need no adapter.
    fn on_kernel(
        &mut self,
        cx: &mut Cx<'_>,
        call: Call,
        touched: &mut Option<AdapterIndex>,
    ) -> Result<Answer, Refusal> {
        match call {
            Call::EnumAdapters => {
                let named = |adapter: &Adapter| (adapter.luid, adapter.config.name.clone());
                done(Reply::Adapters(self.adapters.iter().map(named).collect()))
            }
            // spec: sync §2.10: hAdapter is 0 for global features
            Call::IsFeatureEnabled { adapter: RawHandle::NONE, feature } => {
                let state = features::global(ddi::FeatureId(feature));
                let state =
                    state.ok_or_else(|| invalid(format!("feature {feature:#x} is an adapter's, or unknown")))?;
                done(Reply::Feature(result_of(state)))
            }
            Call::OpenAdapterFromLuid { luid } => {
                let found = self.adapters.iter().find(|adapter| adapter.luid == luid).map(|adapter| adapter.index);
                let adapter = found.ok_or_else(|| invalid(format!("no adapter has LUID {:#x}", luid.0)))?;
                done(Reply::Handle(self.name(Object::Adapter(adapter))?))
            }
            Call::Statistics(call) => self.on_statistics(cx, &call),
            Call::Event(call) => self.on_event(cx, call),
            call => self.on_adapter(cx, call, touched),
        }
    }

    fn on_adapter(
        &mut self,
        cx: &mut Cx<'_>,
        call: Call,
        touched: &mut Option<AdapterIndex>,
    ) -> Result<Answer, Refusal> {
        match call {
            Call::CloseAdapter { adapter } => {
                let index = self.adapter(adapter)?;
                let devices = self.adapters[index.0 as usize].devices_by_handle(self.from, adapter);
                if devices > 0 {
                    return Err(invalid(format!(
                        "{devices} devices were created by this handle of the adapter: destroy them first"
                    )));
                }
                self.process.handles.remove(adapter);
                done(Reply::Done)
            }
            Call::QueryAdapterInfo { adapter } => {
                let index = self.adapter(adapter)?;
                done(Reply::AdapterInfo(info(&self.adapters[index.0 as usize])))
            }
            Call::IsFeatureEnabled { adapter, feature } => {
                let index = self.adapter(adapter)?;
                if features::global(ddi::FeatureId(feature)).is_some() {
                    return Err(invalid(format!(
                        "feature {feature:#x} is the machine's: it is asked for without an adapter"
                    )));
                }
                let state = self.adapters[index.0 as usize].driver.feature_state(ddi::FeatureId(feature));
                done(Reply::Feature(result_of(state)))
            }
            Call::QueryVideoMemoryInfo { process, adapter, local } => {
                let index = self.adapter(adapter)?;
                let process = self.nt_handles.process(self.from, process, ProcessAccess::QUERY_INFORMATION)?;
                // spec: memory §9.3
                self.adapters[index.0 as usize].life.running()?;
                done(Reply::VideoMemoryInfo(self.adapters[index.0 as usize].video_memory_info(process, local)))
            }
            Call::CreateDevice { adapter } => {
                let index = self.adapter(adapter)?;
                *touched = Some(index);
                self.create_device(cx, (index, adapter))
            }
            Call::DestroyDevice { device } => {
                let (index, number) = self.device(device)?;
                *touched = Some(index);
                let named = self.adapters[index.0 as usize].named_of_device(number);
                self.adapters[index.0 as usize].destroy_device(cx, number);
                self.close_keyed_mutexes_of(cx, (index, number));
                self.forget_all(named);
                done(Reply::Done)
            }
            Call::GetDeviceFault { device } => {
                let (index, number) = self.device(device)?;
                done(Reply::DeviceFault(self.adapters[index.0 as usize].devices[number].fault))
            }
            Call::GetDeviceState { device } => {
                let (index, number) = self.device(device)?;
                done(Reply::DeviceState(self.adapters[index.0 as usize].devices[number].state))
            }
            call => self.on_device(cx, call, touched),
        }
    }

    fn create_device(
        &mut self,
        cx: &mut Cx<'_>,
        (index, handle): (AdapterIndex, RawHandle),
    ) -> Result<Answer, Refusal> {
        let adapter = &mut self.adapters[index.0 as usize];
        adapter.life.awake()?;
        let number = adapter.create_device(cx, (self.from, handle), self.process.terms)?;
        adapter.apply_terms(cx, self.from, self.process.terms);
        match self.process.handles.insert(Object::Device(index, number)) {
            // Its address space and fence words are there when the paging ring has got past their tables.
            Some(handle) => Ok(self.adapters[index.0 as usize].after_ring(cx, self.token, Reply::Handle(handle))),
            None => {
                self.adapters[index.0 as usize].destroy_device(cx, number);
                Err(self.handles_full(1))
            }
        }
    }

    /// Calls on objects of a device.
    fn on_device(
        &mut self,
        cx: &mut Cx<'_>,
        call: Call,
        touched: &mut Option<AdapterIndex>,
    ) -> Result<Answer, Refusal> {
        match call {
            Call::CreatePagingQueue { device, priority, physical_adapter } => {
                let (index, device) = self.live_device(device, touched)?;
                let number =
                    self.adapters[index.0 as usize].create_paging_queue(cx, device, priority, physical_adapter)?;
                let queue = self.name(Object::PagingQueue(index, number))?;
                let adapter = &self.adapters[index.0 as usize];
                let open = adapter.only_open(adapter.paging_queues[number].fence);
                let fence_handle = self.name(Object::Fence(index, open))?;
                let fence = self.adapters[index.0 as usize].created_fence(open, fence_handle, Default::default());
                self.when_mapped(cx, index, Reply::PagingQueue(CreatedPagingQueue { queue, fence }))
            }
            Call::DestroyPagingQueue { queue } => {
                let (index, number) = self.paging_queue(queue)?;
                *touched = Some(index);
                let adapter = &mut self.adapters[index.0 as usize];
                let open = adapter.only_open(adapter.paging_queues[number].fence);
                adapter.destroy_paging_queue(number);
                self.forget(queue, Object::Fence(index, open));
                done(Reply::Done)
            }
            Call::Queue(call) => self.on_queue(cx, call, touched),
            Call::Packet(call) => self.on_packets(cx, call, touched),
            Call::Priority(call) => self.on_priorities(cx, call, touched),
            Call::Display(call) => self.on_display(cx, call, touched),
            Call::Sync(call) => self.on_sync(cx, call, touched),
            Call::KeyedMutex(call) => self.on_keyed_mutex(cx, call),
            Call::Escape(call) => self.escape(call, touched),
            call => self.on_gpu_va(cx, call, touched),
        }
    }

    fn name(&mut self, object: Object) -> Result<RawHandle, Refusal> {
        let named = match object {
            Object::Event(_) | Object::Section(_) => self.process.system_handles.insert(object),
            _ => self.process.handles.insert(object),
        };
        named.ok_or_else(|| self.handles_full(1))
    }

    /// Why so many more handles cannot be had.
    fn handles_full(&self, wanted: usize) -> Refusal {
        let kernels = || no_memory(format!("the process holds {} handles", crate::handle::HANDLES_MAX));
        self.room.refuse(Kind::Handles, wanted as u64).unwrap_or_else(kernels)
    }

    /// Answers when the fence words of a new object are mapped for the GPU.
    fn when_mapped(&mut self, cx: &mut Cx<'_>, index: AdapterIndex, reply: Reply) -> Result<Answer, Refusal> {
        let adapter = &mut self.adapters[index.0 as usize];
        if adapter.fence_words_mapped(self.from) { done(reply) } else { Ok(adapter.after_ring(cx, self.token, reply)) }
    }

    /// Forgets a handle and another of the same object.
    fn forget(&mut self, handle: RawHandle, other: Object) {
        self.process.handles.remove(handle);
        self.process.handles.remove_object(other);
    }

    /// Forgets the handles of objects that have gone with their owner.
    fn forget_all(&mut self, gone: Vec<Object>) {
        gone.into_iter().for_each(|object| self.process.handles.remove_object(object));
    }
}

fn done(reply: Reply) -> Result<Answer, Refusal> {
    Ok(Answer::Done(Ok(reply)))
}

/// Handles that a call needs for what it makes. It is refused for want of them before anything is made, but where the maker
/// takes back what it made itself.
fn names(call: &Call) -> usize {
    match call {
        Call::CreatePagingQueue { .. } | Call::Queue(QueueCall::CreateHwQueue { .. }) => 2,
        Call::Queue(QueueCall::CreateHwContext { .. })
        | Call::Queue(QueueCall::CreateDoorbell { .. })
        | Call::ShareObjects { .. }
        | Call::TakeNtHandle { .. }
        | Call::Statistics(StatisticsCall::OpenProcess { .. })
        | Call::OpenNtHandleFromName { .. }
        | Call::OpenAdapterFromLuid { .. }
        | Call::CreateDevice { .. }
        | Call::Section(SectionCall::Create { .. } | SectionCall::CreateOver { .. })
        | Call::Packet(PacketCall::CreateContext { .. } | PacketCall::CreateContextVirtual { .. })
        | Call::Sync(SyncCall::CreateNativeFence { .. })
        | Call::Sync(SyncCall::CreateSynchronizationObject2 { .. })
        | Call::Sync(SyncCall::OpenNativeFenceFromNtHandle { .. })
        | Call::Sync(SyncCall::OpenSynchronizationObject { .. })
        | Call::Sync(SyncCall::OpenSyncObjectFromNtHandle { .. })
        | Call::Sync(SyncCall::OpenSyncObjectFromNtHandle2 { .. })
        | Call::Event(kmt_calls::EventCall::Create { .. } | kmt_calls::EventCall::CreateTold)
        | Call::KeyedMutex(KeyedMutexCall::Create { .. } | KeyedMutexCall::Open { .. })
        | Call::Notification(NotificationCall::RegisterTrim { .. })
        | Call::Notification(NotificationCall::RegisterBudgetChange { .. }) => 1,
        Call::CreateAllocation { allocations, resource, .. } => {
            let makes_resource = resource.flags.contains(CreateAllocationFlags::CREATE_RESOURCE);
            allocations.len() + usize::from(makes_resource && resource.resource == RawHandle::NONE)
        }
        _ => 0,
    }
}
