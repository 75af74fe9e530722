//! The machine carries the news of one adapter to the others: values and waits of fences that several have (sync §3.12, §3.18), and what
//! sections and global handles are to hear.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::AdapterIndex;

use super::cross_adapter;
use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::machine::Machine;
use crate::number::CrossFenceNumber;
use crate::sync::News;

impl Machine {
    /// Settles what the turn has touched. Carries each adapter's news to the others, and tells sections of allocations that have left them,
    /// until there are none.
    // spec: sync §3.12: to all that have the fence open, never back
    pub(super) fn carry_news(&mut self, cx: &mut Cx<'_>) {
        loop {
            self.adapters.settle(cx);
            let Some((from, news)) = self.adapters.next_news() else {
                self.leave_sections(cx);
                if !self.adapters.settle(cx) {
                    break;
                }
                continue;
            };
            // Of each whether hardware cannot have told others by itself.
            let (mut signaled, mut awaited) = (BTreeMap::<CrossFenceNumber, bool>::new(), BTreeSet::new());
            for one in news {
                match one {
                    News::Stored(cross) => drop(signaled.insert(cross, true)),
                    News::Signaled(cross) => drop(signaled.entry(cross).or_default()),
                    News::Awaited(cross) => drop(awaited.insert(cross)),
                    News::Always(cross) => self.carry_always(cx, from, cross),
                    News::Left(cross) => self.reap(cx, cross),
                }
            }
            for cross in awaited {
                self.reap(cx, cross);
                self.agree(cx, cross);
            }
            for to in self.adapters.indexes().filter(|to| *to != from && !signaled.is_empty()) {
                let (mut fences, mut told) = (Vec::new(), Vec::new());
                for (cross, stored) in &signaled {
                    let Some(fence) = self.adapters[to].part_in(*cross) else { continue };
                    fences.push(fence);
                    if *stored || !self.adapters[from].rings(*cross, to.0 as usize) {
                        told.push(fence);
                    }
                }
                if !fences.is_empty() {
                    self.adapters[to].values_arrived(cx, &fences, &told);
                }
            }
        }
        let gone = self.adapters.untouched().iter_mut().flat_map(Adapter::take_gone_globals);
        gone.for_each(|gone| self.globals.forget(gone));
    }

    fn reap(&mut self, cx: &mut Cx<'_>, cross: CrossFenceNumber) {
        cross_adapter::reap(cx, (&mut self.cross_fences, &mut self.adapters), cross);
    }

    /// A new adapter and those that are there learn of each other's doorbells.
    // spec: sync §3.18
    pub(super) fn introduce(&mut self, cx: &Cx<'_>, new: AdapterIndex) {
        let at = new.0 as usize;
        let adapters = self.adapters.untouched();
        adapters[at].make_inbox(cx);
        let Some(inbox) = adapters[at].inbox() else { return };
        for other in 0..at {
            if let Some(others) = adapters[other].inbox() {
                adapters[other].connect_peer(cx, new, inbox);
                // CAST: adapters are counted in ones.
                adapters[at].connect_peer(cx, AdapterIndex(other as u32), others);
            }
        }
    }

    /// Tells every adapter with doorbells which peers they reach, and the least value that is waited for there. A peer that they do not
    /// reach counts as a waiter for 1: every signal interrupts the processor, which tells that peer.
    // spec: sync §3.18, sync §1.3
    fn agree(&mut self, cx: &mut Cx<'_>, cross: CrossFenceNumber) {
        let member = |adapter: &Adapter| {
            let (rings, earliest) = adapter.waits_for(cross)?;
            Some((adapter.index(), rings, earliest))
        };
        let members: Vec<(AdapterIndex, bool, Option<u64>)> = self.adapters.iter().filter_map(member).collect();
        for &(index, ..) in members.iter().filter(|(_, rings, _)| *rings) {
            let others = members.iter().filter(|(other, ..)| *other != index);
            let peers = others.clone().filter(|(_, rings, _)| *rings).fold(0, |bits, (other, ..)| bits | 1 << other.0);
            let elsewhere = others.filter_map(|(_, rings, earliest)| if *rings { *earliest } else { Some(1) }).min();
            self.adapters[index].agree(cx, cross, peers, elsewhere);
        }
    }

    // spec: sync §3.12, derived cases: so that others are not stuck; sync §6 B13
    fn carry_always(&mut self, cx: &mut Cx<'_>, from: AdapterIndex, cross: CrossFenceNumber) {
        if !self.cross_fences.becomes_always_signaled(cross) {
            return;
        }
        for to in self.adapters.indexes().filter(|to| *to != from) {
            if let Some(fence) = self.adapters[to].part_in(cross) {
                self.adapters[to].signal_always(cx, fence);
            }
        }
    }
}
