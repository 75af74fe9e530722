//! Frames for page tables: a reserve in a segment, or system pages. It knows nothing of what a table says. Called by
//! `page_table`.

use wddm_types::{PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use ddi::PageTableLevelDesc;

use crate::policy::Policy;
use crate::pool::FramePool;
use crate::segment::{SegmentDescription, SegmentError};
use crate::space::SpaceKind;

/// The reserve for page tables is used up (scarcity).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room left for page tables")]
pub struct OutOfTables;

/// What a table takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableSize {
    pub pages: u64,
    pub alignment_pages: u64,
}

/// Where the tables of one kind of space come from. Offsets within the segment start at the pool's first page.
#[derive(Debug)]
pub(crate) struct TableFrames {
    segment: SegmentId,
    reserve: PageRun,
    pool: FramePool,
}

impl TableFrames {
    /// Tables in `reserve`, pages of `segment` (0: system pages).
    pub fn new(segment: SegmentId, reserve: PageRun) -> Self {
        TableFrames { segment, reserve, pool: FramePool::new(reserve) }
    }

    /// No room for any table: nothing is translated.
    pub fn none() -> Self {
        TableFrames::new(SegmentId::SYSTEM, PageRun { first: 0, count: Pages::ZERO })
    }

    /// Takes pages that nobody may have out of the reserve for ever, as far as they lie in it.
    // spec: memory §1.4
    pub fn exclude(&mut self, invalid: PageRun) {
        let first = invalid.first.max(self.reserve.first);
        let end = invalid.end().min(self.reserve.end());
        if first < end {
            self.pool.exclude(PageRun { first, count: Pages(end - first) });
        }
    }

    /// Room for one table.
    pub fn take(&mut self, pages: u64, alignment_pages: u64) -> Option<PhysicalAddress> {
        let run = self.pool.take_contiguous(pages, alignment_pages, false)?;
        Some(PhysicalAddress { segment: self.segment, offset: run.first * PAGE_BYTES })
    }

    /// Room for tables of these pages and alignments: all or none.
    pub fn take_all(&mut self, wanted: &[(u64, u64)]) -> Result<Vec<PhysicalAddress>, OutOfTables> {
        let mut taken = Vec::with_capacity(wanted.len());
        for &(pages, alignment) in wanted {
            let Some(address) = self.take(pages, alignment) else {
                taken.into_iter().zip(wanted).for_each(|(address, (pages, _))| self.give(address, *pages));
                return Err(OutOfTables);
            };
            taken.push(address);
        }
        Ok(taken)
    }

    /// The room of one table back.
    pub fn give(&mut self, table: PhysicalAddress, pages: u64) {
        assert_eq!(table.segment, self.segment, "a table goes back to where it came from");
        self.pool.give(PageRun { first: table.offset / PAGE_BYTES, count: Pages(pages) });
    }

    /// What is wrong with the reserve, if tables have exactly these pages.
    pub fn check(&self, tables: &[PageRun]) -> Result<(), String> {
        self.pool.check(tables, 0)
    }

    /// The reserve, if it is cut from system memory.
    pub fn in_system(&self) -> Option<PageRun> {
        self.segment.is_system().then_some(self.reserve)
    }

    /// All frames that tables can have, and their segment.
    pub fn frames(&self) -> (SegmentId, PageRun) {
        (self.segment, self.reserve)
    }

    /// Whether tables of these sizes would find room, in this order, if those were gone first.
    pub fn hold(&self, gone: impl IntoIterator<Item = (PhysicalAddress, u64)>, wanted: &[TableSize]) -> bool {
        if wanted.iter().all(|size| size.pages == 1 && size.alignment_pages == 1) {
            let given: u64 = gone.into_iter().map(|(_, pages)| pages).sum();
            return wanted.len() as u64 <= self.pool.free_pages() + given;
        }
        let mut trial = self.pool.clone();
        for (table, pages) in gone {
            trial.give(PageRun { first: table.offset / PAGE_BYTES, count: Pages(pages) });
        }
        all_fit(&mut trial, wanted)
    }

    /// Whether they would if there were nothing but these roots.
    pub fn hold_beside(&self, roots: &[(PhysicalAddress, u64)], wanted: &[TableSize]) -> bool {
        let mut trial = self.pool.emptied();
        for (root, pages) in roots {
            trial.take_exact(PageRun { first: root.offset / PAGE_BYTES, count: Pages(*pages) });
        }
        all_fit(&mut trial, wanted)
    }

    /// Pages that all tables together can have.
    pub fn capacity_pages(&self) -> u64 {
        self.pool.capacity_pages()
    }

    /// Pages that no table has.
    pub fn free_pages(&self) -> u64 {
        self.pool.free_pages()
    }

    /// Bytes of tables that exist.
    pub fn used_bytes(&self) -> u64 {
        Pages(self.pool.capacity_pages() - self.pool.free_pages()).bytes()
    }
}

fn all_fit(trial: &mut FramePool, wanted: &[TableSize]) -> bool {
    wanted.iter().all(|size| trial.take_contiguous(size.pages, size.alignment_pages, false).is_some())
}

/// Where tables come from, by kind of space.
#[derive(Debug)]
pub(crate) struct TableSources {
    pub process: TableFrames,
    pub paging: TableFrames,
}

impl TableSources {
    /// Those of a kind, to be looked at.
    pub fn peek(&self, kind: SpaceKind) -> &TableFrames {
        match kind {
            SpaceKind::Process => &self.process,
            SpaceKind::Paging => &self.paging,
        }
    }

    /// Those of a kind.
    pub fn of(&mut self, kind: SpaceKind) -> &mut TableFrames {
        match kind {
            SpaceKind::Process => &mut self.process,
            SpaceKind::Paging => &mut self.paging,
        }
    }

    /// Those of processes, to be looked at.
    pub fn of_processes(&self) -> &TableFrames {
        &self.process
    }
}

/// Cuts the page-table reserves: the end of the page-table segment, or system pages.
pub(crate) fn table_sources(
    policy: &Policy,
    segments: &[SegmentDescription],
    leaf: &PageTableLevelDesc,
    system: &mut FramePool,
) -> Result<TableSources, SegmentError> {
    let mut source = |id: SegmentId, count: Pages, behind: Pages| {
        let reserve = if id.is_system() {
            system.take_contiguous(count.0.max(1), 1, true).ok_or(SegmentError::Reserve)?
        } else {
            let end = segments[usize::from(id.0) - 1].size_bytes / PAGE_BYTES;
            PageRun { first: end - behind.0 - count.0, count }
        };
        let mut frames = TableFrames::new(id, reserve);
        if !id.is_system() {
            segments[usize::from(id.0) - 1].hidden_runs().into_iter().for_each(|run| frames.exclude(run));
        }
        Ok(frames)
    };
    let paging = policy.paging_table_reserve;
    Ok(TableSources {
        process: source(leaf.segment, policy.page_table_reserve - paging, paging)?,
        paging: source(leaf.paging_process_segment, paging, Pages::ZERO)?,
    })
}
