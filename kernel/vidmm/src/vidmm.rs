//! The memory manager of one adapter. It is a few owners, each with private fields in a module beside this one, and the rooms below are the
//! only files that borrow two of them at once:
//!
//! ```text
//!  VidMm ─ policy, the driver's version and caps: what never changes
//!   ├─ segments     frames, and the order in which content loses them      ├─ processes  protection, devices, needs, budgets
//!   ├─ allocations  the book: records, offers, what is due for them        ├─ devices    lists, ownership, the line of the suspended
//!   ├─ spaces       addresses, page tables, the frames of those            ├─ works      numbers of works, how far the ring is
//!   ├─ system       system pages, and those on their way back              ├─ clock, pressure
//!   ├─ foreseen     what the planner is told and foresees
//!   └─ windows, ranges  what the CPU sees of memory segments
//! ```
//! An owner is asked through methods and knows none of the others; what two of them have to say of one thing, `invariant` compares. Rooms:
//! `placement` content in and out, `life` allocations, `address` addresses, `view` the CPU's view, `share` budgets and turns; `power`, `reset`,
//! `synchronous`, `system` the adapter as a whole.

mod address;
mod invariant;
mod life;
mod placement;
mod power;
mod reset;
mod share;
mod synchronous;
mod system;
#[cfg(test)]
mod tests;
mod view;

use ddi::{DdiVersion, DriverModel, GpuMmuCaps, PageTableLevelDesc, RootPageTableSize, VidMmCaps};
use wddm_types::{FencePoint, SegmentId};

use crate::allocation::Allocations;
use crate::budget::{Processes, SegmentGroup};
use crate::clock::Clock;
use crate::device::Devices;
use crate::foreseen::Foreseen;
use crate::host_aperture::HostApertures;
use crate::page_table::{Geometry, table_sources};
use crate::paging::{Batch, Move, Work, WorkSequence};
use crate::policy::Policy;
use crate::pressure::Pressure;
use crate::segment::{self, MemoryLayout, MemoryTotals, Segment, SegmentError, Segments};
use crate::slab::{DeviceId, SpaceId};
use crate::space::{AddressSpaces, SpaceKind, window_of};
use crate::swizzle::SwizzlingRanges;
use crate::system_pages::SystemPages;

pub use address::mapping::{MapError, MapRequest, Target};
pub use address::reserve::{DriverRange, ReserveRequest};
pub use address::update::{Update, UpdateError, UpdateOperation};
pub use invariant::{BrokenInvariant, StateDigest};
pub use life::displayed::DisplayError;
pub use life::list::{Reference, ReferenceError};
pub use life::property::{Location, PropertyError, PropertyUpdate};
pub use life::residence::Residence;
pub use placement::aperture::ApertureFull;
pub use placement::never::NeverFits;
pub use placement::offer::{OfferError, OfferFlags, ReclaimError, ReclaimResult, Reclaimed};
pub use placement::pin::{PinError, PriorityError};
pub use placement::promote::Promotion;
pub use placement::residency::{EvictError, MakeResidentError, MakeResidentFlags};
pub use placement::split::{Cut, Portion, PortionError, Use};
pub use power::{PowerUp, Sleep};
pub use share::tally::{Apart, SegmentTally, SpaceTally, Tally};
pub use share::trim::{TrimFlags, TrimRequest};
pub use view::lock::{LegacyLock, LockError, LockPlan};

/// One adapter's video memory. `F` names fences; VidMm only carries it.
#[derive(Debug)]
pub struct VidMm<F> {
    policy: Policy,
    segments: Segments,
    /// Which version's flags and sets count.
    model: DriverModel,
    version: DdiVersion,
    caps: VidMmCaps,
    spaces: AddressSpaces,
    devices: Devices<F>,
    allocations: Allocations<F>,
    processes: Processes,
    foreseen: Foreseen,
    clock: Clock,
    pressure: Pressure,
    works: WorkSequence,
    system: SystemPages,
    /// By memory segment.
    windows: HostApertures,
    /// Through which the CPU sees swizzled content.
    ranges: SwizzlingRanges,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Takes over an adapter's memory as its driver described it. `levels[0]` is the leaf.
    ///
    /// # Errors
    /// The rule that the description breaks (memory §1.13); adapter start fails.
    pub fn new(
        policy: Policy,
        layout: impl Into<MemoryLayout>,
        mmu: GpuMmuCaps,
        levels: &[PageTableLevelDesc],
    ) -> Result<Self, SegmentError> {
        VidMm::with_roots(policy, layout, mmu, levels, &[])
    }

    /// The same for two levels, whose root is resizable: the lengths that it can have, shortest first (memory §4.6).
    ///
    /// # Errors
    /// As [`VidMm::new`].
    pub fn with_roots(
        policy: Policy,
        layout: impl Into<MemoryLayout>,
        mmu: GpuMmuCaps,
        levels: &[PageTableLevelDesc],
        roots: &[RootPageTableSize],
    ) -> Result<Self, SegmentError> {
        let layout: MemoryLayout = layout.into();
        segment::check_segments(&layout)?;
        segment::check_pitches(&policy, &layout)?;
        segment::check_mmu_caps(&mmu, levels)?;
        segment::check_levels(&policy, &layout.segments, &mmu, levels, roots)?;
        VidMm::open(policy, &layout, mmu, levels, Geometry::new(levels, &mmu, roots))
    }

