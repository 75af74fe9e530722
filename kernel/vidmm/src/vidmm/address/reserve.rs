//! ReserveGpuVirtualAddress (memory §4.8): addresses kept free of other mappings, and those that a driver keeps while its
//! process is created (memory §4.6). `mapping` handles mappings inside them, and the behaviour of their unmapped pages.

use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use crate::paging::Work;
use crate::slab::SpaceId;
use crate::space::{Origin, Protection, Reserved, Shown, UNIT_BYTES, page_of};
use crate::vidmm::VidMm;
use crate::vidmm::address::mapping::MapError;

/// `D3DDDI_RESERVEGPUVIRTUALADDRESS` (memory §4.8). Everything is a multiple of 64 KB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReserveRequest {
    /// How many bytes to reserve.
    pub size_bytes: u64,
    /// Exactly here; `None`: VidMm chooses, and then minimum and maximum count.
    pub base: Option<GpuVa>,
    /// Lowest address; 0: no bound.
    pub minimum: GpuVa,
    /// The range ends at or below it; 0: no bound.
    pub maximum: GpuVa,
    /// The behaviour of its pages as long as nothing is mapped there.
    pub reserved: Reserved,
    /// The protection value that the driver gets for tiles mapped into it (memory §4.11).
    pub driver_protection: u64,
}

/// `DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE` (memory §4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverRange {
    /// Bytes: a multiple of what a leaf table covers.
    pub size_bytes: u64,
    /// A power of two; 0: what a leaf table covers, which it is a multiple of in any case.
    pub alignment_bytes: u64,
    /// Exactly here; `None`: VidMm chooses.
    pub base: Option<GpuVa>,
    /// User mode may map there too.
    pub user_maps: bool,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Keeps addresses for the driver as long as the space lives, and answers with the first one. No entry is written.
    ///
    /// # Errors
    /// See [`MapError`]: `NotTranslated`, `Misaligned`, `OutsideSpace`, `ConflictingAddresses`; `NoRoom` (scarcity).
    // spec: memory §4.6
    pub fn reserve_for_driver(&mut self, space: SpaceId, range: DriverRange) -> Result<GpuVa, MapError> {
        let leaf_pages = self.spaces.leaf_table_pages().ok_or(MapError::NotTranslated)?;
        let leaf_bytes = leaf_pages * PAGE_BYTES;
        let alignment = range.alignment_bytes.max(leaf_bytes);
        let size_wrong = range.size_bytes == 0 || !range.size_bytes.is_multiple_of(leaf_bytes);
        if size_wrong || range.alignment_bytes != 0 && !range.alignment_bytes.is_power_of_two() {
            return Err(MapError::Misaligned);
        }
        // Drivers' ranges begin behind what the first entry of the root translates.
        let least = self.spaces.drivers_first_page();
        let first = match range.base.filter(|base| !base.is_null()) {
            Some(base) => {
                let first = self.spaces.free_at(space, base, range.size_bytes, alignment)?;
                if first < least {
                    return Err(MapError::OutsideSpace);
                }
                first
            }
            None => {
                let found = self.spaces[space].find(page_of(range.size_bytes), least, u64::MAX, page_of(alignment));
                found.ok_or(MapError::NoRoom)?
            }
        };
        let run = PageRun { first, count: Pages(page_of(range.size_bytes)) };
        self.spaces.take(space, run, Origin::Driver { user_maps: range.user_maps });
        Ok(GpuVa(first * PAGE_BYTES))
    }

    /// Reserves addresses and answers with the first one. A Zero reservation has entries; the work writes them.
    ///
    /// # Errors
    /// See [`MapError`]: `Misaligned`, `OutsideSpace`, `ConflictingAddresses`; `NoRoom` and `OutOfTables` (scarcity).
    // spec: memory §4.8
    pub fn reserve_gpu_va(
        &mut self,
        space: SpaceId,
        request: ReserveRequest,
    ) -> Result<(GpuVa, Option<Work<F>>), MapError> {
        if request.size_bytes == 0 || !request.size_bytes.is_multiple_of(UNIT_BYTES) {
            return Err(MapError::Misaligned);
        }
        let pages = page_of(request.size_bytes);
        let first = match request.base.filter(|base| !base.is_null()) {
            Some(base) => self.spaces.free_at(space, base, request.size_bytes, UNIT_BYTES)?,
            None => self.spaces.find(space, pages, (request.minimum, request.maximum), UNIT_BYTES)?,
        };
        let run = PageRun { first, count: Pages(pages) };
        let mut batch = self.works.begin();
        if request.reserved == Reserved::Zero {
            self.place(space, run, Some((Shown::Zero, Protection::default())), &mut batch)?;
        }
        self.spaces.take(space, run, Origin::Reservation(request.reserved, request.driver_protection));
        let immediate = self.spaces[space].is_paging();
        Ok((GpuVa(first * PAGE_BYTES), self.finish(batch, immediate)))
    }
}
