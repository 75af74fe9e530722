//! The windows of one segment, and of all: whose pages they show, when kept ones go, and the faults that a check finds.

use super::*;
use crate::slab::Slab;

fn ids(count: usize) -> Vec<AllocationId> {
    let mut slab = Slab::new();
    (0..count).map(|_| slab.insert(())).collect()
}

fn extent(frame: u64, count: u64) -> [Extent; 1] {
    [Extent { page: 0, frame, count, dirty: true }]
}

// spec: memory §6.6, memory §10.1
// seed: U22
// seed: U23
// seed: U24
#[test]
fn pages_are_scattered_kept_and_limited() {
    let ids = ids(4);
    let mut window = HostAperture::new(SegmentId(1), 1 << 45, 4, PAGE_BYTES);
    let take = |window: &mut HostAperture, which: usize, frame, count| {
        window.take(ids[which], extent(frame, count).into_iter(), usize::MAX)
    };
    let first = take(&mut window, 0, 10, 1).expect("room").expect("new");
    assert_eq!((first.window_pages, first.memory_pages), (vec![0], vec![10]));
    let second = take(&mut window, 1, 20, 2).expect("room").expect("new");
    assert_eq!(second.window_pages, [1, 2]);
    assert_eq!(take(&mut window, 2, 30, 2), None, "one page is left and no window is unlocked");
    window.keep(ids[0]);
    let third = take(&mut window, 2, 30, 2).expect("a kept window goes").expect("new");
    assert_eq!((third.unmap, third.window_pages), (vec![0], vec![0, 3]), "scattered");
    let runs = window.runs(ids[2], extent(30, 2)[0]);
    assert_eq!(runs.iter().map(|run| run.run.first - (1 << 33)).collect::<Vec<_>>(), [0, 3]);
    window.keep(ids[1]);
    assert_eq!(take(&mut window, 1, 20, 2), Some(None), "it was kept");
    let gone = window.end(ids[1]).expect("a window");
    assert_eq!(take(&mut window, 3, 40, 1), None, "not handed out before the unmap");
    window.unmapped(&gone.pages);
    assert!(take(&mut window, 3, 40, 1).is_some());
}

// spec: memory §6.6, 64-KB segment pages
#[test]
fn large_pages_round_outwards() {
    let ids = ids(1);
    let mut window = HostAperture::new(SegmentId(1), 0, 4, 65536);
    let map = window.take(ids[0], extent(30, 4).into_iter(), usize::MAX).expect("room").expect("new");
    assert_eq!(map.memory_pages, [1, 2], "frames 30 to 33 lie in two pages of 16 frames");
    let runs = window.runs(ids[0], extent(30, 4)[0]);
    let pages: Vec<_> = runs.iter().map(|run| (run.run.first, run.run.count.0)).collect();
    assert_eq!(pages, [(14, 2), (16, 2)]);
}

/// Two segments of four window pages each.
fn windows() -> HostApertures {
    let of = |segment| (SegmentId(segment), HostAperture::new(SegmentId(segment), 0, 4, PAGE_BYTES));
    HostApertures([of(1), of(3)].into())
}

// spec: memory §6.6
#[test]
fn there_is_room_exactly_where_pages_are_given() {
    let ids = ids(4);
    let mut windows = windows();
    let (one, other) = (SegmentId(1), SegmentId(3));
    let take = |windows: &mut HostApertures, which: usize, count| {
        let room = windows.has_room(one, ids[which], extent(10, count).into_iter());
        let given = windows.take(one, ids[which], extent(10, count).into_iter(), usize::MAX);
        assert_eq!(room, given.is_some(), "{count} pages for {which}");
        room
    };
    assert!(!take(&mut windows, 0, 5) && take(&mut windows, 0, 4), "four there are");
    assert!(take(&mut windows, 0, 4), "what is shown has its pages");
    assert!(!take(&mut windows, 1, 1), "none is left");
    windows.keep(ids[0]);
    assert!(!take(&mut windows, 1, 5) && take(&mut windows, 1, 4), "a kept window goes, and no more comes of it");
    assert!(windows.show(ids[1]) && !windows.show(ids[0]));
    assert!(windows.showing(one, ids[1]).is_some() && windows.showing(other, ids[1]).is_none());
    assert!(!windows.has_room(SegmentId(2), ids[1], extent(10, 1).into_iter()), "a segment without a window");
    let gone = windows.end(ids[1]).expect("it is shown");
    assert!(!windows.show(ids[1]) && !take(&mut windows, 2, 1), "not before the driver has unmapped it");
    windows.unmapped(&gone);
    assert!(take(&mut windows, 2, 4));
}

// spec: memory §6.6
#[test]
fn more_windows_than_the_policy_keeps_go_the_oldest_first() {
    let ids = ids(4);
    for (kept_max, unmapped) in [(3, vec![]), (2, vec![0]), (1, vec![0, 1])] {
        let mut window = HostAperture::new(SegmentId(1), 0, 8, PAGE_BYTES);
        for (at, id) in (0..).zip(&ids[..3]) {
            assert!(window.take(*id, extent(10 * at, 1).into_iter(), usize::MAX).is_some());
        }
        ids[..3].iter().for_each(|id| window.keep(*id));
        let map = window.take(ids[3], extent(90, 1).into_iter(), kept_max).expect("room").expect("new");
        assert_eq!(map.unmap, unmapped, "{kept_max} are kept");
    }
}

#[test]
fn a_check_finds_what_is_shown_twice_kept_wrongly_or_forgotten() {
    let ids = ids(2);
    let shown = || {
        let mut window = HostAperture::new(SegmentId(1), 0, 4, PAGE_BYTES);
        assert!(window.take(ids[0], extent(10, 1).into_iter(), usize::MAX).is_some());
        window
    };
    let fault = |window: HostAperture, locks: Option<u32>| {
        HostApertures([(SegmentId(1), window)].into()).check(|_| locks).err().unwrap_or_default()
    };
    assert_eq!(fault(shown(), Some(1)), "");
    let mut kept = shown();
    kept.keep(ids[0]);
    assert_eq!(fault(kept, Some(0)), "");
    assert!(fault(shown(), None).contains("None locks"), "its allocation has gone");
    let mut twice = shown();
    twice.free.insert(0);
    assert!(fault(twice, Some(1)).contains("window page 0 is free or shown twice"));
    let mut locked = shown();
    locked.keep(ids[0]);
    assert!(fault(locked, Some(1)).contains("Some(1) locks"));
    let mut others = shown();
    others.keep(ids[0]);
    others.kept.insert(1, ids[1]);
    assert!(fault(others, Some(0)).contains("is kept"));
    let mut forgotten = shown();
    forgotten.kept.insert(7, ids[1]);
    assert!(fault(forgotten, Some(1)).contains("0 windows are kept, 1 known"));
}
