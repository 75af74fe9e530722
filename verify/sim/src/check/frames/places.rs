//! Places: which frames a range of a segment is, and whose content enters and leaves them.

use super::*;

impl Frames {
    /// An allocation is gone: no translation leads to what it held.
    pub fn allocation_gone(&mut self, allocation: KmdAllocation) -> Result<(), Broken> {
        self.process_of.remove(&allocation);
        let held: Vec<Frame> =
            self.owner.iter().filter(|(_, of)| **of == allocation).map(|(frame, _)| *frame).collect();
        for frame in held {
            self.owner.remove(&frame);
            if let Some(spot) = self.viewer(frame) {
                return Err(format!("{allocation:?} is gone while {} still leads to {}", name(spot), at(frame)));
            }
        }
        Ok(())
    }

    /// The paging process, where it moves content.
    fn mover(&self) -> Option<KmdProcess> {
        self.paging.filter(|_| self.by_address)
    }

    /// A translation that leads to a frame, other than the paging process's where that moves content, waits for words, or was shown
    /// content for a notice.
    pub(super) fn viewer(&self, frame: Frame) -> Option<Spot> {
        let ahead = |spot: &Spot| self.ahead.get(&frame).is_some_and(|shown| shown.contains(&Some(*spot)));
        let may_look = |spot: &Spot| Some(spot.0) == self.mover() || ahead(spot) || self.noticed.contains(spot);
        self.reached.get(&frame)?.keys().find(|spot| !may_look(spot)).copied()
    }

    /// Content enters frames: no translation may lead there.
    pub(super) fn enter(&mut self, allocation: KmdAllocation, frames: Vec<Frame>) -> Result<(), Broken> {
        for frame in frames {
            let seen = self.viewer(frame);
            self.unseen(frame, seen, &format!("content of {allocation:?}"))?;
            self.kept.remove(&frame);
            self.owner.insert(frame, allocation);
        }
        Ok(())
    }

    /// Checks that no translation leads to a frame, and that no table lies there.
    pub(super) fn unseen(&self, frame: Frame, seen: Option<Spot>, what: &str) -> Result<(), Broken> {
        if let Some(spot) = seen {
            let live = self.live.get(&spot) == Some(&frame);
            let how = if live { "a valid entry" } else { "an entry that a TLB may hold" };
            return Err(format!("{what} enters {} while {} leads there by {how}", at(frame), name(spot)));
        }
        if self.tables.contains_key(&frame) {
            return Err(format!("{what} enters {}, which is a page table", at(frame)));
        }
        self.not_left(frame)
    }

    /// Content leaves frames: it must be there.
    pub(super) fn leave(&self, allocation: KmdAllocation, frames: Vec<Frame>) -> Result<(), Broken> {
        for frame in frames {
            match self.owner.get(&frame) {
                Some(owner) if *owner == allocation => {}
                other => return Err(format!("{allocation:?} is copied out of {}, which holds {other:?}", at(frame))),
            }
        }
        Ok(())
    }

    pub(super) fn system_pages(
        &self,
        allocation: KmdAllocation,
        mdl: Mdl<'_>,
        mdl_offset: u64,
        bytes: u64,
    ) -> Result<(), Broken> {
        let pages = mdl.runs.iter().flat_map(|run| run.first..run.end());
        let mut count = 0;
        for page in pages.skip(mdl_offset as usize).take(bytes.div_ceil(PAGE_BYTES) as usize) {
            count += 1;
            self.system_page(allocation, page)?;
        }
        if count * PAGE_BYTES < bytes { Err(format!("an MDL of {count} pages for {bytes} bytes")) } else { Ok(()) }
    }

    fn system_page(&self, allocation: KmdAllocation, page: u64) -> Result<(), Broken> {
        if (page + 1) * PAGE_BYTES > self.system_bytes {
            return Err(format!("system page {page} does not exist"));
        }
        let own = self.process_of.get(&allocation).copied();
        let may_look = |spot: &Spot| Some(spot.0) == own || Some(spot.0) == self.mover() || self.noticed.contains(spot);
        match self.reached.get(&(0, page)).and_then(|spots| spots.keys().find(|spot| !may_look(spot))) {
            Some(spot) => Err(format!("system page {page} holds {allocation:?} while {} leads there", name(*spot))),
            None => Ok(()),
        }
    }

    /// Content leaves what the paging process sees at an address.
    // spec: memory §3.3, operation 8
    pub(super) fn left_through(&self, allocation: KmdAllocation, va: GpuVa, bytes: u64) -> Result<(), Broken> {
        let (system, memory) = self.seen_at(va, bytes)?;
        system.into_iter().try_for_each(|(_, page)| self.system_page(allocation, page))?;
        self.leave(allocation, memory)
    }

    /// Content enters what the paging process sees at an address.
    // spec: memory §3.3, operations 8 and 9
    pub(super) fn entered_through(&mut self, allocation: KmdAllocation, va: GpuVa, bytes: u64) -> Result<(), Broken> {
        let (system, memory) = self.seen_at(va, bytes)?;
        system.into_iter().try_for_each(|(_, page)| self.system_page(allocation, page))?;
        self.enter(allocation, memory)
    }

    /// The system pages and the frames of segments that the paging process sees from an address on.
    fn seen_at(&self, va: GpuVa, bytes: u64) -> Result<(Vec<Frame>, Vec<Frame>), Broken> {
        let process = self.mover().ok_or("content moves by address, which the driver does not ask for")?;
        let pages = va.0 / PAGE_BYTES..(va.0 + bytes).div_ceil(PAGE_BYTES);
        let seen = pages.map(|page| {
            let spot = (process, page);
            self.live.get(&spot).copied().ok_or_else(|| format!("content moves where nothing is: {}", name(spot)))
        });
        Ok(seen.collect::<Result<Vec<_>, _>>()?.into_iter().partition(|(segment, _)| *segment == 0))
    }

    pub(super) fn base(&self, segment: SegmentId) -> Result<u64, Broken> {
        let at = usize::from(segment.0).wrapping_sub(1);
        self.segments
            .get(at)
            .map(|segment| segment.base_address)
            .ok_or_else(|| format!("segment {} does not exist", segment.0))
    }

    pub(super) fn is_aperture(&self, segment: SegmentId) -> bool {
        self.segments[usize::from(segment.0) - 1].flags.contains(SegmentFlags::APERTURE)
    }

    /// The frames of a range of a segment, which lies inside it and begins at a page.
    pub(super) fn frames(&self, segment: SegmentId, address: u64, bytes: u64) -> Result<Vec<Frame>, Broken> {
        let base = self.base(segment)?;
        let size = self.segments[usize::from(segment.0) - 1].size_bytes;
        let offset = address.checked_sub(base).filter(|offset| offset.is_multiple_of(PAGE_BYTES));
        let inside = offset.filter(|offset| offset.checked_add(bytes).is_some_and(|end| end <= size));
        let Some(offset) = inside else {
            return Err(format!("{bytes} bytes at {address:#x} are not in segment {}", segment.0));
        };
        Ok((offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES)).map(|page| (segment.0, page)).collect())
    }

    /// A translation leads nowhere any more.
    pub(super) fn unreach(&mut self, spot: Spot, frame: Frame) {
        if let Some(spots) = self.reached.get_mut(&frame) {
            if let Some(count) = spots.get_mut(&spot) {
                *count -= 1;
                if *count == 0 {
                    spots.remove(&spot);
                }
            }
            if spots.is_empty() {
                self.reached.remove(&frame);
            }
        }
    }
}
