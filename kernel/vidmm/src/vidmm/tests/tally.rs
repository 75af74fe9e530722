//! The figures: what lies where and whose it is, after each step of a small story, against sums that the budgets keep.

use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{EvictFlags, OfferFlags, OfferPriority, SegmentGroup, SegmentTally};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

fn pages(tally: &SegmentTally) -> (u64, u64) {
    (tally.committed_bytes / PAGE_BYTES, tally.resident_bytes / PAGE_BYTES)
}

#[test]
fn what_lies_in_a_segment_is_committed_and_what_a_list_requires_is_resident() {
    // spec: memory §5.1, §5.3, §5.9
    let (mut mm, [(one, a), (two, b)]) = with_processes::<2>(64);
    let [x, y] = [(a, 20), (b, 10)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    assert_eq!(mm.tally().segments[0], SegmentTally::default(), "created is not committed");
    assert_eq!((mm.tally().spaces[&one].allocations, mm.tally().spaces[&one].allocated_bytes), (1, 20 * PAGE_BYTES));
    mm.make_resident(a, &[x]).expect("room");
    mm.make_resident(b, &[y]).expect("room");
    let tally = mm.tally();
    assert_eq!(pages(&tally.segments[0]), (30, 30));
    assert_eq!(pages(&tally.spaces[&one].segments[0]), (20, 20));
    assert_eq!(pages(&tally.spaces[&two].segments[0]), (10, 10));
    assert_eq!(tally.segments[0].committed_bytes, mm.resident_bytes(VRAM));
    mm.evict(a, &[x], LAZY, &[]).expect("counted");
    let tally = mm.tally();
    assert_eq!(pages(&tally.segments[0]), (30, 10), "it stays until another claim needs the room");
    assert_eq!(pages(&tally.spaces[&one].segments[0]), (20, 0));
    assert_eq!(mm.video_memory_info(one, SegmentGroup::Local).current_usage_bytes, 0);
    mm.offer(b, &[y], OfferPriority::Normal, OfferFlags::default(), &[]).expect("not offered");
    let tally = mm.tally();
    assert_eq!((pages(&tally.segments[0]), tally.spaces[&two].offered_bytes), ((30, 0), 10 * PAGE_BYTES));
}

#[test]
fn what_is_displaced_is_demoted_and_counts_in_the_aperture() {
    // spec: memory §8.1
    let (mut mm, [(one, a), (two, b)]) = with_processes::<2>(64);
    let y = create(&mut mm, b, 40, &[VRAM]);
    let x = create(&mut mm, a, 40, &[VRAM, APERTURE]);
    mm.make_resident(b, &[y]).expect("room");
    mm.make_resident(a, &[x]).expect("in system memory");
    let tally = mm.tally();
    let aperture = usize::from(APERTURE.0) - 1;
    assert_eq!((pages(&tally.segments[0]), pages(&tally.segments[aperture])), ((40, 40), (40, 40)));
    assert_eq!(pages(&tally.spaces[&one].segments[aperture]), (40, 40));
    assert_eq!((tally.spaces[&one].demoted_bytes, tally.spaces[&two].demoted_bytes), (40 * PAGE_BYTES, 0));
}
