//! The hardware's reports of displays: vertical blanks, and the surface that a display shows from then on.

use events::Event;
use kmt_calls::{Refusal, Reply};
use wddm_types::{VidPnSourceId, VidPnTargetId};

use super::INTERVAL_MAX;
use crate::adapter::Adapter;
use crate::machine::{Answer, Cx, Effect, Token};
use crate::object::DeviceNumber;
use crate::refusal::invalid;

impl Adapter {
    /// Interrupt 3: a vertical blank of a target, or, with HsyncFlipCompletion, an immediate flip that is carried out.
    // spec: sync §2.8, sync §5
    pub fn vertical_blank(&mut self, cx: &mut Cx<'_>, target: VidPnTargetId, address: u64, immediate: bool) {
        let Some(source) = self.source_of_target(cx, target) else { return };
        let known = &mut self.displays.sources[source];
        if known.mode.is_none() {
            return;
        }
        cx.emit(self.index, Event::DisplayInterrupted { source: known.path.source.0, immediate });
        let shown = known.flips.iter().take(known.handed).position(|flip| flip.address == Some(address));
        known.blanks = if shown.is_some() { 0 } else { (known.blanks + u32::from(!immediate)).min(INTERVAL_MAX) };
        for _ in 0..shown.map_or(0, |nth| nth + 1) {
            self.flip_shown(cx, source, immediate);
        }
        if !immediate {
            self.answer_blank(cx, source);
        }
        self.pump_displays(cx);
    }

    pub(super) fn source_of_target(&mut self, cx: &mut Cx<'_>, target: VidPnTargetId) -> Option<usize> {
        let source = self.displays.sources.iter().position(|source| source.path.target == target);
        if source.is_none() {
            // Bug check 0x119, parameter 7.
            self.stop(cx, format!("a vertical blank of target {}, to which no path leads", target.0));
        }
        source
    }

    /// Answers the calls that wait for a blank of a source: this one is theirs.
    pub(super) fn answer_blank(&mut self, cx: &mut Cx<'_>, source: usize) {
        for (token, _) in std::mem::take(&mut self.displays.sources[source].waiting) {
            cx.effects.push(Effect::Answer { token, result: Ok(Reply::Done) });
        }
    }

    /// The oldest flip that the driver has is shown.
    pub(super) fn flip_shown(&mut self, cx: &mut Cx<'_>, source: usize, immediate: bool) {
        let known = &mut self.displays.sources[source];
        let (name, flip) = (known.path.source.0, known.flips.pop_front().expect("the driver has it"));
        known.handed -= 1;
        self.statistics.count_flip(VidPnSourceId(name), true);
        cx.emit(self.index, Event::FlipShown { source: name, flip: flip.number, immediate });
        // The pin of the flip is now that of what is shown.
        if let Some(replaced) = self.packets.flips.show(name, flip.primary) {
            self.vidmm.unpin_displayed(replaced);
        }
        self.free_held_queues();
        self.flip_over(cx, flip.device);
    }

    /// Has a source's blanks interrupt while the kernel needs them.
    pub(super) fn ask_for_blanks(&mut self, source: usize) {
        let known = &mut self.displays.sources[source];
        let counted = known.blanks < INTERVAL_MAX;
        let needed = known.mode.is_some() && (counted || !known.flips.is_empty() || !known.waiting.is_empty());
        if needed == known.told || self.stopped.is_some() {
            return;
        }
        known.told = needed;
        let name = known.path.source;
        self.driver.display().expect("it had displays when it started").control_interrupt(name, needed);
    }

    /// `D3DKMTWaitForVerticalBlankEvent`.
    pub fn wait_for_blank(
        &mut self,
        token: Token,
        device: DeviceNumber,
        source: VidPnSourceId,
    ) -> Result<Answer, Refusal> {
        let source = self.source(source)?;
        if self.displays.sources[source].mode.is_none() {
            return Err(invalid("a display that is off has no vertical blanks"));
        }
        self.displays.sources[source].waiting.push((token, device));
        match self.displays.hardware {
            Some(_) => self.ask_for_flips(source),
            None => self.ask_for_blanks(source),
        }
        Ok(Answer::Later(token))
    }
}
