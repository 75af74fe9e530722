//! The round beside the circle in which each player looks for itself: the same calls, answers, steps and times, on random scripts.

use super::{Due, Round};

const SLICE_NS: u64 = 20;

/// A kernel of numbers. A call is answered at once, after so many steps of time, with another player's next call, or never.
#[derive(Clone)]
struct World {
    seed: u64,
    now_ns: u64,
    steps: u64,
    /// Calls that each player has still to make.
    left: Vec<u32>,
    /// After how many steps the answer of each comes; `None`: no call waits.
    due: Vec<Option<u64>>,
    /// The answer comes with the next call of any player.
    with_call: Vec<bool>,
    heard: Vec<(&'static str, usize, u64)>,
}

impl World {
    fn new(players: usize, seed: u64) -> World {
        let mut world = World {
            seed,
            now_ns: 0,
            steps: 0,
            left: vec![0; players],
            due: vec![None; players],
            with_call: vec![false; players],
            heard: Vec::new(),
        };
        for player in 0..players {
            world.left[player] = world.draw(12) as u32;
        }
        world
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn hear(&mut self, what: &'static str, player: usize) {
        self.heard.push((what, player, self.now_ns));
    }

    /// Whether it is answered at once.
    fn call(&mut self, player: usize) -> bool {
        self.hear("calls", player);
        self.left[player] -= 1;
        self.now_ns += self.draw(15);
        for other in 0..self.due.len() {
            if self.with_call[other] {
                (self.with_call[other], self.due[other]) = (false, Some(self.steps));
            }
        }
        match self.draw(8) {
            0..4 => return true,
            4..6 => self.due[player] = Some(self.steps + 1 + self.draw(3)),
            6 => (self.due[player], self.with_call[player]) = (Some(u64::MAX), true),
            _ => self.due[player] = Some(self.steps + 2),
        }
        false
    }

    fn has_come(&self, player: usize) -> bool {
        self.due[player].is_some_and(|due| due <= self.steps)
    }

    /// Something happens, if anything is left that can.
    fn step(&mut self, player: usize) -> bool {
        self.hear("steps", player);
        let any = self.due.iter().flatten().any(|due| *due != u64::MAX && *due > self.steps);
        (self.steps, self.now_ns) = (self.steps + u64::from(any), self.now_ns + u64::from(any) * 7);
        any
    }

    fn take(&mut self, player: usize) {
        self.hear("answer", player);
        self.due[player] = None;
    }

    fn give_up(&mut self, player: usize) {
        self.hear("gives up", player);
        (self.due[player], self.with_call[player]) = (None, false);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Player {
    Playing,
    Waiting,
    Gone,
}

/// Each player that gets the turn looks for itself, whether there is anything to see or not.
fn looked_for(mut world: World) -> World {
    let count = world.left.len();
    let mut players = vec![Player::Playing; count];
    let (mut current, mut began_ns, mut fruitless) = (0, 0, 0);
    // A thread that has passed the turn within a call makes that call when the turn comes back.
    let mut in_call = vec![false; count];
    loop {
        let mut passes = true;
        match players[current] {
            Player::Gone => return world,
            Player::Playing if world.left[current] == 0 => players[current] = Player::Gone,
            Player::Playing if !in_call[current] && world.now_ns - began_ns >= SLICE_NS => in_call[current] = true,
            Player::Playing => {
                in_call[current] = false;
                if world.call(current) {
                    fruitless = 0;
                    passes = false;
                } else {
                    players[current] = Player::Waiting;
                }
            }
            Player::Waiting => {}
        }
        while players[current] == Player::Waiting {
            passes = true;
            if world.has_come(current) {
                world.take(current);
                players[current] = Player::Playing;
                (fruitless, passes) = (0, false);
                break;
            }
            fruitless += 1;
            let present = players.iter().filter(|player| **player != Player::Gone).count();
            if players.contains(&Player::Playing) || fruitless < present {
                break;
            }
            fruitless = 0;
            if !world.step(current) {
                world.give_up(current);
                players[current] = Player::Playing;
                passes = false;
                break;
            }
        }
        if passes {
            let next = (1..=count).map(|step| (current + step) % count).find(|at| players[*at] != Player::Gone);
            let Some(next) = next else { return world };
            (current, began_ns) = (next, world.now_ns);
        }
    }
}

/// The round says whose turn it is.
fn conducted(mut world: World) -> World {
    fn settle(round: &mut Round, world: &mut World, mut due: Due) {
        while due == Due::Step && world.step(round.current()) {
            hear(round, world);
            if round.is_ready(round.current()) {
                return;
            }
            due = round.looks_in_vain(world.now_ns);
        }
    }
    fn hear(round: &mut Round, world: &World) {
        (0..world.due.len()).filter(|player| world.has_come(*player)).for_each(|player| round.answered(player));
    }
    let count = world.left.len();
    let mut round = Round::new(count);
    let mut in_call = vec![false; count];
    loop {
        let player = round.current();
        if round.has_left(player) {
            return world;
        }
        hear(&mut round, &world);
        if world.due[player].is_some() {
            if world.has_come(player) {
                world.take(player);
                round.finds_answer(player);
            } else {
                world.give_up(player);
                round.gives_up(player);
            }
        } else if world.left[player] == 0 {
            round.leaves(player);
            let due = round.pass(world.now_ns);
            settle(&mut round, &mut world, due);
        } else if !in_call[player] && world.now_ns - round.began_ns() >= SLICE_NS {
            in_call[player] = true;
            let due = round.pass(world.now_ns);
            settle(&mut round, &mut world, due);
        } else {
            in_call[player] = false;
            if world.call(player) {
                round.finds_answer(player);
            } else {
                round.waits(player);
                hear(&mut round, &world);
                let due = round.looks_in_vain(world.now_ns);
                settle(&mut round, &mut world, due);
            }
        }
    }
}

#[test]
fn a_round_is_the_circle_in_which_each_looks() {
    let (mut steps, mut still) = (0, 0);
    for players in 1..9 {
        for seed in 0..4_000 {
            let world = World::new(players, seed * 97 + players as u64);
            let (looked, conducted) = (looked_for(world.clone()), conducted(world));
            assert_eq!(looked.heard, conducted.heard, "{players} players, seed {seed}");
            assert!(looked.left.iter().all(|left| *left == 0), "all have played");
            steps += looked.heard.iter().filter(|heard| heard.0 == "steps").count();
            still += looked.heard.iter().filter(|heard| heard.0 == "gives up").count();
        }
    }
    assert!(steps > 10_000 && still > 100, "scripts that wait ({steps} steps), and some in vain ({still})");
}
