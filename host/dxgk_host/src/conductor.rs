//! Several processes in virtual time, one at a time and always in the same order.
//!
//! Each process is a thread, because a driver of a workload is written like a program. Only the thread whose turn it is
//! runs; the turn passes when its call must wait, or when it has had its slice of virtual time. When all wait, virtual time
//! goes on. So what happens is a function of the workloads alone, and a run repeats exactly.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use kmt_calls::{Call, Refusal, Reply};
use kmt_link::{Link, Routed};

use crate::host::{Host, Pending};
use crate::link::ProcessLink;

/// How much virtual time a process may use before the next one has its turn.
const SLICE_NS: u64 = 20_000;

/// Whose turn it is.
pub struct Conductor {
    host: Arc<Host>,
    turn: Mutex<Turn>,
    passed: Condvar,
}

struct Turn {
    /// Who runs.
    current: usize,
    /// What each does.
    players: Vec<Player>,
    /// When the present turn began.
    began_ns: u64,
    /// Turns in a row in which nobody found an answer.
    fruitless: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Player {
    Playing,
    /// In a call that is not answered.
    Waiting,
    Gone,
}

impl Conductor {
    /// A conductor of `players` processes; the first has the first turn.
    pub fn new(host: Arc<Host>, players: usize) -> Arc<Conductor> {
        let turn = Turn { current: 0, players: vec![Player::Playing; players], began_ns: 0, fruitless: 0 };
        Arc::new(Conductor { host, turn: Mutex::new(turn), passed: Condvar::new() })
    }

    /// The way to the kernel of one process.
    pub fn link(self: &Arc<Conductor>, player: usize, link: Arc<ProcessLink>) -> Arc<dyn Link> {
        let conductor = Arc::clone(self);
        Arc::new(Routed::new(link, move |link, call| conductor.call(player, link, call)))
    }

    /// Blocks until it is this process's turn.
    pub fn enter(&self, player: usize) {
        drop(self.await_turn(self.lock(), player));
    }

    /// The process makes no call any more.
    pub fn leave(&self, player: usize) {
        let mut turn = self.lock();
        turn.players[player] = Player::Gone;
        self.pass(&mut turn);
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn await_turn<'a>(&'a self, mut turn: MutexGuard<'a, Turn>, player: usize) -> MutexGuard<'a, Turn> {
        while turn.current != player {
            turn = self.passed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        turn
    }

    /// Gives the turn to the next process that is still there.
    fn pass(&self, turn: &mut Turn) {
        let count = turn.players.len();
        let next = (1..=count).map(|step| (turn.current + step) % count).find(|at| turn.players[*at] != Player::Gone);
        if let Some(next) = next {
            turn.current = next;
            turn.began_ns = self.host.now_ns();
            self.passed.notify_all();
        }
    }

    fn call(&self, player: usize, link: &ProcessLink, call: Call) -> Result<Reply, Refusal> {
        let mut turn = self.lock();
        if turn.current == player && self.host.now_ns() - turn.began_ns >= SLICE_NS {
            self.pass(&mut turn);
        }
        // A thread that cleans up after it has left plays out of turn: nobody else can be running then.
        if turn.players[player] != Player::Gone {
            turn = self.await_turn(turn, player);
        }
        let pending = match self.host.begin_call(link.process(), call) {
            Ok(result) => {
                turn.fruitless = 0;
                return result;
            }
            Err(pending) => pending,
        };
        self.finish(turn, player, pending)
    }

    fn finish<'a>(&'a self, mut turn: MutexGuard<'a, Turn>, player: usize, pending: Pending) -> Result<Reply, Refusal> {
        loop {
            if let Some(result) = self.host.take_answer(pending) {
                turn.players[player] =
                    if turn.players[player] == Player::Gone { Player::Gone } else { Player::Playing };
                turn.fruitless = 0;
                return result;
            }
            if turn.players[player] == Player::Gone {
                if !self.host.step() {
                    return Err(self.host.stands_still(pending));
                }
                continue;
            }
            turn.players[player] = Player::Waiting;
            turn.fruitless += 1;
            let present = turn.players.iter().filter(|player| **player != Player::Gone).count();
            if turn.players.iter().all(|player| *player != Player::Playing) && turn.fruitless >= present {
                turn.fruitless = 0;
                if !self.host.step() {
                    turn.players[player] = Player::Playing;
                    return Err(self.host.stands_still(pending));
                }
                continue;
            }
            self.pass(&mut turn);
            turn = self.await_turn(turn, player);
        }
    }
}
