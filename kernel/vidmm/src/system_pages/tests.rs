//! Where the backing stores of several devices lie that are created in turn.

use super::*;
use crate::slab::Key;

const FIRST: u64 = 100;

fn open(stretches: u64, gathers: bool) -> SystemPages {
    // Up to the first stretch there are pages that belong to none.
    let pages = PageRun { first: FIRST, count: Pages(STRETCH - FIRST + stretches * STRETCH) };
    SystemPages::open(pages, gathers).expect("a dummy page")
}

fn device(number: u32) -> Option<DeviceId> {
    Some(DeviceId::new(number, 0))
}

fn take(pages: &mut SystemPages, of: u32, count: u64) -> Vec<PageRun> {
    pages.take_backing(device(of), AllocationFlags::empty(), count).expect("there is room")
}

/// How many runs these are when neighbours count as one.
fn runs_of(mut runs: Vec<PageRun>) -> usize {
    runs.sort_by_key(|run| run.first);
    1 + runs.windows(2).filter(|pair| pair[0].end() != pair[1].first).count()
}

#[test]
fn the_backing_stores_of_a_device_lie_beside_each_other_though_others_create_meanwhile() {
    for (gathers, most) in [(true, 2), (false, 100)] {
        let mut pages = open(8, gathers);
        let mut of: [Vec<PageRun>; 3] = Default::default();
        for _ in 0..100 {
            (0..3).for_each(|number| of[number as usize].extend(take(&mut pages, number, 16)));
        }
        // 1,600 pages are two stretches, which need not be neighbours.
        assert!(of.iter().all(|runs| runs_of(runs.clone()) <= most), "gathered {gathers}");
        assert_eq!(gathers, of.iter().all(|runs| runs_of(runs.clone()) <= 2));
        let lent: Vec<PageRun> = of.concat();
        pages.check(&lent, 0, 0).expect("no page is taken twice");
    }
}

#[test]
fn every_page_is_had_whatever_stretches_are_taken() {
    let mut pages = open(2, true);
    let free = pages.free_pages();
    let mut lent = Vec::new();
    for number in (0..5).cycle() {
        match pages.take_backing(device(number), AllocationFlags::empty(), 7) {
            Some(runs) => lent.extend(runs),
            None => break,
        }
    }
    assert_eq!(pages.free_pages(), free % 7, "what is too little for one more");
    lent.extend(pages.take_backing(None, AllocationFlags::empty(), free % 7).unwrap_or_default());
    pages.check(&lent, 0, 0).expect("no page is taken twice");
    lent.drain(..).for_each(|run| pages.give(run));
    assert_eq!(pages.free_pages(), free);
    // Pages that have returned make stretches again.
    let again: Vec<PageRun> = (0..64).flat_map(|_| take(&mut pages, 9, 16)).collect();
    assert_eq!((runs_of(again.clone()), again[0].first % STRETCH), (1, 0));
}

#[test]
fn large_backing_stores_and_those_of_devices_that_have_gone_begin_elsewhere() {
    let mut pages = open(4, true);
    let first = take(&mut pages, 1, 3)[0];
    let large = take(&mut pages, 1, STRETCH);
    assert!(large.iter().all(|run| run.first != first.end()), "a large one is no neighbour of small ones");
    assert_eq!(take(&mut pages, 1, 3)[0].first, first.end());
    pages.device_gone(DeviceId::new(1, 0));
    let next = take(&mut pages, 1, 3)[0];
    assert!(next.first.is_multiple_of(STRETCH) && next.first != first.first, "{next:?}");
}
