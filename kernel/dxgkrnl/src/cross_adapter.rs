//! Fences of several adapters (sync §3.12, §3.13): one CurrentValue, which each adapter that opens the fence reaches, and news that
//! are carried from the adapter where something happened to all others. It is the machine's, because no adapter knows another.
//!
//! | kept here | kept by each adapter (`sync::cross`) |
//! |---|---|
//! | the page of the word, out of its creator's | its own fence over that word: native with a MonitoredValue that is 0 for life, or monitored |
//! | NT handles; whether it counts as reached for ever | its waiters there, its news for the others |
//!
//! Where GPUs ring each other's doorbells (sync §3.18) the processor carries less: engines tell their peers themselves, and the
//! MonitoredValue of each adapter follows the waits on all of them.
//!
//! On which adapter it is native is decided once for each: on the creator by the call that created it, elsewhere by what the adapter can
//! do. It lives as long as it has a name, or anything on any adapter reaches its word.

use std::collections::{BTreeMap, BTreeSet};

use kmt_calls::{FenceFlags, Refusal};
use wddm_types::{AdapterIndex, PAGE_BYTES, PageRun, Pages, WordAddress};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::machine::Machine;
use crate::number::CrossFenceNumber;
use crate::refusal::no_memory;
use crate::store::Store;
use crate::sync::{CommonWord, News};

/// The fences of several adapters.
#[derive(Default)]
pub struct CrossFences {
    fences: Store<CrossFenceNumber, CrossFence>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossFence {
    /// The adapter that created it, whose page its word is.
    creator: AdapterIndex,
    /// One page, or with the MonitoredValue of all two.
    page: PageRun,
    /// It was created as a native fence.
    native: bool,
    /// Only a display of its creator signals it.
    by_display: bool,
    flags: FenceFlags,
    /// Its NT handles.
    names: u32,
    /// Its signaller is lost (sync §3.16).
    always_signaled: bool,
}

impl CrossFence {
    /// How many NT handles it has.
    pub fn names(&self) -> u32 {
        self.names
    }

    fn word_of(&self, cross: CrossFenceNumber, joined: bool) -> CommonWord {
        let page = |index: u64| PageRun { first: self.page.first + index, count: Pages(1) };
        let monitored = (self.page.count == Pages(2)).then(|| page(1));
        CommonWord { cross, page: page(0), monitored, joined, by_display: self.by_display }
    }

    /// System address of its word.
    pub fn word(&self) -> WordAddress {
        WordAddress(self.page.first * PAGE_BYTES)
    }

    /// Whether it is native on an adapter.
    // spec: sync §3.13
    pub fn is_native_on(&self, adapter: &mut Adapter) -> bool {
        adapter.driver.has_native_fences() && (self.native || adapter.index != self.creator)
    }
}

impl CrossFences {
    /// Creates one: `make` creates the creator's own fence over the word.
    ///
    /// # Errors
    /// The adapter has no page for it; or the error of `make`.
    pub fn create<T>(
        &mut self,
        cx: &mut Cx<'_>,
        adapters: &mut [Adapter],
        index: AdapterIndex,
        (native, flags): (bool, FenceFlags),
        make: impl FnOnce(&mut Cx<'_>, &mut Adapter, CommonWord) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let adapter = &mut adapters[index.0 as usize];
        let linear = native && adapter.sync.has_linear_storage();
        let page = adapter.take_common_pages(cx, Pages(1 + u64::from(linear)))?;
        let fence =
            CrossFence { creator: index, page, native, by_display: false, flags, names: 0, always_signaled: false };
        let number = self.fences.insert(fence);
        let made = make(cx, adapter, fence.word_of(number, false));
        if made.is_err() {
            self.give_back(cx, adapters, number);
        }
        made
    }

    /// The same of a fence that a display signals. The creator keeps its own fence for as long as any adapter has it: without it the
    /// display would have no fence to signal.
    ///
    /// # Errors
    /// As of [`CrossFences::create`].
    // spec: sync §2.2, sync §2.3
    pub fn create_periodic<T>(
        &mut self,
        cx: &mut Cx<'_>,
        adapters: &mut [Adapter],
        index: AdapterIndex,
        flags: FenceFlags,
        make: impl FnOnce(&mut Cx<'_>, &mut Adapter, CommonWord) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let made = self.create(cx, adapters, index, (false, flags), |cx, adapter, word| {
            let cross = word.cross;
            make(cx, adapter, CommonWord { by_display: true, ..word }).map(|made| (made, cross))
        })?;
        let (made, cross) = made;
        self.fences.get_mut(cross).expect("just created").by_display = true;
        adapters[index.0 as usize].sync.keep_fence(cross);
        Ok(made)
    }

