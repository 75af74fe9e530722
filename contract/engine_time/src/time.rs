//! The rule for one engine: it charges the holder for the time, and compares the holder with the contexts that want the engine.

use std::collections::BTreeMap;

use crate::debt::{Debt, Share};
use crate::policy::{Band, Policy};
use crate::rank::{Contender, Rank};
use crate::row::Row;

/// The context that should have an engine.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who<C> {
    /// No context wants the engine.
    NoContender,
    /// The engine is free, and this context should take it.
    Takes(C),
    /// The holder should keep it.
    KeepsIt,
    /// The holder should leave it to another context.
    GivesWay {
        /// The context that is next.
        to: C,
        /// From this time on the caller interrupts the running work. Until then the work may end by itself, and the holder begins no
        /// more.
        from_ns: u64,
    },
}

/// An answer, and how long it holds.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<C> {
    /// The context that should have the engine.
    pub who: Who<C>,
    /// When to ask again, if no context comes or goes before.
    pub again_ns: Option<u64>,
}

/// One engine's time.
pub struct EngineTime<C> {
    policy: Policy,
    rows: BTreeMap<(Band, u8), Row<C>>,
    /// The debts to NORMAL and IDLE.
    normal: Debt,
    idle: Debt,
    held: Option<Holder<C>>,
    /// All use has been charged until then.
    charged_ns: u64,
}

/// The holder of the engine, as of the last question.
struct Holder<C> {
    by: Contender<C>,
    /// Because lower priorities of its process are owed.
    low: bool,
    /// Since when another context should have it.
    challenged_ns: Option<u64>,
    /// The contexts that wait meanwhile.
    starved: Starved,
}

/// Whether contexts that rank below the holder wait: in NORMAL, in IDLE, in its own process.
#[derive(Clone, Copy, Default)]
struct Starved {
    normal: bool,
    idle: bool,
    inner: bool,
}

impl<C: Copy + Ord> EngineTime<C> {
    /// Of an engine that no context has used.
    pub fn new(policy: Policy) -> Self {
        let (normal, idle) = (Debt::default(), Debt::default());
        EngineTime { policy, rows: BTreeMap::new(), normal, idle, held: None, charged_ns: 0 }
    }

    /// Other numbers from the next question on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Tells which context should have the engine, when `holder` has it and `ready` want it; the holder may be among them. Each context
    /// is there once. The caller asks whenever a context comes, goes, or has taken the engine, and when the time of the last answer has
    /// come.
    // spec: sync §4.2
    pub fn ask(&mut self, now_ns: u64, holder: Option<Contender<C>>, ready: &[Contender<C>]) -> Verdict<C> {
        self.charge(now_ns);
        let mut present = ready.to_vec();
        if let Some(holder) = holder {
            match present.iter_mut().find(|one| one.context == holder.context) {
                Some(known) => *known = holder,
                None => present.push(holder),
            }
        }
        // The same question has the same answer in whatever order they are named.
        present.sort_by_key(|one| (one.rank.process, one.context));
        self.attend(&present);
        self.take_note(holder, &present);
        let Some(best) = self.best(&present) else {
            return Verdict { who: Who::NoContender, again_ns: None };
        };
        let Some(holder) = holder else {
            self.begin(best, &present);
            return Verdict { who: Who::Takes(best.context), again_ns: None };
        };
        let verdict = if best.context == holder.context {
            self.begin(holder, &present);
            let again_ns = self.left_ns(holder, &present).map(|left| now_ns.saturating_add(left.max(1)));
            Verdict { who: Who::KeepsIt, again_ns }
        } else {
            let held = self.held.as_mut().expect("the holder has been noted");
            let since_ns = *held.challenged_ns.get_or_insert(now_ns);
            let from_ns = since_ns.saturating_add(grace_ns(best, holder, &self.policy));
            let who = Who::GivesWay { to: best.context, from_ns };
            Verdict { who, again_ns: (from_ns > now_ns).then_some(from_ns) }
        };
        let low = self.rows.get(&holder.rank.row()).is_some_and(|row| row.is_low(holder, &present));
        let starved = starved(holder, &present);
        let held = self.held.as_mut().expect("the holder has been noted");
        (held.low, held.starved) = (low, starved);
        if verdict.who == Who::KeepsIt {
            held.challenged_ns = None;
        }
        verdict
    }

    /// Decides nothing: charges the last holder, and notes that `holder` has the engine from now on.
    pub fn passes(&mut self, now_ns: u64, holder: Option<Contender<C>>) {
        self.charge(now_ns);
        self.take_note(holder, &[]);
    }

    /// Charges the holder for the time, and has the debts to waiting bands grow.
    fn charge(&mut self, now_ns: u64) {
        let ns = now_ns.saturating_sub(self.charged_ns);
        self.charged_ns = self.charged_ns.max(now_ns);
        let Some(held) = &self.held else { return };
        let row = self.rows.entry(held.by.rank.row()).or_default();
        row.charge(held.by, ns, held.low, held.starved.inner, &self.policy);
        let (normal, idle) = (normal(&self.policy), idle(&self.policy));
        match held.by.rank.band {
            Band::Normal => self.normal.pay(ns, normal),
            Band::Idle => self.idle.pay(ns, idle),
            Band::Focus | Band::Realtime => {}
        }
        if held.starved.normal {
            self.normal.grow(ns, normal);
        }
        if held.starved.idle {
            self.idle.grow(ns, idle);
        }
    }

