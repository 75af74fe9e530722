//! A root of two levels that grows and shrinks while tables leave and come back, its own and those of others: after each
//! call everything that is there is where the map of addresses says (memory §4.6).

use std::collections::BTreeSet;

use ddi::RootPageTableSize;
use proptest::prelude::*;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use super::world::*;
use crate::{
    DeviceId, MapError, MapRequest, NextResume, Operation, Protection, SpaceId, SpaceKind, Target, VidMm, Work,
};

/// Leaf tables of 8 entries, roots of 4 to 256.
const LEAF_BITS: u32 = 3;
const ROOT_BITS: u32 = 8;
const BITS: [u32; 2] = [LEAF_BITS, ROOT_BITS];
/// The leaf tables that can be mapped, all but the first.
const LEAVES: u64 = 255;

/// Room for the tables of processes: so many pages, roots included. A root of 256 entries takes four of them.
fn adapter(pages: u64) -> Mm {
    let mut levels = levels(&BITS);
    (levels[1].index_bits, levels[1].size_bytes) = (0, 0);
    let size = |entries: u32| RootPageTableSize { entries, bytes: PAGE_BYTES * u64::from(entries).div_ceil(64) };
    let roots: Vec<RootPageTableSize> = (2..=ROOT_BITS).map(|bits| size(1 << bits)).collect();
    let policy = crate::Policy {
        page_table_reserve: Pages(RESERVE),
        paging_table_reserve: Pages(RESERVE - pages),
        suspend_others: true,
        // The first leaf table alone.
        invalid_pages: Pages(1 << LEAF_BITS),
        ..policy()
    };
    let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
    VidMm::with_roots(policy, &descriptors[..], mmu(&BITS), &levels, &roots).expect("the description keeps the rules")
}

struct Process {
    space: SpaceId,
    device: DeviceId,
    /// Leaf tables that are mapped whole.
    mapped: BTreeSet<u64>,
    number: u64,
}

impl Process {
    fn new(mm: &mut Mm, machine: &mut Machine, number: u64) -> Process {
        let (space, made) = mm.create_space(SpaceKind::Process).expect("tables");
        machine.carry_out(&made);
        Process { space, device: mm.create_device(space), mapped: BTreeSet::new(), number }
    }

    fn page(&self, leaf: u64) -> u64 {
        50_000 + self.number * 4096 + leaf * 8
    }

    fn map_all(&mut self, mm: &mut Mm, machine: &mut Machine, leaves: impl IntoIterator<Item = u64>) {
        for leaf in leaves {
            let work = self.map(mm, leaf).expect("room");
            carry_out(mm, machine, work);
        }
    }

    fn map(&mut self, mm: &mut Mm, leaf: u64) -> Result<Option<Work<u8>>, MapError> {
        let request = MapRequest {
            target: Target::SystemPages(PageRun { first: self.page(leaf), count: Pages(8) }),
            size_pages: Pages(8),
            base: Some(GpuVa(leaf * 8 * PAGE_BYTES)),
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            protection: Protection::READ_WRITE,
        };
        let (_, work) = mm.map_gpu_va(self.space, request)?;
        self.mapped.insert(leaf);
        Ok(work)
    }

    fn unmap(&mut self, mm: &mut Mm, leaf: u64) -> Option<Work<u8>> {
        assert!(self.mapped.remove(&leaf));
        mm.free_system_va(self.space, GpuVa(leaf * 8 * PAGE_BYTES), Pages(8))
    }

    /// Walks the last page of every leaf table that the root reaches.
    fn look(&self, mm: &Mm, machine: &Machine) -> Result<(), TestCaseError> {
        let (root, entries) = mm.root_table(self.space);
        let needed = self.mapped.last().map_or(0, |last| last + 1);
        prop_assert!(u64::from(entries) >= needed, "{} entries for {}", entries, needed);
        for leaf in 1..u64::from(entries) {
            let walked = machine.walk(root, &BITS, GpuVa((leaf * 8 + 7) * PAGE_BYTES));
            let walked = walked.map(|entry| entry.address.offset / PAGE_BYTES);
            let there = mm.tables_resident(self.space) && self.mapped.contains(&leaf);
            prop_assert_eq!(walked, there.then(|| self.page(leaf) + 7), "process {} leaf {}", self.number, leaf);
        }
        Ok(())
    }
}

