//! A second model checker, for models that are too large for loom: it remembers the states that it has been in, so that what many
//! interleavings share is explored once. Complete: no bound on preemptions, on depth or on states.
//!
//! Its machine has processors with **store buffers**. A store goes into its processor's buffer and from there to memory at any
//! later time; a load sees its own processor's buffered store first, then memory; a full barrier is passed when the buffer is empty.
//! Stores leave in order, but for *plain* ones, which later stores overtake: what hardware may do that was not told to keep
//! the order. That is weaker than x86 where it matters here, and it is the reordering that the protocols' barriers are about;
//! processors that disagree about the order of others' stores are loom's business.
//!
//! It runs the functions of [`shared_words`] themselves: a processor is a closure over [`Cell`]s. It is run from its beginning with the
//! answers that it has had so far, up to its first access without one: the history is its state. A loop says at its end what of that
//! matters for its next turn ([`again`]), so that histories stay short and states meet.

mod cells;

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use shared_words::Barrier;

pub(crate) use self::cells::{Cell, PagedCell, PlainCell, ShownCell};
use crate::explore::{Ending, Explored};

/// An access of a processor to memory.
#[derive(Clone, Copy, Debug)]
enum Access {
    Load(usize),
    Store {
        word: usize,
        value: u64,
        plain: bool,
    },
    /// Its buffer is to be empty.
    Barrier,
    /// Another's buffer is to be empty.
    Drained(usize),
    /// In one piece, with an empty buffer.
    Exchange(usize, u64),
    /// An interrupt: it does not go through the buffer.
    Raise(usize),
    /// The word is to have reached the value: nothing is looked at before.
    Reached(usize, u64),
    /// Something that is done in one piece, with an empty buffer, while a lock is free (1).
    Section {
        lock: usize,
        act: Act,
        argument: u64,
    },
    /// The same as a load and a store at an address at which another word says what stands there ([`PagedCell`]).
    PagedLoad {
        word: usize,
        page: usize,
    },
    PagedStore {
        word: usize,
        page: usize,
        value: u64,
    },
    /// The same at a place at which another word says which of three words stands there ([`ShownCell`]).
    ShownLoad {
        shows: usize,
        words: [usize; 3],
    },
    ShownStore {
        shows: usize,
        words: [usize; 3],
        value: u64,
    },
}

/// A function on memory under a lock, with an argument and an answer.
pub(crate) type Act = fn(&mut [u64], u64) -> u64;

/// The states of a page word: the page is absent, it is there, or it is there and stores wait.
pub(crate) mod page {
    pub const NOTHING: u64 = 0;
    pub const SHOWN: u64 = 1;
    pub const HELD: u64 = 2;
}

/// A processor in the middle of its program: what it has been answered, and how many answers it has used.
struct Replay {
    answers: Vec<u64>,
    used: usize,
}

thread_local! {
    static REPLAY: RefCell<Replay> = const { RefCell::new(Replay { answers: Vec::new(), used: 0 }) };
}

/// Carried out of a processor that has to wait for an answer.
struct Asks(Access);

/// Carried out of a processor that begins anew.
struct Again(Vec<u64>);

/// The program begins anew, knowing this.
pub(crate) fn again(knowing: Vec<u64>) -> ! {
    resume_unwind(Box::new(Again(knowing)))
}

fn access(what: Access) -> u64 {
    let known = REPLAY.with_borrow_mut(|replay| {
        replay.used += 1;
        replay.answers.get(replay.used - 1).copied()
    });
    known.unwrap_or_else(|| resume_unwind(Box::new(Asks(what))))
}

/// Does something in one piece while a lock is free; it may take the lock, and free others. For sections whose steps no other processor can
/// observe.
pub(crate) fn section(lock: Cell, act: Act, argument: u64) -> u64 {
    access(Access::Section { lock: lock.0, act, argument })
}

/// Goes on when another processor's stores have all arrived: what a barrier does that is put into another's stream.
pub(crate) fn drained(processor: usize) {
    access(Access::Drained(processor));
}

