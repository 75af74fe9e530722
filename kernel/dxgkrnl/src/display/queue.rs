//! The flip queue of the hardware (sync §4.6): flips go to the driver ahead, as many as it takes, each with the time from which it may be
//! shown. Then the kernel sleeps until it needs to hear of one; the log says what became of them (`log`).
//!
//! # Times
//! A flip with an interval of n is due at the blank n periods behind that of the flip before it, or at the next one if that has passed.
//! Its TargetFlipTime is half a period before, so that neither clock has to be exact. The kernel knows when the blanks are from the first
//! flip of a mode that was shown; until then the driver has one flip at a time, for the next blank.
//!
//! # Interrupts
//! Each source names the flip from which on its blanks interrupt: the last that the driver has, or an earlier one, if a waiter needs it:
//! a present for fewer queued flips, a drawing for the surface that the flip replaces, flips for room in the queue. While a call waits
//! for a blank every blank interrupts.

use std::collections::BTreeSet;

use ddi::{
    DrainNeeded, DriverStatus, EVERY_VSYNC, FlipQueue, FlipRefusal, NO_PRESENT_ID, QueueFlip,
    SetVidPnSourceAddressFlags,
};
use events::Event;
use vidmm::AllocationId;
use wddm_types::{NodeId, PageRun};

use super::Source;
use super::flip::Next;
use crate::adapter::Adapter;
use crate::driver::EntryPoints;
use crate::machine::Cx;
use crate::object::DeviceNumber;

/// The only plane of a source.
pub(super) const LAYER: u32 = 0;
/// Most flips that are with the driver on a source: the log holds what becomes of all of them.
const DEPTH_MAX: u32 = 64;
const _: () = assert!(DEPTH_MAX < super::log::ENTRIES);

/// The flip queues of an adapter.
pub(super) struct Hardware {
    /// Flips that a source takes.
    depth: usize,
    /// Ticks of a second of the clock that they go by.
    hz: u64,
}

/// The kernel's state of a source's queue.
#[derive(Default)]
pub(super) struct SourceQueue {
    /// The page of its log, since it first had one.
    pub(super) log: Option<PageRun>,
    /// The next entry of it.
    pub(super) read: u32,
    /// Flips that were handed over since the mode: their PresentIds.
    presents: u64,
    /// The blank at which the last flip was shown, or the last blank before it; of the mode none was yet.
    pub(super) last: Option<u64>,
    /// `InterruptTargetPresentId`: blanks interrupt from this flip on.
    target: u64,
    /// The next flip is taken when this is empty.
    drain: Option<DrainNeeded>,
}

impl SourceQueue {
    /// The same page for the next mode.
    pub(super) fn begin(&mut self) {
        *self = SourceQueue { log: self.log, target: NO_PRESENT_ID, ..SourceQueue::default() };
    }
}

impl Source {
    /// Ticks from one blank to the next.
    pub(super) fn period(&self, hardware: &Hardware) -> u64 {
        let ticks = u128::from(self.path.refresh_ns) * u128::from(hardware.hz) / 1_000_000_000;
        // A clock that is slower than the display counts its blanks.
        u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
    }

    /// The start of the blank that shows the first flip that the driver has not, if it is handed over now. `None`: the kernel does not
    /// know yet when the blanks are.
    // spec: sync §4.6, interval mapping
    fn start_of_next(&self, hardware: &Hardware, now: u64) -> Option<u64> {
        let (last, period) = (self.queue.last?, self.period(hardware));
        let before = self.flips.iter().take(self.handed).next_back().map_or(last, |flip| flip.start);
        let next = last.saturating_add((now.saturating_sub(last) / period + 1).saturating_mul(period));
        let interval = u64::from(self.flips[self.handed].interval);
        Some(before.saturating_add(interval.saturating_mul(period)).max(next))
    }

    /// The flip from which on blanks interrupt. `freed`: the primaries that waiters need free.
    fn wanted(
        &self,
        shown: Option<AllocationId>,
        freed: &BTreeSet<AllocationId>,
        excess: &[(DeviceNumber, u32)],
    ) -> u64 {
        if !self.waiting.is_empty() {
            return EVERY_VSYNC;
        }
        let handed = || self.flips.iter().take(self.handed);
        let Some(mut last) = self.handed.checked_sub(1) else { return NO_PRESENT_ID };
        if self.flips.len() > self.handed && self.queue.drain.is_none() {
            // Half of them are left when there is room for more.
            last /= 2;
        }
        // A primary is free when the flip behind it replaces it.
        let primaries = shown.into_iter().chain(handed().map(|flip| flip.primary));
        let freed = primaries.take(self.handed).position(|primary| freed.contains(&primary));
        let answered = excess.iter().filter_map(|(device, count)| {
            let of_device = handed().enumerate().filter(|(_, flip)| flip.device == *device);
            of_device.map(|(nth, _)| nth).nth((*count as usize).saturating_sub(1))
        });
        let nth = answered.chain(freed).chain([last]).min().expect("there is the last");
        self.flips[nth].present_id
    }
}

