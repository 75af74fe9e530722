//! The cheapest flow from the first node of a row to its last: a certain amount, through arcs with capacities and small whole costs.
//!
//! Primal and dual: shortest distances by cost first, then as much as goes over shortest paths at once, in layers. Costs are copies a page, so
//! there are few different distances. The caller limits the work; beyond it there is no answer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One arc; the next in the list is the way back.
#[derive(Clone, Copy, Debug)]
struct Arc {
    to: usize,
    left: u64,
    cost: i64,
    /// The next arc of the same begin; `NONE`: it is the last.
    next: usize,
}

const NONE: usize = usize::MAX;
const FAR: i64 = i64::MAX;

/// A network on a row of nodes.
#[derive(Debug)]
pub(crate) struct Network {
    arcs: Vec<Arc>,
    first: Vec<usize>,
    potential: Vec<i64>,
    /// Of each node in a layering: its distance in arcs, and the arc that is tried next.
    layer: Vec<usize>,
    trying: Vec<usize>,
    work: u64,
}

impl Network {
    pub(crate) fn new(nodes: usize) -> Network {
        Network {
            arcs: Vec::new(),
            first: vec![NONE; nodes],
            potential: vec![0; nodes],
            layer: vec![NONE; nodes],
            trying: vec![NONE; nodes],
            work: 0,
        }
    }

    /// Adds an arc; its number asks for what flows through it.
    pub(crate) fn arc(&mut self, from: usize, to: usize, capacity: u64, cost: u64) -> usize {
        let number = self.arcs.len();
        let cost = i64::try_from(cost).unwrap_or(FAR);
        self.arcs.push(Arc { to, left: capacity, cost, next: self.first[from] });
        self.arcs.push(Arc { to: from, left: 0, cost: -cost, next: self.first[to] });
        (self.first[from], self.first[to]) = (number, number + 1);
        number
    }

    /// What flows through an arc.
    pub(crate) fn through(&self, number: usize) -> u64 {
        self.arcs[number + 1].left
    }

    /// Sends up to `amount` from the first node to the last, as cheaply as possible. `false`: it would take more than `work_max` looks at arcs.
    pub(crate) fn send(&mut self, amount: u64, work_max: u64) -> bool {
        let mut left = amount;
        while left > 0 && self.measure() {
            while left > 0 && self.lay_out() {
                while left > 0 {
                    let sent = self.push(left);
                    if sent == 0 {
                        break;
                    }
                    left -= sent;
                    if self.work > work_max {
                        return false;
                    }
                }
                if self.work > work_max {
                    return false;
                }
            }
            if self.work > work_max {
                return false;
            }
        }
        true
    }

    fn last(&self) -> usize {
        self.first.len() - 1
    }

    fn reduced(&self, from: usize, arc: &Arc) -> i64 {
        arc.cost + self.potential[from] - self.potential[arc.to]
    }

    /// Shortest distances; `false` if the last node is not reached.
    fn measure(&mut self) -> bool {
        let mut distance = vec![FAR; self.first.len()];
        let mut heap = BinaryHeap::from([(Reverse(0), 0)]);
        distance[0] = 0;
        while let Some((Reverse(far), node)) = heap.pop() {
            if far > distance[node] {
                continue;
            }
            let mut number = self.first[node];
            while number != NONE {
                self.work += 1;
                let arc = self.arcs[number];
                let through = far + self.reduced(node, &arc);
                if arc.left > 0 && through < distance[arc.to] {
                    distance[arc.to] = through;
                    heap.push((Reverse(through), arc.to));
                }
                number = arc.next;
            }
        }
        let end = distance[self.last()];
        if end == FAR {
            return false;
        }
        for (potential, far) in self.potential.iter_mut().zip(distance) {
            *potential += far.min(end);
        }
        true
    }

    /// Layers of what shortest paths go through; `false` if no such path is left.
    fn lay_out(&mut self) -> bool {
        self.layer.fill(NONE);
        self.layer[0] = 0;
        let mut row = vec![0];
        let mut at = 0;
        while at < row.len() {
            let node = row[at];
            at += 1;
            let mut number = self.first[node];
            while number != NONE {
                self.work += 1;
                let arc = self.arcs[number];
                if arc.left > 0 && self.layer[arc.to] == NONE && self.reduced(node, &arc) == 0 {
                    self.layer[arc.to] = self.layer[node] + 1;
                    row.push(arc.to);
                }
                number = arc.next;
            }
        }
        self.trying.copy_from_slice(&self.first);
        self.layer[self.last()] != NONE
    }

    /// Sends over one path through the layers; 0 if there is none.
    fn push(&mut self, most: u64) -> u64 {
        let mut path: Vec<usize> = Vec::new();
        let mut node = 0;
        while node != self.last() {
            let number = self.trying[node];
            if number == NONE {
                // A dead end: the arc to it is not tried again.
                let Some(back) = path.pop() else { return 0 };
                node = self.arcs[back ^ 1].to;
                self.trying[node] = self.arcs[back].next;
                continue;
            }
            self.work += 1;
            let arc = self.arcs[number];
            let forward = self.layer[arc.to] != NONE && self.layer[arc.to] == self.layer[node] + 1;
            if arc.left > 0 && forward && self.reduced(node, &arc) == 0 {
                path.push(number);
                node = arc.to;
            } else {
                self.trying[node] = arc.next;
            }
        }
        let sent = path.iter().map(|number| self.arcs[*number].left).min().unwrap_or(0).min(most);
        for number in path {
            self.arcs[number].left -= sent;
            self.arcs[number ^ 1].left += sent;
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_way_is_full_first_and_a_way_back_undoes_it() {
        let mut network = Network::new(4);
        let arcs = [(0, 1, 2, 1), (0, 2, 2, 2), (1, 2, 2, 0), (1, 3, 1, 2), (2, 3, 3, 0)];
        let arcs = arcs.map(|(from, to, capacity, cost)| network.arc(from, to, capacity, cost));
        assert!(network.send(3, 1000));
        assert_eq!(arcs.map(|arc| network.through(arc)), [2, 1, 2, 0, 3]);
        assert!(network.send(1, 1000));
        assert_eq!(
            arcs.map(|arc| network.through(arc)),
            [2, 2, 1, 1, 3],
            "one of those that went over 1 and 2 goes on from 1 now"
        );
        let mut other = Network::new(2);
        other.arc(0, 1, 1, 1);
        assert!(!other.send(1, 0), "no work is allowed");
    }
}
