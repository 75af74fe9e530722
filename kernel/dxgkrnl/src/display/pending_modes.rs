//! Modes whose primary is on its way: the kernel answers `SetDisplayMode` when the display shows it. Where lists are residency (memory
//! §6.1) a process could make nothing resident before: the kernel brings the primary in, for a quiesced device with its turn. A primary
//! that an aperture shows only while it is displayed (memory §1.6) goes there first.

use kmt_calls::{Refusal, Reply};
use vidmm::AllocationId;
use wddm_types::SegmentId;

use super::flip::Next;
use crate::adapter::Adapter;
use crate::machine::{Answer, Cx, Effect, Token};
use crate::object::{AllocationNumber, DeviceNumber};
use crate::refusal::no_memory;

/// A mode that waits for its primary.
pub(super) struct PendingMode {
    token: Token,
    pub(super) device: DeviceNumber,
    number: AllocationNumber,
    pub(super) id: AllocationId,
    pinned: bool,
}

impl PendingMode {
    /// Whether a device waits for it.
    pub(super) fn is_of(&self, device: DeviceNumber) -> bool {
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
        (device, number): (DeviceNumber, AllocationNumber),
        pinned: bool,
    ) -> Result<Answer, Refusal> {
        let id = self.allocations[number].vidmm;
        let mut pending = PendingMode { token, device, number, id, pinned };
        Ok(match self.bring_closer(cx, &mut pending)? {
            true => Answer::Done(Ok(Reply::Done)),
            false => {
                self.displays.pending_modes.push_back(pending);
                Answer::Later(token)
            }
        })
    }

    /// Modes whose primaries have come begin.
    pub fn modes_due(&mut self, cx: &mut Cx<'_>) {
        // Others are answered while one begins, but none is added.
        for _ in 0..self.displays.pending_modes.len() {
            let Some(mut pending) = self.displays.pending_modes.pop_front() else { return };
            let result = match self.bring_closer(cx, &mut pending) {
                Ok(false) => {
                    self.displays.pending_modes.push_back(pending);
                    continue;
                }
                Ok(true) => Ok(Reply::Done),
                Err(refusal) => Err(refusal),
            };
            cx.effects.push(Effect::Answer { token: pending.token, result });
        }
    }

    /// Whether a mode has begun. A mode that could not begin has no pin.
    fn bring_closer(&mut self, cx: &mut Cx<'_>, pending: &mut PendingMode) -> Result<bool, Refusal> {
        if self.stopped.is_some() || !self.is_awake() {
            return Ok(false);
        }
        // The state that the call found may have changed.
        let mode = self.mode_of(pending.device, pending.number).inspect_err(|_| self.unpin_one(pending))?;
        if !pending.pinned {
            if !self.is_brought_in(pending.device, pending.id) {
                // It was put where the display reads it, and the adapter has slept since.
                match self.pin_late(cx, pending.device, pending.id) {
                    Next::Hand(()) => {}
                    Next::Wait => return Ok(false),
                    Next::Lost => return Err(no_memory("the primary was given away on its way to the display")),
                }
            } else if self.vidmm.is_suspended(self.devices[pending.device].vidmm) {
                return Ok(false);
            } else {
                self.bring_in_primary(cx, pending.device, pending.id)?;
            }
            pending.pinned = true;
        }
        let Some(place) = self.shown_place(pending.id) else { return Ok(false) };
        self.begin_mode(cx, &mode, place).map(|()| true)
    }

    /// Where a primary lies, when it has come there.
    pub(super) fn shown_place(&self, id: AllocationId) -> Option<(SegmentId, u64)> {
        let reference = self.vidmm.whereabouts(id);
        reference.place.filter(|_| reference.serial <= self.vidmm.completed_serial())
    }

    /// The work of the memory manager that displays wait for: the first of it. The ring does not tell of its own accord.
    pub fn display_need(&self) -> Option<u64> {
        let comes = self.displays.pending_modes.iter().filter(|pending| pending.pinned).map(|pending| pending.id);
        let next = self.displays.sources.iter().filter_map(|source| source.flips.get(source.handed));
        let flips = next.filter(|flip| flip.pinned).map(|flip| flip.primary);
        let serials = comes.chain(flips).map(|id| self.vidmm.whereabouts(id).serial);
        serials.filter(|serial| *serial > self.vidmm.completed_serial()).min()
    }

    /// Drops these modes. Answers with their calls and devices.
    pub(super) fn forget_pending_modes(&mut self, gone: impl Fn(&PendingMode) -> bool) -> Vec<(Token, DeviceNumber)> {
        let (gone, kept) = std::mem::take(&mut self.displays.pending_modes).into_iter().partition::<Vec<_>, _>(gone);
        self.displays.pending_modes = kept.into();
        let forget = |mut pending: PendingMode| {
            self.unpin_one(&mut pending);
            (pending.token, pending.device)
        };
        gone.into_iter().map(forget).collect()
    }

    /// Unpins primaries on their way, because they move: the kernel brings them in anew.
    pub(super) fn unpin_pending_modes(&mut self) {
        let mut all = std::mem::take(&mut self.displays.pending_modes);
        all.iter_mut().for_each(|pending| self.unpin_one(pending));
        self.displays.pending_modes = all;
    }

    fn unpin_one(&mut self, pending: &mut PendingMode) {
        if std::mem::take(&mut pending.pinned) {
            self.vidmm.unpin_displayed(pending.id);
        }
    }
}
