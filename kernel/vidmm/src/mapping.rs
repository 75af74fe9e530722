//! GPU virtual addresses of one adapter: MapGpuVirtualAddress and FreeGpuVirtualAddress (memory §4.8). A mapping
//! survives eviction: its entries become invalid, its address stays (memory §4.10); that part is `entry`.

use ddi::Pte;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::allocation::Placement;
use crate::entry::{hull, merged, resident_pieces};
use crate::paging::{Batch, Hull, Work};
use crate::slab::{AllocationId, SpaceId};
use crate::space::{Mapping, Shown, SpaceKind, page_of};
use crate::vidmm::VidMm;

/// What an address range shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// An allocation's pages. Not in the paging process's space.
    Allocation {
        /// Which.
        allocation: AllocationId,
        /// From this page on.
        offset_pages: Pages,
    },
    /// System pages that the kernel holds: fence words, rings, paging buffers.
    SystemPages(PageRun),
}

/// `D3DDDI_MAPGPUVIRTUALADDRESS` (memory §4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRequest {
    /// What is shown.
    pub target: Target,
    /// How many pages.
    pub size_pages: Pages,
    /// Exactly here; `None`: VidMm chooses, and then minimum and maximum count.
    pub base: Option<GpuVa>,
    /// Lowest address; 0: no bound.
    pub minimum: GpuVa,
    /// The range ends at or below it; 0: no bound.
    pub maximum: GpuVa,
    /// Protection bit Write.
    pub writable: bool,
}

/// Why a mapping or a free was refused; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The message of each variant says what it means.
pub enum MapError {
    #[error("an address or size is zero where it may not be, or no multiple of a page (memory §4.8)")]
    Misaligned,
    #[error("outside the address space, or in the part that the first root entry translates (memory §4.6)")]
    OutsideSpace,
    #[error("the range lies beyond the end of the allocation")]
    BeyondAllocation,
    #[error("the addresses are taken (STATUS_CONFLICTING_ADDRESSES)")]
    ConflictingAddresses,
    #[error("no free range between minimum and maximum")]
    NoRoom,
    #[error("no room left for page tables")]
    OutOfTables,
    #[error("not all of the range is mapped")]
    NotMapped,
    #[error("mapping an allocation into the paging process's space is not built")]
    AllocationInPagingSpace,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Maps a range of addresses and answers with its first one (memory §4.8). The work makes its tables, and its
    /// entries as far as the content is resident; in a space of kind Paging it is immediate.
    ///
    /// # Errors
    /// See [`MapError`]: all the caller's, except `NoRoom` and `OutOfTables` (scarcity).
    pub fn map_gpu_va(&mut self, space: SpaceId, request: MapRequest) -> Result<(GpuVa, Option<Work<F>>), MapError> {
        let shown = self.check_target(space, &request)?;
        let first = self.choose(space, &request)?;
        let pages = request.size_pages.0;
        let batch_serial = self.serial + 1;
        let mut batch = Batch::new(batch_serial);
        let entry = &mut self.spaces[space];
        let frames = self.table_frames.of(entry.kind);
        let made = entry.table.cover(space, first, pages, frames).map_err(|_| MapError::OutOfTables)?;
        batch.entries.extend(made);
        entry.occupy(first, Mapping { pages, shown, writable: request.writable });
        let writer = self.writer();
        match shown {
            Shown::Allocation(id, from) => {
                let allocation = &mut self.allocations[id];
                allocation.mappings.insert((space, first));
                if !matches!(allocation.placement, Placement::None) {
                    writer.show(&self.spaces, &self.allocations[id], id, Some((space, first)), from, pages, &mut batch);
                }
            }
            Shown::System(page) => {
                let piece = (first, pages, SegmentId::SYSTEM, page, request.writable, true);
                writer.valid(&self.spaces, space, piece, &mut batch);
            }
        }
        let immediate = self.spaces[space].kind == SpaceKind::Paging;
        Ok((GpuVa(first * PAGE_BYTES), self.finish(batch, immediate)))
    }

