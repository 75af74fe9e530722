//! Words of fences: where each process sees them, and the frames that the kernel keeps for itself. Part of the frames model.

use ddi::{KmdGlobalFence, KmdProcess, OsGlobalFence, TransferEnd};
use wddm_types::{GpuVa, PAGE_BYTES, SegmentId};

use super::{Frame, Frames, Spot, at, lead_together, name};
use crate::check::contract::Broken;

impl Frames {
    /// The driver has a fence.
    pub fn fence(&mut self, global: KmdGlobalFence, os: OsGlobalFence) {
        self.fences.insert(global, os);
    }

    /// A process sees a fence's words at these addresses: other processes that see this fence may map the same pages.
    // spec: sync §1.5 (cross-process isolation)
    pub fn fence_shown(&mut self, process: KmdProcess, global: KmdGlobalFence, addresses: [GpuVa; 2]) {
        let Some(os) = self.fences.get(&global).copied() else { return };
        for va in addresses {
            self.words.insert((process, va.0 / PAGE_BYTES), os);
        }
    }

    /// The kernel keeps something of its own in frames, or clears them for an owner to come: no translation may lead there.
    pub(super) fn keep(&mut self, frames: Vec<Frame>) -> Result<(), Broken> {
        for frame in frames {
            let seen = self.viewer(frame);
            self.unseen(frame, seen, "what the kernel keeps")?;
            self.owner.remove(&frame);
            self.kept.insert(frame);
        }
        Ok(())
    }

    /// The same, and it is the first that a page of words holds: of the pages that are shown there ahead, the content of the oldest.
    // spec: sync §1.5
    pub(super) fn first_kept(&mut self, frames: Vec<Frame>) -> Result<(), Broken> {
        self.keep(frames.clone())?;
        for frame in frames {
            if let Some(shown) = self.ahead.get_mut(&frame) {
                shown.pop_front();
                if shown.is_empty() {
                    self.ahead.remove(&frame);
                }
            }
        }
        Ok(())
    }

    /// An entry of the paging process shows words. Of a fresh page, whose first content comes later, the kernel shows them at once; words
    /// that move are shown at their new place when they are there.
    // spec: sync §1.5, memory §3.4 (paging-process tables)
    pub(super) fn show_words(&mut self, spot: Spot, before: Option<Frame>, frame: Frame) -> Result<(), Broken> {
        let (segment, _) = frame;
        if before == Some(frame) || segment == 0 || self.is_aperture(SegmentId(segment)) {
            return Ok(());
        }
        match before {
            None => self.ahead.entry(frame).or_default().push_back(Some(spot)),
            Some(_) if self.by_address || self.kept.contains(&frame) => {}
            Some(old) => {
                return Err(format!("{} shows {} and no more {}: words have not come", name(spot), at(frame), at(old)));
            }
        }
        Ok(())
    }

    /// An entry of the paging process does not lead there any more: content that it waited for comes all the same.
    pub(super) fn leaves_ahead(&mut self, spot: Spot, frame: Frame) {
        let waiting = self.ahead.get_mut(&frame).and_then(|shown| shown.iter_mut().find(|shown| **shown == Some(spot)));
        if let Some(waiting) = waiting {
            *waiting = None;
        }
    }

    /// What the kernel keeps comes to an end of a copy, unless that is system memory.
    pub(super) fn keep_at(&mut self, end: TransferEnd<'_>, offset: u64, bytes: u64) -> Result<(), Broken> {
        match end {
            TransferEnd::Segment { segment, address } => self.keep(self.frames(segment, address + offset, bytes)?),
            TransferEnd::Mdl(_) => Ok(()),
        }
    }

    /// System pages to which two processes lead: the words of a fence that both have open, of which the driver hears behind the
    /// entries. Asked when the calls that wrote them are over.
    // spec: sync §1.5 (cross-process isolation)
    pub fn doubts(&mut self) -> Result<(), Broken> {
        for (spot, other, frame) in std::mem::take(&mut self.doubts) {
            let fence = self.words.get(&spot);
            if fence.is_none() || self.words.get(&other) != fence {
                return Err(lead_together(spot, other, frame));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ddi::SegmentDescriptor4;

    use super::*;
    use crate::check::contract::Contract;

    const PAGING: KmdProcess = KmdProcess(1);
    const PROCESS: KmdProcess = KmdProcess(2);
    const FRAME: Frame = (1, 64);

    fn frames() -> (Frames, Contract) {
        let (mut frames, mut contract) = (Frames::default(), Contract::default());
        frames.segments(&[SegmentDescriptor4 { size_bytes: 1 << 20, ..SegmentDescriptor4::default() }]);
        frames.system_bytes(1 << 20);
        frames.shows_words = true;
        for (process, system) in [(PAGING, true), (PROCESS, false)] {
            contract.create_process(process, system).expect("fresh");
        }
        (frames, contract)
    }

    #[test]
    fn words_that_move_do_not_stand_for_a_fresh_page_that_waits_at_the_same_place() {
        // spec: sync §1.5
        let (mut frames, contract) = frames();
        let (moved, fresh, own) = ((PAGING, 0x10), (PAGING, 0x11), (PROCESS, 0x20));
        frames.translate(moved, Some((0, 5)), &contract).expect("its backing store");
        frames.translate(fresh, Some(FRAME), &contract).expect("ahead of its content");
        frames.keep(vec![FRAME]).expect("the moved words come");
        frames.translate(moved, Some(FRAME), &contract).expect("where they have come");
        frames.translate(own, Some(FRAME), &contract).expect("they are words");
        assert!(frames.first_kept(vec![FRAME]).is_err(), "the moved words are still seen there");
        frames.translate(own, None, &contract).expect("they leave");
        frames.translate(moved, Some((0, 5)), &contract).expect("back");
        [PAGING, PROCESS].into_iter().for_each(|process| frames.flush(process, 0, u64::MAX));
        frames.first_kept(vec![FRAME]).expect("the fresh page's content comes");
        assert!(frames.first_kept(vec![FRAME]).is_err(), "and is seen from then on");
    }

    #[test]
    fn a_page_that_goes_before_its_content_has_come_does_not_take_the_next_ones_turn() {
        // spec: sync §1.5
        let (mut frames, contract) = frames();
        let (gone, next) = ((PAGING, 0x10), (PAGING, 0x11));
        frames.translate(gone, Some(FRAME), &contract).expect("ahead of its content");
        frames.translate(gone, None, &contract).expect("its device goes");
        frames.flush(PAGING, 0, u64::MAX);
        frames.translate(next, Some(FRAME), &contract).expect("ahead of its content");
        frames.first_kept(vec![FRAME]).expect("the content of the first is queued all the same");
        frames.first_kept(vec![FRAME]).expect("the content of the second");
        assert!(frames.first_kept(vec![FRAME]).is_err(), "which is seen from then on");
    }

    #[test]
    fn words_that_move_are_shown_where_they_have_come() {
        // spec: sync §1.5
        let (mut frames, contract) = frames();
        frames.translate((PAGING, 0x10), Some((0, 5)), &contract).expect("its backing store");
        assert!(frames.translate((PAGING, 0x10), Some(FRAME), &contract).is_err(), "nothing has come there");
    }
}
