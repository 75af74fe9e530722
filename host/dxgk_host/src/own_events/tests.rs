//! Rings: what reaches which process, and what a full ring does.

use events::{Cause, Move};
use wddm_types::{PageRun, Pages};

use super::*;

const ADAPTER: Option<AdapterIndex> = Some(AdapterIndex(0));
const ONE: ProcessId = ProcessId(1);

fn moved(work: u64, process: u32, allocation: u64, why: Cause) -> Event {
    let runs = vec![PageRun { first: 3, count: Pages(1) }];
    Event::Moved { work, process, allocation, segment: 1, bytes: 4096, how: Move::PageOut, why, runs }
}

fn has(process: u32) -> [Event; 3] {
    let number = u64::from(process);
    [
        Event::DeviceCreated { process, device: number * 10 },
        Event::FenceCreated { process, fence: number * 1000, initial: 0, current: 8 },
        Event::AllocationCreated { device: number * 10, allocation: number * 100, size_bytes: 4096 },
    ]
}

fn heard(rings: &Rings, events: &[Event]) {
    events.iter().for_each(|event| rings.hear(ADAPTER, 5, event));
}

fn taken(rings: &Rings, process: ProcessId) -> Vec<Event> {
    rings.take(process).events.into_iter().map(|own| own.event).collect()
}

#[test]
fn a_process_gets_its_own_events_alone_and_of_others_not_even_numbers() {
    let rings = Rings::default();
    let fact = Event::SegmentAdded { adapter: 0, segment: 1, aperture: false, capacity_bytes: 9, page_bytes: 4096 };
    heard(&rings, &[fact.clone(), Event::ResidentBytes { segment: 1, bytes: 7 }]);
    assert_eq!(taken(&rings, ONE), [fact], "the first look has the facts, however late it comes");
    let (mine, others) = (has(1), has(2));
    heard(&rings, &mine);
    heard(&rings, &others);
    assert_eq!(taken(&rings, ONE), mine);
    let pressure = Cause::Pressure { for_allocation: 200 };
    let queued = |in_bytes, out_bytes, fence| Event::PagingQueued {
        work: 7,
        paging_queue: 3,
        fence,
        value: 4,
        in_bytes,
        out_bytes,
        held_for: 2,
    };
    // The other process needs room: content of both leaves by one work.
    heard(
        &rings,
        &[
            moved(7, 2, 100, pressure),
            moved(7, 2, 200, Cause::Evict),
            queued(0, 8192, 2000),
            Event::PagingSubmitted { work: 7, progress_value: 6, words: 90 },
            Event::ResidentBytes { segment: 1, bytes: 7 },
            Event::FenceSignaledFromCpu { fence: 2000, value: 3 },
            Event::CallRefused { process: 2, call: "Evict".into(), status: 1, reason: "none".into() },
            Event::PagingCompleted { work: 7 },
        ],
    );
    let seen = taken(&rings, ONE);
    let hidden =
        Event::PagingQueued { work: 7, paging_queue: 0, fence: 0, value: 0, in_bytes: 0, out_bytes: 4096, held_for: 0 };
    assert_eq!(
        seen,
        [
            moved(7, 0, 100, Cause::Pressure { for_allocation: 0 }),
            hidden,
            Event::PagingSubmitted { work: 7, progress_value: 0, words: 0 },
            Event::PagingCompleted { work: 7 },
        ]
    );
    // A work of its own alone is told whole.
    let own = [
        moved(8, 1, 100, Cause::Pressure { for_allocation: 100 }),
        Event::PagingQueued {
            work: 8,
            paging_queue: 1,
            fence: 1000,
            value: 1,
            in_bytes: 0,
            out_bytes: 4096,
            held_for: 1,
        },
        Event::PagingSubmitted { work: 8, progress_value: 7, words: 12 },
        Event::PagingCompleted { work: 8 },
    ];
    heard(&rings, &own);
    assert_eq!(taken(&rings, ONE), own);
    // Memory of a destroyed allocation leaves behind its end.
    let ends = [Event::AllocationDestroyed { allocation: 100 }, moved(9, 1, 100, Cause::Destroy)];
    heard(&rings, &ends);
    heard(&rings, &[Event::AllocationDestroyed { allocation: 200 }, moved(9, 2, 200, Cause::Destroy)]);
    assert_eq!(taken(&rings, ONE), ends);
}

#[test]
fn what_holds_a_process_s_work_is_told_to_the_process() {
    let rings = Rings::default();
    rings.take(ONE);
    heard(&rings, &has(1));
    heard(&rings, &has(2));
    let (node, patched) = (0, false);
    let work = [
        Event::QueueCreated { queue: 5, node, user_mode: false, process: 1, fence: 1000, owner: 0 },
        Event::PacketContextCreated { context: 6, device: 10, node, patched },
        Event::QueueHeldForFlip { queue: 5, allocation: 100 },
        Event::ContextHeld { context: 6, object: 3 },
    ];
    heard(&rings, &work);
    heard(
        &rings,
        &[Event::QueueHeldForFlip { queue: 7, allocation: 200 }, Event::ContextHeld { context: 8, object: 4 }],
    );
    assert_eq!(taken(&rings, ONE).split_at(3), (&has(1)[..], &work[..]));
}

#[test]
fn signals_at_a_fence_that_another_process_has_too_are_nobody_s() {
    let rings = Rings::default();
    rings.take(ONE);
    heard(&rings, &has(1));
    let signaled = Event::FenceSignaledFromCpu { fence: 1000, value: 3 };
    heard(&rings, std::slice::from_ref(&signaled));
    assert_eq!(taken(&rings, ONE).last(), Some(&signaled));
    heard(&rings, &[Event::FenceOpened { process: 2, fence: 1000, open: 5 }, signaled.clone()]);
    assert_eq!(taken(&rings, ONE), []);
    // It opens one of the other process.
    let opened = Event::FenceOpened { process: 1, fence: 2000, open: 6 };
    heard(&rings, &[opened.clone(), Event::FenceSignaledFromCpu { fence: 2000, value: 3 }]);
    assert_eq!(taken(&rings, ONE), [opened]);
}

#[test]
fn a_full_ring_counts_what_it_loses_and_a_ring_goes_with_its_process() {
    let rings = Rings::default();
    let event = Event::ProcessCreated { process: 1 };
    rings.hear(None, 0, &event);
    assert_eq!(rings.take(ONE), OwnEvents::default(), "nothing was kept before it asked");
    let room = (RING_BYTES / cost(&event)) as u64;
    (0..room + 30).for_each(|_| rings.hear(None, 0, &event));
    let (mut kept, mut lost) = (0, 0);
    loop {
        let taken = rings.take(ONE);
        assert!(taken.events.len() * cost(&event) < LOOK_BYTES + cost(&event));
        (kept, lost) = (kept + taken.events.len() as u64, lost + taken.lost);
        if !taken.more {
            break;
        }
    }
    assert_eq!((kept, lost), (room, 30));
    rings.hear(None, 0, &event);
    assert_eq!(rings.take(ONE).events.len(), 1, "there is room again");
    rings.process_gone(ONE);
    let state = lock(&rings.state);
    assert!(state.rings.is_empty() && rings.count.load(Ordering::Acquire) == 0);
}

#[test]
fn the_drivers_name_of_a_queues_context_is_the_kernels_alone() {
    let rings = Rings::default();
    taken(&rings, ONE);
    let queue = |owner| Event::QueueCreated { queue: 3, node: 0, user_mode: true, process: 1, fence: 1, owner };
    heard(&rings, &[queue(7)]);
    assert_eq!(taken(&rings, ONE), [queue(0)]);
}
