//! The queue whose command an engine executes next: ranks, quanta, grace periods, at boundaries of buffers and in the middle of them.

use super::*;

/// A command, and the look at the clock behind it.
pub(super) const STEP_NS: u64 = 50 + 1_000 + 164 + 50;

/// Queues on one engine. Each has a buffer of so many steps; a step leaves the time behind.
pub(super) struct Queues {
    pub(super) rig: Rig,
    steps: Vec<u64>,
}

impl Queues {
    pub(super) fn new() -> Queues {
        Queues { rig: mapped(DataMode::Stored, true), steps: Vec::new() }
    }

    fn rank(&self, queue: u64, rank: u64, [quantum, same, lower]: [u64; 3], control: u64) {
        for (register, value) in [
            (QUEUE_SELECT, queue),
            (QUEUE_RANK, rank),
            (QUEUE_QUANTUM, quantum),
            (QUEUE_GRACE_SAME, same),
            (QUEUE_GRACE_LOWER, lower),
            (QUEUE_CONTROL, control),
        ] {
            self.rig.gpu.write_register(register, value);
        }
    }

    pub(super) fn bands(&self, band: u64, grace: u64, quantum: u64, group_grace: u64) {
        for (register, value) in
            [(BAND_SELECT, band), (BAND_GRACE, grace), (BAND_QUANTUM, quantum), (BAND_GROUP_GRACE, group_grace)]
        {
            self.rig.gpu.write_register(register, value);
        }
    }

    /// A queue with buffers of these steps, all rung at once. Queues are counted from 1: queue 0 is the rig's.
    pub(super) fn start(&mut self, rank: u64, times: [u64; 3], buffers: &[u64]) {
        let queue = self.steps.len() as u64 + 1;
        let (ring, buffer) = (0x4_0000 + queue * RING_BYTES, 0x6_0000 + queue * 0x8000);
        let mut ring_words = Vec::new();
        let mut words = Vec::new();
        let mut step = 0;
        for steps in buffers {
            let first = words.len() as u64;
            for _ in 0..*steps {
                Command::FillPhysical { target_bus: 0x20_0000, bytes: 0x1_0000, pattern: 7 }.encode(&mut words);
                Command::Timestamp { va: SYSTEM + self.slot(queue, step) }.encode(&mut words);
                step += 1;
            }
            let branch = Command::BranchPhysical {
                bus: SYSTEM_BASE + buffer + first * 8,
                words: (words.len() as u64 - first) as u32,
            };
            branch.encode(&mut ring_words);
        }
        self.steps.push(step);
        for (base, words) in [(ring, &ring_words), (buffer, &words)] {
            for (index, word) in words.iter().enumerate() {
                Word::store(self.rig.system.word(base + index as u64 * 8), *word);
            }
        }
        self.rig.enable(queue, engine_of(true), ring, true);
        self.rank(queue, rank, times, queue_control::RANK);
        Word::store(
            self.rig.gpu.doorbell_page().word(softgpu_spec::doorbell::offset(queue as u32)),
            ring_words.len() as u64 * 8,
        );
        self.rig.gpu.doorbell_rung(queue as u32);
    }

    fn slot(&self, queue: u64, step: u64) -> u64 {
        ((queue - 1) * 100 + step) * 8
    }

    /// How many steps each did, in the order of their times: (queue, steps) again and again.
    fn turns(&self) -> Vec<(u64, u64)> {
        self.rig.drain();
        let mut all = Vec::new();
        for (queue, steps) in (1..).zip(&self.steps) {
            all.extend((0..*steps).map(|step| (self.rig.word(0x1_0000 + self.slot(queue, step)), queue)));
        }
        all.sort_unstable();
        let mut turns: Vec<(u64, u64)> = Vec::new();
        for (_, queue) in all {
            match turns.last_mut().filter(|(last, _)| *last == queue) {
                Some((_, steps)) => *steps += 1,
                None => turns.push((queue, 1)),
            }
        }
        turns
    }
}

pub(super) const fn rank(band: u64, priority: u8, group: u32) -> u64 {
    queue_rank::encode(band, 0, priority, group)
}

#[test]
fn a_higher_band_takes_the_engine_in_the_middle_of_a_buffer() {
    // spec: sync §4.1, sync §4.2
    for (grace, after) in [(0, 2), (STEP_NS, 3), (100 * STEP_NS, 6)] {
        let mut queues = Queues::new();
        queues.bands(2, grace, 1 << 40, 0);
        queues.start(rank(1, 7, 1), [1 << 40, 0, 0], &[6, 6]);
        // In the middle of its third step: the engine finishes the step before it changes to another queue.
        queues.rig.gpu.tick(2 * STEP_NS + 500);
        queues.start(rank(2, 7, 2), [1 << 40, 0, 0], &[5]);
        // At once, after the grace period, or where a buffer ends before that.
        assert_eq!(queues.turns(), [(1, after), (2, 5), (1, 12 - after)], "grace {grace}");
    }
}

