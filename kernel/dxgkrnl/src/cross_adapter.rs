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

use kmt_calls::{FenceFlags, Refusal};
use wddm_types::{AdapterIndex, PAGE_BYTES, PageRun, Pages, WordAddress};

use crate::number::CrossFenceNumber;
use crate::refusal::no_memory;
use crate::store::Store;
use crate::sync::CommonWord;

/// The fences of several adapters.
#[derive(Default)]
pub struct CrossFences {
    fences: Store<CrossFenceNumber, CrossFence>,
}

/// The kind of fence that a call wants.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// It is a native fence on its creator.
    pub native: bool,
    /// Only a display of its creator signals it.
    pub by_display: bool,
    pub flags: FenceFlags,
}

/// An adapter as far as it matters to a fence that it opens.
#[derive(Clone, Copy, Debug)]
pub struct Opener {
    pub adapter: AdapterIndex,
    pub has_native_fences: bool,
    /// Other adapters' signals and waits reach it through its inbox.
    pub has_inbox: bool,
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

    /// Its creator, and whether only a display of it signals.
    pub fn creator(&self) -> (AdapterIndex, bool) {
        (self.creator, self.by_display)
    }

    // spec: sync §3.13
    fn is_native_on(&self, opener: Opener) -> bool {
        opener.has_native_fences && (self.native || opener.adapter != self.creator)
    }
}

impl CrossFences {
    /// A fence is created over pages of its creator. Its word, for the creator's own fence.
    pub fn enter(&mut self, creator: AdapterIndex, page: PageRun, wanted: Wanted) -> CommonWord {
        debug_assert!((1..=2).contains(&page.count.0), "a fence has a page, and perhaps one for all: {page:?}");
        let Wanted { native, by_display, flags } = wanted;
        let fence = CrossFence { creator, page, native, by_display, flags, names: 0, always_signaled: false };
        fence.word_of(self.fences.insert(fence), false)
    }

    /// The word that an adapter needs to open it, with the flags of the object, and whether it is native there.
    pub fn lend(&self, number: CrossFenceNumber, opener: Opener) -> (CommonWord, FenceFlags, bool) {
        let fence = &self.fences[number];
        let mut word = fence.word_of(number, true);
        // An adapter without an inbox does not hear of others' waits, so it has a MonitoredValue of its own.
        if !opener.has_inbox {
            word.monitored = None;
        }
        (word, fence.flags, fence.is_native_on(opener))
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
    pub fn unname(&mut self, number: CrossFenceNumber) {
        let fence = self.fences.get_mut(number).expect("a name keeps it");
        debug_assert!(fence.names > 0, "a fence counts its names: {fence:?}");
        fence.names -= 1;
    }

    /// It counts as reached for ever. Whether it does from now on: adapters that hear of it report it in turn, and only the first report of
    /// a fence that there is counts.
    #[must_use]
    pub fn becomes_always_signaled(&mut self, number: CrossFenceNumber) -> bool {
        self.fences.get_mut(number).is_some_and(|fence| !std::mem::replace(&mut fence.always_signaled, true))
    }

    /// A fence that has no name: only adapters that reach its word keep it.
    pub fn without_name(&self, number: CrossFenceNumber) -> Option<&CrossFence> {
        self.fences.get(number).filter(|fence| fence.names == 0)
    }

    /// It has gone. Its creator, and the pages that return there.
    #[must_use]
    pub fn remove(&mut self, number: CrossFenceNumber) -> (AdapterIndex, PageRun) {
        let gone = self.fences.remove(number).expect("its caller has seen it");
        debug_assert_eq!(gone.names, 0, "a name keeps a fence");
        (gone.creator, gone.page)
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (CrossFenceNumber, &CrossFence)> {
        self.fences.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATOR: AdapterIndex = AdapterIndex(0);

    fn opener(adapter: AdapterIndex) -> Opener {
        Opener { adapter, has_native_fences: true, has_inbox: true }
    }

    fn entered(fences: &mut CrossFences, native: bool) -> CrossFenceNumber {
        let wanted = Wanted { native, by_display: false, flags: FenceFlags::CROSS_ADAPTER };
        fences.enter(CREATOR, PageRun { first: 5, count: Pages(2) }, wanted).cross
    }

    #[test]
    fn a_fence_is_native_elsewhere_where_the_adapter_can_and_on_its_creator_as_it_was_created() {
        // spec: sync §3.13
        let mut fences = CrossFences::default();
        let (native, monitored) = (entered(&mut fences, true), entered(&mut fences, false));
        let is_native = |number, opener| fences.lend(number, opener).2;
        assert!(is_native(native, opener(CREATOR)) && !is_native(monitored, opener(CREATOR)));
        let other = opener(AdapterIndex(1));
        assert!(is_native(native, other) && is_native(monitored, other));
        assert!(!is_native(native, Opener { has_native_fences: false, ..other }));
    }

    #[test]
    fn an_adapter_without_an_inbox_has_a_monitored_value_of_its_own() {
        // spec: sync §3.18
        let mut fences = CrossFences::default();
        let number = entered(&mut fences, true);
        let (word, ..) = fences.lend(number, opener(AdapterIndex(1)));
        assert_eq!((word.page.first, word.monitored.map(|page| page.first), word.joined), (5, Some(6), true));
        let (word, ..) = fences.lend(number, Opener { has_inbox: false, ..opener(AdapterIndex(1)) });
        assert_eq!(word.monitored, None);
    }

    #[test]
    fn only_the_first_report_that_a_fence_is_lost_counts_and_names_keep_it() {
        let mut fences = CrossFences::default();
        let number = entered(&mut fences, false);
        assert!(fences.becomes_always_signaled(number) && !fences.becomes_always_signaled(number));
        assert!(fences.is_always_signaled(number) && fences.without_name(number).is_some());
        fences.name(number).unwrap();
        assert!(fences.without_name(number).is_none());
        fences.unname(number);
        assert_eq!(fences.without_name(number).map(CrossFence::creator), Some((CREATOR, false)));
        assert_eq!(fences.remove(number), (CREATOR, PageRun { first: 5, count: Pages(2) }));
        assert!(!fences.becomes_always_signaled(number), "it has gone");
    }
}
