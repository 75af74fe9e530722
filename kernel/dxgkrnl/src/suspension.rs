//! Quiesced devices: all contexts of a device leave the hardware and come back (sync §4.1, memory §8.6). The code that needs a device
//! quiesced (memory it loses, page tables that change, power) says why, and gets a point of the kernel's own fence after which nothing
//! executes for it. Other modules decide whether a device must quiesce.
//!
//! Suspensions are numbered; the fence has the number up to which all of them are acknowledged. So paging work that stands
//! behind a suspension waits for it like for any other point, and the ring stays one queue.
//!
//! ```text
//!           suspend_device                all contexts acknowledged
//! running ────────────────▶ suspending ───────────────────────────▶ quiesced
//!    ▲                                                                    │
//!    └────────────────────────── resume_device (last reason gone) ◄───────┘
//! ```

use std::collections::{BTreeSet, VecDeque};

use ddi::{DriverStatus, SuspendStatus};
use events::Event;
use gpu_fence::FenceId;
use kmt_calls::DeviceState;
use wddm_types::{FencePoint, ProcessId};

use crate::adapter::Adapter;
use crate::fence::FenceNumber;
use crate::machine::Cx;
use crate::object::{ContextNumber, DeviceNumber};
use crate::packet::PacketContextNumber;
use crate::store::ObjectNumber;

bitflags::bitflags! {
    /// Why a device is quiesced. It runs again when the last reason is gone.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SuspendReasons: u32 {
        /// Its list cannot be resident beside others' (memory §8.2).
        const RESIDENCY = 1 << 0;
        /// Page tables of its process change under it (memory §4.5, §4.6).
        const PAGE_TABLES = 1 << 1;
        /// The adapter loses power (memory §8.4).
        const POWER = 1 << 2;
        /// Content of its list moves and stays on it: within its segment, up to a better one (memory §8.1), or out for a lock
        /// (memory §6.3).
        const RELOCATION = 1 << 3;
        /// Its work makes no progress; a context that acknowledges the suspension is not hung (sync §4.4).
        const TIMEOUT = 1 << 4;
        /// An engine that it uses is about to be reset (sync §4.4).
        const RESET = 1 << 5;
    }
}

/// The suspensions of one adapter.
#[derive(Default)]
pub struct Suspensions {
    /// The kernel's own fence; `None` until the first suspension.
    fence: Option<FenceNumber>,
    issued: u64,
    /// Those not acknowledged, oldest first.
    pending: VecDeque<Suspension>,
}

/// What is to leave the hardware, and says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaving {
    /// The paging ring.
    Ring,
    /// A hardware context.
    Hardware(ContextNumber),
    /// The packets of a context.
    Packets(PacketContextNumber),
}

struct Suspension {
    number: u64,
    /// `None`: the paging ring, which is of no device.
    device: Option<DeviceNumber>,
    /// Contexts whose acknowledgement is still to come.
    contexts: BTreeSet<Leaving>,
    /// How long it has been pending, as the looks count it.
    waited_ns: u64,
    /// It was waited for in vain and is waited for once more.
    again: bool,
    /// Its device's work may take as long as it takes.
    no_timeout: bool,
}

impl Suspensions {
    /// The fence that a pending suspension has.
    fn fence(&self) -> FenceNumber {
        self.fence.expect("the first suspension made it")
    }

    /// Whether some context has not acknowledged.
    pub fn any_pending(&self) -> bool {
        self.pending.iter().any(|pending| !pending.no_timeout)
    }

    /// One more: these contexts of a device, or the ring, are to acknowledge it.
    pub fn add(&mut self, number: u64, device: Option<DeviceNumber>, contexts: BTreeSet<Leaving>, no_timeout: bool) {
        self.pending.push_back(Suspension { number, device, contexts, waited_ns: 0, again: false, no_timeout });
    }

    /// Whether a device, or the ring, is not yet quiesced.
    pub fn awaits(&self, device: Option<DeviceNumber>) -> bool {
        self.pending.iter().any(|pending| pending.device == device)
    }