impl Hardware {
    /// The driver's flip queue; nothing where a source takes one flip only.
    ///
    /// # Errors
    /// The rule that it broke.
    // spec: sync §4.6, MaxHwQueuedFlips > 1 enables
    pub(super) fn of(miniport: &mut EntryPoints) -> Result<Option<Hardware>, &'static str> {
        let Some(queue) = miniport.flip_queue() else {
            return Err("HWFLIPQUEUE needs the entry points of the flip queue");
        };
        let depth = queue.flip_queue_caps().max_hw_queued_flips.min(DEPTH_MAX) as usize;
        match miniport.calibrate_gpu_clock(NodeId(0)) {
            _ if depth < 2 => Ok(None),
            Ok(clock) if clock.frequency_hz > 0 => Ok(Some(Hardware { depth, hz: clock.frequency_hz })),
            _ => Err("the times of a flip queue need a clock of the adapter"),
        }
    }
}

impl Adapter {
    /// Gives the driver the flips that it takes, and says of which it is to tell.
    pub(super) fn pump_flip_queues(&mut self, cx: &mut Cx<'_>) {
        for source in 0..self.displays.sources.len() {
            while self.stopped.is_none() && !self.recovery.is_due() && self.is_awake() {
                match self.next_queued(cx, source) {
                    Next::Hand(flip) => self.queue_on_hardware(cx, source, flip),
                    Next::Lost => self.lose_flip(cx, source),
                    Next::Wait => break,
                }
            }
        }
        self.ask_for_awaited_flips();
    }

    /// Says of which flips the driver is to tell, now that all has been done that could be.
    pub fn ask_for_awaited_flips(&mut self) {
        if self.displays.hardware.is_some() {
            (0..self.displays.sources.len()).for_each(|source| self.ask_for_flips(source));
        }
    }

    /// Decides about the first flip that the driver has not.
    fn next_queued(&mut self, cx: &mut Cx<'_>, source: usize) -> Next<QueueFlip> {
        let depth = self.displays.hardware.as_ref().expect("its caller looked").depth;
        let known = &self.displays.sources[source];
        let handed = known.handed;
        if handed >= depth
            || handed == known.flips.len()
            || known.queue.drain.is_some_and(|drain| !self.drained(source, drain))
        {
            return Next::Wait;
        }
        // Another source waits until all are empty.
        let drains =
            |(nth, other): (usize, &Source)| nth != source && other.queue.drain == Some(DrainNeeded::AllSources);
        if (handed > 0 && known.queue.last.is_none()) || self.displays.sources.iter().enumerate().any(drains) {
            return Next::Wait;
        }
        let (segment, physical_address) = match self.place_flip(cx, source) {
            Next::Hand(place) => place,
            Next::Wait => return Next::Wait,
            Next::Lost => return Next::Lost,
        };
        let now = match self.driver.calibrate_gpu_clock(NodeId(0)) {
            Ok(clock) => clock.counter,
            Err(status) => {
                self.stop(cx, format!("CalibrateGpuClock failed: {status}"));
                return Next::Wait;
            }
        };
        let hardware = self.displays.hardware.as_ref().expect("as above");
        let known = &self.displays.sources[source];
        let (flip, name) = (&known.flips[handed], known.path.source);
        let (half, before) = (known.period(hardware) / 2, handed.checked_sub(1).map(|nth| known.flips[nth].start));
        // At once, or before the kernel knows when the blanks are: from now on, but not before the flips that are queued.
        let start = match flip.interval {
            0 => before.unwrap_or(0),
            _ => known.start_of_next(hardware, now).unwrap_or(0),
        };
        let flags = match flip.interval {
            0 => SetVidPnSourceAddressFlags::FLIP_IMMEDIATE,
            _ => SetVidPnSourceAddressFlags::FLIP_ON_NEXT_VSYNC,
        };
        let (present_id, allocation) = (known.queue.presents + 1, flip.kmd);
        let flip = &mut self.displays.sources[source].flips[handed];
        (flip.start, flip.present_id) = (start, present_id);
        Next::Hand(QueueFlip {
            source: name,
            layer: LAYER,
            present_id,
            target_flip_time: start.saturating_sub(half),
            segment,
            physical_address,
            allocation,
            flags,
        })
    }

