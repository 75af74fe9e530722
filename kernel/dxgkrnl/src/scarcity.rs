//! Calls that lack memory which pending destructions give back: the machine answers them later. Here stand the waiting calls and their
//! order; what is coming back adapters say, and the machine judges by it (`machine::scarcity`).
//!
//! # The law of this boundary
//! CreateAllocation and CreateSection are refused for want of memory only where every pending destruction together would not give back
//! enough. Else the call waits. A destruction of another process counts no more when the hardware has not run the work of its uses for some
//! 10 ms ([`USE_MAX_NS`]): that work may stand behind a fence that the other process alone signals. A call waits for a
//! destruction behind running work for 2 s at most ([`DESTRUCTION_MAX_NS`]): work that the hardware can preempt may run without end.
//!
//! | a call lacks | pending destructions give back |
//! |---|---|
//! | system pages of an adapter | backing stores of destroyed allocations, their instances too, that queued work may still use or the paging ring has not got past; sections that only such allocations keep |
//! | committed bytes or memory files of its process or account | those of destroyed allocations that are not buried, and of such sections |
//!
//! A call that waits has changed nothing, and delays no other call: calls that fit go on. The machine tries waiting calls again,
//! oldest first, when memory has returned, and asks the hardware to tell of it. A call ends with its process. It waits as long as
//! destructions of its own process do: a process that holds back the work that its own destruction stands behind waits for itself, as with
//! SynchronousDestroy.
// spec: memory §6.2

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kmt_calls::{Call, Refusal};
use wddm_types::{AdapterIndex, Pages, ProcessId};

use crate::allocations::DestructionNumber;
use crate::hold::{DESTRUCTION_MAX_NS, USE_MAX_NS};
use crate::number::Token;
use crate::quota::{Kind, OverQuota};

/// Why a creation made nothing.
pub enum NotCreated {
    /// The caller, the driver or a scarcity that no destruction ends.
    Refused(Refusal),
    /// It lacks this; the refusal says so where pending destructions do not give it back.
    Lacks(Lack, Refusal),
}

impl From<Refusal> for NotCreated {
    fn from(refusal: Refusal) -> NotCreated {
        NotCreated::Refused(refusal)
    }
}

impl From<OverQuota> for NotCreated {
    fn from(over: OverQuota) -> NotCreated {
        NotCreated::Lacks(Lack::Quota(over.kind, over.wanted), over.refusal)
    }
}

impl NotCreated {
    /// The refusal of a call that cannot wait.
    pub fn into_refusal(self) -> Refusal {
        match self {
            NotCreated::Refused(refusal) | NotCreated::Lacks(_, refusal) => refusal,
        }
    }
}

/// The resource that a call lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// So many system pages of an adapter, all of them counted.
    Pages(Pages),
    /// So much more of what its process or account may have.
    Quota(Kind, u64),
}

/// A call that lacks something.
pub struct Lacking {
    /// The adapter whose memory it wants.
    pub adapter: AdapterIndex,
    /// The memory that it lacks.
    pub lack: Lack,
    /// The call, to be tried again.
    pub call: Call,
}

/// The destructions of other processes that a call waits for, as the kernel saw them last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    seen_ns: u64,
    by_destruction: BTreeMap<(AdapterIndex, DestructionNumber), Use>,
}

/// The work of the uses of a destroyed allocation. All times are in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    /// The call has waited for it since then.
    began_ns: u64,
    /// The hardware has not run the work since then.
    idle_since_ns: u64,
    /// How long the hardware had run the work then.
    ran_ns: u64,
}

impl Use {
    /// When the destruction counts no more, if the hardware does not run the work until then.
    fn ends_ns(&self) -> u64 {
        (self.idle_since_ns + USE_MAX_NS).min(self.began_ns + DESTRUCTION_MAX_NS)
    }
}

impl Uses {
    /// The kernel has looked how long the hardware has run the work of each.
    pub fn look(&mut self, now_ns: u64, uses: impl Iterator<Item = ((AdapterIndex, DestructionNumber), u64)>) {
        let before = std::mem::take(&mut self.by_destruction);
        for (key, ran_ns) in uses {
            let new = Use { began_ns: now_ns, idle_since_ns: now_ns, ran_ns };
            let seen = before.get(&key).map_or(new, |seen| match seen.ran_ns == ran_ns {
                true => *seen,
                false => Use { began_ns: seen.began_ns, ..new },
            });
            self.by_destruction.insert(key, seen);
        }
        self.seen_ns = now_ns;
    }

