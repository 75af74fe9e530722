//! A synthetic process: a small state machine that makes one call at a time and keeps a model of what it owns, what its
//! memory holds and what the GPU still does for it. Whatever the kernel and the GPU then say is compared with the model.
//!
//! A process works through a plan of [`Op`]s; when it is empty, [`plan`] draws the next action. Beside its one call it has
//! waits that run in the background, as threads of a real process would, and it keeps its promises: it signals every value that the GPU or
//! a process waits for on a fence of its CPU in the end, even while the process itself is blocked.

mod answer;
mod bells;
mod issue;
mod model;
mod plan;
mod submission;
mod tiles;

pub use issue::{Issue, Op, Point};
pub use model::Phase;

use std::collections::VecDeque;
use std::sync::Arc;

use dxgk_host::{Host, Pending, ProcessLink};
use kmt_calls::{Call, SignalFlags, SyncCall};
use shared_words::Word;
use wddm_types::{ProcessId, RawHandle};

use crate::random::Random;
use model::{Fence, Owner, PagingQueue, Queue, Sum, Surface};

/// A call that has not been answered yet.
pub struct Blocked {
    pending: Pending,
    op: Op,
    /// The number that a fence made by this call has.
    fence: u64,
}

/// The habits of a world's processes, beyond the actions of all.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// They reserve addresses and change tiles in them.
    pub tiles: bool,
    /// Surfaces lie in tables of their own, at so many places 2 MB apart; 0: where the kernel puts them.
    pub places: u64,
    /// How far apart those places are.
    pub apart: u64,
    /// Surfaces are whole 64-KB pages, most of them.
    pub whole: bool,
    /// So many of a hundred surfaces are used by physical address too: they lie in one piece.
    pub physical_percent: u64,
    /// So many of a hundred fences of queues have their words in memory of the GPU, where it can be.
    pub local_words_percent: u64,
    /// They look whether a doorbell that they have rung is theirs still.
    pub looks: bool,
    /// Their CPU looks several times at what it has locked, before it unlocks that.
    pub lingers: bool,
}

/// A process.
pub struct Process {
    /// Its number in the kernel.
    pub id: ProcessId,
    /// Where it stands.
    pub phase: Phase,
    /// It gave the GPU something that it may not: its device will be lost.
    pub guilty: bool,
    /// Its call that has not been answered.
    pub blocked: Option<Blocked>,
    link: Option<Arc<ProcessLink>>,
    random: Random,
    hostile: bool,
    habits: Habits,
    tiles: Option<tiles::Tiles>,
    steps_left: u64,
    lives_left: u64,
    adapter: RawHandle,
    device: RawHandle,
    paging: Option<PagingQueue>,
    queues: Vec<Queue>,
    surfaces: Vec<Option<Surface>>,
    fences: Vec<Option<Fence>>,
    report: Option<usize>,
    sums: Vec<Sum>,
    dead_handles: Vec<RawHandle>,
    next_seed: u64,
    plan: VecDeque<Op>,
}

impl Process {
    /// A process on a host, that will do about `steps` things.
    pub fn new(host: &Arc<Host>, mut random: Random, steps: u64, hostile: bool, habits: Habits) -> Process {
        let link = ProcessLink::new(Arc::clone(host));
        let lives_left = random.below(3);
        let next_seed = random.draw() << 16;
        let mut process = Process {
            id: link.process(),
            phase: Phase::Setup,
            guilty: false,
            blocked: None,
            link: Some(link),
            random,
            hostile,
            habits,
            tiles: None,
            steps_left: steps,
            lives_left,
            adapter: RawHandle::NONE,
            device: RawHandle::NONE,
            paging: None,
            queues: Vec::new(),
            surfaces: Vec::new(),
            fences: Vec::new(),
            report: None,
            sums: Vec::new(),
            dead_handles: Vec::new(),
            next_seed,
            plan: VecDeque::from([Op::Open(host.luid())]),
        };
        process.plan_setup();
        process
    }

    /// Its next operation. `None`: it waits for an answer, or is dead.
    pub fn next(&mut self) -> Option<Op> {
        if self.blocked.is_some() || self.phase == Phase::Dead {
            return None;
        }
        if self.plan.is_empty() {
            self.choose();
        }
        self.plan.pop_front()
    }

    /// Whether what it does next is done in the middle of a ring, or is its end: an adapter that sleeps lets it.
    pub fn rings_or_dies(&self) -> bool {
        let free = self.blocked.is_none() && self.phase != Phase::Dead;
        let next = self.plan.front();
        free && matches!(next, Some(Op::Look { .. } | Op::Ring { .. } | Op::Connect { .. } | Op::Die))
    }

    /// Its call waits for an answer.
    pub fn block(&mut self, pending: Pending, op: Op, fence: u64) {
        assert!(self.blocked.is_none(), "a process makes one call at a time");
        self.blocked = Some(Blocked { pending, op, fence });
    }

    /// Its call was answered: the operation, and the number of the fence that it made.
    pub fn unblock(&mut self) -> (Op, u64) {
        let blocked = self.blocked.take().expect("it was blocked");
        (blocked.op, blocked.fence)
    }

    /// The call that waits.
    pub fn pending(&self) -> Option<Pending> {
        self.blocked.as_ref().map(|blocked| blocked.pending)
    }

    /// The operation that it is blocked in, for people.
    pub fn blocked_in(&self) -> String {
        self.blocked.as_ref().map_or_else(String::new, |blocked| format!("{:?}", blocked.op))
    }

    /// A signal from the CPU that it has promised.
    pub fn promise(&self) -> Option<Call> {
        let link = self.link.as_ref()?;
        let owed = self.fences.iter().flatten().find(|fence| {
            fence.owner == Owner::Cpu && Word::load(link.system_memory().word(fence.made.current.0)) < fence.promised
        })?;
        Some(Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu {
            device: self.device,
            points: vec![(owed.made.fence, owed.promised)],
            flags: SignalFlags::empty(),
        }))
    }

    /// Dies: the kernel cleans up.
    pub fn die(&mut self) {
        self.phase = Phase::Dead;
        self.blocked = None;
        self.plan.clear();
        for queue in &mut self.queues {
            queue.bell = None;
        }
        self.link = None;
    }

    fn link(&self) -> &Arc<ProcessLink> {
        self.link.as_ref().expect("a process that acts is alive")
    }

    fn read(&self, word: wddm_types::WordAddress) -> u64 {
        Word::load(self.link().system_memory().word(word.0))
    }

    fn surface(&self, slot: usize) -> &Surface {
        self.surfaces[slot].as_ref().expect("the plan names surfaces that there are")
    }

    fn surface_mut(&mut self, slot: usize) -> &mut Surface {
        self.surfaces[slot].as_mut().expect("the plan names surfaces that there are")
    }
}
