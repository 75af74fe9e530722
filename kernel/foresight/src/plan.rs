//! Which stretches between two uses an allocation had better be out for, over a whole repetition, so that the fewest bytes are copied.
//!
//! # The problem
//! In a repetition of `d` operations each use begins a *stretch*: the operations until the allocation's next use, or its death, in which it need
//! not be resident. At operation `k` what is alive exceeds the room by `e(k)` pages: so many have to be out there. A stretch that is out costs
//! one copy a page to come back (none if it dies), and one to leave if it is dirty. Farthest next use first is right where all cost alike; where
//! they do not, one that costs half may be the better one although its use is nearer.
//!
//! # How it is solved
//! By prices, in two sweeps (primal and dual, local ratio). Forward: at an operation whose excess is not covered a price is paid to all
//! stretches that cross it, until the sum of prices that one was paid since its begin reaches its cost: it is chosen, and covers what it
//! crosses. As all stretches that cross are paid the same, the order in which they are chosen is that of `cost + sum of prices before the begin`, fixed
//! at the begin: a heap does. Of equal ones the farthest is chosen first. Backward: the last chosen first, each is given up as far as the
//! others cover what it crosses.
//!
//! The plan begins with what is resident now, and looks two repetitions ahead, because what crosses the end of the first is wanted by the
//! second. What is out already covers what it crosses, and its way back is no choice any more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::flow::Network;
use crate::slack::Slack;

/// Repetitions that are laid out.
const LAPS: usize = 2;
/// A larger network is not tried: heuristics are near the optimum where each stretch is a small part of the room.
const FLOW_MAX: usize = 1 << 15;
/// Parts of a copy.
const WEIGHT: u64 = 64;
/// How many of these a copy at the end of what is laid out weighs less.
const LATER: u64 = 8;
/// Looks at arcs that the exact way may take, for each arc of its network.
const WORK_MAX_PER_ARC: u64 = 400;

/// One stretch of the repetition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// The operation of the use that begins it, counted from the begin of the repetition.
    pub begin: usize,
    /// The operation that uses it next, or the first one after its death; may lie in the next repetition.
    pub end: usize,
    /// How many pages it has.
    pub pages: u64,
    /// Whether the use that begins it writes.
    pub written: bool,
    /// Whether it ends with death.
    pub dies: bool,
    /// The stretch before it of the same allocation.
    pub before: Option<usize>,
}

/// A stretch that has begun in the repetition before the plan and ends in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub stretch: usize,
    /// Pages that are resident now.
    pub resident: u64,
    pub dirty: bool,
}

/// How many pages are out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PagesOut {
    /// Of each stretch that has begun.
    pub begun: Vec<u64>,
    /// Of each stretch of the first repetition of the plan.
    pub next: Vec<u64>,
}

/// What a choice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Begun(usize),
    Next { lap: usize, stretch: usize },
}

/// A part of a stretch that was chosen: what it covers, and how much.
#[derive(Clone, Copy)]
struct Choice {
    of: Of,
    from: usize,
    to: usize,
    pages: u64,
    /// Copies a page.
    cost: u64,
}

/// In which order what may be out is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The farthest end first, whatever it costs: the best where all cost alike.
    Farthest,
    /// By cost and prices paid before the begin.
    Priced,
    /// By cost alone.
    Cheapest,
}

/// How many pages of each stretch are out; `excess` has for each operation how many have to be. `stretches` ascend by their begins.
pub(crate) fn pages_out(stretches: &[Stretch], begun: &[Begun], excess: &[u64]) -> PagesOut {
    let exact = flow(stretches, begun, excess);
    let choices = exact.unwrap_or_else(|| {
        let plans = [Order::Farthest, Order::Priced, Order::Cheapest].map(|order| {
            let mut choices = Sweep::new(stretches, begun, excess, order).choose();
            give_up(stretches, begun, excess, &mut choices);
            let cost: u128 = choices.iter().map(|choice| u128::from(choice.pages) * u128::from(choice.cost)).sum();
            (cost, choices)
        });
        plans.into_iter().min_by_key(|(cost, _)| *cost).expect("there are several").1
    });
    let mut out = PagesOut { begun: vec![0; begun.len()], next: vec![0; stretches.len()] };
    for choice in choices {
        match choice.of {
            Of::Begun(index) => out.begun[index] += choice.pages,
            Of::Next { lap: 0, stretch } => out.next[stretch] += choice.pages,
            Of::Next { .. } => {}
        }
    }
    out
}

