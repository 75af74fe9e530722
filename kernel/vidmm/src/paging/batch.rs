//! A work under construction: what each step of it notes, in sections that keep the order of memory §8.3 whatever the order
//! of the notes. Called by everything in this crate that moves content or changes entries.

use std::collections::{BTreeMap, BTreeSet};

use ddi::KmdAllocation;
use wddm_types::{FencePoint, GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use super::{Cause, Conversion, Departure, Move, MoveKind, MoveStep, Operation, Rotation, TableMove, Unqueued, Work};
use super::{UsedContent, merge_points};
use crate::operation::HeldRange;
use crate::operation::WindowPages;
use crate::slab::{AllocationId, DeviceId, SpaceId};

/// A work under construction. Its sections keep the order of memory §8.3: drivers told, content out, entries invalid,
/// TLB; content in, drivers told, entries valid, TLB. Operations in `settled` come before all of that.
#[derive(Debug)]
pub(crate) struct Batch<F> {
    pub serial: u64,
    /// Of all batches, and rising with each settlement: what was noted under another one is in order already.
    pub epoch: u64,
    pub suspends: Vec<DeviceId>,
    pub quiesced: Vec<DeviceId>,
    pub idle_spaces: BTreeSet<SpaceId>,
    /// Operations that make room for new roots, before them.
    ahead: Vec<Operation>,
    /// Roots that become longer or shorter, before anything else.
    pub roots: Vec<Operation>,
    pub after: Vec<FencePoint<F>>,
    /// Content that leaves behind uses.
    pub used: Vec<UsedContent<F>>,
    pub clear: Vec<PageRun>,
    /// Operations whose order is settled.
    pub settled: Vec<Operation>,
    /// Notices to the driver of what is about to leave.
    pub leaving: Vec<Operation>,
    /// Copies out.
    pub out: Vec<Operation>,
    /// Entries made invalid, and aperture pages unmapped.
    pub invalidations: Vec<Operation>,
    /// Copies in and fills.
    pub content: Vec<Operation>,
    /// Notices to the driver of what has come.
    pub arrived: Vec<Operation>,
    /// Entries made valid.
    pub entries: Vec<Operation>,
    /// First and last address per space with entries made invalid.
    pub stale: BTreeMap<SpaceId, Hull>,
    /// First and last address per space with entries made valid.
    pub fresh: BTreeMap<SpaceId, Hull>,
    /// Spaces in which `fresh` covers tables that stood elsewhere before.
    pub relinked: BTreeSet<SpaceId>,
    pub moves: Vec<Move>,
    pub tables: Vec<TableMove>,
    pub conversions: Vec<Conversion>,
    /// Locked allocations that may be seen elsewhere afterwards.
    pub locked: BTreeSet<AllocationId>,
    /// Those of them that have left since content last came.
    left: BTreeSet<AllocationId>,
    /// Of the rotations so far, how many the CPU is to be shown before what is noted as content comes.
    departing: Option<usize>,
    /// Their operations are counted from the first of `ahead` on, through `settled`.
    departures: Vec<Departure>,
    /// Windows that the locked among them leave.
    pub unmap_locked: BTreeMap<AllocationId, WindowPages>,
    pub unmap: Vec<WindowPages>,
    /// Ranges that the locked among them leave.
    pub ranges_locked: BTreeMap<AllocationId, Vec<HeldRange>>,
    pub ranges: Vec<HeldRange>,
    /// Locked allocations whose content is copied out over a backing store that the CPU writes.
    pub copied_locked: BTreeSet<AllocationId>,
    pub rotations: Vec<Rotation>,
}

/// Which entries of a work are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// Those that become invalid, before content comes.
    Invalid,
    /// Those that become valid, when it is there.
    Valid,
}

/// An address range of a space that a TLB flush has to cover.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hull {
    pub root: PhysicalAddress,
    pub first: GpuVa,
    pub last: GpuVa,
}

impl Hull {
    /// The addresses of `count` pages from page `first` on.
    pub fn of(root: PhysicalAddress, first: u64, count: u64) -> Hull {
        Hull { root, first: GpuVa(first * PAGE_BYTES), last: GpuVa((first + count) * PAGE_BYTES - 1) }
    }

    /// Widens the hull of `space` in `hulls`.
    pub fn note(hulls: &mut BTreeMap<SpaceId, Hull>, space: SpaceId, hull: Hull) {
        debug_assert!(hull.first <= hull.last, "{hull:?} has no address");
        let known = hulls.entry(space).or_insert(hull);
        known.first = known.first.min(hull.first);
        known.last = known.last.max(hull.last);
    }
}

