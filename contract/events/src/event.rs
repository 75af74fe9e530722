//! The events. Ids are the kernel's own numbers: they name objects in a trace, never resolve to anything.
//!
//! Each declaration says whom the event concerns, between code and fields: `Process(process)`, or `Kernel` where no process may see it: no event
//! can be declared without. CONTRIBUTING.md has the other steps.

use crate::concerned::Concerned;
use crate::movement::{Cause, Move};
use crate::reason::{ContextSchedule, Conversion, DoorbellTaken, PreemptedFor, Stillness};
use serde::{Deserialize, Serialize};
use wddm_types::PageRun;

macro_rules! events {
    ($( $(#[$doc:meta])* $name:ident = $code:literal $whom:ident $(($($of:ident),*))? {
        $( $(#[$field_doc:meta])* $field:ident : $kind:ty ),* $(,)?
    } )*) => {
        /// One event.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[allow(missing_docs)] // each field's meaning stands in the declaration below, which is the documentation's source
        pub enum Event {
            $( $(#[$doc])* $name { $( $(#[$field_doc])* $field: $kind ),* }, )*
        }

        impl Event {
            /// A number of all declarations: it is another one when the name of an event, the order, or a field changes. Programs that send each
            /// other events have the same number.
            pub const FORM: u64 = crate::hash::of_text(concat!($(
                stringify!($name), "{", $( stringify!($field), ":", stringify!($kind), ",", )* "}",
            )*));

            /// The event's name.
            pub const fn name(&self) -> &'static str {
                match self { $( Event::$name { .. } => stringify!($name), )* }
            }

            /// Whom the event concerns, by the number under which the event names it.
            pub const fn concerned(&self) -> Concerned {
                match self { $( Event::$name { $($($of,)*)? .. } => Concerned::$whom $(($(*$of),*))?, )* }
            }

            /// Feeds the event to a hash, field by field in declared order.
            pub(crate) fn feed(&self, hash: &mut crate::hash::TraceHash) {
                match self { $( Event::$name { $( $field ),* } => {
                    hash.number($code);
                    $( crate::hash::Feed::feed($field, hash); )*
                } )* }
            }
        }

        /// The number by which a hash tells the kinds apart, fed before the fields.
        const CODES: &[u64] = &[$($code),*];
    };
}

const _: () = {
    let mut one = 0;
    while one < CODES.len() {
        let mut other = 0;
        while other < one {
            assert!(CODES[one] != CODES[other], "two kinds of events have one code");
            other += 1;
        }
        one += 1;
    }
};

events! {
    /// An adapter has started.
    AdapterStarted = 1 Kernel { adapter: u32, name: String, segments: u32 }
    /// A segment and its capacity in bytes.
    SegmentAdded = 2 Kernel { adapter: u32, segment: u8, aperture: bool, capacity_bytes: u64, page_bytes: u64 }
    /// A process came.
    ProcessCreated = 3 Process(process) { process: u32 }
    /// A process went; everything it had is gone.
    ProcessDied = 4 Process(process) { process: u32 }
    /// A device was created.
    DeviceCreated = 5 Process(process) { process: u32, device: u64 }
    /// A device went into error: `state` as D3DKMT_DEVICEEXECUTION_*.
    DeviceInError = 6 Device(device) { device: u64, state: u32, reason: String }
    /// A device's contexts are taken off the hardware: 1 residency, 2 page-table change, 4 power, 8 content that moves, 16 work without
    /// progress, 32 an engine that is to be reset (bits).
    DeviceSuspended = 7 Device(device) { device: u64, reasons: u32 }
    /// They run again.
    DeviceResumed = 8 Device(device) { device: u64 }
    /// An allocation was created.
    AllocationCreated = 10 Device(device) { device: u64, allocation: u64, size_bytes: u64 }
    /// An allocation was destroyed.
    AllocationDestroyed = 11 Allocation(allocation) { allocation: u64 }
    /// MakeResident was accepted; 0 as value: resident at once.
    MakeResident = 12 Device(device) { device: u64, count: u32, paging_fence_value: u64 }
    /// MakeResident was refused for lack of room.
    MakeResidentRefused = 13 Device(device) { device: u64, bytes_to_trim: u64 }
    /// Evict was accepted.
    Evict = 14 Device(device) { device: u64, count: u32, not_written: bool }
    /// Memory moves: decided now, carried out by the paging work `work` (0: the hardware has nothing to do for it); into or
    /// out of the pages `runs` of the segment, or of system memory if that is 0 (relocations: in pairs, out of the first and
    /// into the second).
    Moved = 15 Allocation(allocation) {
        work: u64, process: u32, allocation: u64, segment: u8, bytes: u64, how: Move, why: Cause, runs: Vec<PageRun>
    }
    /// Resident bytes of a memory segment after a decision.
    ResidentBytes = 16 Kernel { segment: u8, bytes: u64 }
    /// Paging work was queued on a paging queue; it completes `value` of that queue's fence.
    PagingQueued = 17 Work(work) { work: u64, paging_queue: u64, fence: u64, value: u64, in_bytes: u64, out_bytes: u64, held_for: u32 }
    /// A paging buffer was handed to the driver; its progress value on the paging hardware queue.
    PagingSubmitted = 18 Work(work) { work: u64, progress_value: u64, words: u32 }
    /// The kernel saw that the work's fence value was reached.
    PagingCompleted = 19 Work(work) { work: u64 }
    /// A GPU VA range was mapped.
    GpuVaMapped = 20 Process(process) { process: u32, va: u64, size_bytes: u64, allocation: u64 }
    /// A GPU VA range was freed.
    GpuVaFreed = 21 Process(process) { process: u32, va: u64, size_bytes: u64 }
    /// A GPU VA range was reserved.
    GpuVaReserved = 22 Process(process) { process: u32, va: u64, size_bytes: u64 }
    /// Tile mappings of a context (`packets`: of a packet context) changed: its oldest update was applied; `value` of the fence
    /// says when the GPU sees it.
    GpuVaUpdated = 23 Fence(fence) { context: u64, packets: bool, fence: u64, value: u64 }
    /// Allocations were offered: their content may be thrown away.
    Offered = 24 Device(device) { device: u64, count: u32 }
    /// A MakeResident waits until `allocation` is unlocked, which its caller has to do.
    MakeResidentHeld = 29 Device(device) { device: u64, allocation: u64, paging_fence_value: u64 }
    /// WDDM 1: a lock with Discard put another instance behind an allocation; it has so many now.
    AllocationRenamed = 96 Allocation(allocation) { allocation: u64, instances: u32 }
    /// WDDM 1: the driver shows an allocation through a swizzling range.
    SwizzlingRangeAcquired = 97 Allocation(allocation) { allocation: u64, range: u32, private_driver_data: u32 }
    /// WDDM 1: a range was not to be had, and the CPU works on system memory.
    SwizzlingRangeRefused = 98 Allocation(allocation) { allocation: u64, supported: bool }
    /// WDDM 1: the driver no longer shows anything through a swizzling range.
    SwizzlingRangeReleased = 99 Kernel { range: u32 }
    /// WDDM 1: a lock with IgnoreSync and without DonotWait, which one document wants together, is honoured.
    IgnoreSyncAlone = 100 Allocation(allocation) { allocation: u64 }
    /// They were taken back; `lost` of them had lost their content.
    Reclaimed = 25 Device(device) { device: u64, count: u32, lost: u32 }
    /// A device was asked to give memory back: flags as D3DDDI_TRIMRESIDENCYSET_FLAGS.
    TrimRequested = 26 Device(device) { device: u64, flags: u32, bytes: u64 }
    /// A process's budget in a group has changed.
    BudgetChanged = 27 Process(process) { process: u32, local: bool, bytes: u64 }
    /// The page tables of a process leave their frames, uncopied, for those of another (0: of one that is being created).
    TablesEvicted = 70 Process(process) { work: u64, process: u32, bytes: u64, for_process: u32 }
    /// They are written anew, before a device of it runs again.
    TablesRestored = 71 Process(process) { work: u64, process: u32, bytes: u64 }
    /// A leaf table of 64-KB entries gets 4-KB ones, and never 64-KB ones again; from address `va` on. With dual entries it
    /// is one 64-KB page in use that gets them, because a part of it changes.
    LeafTableConverted = 72 Process(process) { work: u64, process: u32, va: u64, size_bytes: u64, why: Conversion }
    /// The kernel quiesces all contexts of a process for a change of its page tables, until the work is done.
    ProcessStandsStill = 73 Process(process) { work: u64, process: u32, why: Stillness }
    /// A hardware queue was created. `owner`: the driver's name of its context, which is the queue's owner on the device.
    QueueCreated = 30 Process(process) { queue: u64, node: u16, user_mode: bool, process: u32, fence: u64, owner: u64 }
    /// A hardware queue was destroyed.
    QueueDestroyed = 31 Queue(queue) { queue: u64 }
    /// A command buffer was submitted by the kernel.
    Submitted = 32 Queue(queue) { queue: u64, progress_value: u64 }
    /// A packet of a kernel-mode queue is held until fences are reached.
    QueueHeld = 33 Queue(queue) { queue: u64, fence: u64, value: u64 }
    /// It goes on.
    QueueReleased = 34 Queue(queue) { queue: u64 }
    /// A doorbell was connected: its process sees the page at this byte offset of the doorbell window.
    DoorbellConnected = 35 Queue(queue) { queue: u64, offset: u64 }
    /// A doorbell was created; `driver_data` is how the driver's private data begin, in which software GPUs have the queue's number.
    DoorbellCreated = 36 Queue(queue) { queue: u64, driver_data: u64 }
    /// A connected doorbell was taken away from its process, which sees a page there that leads nowhere.
    DoorbellDisconnected = 37 Queue(queue) { queue: u64, why: DoorbellTaken }
    /// A fence was created; `current` is the system address of its CurrentValue.
    FenceCreated = 40 Process(process) { process: u32, fence: u64, initial: u64, current: u64 }
    /// A fence was destroyed.
    FenceDestroyed = 41 Fence(fence) { fence: u64 }
    /// Another device opened a shared fence.
    FenceOpened = 48 Process(process) { process: u32, fence: u64, open: u64 }
    /// A device has closed a fence that goes on: others have it open, or it has a name.
    FenceClosed = 49 Process(process) { process: u32, fence: u64, open: u64 }
    /// The CPU signalled a fence.
    FenceSignaledFromCpu = 42 Fence(fence) { fence: u64, value: u64 }
    /// A CPU wait began.
    CpuWaitBegan = 43 Process(process) { process: u32, wait: u64, fence: u64, value: u64 }
    /// A CPU wait ended.
    CpuWaitEnded = 44 Process(process) { process: u32, wait: u64 }
    /// MonitoredValue was published.
    MonitoredValueUpdated = 45 Fence(fence) { fence: u64, value: u64 }
    /// An adapter was told that a cross-adapter fence, which another one signalled, may have this value now.
    CrossAdapterValueArrived = 130 Kernel { adapter: u32, fence: u64, value: u64 }
    /// A native-fence interrupt was dispatched: how many fences or queues it named (0: any), how many waits it released.
    FenceInterrupt = 46 Kernel { adapter: u32, named: u32, looked_at: u32, released: u32 }
    /// A monitored-fence interrupt was dispatched: how many fences were looked at, how many waits that ended.
    MonitoredFenceInterrupt = 80 Kernel { adapter: u32, node: u16, looked_at: u32, released: u32 }
    /// A command buffer of a basic engine has completed, and the fences that the process waits for were looked at.
    MonitoredFencesLookedAt = 81 Process(process) { process: u32, looked_at: u32, released: u32 }
    /// A queue that its process feeds has signalled a fence: an entry of its signal log, with the device's time.
    FenceSignalExecuted = 140 Queue(queue) { queue: u64, fence: u64, value: u64, end: u64 }
    /// It went on behind a wait: an entry of its wait log. `observed`: when the engine met the wait and parked; 0: it did not have to.
    FenceWaitUnblocked = 141 Queue(queue) { queue: u64, fence: u64, value: u64, observed: u64, end: u64 }
    /// While a tool traced, so many entries of a queue's log were overwritten before they were read.
    FenceLogOverrun = 142 Queue(queue) { queue: u64, waits: bool, lost: u64 }
    /// An entry names no fence of its process, or is of the other kind: a process's entry is an allegation.
    FenceLogEntryIgnored = 143 Queue(queue) { queue: u64, waits: bool, position: u64 }
    /// The times of a log go back: its driver is wrong, or its process has written there.
    FenceLogTimeReversed = 144 Queue(queue) { queue: u64, waits: bool, before: u64, end: u64 }
    /// Engines have begun the submission of a queue that its process feeds which brings its progress to this value, at this time of the
    /// node's clock: the log of it is there while a tool wants it.
    SubmissionBegun = 148 Queue(queue) { queue: u64, value: u64, at: u64 }
    /// So many entries of that log were overwritten before they were read.
    SubmissionLogOverrun = 149 Queue(queue) { queue: u64, lost: u64 }
    /// An engine says that it treats a context so from this time of the node's clock on: an entry of its scheduling log. Context 0 is the
    /// kernel's own, for paging. `queue`: the context's only queue; 0: it has several, or none any more.
    ContextScheduled = 180 Process(process) { node: u16, context: u64, process: u32, queue: u64, state: ContextSchedule, at: u64 }
    /// While a tool traced, so many entries of a node's scheduling log were overwritten before they were read.
    SchedulingLogOverrun = 181 Kernel { node: u16, lost: u64 }
    /// An entry names no context that there is, or nothing that a context could be.
    SchedulingLogEntryIgnored = 182 Kernel { node: u16, position: u64 }
    /// A process has submitted a wait for a native fence on a queue that it feeds. It says so itself, and when it recorded the wait.
    FenceWaitQueued = 145 Queue(queue) { queue: u64, fence: u64, value: u64, recorded_ns: u64 }
    /// The same of a signal.
    FenceSignalQueued = 146 Queue(queue) { queue: u64, fence: u64, value: u64, recorded_ns: u64 }
    /// While a tool traces: a wait for a fence, or a signal of one, was submitted to a queue that the kernel feeds. `packets`: it is a packet
    /// context.
    KernelFedFenceQueued = 200 fed(queue, packets) { queue: u64, packets: bool, fence: u64, value: u64, signal: bool }
    /// It is done: the wait holds, or the kernel has given the fence its value.
    KernelFedFenceDone = 201 fed(queue, packets) { queue: u64, packets: bool, fence: u64, value: u64, signal: bool }
    /// At this moment a node's clock, whose times stand in fence logs, showed this.
    GpuClockCalibrated = 147 Kernel { node: u16, frequency_hz: u64, counter: u64 }
    /// An event of a process was set.
    EventSet = 82 Process(process) { process: u32, event: u64 }
    /// A mutex, semaphore, packet fence or CPU notification was created; `kind` as D3DDDI_SYNCHRONIZATIONOBJECT_TYPE.
    SyncObjectCreated = 83 Device(device) { device: u64, object: u64, kind: u32 }
    /// It was destroyed.
    SyncObjectDestroyed = 84 SyncObject(object) { object: u64 }
    /// A process opened one that was there, by a name.
    SyncObjectOpened = 174 Process(process) { process: u32, object: u64, open: u64 }
    /// The context that had a mutex, or the device that created it owned, has gone: it is given up.
    MutexAbandoned = 175 SyncObject(object) { object: u64 }
    /// A process created a keyed mutex.
    KeyedMutexCreated = 190 Process(process) { process: u32, mutex: u64, open: u64 }
    /// A process opened one that was there.
    KeyedMutexOpened = 191 Process(process) { process: u32, mutex: u64, open: u64 }
    /// The process whose handle is `open` owns the mutex from now on: at once, or when it was released with this key.
    KeyedMutexAcquired = 192 Process(process) { process: u32, mutex: u64, open: u64, key: u64 }
    /// It was released; `waits`: so many more wait for it, for this key or another.
    KeyedMutexReleased = 193 Process(process) { process: u32, mutex: u64, key: u64, fence_value: u64, waits: u32 }
    /// The owner has closed the mutex, or has gone: no process can acquire it any more.
    KeyedMutexAbandoned = 194 Kernel { mutex: u64 }
    /// No process has the mutex open any more, and no NT handle names it.
    KeyedMutexDestroyed = 195 Kernel { mutex: u64 }
    /// A context came to a packet that signals it, which let so many contexts go on.
    SyncObjectSignaled = 85 SyncObject(object) { object: u64, released: u32 }
    /// A context is held until it can have such an object.
    ContextHeld = 86 PacketContext(context) { context: u64, object: u64 }
    /// A signal packet will never be carried out: a context that was to come to it has gone.
    SignalDropped = 87 Kernel { fences: u32, objects: u32 }
    /// A queue faulted.
    QueueFaulted = 47 Queue(queue) { queue: u64, va: u64, write: bool, instruction: bool }
    /// A packet context was created: it has lists and is patched, or it has addresses.
    PacketContextCreated = 60 Device(device) { context: u64, device: u64, node: u16, patched: bool }
    /// A packet context was destroyed.
    PacketContextDestroyed = 61 PacketContext(context) { context: u64 }
    /// A packet was queued on a context.
    PacketQueued = 62 PacketContext(context) { context: u64, packet: u64 }
    /// It was handed to the driver; `patched`: addresses were written after its list had been pre-patched.
    PacketStarted = 63 PacketContext(context) { context: u64, packet: u64, node: u16, fence_id: u32, patched: bool }
    /// Not all that its list names fits at once: it runs in so many portions.
    PacketSplit = 115 PacketContext(context) { context: u64, packet: u64, portions: u32 }
    /// One of them was handed over: these bytes of its buffer.
    PortionStarted = 116 PacketContext(context) { context: u64, packet: u64, fence_id: u32, start_offset: u32, end_offset: u32 }
    /// It is done.
    PacketCompleted = 64 PacketContext(context) { context: u64, packet: u64 }
    /// A submission was rejected: it names memory that it may not.
    SubmissionRejected = 65 PacketContext(context) { context: u64, reason: String }
    /// A DMA buffer came or went.
    DmaBufferCreated = 66 PacketContext(context) { context: u64, bytes: u64, segment: u8 }
    /// It went.
    DmaBufferDestroyed = 67 PacketContext(context) { context: u64 }
    /// A process has said how one of its contexts ranks as against all others and among its own. `packets`: it is a packet context.
    ContextPriority = 114 packets_of(context, packets) { context: u64, packets: bool, priority: i32, in_process: i32 }
    /// The kernel asks a node to give back what was handed over. `context`: the one that goes first, or must quiesce; 0 for paging.
    PreemptionRequested = 110 Kernel { node: u16, preemption_fence: u32, why: PreemptedFor, context: u64 }
    /// The node has: so many packets of contexts and paging buffers behind `last_completed` came back.
    Preempted = 111 Kernel { node: u16, preemption_fence: u32, last_completed: u32, packets: u32, paging: u32 }
    /// A packet came back; `fence_id` was its last one. It is handed over again with another.
    PacketPreempted = 112 PacketContext(context) { context: u64, packet: u64, node: u16, fence_id: u32 }
    /// A paging buffer was handed over as a packet; it completes `progress_value` of the paging ring. `again`: it was preempted.
    PagingPacketStarted = 113 Kernel { progress_value: u64, node: u16, fence_id: u32, again: bool }
    /// A call was refused.
    CallRefused = 50 Process(process) { process: u32, call: String, status: u32, reason: String }
    /// A driver broke the contract; its adapter is stopped.
    AdapterStopped = 51 Kernel { adapter: u32, reason: String }
    /// An adapter's hardware failed and was reset: the content of its memory is lost, and so are its devices (memory §8.4).
    AdapterReset = 117 Kernel { adapter: u32, reason: String }
    /// Work of a device did not end, and the node that it ran on was reset; others go on (sync §4.4).
    EngineReset = 126 Device(device) { adapter: u32, node: u16, device: u64 }
    /// A node is to be reset, and its driver says that this resets all of `nodes` (bits): the kernel asks them to preempt (sync §4.4).
    EngineGroupAsked = 131 Kernel { adapter: u32, node: u16, nodes: u64 }
    /// The node gave back its work meanwhile, and is not reset.
    EngineResetCalledOff = 132 Kernel { adapter: u32, node: u16 }
    /// A call of a driver took longer than it may (TdrDdiDelay, sync §4.4): of a facet, or, in a reset, the entry point.
    DriverCallLate = 133 Kernel { adapter: u32, call: String, took_ns: u64 }
    /// Engines were reset under a process too often: it may not use the adapter any more (sync §4.4).
    ProcessBlocked = 127 Process(process) { adapter: u32, process: u32 }
    /// A display shows a primary of a device for the first time: its mode.
    DisplayOn = 150 Kernel { source: u32, device: u64, width: u32, height: u32 }
    /// It is black, and has no mode any more.
    DisplayOff = 151 Kernel { source: u32 }
    /// A flip was queued on a context: `interval` blanks behind the one before; 0: at once.
    FlipQueued = 152 Kernel { context: u64, flip: u64, source: u32, allocation: u64, interval: u32 }
    /// The primary is complete, and the driver was given the address.
    FlipHandedOver = 153 Kernel { source: u32, flip: u64, physical_address: u64 }
    /// The display shows it; `immediate`: not from a vertical blank on.
    FlipShown = 154 Kernel { source: u32, flip: u64, immediate: bool }
    /// It never was shown, and will not be.
    FlipDropped = 155 Kernel { flip: u64 }
    /// A command buffer of a hardware queue is held: it writes a primary that is shown, or about to be.
    QueueHeldForFlip = 156 Queue(queue) { queue: u64, allocation: u64 }
    /// A display interrupted: a vertical blank has begun, or an immediate flip was carried out.
    DisplayInterrupted = 157 Kernel { source: u32, immediate: bool }
    /// The log of a flip queue has said what became of a flip: when it was shown, in ticks of the adapter's clock; 0: it never was, because
    /// the time of a newer one had come.
    FlipLogged = 158 Kernel { source: u32, flip: u64, at_ticks: u64 }
    /// A driver takes a flip only when its flip queue is empty.
    FlipAwaitsDrain = 159 Kernel { source: u32, flip: u64 }
    /// A driver has given so many flips back, from this one on.
    FlipsTakenBack = 160 Kernel { source: u32, flip: u64, count: u32 }
    /// An engine of an adapter has less power from now on, or all of it again (sync §3.17).
    EnginePower = 170 Kernel { adapter: u32, node: u16, low: bool }
    /// An adapter begins to go to sleep, or has woken (memory §1.10).
    PowerChanged = 58 Kernel { adapter: u32, on: bool }
}
