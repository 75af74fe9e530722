//! Frames for page tables: a reserve in each segment that a level names (memory §4.3), or system pages. It knows nothing of
//! what a table says. Called by `page_table`.

use wddm_types::{PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use ddi::PageTableLevelDesc;

use crate::policy::Policy;
use crate::pool::FramePool;
use crate::segment::{SegmentDescription, SegmentError};
use crate::system_pages::SystemPages;

/// The kind of an address space (memory §4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceKind {
    /// A process's; its tables are written in the paging ring.
    Process,
    /// The paging process's; its tables are written by the CPU at once.
    Paging,
}

/// The reserve for page tables is used up (scarcity).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room left for page tables")]
pub struct OutOfTables;

/// The pages that a table takes, and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableSize {
    pub level: usize,
    pub pages: u64,
    pub alignment_pages: u64,
}

/// Where the tables of one kind of space come from: those of each level from the segment that it names.
// spec: memory §4.3
#[derive(Debug)]
pub(crate) struct TableFrames {
    reserves: Vec<Reserve>,
    /// Which reserve the tables of a level have, the leaf's first.
    homes: Vec<usize>,
}

/// The part of one segment (0: system pages) that is for tables. Offsets within the segment start at the pool's first page.
#[derive(Debug)]
struct Reserve {
    segment: SegmentId,
    frames: PageRun,
    pool: FramePool,
}

impl TableFrames {
    /// No room for any table: nothing is translated.
    pub fn none() -> Self {
        TableFrames { reserves: Vec::new(), homes: Vec::new() }
    }

    /// Room for one table.
    pub fn take(&mut self, size: TableSize) -> Option<PhysicalAddress> {
        let reserve = &mut self.reserves[self.homes[size.level]];
        let run = reserve.pool.take_contiguous(size.pages, size.alignment_pages, false)?;
        Some(PhysicalAddress { segment: reserve.segment, offset: run.first * PAGE_BYTES })
    }

    /// The room of a table at a place that is free.
    pub fn take_exact(&mut self, table: PhysicalAddress, pages: u64) {
        let reserve = self.reserves.iter_mut().find(|reserve| reserve.segment == table.segment);
        reserve.expect("a table has its place in a reserve").pool.take_exact(run_of((table, pages)));
    }

    /// Where a table would find room if those were gone first.
    pub fn place_for(
        &self,
        gone: impl IntoIterator<Item = (PhysicalAddress, u64)>,
        size: TableSize,
    ) -> Option<PhysicalAddress> {
        let reserve = &self.reserves[self.homes[size.level]];
        let mut trial = reserve.pool.clone();
        let gone: Vec<(PhysicalAddress, u64)> = gone.into_iter().collect();
        reserve.own(&gone).into_iter().for_each(|table| trial.give(table));
        let run = trial.take_contiguous(size.pages, size.alignment_pages, false)?;
        Some(PhysicalAddress { segment: reserve.segment, offset: run.first * PAGE_BYTES })
    }

    /// Room for these tables: all or none.
    pub fn take_all(&mut self, wanted: &[TableSize]) -> Result<Vec<PhysicalAddress>, OutOfTables> {
        let mut taken = Vec::with_capacity(wanted.len());
        for &size in wanted {
            let Some(address) = self.take(size) else {
                taken.into_iter().zip(wanted).for_each(|(address, size)| self.give(address, size.pages));
                return Err(OutOfTables);
            };
            taken.push(address);
        }
        Ok(taken)
    }

    /// The room of one table back.
    pub fn give(&mut self, table: PhysicalAddress, pages: u64) {
        let reserve = self.reserves.iter_mut().find(|reserve| reserve.segment == table.segment);
        let reserve = reserve.expect("a table goes back to where it came from");
        reserve.pool.give(run_of((table, pages)));
    }

