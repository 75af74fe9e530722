//! Fences in the trace of a recorded run.

use super::*;

/// Waits and signals of each queue, drawn from the logs alone: one box for every wait and signal that was submitted, from there to its
/// execution; nothing is lost, and a tool that listens changes no byte.
#[test]
fn the_trace_shows_every_wait_and_signal_of_the_logs() {
    // spec: sync §3.14
    // seed: N89, N90, N102, N106
    use events::Event;
    let plain = run(&options("gpt.cpu.rrs.json.gz")).summary;
    let traced = run(&RunOptions { recorded: true, ..options("gpt.cpu.rrs.json.gz") });
    let summary = &traced.summary;
    assert_eq!((summary.paged_in_bytes, summary.paged_out_bytes), (plain.paged_in_bytes, plain.paged_out_bytes));
    let events = &traced.recordings[0].events;
    let count = |which: fn(&Event) -> bool| events.iter().filter(|(_, event)| which(event)).count();
    assert_eq!(count(|event| matches!(event, Event::FenceLogOverrun { .. } | Event::FenceLogEntryIgnored { .. })), 0);
    let waits = count(|event| matches!(event, Event::FenceWaitQueued { .. }));
    let signals = count(|event| matches!(event, Event::FenceSignalQueued { .. }));
    assert_eq!(signals as u64, summary.ops, "each operation's progress");
    let timeline = Timeline::of(&traced.recordings[0]);
    let logs = |kind: SliceKind| {
        let of_logs = |track: usize| timeline.tracks[track].kind == TrackKind::FenceLog;
        timeline.slices.iter().filter(move |slice| slice.kind == kind && of_logs(slice.track))
    };
    assert_eq!((logs(SliceKind::Wait).count(), logs(SliceKind::Signal).count()), (waits, signals));
    assert!(waits > 100 && logs(SliceKind::Wait).chain(logs(SliceKind::Signal)).all(|slice| !slice.cut));
    // The boxes' ends are what the probe saw on the device, by the device's own clock.
    let mut ends: Vec<u64> = logs(SliceKind::Signal).map(|slice| slice.end_ns).collect();
    ends.sort_unstable();
    let device_queue = traced.recordings[0].ops[0].device_queue;
    let mut seen: Vec<u64> = traced.recordings[0]
        .observations
        .iter()
        .filter_map(|(at, what)| match what {
            device_port::Observation::Signal { queue, .. } if *queue == device_queue => Some(*at),
            _ => None,
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(ends, seen);
}

/// Of what the kernel feeds it tells both ends itself: each wait that it was given has its box, by queue or by context.
#[test]
fn the_trace_shows_every_wait_of_the_queues_and_contexts_that_the_kernel_feeds() {
    // spec: sync §3.14
    // seed: N90, N126
    use events::Event;
    for (stage, fed_by) in [(Stage::Hardware, "queue"), (Stage::Packet, "context")] {
        let options = RunOptions { recorded: true, stages: vec![stage], ..options("gpt.cpu.rrs.json.gz") };
        let recording = &run(&options).recordings[0];
        let queued = recording.events.iter().filter_map(|(at, event)| match event {
            Event::KernelFedFenceQueued { signal: false, .. } => Some(*at),
            _ => None,
        });
        let mut queued: Vec<u64> = queued.collect();
        let timeline = Timeline::of(recording);
        let of_kernel = |track: usize| {
            let track = &timeline.tracks[track];
            track.kind == TrackKind::FenceLog && track.name.starts_with(fed_by) && track.name.contains("kernel")
        };
        let boxes = timeline.slices.iter().filter(|slice| slice.kind == SliceKind::Wait && of_kernel(slice.track));
        let mut begun: Vec<u64> = boxes.clone().map(|slice| slice.begin_ns).collect();
        queued.sort_unstable();
        begun.sort_unstable();
        assert!(queued.len() > 100, "{stage:?}: {}", queued.len());
        assert_eq!(begun, queued, "{stage:?}: from its submission on");
        assert!(boxes.clone().all(|slice| !slice.cut), "{stage:?}");
        assert!(boxes.clone().any(|slice| slice.end_ns > slice.begin_ns), "{stage:?}: to where it held");
    }
}

/// Also where processes take turns in virtual time the trace has the waits and signals that each of them queues.
#[test]
fn the_trace_has_what_every_process_queued() {
    // spec: sync §3.14
    let other = Share { workload: Workload::File(data("gpt.cpu.rrs.json.gz")), terms: Terms::default() };
    let shared = RunOptions { recorded: true, steps: 1, others: vec![other], ..options("gpt.cpu.rrs.json.gz") };
    let traced = run(&shared);
    let queued = |event: &events::Event| matches!(event, events::Event::FenceSignalQueued { .. });
    let signals = traced.recordings[0].events.iter().filter(|(_, event)| queued(event)).count();
    assert_eq!(signals as u64, traced.summary.ops, "each operation's progress, of both");
}
