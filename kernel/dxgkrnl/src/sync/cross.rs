//! Cross-adapter fences as one adapter knows them (sync §3.12): which of its fences are one, whether it still reaches their words, and the
//! news for the others. The machine knows the others (`crate::machine::news`), and `adapter/fence/cross.rs` carries out what they tell.

use std::collections::BTreeMap;

use gpu_fence::FenceKind;
use shared_words::Memory;
use wddm_types::PageRun;

use super::Synchronization;
use crate::number::{CrossFenceNumber, FenceNumber};

/// The CurrentValue of a cross-adapter fence as an adapter is lent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonWord {
    /// Which cross-adapter fence.
    pub cross: CrossFenceNumber,
    /// Its page, which no other fence uses.
    pub page: PageRun,
    /// The page of its MonitoredValue, where all adapters share that, too.
    // spec: sync §3.18
    pub monitored: Option<PageRun>,
    /// Only a display of its creator signals it.
    pub by_display: bool,
    /// It has a value already: this adapter comes to a fence that there is.
    pub joined: bool,
}

/// An adapter's news for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The processor has given a fence another value.
    Stored(CrossFenceNumber),
    /// An engine may have given a fence another value.
    Signaled(CrossFenceNumber),
    /// The waits for a fence here have changed, or whether this adapter has it at all.
    Awaited(CrossFenceNumber),
    /// A fence counts as reached for ever.
    Always(CrossFenceNumber),
    /// No process has a fence open any more that is kept here, or neither engines nor paging work reach its word.
    Left(CrossFenceNumber),
}

/// The cross-adapter fences of one adapter.
#[derive(Debug, Default)]
pub(super) struct CommonFences {
    /// The adapter's fence of each that is open here.
    members: BTreeMap<CrossFenceNumber, FenceNumber>,
    /// How many times the word is reached from here: opens, and those that have ended but for queued paging work.
    uses: BTreeMap<CrossFenceNumber, u32>,
    /// Which adapters each is told to by doorbells, a bit for each.
    peers: BTreeMap<CrossFenceNumber, u64>,
    news: Vec<News>,
}

impl CommonFences {
    /// Something is to be told.
    pub(super) fn tell(&mut self, news: News) {
        self.news.push(news);
    }

    /// A fence is one of this adapter's.
    pub(super) fn join(&mut self, cross: CrossFenceNumber, number: FenceNumber) {
        let before = self.members.insert(cross, number);
        debug_assert!(before.is_none(), "an adapter has one fence of {cross:?}: {number:?} after {before:?}");
        self.news.push(News::Awaited(cross));
    }

    /// It is not any more.
    pub(super) fn leave(&mut self, cross: CrossFenceNumber) {
        let gone = self.members.remove(&cross);
        debug_assert!(gone.is_some(), "what leaves has joined: {cross:?}");
        self.peers.remove(&cross);
        self.news.push(News::Awaited(cross));
    }
}

impl Synchronization {
    /// The adapter's fence of a cross-adapter one, if it has one.
    pub fn member(&self, cross: CrossFenceNumber) -> Option<FenceNumber> {
        self.common.members.get(&cross).copied()
    }

