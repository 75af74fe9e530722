//! One doorbell that two processes elsewhere take from each other (sync §3.17): each has a page of its own, which stands in the device's
//! window while it has the doorbell. The kernel does not hold its stores: it looks for the last one behind the status. The actors are those
//! of [`super::passed_on`]; the steps when a doorbell goes differ, and [`Steps`] leaves some of them out.

use shared_words::doorbell::{may_sleep, ring};
use shared_words::{Barrier, Word};

use crate::buffers::{Act, Cell, Full, Program, ShownCell, again, drained, explore, section};
use crate::explore::{Ending, Explored};

/// Pages: the window's own, and that of each process. Of each the value, and whether the engine sleeps.
const VALUE: [usize; 3] = [0, 1, 2];
const ASLEEP: [usize; 3] = [3, 4, 5];
/// The page that stands in the window.
const SHOWS: Cell = Cell(6);
/// The queue that listens there, counted from 1.
const LISTENER: Cell = Cell(7);
const STATUS: [Cell; 2] = [Cell(8), Cell(9)];
/// The rings for each queue while it listened, and those executed.
const OWN: [Cell; 2] = [Cell(10), Cell(11)];
const DONE: [Cell; 2] = [Cell(12), Cell(13)];
/// Locks, free at 1: the kernel's, and the engine's state.
const KERNEL: Cell = Cell(14);
const ENGINE: Cell = Cell(15);
/// Wakes the engine.
const TOKEN: Cell = Cell(16);
/// The engine looks at nothing.
const SLEEPS: Cell = Cell(17);
/// The engine has gone back to what it had executed.
const WENT_BACK: Cell = Cell(18);
const WORDS: usize = 19;

const CONNECTED: u64 = 0;
const RETRY: u64 = 2;
/// The rung and executed values of each before: the check would see a ring of the first that the second's queue heard.
const BEFORE: [u64; 2] = [8, 0];
/// The engine has found nothing to do, or something.
const NOTHING: u64 = u64::MAX;
const WORKED: u64 = u64::MAX - 1;

/// The steps that take a doorbell from a process and give it to another.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// The kernel takes the page out of the window before another process gets the doorbell.
    pub cut: bool,
    /// The kernel reads the value stored into it once more behind the status.
    pub look_again: bool,
    /// The engine is woken when another page has been shown.
    pub wake_shown: bool,
    /// A value that is behind what is executed says nothing.
    pub only_rises: bool,
}

impl Steps {
    /// All of them.
    pub const ALL: Steps = Steps { cut: true, look_again: true, wake_shown: true, only_rises: true };
}

/// The kernel, on the connecting thread. `R`: the barrier between the status and the second look.
// spec: sync §3.17
fn connect<R: Barrier>(steps: Steps, queue: usize) {
    let other = 1 - queue;
    let begin: Act = |memory, other| {
        memory[KERNEL.0] = 0;
        let listens = memory[LISTENER.0] == other + 1;
        if listens {
            // The content of the window's own page before any ringer finds it there.
            // CAST: a queue.
            let page = other as usize + 1;
            (memory[VALUE[0]], memory[ASLEEP[0]]) = (memory[VALUE[page]], memory[ASLEEP[page]]);
        }
        u64::from(listens)
    };
    if section(KERNEL, begin, other as u64) == 1 {
        // A processor that replaces a page interrupts all that use it.
        let show: Act = |memory, page| std::mem::replace(&mut memory[SHOWS.0], page);
        if steps.cut {
            section(ALWAYS, show, 0);
        }
        STATUS[other].store(RETRY);
        R::full();
        let rung = if steps.look_again { Cell(VALUE[other + 1]).load() } else { NOTHING };
        // The device's store and its wake-up follow at once.
        let leave: Act = |memory, argument| {
            let (other, rung) = ((argument & 1) as usize, argument >> 1);
            let shown = memory[SHOWS.0] as usize;
            if rung != NOTHING >> 1 {
                memory[VALUE[shown]] = rung;
            }
            (memory[OWN[other].0], memory[LISTENER.0]) = (memory[VALUE[shown]], 0);
            u64::from(memory[OWN[other].0] > memory[DONE[other].0])
        };
        if section(ENGINE, leave, rung << 1 | other as u64) == 1 {
            TOKEN.raise();
        }
    }
    let listen: Act = |memory, queue| {
        let shown = memory[SHOWS.0] as usize;
        memory[VALUE[shown]] = memory[OWN[queue as usize].0];
        memory[ASLEEP[shown]] = memory[SLEEPS.0];
        memory[LISTENER.0] = queue + 1;
        0
    };
    section(ENGINE, listen, queue as u64);
    let fill: Act = |memory, queue| {
        let (page, shown) = (queue as usize + 1, memory[SHOWS.0] as usize);
        (memory[VALUE[page]], memory[ASLEEP[page]]) = (memory[VALUE[shown]], memory[ASLEEP[shown]]);
        0
    };
    section(ALWAYS, fill, queue as u64);
    let connected: Act = |memory, argument| {
        let (queue, wakes) = ((argument & 1) as usize, argument >> 1);
        (memory[SHOWS.0], memory[STATUS[queue].0], memory[KERNEL.0]) = (queue as u64 + 1, CONNECTED, 1);
        memory[TOKEN.0] |= wakes;
        0
    };
    section(ALWAYS, connected, queue as u64 | u64::from(steps.wake_shown) << 1);
}