/// The least sum of costs as a flow: what is out at an operation flows past it, through the stretches that cross it. `None`: too much work.
fn flow(stretches: &[Stretch], begun: &[Begun], excess: &[u64]) -> Option<Vec<Choice>> {
    let lap = excess.len();
    let length = lap * LAPS;
    let rank = ranks(excess);
    let nodes = rank[length] + 1;
    let most = excess.iter().copied().max().unwrap_or(0);
    let mut network = Network::new(nodes);
    for at in (0..length).filter(|at| excess[at % lap] > 0) {
        network.arc(rank[at], rank[at] + 1, most - excess[at % lap], 0);
    }
    let mut choices: Vec<Choice> = Vec::new();
    let mut arcs: Vec<usize> = Vec::new();
    for (index, held) in begun.iter().enumerate() {
        let stretch = &stretches[held.stretch];
        let to = stretch.end - lap;
        if rank[to] > 0 {
            network.arc(0, rank[to], stretch.pages - held.resident, 0);
            let cost = u64::from(!stretch.dies) + u64::from(held.dirty);
            arcs.push(network.arc(0, rank[to], held.resident, weight((stretch.dies, held.dirty), (0, to), length)));
            choices.push(Choice { of: Of::Begun(index), from: 0, to, pages: 0, cost });
        }
    }
    let mut dirty = vec![false; stretches.len()];
    for held in begun {
        dirty[held.stretch] = held.dirty;
    }
    for lap_now in 0..LAPS {
        for (index, stretch) in stretches.iter().enumerate() {
            dirty[index] = stretch.written || stretch.before.is_some_and(|before| dirty[before]);
            let (from, to) = (lap_now * lap + stretch.begin + 1, (lap_now * lap + stretch.end).min(length));
            if from < to && rank[from] < rank[to] {
                let cost = u64::from(!stretch.dies) + u64::from(dirty[index]);
                let span = (from, lap_now * lap + stretch.end);
                let weight = weight((stretch.dies, dirty[index]), span, length);
                arcs.push(network.arc(rank[from], rank[to], stretch.pages, weight));
                choices.push(Choice { of: Of::Next { lap: lap_now, stretch: index }, from, to, pages: 0, cost });
            }
        }
    }
    let size = arcs.len() + nodes;
    if size > FLOW_MAX || !network.send(most, WORK_MAX_PER_ARC * size as u64) {
        return None;
    }
    for (choice, arc) in choices.iter_mut().zip(arcs) {
        choice.pages = network.through(arc);
    }
    Some(choices)
}

/// The cost of a page in parts of a copy: what covers more than what is laid out costs as much less, and a later copy is the better of two.
fn weight((dies, dirty): (bool, bool), (from, to): (usize, usize), length: usize) -> u64 {
    let inside = (to.min(length) - from) as u64;
    let all = (to - from).max(1) as u64;
    let later = |at: usize| LATER * at.min(length) as u64 / length as u64;
    let back = if dies { 0 } else { WEIGHT - later(to) };
    let out = if dirty { WEIGHT - later(from) } else { 0 };
    ((back + out) * inside).div_ceil(all)
}

/// For each operation laid out, and the end, how many before it have an excess: only these ask for anything.
fn ranks(excess: &[u64]) -> Vec<usize> {
    let mut ranks = vec![0];
    for at in 0..excess.len() * LAPS {
        ranks.push(ranks[at] + usize::from(excess[at % excess.len()] > 0));
    }
    ranks
}

/// The backward sweep: the last chosen first, each is given up as far as the others cover what it crosses.
fn give_up(stretches: &[Stretch], begun: &[Begun], excess: &[u64], choices: &mut [Choice]) {
    let lap = excess.len();
    let length = lap * LAPS;
    let rank = ranks(excess);
    let mut slack = Slack::new(rank[length]);
    for at in (0..length).filter(|at| excess[at % lap] > 0) {
        slack.add(rank[at], rank[at] + 1, -signed(excess[at % lap]));
    }
    for held in begun {
        let stretch = &stretches[held.stretch];
        slack.add(0, rank[stretch.end - lap], signed(stretch.pages - held.resident));
    }
    for choice in &*choices {
        slack.add(rank[choice.from], rank[choice.to], signed(choice.pages));
    }
    for choice in choices.iter_mut().rev() {
        let (from, to) = (rank[choice.from], rank[choice.to]);
        let spare = slack.least(from, to).clamp(0, signed(choice.pages));
        slack.add(from, to, -spare);
        choice.pages -= spare.unsigned_abs();
    }
}

/// Pages of one segment are fewer than 2^63.
pub(crate) fn signed(pages: u64) -> i64 {
    i64::try_from(pages).unwrap_or(i64::MAX)
}

/// The forward sweep.
struct Sweep<'a> {
    stretches: &'a [Stretch],
    excess: &'a [u64],
    order: Order,
    /// What may be chosen: by what it was promised, then the farthest first.
    heap: BinaryHeap<(Reverse<u64>, usize, Of, u64, u64)>,
    /// Of each stretch, in its latest repetition: whether its content is out, and whether it was dirty.
    is_out: Vec<bool>,
    dirty: Vec<bool>,
    /// For each operation, how many covered pages end before it.
    ends: Vec<u64>,
    covered: u64,
    price: u64,
    choices: Vec<Choice>,
}

