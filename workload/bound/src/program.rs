//! The program of a workload: what is read cold, and for every storage the stretches in which it could be outside.
//!
//! Independent of the capacity and of any solver. Built from the joined steps ([`Program::of`]); `rows` and `columns` make it small.

use std::collections::BTreeMap;

use replay::{StepEvent, StorageId, Workload};

/// A workload's joined steps, as far as the bound depends on them. Operations are numbered over all steps, from 0.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Content that was there before its step and that an operation reads first: it has to come in once.
    pub(crate) cold_bytes: u128,
    /// The bytes that each operation needs together.
    pub(crate) needs: Vec<u64>,
    /// What may be outside for a while.
    pub(crate) groups: Vec<Group>,
}

/// Stretches of one storage that one write-back serves: those between a write and the next, or a single one before any write.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// The storage's size.
    pub(crate) bytes: u64,
    /// Whether the content differs from the copy outside, so that the first time that it leaves it is written back.
    pub(crate) is_dirty: bool,
    /// The stretches, in order; at least one.
    pub(crate) stretches: Vec<Stretch>,
}

/// The operations between two uses of a storage, or between its last use and its death. At least one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// The first operation in it.
    pub(crate) begin: usize,
    /// The first operation behind it.
    pub(crate) end: usize,
    /// Whether the use behind it reads, so that what has left comes back.
    pub(crate) comes_back: bool,
}

impl Program {
    /// The program of `steps` joined steps.
    pub(crate) fn of(workload: &Workload, steps: u32) -> Program {
        let mut program = Program { cold_bytes: 0, needs: Vec::new(), groups: Vec::new() };
        let mut lives: BTreeMap<StorageId, Life> = BTreeMap::new();
        let size = |id: StorageId| workload.storages()[id.storage as usize].bytes;
        for event in workload.steps(steps) {
            match event {
                StepEvent::Op { reads, writes, .. } => {
                    let op = program.needs.len();
                    let mut uses: BTreeMap<StorageId, Use> = BTreeMap::new();
                    reads.iter().for_each(|id| uses.entry(*id).or_default().reads = true);
                    writes.iter().for_each(|id| uses.entry(*id).or_default().writes = true);
                    program.needs.push(uses.keys().map(|id| size(*id)).sum());
                    for (id, used) in uses {
                        let persistent = workload.storages()[id.storage as usize].persistent;
                        let life = lives.entry(id).or_insert_with(|| Life::born(size(id), persistent));
                        life.is_used(op, used, &mut program);
                    }
                }
                StepEvent::Death(id) => {
                    if let Some(life) = lives.remove(&id) {
                        life.ends(&mut program);
                    }
                }
            }
        }
        lives.into_values().for_each(|life| life.ends(&mut program));
        program
    }

    /// The same, where only what comes in counts: leaving costs nothing, so what does not come back is out.
    pub(crate) fn page_ins(&self) -> Program {
        let stretches =
            self.groups.iter().flat_map(|group| group.stretches.iter().map(|stretch| (group.bytes, *stretch)));
        let group = |(bytes, stretch)| Group { bytes, is_dirty: false, stretches: vec![stretch] };
        let groups = stretches.filter(|(_, stretch)| stretch.comes_back).map(group).collect();
        Program { groups, ..self.clone() }
    }

    /// The bytes of all stretches and of all write-backs: nothing costs more.
    pub(crate) fn stretch_bytes(&self) -> u128 {
        self.groups.iter().map(|group| u128::from(group.bytes) * (group.stretches.len() as u128 + 1)).sum()
    }
}

/// How an operation uses a storage.
#[derive(Default, Clone, Copy)]
struct Use {
    reads: bool,
    writes: bool,
}

/// A living storage: where its content is, and the stretches since the last write.
struct Life {
    bytes: u64,
    content: Content,
    last_use: Option<usize>,
    since_write: Vec<Stretch>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Never written, not there before: it may go and comes back as it was, without a copy.
    None,
    /// As outside.
    Clean,
    /// Differs from what is outside.
    Dirty,
}

impl Life {
    fn born(bytes: u64, persistent: bool) -> Life {
        let content = if persistent { Content::Clean } else { Content::None };
        Life { bytes, content, last_use: None, since_write: Vec::new() }
    }

    fn is_used(&mut self, op: usize, used: Use, program: &mut Program) {
        match self.last_use {
            None if used.reads && self.content == Content::Clean => program.cold_bytes += u128::from(self.bytes),
            None => {}
            Some(last) if last + 1 == op => {}
            Some(last) => {
                let stretch = Stretch { begin: last + 1, end: op, comes_back: used.reads };
                match self.content {
                    Content::None => {}
                    // What leaves clean and is overwritten costs nothing: it is always out.
                    Content::Clean if !used.reads => {}
                    Content::Clean => program.groups.push(self.group(vec![stretch])),
                    Content::Dirty => self.since_write.push(stretch),
                }
            }
        }
        if used.writes {
            self.close(program);
            self.content = Content::Dirty;
        }
        self.last_use = Some(op);
    }

    /// It died before the next operation, or there is none. Dirty content had to stay until then, or to be written back: no program
    /// that is asked to keep it may lose it.
    fn ends(mut self, program: &mut Program) {
        let end = program.needs.len();
        if let (Some(last), Content::Dirty) = (self.last_use, self.content)
            && last + 1 < end
        {
            self.since_write.push(Stretch { begin: last + 1, end, comes_back: false });
        }
        self.close(program);
    }

    /// The stretches since the last write are complete.
    fn close(&mut self, program: &mut Program) {
        if !self.since_write.is_empty() {
            let stretches = std::mem::take(&mut self.since_write);
            program.groups.push(self.group(stretches));
        }
    }

    fn group(&self, stretches: Vec<Stretch>) -> Group {
        Group { bytes: self.bytes, is_dirty: self.content == Content::Dirty, stretches }
    }
}
