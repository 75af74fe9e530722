//! The log of a flip queue (sync §4.6): a ring of entries in the kernel's own memory, which the display writes and the kernel reads: at
//! the interrupts that it has asked for, and before it decides something that depends on what is on the screen.

use ddi::{FLIP_CANCELLED, FLIP_LOG_ENTRY_BYTES, PlaneVsync, SetFlipQueueLogBuffer};
use events::Event;
use kmt_calls::Refusal;
use shared_words::Word;
use wddm_types::{PAGE_BYTES, Pages, VidPnTargetId};

use super::queue::LAYER;
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::refusal::{from_driver, no_memory};

/// Entries of a log: a page of them.
// CAST: a page is small.
pub(super) const ENTRIES: u32 = (PAGE_BYTES / FLIP_LOG_ENTRY_BYTES) as u32;

impl Adapter {
    /// A source gets a mode: its queue is empty, its log begins.
    // spec: sync §5, SetFlipQueueLogBuffer
    pub(super) fn begin_flip_queue(&mut self, source: usize) -> Result<(), Refusal> {
        if self.displays.hardware.is_none() {
            return Ok(());
        }
        self.make_kernel_room(Pages(1));
        let known = &mut self.displays.sources[source];
        let name = known.path.source;
        if known.queue.log.is_none() {
            known.queue.log = self.driver.pages().take(Pages(1));
        }
        let run = known.queue.log.ok_or_else(|| no_memory("no system memory left for the logs of displays"))?;
        known.queue.begin();
        self.memory.fill(run.first * PAGE_BYTES, PAGE_BYTES, 0);
        let buffer = Some((run.first * PAGE_BYTES, ENTRIES));
        let set = SetFlipQueueLogBuffer { source: name, layer: LAYER, buffer };
        self.flip_queue().set_flip_queue_log_buffer(set).map_err(from_driver)
    }

    /// The mode of a source is over: reads the log once more.
    pub(super) fn end_flip_queue(&mut self, cx: &mut Cx<'_>, source: usize) {
        if self.displays.hardware.is_none() || self.stopped.is_some() {
            return;
        }
        self.read_flip_log(cx, source);
        let set =
            SetFlipQueueLogBuffer { source: self.displays.sources[source].path.source, layer: LAYER, buffer: None };
        if let Err(status) = self.flip_queue().set_flip_queue_log_buffer(set) {
            self.stop(cx, format!("SetFlipQueueLogBuffer of no buffer failed: {status}"));
        }
    }

    /// Interrupt 18: a vertical blank of a target, or, with HsyncFlipCompletion, an immediate flip that is carried out.
    // spec: sync §2.8, sync §5
    pub fn planes_blank(&mut self, cx: &mut Cx<'_>, target: VidPnTargetId, planes: &[PlaneVsync], immediate: bool) {
        let Some(source) = self.source_of_target(cx, target) else { return };
        if self.displays.hardware.is_none() {
            return self.stop(cx, format!("target {} has no flip queue, and tells of one", target.0));
        }
        if self.displays.sources[source].mode.is_none() {
            return;
        }
        cx.emit(
            self.index,
            Event::DisplayInterrupted { source: self.displays.sources[source].path.source.0, immediate },
        );
        for plane in planes {
            if plane.layer != LAYER {
                // Bug check 0x119, parameter 0xE.
                return self.stop(cx, format!("a vertical blank of plane {} of target {}", plane.layer, target.0));
            }
            self.read_entries(cx, source, plane.first_free_log_entry);
        }
        if !immediate {
            self.answer_blank(cx, source);
        }
        self.pump_displays(cx);
    }

    /// Reads the logs if a call or a packet waits for a flip. Whether flips have come to an end.
    pub fn read_awaited_flips(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.displays.hardware.is_none() || !self.awaits_flips() {
            return false;
        }
        self.read_flip_logs(cx)
    }

    /// Reads the logs of all sources. Whether flips have come to an end.
    pub(super) fn read_flip_logs(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut ended = false;
        for source in 0..self.displays.sources.len() {
            ended |= self.read_flip_log(cx, source);
        }
        ended
    }

    /// The same of one source.
    pub(super) fn read_flip_log(&mut self, cx: &mut Cx<'_>, source: usize) -> bool {
        let known = &self.displays.sources[source];
        let (name, handed) = (known.path.source, known.handed);
        if self.displays.hardware.is_none() || handed == 0 || self.stopped.is_some() || !self.is_awake() {
            return false;
        }
        let first_free = self.flip_queue().update_flip_queue_log(name, LAYER);
        self.read_entries(cx, source, first_free);
        self.displays.sources[source].handed != handed
    }

    /// Reads up to an entry.
    fn read_entries(&mut self, cx: &mut Cx<'_>, source: usize, first_free: u32) {
        let name = self.displays.sources[source].path.source.0;
        if first_free >= ENTRIES {
            return self.stop(cx, format!("the log of source {name} has no entry {first_free}"));
        }
        while self.stopped.is_none() && self.displays.sources[source].queue.read != first_free {
            let queue = &mut self.displays.sources[source].queue;
            let log = queue.log.expect("a source with a mode has a log");
            let at = log.first * PAGE_BYTES + u64::from(queue.read) * FLIP_LOG_ENTRY_BYTES;
            queue.read = (queue.read + 1) % ENTRIES;
            let [present_id, time] = [at, at + 8].map(|at| Word::load(self.memory.word(at)));
            self.flip_logged(cx, source, present_id, time);
        }
    }

    /// An entry: the oldest flip that the driver has is shown, or a newer one's time had come and it never is.
    // spec: sync §4.6
    fn flip_logged(&mut self, cx: &mut Cx<'_>, source: usize, present_id: u64, time: u64) {
        let known = &self.displays.sources[source];
        let name = known.path.source.0;
        let Some(flip) = known.flips.iter().take(known.handed).next().filter(|flip| flip.present_id == present_id)
        else {
            return self
                .stop(cx, format!("the log of source {name} tells of flip {present_id}, which is not the next"));
        };
        let (number, interval) = (flip.number, flip.interval);
        cx.emit(self.index, Event::FlipLogged { source: name, flip: number, at_ticks: time });
        if time == FLIP_CANCELLED {
            let known = &mut self.displays.sources[source];
            known.handed -= 1;
            let flip = known.flips.pop_front().expect("just seen");
            self.packets.flips.cancel(flip.primary);
            self.free_held_queues();
            return self.drop_flip(cx, flip);
        }
        let period = known.period(self.displays.hardware.as_ref().expect("it has a log"));
        let last = &mut self.displays.sources[source].queue.last;
        *last = match *last {
            // Intervals count from the blank before it.
            Some(blank) if interval == 0 => Some(blank + time.saturating_sub(blank) / period * period),
            None if interval == 0 => None,
            _ => Some(time),
        };
        self.flip_shown(cx, source, interval == 0);
    }
}
