//! GPU virtual addresses of one adapter: MapGpuVirtualAddress and FreeGpuVirtualAddress (memory §4.8). A mapping
//! survives eviction: its entries become invalid, its address stays (memory §4.10); that part is `entry`. Reserving is
//! `reserve`, changing many ranges at once `update`.
//!
//! # The cases
#![doc = include_str!("mapping/cases.md")]

mod address;
mod check;
mod whole;

use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use crate::allocation::Placement;
use crate::page_table::OutOfTables;
use crate::paging::{Batch, Work};
use crate::slab::{AllocationId, SpaceId};
use crate::space::{AddressError, Mapping, Origin, Protection, Reserved, Shown, page_of};
use crate::vidmm::VidMm;

/// The target of an address range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// An allocation's pages. Not in the paging process's space.
    Allocation {
        /// The allocation whose pages the range maps.
        allocation: AllocationId,
        /// From this page on.
        offset_pages: Pages,
    },
    /// System pages that the kernel holds: rings, paging buffers. Only the kernel frees them.
    SystemPages(PageRun),
    /// The same, with words of native fences in them.
    FencePages(PageRun),
    /// The first pages of the storage of native fences. It is shown in the paging process too, where it is never out of sight, and
    /// only the kernel frees it there and elsewhere, before it destroys the allocation.
    FenceStorage(AllocationId),
    /// All of an allocation, for what the kernel itself has a driver do with it. It goes with the allocation, or with the last
    /// open of the process.
    Whole(AllocationId),
    /// Nothing any more: what a reserved range does (protection bits Zero and NoAccess).
    Reserved(Reserved),
}

impl Target {
    /// Whether the kernel shows it for its own ends.
    fn is_kernels(self) -> bool {
        !matches!(self, Target::Allocation { .. } | Target::Reserved(_))
    }
}

/// `D3DDDI_MAPGPUVIRTUALADDRESS` (memory §4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRequest {
    /// The target that the range maps.
    pub target: Target,
    /// How many pages.
    pub size_pages: Pages,
    /// Exactly here; `None`: VidMm chooses, and then minimum and maximum count.
    pub base: Option<GpuVa>,
    /// Lowest address; 0: no bound.
    pub minimum: GpuVa,
    /// The range ends at or below it; 0: no bound.
    pub maximum: GpuVa,
    /// The accesses allowed there.
    pub protection: Protection,
}

/// Why a mapping, a reservation or a free was refused; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The message of each variant says what it means.
pub enum MapError {
    #[error("an address or size is zero where it may not be, or no multiple of its unit (memory §4.8)")]
    Misaligned,
    #[error("outside the address space, or among its first pages, which stay invalid (memory §4.6)")]
    OutsideSpace,
    #[error("the range lies beyond the end of the allocation")]
    BeyondAllocation,
    #[error("the addresses are taken (STATUS_CONFLICTING_ADDRESSES)")]
    ConflictingAddresses,
    #[error("no free range between minimum and maximum")]
    NoRoom,
    #[error("no room left for page tables")]
    OutOfTables,
    #[error("not all of the range is mapped or reserved")]
    NotMapped,
    #[error("Zero and NoAccess are for addresses inside one reserved range (memory §4.8)")]
    NotReserved,
    #[error("the allocation has another, unique driver protection there (memory §4.11)")]
    UniqueProtection,
    #[error(
        "what may lie with its pitches aligned is reached by physical address: two layouts have no one offset (memory §2.6)"
    )]
    PitchAligned,
    #[error("the kernel's own pages are mapped there")]
    Kernels,
    #[error("the driver has reserved the addresses for itself (memory §4.6)")]
    Drivers,
    #[error("nothing is translated by page tables of the GPU")]
    NotTranslated,
    #[error("mapping an allocation into the paging process's space is not built")]
    AllocationInPagingSpace,
}

impl From<AddressError> for MapError {
    fn from(error: AddressError) -> MapError {
        match error {
            AddressError::Misaligned => MapError::Misaligned,
            AddressError::OutsideSpace => MapError::OutsideSpace,
            AddressError::Taken => MapError::ConflictingAddresses,
            AddressError::NoRoom => MapError::NoRoom,
        }
    }
}

impl From<OutOfTables> for MapError {
    fn from(_: OutOfTables) -> MapError {
        MapError::OutOfTables
    }
}

impl<F: Copy + Eq> VidMm<F> {
    /// Maps a range of addresses and answers with its first one (memory §4.8): free addresses, or a part of a range that
    /// is reserved or mapped. The work makes its tables, and its entries as far as the content is resident; in a space
    /// of kind Paging it is immediate.
    ///
    /// # Errors
    /// See [`MapError`]: all the caller's, except `NoRoom` and `OutOfTables` (scarcity).
    // spec: memory §4.8
    pub fn map_gpu_va(&mut self, space: SpaceId, request: MapRequest) -> Result<(GpuVa, Option<Work<F>>), MapError> {
        self.map(space, request, false)
    }

