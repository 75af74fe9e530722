//! Fences of several adapters (sync §3.12, §3.13): one CurrentValue, which each adapter that opens the fence reaches, and news that
//! are carried from the adapter where something happened to all others. It is the machine's, because no adapter knows another.
//!
//! | kept here | kept by each adapter (`fence::CommonFences`) |
//! |---|---|
//! | the page of the word, out of its creator's | its own fence over that word: native with a MonitoredValue that is 0 for life, or monitored |
//! | NT handles; whether it counts as reached for ever | who waits there, what it has to tell |
//!
//! On which adapter it is native is decided once for each: on the creator by the call that created it, elsewhere by what the adapter can
//! do. It lives as long as it has a name, or anything on any adapter reaches its word.

use std::collections::BTreeSet;

use kmt_calls::{FenceFlags, Refusal};
use wddm_types::{PAGE_BYTES, PageRun, WordAddress};

use crate::adapter::Adapter;
use crate::fence::{CommonWord, News};
use crate::machine::{Cx, Machine};
use crate::refusal::no_memory;
use crate::store::Store;

/// The fences of several adapters.
#[derive(Default)]
pub struct CrossFences {
    fences: Store<CrossFence>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossFence {
    /// The adapter that created it, whose page its word is.
    creator: u32,
    page: PageRun,
    /// It was created as a native fence.
    native: bool,
    flags: FenceFlags,
    /// Its NT handles.
    names: u32,
    /// Whoever was to signal it is lost (sync §3.16).
    always_signaled: bool,
}

impl CrossFence {
    /// How many NT handles it has.
    pub fn names(&self) -> u32 {
        self.names
    }

    /// System address of its word.
    pub fn word(&self) -> WordAddress {
        WordAddress(self.page.first * PAGE_BYTES)
    }

    /// Whether it is native on an adapter.
    // spec: sync §3.13
    pub fn is_native_on(&self, adapter: &mut Adapter) -> bool {
        adapter.has_native_fences() && (self.native || adapter.index.0 != self.creator)
    }
}

impl CrossFences {
    /// Creates one: `make` creates the creator's own fence over the word.
    ///
    /// # Errors
    /// The adapter has no page for it; what `make` says.
    pub fn create<T>(
        &mut self,
        adapters: &mut [Adapter],
        index: u32,
        (native, flags): (bool, FenceFlags),
        make: impl FnOnce(&mut Adapter, CommonWord) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let adapter = &mut adapters[index as usize];
        let page = adapter.take_common_page()?;
        let fence = CrossFence { creator: index, page, native, flags, names: 0, always_signaled: false };
        let number = self.fences.insert(fence);
        let made = make(adapter, CommonWord { cross: number, page, joined: false });
        if made.is_err() {
            self.reap(adapters, number);
        }
        made
    }

    /// What an adapter is lent that opens it, with the flags of the object, and whether it is native there.
    pub fn lend(&self, number: u64, adapter: &mut Adapter) -> (CommonWord, FenceFlags, bool) {
        let fence = &self.fences[number];
        let word = CommonWord { cross: number, page: fence.page, joined: true };
        (word, fence.flags, fence.is_native_on(adapter))
    }

    /// Whether it counts as reached for ever.
    pub fn is_always_signaled(&self, number: u64) -> bool {
        self.fences[number].always_signaled
    }

    /// It has one name more.
    ///
    /// # Errors
    /// `NO_MEMORY` when it has too many.
    pub fn name(&mut self, number: u64) -> Result<(), Refusal> {
        let names = &mut self.fences.get_mut(number).expect("somebody has it open").names;
        *names = names.checked_add(1).ok_or_else(|| no_memory("the fence has too many names"))?;
        Ok(())
    }

    /// One of its names has gone.
    pub fn unname(&mut self, adapters: &mut [Adapter], number: u64) {
        self.fences.get_mut(number).expect("a name keeps it").names -= 1;
        self.reap(adapters, number);
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &CrossFence)> {
        self.fences.iter()
    }

    /// Gives the word back when it has neither a name nor anybody who reaches it.
    fn reap(&mut self, adapters: &mut [Adapter], number: u64) {
        let Some(fence) = self.fences.get(number) else { return };
        if fence.names > 0 || adapters.iter().any(|adapter| adapter.common.uses(number)) {
            return;
        }
        let fence = self.fences.remove(number).expect("just seen");
        adapters[fence.creator as usize].pages.give_back(fence.page);
    }
}

impl Machine {
    /// Carries what adapters have to tell to the others, until none has anything to tell.
    // spec: sync §3.12: to all that have the fence open, never back
    pub(crate) fn carry_news(&mut self, cx: &mut Cx<'_>) {
        while let Some(from) = self.adapters.iter_mut().position(|adapter| adapter.common.has_news()) {
            let news = self.adapters[from].common.take_news();
            let mut signaled = BTreeSet::new();
            for one in news {
                match one {
                    News::Signaled(cross) => drop(signaled.insert(cross)),
                    News::Always(cross) => self.carry_always(cx, from, cross),
                    News::Left(cross) => self.cross_fences.reap(&mut self.adapters, cross),
                }
            }
            if signaled.is_empty() {
                continue;
            }
            for adapter in self.adapters.iter_mut().enumerate().filter(|(to, _)| *to != from).map(|(_, to)| to) {
                let here = signaled.iter().filter_map(|cross| adapter.common.members.get(cross).copied());
                let fences: Vec<u64> = here.collect();
                if !fences.is_empty() {
                    adapter.values_arrived(cx, &fences);
                    adapter.settle(cx);
                }
            }
        }
    }

    // spec: sync §3.12, derived cases: so that others are not stuck; sync §6 B13
    fn carry_always(&mut self, cx: &mut Cx<'_>, from: usize, cross: u64) {
        let Some(fence) = self.cross_fences.fences.get_mut(cross) else { return };
        // Those who are told say so too.
        if std::mem::replace(&mut fence.always_signaled, true) {
            return;
        }
        for (_, adapter) in self.adapters.iter_mut().enumerate().filter(|(to, _)| *to != from) {
            if let Some(fence) = adapter.common.members.get(&cross).copied() {
                adapter.signal_always(cx, fence);
                adapter.settle(cx);
            }
        }
    }
}
