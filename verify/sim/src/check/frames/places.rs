//! Places: which frames a range of a segment is, and whose content enters and leaves them.

use super::*;

impl Frames {
    /// Content enters frames: nobody else can be looking.
    pub(super) fn enter(&mut self, allocation: KmdAllocation, frames: Vec<Frame>) -> Result<(), Broken> {
        for frame in frames {
            if let Some(spot) = self.reached.get(&frame).and_then(|spots| spots.keys().next()) {
                let how =
                    if self.live.get(spot) == Some(&frame) { "a valid entry" } else { "an entry that a TLB may hold" };
                return Err(format!(
                    "content of {allocation:?} enters {} while {} leads there by {how}",
                    at(frame),
                    name(*spot)
                ));
            }
            if self.tables.contains_key(&frame) {
                return Err(format!("content of {allocation:?} enters {}, which is a page table", at(frame)));
            }
            self.not_left(frame)?;
            self.owner.insert(frame, allocation);
        }
        Ok(())
    }

    /// Content leaves frames: it must be there.
    pub(super) fn leave(&mut self, allocation: KmdAllocation, frames: Vec<Frame>) -> Result<(), Broken> {
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
        let own = self.process_of.get(&allocation).copied();
        let pages = mdl.runs.iter().flat_map(|run| run.first..run.end());
        let mut count = 0;
        for page in pages.skip(mdl_offset as usize).take(bytes.div_ceil(PAGE_BYTES) as usize) {
            count += 1;
            if (page + 1) * PAGE_BYTES > self.system_bytes {
                return Err(format!("system page {page} does not exist"));
            }
            let foreign = self.reached.get(&(0, page)).and_then(|spots| spots.keys().find(|(of, _)| Some(*of) != own));
            if let Some(spot) = foreign {
                return Err(format!("system page {page} holds {allocation:?} while {} leads there", name(*spot)));
            }
        }
        if count * PAGE_BYTES < bytes { Err(format!("an MDL of {count} pages for {bytes} bytes")) } else { Ok(()) }
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
}
