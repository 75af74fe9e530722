//! Tests of the timeline: synthetic runs, and small recordings that show one rule each.

use device_port::Observation;
use events::Event;
use softgpu_spec::bus::SYSTEM_BASE;

use super::*;
use crate::outcome::{OpTrack, QueueLabel};

fn recording() -> Recording {
    let names = vec!["mm".to_string(), "add".to_string()];
    Recording {
        queues: vec![QueueLabel { device_queue: 2, label: "compute".to_string(), engine: 0 }],
        ops: vec![OpTrack { device_queue: 2, progress_bus: 64, names, steps: vec![0, 0] }],
        ..Recording::default()
    }
}

fn slices(timeline: &Timeline, kind: SliceKind) -> Vec<(&str, u64, u64)> {
    let of_kind = timeline.slices.iter().filter(|slice| slice.kind == kind);
    of_kind.map(|slice| (timeline.names.text(slice.name), slice.begin_ns, slice.end_ns)).collect()
}

fn begin(kind: &'static str) -> Observation {
    Observation::Begin { engine: 0, queue: 2, kind, bytes: 8 }
}

const END: Observation = Observation::End { engine: 0, queue: 2 };

fn signal(queue: u32, bus: u64, value: u64) -> Observation {
    Observation::Signal { queue, bus, value, interrupt: false }
}

#[test]
fn an_operation_runs_from_its_first_sign_of_life_to_its_own_signal() {
    let mut recording = recording();
    recording.observations = vec![
        (10, begin("touch")),
        (20, END),
        (21, begin("touch")),
        (30, END),
        (31, signal(2, 64, 1)),
        (40, Observation::WaitBegin { queue: 2, bus: 128, value: 5 }),
        (50, signal(1, 128, 5)),
        (52, Observation::WaitEnd { queue: 2, bus: 128, value: 5 }),
        (53, begin("fill")),
        (60, END),
        (60, signal(2, 64, 2)),
    ];
    let timeline = Timeline::of(&recording);
    assert_eq!(slices(&timeline, SliceKind::Operation), [("mm", 10, 31), ("add", 52, 60)]);
    assert_eq!(slices(&timeline, SliceKind::Wait), [("wait fence", 40, 52)]);
    assert_eq!(slices(&timeline, SliceKind::Command), [("touch", 10, 20), ("touch", 21, 30), ("fill", 53, 60)]);
    let [flow] = timeline.flows[..] else { panic!("{:?}", timeline.flows) };
    assert_eq!((timeline.instants[flow.from].at_ns, timeline.instants[flow.to].at_ns), (50, 52));
}

#[test]
fn turns_lie_in_one_row_and_who_waits_for_one_in_rows_of_their_own() {
    // spec: sync §4.2
    use events::ContextSchedule::{Idle, Ready, Running};
    let mut recording = recording();
    let told = |context, queue, state, at: u64| {
        (90, Event::ContextScheduled { node: 0, context, process: 1, queue, state, at: 1_000 + at })
    };
    recording.events = vec![
        (0, Event::GpuClockCalibrated { node: 0, frequency_hz: 1_000_000_000, counter: 1_000 }),
        (0, Event::DoorbellCreated { queue: 7, driver_data: 2 }),
        told(0, 0, Running, 10),
        told(4, 7, Ready, 15),
        told(5, 0, Ready, 20),
        told(0, 0, Idle, 30),
        told(4, 7, Running, 30),
        told(4, 7, Idle, 50),
        told(5, 0, Running, 50),
    ];
    let timeline = Timeline::of(&recording);
    let several = "context 5 of process 1";
    let turns = [("paging", 10, 30), ("queue 2: compute", 30, 50), (several, 50, 90)];
    assert_eq!(slices(&timeline, SliceKind::Turn), turns);
    assert_eq!(slices(&timeline, SliceKind::Ready), [("queue 2: compute", 15, 30), (several, 20, 50)]);
    let rows = |kind| timeline.tracks.iter().filter(|track| track.kind == kind).count();
    assert_eq!((rows(TrackKind::Turns), rows(TrackKind::Ready)), (1, 2));
    let cut: Vec<bool> = timeline.slices.iter().map(|slice| slice.cut).collect();
    assert_eq!(cut.iter().filter(|cut| **cut).count(), 1, "the last turn is not over");
}

