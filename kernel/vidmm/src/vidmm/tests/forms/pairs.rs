//! A pair of leaf tables by itself: what it is asked beyond what the memory manager asks of it today.

use super::*;
use crate::page_table::LeafEntry;
use crate::paging::{Batch, Hull, Section};

/// First page of the pair.
const FIRST: u64 = 512;
/// Pages of a 64-KB entry.
const WHOLE: u64 = 16;

struct Pair {
    mm: Mm,
    space: SpaceId,
    /// Of the next batch.
    serial: u64,
}

/// A written run: first page within the pair, pages, whether valid, whether 64-KB entries.
type Written = (u64, u64, bool, bool);

impl Pair {
    fn new(flags: GpuMmuFlags) -> Pair {
        let bench = Bench::new(coarse_shape(flags | GpuMmuFlags::DUAL_PTE_SUPPORTED), 1024, 64, &[]);
        let (mut mm, space) = (bench.mm, bench.space);
        let (table, frames) = mm.spaces.table_and_frames(space);
        table.cover(space, FIRST, 512, None, frames).expect("room");
        Pair { mm, space, serial: 100 }
    }

    fn batch(&mut self) -> Batch<u8> {
        self.serial += 1;
        Batch::new(self.serial)
    }

    fn write(&mut self, at: u64, pages: u64, entry: LeafEntry, batch: &mut Batch<u8>, section: Section) {
        self.mm.spaces.table_and_frames(self.space).0.write(self.space, FIRST + at, pages, entry, batch, section);
    }

    /// The same in a work of its own.
    fn alone(&mut self, at: u64, pages: u64, entry: LeafEntry, section: Section) -> Batch<u8> {
        let mut batch = self.batch();
        self.write(at, pages, entry, &mut batch, section);
        batch
    }

    fn hull(&self, at: u64, pages: u64) -> (GpuVa, GpuVa) {
        (GpuVa((FIRST + at) * PAGE_BYTES), GpuVa((FIRST + at + pages) * PAGE_BYTES - 1))
    }

    fn noted(&self, hulls: &BTreeMap<SpaceId, Hull>) -> Option<(GpuVa, GpuVa)> {
        hulls.get(&self.space).map(|hull| (hull.first, hull.last))
    }
}

/// Consecutive pages of video memory, of which 64-KB entries may speak or not.
fn memory(page: u64, coarse_allowed: bool) -> LeafEntry {
    let address = PhysicalAddress { segment: VRAM, offset: page * PAGE_BYTES };
    let pte = ddi::Pte { flags: PteFlags::VALID, address };
    LeafEntry { pte, repeat: false, coarse_allowed, ..LeafEntry::INVALID }
}

fn written(operations: &[Operation]) -> Vec<Written> {
    let leaf = |operation: &Operation| match *operation {
        Operation::UpdatePageTable { level: 0, start_index, count, first, use_64kb, .. } => {
            Some((start_index.into(), count.into(), first.flags.contains(PteFlags::VALID), use_64kb))
        }
        _ => None,
    };
    operations.iter().filter_map(leaf).collect()
}

#[test]
fn what_a_work_makes_valid_it_makes_invalid_behind_that() {
    // spec: memory §4.5, memory §8.3
    let mut pair = Pair::new(GpuMmuFlags::empty());
    let mut batch = pair.batch();
    pair.write(16, WHOLE, memory(32, true), &mut batch, Section::Valid);
    pair.write(32, WHOLE, memory(3, false), &mut batch, Section::Valid);
    batch.fresh.clear();
    pair.write(34, 4, LeafEntry::INVALID, &mut batch, Section::Invalid);
    assert_eq!(pair.noted(&batch.fresh), Some(pair.hull(34, 4)), "whose translations the flush behind has to forget");
    assert!(batch.relinked.contains(&pair.space) && batch.idle_spaces.is_empty());
    batch.fresh.clear();
    pair.write(20, 1, LeafEntry::INVALID, &mut batch, Section::Invalid);
    let expected = [
        (16, 16, true, true),
        (32, 16, true, false),
        (34, 4, false, false),
        // Taken apart behind what it was written with.
        (16, 16, false, true),
        (16, 16, true, false),
        (20, 1, false, false),
    ];
    assert_eq!((written(&batch.entries), written(&batch.invalidations)), (expected.to_vec(), vec![]));
    assert_eq!(pair.noted(&batch.fresh), Some(pair.hull(16, WHOLE)), "of the whole 64-KB page");
    assert_eq!((batch.idle_spaces.len(), batch.conversions.len()), (1, 1));
    assert!(batch.stale.is_empty());
}

#[test]
fn a_part_made_valid_within_64_kb_takes_them_apart_behind_what_becomes_invalid() {
    // spec: memory §4.5
    let mut pair = Pair::new(GpuMmuFlags::empty());
    drop(pair.alone(16, WHOLE, memory(32, true), Section::Valid));
    let batch = pair.alone(20, 1, memory(99, false), Section::Valid);
    assert_eq!(written(&batch.entries), [(16, 16, false, true), (16, 16, true, false), (20, 1, true, false)]);
    assert_eq!(pair.noted(&batch.fresh), Some(pair.hull(16, WHOLE)));
    assert!(batch.relinked.contains(&pair.space), "the hardware may remember the 64-KB entry");
    assert_eq!((batch.idle_spaces.len(), batch.stale.len()), (1, 0));
}

