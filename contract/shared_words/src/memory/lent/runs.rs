//! The runs of pages that are lent, by where they begin. In an arena neighbours are one run, as they are one mapping of the process: so the
//! number of runs bounds that of mappings.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{LentFile, LentPages};

/// All of a memory.
#[derive(Default)]
pub(in crate::memory) struct Runs {
    by_offset: BTreeMap<u64, LentPages>,
}

impl Runs {
    /// How many.
    pub fn len(&self) -> usize {
        self.by_offset.len()
    }

    /// The run that the byte at `offset` is in.
    pub fn at(&self, offset: u64) -> Option<&LentPages> {
        let (_, run) = self.by_offset.range(..=offset).next_back()?;
        (offset < run.offset + run.bytes).then_some(run)
    }

    /// Where the first run from `offset` on begins.
    pub fn next(&self, offset: u64) -> Option<u64> {
        self.by_offset.range(offset..).next().map(|(next, _)| *next)
    }

    /// Pages are lent from now on, which were not.
    pub fn insert(&mut self, mut pages: LentPages) {
        if pages.file.has_places() {
            let before = self.by_offset.range(..pages.offset).next_back();
            let before = before.filter(|(_, before)| follows(before, &pages)).map(|(at, _)| *at);
            if let Some(before) = before.and_then(|at| self.by_offset.remove(&at)) {
                (pages.offset, pages.file_offset) = (before.offset, before.file_offset);
                pages.bytes += before.bytes;
            }
            let end = pages.offset + pages.bytes;
            if self.by_offset.get(&end).is_some_and(|next| follows(&pages, next)) {
                pages.bytes += self.by_offset.remove(&end).expect("it was just found").bytes;
            }
        }
        self.by_offset.insert(pages.offset, pages);
    }

    /// Cuts `offset..offset + bytes` out of what is lent; answers what that was.
    pub fn cut(&mut self, offset: u64, bytes: u64) -> Vec<LentPages> {
        let end = offset + bytes;
        let met: Vec<u64> = self.met(offset, end).map(|run| run.offset).collect();
        let mut out = Vec::new();
        for at in met {
            let run = self.by_offset.remove(&at).expect("it was just found");
            let (low, high) = (run.offset.max(offset), (run.offset + run.bytes).min(end));
            for (from, to) in [(run.offset, low), (high, run.offset + run.bytes)] {
                if from < to {
                    self.by_offset.insert(from, part(&run, from, to));
                }
            }
            out.push(part(&run, low, high));
        }
        out
    }

    /// The parts of these bytes that are lent.
    pub fn within(&self, offset: u64, bytes: u64) -> Vec<LentPages> {
        let end = offset + bytes;
        self.met(offset, end).map(|run| part(run, run.offset.max(offset), (run.offset + run.bytes).min(end))).collect()
    }

    /// Takes all runs of the arena that has most of them; `None`: no arena has any.
    pub fn take_most_scattered(&mut self) -> Option<(Arc<LentFile>, Vec<LentPages>)> {
        let mut counts: BTreeMap<*const LentFile, (usize, Arc<LentFile>)> = BTreeMap::new();
        for run in self.by_offset.values().filter(|run| run.file.has_places()) {
            counts.entry(Arc::as_ptr(&run.file)).or_insert_with(|| (0, Arc::clone(&run.file))).0 += 1;
        }
        let (_, arena) = counts.into_values().max_by_key(|(count, _)| *count)?;
        let runs = self.by_offset.extract_if(.., |_, run| Arc::ptr_eq(&run.file, &arena)).map(|(_, run)| run).collect();
        Some((arena, runs))
    }

    /// The runs that have bytes in a range.
    fn met(&self, offset: u64, end: u64) -> impl Iterator<Item = &LentPages> {
        let first = self.by_offset.range(..=offset).next_back().map_or(offset, |(first, _)| *first);
        self.by_offset.range(first..end).map(|(_, run)| run).filter(move |run| run.offset + run.bytes > offset)
    }
}

/// Whether pages are behind others, in the memory and in their file.
fn follows(first: &LentPages, next: &LentPages) -> bool {
    let (at, ends) = (first.offset + first.bytes, first.file_offset + first.bytes);
    Arc::ptr_eq(&first.file, &next.file) && at == next.offset && ends == next.file_offset
}

fn part(run: &LentPages, from: u64, to: u64) -> LentPages {
    LentPages {
        file: Arc::clone(&run.file),
        file_offset: run.file_offset + (from - run.offset),
        offset: from,
        bytes: to - from,
    }
}