#[test]
fn paging_runs_from_its_turn_to_its_signal_and_cpu_waits_get_their_arrow() {
    let mut recording = recording();
    let queued = |work, value| Event::PagingQueued {
        work,
        paging_queue: 1,
        fence: 9,
        value,
        in_bytes: 64,
        out_bytes: 0,
        held_for: 0,
    };
    recording.events = vec![
        (0, Event::FenceCreated { process: 1, fence: 9, initial: 0, current: 256 }),
        (5, queued(1, 1)),
        (6, queued(2, 2)),
        (7, Event::CpuWaitBegan { process: 1, wait: 4, fence: 9, value: 2 }),
        (30, Event::CpuWaitEnded { process: 1, wait: 4 }),
        (31, Event::PagingCompleted { work: 1 }),
        (31, Event::PagingCompleted { work: 2 }),
    ];
    recording.observations = vec![(10, signal(1, SYSTEM_BASE + 256, 1)), (20, signal(1, SYSTEM_BASE + 256, 2))];
    let timeline = Timeline::of(&recording);
    assert_eq!(slices(&timeline, SliceKind::Paging), [("page in", 5, 10), ("page in", 10, 20)]);
    assert_eq!(slices(&timeline, SliceKind::CpuWait), [("CPU wait", 7, 30)]);
    let second = timeline.slices.iter().rfind(|slice| slice.kind == SliceKind::Paging).unwrap();
    assert!(second.notes.contains(&Note::Number("queued before, ns", 4)), "{:?}", second.notes);
    assert_eq!(timeline.flows.len(), 1);
    assert_eq!(timeline.instants[timeline.flows[0].from].at_ns, 20);
}

#[test]
fn cpu_waits_that_overlap_lie_on_lanes() {
    let mut recording = recording();
    let began = |wait| Event::CpuWaitBegan { process: 1, wait, fence: 9, value: 2 };
    let ended = |wait| Event::CpuWaitEnded { process: 1, wait };
    recording.events = vec![(1, began(1)), (2, began(2)), (3, ended(1)), (4, ended(2)), (5, began(3)), (6, ended(3))];
    let timeline = Timeline::of(&recording);
    let tracks: Vec<usize> = timeline.slices.iter().map(|slice| slice.track).collect();
    assert_ne!(tracks[0], tracks[1]);
    assert_eq!(tracks[0], tracks[2], "a free lane is used again");
    assert_eq!(slices(&timeline, SliceKind::CpuWait).iter().map(|slice| slice.2 - slice.1).sum::<u64>(), 2 + 2 + 1);
}

#[test]
fn at_equal_times_a_cause_comes_before_its_effect() {
    let mut recording = recording();
    recording.events = vec![
        (0, Event::FenceCreated { process: 1, fence: 9, initial: 0, current: 256 }),
        (0, Event::FenceSignaledFromCpu { fence: 9, value: 1 }),
        (0, Event::CpuWaitBegan { process: 1, wait: 4, fence: 9, value: 3 }),
        (0, Event::CpuWaitEnded { process: 1, wait: 4 }),
    ];
    let word = SYSTEM_BASE + 256;
    recording.observations = vec![(0, Observation::WaitEnd { queue: 2, bus: word, value: 1 }), (0, signal(2, word, 3))];
    let timeline = Timeline::of(&recording);
    assert_eq!(timeline.flows.len(), 2);
    for flow in &timeline.flows {
        assert!(timeline.instants[flow.from].serial < timeline.instants[flow.to].serial);
    }
}

#[test]
fn what_the_recording_leaves_open_is_cut_at_its_end() {
    let mut recording = recording();
    recording.observations = vec![(10, begin("touch")), (15, Observation::WaitBegin { queue: 2, bus: 8, value: 1 })];
    recording.events = vec![(40, Event::ProcessDied { process: 1 })];
    let timeline = Timeline::of(&recording);
    assert_eq!(timeline.slices.len(), 3);
    assert!(timeline.slices.iter().all(|slice| slice.cut && slice.end_ns == 40));
}

#[test]
fn an_empty_recording_has_nothing_but_its_queues() {
    let timeline = Timeline::of(&recording());
    assert_eq!(timeline.tracks.len(), 2);
    assert!(timeline.slices.is_empty() && timeline.counters.is_empty());
    assert!(Timeline::of(&Recording::default()).tracks.is_empty());
}

#[test]
fn a_whole_run_has_every_operation_and_its_sums() {
    let outcome = crate::synthetic::outcome(2, 60);
    let timeline = Timeline::of(&outcome.recordings[0]);
    let operations = slices(&timeline, SliceKind::Operation);
    let names: Vec<&str> = operations.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, outcome.recordings[0].ops[0].names);
    assert!(timeline.slices.iter().all(|slice| !slice.cut && slice.begin_ns <= slice.end_ns));
    let last = |name: &str| {
        let counter = timeline.counters.iter().find(|counter| counter.kind.name() == name);
        counter.and_then(|counter| counter.points.last()).map_or(0, |point| point.2)
    };
    assert_eq!(last("paged in"), outcome.summary.paged_in_bytes);
    assert_eq!(last("paged out"), outcome.summary.paged_out_bytes);
    assert!(last("paged in") > 0 && last("paged out") > 0, "the generator makes both happen");
    let limit = outcome.recordings[0].vram_bytes;
    assert!(
        timeline.counters.iter().any(|c| c.kind == CounterKind::Resident(1) && c.points.iter().all(|p| p.2 <= limit))
    );
}

