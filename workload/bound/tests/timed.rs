//! The eviction planner's works ahead, in time: a planned memory with a paging ring, a link and an engine (`planned::time`).

mod planned {
    pub mod memory;
    pub mod time;
}

use std::path::Path;

use planned::memory::watched;
use planned::time::{Clock, Machine};
use replay::{Event, SourceKind, Storage, Workload};

const MIB: u64 = 1 << 20;
const STEPS: u32 = 5;

/// Bytes and nanoseconds of each step.
fn timed(workload: &Workload, capacity: u64, machine: &Machine) -> (Vec<u64>, Vec<u64>) {
    let clock = Clock::new(machine.clone(), capacity);
    let (moved, _, clock) = watched(workload, STEPS, capacity, clock);
    (moved, clock.steps(workload.ops()))
}

/// A training step: each layer's activation waits for the way back; at the turn one operation needs as much room as all activations.
fn training(layers: u32) -> Workload {
    let persistent = |_| Storage { bytes: MIB, persistent: true };
    let passing = |_| Storage { bytes: 8 * MIB, persistent: false };
    let storages = (0..layers).map(persistent).chain((0..2 * layers).map(passing));
    let loss = Storage { bytes: 8 * MIB * u64::from(layers), persistent: false };
    let storages = storages.chain([loss]).collect();
    let (parameter, activation, gradient) = (|of| of, |of| layers + of, |of| 2 * layers + of);
    let sorted = |mut set: Vec<u32>| {
        set.sort_unstable();
        set
    };
    let op = |name, reads: Vec<u32>, writes: Vec<u32>| {
        let (reads, writes) = (sorted(reads), sorted(writes));
        Event::Op { adapter: None, name, reads, writes }
    };
    let mut events = Vec::new();
    for layer in 0..layers {
        let before = (layer > 0).then(|| activation(layer - 1));
        events.push(op(0, before.into_iter().chain([parameter(layer)]).collect(), vec![activation(layer)]));
    }
    events.push(op(2, vec![activation(layers - 1)], vec![3 * layers]));
    events.push(Event::Death(3 * layers));
    for layer in (0..layers).rev() {
        let above = (layer + 1 < layers).then(|| gradient(layer + 1));
        let reads = above.into_iter().chain([parameter(layer), activation(layer)]).collect();
        events.push(op(1, reads, vec![parameter(layer), gradient(layer)]));
        events.extend(above.into_iter().chain([activation(layer)]).map(Event::Death));
    }
    events.push(Event::Death(gradient(0)));
    let names = vec!["forward".to_owned(), "backward".to_owned(), "loss".to_owned()];
    Workload::new("drawn".to_owned(), SourceKind::ReferenceString, storages, names, events).unwrap()
}

#[test]
fn copies_lie_under_the_work_where_the_link_has_the_time() {
    let workload = training(256);
    // An operation takes as long as a copy of two activations.
    let op_ns = vec![1_000_000; workload.ops()];
    let ideal: u64 = op_ns.iter().sum();
    let machine = Machine { link: 16_000, duplex: true, op_ns, ahead: true };
    for tenths in [6, 7, 8] {
        let capacity = workload.peak_bytes(2) / 10 * tenths;
        let (moved, took) = timed(&workload, capacity, &machine);
        let on_demand = Machine { ahead: false, ..machine.clone() };
        let (moved_on_demand, took_on_demand) = timed(&workload, capacity, &on_demand);
        let stalls = |took: &[u64]| took[4] - ideal;
        assert!(
            stalls(&took) * 5 < stalls(&took_on_demand) * 3,
            "at 0.{tenths}: {took:?}, {took_on_demand:?} on demand"
        );
        assert!(stalls(&took_on_demand) * 20 > ideal, "at 0.{tenths}: {took_on_demand:?} on demand, ideal {ideal}");
        assert_eq!(moved[2..], moved_on_demand[2..], "at 0.{tenths}, not a byte more");
    }
}

#[test]
fn a_recorded_step_is_faster_and_moves_no_more() {
    let workload =
        Workload::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gpt.cpu.rrs.json.gz")).unwrap();
    let machine = Machine { link: 25_000, duplex: false, op_ns: Vec::new(), ahead: true };
    let on_demand = Machine { ahead: false, ..machine.clone() };
    for (tenths, percent) in [(5, 98), (7, 98), (9, 94)] {
        let capacity = workload.peak_bytes(2) * tenths / 10;
        let (moved, took) = timed(&workload, capacity, &machine);
        let (moved_on_demand, took_on_demand) = timed(&workload, capacity, &on_demand);
        assert!(took[4] * 100 <= took_on_demand[4] * percent, "at 0.{tenths}: {took:?}, {took_on_demand:?} on demand");
        for step in [2, 3, 4] {
            let most = moved_on_demand[step] * 103;
            assert!(moved[step] * 100 <= most, "at 0.{tenths}: {moved:?}, {moved_on_demand:?} on demand");
        }
        assert_eq!(moved, watched(&workload, STEPS, capacity, ()).0, "the clock changes nothing");
    }
}