    /// The word that an adapter needs to open it, with the flags of the object, and whether it is native there.
    pub fn lend(&self, number: CrossFenceNumber, adapter: &mut Adapter) -> (CommonWord, FenceFlags, bool) {
        let fence = &self.fences[number];
        let native = fence.is_native_on(adapter);
        let mut word = fence.word_of(number, true);
        // An adapter without an inbox does not hear of others' waits, so it has a MonitoredValue of its own.
        if adapter.sync.inbox().is_none() {
            word.monitored = None;
        }
        (word, fence.flags, native)
    }

    /// Whether it counts as reached for ever.
    pub fn is_always_signaled(&self, number: CrossFenceNumber) -> bool {
        self.fences[number].always_signaled
    }

    /// It has one name more.
    ///
    /// # Errors
    /// `NO_MEMORY` when it has too many.
    pub fn name(&mut self, number: CrossFenceNumber) -> Result<(), Refusal> {
        let names = &mut self.fences.get_mut(number).expect("its caller has it open").names;
        *names = names.checked_add(1).ok_or_else(|| no_memory("the fence has too many names"))?;
        Ok(())
    }

    /// One of its names has gone.
    pub fn unname(&mut self, adapters: &mut [Adapter], cx: &mut Cx<'_>, number: CrossFenceNumber) {
        self.fences.get_mut(number).expect("a name keeps it").names -= 1;
        self.reap(adapters, cx, number);
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (CrossFenceNumber, &CrossFence)> {
        self.fences.iter()
    }

    /// Gives the word back when it has no name and no adapter reaches it.
    fn reap(&mut self, adapters: &mut [Adapter], cx: &mut Cx<'_>, number: CrossFenceNumber) {
        let Some(fence) = self.fences.get(number) else { return };
        if fence.names > 0 {
            return;
        }
        let creator = fence.creator.0 as usize;
        let is_member = |(_, adapter): &(usize, &Adapter)| adapter.sync.member(number).is_some();
        let elsewhere = adapters.iter().enumerate().filter(is_member).any(|(index, _)| index != creator);
        if fence.by_display && !elsewhere {
            adapters[creator].drop_kept_fence(cx, number);
        }
        if !adapters.iter().any(|adapter| adapter.sync.reaches_common_word(number)) {
            self.give_back(cx, adapters, number);
        }
    }

    fn give_back(&mut self, cx: &Cx<'_>, adapters: &mut [Adapter], number: CrossFenceNumber) {
        let fence = self.fences.remove(number).expect("just seen");
        let clients = cx.platform(fence.creator).clients();
        adapters[fence.creator.0 as usize].driver.pages().give_back(clients, fence.page);
    }
}

impl Machine {
    /// Carries each adapter's news to the others, until none has any; tells sections of allocations that have left them.
    // spec: sync §3.12: to all that have the fence open, never back
    pub(crate) fn carry_news(&mut self, cx: &mut Cx<'_>) {
        while let Some(from) = self.adapters.iter_mut().position(|adapter| adapter.sync.has_news_for_others()) {
            let news = self.adapters[from].sync.take_news_for_others();
            // Of each whether hardware cannot have told others by itself.
            let (mut signaled, mut awaited) = (BTreeMap::<CrossFenceNumber, bool>::new(), BTreeSet::new());
            for one in news {
                match one {
                    News::Stored(cross) => drop(signaled.insert(cross, true)),
                    News::Signaled(cross) => drop(signaled.entry(cross).or_default()),
                    News::Awaited(cross) => drop(awaited.insert(cross)),
                    News::Always(cross) => self.carry_always(cx, from, cross),
                    News::Left(cross) => self.cross_fences.reap(&mut self.adapters, cx, cross),
                }
            }
            for cross in awaited {
                self.cross_fences.reap(&mut self.adapters, cx, cross);
                self.agree(cx, cross);
            }
            for to in (0..self.adapters.len()).filter(|to| *to != from && !signaled.is_empty()) {
                let (teller, mut fences, mut told) = (&self.adapters[from].sync, Vec::new(), Vec::new());
                for (cross, stored) in &signaled {
                    let Some(fence) = self.adapters[to].sync.member(*cross) else { continue };
                    fences.push(fence);
                    if *stored || !teller.rings(*cross, to) {
                        told.push(fence);
                    }
                }
                if !fences.is_empty() {
                    self.adapters[to].values_arrived(cx, &fences, &told);
                    self.adapters[to].settle(cx);
                }
            }
        }
        self.leave_sections(cx);
        self.globals.forget_gone(&mut self.adapters);
    }

