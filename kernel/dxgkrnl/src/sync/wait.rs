//! Waits for fences, and the values that end them: which are registered, which a value ends, and what is to be published for those that
//! are left (sync §3.8, §3.9). The driver is told of it by `adapter/fence`, and `adapter/sync.rs` lets the waiters go on.

use std::collections::BTreeSet;

use events::Event;
use gpu_fence::{FenceId, FenceKind, MonitoredUpdate, Party, Sampled, WaitMode, WaitOutcome};
use kmt_calls::{Refusal, SignalFlags};
use shared_words::Memory;
use wddm_types::{FencePoint, ProcessId};

use super::Fence;
use super::cross::News;
use super::{Synchronization, Waiter};
use crate::effect::Cx;
use crate::number::{DeviceNumber, FenceNumber, PacketContextNumber, QueueNumber, UpdateContext};
use crate::refusal::invalid;
use crate::store::ObjectNumber;

/// An object whose waits end with it, whatever fences of others they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsOf {
    /// The threads of a device.
    Device(DeviceNumber),
    /// A queue that the kernel feeds.
    Queue(QueueNumber),
    /// A packet context.
    Packets(PacketContextNumber),
    /// The updates of a context's tile mappings.
    Updates(UpdateContext),
    /// The paging ring.
    Ring,
}

impl WaitsOf {
    /// The party for it: objects of two kinds may have one number.
    fn party(self) -> Party {
        let (kind, number) = match self {
            WaitsOf::Device(number) => (0, number.raw()),
            WaitsOf::Queue(number) => (1, number.raw()),
            WaitsOf::Packets(number) => (2, number.raw()),
            WaitsOf::Updates(UpdateContext::Hardware(number)) => (3, number.raw()),
            WaitsOf::Updates(UpdateContext::Packets(number)) => (4, number.raw()),
            WaitsOf::Ring => (5, 0),
        };
        debug_assert!(number < 1 << 60, "numbers rise one by one: {self:?}");
        Party(number << 3 | kind)
    }
}

/// A native fence that has passed a waiter's value, and whose driver has told nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreportedFence {
    /// The fence.
    pub fence: FenceNumber,
    /// Its CurrentValue.
    pub current: u64,
    /// Its MonitoredValue.
    pub monitored: u64,
}

/// The object whose end ends a wait. Waits for work of the adapter's own end with that work.
fn waits_of(waiter: &Waiter) -> Option<WaitsOf> {
    Some(match *waiter {
        Waiter::Answer { device, .. } | Waiter::Event { device, .. } => WaitsOf::Device(device),
        Waiter::Queue { queue, .. } => WaitsOf::Queue(queue),
        Waiter::Packets { context } => WaitsOf::Packets(context),
        Waiter::Update { context } => WaitsOf::Updates(context),
        Waiter::Ring(_) => WaitsOf::Ring,
        Waiter::Burial | Waiter::Evictions { .. } | Waiter::Render { .. } | Waiter::Lock { .. } => return None,
    })
}

impl Synchronization {
    /// Registers a wait and says what is to be published for it; `None` when it is satisfied at once.
    #[must_use]
    pub fn register_wait(
        &mut self,
        memory: &Memory,
        points: &[FencePoint<FenceId>],
        mode: WaitMode,
        waiter: Waiter,
    ) -> Option<Vec<MonitoredUpdate>> {
        let (fences, numbers) = (&mut self.fences, &self.numbers);
        let mut current = |fence: FenceId| fences[numbers[&fence]].look(memory);
        match self.waits.wait_of(waits_of(&waiter).map(WaitsOf::party), points, mode, &mut current, waiter) {
            WaitOutcome::Satisfied(_) => None,
            WaitOutcome::Pending { updates, .. } => Some(updates),
        }
    }

    /// Ends the waits of an object.
    // spec: sync §3.16, sync §4.4, sync §6 B8
    pub fn end_waits_of(&mut self, ended: WaitsOf) -> Sampled<Waiter> {
        self.waits.end_waits_of(ended.party())
    }

    /// The adapter is stopped: every wait is over.
    pub fn end_all_waits(&mut self) -> Vec<Waiter> {
        let waiting: Vec<FenceId> = self.waits.with_waiters().collect();
        waiting.into_iter().flat_map(|fence| self.waits.always_signaled(fence).released).collect()
    }

