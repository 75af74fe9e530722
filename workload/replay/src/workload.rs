//! A recorded workload as a value: storages, operations, deaths, and the measures that users ask for first.
//!
//! Not a file format (`rrs`, `chakra`) and not a sequence of steps (`steps`). Built by the importers through
//! [`Workload::new`], which is the only door: behind it every index is in range, nothing is used after its death,
//! nothing dies twice, and all sizes together fit 64 bits.

use crate::{Fault, Import, StepEvent, Steps};

/// One recorded step of a real program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    name: String,
    source: SourceKind,
    storages: Vec<Storage>,
    lifetimes: Vec<Lifetime>,
    op_names: Vec<String>,
    events: Vec<Event>,
    import: Import,
}

/// Where a workload came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A residency reference string: recorded exactly.
    ReferenceString,
    /// A PyTorch execution trace: sizes and deaths are derived.
    ExecutionTrace,
}

/// A piece of memory that a program allocated as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    /// Its size in bytes; may be zero, then no operation's sets mention it.
    pub bytes: u64,
    /// Alive before the step began (weights, optimiser state, inputs).
    pub persistent: bool,
}

/// A storage's life within one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Alive before the step and after it: one identity over all steps.
    Kept,
    /// Alive before the step, dies in it: comes anew, with content, at the beginning of every step.
    Brought,
    /// Born at its first use, dies in the step.
    Passing,
    /// Born at its first use, alive when the step ends, dies when the next one begins (gradients).
    LeftOver,
    /// Never used, or of no size: has no life at all.
    Unused,
}

/// One event of a step, with indices into [`Workload::storages`] and [`Workload::op_names`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An operation: everything that it reads and writes must be resident together. Both sets are ascending and
    /// free of doubles; they may overlap. An operation on empty storages only keeps its place with empty sets.
    Op {
        /// The adapter that it names, from 0; `None`: it leaves that open.
        adapter: Option<u32>,
        /// Index of its name.
        name: u32,
        /// Storages read.
        reads: Vec<u32>,
        /// Storages written.
        writes: Vec<u32>,
    },
    /// The program gave the storage back.
    Death(u32),
}

impl Workload {
    /// Judges and builds a workload.
    ///
    /// # Errors
    /// The [`Fault`] with the first event or storage that contradicts the rest.
    pub fn new(
        name: String,
        source: SourceKind,
        storages: Vec<Storage>,
        op_names: Vec<String>,
        events: Vec<Event>,
    ) -> Result<Workload, Fault> {
        judge_sizes(&storages, &op_names)?;
        let lifetimes = judge_lives(&storages, op_names.len(), &events)?;
        let events = without_empty(&storages, events);
        Ok(Workload { name, source, storages, lifetimes, op_names, events, import: Import::exact() })
    }

    /// With recorded times: nanoseconds that an operation takes with memory enough, by its number in the step.
    #[must_use]
    pub fn op_ns(&self, op_index: u32) -> Option<u64> {
        self.import().op_ns.as_ref()?.get(op_index as usize).copied()
    }

    /// With recorded times: nanoseconds that the first `ops` operations of joined steps take with memory enough; saturates.
    #[must_use]
    pub fn recorded_ns(&self, ops: u64) -> Option<u64> {
        let times = self.import().op_ns.as_ref().filter(|times| !times.is_empty())?;
        let (steps, rest) = (ops / times.len() as u64, ops % times.len() as u64);
        let sum = |times: &[u64]| times.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
        // CAST: fewer than the operations of a step.
        Some(sum(times).saturating_mul(steps).saturating_add(sum(&times[..rest as usize])))
    }

    /// The workload with its importer's account of the recording.
    #[must_use]
    pub fn with_import(self, import: Import) -> Workload {
        Workload { import, ..self }
    }

    /// How the recording became this workload, and which work was left out.
    #[must_use]
    pub fn import(&self) -> &Import {
        &self.import
    }

    /// The name in the recording, or else the file's name without its suffixes.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it came from.
    #[must_use]
    pub fn source(&self) -> SourceKind {
        self.source
    }