    /// The same for the driver, which may map inside what it has reserved ([`VidMm::reserve_for_driver`]).
    ///
    /// # Errors
    /// The same.
    // spec: memory §4.6, memory §7.5
    pub fn map_for_driver(
        &mut self,
        space: SpaceId,
        request: MapRequest,
    ) -> Result<(GpuVa, Option<Work<F>>), MapError> {
        self.map(space, request, true)
    }

    fn map(
        &mut self,
        space: SpaceId,
        request: MapRequest,
        by_driver: bool,
    ) -> Result<(GpuVa, Option<Work<F>>), MapError> {
        let shown = self.check_target(space, &request)?;
        let (first, fresh) = self.choose(space, &request, by_driver)?;
        let run = PageRun { first, count: request.size_pages };
        let mut batch = self.works.begin();
        self.place(space, run, shown.map(|shown| (shown, request.protection)), &mut batch)?;
        if fresh {
            self.spaces.take(space, run, if request.target.is_kernels() { Origin::Kernel } else { Origin::Map });
        }
        let immediate = self.spaces[space].is_paging();
        Ok((GpuVa(first * PAGE_BYTES), self.finish(batch, immediate)))
    }

    /// Frees addresses, whole ranges or parts, mapped or reserved (memory §4.8). They can be mapped again at once: what
    /// the ring still holds stands before any later use.
    ///
    /// # Errors
    /// `Misaligned`, `OutsideSpace`, `NotMapped`; `Kernels` for what the kernel mapped, `Drivers` for what the driver
    /// reserved. Addresses that the driver reserved for user mode too become unmapped, and stay reserved.
    // spec: memory §4.8
    pub fn free_gpu_va(&mut self, space: SpaceId, base: GpuVa, size_bytes: u64) -> Result<Option<Work<F>>, MapError> {
        let run = self.spaces.run_at(space, base, size_bytes)?;
        if !self.spaces[space].is_taken(run) {
            return Err(MapError::NotMapped);
        }
        if self.spaces[space].is_kernels(run) {
            return Err(MapError::Kernels);
        }
        // spec: memory §4.6
        if self.spaces[space].is_drivers_own(run) {
            return Err(MapError::Drivers);
        }
        Ok(self.free(space, run))
    }

    /// Frees what was mapped of the kernel's own pages.
    pub fn free_system_va(&mut self, space: SpaceId, base: GpuVa, count: Pages) -> Option<Work<F>> {
        let run = PageRun { first: page_of(base.0), count };
        assert!(self.spaces[space].is_kernels(run), "the kernel's own mapping");
        self.free(space, run)
    }

    fn free(&mut self, space: SpaceId, run: PageRun) -> Option<Work<F>> {
        let mut batch = self.works.begin();
        self.conceal(space, run, &mut batch);
        self.spaces.give_all_but_the_drivers(space, run);
        let immediate = self.spaces[space].is_paging();
        if !immediate {
            self.spaces.shorten_root(space, &mut batch);
        }
        self.finish(batch, immediate)
    }

    /// Lets taken (or soon taken) addresses show something else than before; `None`: nothing, every access faults.
    pub(crate) fn place(
        &mut self,
        space: SpaceId,
        run: PageRun,
        wanted: Option<(Shown, Protection)>,
        batch: &mut Batch<F>,
    ) -> Result<(), OutOfTables> {
        self.place_copy(space, run, wanted, None, batch)
    }

    /// The same. `source`: these addresses show the same now, and nothing changes there in this work, so that entries can be
    /// copied.
    // spec: memory §4.8
    pub(crate) fn place_copy(
        &mut self,
        space: SpaceId,
        run: PageRun,
        wanted: Option<(Shown, Protection)>,
        source: Option<PageRun>,
        batch: &mut Batch<F>,
    ) -> Result<(), OutOfTables> {
        let Some((shown, protection)) = wanted else {
            // spec: memory §4.11, only a NoAccess map clears a unique protection
            for (_, piece) in self.spaces[space].pieces(run) {
                if let Shown::Allocation(id, from) = piece.shown {
                    self.allocations[id].unique.forget(from, from + piece.pages);
                }
            }
            self.conceal(space, run, batch);
            return Ok(());
        };
        let made_zeros = shown == Shown::Zero && self.prepare_zero_page(space, batch)?;
        let provided = self.provide_tables(space, &[run], batch);
        let root = provided.inspect_err(|_| self.forget_zero_page(space, made_zeros, batch))?;
        // The new pages are counted before the old ones are not any more, so that tables in use stay.
        let coarse = self.begins_coarse(space, run, shown) && self.spaces.room_for_coarse(space, &[run], &[true]);
        let made = self.spaces.cover(space, run, coarse.then_some(batch.epoch)).expect("there is room for them");
        batch.entries.extend(made);
        self.spaces.set_root(space, root, batch);
        self.conceal(space, run, batch);
        let mapping = Mapping { pages: run.count.0, shown, protection };
        self.spaces.let_show(space, run.first, mapping);
        let copied = source.is_some_and(|source| self.spaces.copy(space, source.first, run, batch));
        match shown {
            Shown::Allocation(id, from) => {
                let allocation = &mut self.allocations[id];
                let new = allocation.mappings.insert((space, run.first));
                debug_assert!(new, "{id:?} was shown at {run:?} of {space:?}, and is again");
                allocation.unique.note(from, from + run.count.0, protection.driver);
                if copied {
                    return Ok(());
                }
                if !matches!(allocation.placement, Placement::None) {
                    let only = Some((space, run.first));
                    self.spaces.show(&self.allocations[id], id, only, from, run.count.0, batch);
                }
            }
            Shown::System(_) | Shown::Words(_) | Shown::Zero if copied => {}
            Shown::System(_) | Shown::Words(_) | Shown::Zero => self.spaces.fixed(space, run.first, mapping, batch),
        }
        Ok(())
    }

