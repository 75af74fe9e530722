//! One allocation: its description by the driver, the place of its content, its holders and pins. `check` has the rules of creation,
//! `notices` the notices to its driver; `residency` moves content.

mod aside;
mod book;
mod check;
mod context;
mod locks;
mod notices;
mod offer;

pub(crate) use aside::Aside;
pub(crate) use book::Allocations;
pub use check::Origin;
pub(crate) use check::{SYSTEM_COPY, Terms, VISIBLE, check};
pub(crate) use locks::{Displayed, Locks};
pub use offer::OfferPriority;
pub(crate) use offer::{Offer, Offers};

use std::collections::BTreeSet;

use ddi::{AllocationFlags, AllocationFlags2, AllocationInfo, KmdAllocation};
use wddm_types::{FencePoint, PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::budget::ProcessPriority;
use crate::budget::SegmentGroup;
use crate::extent::{Extents, PageSet};
use crate::foreseen::Told;
use crate::operation::HeldRange;
use crate::rank::VictimEntry;
use crate::segment::Segment;
use crate::seldom::Seldom;
use crate::slab::{DeviceId, SpaceId};
use crate::unique::UniqueProtections;
use context::ContextContent;

/// Why an allocation is not created. The driver's description or the caller's wish is to blame; `NoBackingStore` is
/// scarcity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The message of each variant says what it means.
pub enum AllocationError {
    #[error("the size is zero (memory §2.1)")]
    ZeroSize,
    #[error("the priority is zero (memory §2.1)")]
    ZeroPriority,
    #[error("these flags exclude each other or lack one that they need (memory §2.2)")]
    Flags,
    #[error("{0} is not built")]
    NotBuilt(&'static str),
    #[error("no segment is supported")]
    NoSegment,
    #[error("segment {} does not exist", .0.0)]
    NoSuchSegment(SegmentId),
    #[error("preferred segment {} is not in the supported set (memory §1.13)", .0.0)]
    PreferredNotSupported(SegmentId),
    #[error("segment {} is no aperture and cannot be evicted through (memory §2.1)", .0.0)]
    EvictionNotAperture(SegmentId),
    #[error("the alignment is no power of two")]
    Alignment,
    #[error("a 64-KB segment needs an alignment that is a multiple of 64 KB (memory §1.13)")]
    Alignment64Kb,
    #[error("a CPU-visible allocation for a segment that the CPU cannot see must support an aperture (memory §6.3)")]
    LockNeedsAperture,
    #[error("the PitchAlignedSize is smaller than the size (memory §2.1)")]
    PitchAlignedSize,
    #[error(
        "what may lie in a segment that aligns pitches is one piece there: it needs AccessedPhysically (memory §2.6)"
    )]
    PitchAlignedScattered,
    #[error("there is one physical adapter, number 0")]
    PhysicalAdapter,
    #[error("MapApertureCpuVisible needs MapAperture2Supported, WDDM 2.9 (memory §2.2)")]
    NoMapAperture2,
    #[error("a primary, and the CPU does not reach segment {} (memory §2.7)", .0.0)]
    PrimaryNotVisible(SegmentId),
    #[error("the driver and the caller disagree on memory that exists, or on its size (memory §2.2)")]
    ExistingMemory,
    #[error(
        "a backing store that the driver sees too is of system memory, and no memory that exists already (memory §2.2)"
    )]
    SharedBackingStore,
    #[error("larger than every segment that it supports")]
    TooLarge,
    #[error("no system memory left for the backing store: it needs {} bytes, {} are free", wide_bytes(*wanted), .free.bytes())]
    NoBackingStore { wanted: Pages, free: Pages },
}

/// The bytes of pages whose count is a sum of sizes that drivers give.
fn wide_bytes(pages: Pages) -> u128 {
    u128::from(pages.0) * u128::from(PAGE_BYTES)
}

