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

use ddi::{DrainNeeded, DriverStatus, EVERY_VSYNC, FlipRefusal, NO_PRESENT_ID, QueueFlip};
use events::Event;
use vidmm::AllocationId;
use wddm_types::{NodeId, PageRun, SegmentId, VidPnSourceId};

use super::source::Source;
use super::{DisplayNews, Displays, Lent};
use crate::breach::Breach;
use crate::driver::EntryPoints;
use crate::number::DeviceNumber;

/// The only plane of a source.
pub(super) const LAYER: u32 = 0;
/// Most flips that are with the driver on a source: the log holds what becomes of all of them.
const DEPTH_MAX: u32 = 64;
const _: () = assert!(DEPTH_MAX < super::log::ENTRIES);

/// The flip queues of an adapter.
#[derive(Clone, Copy)]
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
        let before = self.with_driver().last().map_or(last, |flip| flip.start);
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
        let handed = || self.with_driver();
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
    pub(super) fn of(miniport: &mut EntryPoints<'_>) -> Result<Option<Hardware>, &'static str> {
        let Some(queue) = miniport.again().flip_queue() else {
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

impl Displays {
    /// Whether the hardware's queue of a source takes another flip.
    pub(super) fn may_queue_on_hardware(&self, hardware: &Hardware, source: VidPnSourceId) -> bool {
        let known = &self.sources[source];
        if known.handed >= hardware.depth || known.queue.drain.is_some_and(|drain| !self.drained(source, drain)) {
            return false;
        }
        // Another source waits until all are empty.
        let drains = |other: &Source| other.path.source != source && other.queue.drain == Some(DrainNeeded::AllSources);
        // Until the kernel knows when the blanks are, one flip at a time.
        (known.handed == 0 || known.queue.last.is_some()) && !self.sources.iter().any(drains)
    }

    /// The next flip of a source with its time, whose primary lies here.
    ///
    /// # Errors
    /// The driver does not tell the time.
    pub(super) fn timed_flip(
        &mut self,
        driver: &mut EntryPoints<'_>,
        hardware: &Hardware,
        source: VidPnSourceId,
        (segment, physical_address): (SegmentId, u64),
    ) -> Result<QueueFlip, Breach> {
        let clock = driver.calibrate_gpu_clock(NodeId(0));
        let now = clock.map_err(|status| Breach(format!("CalibrateGpuClock failed: {status}")))?.counter;
        let known = &mut self.sources[source];
        let (half, before) = (known.period(hardware) / 2, known.with_driver().last().map(|flip| flip.start));
        // At once, or before the kernel knows when the blanks are: from now on, but not before the flips that are queued.
        let start = match known.flips[known.handed].interval {
            0 => before.unwrap_or(0),
            _ => known.start_of_next(hardware, now).unwrap_or(0),
        };
        let present_id = known.queue.presents + 1;
        debug_assert!(
            known.with_driver().last().is_none_or(|flip| flip.present_id < present_id),
            "PresentIds rise: {present_id} is next"
        );
        let flip = &mut known.flips[known.handed];
        (flip.start, flip.present_id) = (start, present_id);
        Ok(QueueFlip {
            source,
            layer: LAYER,
            present_id,
            target_flip_time: start.saturating_sub(half),
            segment,
            physical_address,
            allocation: flip.kmd,
            flags: flip.flags(),
        })
    }

    /// Gives the hardware the next flip of a source.
    ///
    /// # Errors
    /// The driver fails.
    // spec: sync §4.6, sync §5
    pub(super) fn queue_on_hardware(&mut self, lent: &mut Lent<'_, '_>, set: QueueFlip) -> Result<(), Breach> {
        let (source, physical_address) = (set.source, set.physical_address);
        let queued = lent.flip_queue().queue_flip(set);
        let known = &mut self.sources[source];
        let (flip, immediate) = (known.flips[known.handed].number, known.flips[known.handed].interval == 0);
        match queued {
            Ok(()) => {
                known.queue.presents += 1;
                known.queue.drain = None;
                known.handed += 1;
                lent.emit(Event::FlipHandedOver { source: source.0, flip, physical_address });
                if immediate {
                    // The hardware has carried it out by now, before the kernel has asked for an interrupt.
                    self.read_flip_log(lent, source)?;
                }
            }
            Err(FlipRefusal::Retry(drain)) if !self.drained(source, drain) => {
                self.sources[source].queue.drain = Some(drain);
                lent.emit(Event::FlipAwaitsDrain { source: source.0, flip });
            }
            // Released kernels take a dump and reset the adapter.
            Err(FlipRefusal::Retry(_)) => {
                lent.tell(DisplayNews::ResetDue(format!("source {} takes no flip, and none is queued", source.0)));
            }
            Err(FlipRefusal::Failed(DriverStatus::InvalidParameter(why))) => {
                lent.tell(DisplayNews::ResetDue(format!("source {} does not take a flip: {why}", source.0)));
            }
            // Bug check 0x119, parameter 0xB.
            Err(FlipRefusal::Failed(status)) => {
                return Err(Breach(format!("SetVidPnSourceAddressWithMultiPlaneOverlay3 failed: {status}")));
            }
        }
        Ok(())
    }

    /// Whether what a flip needs to be empty is.
    fn drained(&self, source: VidPnSourceId, drain: DrainNeeded) -> bool {
        let empty = |source: &Source| source.handed == 0;
        match drain {
            DrainNeeded::Plane | DrainNeeded::AllPlanes => empty(&self.sources[source]),
            DrainNeeded::AllSources => self.sources.iter().all(empty),
        }
    }

    /// Says from which flip on the blanks of a source interrupt. `written`: the primaries that packets wait to write.
    // spec: sync §4.6, InterruptTargetPresentId
    pub fn ask_for_flips(&mut self, driver: &mut EntryPoints<'_>, source: VidPnSourceId, written: &[AllocationId]) {
        let known = &self.sources[source];
        if self.hardware.is_none() || known.mode.is_none() {
            return;
        }
        let excess: Vec<_> = self.presents_above_limit().collect();
        let held = self.held.iter().flat_map(|(_, primaries)| primaries);
        let freed = held.chain(written).copied().collect();
        let wanted = known.wanted(self.flips.shown_on(source.0), &freed, &excess);
        let known = &mut self.sources[source];
        if std::mem::replace(&mut known.queue.target, wanted) != wanted {
            let queue = driver.again().flip_queue().expect("it had flip queues when it started");
            queue.set_interrupt_target_present_id(source, LAYER, wanted);
        }
        if wanted != NO_PRESENT_ID && !std::mem::replace(&mut known.told, true) {
            driver.again().display().expect("it had displays when it started").control_interrupt(source, true);
        }
    }

    /// Whether a call or a hardware queue waits for a flip that the logs may already report.
    pub fn await_flips(&self) -> bool {
        !self.blocked.is_empty() || !self.held.is_empty()
    }

    /// Takes flips back that are with the driver, from the first of a primary on. They wait for their turn again.
    ///
    /// # Errors
    /// The driver took others back, or breaks the contract in the log.
    // spec: sync §4.6, CancelFlips
    pub fn take_flips_back(
        &mut self,
        lent: &mut Lent<'_, '_>,
        source: VidPnSourceId,
        primary: AllocationId,
    ) -> Result<(), Breach> {
        let known = &self.sources[source];
        let first = known.with_driver().find(|flip| flip.primary() == primary).map(|flip| flip.present_id);
        let Some(first) = first else { return Ok(()) };
        let last = known.queue.presents;
        let taken = lent.flip_queue().cancel_flips(source, LAYER, first);
        if taken != 0 && !(first..=last).contains(&taken) {
            // Bug check 0x119, parameter 9.
            return Err(Breach(format!("CancelFlips of {first} to {last} took back {taken}")));
        }
        // The display shows the rest by now, or is about to.
        self.read_flip_log(lent, source)?;
        let known = &mut self.sources[source];
        let kept = known.with_driver().position(|flip| taken != 0 && flip.present_id >= taken);
        let Some(kept) = kept else { return Ok(()) };
        debug_assert!(kept < known.handed, "flip {kept} comes back, {} were handed over", known.handed);
        let (flip, count) = (known.flips[kept].number, known.handed - kept);
        known.handed = kept;
        // CAST: few flips are with a driver.
        lent.emit(Event::FlipsTakenBack { source: source.0, flip, count: count as u32 });
        Ok(())
    }
}
