//! Calls that lack memory which pending destructions give back: the machine answers them later.
//!
//! # The law of this boundary
//! CreateAllocation and CreateSection are refused for want of memory only where every pending destruction together would not give back
//! enough. Else the call waits:
//!
//! | a call lacks | pending destructions give back |
//! |---|---|
//! | system pages of an adapter | backing stores of destroyed allocations, their instances too, that queued work may still use or the paging ring has not got past; sections that only such allocations keep |
//! | committed bytes or memory files of its process or account | those of destroyed allocations that are not buried, and of such sections |
//!
//! A call that waits has changed nothing, and delays no other call: calls that fit go on. The machine tries waiting calls again,
//! oldest first, when memory has returned, and asks the hardware to tell of it. A call ends with its process. It waits as long as
//! the destructions do: a process that holds back the work that its own destruction stands behind waits for itself, as with
//! SynchronousDestroy.
// spec: memory §6.2

use std::collections::{BTreeMap, BTreeSet};

use gpu_fence::WaitMode;
use kmt_calls::{Call, Refusal};
use wddm_types::{AdapterIndex, PAGE_BYTES, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::due::Waiter;
use crate::effect::{Answer, Cx, Effect, Token};
use crate::machine::Machine;
use crate::number::SectionNumber;
use crate::quota::{Committed, Kind, OverQuota};

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

/// A call that waits.
pub struct Waiting {
    from: ProcessId,
    token: Token,
    lacking: Lacking,
    /// Its answer if its wait is given up.
    refusal: Refusal,
    /// How the adapter's memory stood when the call was tried last.
    seen: Option<Stamp>,
}

/// How the memory of an adapter stands: a waiting call is judged anew when this has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    returned: Pages,
    free: Pages,
    dying: usize,
    stopped: bool,
}

impl Machine {
    /// Whether pending destructions give back enough of what a call lacks.
    pub(crate) fn is_coming(&self, cx: &Cx<'_>, from: ProcessId, lacking: &Lacking) -> bool {
        let adapter = &self.adapters[lacking.adapter.0 as usize];
        if adapter.life.has_stopped() {
            return false;
        }
        let sections = self.ending_sections();
        match lacking.lack {
            Lack::Pages(wanted) => {
                let of_adapter = sections.iter().filter_map(|number| self.sections.get(*number));
                let of_adapter = of_adapter.filter(|section| section.creator() == lacking.adapter);
                let of_sections: u64 = of_adapter.map(|section| section.size_bytes() / PAGE_BYTES).sum();
                let coming = adapter.vidmm.returning_pages().0 + adapter.dying_instance_pages() + of_sections;
                coming > 0 && adapter.vidmm.can_back(Pages(wanted.0.saturating_sub(coming)))
            }
            Lack::Quota(kind, wanted) => {
                let mut ending: BTreeMap<ProcessId, Committed> = BTreeMap::new();
                let mut add = |process, bytes, files| {
                    let of_process = ending.entry(process).or_default();
                    of_process.bytes += bytes;
                    of_process.files += files;
                };
                for adapter in &self.adapters {
                    let files = adapter.files_of_one(cx);
                    adapter.each_ending(|process, bytes| add(process, bytes, files));
                }
                for section in sections.iter().filter_map(|number| self.sections.get(*number)) {
                    add(section.process(), section.size_bytes(), 1);
                }
                !ending.is_empty() && self.fits_behind(cx, from, kind, wanted, &ending)
            }
        }
    }

    /// A call waits for what it lacks.
    pub(crate) fn wait_for_memory(&mut self, from: ProcessId, token: Token, lacking: Lacking, refusal: Refusal) {
        self.lacking.push_back(Waiting { from, token, lacking, refusal, seen: None });
    }

    /// Counts a call that waits beyond the turn that it was made in.
    pub(crate) fn count_lacking(&mut self, token: Token) {
        if let Some(waiting) = self.lacking.back().filter(|waiting| waiting.token == token) {
            self.adapters[waiting.lacking.adapter.0 as usize].tally.creation_waits();
        }
    }

    /// Ends the wait of a call that lacks memory: the caller knows that nothing will happen any more that could end the destructions.
    /// `None`: this call waits for something else, or not at all.
    pub fn give_up_memory(&mut self, token: Token) -> Option<Refusal> {
        let at = self.lacking.iter().position(|waiting| waiting.token == token)?;
        self.lacking.remove(at).map(|waiting| waiting.refusal)
    }

    /// A process has gone, and its calls with it.
    pub(crate) fn forget_lacking(&mut self, from: ProcessId) {
        self.lacking.retain(|waiting| waiting.from != from);
    }