    /// Contexts that have not acknowledged.
    pub fn waiting(&self) -> impl Iterator<Item = Leaving> + '_ {
        self.pending.iter().flat_map(|pending| pending.contexts.iter().copied())
    }

    /// A context that took too long gets as much time again; false: it has had that.
    pub fn wait_on_for(&mut self, context: Leaving) -> bool {
        let mut may = true;
        for pending in self.pending.iter_mut().filter(|pending| pending.contexts.contains(&context)) {
            may &= !std::mem::replace(&mut pending.again, true);
            pending.waited_ns = 0;
        }
        may
    }

    /// Contexts that have not acknowledged have all their time before them: until now another engine's reset was the reason.
    pub fn wait_anew(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.waited_ns = 0);
    }

    /// Time has passed. Answers with the contexts that have taken too long.
    pub fn overdue(&mut self, passed_ns: u64, delay_ns: u64) -> Vec<Leaving> {
        let mut overdue = BTreeSet::new();
        for pending in self.pending.iter_mut().filter(|pending| !pending.no_timeout) {
            pending.waited_ns += passed_ns;
            if pending.waited_ns >= delay_ns {
                overdue.extend(&pending.contexts);
            }
        }
        overdue.into_iter().collect()
    }
}

impl Adapter {
    /// Takes a device's contexts off the hardware. Answers with the point after which nothing executes for it; `None` when that holds
    /// now. Work that it is given meanwhile is kept.
    // spec: sync §4.1, memory §8.6
    pub fn suspend_device(
        &mut self,
        cx: &mut Cx<'_>,
        number: DeviceNumber,
        reason: SuspendReasons,
    ) -> Option<FencePoint<FenceId>> {
        let device = &mut self.devices[number];
        let was_quiesced = !device.suspended.is_empty();
        device.suspended |= reason;
        if was_quiesced || device.state != DeviceState::Active || self.stopped.is_some() {
            let pending = self.suspensions.pending.iter().rev().find(|pending| pending.device == Some(number));
            return pending.map(|pending| pending.number).map(|value| self.point(self.suspensions.fence(), value));
        }
        let reasons = device.suspended.bits();
        let value = self.next_suspension(cx)?;
        let device = &self.devices[number];
        let contexts: Vec<_> = device.contexts.iter().copied().collect();
        cx.emit(self.index, Event::DeviceSuspended { device: number.raw(), reasons });
        let mut waiting = BTreeSet::new();
        for context in contexts {
            for queue in self.contexts[context].queues.clone() {
                self.vidsch.queues.suspend(self.queues[queue].vidsch);
            }
            let kmd = self.contexts[context].kmd;
            let hardware = self.driver.hardware_queues().expect("checked at adapter start");
            match hardware.suspend_context(kmd, value) {
                Ok(SuspendStatus::Suspended) => {}
                Ok(SuspendStatus::Pending) => {
                    waiting.insert(Leaving::Hardware(context));
                }
                Err(status) => {
                    self.stop(cx, format!("SuspendContext failed: {status}"));
                    return None;
                }
            }
        }
        waiting.extend(self.packets_running(number));
        let device = &self.devices[number];
        let no_timeout = device.queues.iter().any(|queue| self.queues[*queue].no_timeout)
            || device.packet_contexts.iter().any(|context| self.packet_contexts[*context].no_timeout);
        self.suspensions.add(value, Some(number), waiting, no_timeout);
        self.advance_suspensions(cx);
        let reached = self.suspensions.pending.iter().all(|pending| pending.number != value);
        (!reached).then(|| self.point(self.suspensions.fence(), value))
    }

    /// The number of the next suspension; `None`: the adapter stops, because it has no fence for them.
    pub fn next_suspension(&mut self, cx: &mut Cx<'_>) -> Option<u64> {
        if self.suspensions.fence.is_none() {
            match self.create_fence(cx, None, ProcessId::SYSTEM, 0) {
                Ok(fence) => self.suspensions.fence = Some(fence),
                Err(refusal) => {
                    self.stop(cx, format!("no fence for suspensions: {}", refusal.reason));
                    return None;
                }
            }
        }
        self.suspensions.issued += 1;
        Some(self.suspensions.issued)
    }