    /// From checked descriptions; no levels: an adapter without page tables of its own.
    pub(crate) fn open(
        policy: Policy,
        layout: &MemoryLayout,
        mmu: GpuMmuCaps,
        levels: &[PageTableLevelDesc],
        geometry: Geometry,
    ) -> Result<Self, SegmentError> {
        let policy = window_of(policy, &mmu, levels);
        let mut system =
            SystemPages::open(policy.system_pages, policy.gathers_backing).ok_or(SegmentError::NoSystemPage)?;
        let table_frames = table_sources(&policy, &layout.segments, levels, &mut system)?;
        let segments = Segments::open(&policy, layout, levels);
        let spaces = AddressSpaces::open((mmu, geometry), table_frames, &segments, &policy, system.dummy_page());
        Ok(VidMm {
            policy,
            windows: HostApertures::open(segments.all()),
            model: layout.model,
            version: layout.version,
            caps: layout.caps,
            spaces,
            devices: Devices::new(),
            allocations: Allocations::new(),
            processes: Processes::new(segments.group_bytes(policy.system_pages.count.bytes())),
            foreseen: Foreseen::open(policy.eviction, &segments),
            clock: Clock::default(),
            pressure: Pressure::default(),
            segments,
            works: WorkSequence::default(),
            system,
            ranges: SwizzlingRanges::default(),
        })
    }

    /// The driver's segments, number 1 first.
    // spec: memory §1.1
    pub fn segments(&self) -> &[Segment] {
        self.segments.drivers()
    }

    /// The memory of the adapter as a whole.
    pub fn totals(&self) -> MemoryTotals {
        self.segments.totals()
    }

    /// Bytes that content has in a segment now, lazily evicted content included; of an aperture, bytes mapped.
    pub fn resident_bytes(&self, segment: SegmentId) -> u64 {
        self.segment(segment).resident_bytes()
    }

    /// Bytes that content can have in a segment: without the page-table reserve; of an aperture the commit limit.
    pub fn capacity_bytes(&self, segment: SegmentId) -> u64 {
        self.segment(segment).capacity_bytes()
    }

    /// The group that a segment's flags name; without a name memory is local and the aperture is not.
    pub fn group_of(&self, segment: SegmentId) -> SegmentGroup {
        self.segments[segment].group()
    }

    /// Makes a device in a process's space. While the process's page tables are away it starts suspended
    /// ([`VidMm::is_suspended`]).
    pub fn create_device(&mut self, space: SpaceId) -> DeviceId {
        assert!(!self.spaces[space].is_paging(), "devices belong to processes");
        let (devices, now_ns) = (&mut self.devices, self.clock.now_ns());
        let make = |nth| devices.begin(space, nth, now_ns);
        let device = self.processes.add_device(space, make);
        if !self.spaces.tables_resident(space) {
            self.stand_in_line(device);
        }
        device
    }

    /// Ends a device that owns no allocation any more. Allocations still on its list are evicted lazily, as if written until `last_use`.
    pub fn destroy_device(&mut self, device: DeviceId, last_use: &[FencePoint<F>]) {
        for (id, count) in self.devices.clear(device) {
            self.remove_holder(id, device);
            self.foresee_leave(device, id);
            self.release(id, count, last_use);
        }
        self.system.device_gone(device);
        let (space, nth) = self.devices.end(device);
        self.processes.remove_device(space, nth);
    }

    /// Bytes of page tables that exist for spaces of a kind.
    pub fn table_bytes(&self, kind: SpaceKind) -> u64 {
        self.spaces.table_bytes(kind)
    }

    pub(crate) fn segment(&self, id: SegmentId) -> &Segment {
        &self.segments[id]
    }

    pub(crate) fn segment_mut(&mut self, id: SegmentId) -> &mut Segment {
        &mut self.segments[id]
    }

    pub(crate) fn finish(&mut self, mut batch: Batch<F>, immediate: bool) -> Option<Work<F>> {
        self.note_departure(&mut batch);
        let last = self.rotations(&mut batch);
        batch.rotations.extend(last);
        if self.spaces.change_only_idle() {
            self.idle_changed_spaces(&mut batch);
        }
        let flush_fresh = self.spaces.flushes_fresh();
        let work = match batch.finish(flush_fresh) {
            Ok(work) => work,
            Err(moves) => {
                self.no_work_of(&moves);
                self.works.keep_untold(moves);
                return None;
            }
        };
        if immediate {
            return Some(Work { serial: 0, immediate, ..work });
        }
        Some(self.works.hand_out(work))
    }

    /// These moves need no work: what moved is ready as soon as the ring is past the last work returned. The next work may never come.
    fn no_work_of(&mut self, moves: &[Move]) {
        for moved in moves {
            self.allocations.no_work_behind(moved.allocation, self.works.returned());
        }
    }
}
