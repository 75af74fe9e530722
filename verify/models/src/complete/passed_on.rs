//! One doorbell that two queues take from each other (sync §3.17): two producers, which ring and look at their status, and the engine,
//! which executes what was rung and falls asleep. A producer that finds its doorbell gone connects it again, under the kernel's lock, and
//! rings again. Rings go through [`shared_words::doorbell::ring`], sleep through [`shared_words::doorbell::may_sleep`].
//!
//! A doorbell is taken away and given to another queue in steps, and each is needed: [`Steps`] leaves one out. The question is whether
//! every ring is executed, and none by another's queue. Steps whose middle no actor can observe are one.

use shared_words::doorbell::{may_sleep, ring};
use shared_words::{Barrier, Word};

use crate::buffers::{Act, Cell, PagedCell, Program, again, drained, explore, page, section};
use crate::explore::{Ending, Explored};

/// The physical doorbell: its value, and whether the engine sleeps.
const VALUE: Cell = Cell(0);
const ASLEEP: Cell = Cell(1);
/// The queue that listens to it, counted from 1.
const LISTENER: Cell = Cell(2);
/// The page at the address of each queue's doorbell, and its status.
const PAGE: [Cell; 2] = [Cell(3), Cell(4)];
const STATUS: [Cell; 2] = [Cell(5), Cell(6)];
/// The rings for each queue while it listened, and those executed.
const OWN: [Cell; 2] = [Cell(7), Cell(8)];
const DONE: [Cell; 2] = [Cell(9), Cell(10)];
/// Locks, free at 1: the kernel's, and the engine's state.
const KERNEL: Cell = Cell(11);
const ENGINE: Cell = Cell(12);
/// Wakes the engine.
const TOKEN: Cell = Cell(13);
/// The engine looks at nothing.
const SLEEPS: Cell = Cell(14);
const WORDS: usize = 15;

const CONNECTED: u64 = 0;
const RETRY: u64 = 2;
/// The rung and executed values of each before: the check would see a ring of the other.
const BEFORE: [u64; 2] = [0, 8];
/// The engine has found nothing to do.
const NOTHING: u64 = u64::MAX;

/// The steps that take a doorbell away and give it to another queue.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// Stores wait from before the page leads nowhere until the status is there.
    pub hold: bool,
    /// The kernel interrupts all that use the mapping, so that no store is still on its way to the page.
    pub shoot_down: bool,
    /// The ring goes with the queue.
    pub take_along: bool,
    /// The doorbell says at once whether the engine sleeps.
    pub say_asleep: bool,
    /// A producer that finds its doorbell gone rings again when it is connected.
    pub ring_again: bool,
}

impl Steps {
    /// All of them.
    pub const ALL: Steps = Steps { hold: true, shoot_down: true, take_along: true, say_asleep: true, ring_again: true };
}

/// In which order a process's stores go on and the driver lets its queue listen elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// The driver takes it (`DxgkCbDisconnectDoorbell`): they go on first.
    Driver,
    /// The kernel does (`DxgkDdiDisconnectDoorbell`): they go on last.
    Kernel,
}

/// An argument of a step: a queue, and two of the choices.
fn argument(queue: usize, choices: [bool; 2]) -> u64 {
    queue as u64 | u64::from(choices[0]) << 1 | u64::from(choices[1]) << 2
}

fn of_argument(argument: u64) -> (usize, [bool; 2]) {
    // CAST: one bit.
    ((argument & 1) as usize, [argument & 2 != 0, argument & 4 != 0])
}

