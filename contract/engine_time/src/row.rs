//! A band, or a level of the realtime band: the turns of its processes, and inside of each those of its contexts.

use std::collections::{BTreeMap, BTreeSet};

use crate::debt::{Debt, Share};
use crate::policy::Policy;
use crate::rank::Contender;
use crate::rota::Rota;

/// Cost of a nanosecond to a process of weight 1.
const COST: u64 = 60;

pub(crate) struct Row<C> {
    processes: Rota<u64>,
    inside: BTreeMap<u64, Inside<C>>,
}

/// One process.
pub(crate) struct Inside<C> {
    /// By in-process priority.
    equals: BTreeMap<i32, Rota<C>>,
    /// Of lower priorities, while they are owed.
    low: Rota<C>,
    pub(crate) debt: Debt,
}

impl<C> Default for Row<C> {
    fn default() -> Self {
        Row { processes: Rota::default(), inside: BTreeMap::new() }
    }
}

impl<C> Default for Inside<C> {
    fn default() -> Self {
        Inside { equals: BTreeMap::new(), low: Rota::default(), debt: Debt::default() }
    }
}

impl<C: Copy + Ord> Row<C> {
    /// Notes the contexts that are present in it.
    pub(crate) fn attend(&mut self, present: &[Contender<C>]) {
        let processes: BTreeSet<u64> = present.iter().map(|one| one.rank.process).collect();
        for process in &processes {
            self.inside.entry(*process).or_default();
        }
        self.processes.attend(&processes.iter().copied().collect::<Vec<_>>());
        let known = &self.processes;
        self.inside.retain(|process, _| known.knows(*process));
        for (process, inside) in &mut self.inside {
            let mine: Vec<_> = present.iter().filter(|one| one.rank.process == *process).copied().collect();
            inside.attend(&mine);
        }
    }

    /// The context of those present that should have the engine.
    pub(crate) fn pick(&self, present: &[Contender<C>], policy: &Policy) -> Option<Contender<C>> {
        let band = present.first()?.rank.band;
        let mut processes: Vec<u64> = present.iter().map(|one| one.rank.process).collect();
        processes.dedup();
        let process = self.processes.pick(&processes, |_| policy.band(band).process_quantum_ns)?;
        let mine: Vec<_> = present.iter().filter(|one| one.rank.process == process).copied().collect();
        self.inside[&process].pick(&mine)
    }

    /// A context has the engine, and should; if its quantum was over while others wanted the engine, it begins another.
    pub(crate) fn begin(&mut self, holder: Contender<C>, present: &[Contender<C>], policy: &Policy) {
        let (process, quantum_ns) = (holder.rank.process, policy.band(holder.rank.band).process_quantum_ns);
        let others = present.iter().any(|one| one.rank.process != process);
        let over = self.processes.left_ns(process, quantum_ns) == 0;
        self.processes.begin(process, others && over);
        let mine: Vec<_> = present.iter().filter(|one| one.rank.process == process).copied().collect();
        self.inside.entry(process).or_default().begin(holder, &mine);
    }

    /// A context has taken the engine, whether it should have it or not: it has the turn.
    pub(crate) fn taken(&mut self, holder: Contender<C>) {
        self.processes.begin(holder.rank.process, false);
        let inside = self.inside.entry(holder.rank.process).or_default();
        inside.equals.entry(holder.rank.in_process).or_default().begin(holder.context, false);
    }

    /// A context had the engine for so long; `low`: because lower priorities are owed. `starved`: lower ones waited meanwhile.
    pub(crate) fn charge(&mut self, holder: Contender<C>, ns: u64, low: bool, starved: bool, policy: &Policy) {
        let cost = ns.saturating_mul(COST) / u64::from(holder.rank.weight.max(1));
        self.processes.charge(holder.rank.process, ns, cost);
        let inside = self.inside.entry(holder.rank.process).or_default();
        let share = inner(policy);
        match low {
            true => {
                inside.low.charge(holder.context, ns, ns);
                inside.debt.pay(ns, share);
            }
            false => inside.equals.entry(holder.rank.in_process).or_default().charge(holder.context, ns, ns),
        }
        if starved {
            inside.debt.grow(ns, share);
        }
    }