    /// Looks at a fence's value, and ends the waits that it satisfies. `None`: the CPU sees no word of it, so that the kernel has no waits
    /// on it, even where the driver names it.
    pub fn sample(&mut self, memory: &Memory, number: FenceNumber) -> Option<Sampled<Waiter>> {
        let fence = &mut self.fences[number];
        fence.slot.on_cpu().then(|| {
            let current = fence.look(memory);
            self.waits.sample(fence.waits, current)
        })
    }

    /// A log says that a fence came to a value. The fence is not read for it. `None`: the log's process may not say so, for the word is
    /// not of the CPU or the fence is not its own alone.
    // spec: sync §3.15
    pub fn reach(&mut self, number: FenceNumber, value: u64) -> Option<Sampled<Waiter>> {
        let fence = &self.fences[number];
        (fence.slot.on_cpu() && !fence.is_shareable()).then(|| self.waits.sample(fence.waits, value))
    }

    /// The fences of updates, with the values; a fence that has gone has none to be told.
    pub fn live_updates(&self, updates: &[MonitoredUpdate]) -> Vec<(FenceNumber, u64)> {
        updates.iter().filter_map(|update| Some((self.number_if_there(update.fence)?, update.value))).collect()
    }

    /// A MonitoredValue is published: the kernel looks at the fence again, for the value may have passed it before.
    // spec: sync §3.9
    pub fn value_published(
        &mut self,
        cx: &mut Cx<'_>,
        memory: &Memory,
        (number, value): (FenceNumber, u64),
    ) -> Sampled<Waiter> {
        cx.emit(self.adapter, Event::MonitoredValueUpdated { fence: number.raw(), value });
        self.tell_others(number, News::Awaited);
        let fence = &mut self.fences[number];
        let current = fence.look(memory);
        self.waits.sample(fence.waits, current)
    }

    /// The values that a signal of the CPU brings fences to, in their order; those that change nothing are none.
    ///
    /// # Errors
    /// Reserved flags, or a value that would take a fence back without being meant to.
    // spec: sync §3.6, sync §6 B4
    pub fn changes_from_cpu(
        &self,
        memory: &Memory,
        points: &[(FenceNumber, u64)],
        flags: SignalFlags,
    ) -> Result<Vec<(FenceNumber, u64)>, Refusal> {
        if !SignalFlags::ALLOW_FENCE_REWIND.contains(flags) {
            return Err(invalid(format!("signal flags {:#x}: from the CPU only AllowFenceRewind", flags.bits())));
        }
        let rewind = flags.contains(SignalFlags::ALLOW_FENCE_REWIND);
        let mut changes: Vec<_> = Vec::with_capacity(points.len());
        for &(number, value) in points {
            if self.fence(number).always_signaled {
                continue;
            }
            let before = changes.iter().rev().find(|(fence, _)| *fence == number).map(|(_, value)| *value);
            let current = before.unwrap_or_else(|| self.current_value(memory, number));
            if value < current && !rewind {
                return Err(invalid(format!("the fence has {current} already, {value} would take it back")));
            }
            // A value that it has already is no change.
            if value != current {
                changes.push((number, value));
            }
        }
        Ok(changes)
    }

    /// The kernel itself stores a value.
    pub fn store(&mut self, memory: &Memory, number: FenceNumber, value: u64) {
        self.fences[number].store(memory, value);
    }

    /// A fence counts as reached for ever. Whether that is new; other adapters are told then.
    // spec: sync §3.16
    #[must_use]
    pub fn seal(&mut self, number: FenceNumber) -> bool {
        let is_new = !std::mem::replace(&mut self.fences[number].always_signaled, true);
        if is_new {
            self.tell_others(number, News::Always);
        }
        is_new
    }

    /// Readers see the largest value of such a fence; its waits end.
    // spec: sync §3.16
    pub fn end_waits_on_sealed(&mut self, number: FenceNumber) -> Sampled<Waiter> {
        let fence = &self.fences[number];
        debug_assert!(fence.always_signaled, "{fence:?}");
        self.waits.always_signaled(fence.waits)
    }

    /// The MonitoredValue that its waits ask for.
    pub fn monitored_value(&self, fence: &Fence) -> u64 {
        self.waits.monitored_value(fence.waits)
    }

