//! The log of a flip queue (sync §4.6): a ring of entries in the kernel's own memory, which the display writes and the kernel reads: at
//! the interrupts that it has asked for, and before it decides something that depends on what is on the screen.

use ddi::{FLIP_CANCELLED, FLIP_LOG_ENTRY_BYTES, PlaneVsync, SetFlipQueueLogBuffer};
use events::Event;
use kmt_calls::Refusal;
use shared_words::Word;
use wddm_types::{PAGE_BYTES, PageRun, VidPnSourceId, VidPnTargetId};

use super::queue::LAYER;
use super::{Displays, Lent};
use crate::breach::Breach;
use crate::refusal::{from_driver, no_memory};

/// Entries of a log: a page of them.
// CAST: a page is small.
pub(super) const ENTRIES: u32 = (PAGE_BYTES / FLIP_LOG_ENTRY_BYTES) as u32;

impl Displays {
    /// Whether a source has no page for its log yet.
    pub fn lacks_log(&self, source: VidPnSourceId) -> bool {
        self.sources[source].queue.log.is_none()
    }

    /// A page for the log of a source, from now on.
    pub fn give_log(&mut self, source: VidPnSourceId, page: PageRun) {
        let before = self.sources[source].queue.log.replace(page);
        assert_eq!(before, None, "a source has one log");
    }

    /// A source gets a mode: its queue is empty, its log begins.
    ///
    /// # Errors
    /// It has no page for one, or the driver refuses.
    // spec: sync §5, SetFlipQueueLogBuffer
    pub fn begin_flip_queue(&mut self, lent: &mut Lent<'_, '_>, source: VidPnSourceId) -> Result<(), Refusal> {
        if self.hardware.is_none() {
            return Ok(());
        }
        let queue = &mut self.sources[source].queue;
        let run = queue.log.ok_or_else(|| no_memory("no system memory left for the logs of displays"))?;
        queue.begin();
        lent.memory.fill(run.first * PAGE_BYTES, PAGE_BYTES, 0);
        let buffer = Some((run.first * PAGE_BYTES, ENTRIES));
        let set = SetFlipQueueLogBuffer { source, layer: LAYER, buffer };
        lent.flip_queue().set_flip_queue_log_buffer(set).map_err(from_driver)
    }

    /// The mode of a source is over: reads the log once more, and has the display write it no more.
    pub(super) fn end_flip_queue(&mut self, lent: &mut Lent<'_, '_>, source: VidPnSourceId) -> Result<(), Breach> {
        if self.hardware.is_none() {
            return Ok(());
        }
        let read = self.read_flip_log(lent, source);
        let ended =
            lent.flip_queue().set_flip_queue_log_buffer(SetFlipQueueLogBuffer { source, layer: LAYER, buffer: None });
        read?;
        ended.map_err(|status| Breach(format!("SetFlipQueueLogBuffer of no buffer failed: {status}")))
    }

    /// Interrupt 18: a vertical blank of a target, or, with HsyncFlipCompletion, an immediate flip that is carried out. Whether its
    /// display is on, and may take more flips.
    ///
    /// # Errors
    /// No path leads to the target, it has no flip queue or no such plane, or its log breaks the contract.
    // spec: sync §2.8, sync §5
    pub fn planes_blank(
        &mut self,
        lent: &mut Lent<'_, '_>,
        target: VidPnTargetId,
        planes: &[PlaneVsync],
        immediate: bool,
    ) -> Result<bool, Breach> {
        let source = self.source_of_target(target)?;
        if self.hardware.is_none() {
            return Err(Breach(format!("target {} has no flip queue, and tells of one", target.0)));
        }
        if !self.is_on(source) {
            return Ok(false);
        }
        lent.emit(Event::DisplayInterrupted { source: source.0, immediate });
        for plane in planes {
            if plane.layer != LAYER {
                // Bug check 0x119, parameter 0xE.
                return Err(Breach(format!("a vertical blank of plane {} of target {}", plane.layer, target.0)));
            }
            self.read_entries(lent, source, plane.first_free_log_entry)?;
        }
        if !immediate {
            self.answer_blank(lent, source);
        }
        Ok(true)
    }

    /// Reads the logs of all sources. Whether flips have come to an end.
    ///
    /// # Errors
    /// A log breaks the contract.
    pub fn read_flip_logs(&mut self, lent: &mut Lent<'_, '_>) -> Result<bool, Breach> {
        let mut ended = false;
        for source in self.sources() {
            ended |= self.read_flip_log(lent, source)?;
        }
        Ok(ended)
    }

    /// The same of one source.
    ///
    /// # Errors
    /// Its log breaks the contract.
    pub fn read_flip_log(&mut self, lent: &mut Lent<'_, '_>, source: VidPnSourceId) -> Result<bool, Breach> {
        let handed = self.sources[source].handed;
        if self.hardware.is_none() || handed == 0 || !lent.runs {
            return Ok(false);
        }
        let first_free = lent.flip_queue().update_flip_queue_log(source, LAYER);
        self.read_entries(lent, source, first_free)?;
        Ok(self.sources[source].handed != handed)
    }

    /// Reads up to an entry.
    fn read_entries(&mut self, lent: &mut Lent<'_, '_>, source: VidPnSourceId, first_free: u32) -> Result<(), Breach> {
        if first_free >= ENTRIES {
            return Err(Breach(format!("the log of source {} has no entry {first_free}", source.0)));
        }
        while lent.runs && self.sources[source].queue.read != first_free {
            let queue = &mut self.sources[source].queue;
            debug_assert!(queue.read < ENTRIES, "a log has {ENTRIES} entries, and not entry {}", queue.read);
            let log = queue.log.expect("a source with a mode has a log");
            let at = log.first * PAGE_BYTES + u64::from(queue.read) * FLIP_LOG_ENTRY_BYTES;
            queue.read = (queue.read + 1) % ENTRIES;
            let [present_id, time] = [at, at + 8].map(|at| Word::load(lent.memory.word(at)));
            self.flip_logged(lent, source, present_id, time)?;
        }
        Ok(())
    }

    /// An entry: the oldest flip that the driver has is shown, or a newer one's time had come and it never is.
    // spec: sync §4.6
    fn flip_logged(
        &mut self,
        lent: &mut Lent<'_, '_>,
        source: VidPnSourceId,
        present_id: u64,
        time: u64,
    ) -> Result<(), Breach> {
        let known = &mut self.sources[source];
        let Some(flip) = known.with_driver().next().filter(|flip| flip.present_id == present_id) else {
            let name = source.0;
            return Err(Breach(format!("the log of source {name} tells of flip {present_id}, which is not the next")));
        };
        let (number, interval) = (flip.number, flip.interval);
        lent.emit(Event::FlipLogged { source: source.0, flip: number, at_ticks: time });
        if time == FLIP_CANCELLED {
            known.handed -= 1;
            let flip = known.flips.pop_front().expect("just seen");
            self.flips.cancel(flip.primary);
            self.free_held_queues(lent);
            self.drop_flip(lent, flip);
            return Ok(());
        }
        let period = known.period(self.hardware.as_ref().expect("it has a log"));
        let last = &mut known.queue.last;
        *last = match *last {
            // Intervals count from the blank before it.
            Some(blank) if interval == 0 => Some(blank + time.saturating_sub(blank) / period * period),
            None if interval == 0 => None,
            _ => Some(time),
        };
        self.flip_shown(lent, source, interval == 0);
        Ok(())
    }
}