    /// How long the holder still has before a context of its row takes over, if those present wait on.
    pub(crate) fn left_ns(&self, holder: Contender<C>, present: &[Contender<C>], policy: &Policy) -> Option<u64> {
        let process = holder.rank.process;
        let quantum_ns = policy.band(holder.rank.band).process_quantum_ns;
        let others = present.iter().any(|one| one.rank.process != process);
        let turn = others.then(|| self.processes.left_ns(process, quantum_ns));
        let Some(inside) = self.inside.get(&process) else { return turn };
        let mine: Vec<_> = present.iter().filter(|one| one.rank.process == process).copied().collect();
        [turn, inside.left_ns(holder, &mine, policy)].into_iter().flatten().min()
    }

    /// Whether the holder has the engine because lower priorities of its process are owed.
    pub(crate) fn is_low(&self, holder: Contender<C>, present: &[Contender<C>]) -> bool {
        let above = |one: &Contender<C>| {
            one.rank.process == holder.rank.process && one.rank.in_process > holder.rank.in_process
        };
        self.inside.get(&holder.rank.process).is_some_and(|inside| inside.debt.owed) && present.iter().any(above)
    }

    /// Whether no process is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }
}

impl<C: Copy + Ord> Inside<C> {
    fn attend(&mut self, mine: &[Contender<C>]) {
        for one in mine {
            self.equals.entry(one.rank.in_process).or_default();
        }
        for (priority, rota) in &mut self.equals {
            let here = mine.iter().filter(|one| one.rank.in_process == *priority);
            rota.attend(&here.map(|one| one.context).collect::<Vec<_>>());
        }
        self.equals.retain(|_, rota| !rota.is_empty());
        self.low.attend(&lower(mine).map(|one| one.context).collect::<Vec<_>>());
    }

    fn pick(&self, mine: &[Contender<C>]) -> Option<Contender<C>> {
        let quantum_ns = |context: C| {
            let found = mine.iter().find(|one| one.context == context);
            found.map_or(0, |one| one.quanta.quantum_ns)
        };
        let low: Vec<C> = lower(mine).map(|one| one.context).collect();
        let picked = match self.debt.owed && !low.is_empty() {
            true => self.low.pick(&low, quantum_ns),
            false => {
                let top = mine.iter().map(|one| one.rank.in_process).max()?;
                let equals = mine.iter().filter(|one| one.rank.in_process == top);
                self.equals.get(&top)?.pick(&equals.map(|one| one.context).collect::<Vec<_>>(), quantum_ns)
            }
        }?;
        mine.iter().find(|one| one.context == picked).copied()
    }

    fn begin(&mut self, holder: Contender<C>, mine: &[Contender<C>]) {
        let low = lower(mine).any(|one| one.context == holder.context);
        let (rota, others) = match self.debt.owed && low {
            true => (&mut self.low, lower(mine).any(|one| one.context != holder.context)),
            false => {
                let equal = |one: &Contender<C>| one.rank.in_process == holder.rank.in_process;
                let others = mine.iter().any(|one| equal(one) && one.context != holder.context);
                (self.equals.entry(holder.rank.in_process).or_default(), others)
            }
        };
        let over = rota.left_ns(holder.context, holder.quanta.quantum_ns) == 0;
        rota.begin(holder.context, others && over);
    }

    fn left_ns(&self, holder: Contender<C>, mine: &[Contender<C>], policy: &Policy) -> Option<u64> {
        let share = inner(policy);
        let quantum_ns = holder.quanta.quantum_ns;
        if self.debt.owed && lower(mine).any(|one| one.context == holder.context) {
            let others = lower(mine).any(|one| one.context != holder.context);
            let turn = others.then(|| self.low.left_ns(holder.context, quantum_ns));
            return [turn, Some(self.debt.paid_in(share))].into_iter().flatten().min();
        }
        let equal = |one: &Contender<C>| one.rank.in_process == holder.rank.in_process;
        let others = mine.iter().any(|one| equal(one) && one.context != holder.context);
        let turn = others.then(|| self.equals.get(&holder.rank.in_process)?.left_ns(holder.context, quantum_ns).into());
        let starved = mine.iter().any(|one| one.rank.in_process < holder.rank.in_process);
        let owed = starved.then(|| self.debt.owed_in(share));
        [turn.flatten(), owed.flatten()].into_iter().flatten().min()
    }
}

/// The contexts of a process that rank below its highest.
fn lower<C: Copy>(mine: &[Contender<C>]) -> impl Iterator<Item = &Contender<C>> {
    let top = mine.iter().map(|one| one.rank.in_process).max();
    mine.iter().filter(move |one| Some(one.rank.in_process) < top)
}

fn inner(policy: &Policy) -> Share {
    Share { permille: u64::from(policy.inner_permille.min(999)), slice_ns: policy.inner_slice_ns }
}