impl<'a> Sweep<'a> {
    fn new(stretches: &'a [Stretch], begun: &[Begun], excess: &'a [u64], order: Order) -> Sweep<'a> {
        let mut sweep = Sweep {
            stretches,
            excess,
            order,
            heap: BinaryHeap::new(),
            is_out: vec![false; stretches.len()],
            dirty: vec![false; stretches.len()],
            ends: vec![0; excess.len() * LAPS + 1],
            covered: 0,
            price: 0,
            choices: Vec::new(),
        };
        for (index, held) in begun.iter().enumerate() {
            let stretch = &stretches[held.stretch];
            let end = stretch.end - excess.len();
            sweep.dirty[held.stretch] = held.dirty;
            sweep.is_out[held.stretch] = held.resident == 0;
            sweep.covered += stretch.pages - held.resident;
            sweep.ends[end] += stretch.pages - held.resident;
            sweep.offer(Of::Begun(index), (end, held.resident), (stretch.dies, held.dirty));
        }
        sweep
    }

    fn choose(mut self) -> Vec<Choice> {
        let (lap, count) = (self.excess.len(), self.stretches.len());
        let mut next = 0;
        for at in 0..lap * LAPS {
            self.covered -= self.ends[at];
            while next < count * LAPS {
                let (stretch, lap_now) = (next % count, next / count);
                if lap_now * lap + self.stretches[stretch].begin >= at {
                    break;
                }
                next += 1;
                self.begin(stretch, lap_now);
            }
            self.cover(at);
        }
        self.choices
    }

    /// A stretch begins.
    fn begin(&mut self, index: usize, lap: usize) {
        let stretch = &self.stretches[index];
        let was_dirty = |before: usize| self.dirty[before] && !self.is_out[before];
        self.dirty[index] = stretch.written || stretch.before.is_some_and(was_dirty);
        self.is_out[index] = false;
        let end = lap * self.excess.len() + stretch.end;
        self.offer(Of::Next { lap, stretch: index }, (end, stretch.pages), (stretch.dies, self.dirty[index]));
    }

    fn offer(&mut self, of: Of, (end, pages): (usize, u64), (dies, dirty): (bool, bool)) {
        let cost = u64::from(!dies) + u64::from(dirty);
        if pages > 0 {
            let key = match self.order {
                Order::Farthest => 0,
                Order::Priced => self.price + cost,
                Order::Cheapest => cost,
            };
            self.heap.push((Reverse(key), end, of, pages, cost));
        }
    }

    /// Chooses until the excess of an operation is covered, as far as there is anything.
    fn cover(&mut self, at: usize) {
        let lap = self.excess.len();
        let excess = self.excess[at % lap];
        while self.covered < excess {
            let Some((Reverse(key), end, of, pages, cost)) = self.heap.pop() else { return };
            if end <= at {
                continue;
            }
            self.price = self.price.max(key);
            let taken = pages.min(excess - self.covered);
            if taken < pages {
                self.heap.push((Reverse(key), end, of, pages - taken, cost));
            }
            let to = end.min(lap * LAPS);
            self.covered += taken;
            self.ends[to] += taken;
            let from = match of {
                Of::Begun(_) => 0,
                Of::Next { lap: lap_now, stretch } => {
                    self.is_out[stretch] = true;
                    lap_now * lap + self.stretches[stretch].begin + 1
                }
            };
            self.choices.push(Choice { of, from, to, pages: taken, cost });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(begin: usize, end: usize, pages: u64, written: bool, dies: bool) -> Stretch {
        Stretch { begin, end, pages, written, dies, before: None }
    }

    #[test]
    fn of_two_that_cross_the_same_the_cheaper_is_out() {
        let stretches = [stretch(0, 9, 4, true, false), stretch(1, 8, 4, false, false)];
        let excess = [0, 0, 0, 0, 3, 0, 0, 0, 0, 0];
        assert_eq!(pages_out(&stretches, &[], &excess).next, [0, 3]);
    }

    #[test]
    fn of_equal_costs_the_one_that_serves_all_is_out_alone() {
        let stretches = [stretch(0, 4, 4, false, false), stretch(1, 9, 4, false, false)];
        let excess = [0, 0, 2, 0, 0, 0, 4, 0, 0, 0];
        assert_eq!(pages_out(&stretches, &[], &excess).next, [0, 4]);
    }

    #[test]
    fn a_dear_one_that_serves_two_needs_replaces_two_cheap_ones_only_if_it_costs_no_more() {
        let three = |cost_of_second_dirty| {
            [
                stretch(0, 4, 4, false, false),
                stretch(1, 9, 4, true, false),
                stretch(5, 9, 4, cost_of_second_dirty, false),
            ]
        };
        let excess = [0, 0, 4, 0, 0, 0, 4, 0, 0, 0];
        assert_eq!(pages_out(&three(true), &[], &excess).next, [0, 4, 0], "2 instead of 1 + 2");
    }

    #[test]
    fn what_dies_clean_costs_nothing() {
        let stretches = [stretch(0, 9, 4, false, false), stretch(1, 8, 4, false, true)];
        let excess = [0, 0, 0, 0, 5, 0, 0, 0, 0, 0];
        assert_eq!(pages_out(&stretches, &[], &excess).next, [1, 4]);
    }
}