impl<F: Copy + Eq> Batch<F> {
    pub fn new(serial: u64) -> Self {
        Batch {
            serial,
            epoch: serial << 32,
            suspends: Vec::new(),
            quiesced: Vec::new(),
            idle_spaces: BTreeSet::new(),
            ahead: Vec::new(),
            roots: Vec::new(),
            after: Vec::new(),
            used: Vec::new(),
            clear: Vec::new(),
            settled: Vec::new(),
            leaving: Vec::new(),
            out: Vec::new(),
            invalidations: Vec::new(),
            content: Vec::new(),
            arrived: Vec::new(),
            entries: Vec::new(),
            stale: BTreeMap::new(),
            fresh: BTreeMap::new(),
            relinked: BTreeSet::new(),
            moves: Vec::new(),
            tables: Vec::new(),
            conversions: Vec::new(),
            locked: BTreeSet::new(),
            left: BTreeSet::new(),
            departing: None,
            departures: Vec::new(),
            unmap_locked: BTreeMap::new(),
            unmap: Vec::new(),
            ranges_locked: BTreeMap::new(),
            ranges: Vec::new(),
            copied_locked: BTreeSet::new(),
            rotations: Vec::new(),
        }
    }

    /// Content is taken from its place behind these uses.
    pub fn takes_used(&mut self, used: UsedContent<F>) {
        merge_points(&mut self.after, &used.until);
        self.used.extend((!used.until.is_empty() || used.drops_content()).then_some(used));
    }

    /// The operations on entries that become valid, or invalid.
    pub fn section(&mut self, section: Section) -> &mut Vec<Operation> {
        match section {
            Section::Invalid => &mut self.invalidations,
            Section::Valid => &mut self.entries,
        }
    }

    /// Notes a move; what moves of one allocation in one way adds up.
    pub fn moved(&mut self, step: MoveStep) {
        let bytes = step.run.count.0 * PAGE_BYTES;
        let way = |known: &Move| (known.allocation, known.kind, known.cause, known.segment);
        // One allocation is handled at a time, so its entry is among the last few. Works ahead change from one to another and back: what
        // comes stands behind what made room for it.
        let near = if step.cause == Cause::Foreseen { 1 } else { 4 };
        let like = |known: &&mut Move| way(known) == (step.allocation, step.kind, step.cause, step.segment);
        let Some(known) = self.moves.iter_mut().rev().take(near).find(like) else {
            self.moves.push(Move {
                allocation: step.allocation,
                kmd_allocation: step.kmd_allocation,
                bytes,
                kind: step.kind,
                cause: step.cause,
                segment: step.segment,
                runs: vec![step.run],
            });
            return;
        };
        known.bytes += bytes;
        match known.runs.last_mut() {
            Some(last) if last.end() == step.run.first => last.count.0 += step.run.count.0,
            // Extents leave from the end.
            Some(last) if step.run.end() == last.first => {
                *last = PageRun { first: step.run.first, count: Pages(last.count.0 + step.run.count.0) };
            }
            _ => known.runs.push(step.run),
        }
    }

    /// Whether entries of a space are made valid in it already.
    pub fn writes(&self, space: SpaceId) -> bool {
        self.entries.iter().any(|what| matches!(what, Operation::UpdatePageTable { space: of, .. } | Operation::CopyEntries { space: of, .. } if *of == space))
    }

    /// Notes that an allocation's pages go from the first run to the second, for another's sake.
    pub fn relocated(
        &mut self,
        allocation: AllocationId,
        kmd_allocation: KmdAllocation,
        segment: SegmentId,
        for_allocation: AllocationId,
        pair: [PageRun; 2],
    ) {
        debug_assert_eq!(pair[0].count, pair[1].count, "{allocation:?} goes from {pair:?}");
        let (kind, cause) = (MoveKind::Relocate, Cause::Compaction { for_allocation });
        let bytes = pair[0].count.bytes();
        let like = |known: &&mut Move| (known.allocation, known.kind, known.cause) == (allocation, kind, cause);
        match self.moves.iter_mut().find(like) {
            Some(known) => {
                known.bytes += bytes;
                known.runs.extend(pair);
            }
            None => {
                let runs = pair.to_vec();
                self.moves.push(Move { allocation, kmd_allocation, bytes, kind, cause, segment, runs });
            }
        }
    }

    /// Puts all that the sections hold behind what is settled: what is noted from now on comes after it.
    /// `flush_fresh`: the TLB may remember invalid entries.
    pub fn settle(&mut self, flush_fresh: bool) {
        self.settle_leaving(flush_fresh);
        if let Some(rotations) = self.departing.take() {
            self.departures.push(Departure { operations: self.ahead.len() + self.settled.len(), rotations });
        }
        self.settled.append(&mut self.content);
        self.settled.append(&mut self.arrived);
        self.settled.append(&mut self.entries);
        let mut fresh = std::mem::take(&mut self.fresh);
        let relinked = std::mem::take(&mut self.relinked);
        fresh.retain(|space, _| flush_fresh || relinked.contains(space));
        self.settled.extend(flushes(&fresh));
        self.epoch += 1;
        debug_assert_eq!(self.epoch >> 32, self.serial, "epoch {:#x} is another work's", self.epoch);
    }

    /// Puts all that has left so far, and its flushes, before new roots: they may lie where tables were that go.
    // spec: memory §4.6
    pub fn settle_ahead(&mut self) {
        self.ahead.append(&mut self.settled);
        self.ahead.append(&mut self.leaving);
        self.ahead.append(&mut self.out);
        self.ahead.append(&mut self.invalidations);
        self.ahead.extend(flushes(&std::mem::take(&mut self.stale)));
    }