/// A lock that is always free: the caller holds the kernel's already.
const ALWAYS: Cell = Cell(WORDS);

/// A word of whichever page stands in the window.
fn window(words: [usize; 3]) -> ShownCell {
    ShownCell { shows: SHOWS.0, words }
}

/// It has a doorbell as far as it knows, or is to connect one.
const HAS: u64 = 0;
const HAS_NOT: u64 = 1;

/// Rings so many times, each until the status says that it was heard. `P`: the ringer's barrier.
fn producer<P: Barrier + 'static, R: Barrier + 'static>(
    steps: Steps,
    queue: usize,
    count: u64,
    doorbell: u64,
) -> Program {
    Program::new(vec![0, doorbell], move |knows| {
        let (number, doorbell) = (knows[0], knows[1]);
        if doorbell == HAS_NOT {
            connect::<R>(steps, queue);
            again(vec![number, HAS]);
        }
        if number == count {
            return 0;
        }
        let page = queue + 1;
        if ring(P::full, &Cell(VALUE[page]), &Cell(ASLEEP[page]), BEFORE[queue] + number + 1) {
            TOKEN.raise();
        }
        match STATUS[queue].load() {
            RETRY => again(vec![number, HAS_NOT]),
            _ => again(vec![number + 1, HAS]),
        }
    })
}

/// Executes what it sees of both queues, and sleeps when there is nothing. `C`: its barrier.
fn engine<C: Barrier + 'static>(steps: Steps) -> Program {
    Program::new(vec![0], move |knows| {
        if knows[0] == 1 {
            let wakes: Act = |memory, _| {
                (memory[TOKEN.0], memory[SLEEPS.0]) = (0, 0);
                0
            };
            section(TOKEN, wakes, 0);
            window(ASLEEP).store(0);
        }
        // It takes its lock when there is nothing.
        let works: Act = |memory, only_rises| {
            let mut worked = false;
            for queue in 0..2 {
                let here = memory[LISTENER.0] == queue as u64 + 1;
                let rung = if here { memory[VALUE[memory[SHOWS.0] as usize]] } else { memory[OWN[queue].0] };
                let done = memory[DONE[queue].0];
                if rung > done || (rung < done && only_rises == 0) {
                    memory[WENT_BACK.0] |= u64::from(rung < done);
                    memory[DONE[queue].0] = rung;
                    worked = true;
                }
            }
            memory[ENGINE.0] = u64::from(worked);
            let listens = |queue: u64| memory[DONE[queue as usize].0];
            if worked { WORKED } else { memory[LISTENER.0].checked_sub(1).map_or(NOTHING, listens) }
        };
        let sleeps = match section(ENGINE, works, u64::from(steps.only_rises)) {
            NOTHING => true,
            WORKED => again(vec![0]),
            seen => may_sleep(C::full, &window(VALUE), &window(ASLEEP), seen),
        };
        SLEEPS.store(u64::from(sleeps));
        ENGINE.store(1);
        again(vec![u64::from(sleeps)])
    })
}

