//! How long queues have had an engine: the times that count, and the events that begin no new count.

use std::sync::OnceLock;

use device_port::Observation;

use super::sharing::{Queues, STEP_NS, rank};
use super::*;

const FILL: Command<'_> = Command::FillPhysical { target_bus: 0x20_0000, bytes: 0x1_0000, pattern: 7 };
/// The command, the way to memory, its bytes.
const FILL_NS: u64 = 50 + 1_000 + 164;

fn busy(rig: &Rig, queue: u64) -> u64 {
    rig.gpu.write_register(QUEUE_SELECT, queue);
    rig.gpu.read_register(QUEUE_BUSY_NS)
}

fn control(rig: &Rig, control: u64) {
    rig.gpu.write_register(QUEUE_SELECT, 0);
    rig.gpu.write_register(QUEUE_CONTROL, control);
}

#[test]
fn a_queue_has_the_time_of_its_commands_as_it_passes() {
    let mut rig = mapped(DataMode::Stored, true);
    assert_eq!(busy(&rig, 0), 0);
    rig.push(&[FILL, FILL]);
    for (now, expected) in [(0, 0), (500, 500), (FILL_NS + 1, FILL_NS + 1), (10_000, 2 * FILL_NS)] {
        rig.gpu.tick(now);
        assert_eq!(busy(&rig, 0), expected, "at {now}");
    }
    rig.gpu.tick(1_000_000);
    assert_eq!((busy(&rig, 0), busy(&rig, 1)), (2 * FILL_NS, 0), "without commands none passes");
    assert_eq!(rig.gpu.read_register(counter::ENGINE_BUSY_NS + 8), 2 * FILL_NS, "it was alone");
    rig.gpu.write_register(QUEUE_BUSY_NS, 7);
    assert_eq!(busy(&rig, 0), 2 * FILL_NS, "a write does not set it");
}

#[test]
fn a_queue_that_stands_aside_for_a_value_has_no_engine() {
    // spec: sync §3.17
    let mut rig = mapped(DataMode::Stored, false);
    rig.run(&[Command::Wait { va: SYSTEM, value: 5, log: None }]);
    let asked = busy(&rig, 0);
    assert_eq!((rig.state(0), asked), (queue_state::PARKED, 150), "it has looked");
    rig.gpu.tick(1_000_000);
    assert_eq!(busy(&rig, 0), asked);
    Word::store(rig.system.word(0x1_0000), 5);
    rig.gpu.write_register(CMP_COMMAND, cmp::RESCAN);
    rig.drain();
    assert_eq!((rig.state(0), busy(&rig, 0)), (queue_state::READY, 2 * asked), "and has looked again");
}

#[test]
fn what_is_cut_short_has_taken_its_time_and_no_control_begins_a_new_count() {
    // spec: sync §4.1, sync §4.4
    let mut rig = mapped(DataMode::Stored, true);
    rig.push(&[FILL]);
    rig.gpu.tick(500);
    control(&rig, queue_control::SUSPEND);
    rig.gpu.tick(10_000);
    assert_eq!(busy(&rig, 0), 500);
    control(&rig, queue_control::RESUME);
    rig.drain();
    assert_eq!(busy(&rig, 0), 500 + FILL_NS, "the command was done from its beginning");
    rig.push(&[FILL]);
    rig.gpu.tick(rig.gpu.now() + 100);
    control(&rig, queue_control::DISABLE);
    assert_eq!(busy(&rig, 0), 600 + FILL_NS);
    rig.written = 0;
    rig.enable(0, engine_of(true), RING, true);
    rig.run(&[FILL]);
    assert_eq!(busy(&rig, 0), 600 + 2 * FILL_NS);
    let engine = rig.gpu.read_register(counter::ENGINE_BUSY_NS + 8);
    assert_eq!(engine, 2 * FILL_NS, "an engine counts what it has done");
}

#[test]
fn queues_that_share_an_engine_have_its_time_between_them() {
    // spec: sync §4.2
    let mut queues = Queues::new();
    queues.start(rank(1, 7, 1), [2 * STEP_NS, 0, 0], &[6]);
    queues.start(rank(1, 7, 2), [2 * STEP_NS, 0, 0], &[3, 1]);
    queues.rig.drain();
    // A step, and the branches to its buffers.
    let expected = [6 * STEP_NS + 50, 4 * STEP_NS + 2 * 50];
    assert_eq!([1, 2].map(|queue| busy(&queues.rig, queue)), expected);
    assert_eq!(queues.rig.gpu.read_register(counter::ENGINE_BUSY_NS + 8), expected.iter().sum());
}