    /// Frees mapped addresses, whole mappings or parts (memory §4.8). They can be mapped again at once: what the ring
    /// still holds stands before any later use.
    ///
    /// # Errors
    /// `Misaligned`, `OutsideSpace`, `NotMapped`.
    pub fn free_gpu_va(&mut self, space: SpaceId, base: GpuVa, size_bytes: u64) -> Result<Option<Work<F>>, MapError> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(MapError::Misaligned);
        }
        let first = self.masked(base)?;
        let run = PageRun { first, count: Pages(page_of(size_bytes)) };
        if !self.spaces[space].is_mapped(run) {
            return Err(MapError::NotMapped);
        }
        let mut batch = Batch::new(self.serial + 1);
        self.unmap(space, run, &mut batch);
        let immediate = self.spaces[space].kind == SpaceKind::Paging;
        Ok(self.finish(batch, immediate))
    }

    /// Takes mapped addresses out: entries invalid, empty tables freed.
    pub(crate) fn unmap(&mut self, space: SpaceId, run: PageRun, batch: &mut Batch<F>) {
        let entry = &mut self.spaces[space];
        let vacated = entry.vacate(run);
        let before = batch.invalidations.len();
        for piece in &vacated {
            let valid = match piece.shown {
                Shown::System(_) => vec![(piece.first, piece.pages)],
                // Entries of pages that are not resident are invalid already.
                Shown::Allocation(id, page) => resident_pieces(&self.allocations[id], page, piece.pages)
                    .into_iter()
                    .map(|(resident, pages, ..)| (piece.first + (resident - page), pages))
                    .collect(),
            };
            for (first, count) in merged(valid) {
                entry.table.write(space, first, count, Pte::INVALID, true, &mut batch.invalidations);
            }
        }
        let root = entry.table.root();
        let frames = self.table_frames.of(entry.kind);
        batch.invalidations.extend(entry.table.uncover(space, run.first, run.count.0, frames));
        if batch.invalidations.len() > before {
            Hull::note(&mut batch.stale, space, hull(root, run.first, run.count.0));
        }
        for piece in vacated {
            let Shown::Allocation(id, _) = piece.shown else { continue };
            let mappings = &mut self.allocations[id].mappings;
            if !piece.head {
                mappings.remove(&(space, piece.whole));
            }
            if let Some(tail) = piece.tail {
                mappings.insert((space, tail));
            }
        }
    }

    fn check_target(&self, space: SpaceId, request: &MapRequest) -> Result<Shown, MapError> {
        if request.size_pages.is_zero() {
            return Err(MapError::Misaligned);
        }
        match request.target {
            Target::Allocation { allocation, offset_pages } => {
                if self.spaces[space].kind == SpaceKind::Paging {
                    return Err(MapError::AllocationInPagingSpace);
                }
                let end = offset_pages.0.checked_add(request.size_pages.0);
                // spec: memory §10.4 item 28, nothing outside can be put in an entry
                if end.is_none_or(|end| end > self.allocations[allocation].pages) {
                    return Err(MapError::BeyondAllocation);
                }
                Ok(Shown::Allocation(allocation, offset_pages.0))
            }
            Target::SystemPages(run) => {
                if run.count != request.size_pages {
                    return Err(MapError::BeyondAllocation);
                }
                Ok(Shown::System(run.first))
            }
        }
    }

    fn choose(&self, space: SpaceId, request: &MapRequest) -> Result<u64, MapError> {
        let pages = request.size_pages.0;
        let entry = &self.spaces[space];
        if let Some(base) = request.base.filter(|base| !base.is_null()) {
            let first = self.masked(base)?;
            // spec: memory §4.6, entry 0 of the root stays invalid
            let end = first.checked_add(pages).filter(|&end| end <= self.geometry.space_pages());
            if first < self.geometry.root_entry_pages() || end.is_none() {
                return Err(MapError::OutsideSpace);
            }
            let free = entry.is_free(PageRun { first, count: request.size_pages });
            return if free { Ok(first) } else { Err(MapError::ConflictingAddresses) };
        }
        if [request.minimum, request.maximum].iter().any(|bound| !bound.0.is_multiple_of(PAGE_BYTES)) {
            return Err(MapError::Misaligned);
        }
        let minimum = page_of(request.minimum.0.max(self.policy.va_start.0));
        let maximum = if request.maximum.is_null() { u64::MAX } else { page_of(request.maximum.0) };
        let alignment = page_of(self.policy.va_alignment_bytes).max(1);
        entry.find(pages, minimum, maximum, alignment).ok_or(MapError::NoRoom)
    }

    /// Page of an address, its bits above the width masked off if they are zero or the sign (memory §4.3).
    fn masked(&self, address: GpuVa) -> Result<u64, MapError> {
        if !address.0.is_multiple_of(PAGE_BYTES) {
            return Err(MapError::Misaligned);
        }
        let bits = self.mmu.virtual_address_bits;
        let low = address.0 & ((1 << bits) - 1);
        let sign = low >> (bits - 1) & 1 == 1;
        let upper = address.0 >> bits;
        if upper == 0 || sign && upper == u64::MAX >> bits {
            return Ok(page_of(low));
        }
        Err(MapError::OutsideSpace)
    }
}
