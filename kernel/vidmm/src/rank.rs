//! The order in which content loses its place, and how much of it there is at each step (memory §8.2). It moves
//! nothing: `plan` counts with it, `victim` takes from it.
//!
//! Everything with pages in a memory segment has a *standing* there: the protection of its process, and a rank if it
//! can be taken. `standing` derives it from the allocation alone, after whatever changed it.
//!
//! | tier | what |
//! |---|---|
//! | 0 | destroyed by its owner, last use pending |
//! | 1, 2, 3 | offered LOW, NORMAL, HIGH |
//! | 4 + 2 b | on no list (lazily evicted), of a process with protection b |
//! | 5 + 2 b | only on lists of suspended devices, protection b |
//! | none | on the list of an active device, or pinned |
//!
//! Within a tier: lower priority first, then the earlier. With equal priorities the lazily evicted are an exact LRU. Of
//! suspended devices the one suspended last loses first: it is the last to have its turn. Where evictions are planned, the time of the lazily
//! evicted is their place in the plan, and that is the time of their Evict while nothing is foreseen (`foreseen`).

use std::collections::BTreeSet;

use wddm_types::SegmentId;

use crate::budget::ProcessPriority;
use crate::slab::{AllocationId, Key as _};

/// How many degrees of protection there are.
pub(crate) const BANDS: usize = 3;
/// The tier of what its owner has destroyed.
pub(crate) const DOOMED_TIER: usize = 0;
/// How many tiers.
pub(crate) const TIERS: usize = 4 + 2 * BANDS;

/// Place in the order of victims: the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub tier: usize,
    /// Eviction priority of the allocation (memory §2.3).
    pub priority: u32,
    pub time: u64,
}

/// The tier of the lazily evicted of a protection.
pub(crate) const fn lazy_tier(band: ProcessPriority) -> usize {
    4 + 2 * band as usize
}

/// Whether a tier is one of the lazily evicted.
pub(crate) const fn is_lazy(tier: usize) -> bool {
    tier >= lazy_tier(ProcessPriority::Background) && tier.is_multiple_of(2)
}

/// The tier of suspended devices' content of a protection.
pub(crate) const fn suspended_tier(band: ProcessPriority) -> usize {
    5 + 2 * band as usize
}

/// An allocation's entry in the victim order of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VictimEntry {
    pub segment: SegmentId,
    pub band: ProcessPriority,
    pub pages: u64,
    pub rank: Option<Rank>,
}

impl VictimEntry {
    /// Where the pages count for a protection, and for which.
    pub(crate) fn holds(self) -> Option<(SegmentId, ProcessPriority)> {
        self.counts_for_band().then_some((self.segment, self.band))
    }

    /// Whether its tier is one of its protection, or of none.
    fn is_of_its_band(&self) -> bool {
        let tiers = [lazy_tier(self.band), suspended_tier(self.band)];
        self.rank.is_none_or(|rank| !self.counts_for_band() || tiers.contains(&rank.tier))
    }

    /// Whether the pages still are worth something to a process.
    fn counts_for_band(&self) -> bool {
        self.rank.is_none_or(|rank| rank.tier >= lazy_tier(ProcessPriority::Background))
    }
}

/// The standings of one segment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Victims {
    order: BTreeSet<(Rank, AllocationId)>,
    pages: [u64; TIERS],
    held: [u64; BANDS],
    /// The allocations that hold these.
    holding: [BTreeSet<AllocationId>; BANDS],
}

impl Victims {
    /// The victim to be taken next.
    pub fn first(&self) -> Option<(Rank, AllocationId)> {
        self.order.first().copied()
    }

    /// The victims up to and including a tier, in order, each with its tier.
    pub fn up_to(&self, tier: usize) -> impl Iterator<Item = (usize, AllocationId)> + '_ {
        self.order.iter().take_while(move |(rank, _)| rank.tier <= tier).map(|&(rank, id)| (rank.tier, id))
    }

    /// The lazily evicted, in order.
    pub fn lazily_evicted(&self) -> impl Iterator<Item = AllocationId> + '_ {
        let first_of = |tier| (Rank { tier, priority: 0, time: 0 }, AllocationId::new(0, 0));
        let tiers = (lazy_tier(ProcessPriority::Background)..TIERS).filter(|tier| is_lazy(*tier));
        tiers.flat_map(move |tier| self.order.range(first_of(tier)..first_of(tier + 1))).map(|&(_, id)| id)
    }

    /// Pages of victims up to and including a tier.
    pub fn pages_up_to(&self, tier: usize) -> u64 {
        self.pages[..=tier].iter().sum()
    }

    /// Pages of one tier.
    pub fn pages_of(&self, tier: usize) -> u64 {
        self.pages[tier]
    }

    /// Pages that processes of a protection have here, victims or not; the destroyed and the offered do not count.
    pub fn held(&self, band: ProcessPriority) -> u64 {
        self.held[band as usize]
    }

    /// The allocations here of processes below a protection, in the order of protection; as `held` counts.
    pub fn holding_below(&self, band: ProcessPriority) -> impl Iterator<Item = AllocationId> + '_ {
        self.holding[..band as usize].iter().flatten().copied()
    }

    /// An allocation begins to hold pages with a protection, or stops.
    pub(crate) fn hold(&mut self, id: AllocationId, band: ProcessPriority, holds: bool) {
        let holding = &mut self.holding[band as usize];
        let changed = if holds { holding.insert(id) } else { holding.remove(&id) };
        assert!(changed, "what holds pages stands there once");
    }

    /// What holds between the sums and the sets of a protection, after a change of both.
    pub(crate) fn assert_held(&self, band: ProcessPriority) {
        let (pages, ids) = (self.held(band), &self.holding[band as usize]);
        debug_assert_eq!(pages == 0, ids.is_empty(), "{pages} pages are held as {band:?}, by {ids:?}");
    }

    pub(crate) fn add(&mut self, id: AllocationId, standing: VictimEntry) {
        debug_assert!(standing.pages > 0, "{id:?} has a standing and no page: {standing:?}");
        debug_assert!(standing.is_of_its_band(), "{id:?} stands in the tier of another protection: {standing:?}");
        if let Some(rank) = standing.rank {
            assert!(self.order.insert((rank, id)), "a victim stands in the order once");
            self.pages[rank.tier] += standing.pages;
        }
        if standing.counts_for_band() {
            self.held[standing.band as usize] += standing.pages;
        }
    }

    pub(crate) fn remove(&mut self, id: AllocationId, standing: VictimEntry) {
        if let Some(rank) = standing.rank {
            assert!(self.order.remove(&(rank, id)), "a victim stands in the order");
            let pages = self.pages[rank.tier];
            debug_assert!(standing.pages <= pages, "{standing:?} goes, and {pages} pages have its tier");
            self.pages[rank.tier] -= standing.pages;
        }
        if standing.counts_for_band() {
            let held = self.held(standing.band);
            debug_assert!(standing.pages <= held, "{standing:?} goes, and {held} pages are held so");
            self.held[standing.band as usize] -= standing.pages;
        }
    }
}