    /// Flushes the invalid entries from the TLB before content comes. Where none comes, one flush per space covers all, behind the entries
    /// that become valid.
    // spec: memory §3.4, operation 12
    fn settle_leaving(&mut self, flush_fresh: bool) {
        if self.content.is_empty() && self.arrived.is_empty() {
            for (space, hull) in &mut self.fresh {
                let same_root = self.stale.get(space).is_some_and(|stale| stale.root == hull.root);
                if same_root && (flush_fresh || self.relinked.contains(space)) {
                    let stale = self.stale.remove(space).expect("just seen");
                    (hull.first, hull.last) = (hull.first.min(stale.first), hull.last.max(stale.last));
                }
            }
        }
        self.settled.append(&mut self.leaving);
        self.settled.append(&mut self.out);
        self.settled.append(&mut self.invalidations);
        self.settled.extend(flushes(&std::mem::take(&mut self.stale)));
    }

    /// Locked content leaves where the CPU sees it.
    pub fn locked_leaves(&mut self, id: AllocationId) {
        self.locked.insert(id);
        self.left.insert(id);
    }

    /// Locked content comes, perhaps from elsewhere: the CPU sees it there when it has come.
    pub fn locked_comes(&mut self, id: AllocationId) {
        self.locked.insert(id);
        self.left.remove(&id);
    }

    /// Takes the locked allocations that have left before content that was noted: the CPU is to be shown them before that comes.
    // spec: memory §6.3
    pub fn take_left(&mut self) -> BTreeSet<AllocationId> {
        if self.content.is_empty() {
            return BTreeSet::new();
        }
        let left = std::mem::take(&mut self.left);
        self.locked.retain(|id| !left.contains(id));
        left
    }

    /// These rotations are of content that has left.
    pub fn departs(&mut self, rotations: Vec<Rotation>) {
        if !rotations.is_empty() {
            self.rotations.extend(rotations);
            self.departing = Some(self.rotations.len());
        }
    }

    /// Whether nothing was noted at all, which is what most calls come to.
    fn is_empty(&self) -> bool {
        let operations = [&self.ahead, &self.roots, &self.settled, &self.leaving, &self.out, &self.invalidations];
        operations.into_iter().chain([&self.content, &self.arrived, &self.entries]).all(Vec::is_empty)
            && self.stale.is_empty()
            && self.fresh.is_empty()
            && self.has_no_effects()
    }

    /// Whether there is nothing beside operations to be carried out.
    fn has_no_effects(&self) -> bool {
        self.suspends.is_empty()
            && self.quiesced.is_empty()
            && self.after.is_empty()
            && self.clear.is_empty()
            && self.moves.iter().all(|moved| moved.kind.is_quiet())
            && self.rotations.is_empty()
            && self.unmap.is_empty()
            && self.ranges.is_empty()
    }

    /// The finished work. `flush_fresh`: the TLB may remember invalid entries.
    ///
    /// # Errors
    /// There is nothing to do; what has moved all the same.
    pub fn finish(mut self, flush_fresh: bool) -> Result<Work<F>, Vec<Move>> {
        if self.is_empty() {
            return Err(self.moves);
        }
        self.settle_leaving(flush_fresh);
        // New roots come first, behind what makes room for them.
        let mut first = std::mem::take(&mut self.ahead);
        if !first.is_empty() || !self.roots.is_empty() {
            let (ahead, roots) = (first.len(), self.roots.len());
            let behind = self.departures.iter_mut().filter(|departure| departure.operations >= ahead);
            behind.for_each(|departure| departure.operations += roots);
            first.append(&mut self.roots);
            first.append(&mut self.settled);
            self.settled = first;
        }
        self.settle(flush_fresh);
        if self.settled.is_empty() && self.has_no_effects() {
            return Err(self.moves);
        }
        debug_assert!(self.stale.is_empty() && self.fresh.is_empty(), "entries changed, and no flush covers them");
        let inside = |departure: &Departure| departure.operations <= self.settled.len();
        debug_assert!(self.departures.iter().all(inside), "{:?} of {}", self.departures, self.settled.len());
        Ok(Work {
            serial: self.serial,
            immediate: false,
            suspends: self.suspends,
            quiesced: self.quiesced,
            idle_spaces: self.idle_spaces.into_iter().collect(),
            after: self.after,
            used: self.used,
            clear: self.clear,
            operations: self.settled,
            moves: self.moves,
            tables: self.tables,
            conversions: self.conversions,
            rotations: self.rotations,
            unmap: self.unmap,
            ranges: self.ranges,
            departures: self.departures,
            unqueued: Unqueued::decided(),
        })
    }
}

fn flushes(hulls: &BTreeMap<SpaceId, Hull>) -> impl Iterator<Item = Operation> + '_ {
    hulls.iter().map(|(&space, hull)| Operation::FlushTlb { space, root: hull.root, start: hull.first, end: hull.last })
}
