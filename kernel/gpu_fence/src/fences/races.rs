//! The two-sided race of sync §3.9, every interleaving of it: one side registers a waiter, the other signals. The words
//! are plain numbers here and each step is atomic, so this shows that the *steps* suffice; that the barriers between
//! them make real memory behave so is proved where the words are.

use std::mem;

use super::*;

/// The steps of the kernel, in this order.
const KERNEL: [Step; 3] = [Step::Register, Step::Publish, Step::SampleAgain];
/// The steps of the signaller, and the interrupt that may follow.
const SIGNALLER: [Step; 3] = [Step::StoreCurrent, Step::LoadMonitored, Step::Interrupt];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Register,
    Publish,
    SampleAgain,
    StoreCurrent,
    LoadMonitored,
    Interrupt,
}

struct World {
    fences: Fences<()>,
    fence: FenceId,
    current: u64,
    monitored: u64,
    to_publish: Vec<MonitoredUpdate>,
    line: bool,
    released: usize,
    interrupts: usize,
    interrupts_without_waiter: usize,
}

impl World {
    fn new() -> Self {
        let mut fences = Fences::new();
        let fence = fences.create(FenceKind::Native);
        let monitored = fences.monitored_value(fence);
        World {
            fences,
            fence,
            current: 41,
            monitored,
            to_publish: vec![],
            line: false,
            released: 0,
            interrupts: 0,
            interrupts_without_waiter: 0,
        }
    }

    fn step(&mut self, step: Step, signal: u64) {
        match step {
            Step::Register => {
                let (fence, current) = (self.fence, self.current);
                let point = FencePoint { fence, value: 42 };
                match self.fences.wait(&[point], WaitMode::All, &mut |_| current, ()) {
                    WaitOutcome::Satisfied(()) => self.released += 1,
                    WaitOutcome::Pending { updates, .. } => self.to_publish.extend(updates),
                }
            }
            Step::Publish => self.publish(),
            Step::SampleAgain => self.sample_until_stable(),
            Step::StoreCurrent => self.current = signal,
            Step::LoadMonitored => self.line = signal > self.monitored,
            Step::Interrupt => {
                if mem::take(&mut self.line) {
                    self.interrupts += 1;
                    let before = self.released;
                    self.sample_until_stable();
                    self.interrupts_without_waiter += usize::from(self.released == before);
                }
            }
        }
    }

    fn publish(&mut self) {
        for update in self.to_publish.drain(..) {
            self.monitored = update.value;
        }
    }

    fn sample_until_stable(&mut self) {
        loop {
            let turn = self.fences.sample(self.fence, self.current);
            self.released += turn.released.len();
            self.to_publish.extend(turn.updates);
            if self.to_publish.is_empty() {
                return;
            }
            self.publish();
        }
    }
}

/// Runs every merge of the two sides that keeps each side's own order.
fn every_interleaving(kernel: &[Step], signal: u64, mut check: impl FnMut(&[Step], &World)) {
    let total = kernel.len() + SIGNALLER.len();
    for choice in 0u32..1 << total {
        if choice.count_ones() as usize != kernel.len() {
            continue;
        }
        let (mut left, mut right) = (kernel.iter(), SIGNALLER.iter());
        let order: Vec<Step> = (0..total)
            .filter_map(|place| if choice >> place & 1 == 1 { left.next() } else { right.next() })
            .copied()
            .collect();
        let mut world = World::new();
        order.iter().for_each(|step| world.step(*step, signal));
        check(&order, &world);
    }
}

#[test]
fn a_waiter_is_released_in_every_interleaving_with_a_sufficient_signal() {
    // spec: sync §3.9, §3.19
    let mut orders = 0;
    for signal in [42, 43, u64::MAX] {
        every_interleaving(&KERNEL, signal, |order, world| {
            orders += 1;
            assert_eq!(world.released, 1, "{order:?}, signal of {signal}");
            assert_eq!(world.monitored, u64::MAX, "{order:?}: quiet again");
        });
    }
    assert_eq!(orders, 3 * 20);
}

#[test]
fn an_insufficient_signal_releases_no_waiter_and_leaves_the_monitored_value() {
    // spec: sync §3.9, §3.19
    every_interleaving(&KERNEL, 41, |order, world| {
        assert_eq!((world.released, world.interrupts, world.monitored), (0, 0, 41), "{order:?}");
    });
}

#[test]
fn without_the_second_sample_a_wake_up_is_lost() {
    // The test above must be able to fail: leave a step out and it does.
    let mut lost = 0;
    every_interleaving(&KERNEL[..2], 42, |_, world| lost += usize::from(world.released == 0));
    assert!(lost > 0);
}

#[test]
fn an_interrupt_that_releases_no_waiter_is_harmless() {
    // spec: sync §3.9
    // seed: N35
    let mut without_waiter = 0;
    every_interleaving(&KERNEL, 42, |order, world| {
        without_waiter += world.interrupts_without_waiter;
        assert_eq!((world.released, world.fences.waiters(world.fence)), (1, 0), "{order:?}");
    });
    assert!(without_waiter > 0, "in some order the second sample comes first and the interrupt finds no waiter");
}