    /// Hardware without the Zero bit shows a page of zeros; each space has its own. Answers whether it is made now.
    // spec: memory §4.10
    pub(crate) fn prepare_zero_page(&mut self, space: SpaceId, batch: &mut Batch<F>) -> Result<bool, OutOfTables> {
        if !self.spaces.lacks_zero_page(space) {
            return Ok(false);
        }
        let page = self.system.take_run(1).ok_or(OutOfTables)?;
        batch.clear.push(page);
        self.spaces.give_zero_page(space, page);
        Ok(true)
    }

    /// Gives a page of zeros back that was made for nothing.
    pub(crate) fn forget_zero_page(&mut self, space: SpaceId, made: bool, batch: &mut Batch<F>) {
        if made && let Some(page) = self.spaces.take_zero_page(space) {
            batch.clear.retain(|run| *run != page);
            self.system.give(page);
        }
    }

    /// Lets addresses show nothing: entries invalid, empty tables freed. The addresses stay taken.
    pub(crate) fn conceal(&mut self, space: SpaceId, run: PageRun, batch: &mut Batch<F>) {
        let vacated = self.spaces.vacate(space, run);
        let mut valid = Vec::new();
        let mut native_fence = false;
        for piece in &vacated {
            // The kernel takes its own mappings away one by one.
            native_fence |= match piece.shown {
                Shown::Words(_) => true,
                Shown::Allocation(id, _) => self.allocations[id].stores_fences(),
                Shown::System(_) | Shown::Zero => false,
            };
            match piece.shown {
                Shown::System(_) | Shown::Words(_) | Shown::Zero => valid.push((piece.first, piece.pages)),
                // Entries of pages that are not resident are invalid already.
                Shown::Allocation(id, page) => valid.extend(
                    self.allocations[id]
                        .resident_pieces(page, piece.pages)
                        .into_iter()
                        .map(|(resident, pages, ..)| (piece.first + (resident - page), pages)),
                ),
            }
        }
        self.spaces.conceal(space, run, &vacated, (valid, native_fence), batch);
        for piece in vacated {
            let Shown::Allocation(id, _) = piece.shown else { continue };
            let mappings = &mut self.allocations[id].mappings;
            if !piece.head {
                let known = mappings.remove(&(space, piece.whole));
                debug_assert!(known, "{id:?} does not know {piece:?} of {space:?}");
            }
            if let Some(tail) = piece.tail {
                let new = mappings.insert((space, tail));
                debug_assert!(new, "{id:?} is shown twice at page {tail:#x} of {space:?}");
            }
        }
    }

    /// The allocation behind these addresses has died: those that Map took are free again, reserved ones do what they
    /// were reserved for.
    // spec: memory §4.8, memory §4.10
    pub(crate) fn revert(&mut self, space: SpaceId, run: PageRun, batch: &mut Batch<F>) {
        let mut next = run.first;
        while next < run.end() {
            let here = PageRun { first: next, count: Pages(1) };
            let (_, range) = self.spaces[space].range_of(here).expect("mapped addresses are taken");
            let part = PageRun { first: next, count: Pages(range.end.min(run.end()) - next) };
            match range.origin {
                Origin::Map | Origin::Kernel => self.spaces.give(space, part),
                Origin::Reservation(Reserved::NoAccess, _) | Origin::Driver { .. } => {}
                Origin::Reservation(Reserved::Zero, _) => {
                    let zero = Some((Shown::Zero, Protection::default()));
                    // Without tables the addresses fault instead, as they would with NoAccess.
                    let _ = self.place(space, part, zero, batch);
                }
            }
            next = part.end();
        }
    }
}