    /// Finds a fault in the reserves, given that tables have exactly these pages.
    pub fn check(&self, tables: &[(PhysicalAddress, u64)]) -> Result<(), String> {
        for reserve in &self.reserves {
            reserve.pool.check(&reserve.own(tables), 0).map_err(|place| format!("{:?}: {place}", reserve.segment))?;
        }
        let nowhere = |(table, _): &&(PhysicalAddress, u64)| self.reserves.iter().all(|r| r.segment != table.segment);
        tables
            .iter()
            .find(nowhere)
            .map_or(Ok(()), |(table, _)| Err(format!("a table at {table:?}, outside every reserve")))
    }

    /// The reserve, if there is one that is cut from system memory.
    pub fn in_system(&self) -> Option<PageRun> {
        self.reserves.iter().find(|reserve| reserve.segment.is_system()).map(|reserve| reserve.frames)
    }

    /// All frames that tables can have, by segment.
    pub fn frames(&self) -> Vec<(SegmentId, PageRun)> {
        self.reserves.iter().map(|reserve| (reserve.segment, reserve.frames)).collect()
    }

    /// Whether tables of these sizes would find room, in this order, if those were gone first.
    pub fn hold(&self, gone: impl IntoIterator<Item = (PhysicalAddress, u64)>, wanted: &[TableSize]) -> bool {
        let gone: Vec<(PhysicalAddress, u64)> = gone.into_iter().collect();
        self.by_reserve(wanted).all(|(reserve, wanted)| {
            let gone = reserve.own(&gone);
            if wanted.iter().all(|size| size.pages == 1 && size.alignment_pages == 1) {
                let given: u64 = gone.iter().map(|run| run.count.0).sum();
                return wanted.len() as u64 <= reserve.pool.free_pages() + given;
            }
            let mut trial = reserve.pool.clone();
            gone.into_iter().for_each(|table| trial.give(table));
            all_fit(&mut trial, &wanted)
        })
    }

    /// Whether they would if there were nothing but these roots.
    pub fn hold_beside(&self, roots: &[(PhysicalAddress, u64)], wanted: &[TableSize]) -> bool {
        self.by_reserve(wanted).all(|(reserve, wanted)| {
            let mut trial = reserve.pool.emptied();
            reserve.own(roots).into_iter().for_each(|root| trial.take_exact(root));
            all_fit(&mut trial, &wanted)
        })
    }

    /// The reserves that any of these are to come from, each with those.
    fn by_reserve<'a>(&'a self, wanted: &'a [TableSize]) -> impl Iterator<Item = (&'a Reserve, Vec<TableSize>)> + 'a {
        let of = move |(nth, reserve)| {
            let here = wanted.iter().copied().filter(|size| self.homes[size.level] == nth);
            (reserve, here.collect::<Vec<TableSize>>())
        };
        self.reserves.iter().enumerate().map(of).filter(|(_, wanted)| !wanted.is_empty())
    }

    /// Pages that all leaf tables together can have, others of their segment aside.
    pub fn leaf_capacity_pages(&self) -> u64 {
        self.homes.first().map_or(0, |&home| self.reserves[home].pool.capacity_pages())
    }

    /// Pages that roots, and what else lies in their segment, can have.
    pub fn root_capacity_pages(&self) -> u64 {
        self.homes.last().map_or(0, |&home| self.reserves[home].pool.capacity_pages())
    }

    /// Pages where leaf tables are made that no table has.
    pub fn leaf_free_pages(&self) -> u64 {
        self.homes.first().map_or(0, |&home| self.reserves[home].pool.free_pages())
    }

    /// Bytes of tables that exist.
    pub fn used_bytes(&self) -> u64 {
        self.reserves
            .iter()
            .map(|reserve| Pages(reserve.pool.capacity_pages() - reserve.pool.free_pages()).bytes())
            .sum()
    }
}