/// The kernel and the driver, on the connecting thread.
// spec: sync §3.17
fn connect(steps: Steps, taker: Taker, queue: usize) {
    let other = 1 - queue;
    let begin: Act = |memory, argument| {
        let (other, [hold, _]) = of_argument(argument);
        memory[KERNEL.0] = 0;
        let listens = memory[LISTENER.0] == other as u64 + 1;
        if listens {
            memory[PAGE[other].0] = if hold { page::HELD } else { page::NOTHING };
        }
        u64::from(listens)
    };
    if section(KERNEL, begin, argument(other, [steps.hold, false])) == 1 {
        if steps.shoot_down {
            drained(other);
        }
        let tell: Act = |memory, argument| {
            let (other, [shows, _]) = of_argument(argument);
            memory[STATUS[other].0] = RETRY;
            if shows {
                memory[PAGE[other].0] = page::NOTHING;
            }
            0
        };
        section(ENGINE, tell, argument(other, [taker == Taker::Driver, false]));
        let leave: Act = |memory, argument| {
            let (other, [takes_along, _]) = of_argument(argument);
            if takes_along {
                memory[OWN[other].0] = memory[VALUE.0];
            }
            (memory[ASLEEP.0], memory[LISTENER.0]) = (0, 0);
            if memory[OWN[other].0] != memory[DONE[other].0] {
                memory[TOKEN.0] = 1;
            }
            0
        };
        section(ENGINE, leave, argument(other, [steps.take_along, false]));
        if taker == Taker::Kernel {
            section(ENGINE, tell, argument(other, [true, false]));
        }
    }
    let listen: Act = |memory, argument| {
        let (queue, [says, _]) = of_argument(argument);
        memory[VALUE.0] = memory[OWN[queue].0];
        memory[ASLEEP.0] = if says { memory[SLEEPS.0] } else { 0 };
        memory[LISTENER.0] = queue as u64 + 1;
        (memory[PAGE[queue].0], memory[STATUS[queue].0]) = (page::SHOWN, CONNECTED);
        memory[KERNEL.0] = 1;
        0
    };
    section(ENGINE, listen, argument(queue, [steps.say_asleep, false]));
}

/// It has a doorbell as far as it knows; it has rung and found it gone; it connects before it has work.
const HAS: u64 = 0;
const GONE: u64 = 1;
const NEW: u64 = 2;

/// Rings so many times, each until the status says that it was heard.
fn producer<P: Barrier + 'static>(steps: Steps, taker: Taker, queue: usize, count: u64, doorbell: u64) -> Program {
    Program::new(vec![0, doorbell], move |knows| {
        let (number, doorbell) = (knows[0], knows[1]);
        if doorbell != HAS {
            connect(steps, taker, queue);
            let over = doorbell == GONE && !steps.ring_again;
            again(vec![number + u64::from(over), HAS]);
        }
        if number == count {
            return 0;
        }
        let at = |word: Cell| PagedCell { word: word.0, page: PAGE[queue].0 };
        if ring(P::full, &at(VALUE), &at(ASLEEP), BEFORE[queue] + number + 1) {
            TOKEN.raise();
        }
        match STATUS[queue].load() {
            RETRY => again(vec![number, GONE]),
            _ => again(vec![number + 1, HAS]),
        }
    })
}

/// Executes what it sees of both queues, and sleeps when there is nothing.
fn engine<C: Barrier + 'static>() -> Program {
    Program::new(vec![0], |knows| {
        if knows[0] == 1 {
            // It sleeps until a wake-up.
            let wakes: Act = |memory, _| {
                (memory[TOKEN.0], memory[SLEEPS.0], memory[ASLEEP.0]) = (0, 0, 0);
                0
            };
            section(TOKEN, wakes, 0);
        }
        // It takes its lock when there is nothing.
        let works: Act = |memory, _| {
            let mut worked = false;
            for queue in 0..2 {
                let rung = if memory[LISTENER.0] == queue as u64 + 1 { VALUE } else { OWN[queue] };
                worked |= memory[DONE[queue].0] != memory[rung.0];
                memory[DONE[queue].0] = memory[rung.0];
            }
            memory[ENGINE.0] = u64::from(worked);
            let listens = |queue: u64| memory[DONE[queue as usize].0];
            if worked { NOTHING - 1 } else { memory[LISTENER.0].checked_sub(1).map_or(NOTHING, listens) }
        };
        let sleeps = match section(ENGINE, works, 0) {
            NOTHING => true,
            worked if worked == NOTHING - 1 => again(vec![0]),
            seen => may_sleep(C::full, &VALUE, &ASLEEP, seen),
        };
        // A processor that gave it a queue since it looked wakes it.
        SLEEPS.store(u64::from(sleeps));
        ENGINE.store(1);
        again(vec![u64::from(sleeps)])
    })
}

