//! Which addresses of a space a range names, and which free ones it gets (memory §4.3, §4.8).

use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use super::{AddressSpaces, page_of};
use crate::slab::SpaceId;

/// In which bases, bounds and sizes of reservations are counted.
// spec: memory §4.8
pub(crate) const UNIT_BYTES: u64 = 65536;

/// Why a range of addresses is none that a caller may name, or can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// An address or size is zero where it may not be, or no multiple of its unit.
    Misaligned,
    /// Outside the space, or among its first pages.
    OutsideSpace,
    /// They are taken.
    Taken,
    /// No free range between the bounds.
    NoRoom,
}

impl AddressSpaces {
    /// The pages of a range of addresses of a space.
    pub fn run_at(&self, space: SpaceId, base: GpuVa, size_bytes: u64) -> Result<PageRun, AddressError> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(AddressError::Misaligned);
        }
        let first = self.masked(base)?;
        let count = Pages(page_of(size_bytes));
        // spec: memory §4.6, the first pages stay invalid
        let end = first.checked_add(count.0).filter(|&end| end <= self.geometry.space_pages());
        if first < self.begin_of(self.spaces[space].kind) || end.is_none() {
            return Err(AddressError::OutsideSpace);
        }
        Ok(PageRun { first, count })
    }

    /// The first page of addresses wanted at an exact base, if they are free.
    pub fn free_at(&self, space: SpaceId, base: GpuVa, size_bytes: u64, alignment: u64) -> Result<u64, AddressError> {
        if !base.0.is_multiple_of(alignment) {
            return Err(AddressError::Misaligned);
        }
        let run = self.run_at(space, base, size_bytes)?;
        if self.spaces[space].is_free(run) { Ok(run.first) } else { Err(AddressError::Taken) }
    }

    /// Free addresses of a process in a window, its bounds rounded inward to multiples of `unit`: the lowest that are not in what the
    /// first entry of the root translates, which is left to callers that name addresses there; and only then the lowest of all.
    // spec: memory §4.8, base + size at most the maximum
    pub fn find(&self, space: SpaceId, pages: u64, window: (GpuVa, GpuVa), unit: u64) -> Result<u64, AddressError> {
        self.find_by(space, pages, window, unit, self.alignment(pages, unit))
    }

    /// The same from a multiple of `alignment` pages on.
    pub fn find_by(
        &self,
        space: SpaceId,
        pages: u64,
        window: (GpuVa, GpuVa),
        unit: u64,
        alignment: u64,
    ) -> Result<u64, AddressError> {
        debug_assert!(pages > 0 && alignment > 0, "{pages} pages of {space:?} are looked for by {alignment}");
        let (minimum, maximum) = self.inward(window, unit);
        let entry = &self.spaces[space];
        let usual = if window.0.is_null() { self.geometry.root_entry_pages() } else { minimum };
        let found = entry.find(pages, usual, maximum, alignment);
        found.or_else(|| entry.find(pages, minimum, maximum, alignment)).ok_or(AddressError::NoRoom)
    }

    /// Free addresses of a process for what the kernel itself maps: at the top, where no range of the process begins; beside a root that
    /// grows with what it reaches, at the bottom.
    // spec: memory §4.6
    pub fn find_for_kernel(
        &self,
        space: SpaceId,
        pages: u64,
        window: (GpuVa, GpuVa),
        alignment: u64,
    ) -> Result<u64, AddressError> {
        let (minimum, maximum) = self.inward(window, PAGE_BYTES);
        let entry = &self.spaces[space];
        let found = match self.geometry.grows() || self.geometry.is_platforms() {
            true => entry.find(pages, minimum, maximum, alignment),
            false => entry.find_highest(pages, minimum, maximum, alignment),
        };
        found.ok_or(AddressError::NoRoom)
    }

    /// The pages between two bounds, both rounded inward to multiples of `unit`. One that is the last byte of a unit is the last
    /// that may be used.
    // spec: memory §4.8
    fn inward(&self, (minimum, maximum): (GpuVa, GpuVa), unit: u64) -> (u64, u64) {
        debug_assert!(unit.is_multiple_of(PAGE_BYTES), "bounds are counted in pages, and not in {unit} bytes");
        let minimum = page_of(self.plain(minimum).checked_next_multiple_of(unit).unwrap_or(u64::MAX));
        let last = self.plain(maximum).saturating_add(1);
        let maximum = if maximum.is_null() { u64::MAX } else { page_of(last - last % unit) };
        (minimum, maximum)
    }

    /// Of what so many pages begin at a multiple, where the kernel chooses.
    pub fn alignment(&self, pages: u64, unit: u64) -> u64 {
        // spec: memory §4.5, a large page is aligned on both sides
        let large = self.geometry.large_page().filter(|&large| pages >= large).unwrap_or(1);
        page_of(self.va_alignment_bytes.max(unit)).max(large)
    }

    /// The alignments by which free addresses are asked for: of a page, of a reservation, and of what has a large page.
    pub(super) fn asked_alignments(&self) -> [u64; 3] {
        [(1, PAGE_BYTES), (1, UNIT_BYTES), (u64::MAX, UNIT_BYTES)].map(|(pages, unit)| self.alignment(pages, unit))
    }

    /// Page of an address, its bits above the width masked off if they are zero or the sign (memory §4.3).
    fn masked(&self, address: GpuVa) -> Result<u64, AddressError> {
        if !address.0.is_multiple_of(PAGE_BYTES) {
            return Err(AddressError::Misaligned);
        }
        let plain = self.plain(address);
        if plain >> self.mmu.virtual_address_bits != 0 || self.mmu.virtual_address_bits == 0 {
            return Err(AddressError::OutsideSpace);
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