    /// All storages; events name them by index.
    #[must_use]
    pub fn storages(&self) -> &[Storage] {
        &self.storages
    }

    /// The life of each storage within a step; same indices as [`Workload::storages`].
    #[must_use]
    pub fn lifetimes(&self) -> &[Lifetime] {
        &self.lifetimes
    }

    /// Names of operations; events name them by index.
    #[must_use]
    pub fn op_names(&self) -> &[String] {
        &self.op_names
    }

    /// The events of one step, in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Number of operations in one step.
    #[must_use]
    pub fn ops(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Op { .. })).count()
    }

    /// Bytes that are alive before the step begins.
    #[must_use]
    pub fn persistent_bytes(&self) -> u64 {
        self.storages.iter().filter(|storage| storage.persistent).map(|storage| storage.bytes).sum()
    }

    /// The most bytes alive at once over `steps` joined steps. Storages that a step finds are alive from its
    /// beginning, others from first use to death; storages that a step leaves over die when the next begins. It does not grow
    /// with more than one step; zero steps hold the persistent bytes.
    #[must_use]
    pub fn peak_bytes(&self, steps: u32) -> u64 {
        self.peak_of(steps, |bytes| bytes)
    }

    /// The most bytes alive at once with each storage rounded up to whole pages of `page_bytes`, as allocations in such pages hold them.
    /// Saturates at `u64::MAX`.
    #[must_use]
    pub fn peak_page_bytes(&self, steps: u32, page_bytes: u64) -> u64 {
        self.peak_of(steps, |bytes| bytes.checked_next_multiple_of(page_bytes).unwrap_or(u64::MAX))
    }

    fn peak_of(&self, steps: u32, size: impl Fn(u64) -> u64) -> u64 {
        let sizes: Vec<u64> = self.storages.iter().map(|storage| size(storage.bytes)).collect();
        let sum = |counts: &dyn Fn(usize) -> bool| {
            let counted = sizes.iter().enumerate().filter(|(index, _)| counts(*index));
            counted.map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
        };
        let persistent = sum(&|index| self.storages[index].persistent);
        let brought = sum(&|index| self.lifetimes[index] == Lifetime::Brought);
        let mut alive = std::collections::BTreeSet::new();
        let (mut live, mut step_now) = (persistent, 0);
        let mut peak = live;
        for event in self.steps(steps) {
            if self.begins_step(&event, step_now) {
                step_now += 1;
                live = live.saturating_add(brought);
            }
            match event {
                StepEvent::Op { reads, writes, .. } => {
                    for id in reads.into_iter().chain(writes) {
                        let storage = self.storages[id.storage as usize];
                        if !storage.persistent && alive.insert(id) {
                            live = live.saturating_add(sizes[id.storage as usize]);
                        }
                    }
                    peak = peak.max(live);
                }
                StepEvent::Death(id) => {
                    alive.remove(&id);
                    live = live.saturating_sub(sizes[id.storage as usize]);
                }
            }
        }
        peak
    }

    /// The largest sum of sizes that one operation needs together: no memory smaller than this can run the workload.
    #[must_use]
    pub fn largest_op_bytes(&self) -> u64 {
        let set_bytes = |event: &Event| match event {
            Event::Op { reads, writes, .. } => {
                let both = reads.iter().chain(writes.iter().filter(|w| reads.binary_search(w).is_err()));
                both.map(|&index| self.storages[index as usize].bytes).sum()
            }
            Event::Death(_) => 0,
        };
        self.events.iter().map(set_bytes).max().unwrap_or(0)
    }

    /// How many adapters its operations name: one more than the highest number; 0: none names any.
    #[must_use]
    pub fn adapters_named(&self) -> u32 {
        let named = self.events.iter().filter_map(|event| match event {
            Event::Op { adapter, .. } => *adapter,
            Event::Death(_) => None,
        });
        named.max().map_or(0, |highest| highest.saturating_add(1))
    }

    /// The events, for `placement`.
    pub(crate) fn events_mut(&mut self) -> &mut [Event] {
        &mut self.events
    }

    /// `count` steps, joined; see [`Steps`].
    #[must_use]
    pub fn steps(&self, count: u32) -> Steps<'_> {
        Steps::new(self, count)
    }

    /// Whether the event is the first of the step after `step_now`: deaths of what that step left over still are not.
    pub(crate) fn begins_step(&self, event: &StepEvent, step_now: u32) -> bool {
        match event {
            StepEvent::Op { step, .. } => *step > step_now,
            StepEvent::Death(id) => id.step > step_now,
        }
    }
}