#[test]
fn work_takes_its_time_and_the_memory_within_it_none() {
    let mut rig = mapped(DataMode::Stored, false);
    Word::store(rig.system.word(0x1_0000), 41);
    let within = Command::Touch { va: SYSTEM, bytes: 2 * PAGE, write: true, within: true };
    rig.push(&[Command::Work { ns: 7_000_001 }, within]);
    rig.gpu.tick(7_000_000);
    assert_eq!(rig.word(0x1_0000), 41, "its time is not over");
    rig.gpu.tick(7_000_001);
    assert_eq!((rig.word(0x1_0000), busy(&rig, 0)), (42, 7_000_001));
}

/// A driver must be able to look for work that does not end.
// spec: sync §4.4
#[test]
fn time_passes_under_commands_that_take_none() {
    const FREE: u64 = 65_535;
    let mut rig = mapped(DataMode::Stored, true);
    let mut words = Vec::new();
    (0..FREE + 5).for_each(|_| Command::Work { ns: 0 }.encode(&mut words));
    Command::Nop.encode(&mut words);
    (0..5).for_each(|_| Command::Work { ns: 0 }.encode(&mut words));
    for (at, word) in (0..).zip(&words) {
        Word::store(rig.gpu.local_memory().word(0x20_0000 + at * 8), *word);
    }
    rig.push(&[Command::BranchPhysical { bus: 0x20_0000, words: words.len() as u32 }]);
    rig.gpu.tick(50);
    assert_eq!(
        rig.gpu.next_event(),
        Some(100),
        "the branch took 50, and the first command too many takes as much as a Nop"
    );
    rig.gpu.tick(99);
    assert_eq!(busy(&rig, 0), 99);
    rig.drain();
    assert_eq!(busy(&rig, 0), 50 + 5 * 50 + 50, "behind a command that takes time they are free again");
}

/// Rings a doorbell when a command begins.
#[derive(Default)]
struct Rings(OnceLock<std::sync::Weak<SoftGpu>>);

impl Probe for Rings {
    fn observe(&self, _at_ns: u64, what: Observation) {
        if matches!(what, Observation::Begin { kind: "work", .. }) {
            self.0.get().and_then(|gpu| gpu.upgrade()).expect("it observes").doorbell_rung(0);
        }
    }
}

#[test]
fn work_that_takes_longer_than_there_is_time_does_not_end_when_the_doorbell_rings() {
    // spec: sync §4.4
    let rings = Arc::new(Rings::default());
    let probe = Arc::clone(&rings) as Arc<dyn Probe>;
    let system = Memory::reserve(1 << 20).unwrap();
    let mut rig = Rig::probed(CONFIG, system, Arc::new(Pin::default()), false, Some(probe));
    rings.0.set(Arc::downgrade(&rig.gpu)).unwrap();
    rig.push(&[Command::Work { ns: u64::MAX }]);
    rig.gpu.tick(1_000);
    assert_eq!((rig.gpu.next_event(), busy(&rig, 0)), (None, 1_000), "the news wait for the end of the command");
    rig.ring();
    rig.gpu.tick(1 << 62);
    assert_eq!((rig.gpu.next_event(), busy(&rig, 0)), (None, 1 << 62));
    rig.gpu.write_register(ENGINE_RESET, 1 << engine_of(false));
    rig.written = 0;
    rig.enable(0, engine_of(false), RING, false);
    rig.run(&[Command::Nop]);
    assert_eq!(busy(&rig, 0), (1 << 62) + 50, "a reset frees the engine");
}

#[test]
fn in_real_time_what_moves_bytes_counts() {
    let mut rig = mapped(DataMode::Stored, true);
    {
        let _running = rig.gpu.run_threads();
        // Without virtual time work takes none.
        rig.push(&[FILL, Command::Work { ns: u64::MAX }, FILL, Command::Complete { value: 1 }]);
        let began = std::time::Instant::now();
        while rig.pop().0 != record::COMPLETED {
            assert!(began.elapsed().as_secs() < 60, "it does not end");
            std::thread::yield_now();
        }
    }
    let ns = busy(&rig, 0);
    assert!(ns > 0);
    assert_eq!(ns, rig.gpu.read_register(counter::ENGINE_BUSY_NS + 8));
}