/// The trace shows lost and impossible entries of logs, each with the queue or node that it belongs to.
#[test]
fn lost_and_wrong_entries_of_logs_are_shown_with_whose_they_are() {
    // spec: sync §3.14 (overrun)
    // seed: N106, N108, N128
    let mut recording = recording();
    let (queue, lost, before, end) = (7, 11, 900, 800);
    recording.events = vec![
        (10, Event::FenceLogOverrun { queue, waits: true, lost }),
        (20, Event::SubmissionLogOverrun { queue, lost }),
        (30, Event::SchedulingLogOverrun { node: 1, lost }),
        (40, Event::FenceLogEntryIgnored { queue, waits: false, position: 3 }),
        (50, Event::FenceLogTimeReversed { queue, waits: false, before, end }),
    ];
    let timeline = Timeline::of(&recording);
    let shown: Vec<(u64, &str, String)> = timeline
        .instants
        .iter()
        .map(|instant| (instant.at_ns, timeline.names.text(instant.name), format!("{:?}", instant.notes)))
        .collect();
    let expected = [
        (10, "FenceLogOverrun", ["\"queue\", 7", "\"waits\"", "\"lost\", 11"]),
        (20, "SubmissionLogOverrun", ["\"queue\", 7", "\"submissions\"", "\"lost\", 11"]),
        (30, "SchedulingLogOverrun", ["\"node\", 1", "\"lost\", 11", ""]),
        (40, "FenceLogEntryIgnored", ["\"queue\", 7", "\"signals\"", "\"position\", 3"]),
        (50, "FenceLogTimeReversed", ["\"queue\", 7", "\"before\", 900", "\"end\", 800"]),
    ];
    assert_eq!(shown.len(), expected.len(), "{shown:?}");
    for ((at, name, notes), (expected_at, expected_name, words)) in shown.iter().zip(expected) {
        assert_eq!((*at, *name), (expected_at, expected_name));
        assert!(words.iter().all(|word| notes.contains(word)), "{name}: {notes}");
    }
}

/// Rows of queues that the kernel feeds stand beside those of the logs; a box says when it was recorded, where that is known.
#[test]
fn waits_and_signals_have_boxes_on_queues_of_each_kind() {
    // spec: sync §3.14
    // seed: N90, N102
    let mut recording = recording();
    let (fence, value) = (9, 7);
    recording.events = vec![
        (0, Event::GpuClockCalibrated { node: 0, frequency_hz: 1_000_000_000, counter: 0 }),
        (0, Event::DoorbellCreated { queue: 1, driver_data: 2 }),
        (100, Event::FenceWaitQueued { queue: 1, fence, value, recorded_ns: 40 }),
        (105, Event::KernelFedFenceQueued { queue: 3, packets: false, fence, value, signal: false }),
        (110, Event::KernelFedFenceQueued { queue: 3, packets: true, fence, value, signal: true }),
        (150, Event::KernelFedFenceDone { queue: 3, packets: true, fence, value, signal: true }),
        (160, Event::KernelFedFenceDone { queue: 3, packets: false, fence, value, signal: false }),
        (170, Event::FenceWaitUnblocked { queue: 1, fence, value, observed: 120, end: 140 }),
    ];
    let timeline = Timeline::of(&recording);
    let boxes: Vec<_> = timeline
        .slices
        .iter()
        .map(|slice| {
            let track = &timeline.tracks[slice.track];
            assert_eq!(track.kind, TrackKind::FenceLog);
            (track.name.as_str(), slice.kind, slice.begin_ns, slice.end_ns)
        })
        .collect();
    let expected = [
        ("queue 2: compute (log)", SliceKind::Wait, 100, 140),
        ("queue 3 (fed by the kernel)", SliceKind::Wait, 105, 160),
        ("context 3 (fed by the kernel)", SliceKind::Signal, 110, 150),
    ];
    assert_eq!(boxes, expected);
    let recorded = |slice: &Slice| slice.notes.contains(&Note::Number("recorded at ns", 40));
    assert_eq!(timeline.slices.iter().map(recorded).collect::<Vec<_>>(), [true, false, false]);
}