/// Two producers and the engine; the first has the doorbell, the second takes it. Lost is what was rung and not executed, or executed for
/// the wrong queue; twice, what the engine went back to.
pub fn one_doorbell<P: Barrier + 'static, C: Barrier + 'static, R: Barrier + 'static>(
    steps: Steps,
    counts: [u64; 2],
) -> Explored {
    let mut memory = [0; WORDS + 1];
    for queue in 0..2 {
        (memory[OWN[queue].0], memory[DONE[queue].0]) = (BEFORE[queue], BEFORE[queue]);
    }
    (memory[SHOWS.0], memory[LISTENER.0], memory[STATUS[1].0]) = (1, 1, RETRY);
    (memory[KERNEL.0], memory[ENGINE.0], memory[ALWAYS.0]) = (1, 1, 1);
    let programs = [
        producer::<P, R>(steps, 0, counts[0], HAS),
        producer::<P, R>(steps, 1, counts[1], HAS_NOT),
        engine::<C>(steps),
    ];
    let judge = move |memory: &[u64], said: &[Option<u64>]| {
        let wrong = |queue: usize| memory[DONE[queue].0] != BEFORE[queue] + counts[queue];
        let lost = wrong(0) || wrong(1) || said[..2].contains(&None);
        Ending { lost, twice: memory[WENT_BACK.0] != 0 }
    };
    explore(&memory, &programs, judge)
}

/// The kernel's barrier of the asymmetric form: its own stores have arrived, then those of both ringers.
pub struct BothRingers;

impl Barrier for BothRingers {
    fn full() {
        Full::full();
        [0, 1].into_iter().for_each(drained);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Removed;
    use crate::complete::doorbell::{Everybody, Nothing};

    fn is_clean(explored: &Explored) -> bool {
        explored.lost == 0 && explored.twice == 0 && explored.executions > 0
    }

    #[test]
    fn everything_rung_is_executed_by_its_queue_and_no_step_waits_for_the_process() {
        // spec: sync §3.17, sync §3.19
        for counts in [[1, 0], [0, 1]] {
            let explored = one_doorbell::<Full, Full, Full>(Steps::ALL, counts);
            assert!(is_clean(&explored), "{explored:?}");
        }
    }

    #[test]
    fn who_rings_needs_no_barrier_if_the_kernel_and_the_engine_put_one_for_everybody() {
        // spec: sync §3.9, sync §3.17
        let explored = one_doorbell::<Nothing, Everybody, BothRingers>(Steps::ALL, [1, 1]);
        assert!(is_clean(&explored), "{explored:?}");
    }

    #[test]
    fn each_step_left_out_is_found() {
        // spec: sync §3.17, sync §3.19
        let left_out = [
            ("cut", Steps { cut: false, ..Steps::ALL }),
            ("look again", Steps { look_again: false, ..Steps::ALL }),
            ("wake shown", Steps { wake_shown: false, ..Steps::ALL }),
            ("only rises", Steps { only_rises: false, ..Steps::ALL }),
        ];
        for (what, steps) in left_out {
            assert!(!is_clean(&one_doorbell::<Full, Full, Full>(steps, [1, 0])), "{what}");
        }
    }

    #[test]
    fn each_barrier_removed_is_found() {
        // spec: sync §3.17
        let counts = [1, 0];
        assert!(one_doorbell::<Removed, Full, Full>(Steps::ALL, counts).lost > 0, "the ringer's");
        assert!(one_doorbell::<Full, Removed, Full>(Steps::ALL, counts).lost > 0, "the engine's");
        assert!(
            one_doorbell::<Full, Full, Removed>(Steps::ALL, counts).lost > 0,
            "that between status and second look"
        );
        assert!(one_doorbell::<Nothing, Everybody, Full>(Steps::ALL, counts).lost > 0, "and it covers all ringers");
    }
}
