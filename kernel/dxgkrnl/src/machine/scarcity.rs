//! The machine judges the calls that lack memory: by what adapters and sections are about to give back, and by what they have (the law
//! is `crate::scarcity`'s).

use std::collections::BTreeMap;

use kmt_calls::Refusal;
use wddm_types::{PAGE_BYTES, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::effect::{Answer, Cx, Effect, Token};
use crate::machine::Machine;
use crate::number::SectionNumber;
use crate::quota::Committed;
use crate::scarcity::{Lack, Lacking, Uses, Waiting};

impl Machine {
    /// Whether pending destructions give back enough of what a call lacks, without those that the call has waited for long enough.
    pub(crate) fn is_coming(&self, from: ProcessId, lacking: &Lacking, uses: &Uses) -> bool {
        let adapter = &self.adapters[lacking.adapter];
        if adapter.has_stopped() {
            return false;
        }
        let sections = self.ending_sections(uses);
        match lacking.lack {
            Lack::Pages(wanted) => {
                let of_adapter = sections.iter().filter_map(|number| self.sections.get(*number));
                let of_adapter = of_adapter.filter(|section| section.creator() == lacking.adapter);
                let of_sections: u64 = of_adapter.map(|section| section.size_bytes() / PAGE_BYTES).sum();
                let coming = adapter.returning_pages(|number| uses.stands((lacking.adapter, number))) + of_sections;
                coming > 0 && adapter.can_back(Pages(wanted.0.saturating_sub(coming)))
            }
            Lack::Quota(kind, wanted) => {
                let mut ending: BTreeMap<ProcessId, Committed> = BTreeMap::new();
                // Allocations lie in no files of their own.
                let mut add = |process, bytes, pieces| {
                    let of_process = ending.entry(process).or_default();
                    of_process.bytes += bytes;
                    of_process.pieces += pieces;
                };
                for adapter in self.adapters.iter() {
                    let stands = |number| uses.stands((adapter.index(), number));
                    adapter.each_ending(stands, |process, bytes| add(process, bytes, 0));
                }
                for section in sections.iter().filter_map(|number| self.sections.get(*number)) {
                    add(section.process(), section.size_bytes(), 1);
                }
                !ending.is_empty() && self.fits_behind(from, kind, wanted, &ending)
            }
        }
    }

    /// A call waits for what it lacks.
    pub(crate) fn wait_for_memory(&mut self, from: ProcessId, token: Token, lacking: Lacking, refusal: Refusal) {
        self.lacking.begin(from, token, lacking, refusal);
    }

    /// Counts a call that waits beyond the turn that it was made in.
    pub(crate) fn count_lacking(&mut self, token: Token) {
        if let Some(adapter) = self.lacking.newest(token) {
            // A count leaves nothing to settle, and the turn has ended.
            self.adapters.untouched()[adapter.0 as usize].creation_waits();
        }
    }

    /// Ends the wait of a call that lacks memory: the caller knows that nothing will happen any more that could end the destructions.
    /// `None`: this call waits for something else, or not at all.
    pub fn give_up_memory(&mut self, token: Token) -> Option<Refusal> {
        self.lacking.give_up(token)
    }

    /// Tries waiting calls again, oldest first, where memory has returned or none is coming any more.
    pub(crate) fn retry_lacking(&mut self, cx: &mut Cx<'_>) {
        while !self.lacking.is_empty() {
            for index in self.lacking.adapters() {
                let adapter = &mut self.adapters[index];
                adapter.watch_destructions(cx);
            }
            self.carry_news(cx);
            let mut tried = false;
            for mut waiting in self.lacking.take() {
                let stamp = self.adapters[waiting.lacking.adapter].memory_stamp();
                let is_due = waiting.uses.look_at_ns().is_some_and(|at| at <= cx.now_ns);
                if waiting.was_seen_so(stamp) && !is_due {
                    self.lacking.go_on(waiting, stamp);
                    continue;
                }
                self.look_at_uses(cx, &mut waiting);
                let comes = self.is_coming(waiting.from, &waiting.lacking, &waiting.uses);
                if comes && !self.fits(&waiting) {
                    self.lacking.go_on(waiting, stamp);
                    continue;
                }
                tried = true;
                let Waiting { from, token, lacking, uses, .. } = waiting;
                let mut answer = crate::call::dispatch(self, cx, from, token, lacking.call);
                if !comes && uses.any_stands() && matches!(answer, Answer::Later(_)) {
                    // What the call waits for stands for as long as another process likes.
                    answer = self.lacking.give_up(token).map_or(answer, |refusal| Answer::Done(Err(refusal)));
                }
                if let Answer::Done(result) = answer {
                    cx.effects.push(Effect::Answer { token, result });
                }
                self.carry_news(cx);
                self.lacking.tried(token, stamp, uses);
            }
            if !tried {
                break;
            }
        }
    }

    /// Looks how long the hardware has run the work behind which destructions of other processes stand.
    fn look_at_uses(&mut self, cx: &Cx<'_>, waiting: &mut Waiting) {
        let from = waiting.from;
        let of = |adapter: &mut Adapter| {
            let index = adapter.index();
            adapter.destructions_of_others(cx, from).into_iter().map(move |(number, ran)| ((index, number), ran))
        };
        waiting.uses.look(cx.now_ns, self.adapters.untouched().iter_mut().flat_map(of));
    }

    /// Whether a call fits now.
    fn fits(&self, waiting: &Waiting) -> bool {
        match waiting.lacking.lack {
            // A call that did not fit though there were pages enough asks for them in one piece.
            Lack::Pages(wanted) => self.adapters[waiting.lacking.adapter].can_back(wanted),
            Lack::Quota(kind, wanted) => self.room_of(waiting.from, &[kind]).left(kind) >= wanted,
        }
    }

    /// Sections whose handles are closed and whose allocations are all destroyed.
    fn ending_sections(&self, uses: &Uses) -> Vec<SectionNumber> {
        let mut leaving: BTreeMap<SectionNumber, u32> = BTreeMap::new();
        for adapter in self.adapters.iter() {
            for section in adapter.ending_uses_of_sections(|number| uses.stands((adapter.index(), number))) {
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
