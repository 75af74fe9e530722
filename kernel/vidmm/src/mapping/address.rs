//! Which addresses a mapping or a reservation gets: those that were asked for, if their right allows it, or free ones.

use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use super::{MapError, MapRequest, Target};
use crate::reserve::UNIT_BYTES;
use crate::slab::SpaceId;
use crate::space::{Origin, SpaceKind, page_of};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// The pages of a range of addresses of a space.
    pub(crate) fn run_at(&self, space: SpaceId, base: GpuVa, size_bytes: u64) -> Result<PageRun, MapError> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(MapError::Misaligned);
        }
        let first = self.masked(base)?;
        let count = Pages(page_of(size_bytes));
        // spec: memory §4.6, the first pages stay invalid
        let end = first.checked_add(count.0).filter(|&end| end <= self.geometry.space_pages());
        if first < self.begin_of(self.spaces[space].kind) || end.is_none() {
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
            let run = self.run_at(space, base, pages.checked_mul(PAGE_BYTES).ok_or(MapError::OutsideSpace)?)?;
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
        let first = match entry.kind == SpaceKind::Process && request.target.is_kernels() {
            true => self.find_for_kernel(space, pages, window, self.alignment_of(&request.target, pages))?,
            false => self.find_by(space, pages, window, PAGE_BYTES, self.alignment_of(&request.target, pages))?,
        };
        Ok((first, true))
    }

    /// Free addresses of a process in a window, its bounds rounded inward to multiples of `unit`: the lowest that are not in what the
    /// first entry of the root translates, which is left to callers that name addresses there; and only then the lowest of all.
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
        let (minimum, maximum) = self.inward(window, unit);
        let entry = &self.spaces[space];
        let usual = if window.0.is_null() { self.geometry.root_entry_pages() } else { minimum };
        let found = entry.find(pages, usual, maximum, alignment);
        found.or_else(|| entry.find(pages, minimum, maximum, alignment)).ok_or(MapError::NoRoom)
    }

    /// Free addresses of a process for what the kernel itself maps: at the top, where no range of the process begins; beside a root that
    /// grows with what it reaches, at the bottom.
    // spec: memory §4.6
    fn find_for_kernel(
        &self,
        space: SpaceId,
        pages: u64,
        window: (GpuVa, GpuVa),
        alignment: u64,
    ) -> Result<u64, MapError> {
        let (minimum, maximum) = self.inward(window, PAGE_BYTES);
        let entry = &self.spaces[space];
        let found = match self.geometry.grows() || self.geometry.is_platforms() {
            true => entry.find(pages, minimum, maximum, alignment),
            false => entry.find_highest(pages, minimum, maximum, alignment),
        };
        found.ok_or(MapError::NoRoom)
    }

    /// The pages between two bounds, both rounded inward to multiples of `unit`. One that is the last byte of a unit is the last
    /// that may be used.
    // spec: memory §4.8
    fn inward(&self, (minimum, maximum): (GpuVa, GpuVa), unit: u64) -> (u64, u64) {
        let minimum = page_of(self.plain(minimum).checked_next_multiple_of(unit).unwrap_or(u64::MAX));
        let last = self.plain(maximum).saturating_add(1);
        let maximum = if maximum.is_null() { u64::MAX } else { page_of(last - last % unit) };
        (minimum, maximum)
    }

    /// Of what a mapping begins at a multiple, where the kernel chooses.
    fn alignment_of(&self, target: &Target, pages: u64) -> u64 {
        match target {
            // A page of fence words never becomes part of a 64-KB page: aligned like one, each would take a leaf table's room of 16.
            Target::SystemPages(_) | Target::FencePages(_) if pages < page_of(UNIT_BYTES) => 1,
            _ => self.alignment(pages, PAGE_BYTES),
        }
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
        let plain = self.plain(address);
        if plain >> self.mmu.virtual_address_bits != 0 || self.mmu.virtual_address_bits == 0 {
            return Err(MapError::OutsideSpace);
        }
        Ok(page_of(plain))
    }

    /// An address without the sign that its bits above the width repeat; any other as it is.
    // spec: memory §4.3
    pub fn plain(&self, address: GpuVa) -> u64 {
        let bits = self.mmu.virtual_address_bits;
        if bits == 0 || address.0 >> (bits - 1) != u64::MAX >> (bits - 1) {
            return address.0;
        }
        address.0 & ((1 << bits) - 1)
    }
}
