//! Which addresses a mapping or a reservation gets: those that were asked for, if their right allows it, or free ones.

use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use super::{MapError, MapRequest, Target};
use crate::reserve::UNIT_BYTES;
use crate::slab::SpaceId;
use crate::space::{Origin, page_of};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// The pages of a range of addresses.
    pub(crate) fn run_at(&self, base: GpuVa, size_bytes: u64) -> Result<PageRun, MapError> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(MapError::Misaligned);
        }
        let first = self.masked(base)?;
        let count = Pages(page_of(size_bytes));
        // spec: memory §4.6, entry 0 of the root stays invalid
        let end = first.checked_add(count.0).filter(|&end| end <= self.geometry.space_pages());
        if first < self.geometry.root_entry_pages() || end.is_none() {
            return Err(MapError::OutsideSpace);
        }
        Ok(PageRun { first, count })
    }

    /// The first page, and whether the addresses were free.
    pub(super) fn choose(
        &self,
        space: SpaceId,
        request: &MapRequest,
        by_driver: bool,
    ) -> Result<(u64, bool), MapError> {
        let pages = request.size_pages.0;
        let entry = &self.spaces[space];
        let reserving = matches!(request.target, Target::Reserved(_));
        if let Some(base) = request.base.filter(|base| !base.is_null()) {
            let run = self.run_at(base, pages.checked_mul(PAGE_BYTES).ok_or(MapError::OutsideSpace)?)?;
            let range = entry.range_of(run).map(|(_, range)| range.origin);
            // spec: memory §4.8, free or inside a range from Reserve or Map
            return match range {
                Some(Origin::Reservation(..)) => Ok((run.first, false)),
                // spec: memory §4.6, AllowUserModeMapping
                Some(Origin::Driver { user_maps }) if user_maps || by_driver => Ok((run.first, false)),
                _ if reserving => Err(MapError::NotReserved),
                Some(Origin::Map) => Ok((run.first, false)),
                None if entry.is_free(run) => Ok((run.first, true)),
                Some(Origin::Kernel | Origin::Driver { .. }) | None => Err(MapError::ConflictingAddresses),
            };
        }
        if reserving {
            return Err(MapError::NotReserved);
        }
        let window = (request.minimum, request.maximum);
        let first = match request.target {
            // A page of fence words never becomes part of a 64-KB page: aligned like one, each would take a leaf table's room of 16.
            Target::SystemPages(_) | Target::FencePages(_) if pages < page_of(UNIT_BYTES) => {
                self.find_by(space, pages, window, PAGE_BYTES, 1)
            }
            _ => self.find(space, pages, window, PAGE_BYTES),
        }?;
        Ok((first, true))
    }

    /// Free addresses in a window whose bounds are multiples of `unit`.
    // spec: memory §4.8, base + size at most the maximum
    pub(crate) fn find(&self, space: SpaceId, pages: u64, window: (GpuVa, GpuVa), unit: u64) -> Result<u64, MapError> {
        self.find_by(space, pages, window, unit, self.alignment(pages, unit))
    }

    /// The same from a multiple of `alignment` pages on.
    fn find_by(
        &self,
        space: SpaceId,
        pages: u64,
        window: (GpuVa, GpuVa),
        unit: u64,
        alignment: u64,
    ) -> Result<u64, MapError> {
        if [window.0, window.1].iter().any(|bound| !bound.0.is_multiple_of(unit)) {
            return Err(MapError::Misaligned);
        }
        let minimum = page_of(window.0.0.max(self.policy.va_start.0));
        let maximum = if window.1.is_null() { u64::MAX } else { page_of(window.1.0) };
        self.spaces[space].find(pages, minimum, maximum, alignment).ok_or(MapError::NoRoom)
    }

    /// Of what so many pages begin at a multiple, where the kernel chooses.
    fn alignment(&self, pages: u64, unit: u64) -> u64 {
        // spec: memory §4.5, a large page is aligned on both sides
        let large = self.geometry.large_page().filter(|&large| pages >= large).unwrap_or(1);
        page_of(self.policy.va_alignment_bytes.max(unit)).max(large)
    }

    /// The alignments by which free addresses are asked for: of a page, of a reservation, and of what has a large page.
    pub(crate) fn asked_alignments(&self) -> [u64; 3] {
        [(1, PAGE_BYTES), (1, UNIT_BYTES), (u64::MAX, UNIT_BYTES)].map(|(pages, unit)| self.alignment(pages, unit))
    }

    /// Page of an address, its bits above the width masked off if they are zero or the sign (memory §4.3).
    fn masked(&self, address: GpuVa) -> Result<u64, MapError> {
        if !address.0.is_multiple_of(PAGE_BYTES) {
            return Err(MapError::Misaligned);
        }
        let bits = self.mmu.virtual_address_bits;
        if bits == 0 {
            return Err(MapError::OutsideSpace);
        }
        let low = address.0 & ((1 << bits) - 1);
        let sign = low >> (bits - 1) & 1 == 1;
        let upper = address.0 >> bits;
        if upper == 0 || sign && upper == u64::MAX >> bits {
            return Ok(page_of(low));
        }
        Err(MapError::OutsideSpace)
    }
}