    /// Takes a reason away; with the last one the contexts go on. Paging work that needed the device quiesced must have completed.
    pub fn resume_device(&mut self, cx: &mut Cx<'_>, number: DeviceNumber, reason: SuspendReasons) {
        if self.devices.get(number).is_some() && reason == SuspendReasons::RESIDENCY {
            self.packets_turn_over(number, true);
        }
        let Some(device) = self.devices.get_mut(number) else { return };
        let was_quiesced = !device.suspended.is_empty();
        device.suspended.remove(reason);
        let running = self.devices[number].state == DeviceState::Active && self.stopped.is_none();
        if !was_quiesced || !self.devices[number].suspended.is_empty() || !running {
            return;
        }
        cx.emit(self.index, Event::DeviceResumed { device: number.raw() });
        self.forget_suspension_of(cx, number);
        for context in self.devices[number].contexts.clone() {
            let kmd = self.contexts[context].kmd;
            self.driver.hardware_queues().expect("checked at adapter start").resume_context(kmd);
            for queue in self.contexts[context].queues.clone() {
                self.vidsch.queues.resume(self.queues[queue].vidsch);
                self.pump_queue(cx, queue);
            }
        }
    }

    /// Suspends a context that is created on a quiesced device.
    pub fn suspend_newcomer(&mut self, context: ContextNumber) -> Result<(), DriverStatus> {
        if self.devices[self.contexts[context].device].suspended.is_empty() {
            return Ok(());
        }
        let kmd = self.contexts[context].kmd;
        let hardware = self.driver.hardware_queues().expect("checked at adapter start");
        // It has no queue yet, so there is nothing to wait for.
        hardware.suspend_context(kmd, self.suspensions.issued).map(|_| ())
    }

    /// The driver acknowledges.
    // spec: sync §4.1
    pub fn context_suspended(&mut self, cx: &mut Cx<'_>, context: u64, suspend_fence: u64) {
        if context >= self.contexts.next_number().raw() {
            self.stop(cx, format!("a suspension of context {context} was acknowledged; there never was one"));
            return;
        }
        // Its driver knows the ring as the context 0.
        let left = if context == 0 { Leaving::Ring } else { Leaving::Hardware(ContextNumber::from_raw(context)) };
        if suspend_fence > self.suspensions.issued {
            // Bug check 0x119, parameter 0x11.
            self.stop(cx, format!("suspension {suspend_fence} was acknowledged and never asked for"));
            return;
        }
        if let Some(pending) = self.suspensions.pending.iter_mut().find(|pending| pending.number == suspend_fence) {
            pending.contexts.remove(&left);
        }
        self.advance_suspensions(cx);
        self.resume_suspended_by_timeout(cx);
    }

    /// A context has gone: no suspension waits for it any more.
    pub fn forget_suspension(&mut self, cx: &mut Cx<'_>, context: Leaving) {
        for pending in &mut self.suspensions.pending {
            pending.contexts.remove(&context);
        }
        self.advance_suspensions(cx);
        self.resume_suspended_by_timeout(cx);
    }

    /// A device is lost or goes on: no suspension waits for its contexts any more.
    pub fn forget_suspension_of(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        for pending in self.suspensions.pending.iter_mut().filter(|pending| pending.device == Some(device)) {
            pending.contexts.clear();
        }
        self.advance_suspensions(cx);
    }

    pub fn advance_suspensions(&mut self, cx: &mut Cx<'_>) {
        let mut reached = None;
        while self.suspensions.pending.front().is_some_and(|pending| pending.contexts.is_empty()) {
            reached = self.suspensions.pending.pop_front().map(|pending| pending.number);
        }
        if let Some(value) = reached {
            self.signal_fence(cx, self.suspensions.fence(), value);
        }
    }
}