/// The work reaches the hardware, contexts get another root where it says so.
fn carry_out(mm: &mut Mm, machine: &mut Machine, work: Option<Work<u8>>) {
    if let Some(work) = &work {
        for operation in &work.operations {
            if let Operation::SwitchRoot { space, .. } = operation {
                assert!(work.idle_spaces.contains(space), "it quiesces for that");
            }
        }
    }
    machine.queue(work);
    machine.run(mm);
    if let Some((space, root, entries)) = machine.switched.take() {
        mm.root_switched(space, root, entries);
    }
}

#[test]
fn a_root_grows_in_the_work_that_takes_the_tables_of_the_idle() {
    // spec: memory §4.6
    let (mut mm, mut machine) = (adapter(10), Machine::default());
    let mut one = Process::new(&mut mm, &mut machine, 0);
    let mut two = Process::new(&mut mm, &mut machine, 1);
    one.map_all(&mut mm, &mut machine, 1..=3);
    // Two roots of one page, three leaf tables; two more pages for the root of 128 entries, and three leaf tables.
    two.map_all(&mut mm, &mut machine, 1..=3);
    assert_eq!(two.map(&mut mm, 100), Err(MapError::OutOfTables), "the other runs");
    mm.set_device_idle(one.device, true);
    let work = two.map(&mut mm, 100).expect("the tables of the idle leave");
    let known = work.as_ref().expect("it writes");
    assert!(known.operations.iter().any(|what| matches!(what, Operation::SwitchRoot { .. })));
    assert!(known.tables.iter().any(|moved| moved.space == one.space && !moved.came));
    carry_out(&mut mm, &mut machine, work);
    // Its own root grows while its tables are away.
    assert!(!mm.tables_resident(one.space));
    let work = two.unmap(&mut mm, 100);
    carry_out(&mut mm, &mut machine, work);
    let work = one.map(&mut mm, 70).expect("room for all of it");
    carry_out(&mut mm, &mut machine, work);
    assert!(!mm.tables_resident(one.space) && mm.root_table(one.space).1 >= 71);
    for process in [&one, &two] {
        process.look(&mm, &machine).expect("as its addresses are");
    }
    mm.set_device_idle(one.device, false);
    mm.set_device_idle(two.device, true);
    let quantum = mm.policy.residency_quantum_ns;
    assert_eq!(mm.next_to_resume(quantum), NextResume::Resume(one.device));
    let work = mm.resume(one.device).expect("it was said so");
    carry_out(&mut mm, &mut machine, work);
    assert!(mm.tables_resident(one.space));
    for process in [&one, &two] {
        process.look(&mm, &machine).expect("as its addresses are");
    }
}

#[test]
fn a_shorter_root_may_lie_where_a_table_was_that_made_it_shorter() {
    // spec: memory §4.6
    let (mut mm, mut machine) = (adapter(13), Machine::default());
    let mut process = Process::new(&mut mm, &mut machine, 0);
    process.map_all(&mut mm, &mut machine, [16, 1]);
    let (before, _) = mm.root_table(process.space);
    let work = process.unmap(&mut mm, 16);
    // The old table is invalid and forgotten before the new root is written there.
    let operations = &work.as_ref().expect("it writes").operations;
    let flushed = |what: &Operation| matches!(what, Operation::FlushTlb { root, end, .. } if *root == before && end.0 < 17 * 8 * PAGE_BYTES);
    let made = |what: &Operation| matches!(what, Operation::UpdatePageTable { level: 1, initial: true, .. });
    let flushed = operations.iter().position(flushed).expect("a flush");
    assert!(flushed < operations.iter().position(made).expect("a new root"), "{operations:?}");
    carry_out(&mut mm, &mut machine, work);
    assert_eq!(mm.root_table(process.space).1, 4);
    process.look(&mm, &machine).expect("leaf 1 is still there");
    mm.check_invariants(&[]).expect("all is told");
}