/// The full barrier.
pub struct Full;

impl Barrier for Full {
    fn full() {
        access(Access::Barrier);
    }
}

type Run = dyn Fn(&[u64]) -> u64;

/// A processor's program.
pub(crate) struct Program {
    /// Its code, which returns a value at its end.
    run: Box<Run>,
    /// Its knowledge when it begins.
    knows: Vec<u64>,
}

impl Program {
    pub(crate) fn new(knows: Vec<u64>, run: impl Fn(&[u64]) -> u64 + 'static) -> Program {
        Program { run: Box::new(run), knows }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Buffered {
    word: usize,
    value: u64,
    plain: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct ExploredState {
    memory: Vec<u64>,
    buffers: Vec<Vec<Buffered>>,
    /// The knowledge of each when it began last, and its answers since.
    processors: Vec<(Vec<u64>, Vec<u64>)>,
}

/// Where a processor is: before an access, at the end of a turn, or at its end.
enum At {
    Asks(Access),
    Again(Vec<u64>),
    Done(u64),
}

/// Explores every execution of the programs from this memory. `judge` is given the memory and what each processor said, `None` if it
/// waits for ever; [`Explored::executions`] counts ends that differ.
pub(crate) fn explore(
    memory: &[u64],
    programs: &[Program],
    judge: impl Fn(&[u64], &[Option<u64>]) -> Ending,
) -> Explored {
    let processors = programs.iter().map(|program| (program.knows.clone(), Vec::new())).collect();
    let first = ExploredState { memory: memory.to_vec(), buffers: vec![Vec::new(); programs.len()], processors };
    let mut known = HashSet::from([first.clone()]);
    let mut open = vec![first];
    let mut explored = Explored { executions: 0, lost: 0, twice: 0 };
    while let Some(state) = open.pop() {
        let at = |(program, (knows, answers)): (&Program, &(Vec<u64>, Vec<u64>))| place(program, knows, answers);
        let places: Vec<At> = programs.iter().zip(&state.processors).map(at).collect();
        if let Some(processor) = places.iter().position(|at| matches!(at, At::Again(_))) {
            let mut next = state;
            if let At::Again(knows) = &places[processor] {
                next.processors[processor] = (knows.clone(), Vec::new());
            }
            if known.insert(next.clone()) {
                open.push(next);
            }
            continue;
        }
        let mut next = Vec::new();
        for (processor, at) in places.iter().enumerate() {
            if let At::Asks(access) = at {
                next.extend(state.answered(processor, *access));
            }
            next.extend(state.arrivals(processor));
        }
        if next.is_empty() {
            let said = |at: &At| if let At::Done(said) = at { Some(*said) } else { None };
            let ending = judge(&state.memory, &places.iter().map(said).collect::<Vec<_>>());
            explored.executions += 1;
            explored.lost += u64::from(ending.lost);
            explored.twice += u64::from(ending.twice);
        }
        for state in next {
            if known.insert(state.clone()) {
                open.push(state);
            }
        }
    }
    explored
}

/// Runs a program with the answers that it has had.
fn place(program: &Program, knows: &[u64], answers: &[u64]) -> At {
    REPLAY.set(Replay { answers: answers.to_vec(), used: 0 });
    match catch_unwind(AssertUnwindSafe(|| (program.run)(knows))) {
        Ok(said) => At::Done(said),
        Err(carried) => match carried.downcast::<Asks>().map_err(|carried| carried.downcast::<Again>()) {
            Ok(asks) => At::Asks(asks.0),
            Err(Ok(again)) => At::Again(again.0),
            Err(Err(panic)) => resume_unwind(panic),
        },
    }
}

impl ExploredState {
    /// The state behind an access, if the processor can make it now.
    fn answered(&self, processor: usize, access: Access) -> Option<ExploredState> {
        let mut next = self.clone();
        let answer = match access {
            Access::Load(word) => self.seen(processor, word),
            Access::Store { word, value, plain } => {
                next.buffers[processor].push(Buffered { word, value, plain });
                0
            }
            Access::Barrier if self.buffers[processor].is_empty() => 0,
            Access::Drained(other) if self.buffers[other].is_empty() => 0,
            Access::Exchange(word, value) if self.buffers[processor].is_empty() => {
                std::mem::replace(&mut next.memory[word], value)
            }
            Access::Raise(word) => std::mem::replace(&mut next.memory[word], 1),
            Access::Section { lock, act, argument } if self.buffers[processor].is_empty() && self.memory[lock] == 1 => {
                act(&mut next.memory, argument)
            }
            Access::PagedLoad { page, .. } | Access::PagedStore { page, .. } if self.memory[page] == page::NOTHING => 0,
            Access::PagedLoad { word, .. } => self.seen(processor, word),
            Access::PagedStore { word, page, value } if self.memory[page] == page::SHOWN => {
                next.buffers[processor].push(Buffered { word, value, plain: false });
                0
            }
            // CAST: one of three.
            Access::ShownLoad { shows, words } => self.seen(processor, words[self.memory[shows] as usize]),
            Access::ShownStore { shows, words, value } => {
                let word = words[self.memory[shows] as usize];
                next.buffers[processor].push(Buffered { word, value, plain: false });
                0
            }
            Access::Reached(word, value) if self.seen(processor, word) >= value => self.seen(processor, word),
            _ => return None,
        };
        next.processors[processor].1.push(answer);
        Some(next)
    }

    fn seen(&self, processor: usize, word: usize) -> u64 {
        let own = self.buffers[processor].iter().rev().find(|store| store.word == word);
        own.map_or(self.memory[word], |store| store.value)
    }

    /// The states in which one more store of the processor has arrived.
    fn arrivals(&self, processor: usize) -> Vec<ExploredState> {
        let buffer = &self.buffers[processor];
        let may = |at: &usize| buffer[..*at].iter().all(|before| before.plain && before.word != buffer[*at].word);
        (0..buffer.len())
            .filter(may)
            .map(|at| {
                let mut next = self.clone();
                let store = next.buffers[processor].remove(at);
                next.memory[store.word] = store.value;
                next
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use shared_words::Word;

    use super::*;

    /// Each of two stores its own word and then looks at the other's.
    fn both<B: Barrier + 'static>() -> Explored {
        let program = |own: usize, other: usize| {
            Program::new(Vec::new(), move |_| {
                Cell(own).store(1);
                B::full();
                Cell(other).load()
            })
        };
        let neither = |_: &[u64], said: &[Option<u64>]| Ending {
            lost: said.iter().all(|said| *said == Some(0)),
            twice: said.iter().all(|said| *said == Some(1)),
        };
        explore(&[0, 0], &[program(0, 1), program(1, 0)], neither)
    }

    #[test]
    fn a_store_waits_in_its_buffer_unless_a_barrier_is_there() {
        let with = both::<Full>();
        assert!(with.lost == 0 && with.twice > 0, "{with:?}");
        assert!(both::<crate::Removed>().lost > 0);
    }

    /// One stores a word and a flag, the other looks at the flag and then at the word.
    fn message(word: impl Word + Copy + 'static, drains: bool) -> Explored {
        let writer = Program::new(Vec::new(), move |_| {
            word.store(7);
            Cell(1).store(1);
            0
        });
        let reader = Program::new(Vec::new(), move |_| {
            let told = Cell(1).load();
            if drains {
                drained(0);
            }
            told * 10 + Cell(0).load()
        });
        let stale = |_: &[u64], said: &[Option<u64>]| Ending { lost: said[1] == Some(10), twice: said[1] == Some(17) };
        explore(&[0, 0], &[writer, reader], stale)
    }

    #[test]
    fn only_plain_stores_are_overtaken() {
        assert_eq!(message(Cell(0), false).lost, 0);
        assert!(message(PlainCell(0), false).lost > 0);
        let drained = message(PlainCell(0), true);
        assert!(drained.lost == 0 && drained.twice > 0, "{drained:?}");
    }
}
