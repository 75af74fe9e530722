//! The rule of the turns, without threads, kernel or clock. Used by `conductor`.
//!
//! The players sit in a circle. The turn goes to the next one; a player whose answer has come takes it and plays on, one whose
//! answer has not come has looked in vain and passes the turn on. When as many as are there have looked in vain in a row and
//! none of them plays, the last one lets virtual time take a step, and looks again.
//!
//! The round asks no player to look: it knows the players that would look in vain, so a pass goes over them at once and counts them. The order of the
//! calls and steps is that of the circle in which each looks (`tests` has that one, too), at a cost of O(log n) a pass.

use std::collections::BTreeSet;

/// The next act of the player whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Due {
    /// It plays: its own next call, or the answer that has come.
    Play,
    /// All wait: virtual time takes a step, and then it looks for its answer.
    Step,
}

/// The circle.
pub(super) struct Round {
    current: usize,
    /// When the present turn began.
    began_ns: u64,
    /// Looks in a row that found no answer.
    fruitless: usize,
    /// Those that have not left, in the order of the circle.
    present: Vec<usize>,
    /// Those of them that can go on: they play, or their answer has come.
    ready: BTreeSet<usize>,
    /// Those whose call is not answered, or whose answer is not taken.
    calling: BTreeSet<usize>,
}

impl Round {
    /// A circle of so many players, which all play; the first has the turn.
    pub fn new(players: usize) -> Round {
        Round {
            current: 0,
            began_ns: 0,
            fruitless: 0,
            present: (0..players).collect(),
            ready: (0..players).collect(),
            calling: BTreeSet::new(),
        }
    }

    /// The player whose turn it is.
    pub fn current(&self) -> usize {
        self.current
    }

    /// When the present turn began.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// The player can go on: it plays, or its answer has come.
    pub fn is_ready(&self, player: usize) -> bool {
        self.ready.contains(&player)
    }

    /// The player has left.
    pub fn has_left(&self, player: usize) -> bool {
        self.present.binary_search(&player).is_err()
    }

    /// The player is in a call that is not answered.
    pub fn waits(&mut self, player: usize) {
        self.ready.remove(&player);
        self.calling.insert(player);
    }

    /// The answer of a player that waits has come.
    pub fn answered(&mut self, player: usize) {
        if self.calling.contains(&player) {
            self.ready.insert(player);
        }
    }

    /// The player whose turn it is has its answer, and plays.
    pub fn finds_answer(&mut self, player: usize) {
        self.gives_up(player);
        self.fruitless = 0;
    }

    /// The player waits for its answer no more, and plays.
    pub fn gives_up(&mut self, player: usize) {
        self.calling.remove(&player);
        self.ready.insert(player);
    }

    /// The player goes. Its turn is to be passed on.
    pub fn leaves(&mut self, player: usize) {
        if let Ok(at) = self.present.binary_search(&player) {
            self.present.remove(at);
        }
        self.ready.remove(&player);
        self.calling.remove(&player);
    }

    /// The player whose turn it is has found no answer.
    pub fn looks_in_vain(&mut self, now_ns: u64) -> Due {
        self.fruitless += 1;
        if self.all_wait() && self.fruitless >= self.present.len() {
            self.fruitless = 0;
            return Due::Step;
        }
        self.pass(now_ns)
    }

    /// Gives the turn to the next player that has something to do, over those that would look in vain. Where all have left there is no turn.
    pub fn pass(&mut self, now_ns: u64) -> Due {
        let count = self.present.len();
        if count == 0 {
            return Due::Play;
        }
        self.began_ns = now_ns;
        let next = self.present.partition_point(|player| *player <= self.current);
        let ready = self.ready.range(self.current + 1..).next().or_else(|| self.ready.first()).copied();
        let over = ready.map(|player| {
            // PANIC: a player that is ready is present.
            let at = self.present.binary_search(&player).expect("a ready player has not left");
            (player, (at + count - next) % count)
        });
        // So many looks in vain until time takes a step; the one that follows looks even if there were enough before it.
        let until_step = count.saturating_sub(self.fruitless).max(1);
        match over {
            Some((player, over)) if over < until_step || !self.all_wait() => {
                self.fruitless += over;
                self.current = player;
                Due::Play
            }
            _ => {
                self.fruitless = 0;
                self.current = self.present[(next + until_step - 1) % count];
                Due::Step
            }
        }
    }

    fn all_wait(&self) -> bool {
        self.calling.len() == self.present.len()
    }
}

#[cfg(test)]
mod tests;