#[test]
fn groups_of_a_band_and_queues_of_a_group_take_turns_of_their_quanta() {
    // spec: sync §4.2
    let mut queues = Queues::new();
    queues.bands(1, 0, 4 * STEP_NS, 0);
    let quantum = [2 * STEP_NS, 0, 0];
    queues.start(rank(1, 7, 1), quantum, &[8]);
    queues.start(rank(1, 7, 1), quantum, &[8]);
    queues.start(rank(1, 7, 2), quantum, &[16]);
    // The first group's four steps are two of each of its queues.
    let round = [(1, 2), (2, 2), (3, 4)];
    let turns = queues.turns();
    assert_eq!(turns.iter().map(|(_, steps)| steps).sum::<u64>(), 32);
    let shape: Vec<u64> = turns.iter().map(|(queue, _)| *queue).collect();
    assert_eq!(shape[..9], round.map(|(queue, _)| queue).repeat(3));
    // A turn ends with the command during which its time is over; the next turns make good for the excess.
    assert!(turns.iter().all(|(queue, steps)| *steps <= round[*queue as usize - 1].1 + 1), "{turns:?}");
}

#[test]
fn groups_of_a_band_get_the_engine_by_their_weights() {
    // spec: sync §4.2
    let quantum = 2 * STEP_NS;
    for (weights, steps) in [([1, 2, 4], [10, 20, 40]), ([4, 2, 1], [40, 20, 10]), ([0, 2, 0], [20, 20, 20])] {
        let mut queues = Queues::new();
        queues.bands(1, 0, quantum, 0);
        for (group, (weight, steps)) in (1..).zip(weights.into_iter().zip(steps)) {
            queues.start(queue_rank::weighted(rank(1, 7, group), weight), [1 << 40, 0, 0], &[steps]);
        }
        // All have an amount of work by their weights, so all end in the last round: no group is early or late by more than a turn.
        let mut left = steps;
        let turns = queues.turns();
        for (nth, (queue, done)) in turns.iter().enumerate() {
            left[*queue as usize - 1] -= done;
            let share = |of: usize| left[of] * 100 / steps[of];
            let shares = [0, 1, 2].map(share);
            let apart = shares.iter().max().unwrap() - shares.iter().min().unwrap();
            assert!(apart <= 30, "{weights:?}, turn {nth}: {left:?} of {steps:?}");
        }
        assert_eq!(left, [0; 3]);
    }
}

#[test]
fn a_higher_priority_of_a_group_goes_first() {
    // spec: sync §4.2
    let mut queues = Queues::new();
    queues.start(rank(1, 6, 1), [1 << 40, 0, 0], &[20]);
    queues.start(rank(1, 8, 1), [1 << 40, 0, 0], &[40, 40]);
    assert_eq!(queues.turns(), [(2, 80), (1, 20)]);
}

#[test]
fn a_queue_that_ranks_otherwise_does_so_from_the_next_command_on() {
    // spec: sync §4.2
    let mut queues = Queues::new();
    let times = [1 << 40, 0, 0];
    queues.start(rank(1, 7, 1), times, &[10]);
    queues.start(rank(0, 7, 2), times, &[10]);
    queues.rig.gpu.tick(3 * STEP_NS + 500);
    queues.rank(2, rank(3, 7, 2), times, queue_control::RANK);
    assert_eq!(queues.turns(), [(1, 3), (2, 10), (1, 7)]);
}

#[test]
fn queues_of_which_nothing_is_said_take_turns_command_by_command() {
    // spec: sync §4.1
    let mut queues = Queues::new();
    queues.start(0, [0; 3], &[3]);
    queues.start(0, [0; 3], &[3]);
    let turns = queues.turns();
    assert!(turns.iter().all(|(_, steps)| *steps <= 2), "{turns:?}");
}

#[test]
fn bands_that_there_are_not_and_shares_too_large_are_not_taken() {
    // spec: sync §2.5
    let queues = Queues::new();
    let gpu = &queues.rig.gpu;
    gpu.write_register(BAND_SELECT, 3);
    gpu.write_register(BAND_GRACE, 77);
    gpu.write_register(BAND_SELECT, 4);
    assert_eq!((gpu.read_register(BAND_SELECT), gpu.read_register(BAND_GRACE)), (3, 77));
    gpu.write_register(NORMAL_PERCENT, 99);
    assert_eq!(gpu.read_register(NORMAL_PERCENT), 50);
}