/// Where an allocation's content is for the GPU.
#[derive(Clone, Debug)]
pub(crate) enum Placement {
    /// Nowhere (S0, S1 of memory §8.5).
    None,
    /// In a memory segment, at least one page of it (S3).
    Memory(SegmentId, Extents),
    /// In its system pages (S4); with the aperture and its pages that show it, if accessed physically.
    System(Option<(SegmentId, PageRun)>),
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation<F> {
    /// The device that it is accounted to; none: no device has it, and a name keeps it.
    pub owner: Option<DeviceId>,
    pub info: AllocationInfo,
    /// Size, rounded up to the largest page of the supported segments.
    pub pages: u64,
    pub backing: Vec<PageRun>,
    /// The caller brought the backing store along: VidMm never returns it to its pool.
    pub foreign: bool,
    /// A primary.
    pub primary: bool,
    /// Pinned by a property.
    pub unmoveable: bool,
    /// Pages whose content the backing store has (if they are not resident and dirty). The others hold the clear
    /// pattern by definition, not by a write.
    pub valid: PageSet,
    pub placement: Placement,
    /// In system memory by the planner's choice: its next list decides anew. False elsewhere.
    pub in_place: bool,
    /// Sum of the devices' counts (memory §5.1).
    pub count: u64,
    /// Time of the evict that took the count to 0, while pages are still in a memory segment, or the eviction stands aside.
    pub lazy_since: Option<u64>,
    /// It has left the last list, queued work still uses it, and it leaves its place when that is over.
    pub aside: Option<Box<Aside>>,
    /// Destroyed by its owner; its backing store counts in [`VidMm::returning_pages`](crate::VidMm::returning_pages).
    pub returns: bool,
    /// Destroyed by its owner at this time, and kept until its last use is over: its pages are the first to go, uncopied.
    pub doomed: Option<u64>,
    /// No list named it when its owner destroyed it, and these were the uses of its content: a destruction notes all queued work of its device
    /// besides. `None`: each use that is noted may need the content.
    pub uses_at_death: Option<Vec<FencePoint<F>>>,
    /// Devices whose lists name it.
    pub holders: BTreeSet<DeviceId>,
    /// The protection of the processes that list it.
    pub band: ProcessPriority,
    /// Its entry in the victim order of its segment.
    pub standing: Option<VictimEntry>,
    /// Displays and queued updates that need it where it is.
    pub pins: u32,
    /// The process offers its content, or is about to.
    offers: Seldom<Offers>,
    /// The group in which its bytes count for the processes that list it.
    pub charged: Option<SegmentGroup>,
    /// Last uses that no work has waited for yet.
    pub last_use: Vec<FencePoint<F>>,
    /// Where it is mapped: space and first page.
    pub mappings: BTreeSet<(SpaceId, u64)>,
    /// It is storage of native fences, whose words begin with this pattern: what has no content yet holds it.
    pub pattern: Option<u32>,
    /// It belongs to a context or device of the driver's own making (memory §7.5).
    pub context: Option<Box<ContextContent>>,
    /// Its ranges that have one driver protection wherever they are mapped.
    pub unique: UniqueProtections,
    pub locks: Seldom<Locks>,
    /// WDDM 1, marked `Swizzled`: what its backing store has is linear.
    pub backing_linear: bool,
    /// WDDM 1: it was evicted while the CPU saw it through this range at an alternate address.
    pub special: Option<Box<HeldRange>>,
    pub displayed: Seldom<Displayed>,
    /// Serial of the last work that touched its content or backing store.
    pub last_work: u64,
    /// The serials of the works with which MakeResidents bring the content, rising: those that were not done when the last of them was queued.
    /// Each coming has its own uses behind it.
    pub comings: Vec<u64>,
    /// What the planner was told of it.
    pub told: Seldom<Told>,
}

impl<F> Allocation<F> {
    /// Declares the content of its backing store void: zeroes replace it, and zeroes are linear. Memory that a caller brought along keeps
    /// its content.
    // spec: memory §5.9, memory §6.5
    pub fn lose_content(&mut self) {
        if self.foreign {
            self.valid = PageSet::all(self.pages);
        } else {
            (self.valid, self.backing_linear) = (PageSet::default(), true);
        }
    }

    /// A new one of a device, with its backing store, nowhere yet.
    pub fn new(
        owner: DeviceId,
        band: ProcessPriority,
        (info, pages): (AllocationInfo, u64),
        backing: Vec<PageRun>,
    ) -> Self {
        Allocation {
            owner: Some(owner),
            info,
            pages,
            backing,
            foreign: false,
            primary: false,
            unmoveable: false,
            valid: PageSet::default(),
            placement: Placement::None,
            in_place: false,
            count: 0,
            lazy_since: None,
            aside: None,
            doomed: None,
            uses_at_death: None,
            returns: false,
            holders: BTreeSet::new(),
            band,
            standing: None,
            pins: 0,
            offers: Seldom::default(),
            charged: None,
            last_use: Vec::new(),
            mappings: BTreeSet::new(),
            pattern: None,
            context: None,
            unique: UniqueProtections::default(),
            locks: Seldom::default(),
            backing_linear: true,
            special: None,
            displayed: Seldom::default(),
            last_work: 0,
            comings: Vec::new(),
            told: Seldom::default(),
        }
    }

    /// The offer that counts, if one does.
    pub fn offer(&self) -> Option<Offer> {
        self.offers.counts
    }

    /// A MakeResident brings content with this work; the ring is past `completed`.
    pub fn comes(&mut self, serial: u64, completed: u64) {
        self.comings.retain(|coming| *coming > completed);
        if self.last_coming() < serial {
            self.comings.push(serial);
        }
    }

    /// The serial of the last work with which a MakeResident brought the content; 0: none did.
    pub fn last_coming(&self) -> u64 {
        self.comings.last().copied().unwrap_or(0)
    }

    /// The offer that waits for its device's turn.
    pub fn offer_due(&self) -> Option<Offer> {
        self.offers.due
    }

    /// Offered content is gone. Answers whether it is offered.
    #[must_use = "what is not offered is not thrown away"]
    pub fn discard_offered(&mut self) -> bool {
        self.offers.counts.iter_mut().for_each(|offer| offer.discarded = true);
        self.offers.counts.is_some()
    }

