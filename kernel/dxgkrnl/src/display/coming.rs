//! Modes whose primary is on its way: the kernel answers `SetDisplayMode` when the display shows it. Where lists are residency (memory
//! §6.1) a process could make nothing resident before: the kernel brings the primary in, for a quiesced device with its turn. A primary
//! that an aperture shows only while it is displayed (memory §1.6) goes there first.

use kmt_calls::{Refusal, Reply};
use vidmm::AllocationId;
use wddm_types::SegmentId;

use super::flip::Next;
use crate::adapter::Adapter;
use crate::machine::{Answer, Cx, Effect, Token};
use crate::refusal::no_memory;

/// A mode that waits for its primary.
pub(super) struct Coming {
    token: Token,
    pub(super) device: u64,
    number: u64,
    pub(super) id: AllocationId,
    pinned: bool,
}

impl Coming {
    /// Whether a device waits for it.
    pub(super) fn is_of(&self, device: u64) -> bool {
        self.device == device
    }
}

impl Adapter {
    /// A mode whose primary is brought in for it, if it is not pinned yet.
    // spec: memory §6.1, memory §8.2
    pub(super) fn mode_comes(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        (device, number): (u64, u64),
        pinned: bool,
    ) -> Result<Answer, Refusal> {
        let id = self.allocations[number].vidmm;
        let mut coming = Coming { token, device, number, id, pinned };
        Ok(match self.bring_closer(cx, &mut coming)? {
            true => Answer::Done(Ok(Reply::Done)),
            false => {
                self.displays.coming.push_back(coming);
                Answer::Later(token)
            }
        })
    }

    /// Modes whose primaries have come begin.
    pub fn modes_due(&mut self, cx: &mut Cx<'_>) {
        // Others are answered while one begins, but none is added.
        for _ in 0..self.displays.coming.len() {
            let Some(mut coming) = self.displays.coming.pop_front() else { return };
            let result = match self.bring_closer(cx, &mut coming) {
                Ok(false) => {
                    self.displays.coming.push_back(coming);
                    continue;
                }
                Ok(true) => Ok(Reply::Done),
                Err(refusal) => Err(refusal),
            };
            cx.effects.push(Effect::Answer { token: coming.token, result });
        }
    }

    /// Whether a mode has begun. A mode that could not begin has no pin.
    fn bring_closer(&mut self, cx: &mut Cx<'_>, coming: &mut Coming) -> Result<bool, Refusal> {
        if self.stopped.is_some() || !self.is_awake() {
            return Ok(false);
        }
        // The state that the call found may have changed.
        let mode = self.mode_of(coming.device, coming.number).inspect_err(|_| self.unpin_one(coming))?;
        if !coming.pinned {
            if !self.is_brought_in(coming.device, coming.id) {
                // It was put where the display reads it, and the adapter has slept since.
                match self.pin_late(cx, coming.device, coming.id) {
                    Next::Hand(()) => {}
                    Next::Wait => return Ok(false),
                    Next::Lost => return Err(no_memory("the primary was given away on its way to the display")),
                }
            } else if self.vidmm.is_suspended(self.devices[coming.device].vidmm) {
                return Ok(false);
            } else {
                self.bring_in_primary(cx, coming.device, coming.id)?;
            }
            coming.pinned = true;
        }
        let Some(place) = self.shown_place(coming.id) else { return Ok(false) };
        self.begin_mode(cx, &mode, place).map(|()| true)
    }

    /// Where a primary lies, when it has come there.
    pub(super) fn shown_place(&self, id: AllocationId) -> Option<(SegmentId, u64)> {
        let reference = self.vidmm.whereabouts(id);
        reference.place.filter(|_| reference.serial <= self.vidmm.completed_serial())
    }

    /// The work of the memory manager that displays wait for: the first of it. The ring does not tell of its own accord.
    pub fn display_need(&self) -> Option<u64> {
        let comes = self.displays.coming.iter().filter(|coming| coming.pinned).map(|coming| coming.id);
        let next = self.displays.sources.iter().filter_map(|source| source.flips.get(source.handed));
        let flips = next.filter(|flip| flip.pinned).map(|flip| flip.primary);
        let serials = comes.chain(flips).map(|id| self.vidmm.whereabouts(id).serial);
        serials.filter(|serial| *serial > self.vidmm.completed_serial()).min()
    }

    /// Drops these modes. Answers with their calls and devices.
    pub(super) fn forget_coming(&mut self, gone: impl Fn(&Coming) -> bool) -> Vec<(Token, u64)> {
        let (gone, kept) = std::mem::take(&mut self.displays.coming).into_iter().partition::<Vec<_>, _>(gone);
        self.displays.coming = kept.into();
        let forget = |mut coming: Coming| {
            self.unpin_one(&mut coming);
            (coming.token, coming.device)
        };
        gone.into_iter().map(forget).collect()
    }

    /// Unpins primaries on their way, because they move: the kernel brings them in anew.
    pub(super) fn unpin_coming(&mut self) {
        let mut all = std::mem::take(&mut self.displays.coming);
        all.iter_mut().for_each(|coming| self.unpin_one(coming));
        self.displays.coming = all;
    }

    fn unpin_one(&mut self, coming: &mut Coming) {
        if std::mem::take(&mut coming.pinned) {
            self.vidmm.unpin_displayed(coming.id);
        }
    }
}
