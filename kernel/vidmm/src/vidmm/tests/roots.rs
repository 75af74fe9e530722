//! The root of two levels under random maps and frees: after each call everything is where the map of addresses says, and
//! the root is as long as it needs to be.

use std::collections::BTreeMap;

use ddi::{PageTableLevelDesc, RootPageTableSize};
use proptest::prelude::*;
use wddm_types::{GpuVa, PAGE_BYTES, PhysicalAddress};

use super::world::*;
use crate::operation::Operation;
use crate::{MapError, MapRequest, Protection, SegmentError, SpaceKind, Target, VidMm};

/// Leaf tables of 8 entries, roots of 4 to 256.
const LEAF_BITS: u32 = 3;
const ROOT_BITS: u32 = 8;

fn roots() -> Vec<RootPageTableSize> {
    (2..=ROOT_BITS).map(|bits| RootPageTableSize { entries: 1 << bits, bytes: 4096 }).collect()
}

fn start(change: impl FnOnce(&mut Vec<PageTableLevelDesc>, &mut Vec<RootPageTableSize>)) -> Result<Mm, SegmentError> {
    let mut levels = levels(&[LEAF_BITS, ROOT_BITS]);
    (levels[1].index_bits, levels[1].size_bytes) = (0, 0);
    let (caps, mut roots) = (mmu(&[LEAF_BITS, ROOT_BITS]), roots());
    change(&mut levels, &mut roots);
    let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
    VidMm::with_roots(policy(), &descriptors[..], caps, &levels, &roots)
}

#[test]
fn roots_that_break_a_rule_fail_adapter_start() {
    // spec: memory §4.2, §4.3, §4.6
    assert!(start(|_, _| {}).is_ok());
    assert_eq!(start(|_, roots| roots.clear()).err(), Some(SegmentError::ResizableRoot(1)));
    assert_eq!(start(|levels, _| levels[0].index_bits = 0).err(), Some(SegmentError::IndexBits(1)));
    assert_eq!(start(|_, roots| roots[1].entries = 4).err(), Some(SegmentError::RootSize(4)));
    assert_eq!(start(|_, roots| roots[0].bytes = 100).err(), Some(SegmentError::RootSize(4)));
    assert_eq!(start(|_, roots| roots[0].bytes = 0).err(), Some(SegmentError::RootSize(4)));
    let crooked = start(|levels, _| levels[1].alignment_bytes = 3 * 4096);
    assert_eq!(crooked.err(), Some(SegmentError::TableSize(1)));
    assert_eq!(start(|_, roots| roots.truncate(3)).err(), Some(SegmentError::IndexBits(1)), "not all addresses");
    let mut three = levels(&[LEAF_BITS, 4, 4]);
    three[2].index_bits = 4;
    let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
    let refused: Result<Mm, _> =
        VidMm::with_roots(policy(), &descriptors[..], mmu(&[LEAF_BITS, 4, 4]), &three, &roots());
    assert_eq!(refused.err(), Some(SegmentError::RootSizes));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // spec: memory §4.6
    #[test]
    fn a_root_is_as_long_as_what_it_leads_to(
        steps in prop::collection::vec((any::<bool>(), 0usize..8, 0u64..2040, 1u64..24), 1..40),
    ) {
        let mut mm = start(|_, _| {}).expect("the rules");
        let (space, made) = mm.create_space(SpaceKind::Process).expect("tables");
        let mut machine = Machine::default();
        machine.carry_out(&made);
        let device = mm.create_device(space);
        let allocations: Vec<_> = (0..2)
            .map(|_| mm.create_allocation(device, info(24, &[VRAM])).expect("backing"))
            .collect();
        machine.queue(mm.make_resident(device, &[allocations[0]]).expect("room"));
        machine.run(&mut mm);
        // The target of each mapped page.
        let mut model: BTreeMap<u64, usize> = BTreeMap::new();
        for (map, which, at, pages) in steps {
            let first = 8 + at;
            let base = GpuVa(first * PAGE_BYTES);
            let work = if map {
                let request = MapRequest {
                    target: Target::Allocation { allocation: allocations[which % 2], offset_pages: wddm_types::Pages(0) },
                    size_pages: wddm_types::Pages(pages),
                    base: Some(base),
                    minimum: GpuVa::NULL,
                    maximum: GpuVa::NULL,
                    protection: Protection::READ_WRITE,
                };
                match mm.map_gpu_va(space, request) {
                    Ok((_, work)) => {
                        model.extend((first..first + pages).map(|page| (page, which % 2)));
                        work
                    }
                    Err(MapError::OutsideSpace | MapError::ConflictingAddresses) => None,
                    Err(other) => return Err(TestCaseError::fail(other.to_string())),
                }
            } else if let Some(&first) = model.keys().nth(which % model.len().max(1)) {
                let count = (0..pages).take_while(|page| model.contains_key(&(first + page))).count() as u64;
                model.retain(|page, _| !(first..first + count).contains(page));
                mm.free_gpu_va(space, GpuVa(first * PAGE_BYTES), count * PAGE_BYTES).expect("mapped")
            } else {
                None
            };
            if let Some(work) = &work {
                let switch = work.operations.iter().position(|op| matches!(op, Operation::SwitchRoot { .. }));
                prop_assert_eq!(switch.is_some(), work.idle_spaces == [space], "it quiesces for that");
            }
            machine.queue(work);
            machine.run(&mut mm);
            if let Some((of, root, entries)) = machine.switched.take() {
                mm.root_switched(of, root, entries);
            }
            mm.check_invariants(&[]).map_err(|broken| TestCaseError::fail(broken.to_string()))?;
            let (root, entries) = mm.root_table(space);
            let needed = model.keys().next_back().map_or(0, |last| last / 8 + 1);
            prop_assert!(u64::from(entries) >= needed, "{entries} entries for {needed}");
            prop_assert!(entries == 4 || u64::from(entries) <= 4 * needed.max(1) , "{entries} entries for {needed}");
            look(&machine, root, entries, &model)?;
        }
        // Only the first root is left when everything has gone.
        for page in std::mem::take(&mut model).into_keys() {
            machine.queue(mm.free_gpu_va(space, GpuVa(page * PAGE_BYTES), PAGE_BYTES).expect("mapped"));
        }
        machine.run(&mut mm);
        prop_assert_eq!(mm.table_bytes(SpaceKind::Process), 4096);
    }
}

/// Walks every page that the root reaches. The second allocation is not resident: its entries are invalid.
fn look(
    machine: &Machine,
    root: PhysicalAddress,
    entries: u32,
    model: &BTreeMap<u64, usize>,
) -> Result<(), TestCaseError> {
    for page in 0..u64::from(entries) * 8 {
        let walked = machine.walk(root, &[LEAF_BITS, ROOT_BITS], GpuVa(page * PAGE_BYTES)).is_some();
        prop_assert_eq!(walked, model.get(&page) == Some(&0), "page {}", page);
    }
    Ok(())
}