#[test]
fn the_tables_of_the_idle_leave_for_a_root_that_must_grow() {
    // spec: memory §4.6
    let (mut mm, mut machine) = (adapter(10), Machine::default());
    let mut one = Process::new(&mut mm, &mut machine, 0);
    let mut two = Process::new(&mut mm, &mut machine, 1);
    one.map_all(&mut mm, &mut machine, 1..=3);
    two.map_all(&mut mm, &mut machine, 1..=4);
    // One page is free; a root of 128 entries takes two.
    assert_eq!(two.map(&mut mm, 100), Err(MapError::OutOfTables), "the other runs");
    assert!(mm.tables_resident(one.space));
    mm.set_device_idle(one.device, true);
    let work = two.map(&mut mm, 100).expect("the tables of the idle leave");
    let operations = &work.as_ref().expect("it writes").operations;
    let left = operations.iter().rposition(|what| matches!(what, Operation::EvictTable { .. })).expect("they left");
    let made = |what: &Operation| matches!(what, Operation::UpdatePageTable { level: 1, initial: true, .. });
    assert!(left < operations.iter().position(made).expect("a new root"), "{operations:?}");
    carry_out(&mut mm, &mut machine, work);
    assert!(!mm.tables_resident(one.space));
    for process in [&one, &two] {
        process.look(&mm, &machine).expect("as its addresses are");
    }
    mm.check_invariants(&[]).expect("all is told");
    for leaf in [5, 6, 7] {
        let work = one.map(&mut mm, leaf).expect("it fits alone");
        carry_out(&mut mm, &mut machine, work);
    }
    for leaf in 1..=4 {
        let work = two.unmap(&mut mm, leaf);
        carry_out(&mut mm, &mut machine, work);
    }
    // There is room for a root of 256 entries now: four pages of six. Six tables could never come back beside it.
    assert_eq!(two.map(&mut mm, 200), Err(MapError::OutOfTables));
    // Its turn comes.
    mm.set_device_idle(one.device, false);
    mm.set_device_idle(two.device, true);
    let quantum = mm.policy.residency_quantum_ns;
    assert_eq!(mm.next_to_resume(quantum), NextResume::Resume(one.device));
    let work = mm.resume(one.device).expect("it was said so");
    carry_out(&mut mm, &mut machine, work);
    assert!(mm.tables_resident(one.space));
    for process in [&one, &two] {
        process.look(&mm, &machine).expect("as its addresses are");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // spec: memory §4.6
    #[test]
    fn roots_grow_and_shrink_while_tables_leave_and_come_back(
        pages in 8u64..20,
        steps in prop::collection::vec((0u32..10, 0usize..2, 0u64..LEAVES), 1..60),
    ) {
        let (mut mm, mut machine) = (adapter(pages), Machine::default());
        let mut processes = [0, 1].map(|number| Process::new(&mut mm, &mut machine, number));
        let mut now = 0;
        for (what, which, at) in steps {
            let process = &mut processes[which];
            let work = match what {
                0..5 => match process.map(&mut mm, at + 1) {
                    Ok(work) => work,
                    Err(MapError::OutOfTables | MapError::ConflictingAddresses) => None,
                    Err(other) => return Err(TestCaseError::fail(other.to_string())),
                },
                5..7 => {
                    let leaf = process.mapped.iter().nth(at as usize % process.mapped.len().max(1)).copied();
                    leaf.and_then(|leaf| process.unmap(&mut mm, leaf))
                }
                7..9 => {
                    mm.set_device_idle(process.device, what == 7);
                    None
                }
                _ => {
                    now += mm.policy.residency_quantum_ns;
                    match mm.next_to_resume(now) {
                        NextResume::Resume(device) => {
                            mm.resume(device).map_err(|error| TestCaseError::fail(format!("{error:?}")))?
                        }
                        NextResume::At(_) | NextResume::NoDevice => None,
                        NextResume::Withdraw(_) => return Err(TestCaseError::fail("it has no content")),
                    }
                }
            };
            carry_out(&mut mm, &mut machine, work);
            mm.check_invariants(&[]).map_err(|broken| TestCaseError::fail(broken.to_string()))?;
            processes.iter().try_for_each(|process| process.look(&mm, &machine))?;
        }
    }
}