    /// All that it has, with their fences here.
    pub fn members(&self) -> impl Iterator<Item = (CrossFenceNumber, FenceNumber)> + '_ {
        self.common.members.iter().map(|(cross, number)| (*cross, *number))
    }

    /// Whether anything here still reaches the word of a cross-adapter fence.
    pub fn reaches_common_word(&self, cross: CrossFenceNumber) -> bool {
        self.common.uses.contains_key(&cross)
    }

    /// The word is mapped once more.
    pub fn common_use_begins(&mut self, cross: CrossFenceNumber) {
        *self.common.uses.entry(cross).or_default() += 1;
    }

    /// A mapping of the word has ended.
    pub fn common_use_ends(&mut self, cross: CrossFenceNumber) {
        let uses = self.common.uses.get_mut(&cross).expect("it was begun");
        debug_assert!(*uses > 0, "a word that nothing reaches is not counted: {cross:?}");
        *uses -= 1;
        if *uses == 0 {
            self.common.uses.remove(&cross);
            // An engine may have signalled it behind its last close here, of which no interrupt tells.
            self.common.news.extend([News::Signaled(cross), News::Left(cross)]);
        }
    }

    /// Whether there is anything to tell other adapters.
    pub fn has_news_for_others(&self) -> bool {
        !self.common.news.is_empty()
    }

    /// Takes the news for other adapters.
    #[must_use]
    pub fn take_news_for_others(&mut self) -> Vec<News> {
        std::mem::take(&mut self.common.news)
    }

    /// Whether an engine's signal of a cross-adapter fence reaches an adapter without the processor.
    pub fn rings(&self, cross: CrossFenceNumber, to: usize) -> bool {
        self.common.peers.get(&cross).is_some_and(|peers| peers >> to & 1 != 0)
    }

    /// Notes which adapters hear of a fence's signals by doorbells, a bit for each. Whether they are others than before.
    // spec: sync §3.18
    #[must_use]
    pub fn set_peers_of(&mut self, cross: CrossFenceNumber, peers: u64) -> bool {
        self.common.peers.insert(cross, peers).unwrap_or(0) != peers
    }

    /// Any of the cross-adapter fences that are native here, or are not, and for which this holds, may have been signalled: the interrupt
    /// did not say which.
    // spec: sync §3.12, derived cases: idempotent, so the kernel tells it unless no waiter can be there
    pub fn tell_others_of_any(&mut self, native: bool, which: impl Fn(&Synchronization, FenceNumber) -> bool) {
        let is = |number: FenceNumber| (self.kind_of(number) != FenceKind::Monitored) == native;
        let members = self.members().filter(|(_, number)| is(*number) && which(self, *number));
        let news: Vec<News> = members.map(|(cross, _)| News::Signaled(cross)).collect();
        self.common.news.extend(news);
    }

    /// The creator keeps the fence of a display's signals without an open here.
    pub fn keep_fence(&mut self, cross: CrossFenceNumber) {
        self.fences[self.common.members[&cross]].names += 1;
    }

    /// The adapter has failed: waits elsewhere for its signals end.
    // spec: sync §3.12, derived cases; sync §3.16
    pub fn lose_common_fences(&mut self, memory: &Memory) {
        let lost = |number: &FenceNumber| {
            let fence = &self.fences[*number];
            fence.opens.iter().any(|open| self.opens[*open].is_lost_with_device()) || fence.periodic.is_some()
        };
        let lost: Vec<FenceNumber> = self.members().map(|(_, number)| number).filter(lost).collect();
        for number in lost {
            if self.seal(number) {
                self.store(memory, number, u64::MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ObjectNumber;
    use wddm_types::AdapterIndex;

    fn fence(number: u64) -> CrossFenceNumber {
        CrossFenceNumber::from_raw(number)
    }

    #[test]
    fn the_last_use_of_a_common_word_is_told_behind_a_signal_that_no_interrupt_told_of() {
        let mut sync = Synchronization::new(AdapterIndex(0));
        sync.common_use_begins(fence(7));
        sync.common_use_begins(fence(7));
        sync.common_use_ends(fence(7));
        assert!(sync.reaches_common_word(fence(7)) && !sync.has_news_for_others(), "one mapping is left");
        sync.common_use_ends(fence(7));
        assert_eq!(sync.take_news_for_others(), [News::Signaled(fence(7)), News::Left(fence(7))]);
        assert!(!sync.reaches_common_word(fence(7)) && !sync.has_news_for_others(), "news are taken once");
    }

    #[test]
    fn peers_of_a_fence_are_others_only_when_they_change() {
        let mut sync = Synchronization::new(AdapterIndex(0));
        assert!(!sync.set_peers_of(fence(7), 0), "none are known at first");
        assert!(sync.set_peers_of(fence(7), 0b110));
        assert!(!sync.set_peers_of(fence(7), 0b110));
        assert_eq!([0, 1, 2].map(|to| sync.rings(fence(7), to)), [false, true, true]);
        assert!(!sync.rings(fence(8), 1), "of another fence nothing is known");
    }
}