#[test]
fn what_another_work_has_made_valid_goes_before_content_comes() {
    // spec: memory §4.5, memory §8.3
    let mut pair = Pair::new(GpuMmuFlags::empty());
    drop(pair.alone(16, WHOLE, memory(32, true), Section::Valid));
    let batch = pair.alone(20, 1, LeafEntry::INVALID, Section::Invalid);
    let expected = [(16, 16, false, true), (16, 16, true, false), (20, 1, false, false)];
    assert_eq!((written(&batch.invalidations), written(&batch.entries)), (expected.to_vec(), vec![]));
    assert_eq!(pair.noted(&batch.stale), Some(pair.hull(16, WHOLE)), "of the whole 64-KB page");
    assert!(batch.relinked.is_empty() && batch.fresh.is_empty());
}

#[test]
fn of_64_kb_one_form_is_valid() {
    // spec: memory §4.5, only one of the two forms is valid at any time
    let mut pair = Pair::new(GpuMmuFlags::empty());
    drop(pair.alone(16, 1, memory(3, false), Section::Valid));
    let batch = pair.alone(16, WHOLE, memory(32, true), Section::Valid);
    assert_eq!(written(&batch.entries), [(16, 16, true, false)], "a 4-KB page is valid among them");
    drop(pair.alone(16, WHOLE, LeafEntry::INVALID, Section::Invalid));
    let batch = pair.alone(16, WHOLE, memory(32, true), Section::Valid);
    assert_eq!(written(&batch.entries), [(16, 16, true, true)], "nothing was");
}

#[test]
fn a_pair_whose_memory_was_lost_begins_anew() {
    // spec: memory §4.5, memory §8.4
    let mut pair = Pair::new(GpuMmuFlags::empty());
    let mut batch = pair.batch();
    pair.write(16, WHOLE, memory(32, true), &mut batch, Section::Valid);
    pair.write(32, WHOLE, memory(3, false), &mut batch, Section::Valid);
    let space = pair.space;
    let rebuilt = pair.mm.spaces.table_and_frames(space).0.rebuild(space);
    let entries = written(&rebuilt);
    assert!(!entries.is_empty() && entries.iter().all(|(_, _, valid, _)| !valid), "all of it is invalid");
    // Nothing is left to be made invalid, in a work that knows nothing or in the one that had made it valid.
    (batch.fresh, batch.relinked) = Default::default();
    pair.write(33, 1, LeafEntry::INVALID, &mut batch, Section::Invalid);
    assert!(batch.relinked.is_empty() && batch.fresh.is_empty(), "nor remembered as written");
    for at in [17, 33] {
        let other = pair.alone(at, 1, LeafEntry::INVALID, Section::Invalid);
        assert!(other.invalidations.is_empty() && other.conversions.is_empty(), "page {at}: {:?}", other.invalidations);
    }
    let other = pair.alone(32, WHOLE, memory(48, true), Section::Valid);
    assert_eq!(written(&other.entries), [(32, 16, true, true)], "in the form that it may have");
}

#[test]
fn a_large_page_that_is_taken_apart_leaves_nothing_of_what_was_before_it() {
    // spec: memory §4.5
    let mut pair = Pair::new(GpuMmuFlags::LARGE_PAGE_SUPPORTED);
    let large = |page, coarse| LeafEntry { large_allowed: true, ..memory(page, coarse) };
    drop(pair.alone(48, WHOLE, memory(32, true), Section::Valid));
    let batch = pair.alone(0, 512, large(512, false), Section::Valid);
    assert_eq!(written(&batch.entries), [], "the entry above says it");
    let batch = pair.alone(0, 1, LeafEntry::INVALID, Section::Invalid);
    let last = written(&batch.invalidations).split_off(2);
    assert_eq!(last, [(0, 512, true, false), (0, 1, false, false)], "behind two fresh tables");
    assert!(batch.conversions.is_empty());
    // Every page of it is known to be valid, in the one form only.
    let batch = pair.alone(48, WHOLE, LeafEntry::INVALID, Section::Invalid);
    assert_eq!(written(&batch.invalidations), [(48, 16, false, false)]);
    let batch = pair.alone(64, WHOLE, memory(32, true), Section::Valid);
    assert_eq!(written(&batch.entries), [(64, 16, true, false)]);
}

#[test]
fn a_copy_of_nothing_leaves_nothing_valid() {
    // spec: memory §3.4 operation 14, memory §4.5
    let mut pair = Pair::new(GpuMmuFlags::empty());
    drop(pair.alone(16, WHOLE, memory(3, false), Section::Valid));
    let (space, mut operations) = (pair.space, Vec::new());
    let to = wddm_types::PageRun { first: FIRST + 16, count: Pages(WHOLE) };
    assert!(pair.mm.spaces.table_and_frames(space).0.copy(FIRST + 64, to, 512, space, &mut operations));
    assert!(matches!(operations[..], [Operation::CopyEntries { source_start: 64, target_start: 16, count: 16, .. }]));
    let batch = pair.alone(16, WHOLE, LeafEntry::INVALID, Section::Invalid);
    assert!(batch.invalidations.is_empty(), "it says so already");
    let batch = pair.alone(16, WHOLE, memory(32, true), Section::Valid);
    assert_eq!(written(&batch.entries), [(16, 16, true, true)]);
}
