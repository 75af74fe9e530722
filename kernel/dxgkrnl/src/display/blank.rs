//! The hardware's reports of displays: vertical blanks, and the surface that a display shows from then on.

use events::Event;
use kmt_calls::{Refusal, Reply};
use wddm_types::{VidPnSourceId, VidPnTargetId};

use super::{DisplayNews, Displays, INTERVAL_MAX, Lent};
use crate::breach::Breach;
use crate::driver::EntryPoints;
use crate::effect::{Effect, Token};
use crate::number::DeviceNumber;
use crate::refusal::invalid;

impl Displays {
    /// Interrupt 3: a vertical blank of a target, or, with HsyncFlipCompletion, an immediate flip that is carried out. Whether its
    /// display is on, and may take more flips.
    ///
    /// # Errors
    /// No path leads to the target.
    // spec: sync §2.8, sync §5
    pub fn vertical_blank(
        &mut self,
        lent: &mut Lent<'_, '_>,
        target: VidPnTargetId,
        address: u64,
        immediate: bool,
    ) -> Result<bool, Breach> {
        let source = self.source_of_target(target)?;
        let known = &mut self.sources[source];
        if known.mode.is_none() {
            return Ok(false);
        }
        lent.emit(Event::DisplayInterrupted { source: source.0, immediate });
        let shown = known.with_driver().position(|flip| flip.address == Some(address));
        known.blanks = if shown.is_some() { 0 } else { (known.blanks + u32::from(!immediate)).min(INTERVAL_MAX) };
        for _ in 0..shown.map_or(0, |nth| nth + 1) {
            self.flip_shown(lent, source, immediate);
        }
        if !immediate {
            self.answer_blank(lent, source);
        }
        Ok(true)
    }

    pub(super) fn source_of_target(&self, target: VidPnTargetId) -> Result<VidPnSourceId, Breach> {
        let found = self.sources.iter().find(|source| source.path.target == target).map(|source| source.path.source);
        // Bug check 0x119, parameter 7.
        found.ok_or_else(|| Breach(format!("a vertical blank of target {}, to which no path leads", target.0)))
    }

    /// Answers the calls that wait for a blank of a source: this one is theirs.
    pub(super) fn answer_blank(&mut self, lent: &mut Lent<'_, '_>, source: VidPnSourceId) {
        for (token, _) in std::mem::take(&mut self.sources[source].waiting) {
            lent.cx.effects.push(Effect::Answer { token, result: Ok(Reply::Done) });
        }
    }

    /// The oldest flip that the driver has is shown.
    pub(super) fn flip_shown(&mut self, lent: &mut Lent<'_, '_>, source: VidPnSourceId, immediate: bool) {
        let known = &mut self.sources[source];
        debug_assert!(known.mode.is_some(), "source {} is off, and shows a flip", source.0);
        debug_assert!(known.handed > 0, "the driver has no flip of source {}, and shows one", source.0);
        let flip = known.flips.pop_front().expect("the driver has it");
        known.handed -= 1;
        lent.tally.count_flip(source, true);
        lent.emit(Event::FlipShown { source: source.0, flip: flip.number, immediate });
        // The pin of the flip is now that of what is shown.
        if let Some(replaced) = self.flips.show(source.0, flip.primary) {
            lent.tell(DisplayNews::Unpin(replaced));
        }
        self.free_held_queues(lent);
        self.flip_over(lent.cx, flip.device);
    }

    /// Has a source's blanks interrupt while the kernel needs them. Flip queues interrupt for flips instead.
    pub fn ask_for_blanks(&mut self, driver: &mut EntryPoints<'_>, source: VidPnSourceId) {
        if self.hardware.is_some() {
            return;
        }
        let known = &mut self.sources[source];
        let counted = known.blanks < INTERVAL_MAX;
        let needed = known.mode.is_some() && (counted || !known.flips.is_empty() || !known.waiting.is_empty());
        if needed == known.told {
            return;
        }
        known.told = needed;
        driver.again().display().expect("it had displays when it started").control_interrupt(source, needed);
    }

    /// `D3DKMTWaitForVerticalBlankEvent`: a blank answers the call.
    ///
    /// # Errors
    /// There is no such source, or it is off.
    pub fn wait_for_blank(&mut self, token: Token, device: DeviceNumber, source: VidPnSourceId) -> Result<(), Refusal> {
        let source = self.source(source)?;
        if !self.is_on(source) {
            return Err(invalid("a display that is off has no vertical blanks"));
        }
        self.sources[source].waiting.push((token, device));
        Ok(())
    }
}