    /// Whether it is offered, as its process sees it.
    // spec: memory §5.9
    pub fn is_offered(&self) -> bool {
        let Offers { counts, due } = *self.offers;
        debug_assert!(counts.is_none() || due.is_none(), "offered as {counts:?}, and once more");
        counts.is_some() || due.is_some()
    }

    /// Whether a partial eviction is forbidden (memory §8.3).
    pub fn all_or_nothing(&self) -> bool {
        self.contiguous() || self.info.flags2.contains(AllocationFlags2::DISABLE_PARTIAL_RESIDENCY)
    }

    /// Whether it lies in one run of frames of a memory segment.
    // spec: memory §1.6
    pub fn contiguous(&self) -> bool {
        self.accessed_physically() || self.primary
    }

    /// Whether engines may reach it by physical addresses: an aperture shows it while it lies in system memory.
    pub fn accessed_physically(&self) -> bool {
        self.info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY)
    }

    /// Whether the CPU may see it wherever it lies. A primary needs no flag for that.
    // spec: memory §2.2 bits 0 and 18, memory §2.7
    pub fn cpu_visible(&self) -> bool {
        self.primary || self.info.flags.intersects(VISIBLE)
    }

    /// Whether it takes one run of pages of a segment.
    pub fn takes_run(&self, of: &Segment) -> bool {
        if of.is_aperture() { self.accessed_physically() } else { self.contiguous() }
    }

    /// The driver's name of it; the kernel's own has none.
    // spec: memory §3.4: hAllocation is NULL then
    pub fn named(&self) -> Option<KmdAllocation> {
        (!self.stores_fences()).then_some(self.info.allocation)
    }

    /// Whether it is storage of native fences.
    // spec: sync §1.5
    pub fn stores_fences(&self) -> bool {
        self.pattern.is_some()
    }

    /// `hDevice` of what shows it in an aperture: none for a primary, even if a device owns it.
    // spec: memory §3.4, operations 5 and 6
    pub fn device(&self) -> Option<DeviceId> {
        self.owner.filter(|_| !self.primary)
    }

    /// Pages that it takes in a segment.
    // spec: memory §2.6
    pub fn pages_in(&self, segment: &Segment) -> u64 {
        pages_in(&self.info, self.pages, segment)
    }

    /// Bytes, rounded to pages.
    pub fn bytes(&self) -> u64 {
        Pages(self.pages).bytes()
    }

    /// Pages in a memory segment.
    pub fn resident_pages(&self) -> u64 {
        match &self.placement {
            Placement::Memory(_, extents) => extents.pages(),
            Placement::None | Placement::System(_) => 0,
        }
    }

    /// The system pages behind `count` pages from page `first`.
    pub fn backing_of(&self, first: u64, count: u64) -> Vec<PageRun> {
        cut(&self.backing, first, count)
    }

    /// Where its resident pages among `first..first + count` are: page, pages, segment, frame.
    pub fn resident_pieces(&self, first: u64, count: u64) -> Vec<(u64, u64, SegmentId, u64)> {
        let mut pieces = Vec::new();
        match &self.placement {
            Placement::None => {}
            Placement::Memory(segment, extents) => {
                for extent in extents.iter() {
                    let (low, high) = (extent.page.max(first), (extent.page + extent.count).min(first + count));
                    if low < high {
                        pieces.push((low, high - low, *segment, extent.frame + (low - extent.page)));
                    }
                }
            }
            Placement::System(_) => {
                let mut page = first;
                for run in self.backing_of(first, count) {
                    pieces.push((page, run.count.0, SegmentId::SYSTEM, run.first));
                    page += run.count.0;
                }
            }
        }
        pieces
    }

    /// The segments in the order of memory §8.1 step 1.
    pub fn candidates(&self) -> impl Iterator<Item = SegmentId> + '_ {
        let preferred = self.info.preferred_segment;
        let others = self.info.supported_segments.iter();
        preferred.segments().chain(others.filter(move |id| !preferred.segments().any(|named| named == *id)))
    }
}

/// Pages that an allocation of `pages` pages takes in a segment: by its PitchAlignedSize where pitches are aligned.
// spec: memory §1.5 bit 5, memory §2.6
pub(crate) fn pages_in(info: &AllocationInfo, pages: u64, segment: &Segment) -> u64 {
    if !segment.aligns_pitches() {
        return pages;
    }
    info.pitch_aligned_size_bytes.div_ceil(segment.page_bytes()) * (segment.page_bytes() / PAGE_BYTES)
}

/// The part of a page list that holds `count` pages from page `first` on.
pub fn cut(runs: &[PageRun], first: u64, count: u64) -> Vec<PageRun> {
    let (mut skip, mut left) = (first, count);
    let mut part = Vec::new();
    for run in runs {
        if left == 0 {
            break;
        }
        if skip >= run.count.0 {
            skip -= run.count.0;
            continue;
        }
        let pages = (run.count.0 - skip).min(left);
        part.push(PageRun { first: run.first + skip, count: Pages(pages) });
        (skip, left) = (0, left - pages);
    }
    assert_eq!(left, 0, "a page list covers its allocation");
    part
}