    /// Tries waiting calls again, oldest first, where memory has returned or none is coming any more.
    pub(crate) fn retry_lacking(&mut self, cx: &mut Cx<'_>) {
        while !self.lacking.is_empty() {
            let wanted: BTreeSet<AdapterIndex> = self.lacking.iter().map(|waiting| waiting.lacking.adapter).collect();
            for index in wanted {
                let adapter = &mut self.adapters[index.0 as usize];
                adapter.watch_destructions(cx);
                adapter.settle(cx);
            }
            self.carry_news(cx);
            let mut tried = false;
            for mut waiting in std::mem::take(&mut self.lacking) {
                let stamp = self.adapters[waiting.lacking.adapter.0 as usize].memory_stamp();
                if waiting.seen == Some(stamp) {
                    self.lacking.push_back(waiting);
                    continue;
                }
                let fits = match waiting.lacking.lack {
                    // A call that did not fit though there were pages enough asks for them in one piece.
                    Lack::Pages(wanted) => self.adapters[waiting.lacking.adapter.0 as usize].vidmm.can_back(wanted),
                    Lack::Quota(kind, wanted) => self.room_of(cx, waiting.from, &[kind]).left(kind) >= wanted,
                };
                if !fits && self.is_coming(cx, waiting.from, &waiting.lacking) {
                    waiting.seen = Some(stamp);
                    self.lacking.push_back(waiting);
                    continue;
                }
                tried = true;
                let Waiting { from, token, lacking, .. } = waiting;
                if let Answer::Done(result) = crate::call::dispatch(self, cx, from, token, lacking.call) {
                    cx.effects.push(Effect::Answer { token, result });
                }
                self.carry_news(cx);
                // The call may wait again: it is judged anew when something has changed since.
                if let Some(again) = self.lacking.back_mut().filter(|again| again.token == token) {
                    again.seen = Some(stamp);
                }
            }
            if !tried {
                break;
            }
        }
    }

    /// Sections whose handles are closed and whose allocations are all destroyed.
    fn ending_sections(&self) -> Vec<SectionNumber> {
        let mut leaving: BTreeMap<SectionNumber, u32> = BTreeMap::new();
        for adapter in &self.adapters {
            for section in adapter.ending_uses_of_sections() {
                *leaving.entry(section).or_default() += 1;
            }
        }
        let ends = |(number, uses): (SectionNumber, u32)| {
            let section = self.sections.get(number)?;
            (section.holder().is_none() && section.users() == uses).then_some(number)
        };
        leaving.into_iter().filter_map(ends).collect()
    }
}

impl Adapter {
    /// How the adapter's memory stands.
    pub(crate) fn memory_stamp(&self) -> Stamp {
        Stamp {
            returned: self.vidmm.returned_pages(),
            free: self.vidmm.free_system_pages(),
            dying: self.memory.allocations.destructions(),
            stopped: self.life.has_stopped(),
        }
    }

    /// Has the hardware tell when pending destructions are over: else the kernel finds them so with some later turn.
    fn watch_destructions(&mut self, cx: &mut Cx<'_>) {
        for after in self.memory.allocations.watch() {
            if self.begin_wait(cx, &after, WaitMode::All, Waiter::Burial) {
                self.due.wait_ended(Waiter::Burial);
            }
        }
        self.memory.ring.watch_returns();
    }

    /// Calls `each` with the creator and the bytes of what it has committed and pending destructions give back.
    fn each_ending(&self, mut each: impl FnMut(ProcessId, u64)) {
        for binding in self.memory.allocations.ending() {
            let body = self.memory.allocations.body_of(binding.vidmm);
            if body.section.is_none() {
                each(body.creator, self.vidmm.allocation_bytes(binding.vidmm));
            }
            for instance in binding.renaming.former() {
                each(body.creator, self.vidmm.allocation_bytes(instance.vidmm));
            }
        }
    }

    /// Pages behind former instances of destroyed allocations: the memory manager does not know yet that they go.
    fn dying_instance_pages(&self) -> u64 {
        let former = self.memory.allocations.ending().flat_map(|binding| binding.renaming.former());
        former.map(|instance| self.vidmm.allocation_bytes(instance.vidmm) / PAGE_BYTES).sum()
    }

    /// The sections of destroyed allocations, one item for each allocation that is on its way out of it.
    fn ending_uses_of_sections(&self) -> impl Iterator<Item = SectionNumber> {
        let destroyed = self
            .memory
            .allocations
            .ending()
            .filter_map(|binding| self.memory.allocations.body_of(binding.vidmm).section);
        destroyed.chain(self.memory.ring.leaving_sections()).chain(self.due.left_sections())
    }
}