fn judge_sizes(storages: &[Storage], op_names: &[String]) -> Result<(), Fault> {
    for (count, what) in [(storages.len(), "storages"), (op_names.len(), "operation names")] {
        if u32::try_from(count).is_err() {
            return Err(Fault::TooMany { count, what });
        }
    }
    let mut sum = 0u64;
    for (index, storage) in storages.iter().enumerate() {
        // CAST: the count fits u32, judged above.
        sum = sum.checked_add(storage.bytes).ok_or(Fault::BytesOverflow { storage: index as u32 })?;
    }
    Ok(())
}

/// Walks one step and follows every storage through its life.
///
/// ```text
/// not persistent: Unborn -- use --> Alive -- death --> Dead
/// persistent:                       Alive -- death --> Dead
/// ```
/// Every other edge is a fault.
fn judge_lives(storages: &[Storage], names: usize, events: &[Event]) -> Result<Vec<Lifetime>, Fault> {
    #[derive(Clone, Copy, PartialEq)]
    enum Life {
        Unborn,
        Alive,
        Dead,
    }
    let mut lives: Vec<Life> =
        storages.iter().map(|storage| if storage.persistent { Life::Alive } else { Life::Unborn }).collect();
    let mut ops = 0usize;
    for (event, what) in events.iter().enumerate() {
        let life_of = |lives: &mut Vec<Life>, storage: u32| match lives.get(storage as usize) {
            Some(&life) => Ok(life),
            None => Err(Fault::StorageOutOfRange { event, storage, storages: storages.len() }),
        };
        match what {
            Event::Op { name, reads, writes, .. } => {
                ops += 1;
                if *name as usize >= names {
                    return Err(Fault::NameOutOfRange { event, name: *name, names });
                }
                if reads.is_empty() && writes.is_empty() {
                    return Err(Fault::OpWithoutStorages { event });
                }
                for &storage in reads.iter().chain(writes) {
                    if life_of(&mut lives, storage)? == Life::Dead {
                        return Err(Fault::UseAfterDeath { event, storage });
                    }
                    lives[storage as usize] = Life::Alive;
                }
            }
            &Event::Death(storage) => match life_of(&mut lives, storage)? {
                Life::Unborn => return Err(Fault::DeathOfUnborn { event, storage }),
                Life::Dead => return Err(Fault::DeathOfDead { event, storage }),
                Life::Alive => lives[storage as usize] = Life::Dead,
            },
        }
    }
    if ops == 0 {
        return Err(Fault::NoOps);
    }
    let lifetime = |(storage, life): (&Storage, &Life)| match (storage.persistent, life) {
        _ if storage.bytes == 0 => Lifetime::Unused,
        (true, Life::Dead) => Lifetime::Brought,
        (true, _) => Lifetime::Kept,
        (false, Life::Dead) => Lifetime::Passing,
        (false, Life::Alive) => Lifetime::LeftOver,
        (false, Life::Unborn) => Lifetime::Unused,
    };
    Ok(storages.iter().zip(&lives).map(lifetime).collect())
}

/// Takes storages of no size out of all sets, with their deaths, and brings the sets into order.
fn without_empty(storages: &[Storage], events: Vec<Event>) -> Vec<Event> {
    let has_size = |storage: &u32| storages[*storage as usize].bytes > 0;
    let tidy = |mut set: Vec<u32>| {
        set.retain(has_size);
        set.sort_unstable();
        set.dedup();
        set
    };
    let keep = |event| match event {
        Event::Op { adapter, name, reads, writes } => {
            Some(Event::Op { adapter, name, reads: tidy(reads), writes: tidy(writes) })
        }
        Event::Death(storage) => has_size(&storage).then_some(event),
    };
    events.into_iter().filter_map(keep).collect()
}