    /// Whether a destruction counts no more.
    pub fn stands(&self, key: (AdapterIndex, DestructionNumber)) -> bool {
        self.by_destruction.get(&key).is_some_and(|seen| self.seen_ns >= seen.ends_ns())
    }

    /// Whether any destruction counts no more.
    pub fn any_stands(&self) -> bool {
        self.by_destruction.keys().any(|key| self.stands(*key))
    }

    /// When the kernel is to look again.
    pub fn look_at_ns(&self) -> Option<u64> {
        let counted = self.by_destruction.iter().filter(|(key, _)| !self.stands(**key));
        counted.map(|(_, seen)| seen.ends_ns()).min()
    }
}

/// A call that waits.
pub struct Waiting {
    pub from: ProcessId,
    pub token: Token,
    pub lacking: Lacking,
    /// Its answer if its wait is given up.
    refusal: Refusal,
    /// How the adapter's memory stood when the call was judged last.
    seen: Option<Stamp>,
    /// The destructions of other processes that the call waits for.
    pub uses: Uses,
}

impl Waiting {
    /// Whether the adapter's memory stands as it did when the call was judged last.
    pub fn was_seen_so(&self, stamp: Stamp) -> bool {
        self.seen == Some(stamp)
    }
}

/// How the memory of an adapter stands: a waiting call is judged anew when this has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub returned: Pages,
    pub free: Pages,
    pub dying: usize,
    pub stopped: bool,
    pub awake: bool,
}

/// All calls that wait, oldest first.
#[derive(Default)]
pub struct WaitingCalls {
    calls: VecDeque<Waiting>,
}

impl WaitingCalls {
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// A call begins to wait.
    pub fn begin(&mut self, from: ProcessId, token: Token, lacking: Lacking, refusal: Refusal) {
        self.calls.push_back(Waiting { from, token, lacking, refusal, seen: None, uses: Uses::default() });
    }

    /// A call that was taken to be tried again goes on waiting, judged by this.
    pub fn go_on(&mut self, waiting: Waiting, seen: Stamp) {
        self.calls.push_back(Waiting { seen: Some(seen), ..waiting });
    }

    /// The adapters whose memory the calls want.
    pub fn adapters(&self) -> BTreeSet<AdapterIndex> {
        self.calls.iter().map(|waiting| waiting.lacking.adapter).collect()
    }

    /// The adapter whose memory the call wants that began to wait last, if this is it.
    pub fn newest(&self, token: Token) -> Option<AdapterIndex> {
        self.calls.back().filter(|waiting| waiting.token == token).map(|waiting| waiting.lacking.adapter)
    }

    /// The call that was tried last waits again: it is judged anew when something has changed since.
    pub fn tried(&mut self, token: Token, seen: Stamp, uses: Uses) {
        if let Some(again) = self.calls.back_mut().filter(|again| again.token == token) {
            again.seen = Some(seen);
            again.uses = uses;
        }
    }

