//! Page-table operations, carried out on a naive image and walked, against a naive map of addresses.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, SegmentId};

use super::world::*;
use crate::{MapError, MapRequest, Protection, SpaceKind, Target, VidMm};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    // spec: memory §4.3, §4.6, §4.8
    #[test]
    fn walked_tables_equal_the_map(
        shape in 0usize..4,
        paging in any::<bool>(),
        steps in prop::collection::vec((any::<bool>(), 0u64..600, 1u64..200, 1u64..100_000), 1..40),
    ) {
        let bits: &[u32] = [&[5u32, 6][..], &[3, 3, 4], &[9, 2, 3, 2], &[1, 2, 3, 2, 2, 3]][shape];
        let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
        let mut mm: Mm = VidMm::new(policy(), &descriptors, mmu(bits), &levels(bits)).expect("rules are kept");
        let kind = if paging { SpaceKind::Paging } else { SpaceKind::Process };
        let mut machine = Machine::default();
        let (space, made) = mm.create_space(kind).expect("tables");
        machine.carry_out(&made);
        let lowest = 1u64 << bits[..bits.len() - 1].iter().sum::<u32>();
        let end = 1u64 << bits.iter().sum::<u32>();
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for (map, at, pages, system) in steps {
            let (first, span) = (lowest + at, lowest + at..lowest + at + pages);
            let base = GpuVa(first * PAGE_BYTES);
            if map {
                let request = MapRequest {
                    target: Target::SystemPages(PageRun { first: system, count: Pages(pages) }),
                    size_pages: Pages(pages),
                    base: Some(base),
                    minimum: GpuVa::NULL,
                    maximum: GpuVa::NULL,
                    protection: Protection::READ_WRITE,
                };
                match mm.map_gpu_va(space, request) {
                    Ok((got, work)) => {
                        prop_assert_eq!(got, base);
                        prop_assert!(model.range(span.clone()).next().is_none());
                        machine.queue(work);
                        model.extend(span.zip(system..));
                    }
                    Err(MapError::OutsideSpace) => prop_assert!(first + pages > end),
                    Err(MapError::ConflictingAddresses) => prop_assert!(model.range(span).next().is_some()),
                    Err(MapError::OutOfTables) => prop_assert!(paging),
                    Err(other) => prop_assert!(false, "{other}"),
                }
            } else {
                let whole = span.clone().all(|page| model.contains_key(&page));
                let refused = mm.free_gpu_va(space, base, pages * PAGE_BYTES);
                prop_assert!(matches!(refused, Err(MapError::NotMapped | MapError::Kernels | MapError::OutsideSpace)));
                prop_assert_eq!(refused == Err(MapError::Kernels), whole);
                if whole {
                    machine.queue(mm.free_system_va(space, base, Pages(pages)));
                    model.retain(|page, _| !span.contains(page));
                }
            }
            machine.run(&mut mm);
        }
        let root = mm.root(space);
        for page in 0..end.min(lowest + 900) {
            let walked = machine.walk(root, bits, GpuVa(page * PAGE_BYTES)).map(|entry| {
                assert_eq!(entry.address.segment, SegmentId::SYSTEM);
                entry.address.offset / PAGE_BYTES
            });
            prop_assert_eq!(walked, model.get(&page).copied(), "page {}", page);
        }
        let mapped: Vec<u64> = model.keys().copied().collect();
        for page in mapped {
            machine.queue(mm.free_system_va(space, GpuVa(page * PAGE_BYTES), Pages(1)));
        }
        // Only the root is left.
        prop_assert_eq!(mm.table_bytes(kind), 4096);
        machine.queue(mm.destroy_space(space));
        prop_assert_eq!(mm.table_bytes(kind), 0);
    }
}