    // spec: sync §4.6, sync §5
    fn queue_on_hardware(&mut self, cx: &mut Cx<'_>, source: usize, set: QueueFlip) {
        let (name, physical_address) = (set.source.0, set.physical_address);
        let queued = self.flip_queue().queue_flip(set);
        let known = &mut self.displays.sources[source];
        let flip = known.flips[known.handed].number;
        match queued {
            Ok(()) => {
                known.queue.presents += 1;
                known.queue.drain = None;
                known.handed += 1;
                let immediate = known.flips[known.handed - 1].interval == 0;
                cx.emit(self.index, Event::FlipHandedOver { source: name, flip, physical_address });
                if immediate {
                    // The hardware has carried it out by now, before the kernel has asked for an interrupt.
                    self.read_flip_log(cx, source);
                }
            }
            Err(FlipRefusal::Retry(drain)) if !self.drained(source, drain) => {
                self.displays.sources[source].queue.drain = Some(drain);
                cx.emit(self.index, Event::FlipAwaitsDrain { source: name, flip });
            }
            // Released kernels take a dump and reset the adapter.
            Err(FlipRefusal::Retry(_)) => {
                self.recovery.fall_due(format!("source {name} takes no flip, and none is queued"));
            }
            Err(FlipRefusal::Failed(DriverStatus::InvalidParameter(why))) => {
                self.recovery.fall_due(format!("source {name} does not take a flip: {why}"));
            }
            // Bug check 0x119, parameter 0xB.
            Err(FlipRefusal::Failed(status)) => {
                self.stop(cx, format!("SetVidPnSourceAddressWithMultiPlaneOverlay3 failed: {status}"));
            }
        }
    }

    /// Whether what a flip needs to be empty is.
    fn drained(&self, source: usize, drain: DrainNeeded) -> bool {
        let empty = |source: &Source| source.handed == 0;
        match drain {
            DrainNeeded::Plane | DrainNeeded::AllPlanes => empty(&self.displays.sources[source]),
            DrainNeeded::AllSources => self.displays.sources.iter().all(empty),
        }
    }

    /// Says from which flip on the blanks of a source interrupt.
    // spec: sync §4.6, InterruptTargetPresentId
    pub(super) fn ask_for_flips(&mut self, source: usize) {
        let known = &self.displays.sources[source];
        if known.mode.is_none() || self.stopped.is_some() {
            return;
        }
        let name = known.path.source;
        let excess: Vec<_> = self.displays.presents_above_limit().collect();
        let wanted = known.wanted(self.packets.flips.shown_on(name.0), &self.awaited_primaries(), &excess);
        let known = &mut self.displays.sources[source];
        if std::mem::replace(&mut known.queue.target, wanted) != wanted {
            self.flip_queue().set_interrupt_target_present_id(name, LAYER, wanted);
        }
        if wanted != NO_PRESENT_ID && !std::mem::replace(&mut self.displays.sources[source].told, true) {
            self.driver.display().expect("it had displays when it started").control_interrupt(name, true);
        }
    }

    /// Primaries that drawings wait for.
    fn awaited_primaries(&self) -> BTreeSet<AllocationId> {
        let held = self.displays.held.iter().flat_map(|(_, primaries)| primaries.iter().copied());
        held.chain(self.primaries_of_waiting_packets()).collect()
    }

    /// Whether a waiter waits for a flip that the logs may already report.
    pub(super) fn awaits_flips(&self) -> bool {
        !self.displays.blocked.is_empty() || !self.awaited_primaries().is_empty()
    }

    /// Takes flips back that are with the driver, from the first of a primary on. They wait for their turn again.
    // spec: sync §4.6, CancelFlips
    pub(super) fn take_flips_back(&mut self, cx: &mut Cx<'_>, source: usize, primary: AllocationId) {
        let known = &self.displays.sources[source];
        let handed = known.flips.iter().take(known.handed);
        let Some(first) = handed.clone().find(|flip| flip.primary == primary).map(|flip| flip.present_id) else {
            return;
        };
        let (last, name) = (known.queue.presents, known.path.source);
        let taken = self.flip_queue().cancel_flips(name, LAYER, first);
        if taken != 0 && !(first..=last).contains(&taken) {
            // Bug check 0x119, parameter 9.
            return self.stop(cx, format!("CancelFlips of {first} to {last} took back {taken}"));
        }
        // The display shows the rest by now, or is about to.
        self.read_flip_log(cx, source);
        let known = &mut self.displays.sources[source];
        let Some(kept) = known.flips.iter().take(known.handed).position(|flip| taken != 0 && flip.present_id >= taken)
        else {
            return;
        };
        let (flip, count) = (known.flips[kept].number, known.handed - kept);
        known.handed = kept;
        // CAST: few flips are with a driver.
        cx.emit(self.index, Event::FlipsTakenBack { source: name.0, flip, count: count as u32 });
    }

    pub(super) fn flip_queue(&mut self) -> &mut dyn FlipQueue {
        self.driver.flip_queue().expect("it had flip queues when it started")
    }
}