    fn attend(&mut self, present: &[Contender<C>]) {
        for one in present {
            self.rows.entry(one.rank.row()).or_default();
        }
        for (row, known) in &mut self.rows {
            let here: Vec<_> = present.iter().filter(|one| one.rank.row() == *row).copied().collect();
            known.attend(&here);
        }
        self.rows.retain(|_, row| !row.is_empty());
    }

    /// Notes the holder of the engine.
    fn take_note(&mut self, holder: Option<Contender<C>>, present: &[Contender<C>]) {
        let Some(by) = holder else {
            self.held = None;
            return;
        };
        let same = self.held.as_ref().is_some_and(|held| held.by.context == by.context);
        let challenged_ns = self.held.as_ref().filter(|_| same).and_then(|held| held.challenged_ns);
        if !same {
            let row = self.rows.entry(by.rank.row()).or_default();
            row.taken(by);
        }
        let low = self.rows.get(&by.rank.row()).is_some_and(|row| row.is_low(by, present));
        self.held = Some(Holder { by, low, challenged_ns, starved: Starved::default() });
    }

    fn best(&self, present: &[Contender<C>]) -> Option<Contender<C>> {
        let top = present.iter().map(|one| self.tier(one.rank)).max()?;
        let equals: Vec<_> = present.iter().filter(|one| self.tier(one.rank) == top).copied().collect();
        self.rows.get(&equals.first()?.rank.row())?.pick(&equals, &self.policy)
    }

    fn begin(&mut self, holder: Contender<C>, present: &[Contender<C>]) {
        let row = holder.rank.row();
        let here: Vec<_> = present.iter().filter(|one| one.rank.row() == row).copied().collect();
        self.rows.entry(row).or_default().begin(holder, &here, &self.policy);
    }

    /// The tier of a rank: the greatest goes first.
    fn tier(&self, rank: Rank) -> (u8, u8) {
        match rank.band {
            Band::Realtime => (4, rank.level),
            Band::Normal if self.normal.owed => (3, 1),
            Band::Idle if self.idle.owed => (3, 0),
            Band::Focus => (2, 0),
            Band::Normal => (1, 0),
            Band::Idle => (0, 0),
        }
    }

    /// How long the holder, if it should have the engine, keeps it while those present wait on.
    fn left_ns(&self, holder: Contender<C>, present: &[Contender<C>]) -> Option<u64> {
        let row = holder.rank.row();
        let here: Vec<_> = present.iter().filter(|one| one.rank.row() == row).copied().collect();
        let turn = self.rows.get(&row).and_then(|known| known.left_ns(holder, &here, &self.policy));
        let starved = starved(holder, present);
        let above = present.iter().any(|one| one.rank.band > holder.rank.band);
        let (normal, idle) = (normal(&self.policy), idle(&self.policy));
        // IDLE follows NORMAL when both are owed, even if no band ranks above.
        let follows = starved.idle && self.idle.owed;
        let paid = match holder.rank.band {
            Band::Normal if (above || follows) && self.normal.owed => Some(self.normal.paid_in(normal)),
            Band::Idle if above && self.idle.owed => Some(self.idle.paid_in(idle)),
            _ => None,
        };
        let owed_normal = starved.normal.then(|| self.normal.owed_in(normal)).flatten();
        let owed_idle = starved.idle.then(|| self.idle.owed_in(idle)).flatten();
        [turn, paid, owed_normal, owed_idle].into_iter().flatten().min()
    }
}

fn starved<C: Copy + Ord>(holder: Contender<C>, present: &[Contender<C>]) -> Starved {
    let waits = |band: Band| present.iter().any(|one| one.rank.band == band);
    let by = holder.rank;
    let inner = |one: &Contender<C>| {
        one.rank.row() == by.row() && one.rank.process == by.process && one.rank.in_process < by.in_process
    };
    Starved {
        normal: by.band == Band::Focus && waits(Band::Normal),
        idle: matches!(by.band, Band::Normal | Band::Focus) && waits(Band::Idle),
        inner: present.iter().any(inner),
    }
}

/// How long `better` waits before `holder` is interrupted for it.
// spec: sync §2.5, sync §4.2
fn grace_ns<C>(better: Contender<C>, holder: Contender<C>, policy: &Policy) -> u64 {
    let terms = policy.band(better.rank.band);
    if better.rank.row() != holder.rank.row() {
        // The idle band never preempts by its rank; when it is owed it has waited long enough.
        return if better.rank.band == Band::Idle { 0 } else { terms.grace_ns };
    }
    if better.rank.process != holder.rank.process {
        return terms.process_grace_ns;
    }
    let higher = better.rank.in_process > holder.rank.in_process;
    if higher { better.quanta.grace_lower_ns } else { better.quanta.grace_same_ns }
}

fn normal(policy: &Policy) -> Share {
    Share { permille: u64::from(policy.normal_percent.min(50)) * 10, slice_ns: policy.normal_slice_ns }
}

fn idle(policy: &Policy) -> Share {
    Share { permille: u64::from(policy.idle_permille.min(999)), slice_ns: policy.idle_slice_ns }
}

#[cfg(test)]
mod tests;