    /// When a call is to be judged anew, whatever has changed.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.calls.iter().filter_map(|waiting| waiting.uses.look_at_ns()).min()
    }

    /// Takes all, to be tried again in this order.
    #[must_use]
    pub fn take(&mut self) -> VecDeque<Waiting> {
        std::mem::take(&mut self.calls)
    }

    /// A call gives its wait up. Its refusal; `None` where it does not wait here.
    pub fn give_up(&mut self, token: Token) -> Option<Refusal> {
        let at = self.calls.iter().position(|waiting| waiting.token == token)?;
        self.calls.remove(at).map(|waiting| waiting.refusal)
    }

    /// A process has gone, and its calls with it.
    pub fn forget(&mut self, from: ProcessId) {
        self.calls.retain(|waiting| waiting.from != from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::no_memory;
    use crate::store::ObjectNumber;
    use kmt_calls::AdapterCall;

    const STAMP: Stamp = Stamp { returned: Pages(1), free: Pages(2), dying: 3, stopped: false, awake: true };

    fn begin(calls: &mut WaitingCalls, from: u32, token: u64, adapter: u32) {
        let lacking = Lacking {
            adapter: AdapterIndex(adapter),
            lack: Lack::Pages(Pages(1)),
            call: Call::Adapter(AdapterCall::EnumAdapters),
        };
        calls.begin(ProcessId(from), Token(token), lacking, no_memory("none is left"));
    }

    #[test]
    fn calls_go_on_waiting_in_their_order_and_a_process_takes_its_own_along() {
        // spec: memory §6.2
        let mut calls = WaitingCalls::default();
        begin(&mut calls, 1, 10, 0);
        begin(&mut calls, 2, 11, 1);
        begin(&mut calls, 1, 12, 1);
        assert_eq!(calls.adapters().into_iter().collect::<Vec<_>>(), [AdapterIndex(0), AdapterIndex(1)]);
        for waiting in calls.take() {
            assert!(!waiting.was_seen_so(STAMP), "a new call is judged at once");
            calls.go_on(waiting, STAMP);
        }
        calls.forget(ProcessId(2));
        let left: Vec<(Token, bool)> = calls.take().iter().map(|call| (call.token, call.was_seen_so(STAMP))).collect();
        assert_eq!(left, [(Token(10), true), (Token(12), true)]);
        assert!(calls.is_empty());
    }

    #[test]
    fn a_destruction_counts_no_more_when_its_work_has_not_run_for_long_enough() {
        // spec: memory §10.1
        let key = |number| (AdapterIndex(0), DestructionNumber::from_raw(number));
        let mut uses = Uses::default();
        assert_eq!((uses.look_at_ns(), uses.any_stands()), (None, false));
        uses.look(5, [(key(1), 100), (key(2), 0)].into_iter());
        assert_eq!(uses.look_at_ns(), Some(5 + USE_MAX_NS));
        // One has run; another has come.
        let then = 5 + USE_MAX_NS;
        uses.look(then, [(key(1), 101), (key(2), 0), (key(3), 0)].into_iter());
        assert_eq!([1, 2, 3].map(|number| uses.stands(key(number))), [false, true, false]);
        assert_eq!((uses.look_at_ns(), uses.any_stands()), (Some(then + USE_MAX_NS), true));
        uses.look(then + USE_MAX_NS, [(key(1), 101), (key(2), 1), (key(3), 0)].into_iter());
        assert_eq!([1, 2, 3].map(|number| uses.stands(key(number))), [true, false, true]);
        uses.look(then + 2 * USE_MAX_NS, [].into_iter());
        assert_eq!((uses.look_at_ns(), uses.any_stands()), (None, false));
    }

    #[test]
    fn a_destruction_counts_no_more_when_its_work_has_run_for_too_long() {
        // spec: memory §10.1
        let key = (AdapterIndex(0), DestructionNumber::from_raw(1));
        let mut uses = Uses::default();
        let looks = DESTRUCTION_MAX_NS / USE_MAX_NS;
        for look in 0..looks {
            uses.look(5 + look * USE_MAX_NS, [(key, look)].into_iter());
            assert_eq!(uses.look_at_ns(), Some(5 + (look + 1) * USE_MAX_NS));
        }
        uses.look(5 + DESTRUCTION_MAX_NS, [(key, looks)].into_iter());
        assert_eq!((uses.look_at_ns(), uses.stands(key)), (None, true));
    }

    #[test]
    fn only_the_call_that_was_tried_is_noted_as_judged_and_a_wait_is_given_up_once() {
        let mut calls = WaitingCalls::default();
        begin(&mut calls, 1, 10, 0);
        begin(&mut calls, 1, 11, 2);
        assert_eq!((calls.newest(Token(11)), calls.newest(Token(10))), (Some(AdapterIndex(2)), None));
        calls.tried(Token(10), STAMP, Uses::default());
        calls.tried(Token(11), STAMP, Uses::default());
        assert_eq!(calls.calls.iter().map(|call| call.was_seen_so(STAMP)).collect::<Vec<_>>(), [false, true]);
        assert!(calls.give_up(Token(10)).is_some() && calls.give_up(Token(10)).is_none());
    }
}
