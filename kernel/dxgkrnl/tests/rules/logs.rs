//! Scheduling logs of a driver that has none, or whose hardware tells anything.

use dxgkrnl::Machine;
use events::{Event, Tracer};
use wddm_types::NodeId;

use crate::asked;
use crate::stub::{Answers, Bare, Surroundings};

/// The events that the kernel has told.
#[derive(Default)]
struct Told(Vec<Event>);

impl Tracer for Told {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        self.0.push(event.clone());
    }
}

fn trace(machine: &mut Machine, (surroundings, told): (&mut Surroundings, &mut Told), on: bool) {
    machine.trace_scheduling(&mut surroundings.cx(told), on);
}

#[test]
fn what_was_overwritten_is_counted_by_the_wraps_and_names_that_mean_nothing_are_told_as_such() {
    // spec: sync §4.2, sync §2.7
    let entries = 2047;
    for (position, lost, ignored) in [
        (0, 0, 0),
        (7, 0, 7),
        // Full, and nothing is lost yet; then one is.
        (1 << 32, 0, entries),
        (1 << 32 | 1, 1, entries),
        (2 << 32 | 900, entries + 900, entries),
        // No engine writes so much; the room in the log bounds what the kernel tells.
        (u64::MAX, u64::from(u32::MAX) * entries + u64::from(u32::MAX) - entries, entries),
    ] {
        let (mut machine, stub, seen, config) =
            asked(Answers { scheduling_log: Some(position), ..Answers::default() }, vec![]);
        let mut told = Told::default();
        let mut surroundings = Surroundings::of(Bare);
        machine.start_adapter(&mut surroundings.cx(&mut told), Box::new(stub), config).unwrap();
        told.0.clear();
        trace(&mut machine, (&mut surroundings, &mut told), true);
        trace(&mut machine, (&mut surroundings, &mut told), true);
        trace(&mut machine, (&mut surroundings, &mut told), false);
        let given = (NodeId(0), Some((entries as u32, 1023)));
        let calls = seen.lock().unwrap().scheduling_logs.clone();
        assert!(calls[..calls.len() - 1].iter().all(|call| *call == given), "{calls:?}");
        // A log that has become long is read at once, by giving another one; when tracing ends it is taken.
        let reads = usize::from(lost + ignored > entries / 4);
        assert_eq!((calls.len(), calls.last()), (2 + reads, Some(&(NodeId(0), None))), "{position:#x}");
        let lost_now: Vec<u64> = told.0.iter().filter_map(overrun).collect();
        assert_eq!(lost_now, if lost == 0 { vec![] } else { vec![lost] }, "{position:#x}");
        let wrong = told.0.iter().filter(|event| event.name() == "SchedulingLogEntryIgnored").count() as u64;
        assert_eq!(wrong, ignored, "{position:#x}");
        machine.check_invariants().unwrap();
    }
}

fn overrun(event: &Event) -> Option<u64> {
    match event {
        Event::SchedulingLogOverrun { node: 0, lost } => Some(*lost),
        _ => None,
    }
}

#[test]
fn a_driver_without_the_call_has_no_log_and_no_memory_is_kept_for_one_behind_its_end() {
    // spec: sync §2.11, sync §4.2
    let with_log = Answers { scheduling_log: Some(0), ..Answers::default() };
    for (answers, calls) in [(Answers::default(), 0), (Answers::packets_only(), 0), (with_log, 400)] {
        let (mut machine, stub, seen, config) = asked(answers, vec![]);
        let mut told = Told::default();
        let mut surroundings = Surroundings::of(Bare);
        machine.start_adapter(&mut surroundings.cx(&mut told), Box::new(stub), config).unwrap();
        let before = told.0.len();
        // Each would take 32 of the kernel's 2,048 pages.
        for _ in 0..200 {
            trace(&mut machine, (&mut surroundings, &mut told), true);
            trace(&mut machine, (&mut surroundings, &mut told), false);
        }
        assert_eq!(seen.lock().unwrap().scheduling_logs.len(), calls);
        let more = &told.0[before..];
        assert!(more.iter().all(|event| matches!(event, Event::GpuClockCalibrated { .. })), "{more:?}");
        machine.check_invariants().unwrap();
    }
}