/// Two producers and the engine; the first has the doorbell, the second takes it. Lost is what was rung and not executed, or executed for the wrong queue.
pub fn one_doorbell<P: Barrier + 'static, C: Barrier + 'static>(
    steps: Steps,
    taker: Taker,
    counts: [u64; 2],
) -> Explored {
    let mut memory = [0; WORDS];
    for queue in 0..2 {
        (memory[OWN[queue].0], memory[DONE[queue].0]) = (BEFORE[queue], BEFORE[queue]);
    }
    (memory[VALUE.0], memory[LISTENER.0], memory[PAGE[0].0]) = (BEFORE[0], 1, page::SHOWN);
    memory[STATUS[1].0] = RETRY;
    (memory[KERNEL.0], memory[ENGINE.0]) = (1, 1);
    let rings = |queue: usize, doorbell| producer::<P>(steps, taker, queue, counts[queue], doorbell);
    let [first, second] = [rings(0, HAS), rings(1, NEW)];
    let programs = [first, second, engine::<C>()];
    let judge = move |memory: &[u64], said: &[Option<u64>]| {
        let wrong = |queue: usize| memory[DONE[queue].0] != BEFORE[queue] + counts[queue];
        Ending { lost: wrong(0) || wrong(1) || said[..2].contains(&None), twice: false }
    };
    explore(&memory, &programs, judge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Removed;
    use crate::buffers::Full;
    use crate::complete::doorbell::{Everybody, Nothing};

    const TAKERS: [Taker; 2] = [Taker::Driver, Taker::Kernel];

    #[test]
    fn everything_rung_is_executed_by_its_queue() {
        // spec: sync §3.17, sync §3.19
        for taker in TAKERS {
            let explored = one_doorbell::<Full, Full>(Steps::ALL, taker, [1, 1]);
            assert!(explored.lost == 0 && explored.executions > 0, "{taker:?}: {explored:?}");
        }
    }

    #[test]
    fn a_ringer_needs_no_barrier_for_its_status_either() {
        // spec: sync §3.9, sync §3.17
        for taker in TAKERS {
            let explored = one_doorbell::<Nothing, Everybody>(Steps::ALL, taker, [1, 1]);
            assert!(explored.lost == 0 && explored.executions > 0, "{taker:?}: {explored:?}");
        }
    }

    #[test]
    fn each_step_left_out_is_found() {
        // spec: sync §3.17, sync §3.19
        let left_out = [
            ("hold", Steps { hold: false, ..Steps::ALL }, Taker::Driver),
            ("hold", Steps { hold: false, ..Steps::ALL }, Taker::Kernel),
            ("shoot down", Steps { shoot_down: false, ..Steps::ALL }, Taker::Driver),
            ("take along", Steps { take_along: false, ..Steps::ALL }, Taker::Driver),
            ("say asleep", Steps { say_asleep: false, ..Steps::ALL }, Taker::Driver),
            ("ring again", Steps { ring_again: false, ..Steps::ALL }, Taker::Driver),
        ];
        for (what, steps, taker) in left_out {
            // The queue that takes it may have no work yet.
            let lost = |counts| one_doorbell::<Full, Full>(steps, taker, counts).lost > 0;
            assert!(lost([1, 0]) || lost([1, 1]), "{what}: {taker:?}");
        }
    }

    #[test]
    fn either_barrier_removed_is_found() {
        // spec: sync §3.17
        assert!(one_doorbell::<Removed, Full>(Steps::ALL, Taker::Driver, [1, 1]).lost > 0, "the ringer's");
        assert!(one_doorbell::<Full, Removed>(Steps::ALL, Taker::Driver, [1, 1]).lost > 0, "the engine's");
    }
}