impl Reserve {
    /// The reserve without the pages that no owner may have.
    // spec: memory §1.4
    fn new(segment: SegmentId, frames: PageRun, hidden: &[PageRun]) -> Reserve {
        let mut pool = FramePool::new(frames);
        for invalid in hidden {
            let (first, end) = (invalid.first.max(frames.first), invalid.end().min(frames.end()));
            if first < end {
                pool.exclude(PageRun { first, count: Pages(end - first) });
            }
        }
        Reserve { segment, frames, pool }
    }

    /// Those of these tables that lie here.
    fn own(&self, tables: &[(PhysicalAddress, u64)]) -> Vec<PageRun> {
        tables.iter().filter(|(table, _)| table.segment == self.segment).map(|&table| run_of(table)).collect()
    }
}

fn run_of((table, pages): (PhysicalAddress, u64)) -> PageRun {
    PageRun { first: table.offset / PAGE_BYTES, count: Pages(pages) }
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

/// The pages of a segment kept for page tables: for those of processes, and behind them for the paging process's. The segment
/// of leaf tables gives the whole reserve, one of directories alone the smaller one.
// spec: memory §4.3
pub(crate) fn reserve_of(policy: &Policy, levels: &[PageTableLevelDesc], id: SegmentId) -> (Pages, Pages) {
    let Some(leaf) = levels.first() else { return (Pages::ZERO, Pages::ZERO) };
    let of_processes = levels.iter().any(|level| level.segment == id);
    let of_paging = levels.iter().any(|level| level.paging_process_segment == id);
    let leaves = leaf.segment == id || leaf.paging_process_segment == id;
    let whole = match of_processes || of_paging {
        true if leaves => policy.page_table_reserve,
        true => policy.directory_reserve,
        false => Pages::ZERO,
    };
    let paging = match of_paging {
        true if !of_processes => whole,
        true if leaf.paging_process_segment == id => policy.paging_table_reserve.min(whole),
        true => policy.paging_table_reserve.min(Pages(whole.0 / 8)),
        false => Pages::ZERO,
    };
    debug_assert!(paging <= whole, "{paging:?} of the {whole:?} pages of a reserve are the paging process's");
    (whole - paging, paging)
}

/// Cuts the page-table reserves: the end of each segment that a level names, or system pages.
pub(crate) fn table_sources(
    policy: &Policy,
    segments: &[SegmentDescription],
    levels: &[PageTableLevelDesc],
    system: &mut SystemPages,
) -> Result<TableSources, SegmentError> {
    let mut source = |kind: SpaceKind| {
        let mut frames = TableFrames::none();
        for level in levels {
            let id = match kind {
                SpaceKind::Process => level.segment,
                SpaceKind::Paging => level.paging_process_segment,
            };
            let known = frames.reserves.iter().position(|reserve| reserve.segment == id);
            frames.homes.push(known.unwrap_or(frames.reserves.len()));
            if known.is_none() {
                frames.reserves.push(cut(policy, segments, levels, (kind, id), system)?);
            }
        }
        debug_assert_eq!(frames.homes.len(), levels.len(), "each level has its reserve");
        Ok(frames)
    };
    Ok(TableSources { process: source(SpaceKind::Process)?, paging: source(SpaceKind::Paging)? })
}

fn cut(
    policy: &Policy,
    segments: &[SegmentDescription],
    levels: &[PageTableLevelDesc],
    (kind, id): (SpaceKind, SegmentId),
    system: &mut SystemPages,
) -> Result<Reserve, SegmentError> {
    let (process, paging) = reserve_of(policy, levels, id);
    let count = if kind == SpaceKind::Process { process } else { paging };
    if id.is_system() {
        let frames = system.take_table_reserve(count.0).ok_or(SegmentError::Reserve)?;
        return Ok(Reserve::new(id, frames, &[]));
    }
    let descriptor = &segments[usize::from(id.0) - 1];
    let behind = if kind == SpaceKind::Process { paging } else { Pages::ZERO };
    let first = descriptor.size_bytes / PAGE_BYTES - behind.0 - count.0;
    Ok(Reserve::new(id, PageRun { first, count }, &descriptor.hidden_runs()))
}
