//! Several processes in virtual time, one at a time and always in the same order.
//!
//! Each process is a thread, because a driver of a workload is written like a program. Only the thread whose turn it is
//! runs; the turn passes when its call must wait, or when it has had its slice of virtual time. When all wait, virtual time
//! goes on. So the course of a run is a function of the workloads alone, and a run repeats exactly.
//!
//! `round` decides which player is next, without threads. The thread that ends its turn asks it, lets virtual time pass where
//! all wait, and wakes the one thread that plays next: a process whose answer has not come sleeps on.

mod round;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use kmt_calls::{Call, Refusal, Reply};
use kmt_link::{Link, Routed};

use self::round::{Due, Round};
use crate::host::{Host, Pending, kernel_failed};
use crate::link::ProcessLink;

/// How much virtual time a process may use before the next one has its turn.
const SLICE_NS: u64 = 20_000;

/// Gives processes their turns.
pub struct Conductor {
    host: Arc<Host>,
    round: Mutex<Round>,
    /// Where each player's thread sleeps until its turn.
    seats: Vec<Condvar>,
    handed: AtomicU64,
    woken: AtomicU64,
}

/// The cost of the turns of a [`Conductor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// How often the turn went from one thread to another.
    pub handed: u64,
    /// How often a thread awoke that had slept until its turn: at most once for each turn it was handed.
    pub woken: u64,
}

/// A process among those that take turns. It makes no call any more when this is dropped, by a panic too: the others play on.
#[must_use]
pub struct Seat<'a> {
    conductor: &'a Conductor,
    player: usize,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.conductor.leave(self.player);
    }
}

impl Conductor {
    /// A conductor of `players` processes; the first has the first turn.
    pub fn new(host: Arc<Host>, players: usize) -> Arc<Conductor> {
        Arc::new(Conductor {
            host,
            round: Mutex::new(Round::new(players)),
            seats: (0..players).map(|_| Condvar::new()).collect(),
            handed: AtomicU64::new(0),
            woken: AtomicU64::new(0),
        })
    }

    /// The way to the kernel of one process.
    pub fn link(self: &Arc<Conductor>, player: usize, link: Arc<ProcessLink>) -> Arc<dyn Link> {
        let conductor = Arc::clone(self);
        Arc::new(Routed::new(link, move |link, call| conductor.call(player, link, call)))
    }

    /// Blocks until it is this process's turn. It is there until the seat is dropped.
    pub fn enter(&self, player: usize) -> Seat<'_> {
        drop(self.await_turn(self.lock(), player));
        Seat { conductor: self, player }
    }

    fn leave(&self, player: usize) {
        let mut round = self.lock();
        round.leaves(player);
        self.hear(&mut round);
        let due = round.pass(self.host.now_ns());
        self.settle(&mut round, due);
        self.hand_over(round, player);
    }

    /// The cost of the turns until now.
    pub fn turns(&self) -> Turns {
        Turns { handed: self.handed.load(Ordering::Relaxed), woken: self.woken.load(Ordering::Relaxed) }
    }

    fn lock(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn await_turn<'a>(&'a self, mut round: MutexGuard<'a, Round>, player: usize) -> MutexGuard<'a, Round> {
        while round.current() != player {
            round = self.seats[player].wait(round).unwrap_or_else(PoisonError::into_inner);
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
        round
    }

    /// Wakes the thread whose turn it is now, unless this one has it still. This releases the lock before, because the other thread would wait for it.
    fn hand_over(&self, round: MutexGuard<'_, Round>, player: usize) {
        let current = round.current();
        drop(round);
        if current != player {
            self.handed.fetch_add(1, Ordering::Relaxed);
            self.seats[current].notify_one();
        }
    }

    fn call(&self, player: usize, link: &ProcessLink, call: Call) -> Result<Reply, Refusal> {
        let mut round = self.lock();
        // A thread that cleans up after it has left plays out of turn: no other player runs then.
        if round.has_left(player) {
            return match self.host.begin_call(link.process(), call) {
                Ok(result) => result,
                Err(pending) => self.pass_time(pending),
            };
        }
        let now_ns = self.host.now_ns();
        if round.current() == player && now_ns - round.began_ns() >= SLICE_NS {
            self.hear(&mut round);
            // The calling player plays, so no time passes until another player has its turn.
            let due = round.pass(now_ns);
            self.settle(&mut round, due);
            self.hand_over(round, player);
            round = self.lock();
        }
        round = self.await_turn(round, player);
        match self.host.begin_call(link.process(), call) {
            Ok(result) => {
                round.finds_answer(player);
                result
            }
            Err(pending) => self.finish(round, player, pending),
        }
    }

    fn finish<'a>(
        &'a self,
        mut round: MutexGuard<'a, Round>,
        player: usize,
        pending: Pending,
    ) -> Result<Reply, Refusal> {
        round.waits(player);
        self.host.watch(pending, player);
        self.hear(&mut round);
        if !round.is_ready(player) {
            let due = round.looks_in_vain(self.host.now_ns());
            self.settle(&mut round, due);
        }
        self.hand_over(round, player);
        let mut round = self.await_turn(self.lock(), player);
        match self.host.take_answer(pending) {
            Some(result) => {
                round.finds_answer(player);
                result
            }
            // It was its turn to let time pass, and nothing is left that could happen.
            None => {
                self.host.unwatch(pending);
                round.gives_up(player);
                Err(self.wait_has_no_end(pending))
            }
        }
    }

    /// Lets virtual time pass until some player can play, or time stands still: the player whose turn it was to let it pass hears of that.
    fn settle(&self, round: &mut Round, mut due: Due) {
        while due == Due::Step && !self.host.has_failed() && self.host.step() {
            self.hear(round);
            if round.is_ready(round.current()) {
                return;
            }
            due = round.looks_in_vain(self.host.now_ns());
        }
    }

    /// Tells the round whose answers have come.
    fn hear(&self, round: &mut Round) {
        self.host.take_watched(|player| round.answered(player));
    }

    fn pass_time(&self, pending: Pending) -> Result<Reply, Refusal> {
        loop {
            if let Some(result) = self.host.take_answer(pending) {
                return result;
            }
            if self.host.has_failed() || !self.host.step() {
                return Err(self.wait_has_no_end(pending));
            }
        }
    }

    fn wait_has_no_end(&self, pending: Pending) -> Refusal {
        if self.host.has_failed() { kernel_failed() } else { self.host.wait_has_no_end(pending) }
    }
}