    /// The update that publishes a fence's MonitoredValue anew.
    pub fn update_of(&self, fence: &Fence) -> MonitoredUpdate {
        MonitoredUpdate { fence: fence.waits, value: self.monitored_value(fence) }
    }

    /// The least value of a fence that is waited for here.
    pub fn earliest_of(&self, number: FenceNumber) -> Option<u64> {
        self.waits.earliest(self.fences[number].waits)
    }

    /// The least value that is waited for where the fence's signals reach without the processor: what is to be published for it.
    // spec: sync §3.18
    pub fn set_elsewhere(&mut self, number: FenceNumber, elsewhere: Option<u64>) -> Vec<MonitoredUpdate> {
        self.waits.set_elsewhere(self.fences[number].waits, elsewhere)
    }

    /// Everything that a registered wait will let go on, for checks.
    pub fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.waits.waiting()
    }

    /// Whether any wait is registered.
    pub fn has_waits(&self) -> bool {
        self.waits.is_anybody_waiting()
    }

    /// The fences that have waiters.
    pub fn waited_fences(&self) -> impl Iterator<Item = FenceNumber> + '_ {
        self.waits.with_waiters().filter_map(|fence| self.number_if_there(fence))
    }

    /// Those of them that are native.
    pub fn waited_native_fences(&self) -> Vec<FenceNumber> {
        let native = |fence: &FenceId| self.waits.kind(*fence) != FenceKind::Monitored;
        let waited = self.waits.with_waiters().filter(native);
        waited.filter_map(|fence| self.number_if_there(fence)).collect()
    }

    /// Whether a fence is one of them.
    pub fn is_waited_native(&self, number: FenceNumber) -> bool {
        let fence = self.fences[number].waits;
        self.waits.is_waited_for(fence) && self.waits.kind(fence) != FenceKind::Monitored
    }

    /// The native fences that a process sees and others may have, too, and that have waiters.
    pub fn waited_shared_fences(&self, process: ProcessId) -> impl Iterator<Item = FenceNumber> + '_ {
        self.seen.get(&process).into_iter().flatten().copied().filter(|fence| self.is_waited_native(*fence))
    }

    /// Native fences with waiters whose CurrentValue exceeds their MonitoredValue, with both values. When nothing is under way any more
    /// and no interrupt is to come, their driver has neither named them nor said that it does not know.
    // spec: sync §3.10
    pub fn unreported_fences(&self, memory: &Memory) -> Vec<UnreportedFence> {
        let passed = |number: FenceNumber| {
            let fence = &self.fences[number];
            let follows = self.waits.kind(fence.waits) == FenceKind::Native && fence.slot.on_cpu();
            let (current, monitored) = (fence.value(memory), self.waits.monitored_value(fence.waits));
            (follows && current > monitored).then_some(UnreportedFence { fence: number, current, monitored })
        };
        self.waited_native_fences().into_iter().filter_map(passed).collect()
    }

    /// The monitored fences of some processes that the kernel looks at when a GPU may have signalled one, each once: those with waiters,
    /// and all of 32 bits, because two looks at one of these must not lie 2^31 values apart.
    // spec: sync §3.7, sync §1.6
    pub fn monitored_to_look_at(&self, whose: impl Fn(ProcessId) -> bool) -> Vec<FenceNumber> {
        let worth_it = |number: &FenceNumber| {
            let fence = &self.fences[*number];
            self.waits.kind(fence.waits) == FenceKind::Monitored && self.is_open_in(fence, &whose)
        };
        let numbers = self.waited_fences().chain(self.half.iter().copied()).filter(worth_it);
        BTreeSet::from_iter(numbers).into_iter().collect()
    }

    /// Whether one of some processes has a fence open.
    pub fn is_open_in(&self, fence: &Fence, whose: impl Fn(ProcessId) -> bool) -> bool {
        fence.opens.iter().any(|open| whose(self.opens[*open].process))
    }

    /// The devices that have one of these open.
    pub fn devices_of(&self, fences: &[FenceNumber]) -> BTreeSet<DeviceNumber> {
        let opens = fences.iter().flat_map(|fence| &self.fences[*fence].opens);
        opens.filter_map(|open| self.opens[*open].device).collect()
    }
}