    /// A new adapter and those that are there learn of each other's doorbells.
    // spec: sync §3.18
    pub(crate) fn introduce(&mut self, cx: &Cx<'_>, new: AdapterIndex) {
        let at = new.0 as usize;
        self.adapters[at].make_inbox(cx);
        let Some(inbox) = self.adapters[at].sync.inbox() else { return };
        for other in 0..at {
            if let Some(others) = self.adapters[other].sync.inbox() {
                self.adapters[other].connect_peer(cx, new, inbox);
                // CAST: adapters are counted in ones.
                self.adapters[at].connect_peer(cx, AdapterIndex(other as u32), others);
            }
        }
    }

    /// Tells every adapter with doorbells which peers they reach, and the least value that is waited for there. A peer that they do not
    /// reach counts as a waiter for 1: every signal interrupts the processor, which tells that peer.
    // spec: sync §3.18, sync §1.3
    fn agree(&mut self, cx: &mut Cx<'_>, cross: CrossFenceNumber) {
        let member = |(index, adapter): (usize, &Adapter)| {
            let number = adapter.sync.member(cross)?;
            let rings =
                adapter.sync.inbox().is_some() && !adapter.sync.is_monitored(number) && !adapter.life.has_stopped();
            Some((index, rings, adapter.sync.earliest_of(number)))
        };
        let members: Vec<(usize, bool, Option<u64>)> = self.adapters.iter().enumerate().filter_map(member).collect();
        for &(index, ..) in members.iter().filter(|(_, rings, _)| *rings) {
            let others = members.iter().filter(|(other, ..)| *other != index);
            let peers = others.clone().filter(|(_, rings, _)| *rings).fold(0, |bits, (other, ..)| bits | 1 << other);
            let elsewhere = others.filter_map(|(_, rings, earliest)| if *rings { *earliest } else { Some(1) }).min();
            let agreed = self.adapters[index].agree(cx, cross, peers, elsewhere);
            self.adapters[index].heed(cx, agreed);
            self.adapters[index].settle(cx);
        }
    }

    // spec: sync §3.12, derived cases: so that others are not stuck; sync §6 B13
    fn carry_always(&mut self, cx: &mut Cx<'_>, from: usize, cross: CrossFenceNumber) {
        let Some(fence) = self.cross_fences.fences.get_mut(cross) else { return };
        // Adapters that hear of it report it in turn: only the first report counts.
        if std::mem::replace(&mut fence.always_signaled, true) {
            return;
        }
        for (_, adapter) in self.adapters.iter_mut().enumerate().filter(|(to, _)| *to != from) {
            if let Some(fence) = adapter.sync.member(cross) {
                adapter.signal_always(cx, fence);
                adapter.settle(cx);
            }
        }
    }
}
