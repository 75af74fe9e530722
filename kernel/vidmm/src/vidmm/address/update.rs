//! UpdateGpuVirtualAddress (memory §4.8): many changes of reserved addresses at once, for tiled resources. An update is
//! checked when it is asked for and applied when its turn has come; what a copy reads is what its source shows then.
//! Waiting for the turn is the caller's.
//!
//! In between, an [`Update`] holds the page tables that its ranges need, so that applying it cannot fail, and pins the
//! allocations that it maps. All its operations are first applied to a sketch of the addresses; what the sketch says in
//! the end is written once, neighbouring tiles together.

mod sketch;

use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use crate::page_table::OutOfTables;
use crate::page_table::is_coarse_run;
use crate::paging::{Batch, Work};
use crate::slab::{AllocationId, SpaceId};
use crate::space::{AddressError, Origin, Protection, Reserved, Shown, Space, page_of};
use crate::vidmm::VidMm;
use crate::vidmm::address::mapping::MapError;
use sketch::{Drawn, Sketch};

/// `D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION` (memory §4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOperation {
    /// MAP, MAP_PROTECT.
    Map {
        /// First address.
        base: GpuVa,
        /// Bytes of the range.
        size_bytes: u64,
        /// The allocation to map.
        allocation: AllocationId,
        /// From this byte on.
        offset_bytes: u64,
        /// So many bytes of it, repeated; 0: as many as the range has.
        allocation_size_bytes: u64,
        /// `None`: reading and writing, and for the driver what the reservation says (memory §4.11).
        protection: Option<Protection>,
    },
    /// UNMAP: the range loses its mapping.
    Unmap {
        /// First address.
        base: GpuVa,
        /// Bytes of the range.
        size_bytes: u64,
        /// The behaviour of the addresses from now on.
        reserved: Reserved,
    },
    /// COPY: the destination shows what the source shows. The ranges may overlap.
    Copy {
        /// First address of the source.
        source: GpuVa,
        /// Bytes of each range.
        size_bytes: u64,
        /// First address of the destination.
        destination: GpuVa,
    },
}

impl UpdateOperation {
    /// The addresses that show something else afterwards: the first, and how many bytes.
    pub fn target(&self) -> (GpuVa, u64) {
        match *self {
            UpdateOperation::Map { base, size_bytes, .. } | UpdateOperation::Unmap { base, size_bytes, .. } => {
                (base, size_bytes)
            }
            UpdateOperation::Copy { size_bytes, destination, .. } => (destination, size_bytes),
        }
    }
}

/// Why an update is refused; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The message of each variant says what it means.
pub enum UpdateError {
    #[error("{0}")]
    Range(MapError),
    #[error("the target ranges do not lie in one reservation (memory §4.8)")]
    Targets,
    #[error("the sources of copies do not lie in one reservation (memory §4.8)")]
    Sources,
    #[error("the size is no multiple of the allocation's part that is to be repeated (memory §4.8)")]
    Repetition,
    #[error("no room left for page tables")]
    OutOfTables,
}

impl From<MapError> for UpdateError {
    fn from(error: MapError) -> UpdateError {
        UpdateError::Range(error)
    }
}

impl From<AddressError> for UpdateError {
    fn from(error: AddressError) -> UpdateError {
        UpdateError::Range(error.into())
    }
}

impl From<OutOfTables> for UpdateError {
    fn from(_: OutOfTables) -> UpdateError {
        UpdateError::OutOfTables
    }
}

/// A checked update whose turn has not come. It goes to [`VidMm::apply_update`] or [`VidMm::drop_update`].
#[must_use = "it holds page tables and pins allocations"]
#[derive(Debug)]
pub struct Update {
    space: SpaceId,
    steps: Vec<Step>,
    /// Runs whose tables it holds.
    held: Vec<PageRun>,
    pinned: Vec<AllocationId>,
    /// Addresses that were freed since.
    gone: Vec<PageRun>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// `period` pages of the allocation from page `from` on, again and again.
    Map {
        run: PageRun,
        allocation: AllocationId,
        from: u64,
        period: u64,
        protection: Protection,
    },
    Unmap {
        run: PageRun,
        reserved: Reserved,
    },
    Copy {
        source: PageRun,
        to: u64,
    },
}

impl Step {
    fn target(&self) -> PageRun {
        match *self {
            Step::Map { run, .. } | Step::Unmap { run, .. } => run,
            Step::Copy { source, to } => PageRun { first: to, count: source.count },
        }
    }
}

impl<F: Copy + Eq> VidMm<F> {
    /// Checks an update. The work makes the tables that it needs.
    ///
    /// # Errors
    /// See [`UpdateError`]: all the caller's, except `OutOfTables` (scarcity).
    // spec: memory §4.8
    pub fn prepare_update(
        &mut self,
        space: SpaceId,
        operations: &[UpdateOperation],
    ) -> Result<(Update, Option<Work<F>>), UpdateError> {
        let mut steps =
            operations.iter().map(|operation| self.check_step(space, operation)).collect::<Result<Vec<_>, _>>()?;
        let driver_protection = self.check_reservations(space, &steps)?;
        for (step, operation) in steps.iter_mut().zip(operations) {
            let Step::Map { run, allocation, from, period, protection } = step else { continue };
            if matches!(operation, UpdateOperation::Map { protection: None, .. }) {
                protection.driver = driver_protection;
            }
            self.check_part(*allocation, *from, (*period).min(run.count.0), protection.driver)?;
        }
        let mut batch = self.works.begin();
        let held = self.hold_tables(space, &steps, &mut batch)?;
        let mut pinned = Vec::new();
        for step in &steps {
            // spec: memory §4.8, tile pools with queued updates stay in the residency requirement
            if let Step::Map { allocation, .. } = step
                && self.pin(*allocation).is_ok()
            {
                pinned.push(*allocation);
            }
        }
        Ok((Update { space, steps, held, pinned, gone: Vec::new() }, self.finish(batch, false)))
    }

    /// The turn of an update has come.
    // spec: memory §4.8, applied in order
    pub fn apply_update(&mut self, update: Update) -> Option<Work<F>> {
        let mut sketch = Sketch::default();
        for step in &update.steps {
            self.draw(&update, step, &mut sketch);
        }
        let mut batch = self.works.begin();
        for (run, drawn) in sketch.runs() {
            for part in without(run, &update.gone) {
                let Drawn { wanted, copied_from } = drawn.advanced(part.first - run.first);
                // The tables do not yet hold the entries that this update itself changes.
                let source = copied_from.map(|first| PageRun { first, ..part });
                let source = source.filter(|source| self.spaces.copies_entries() && !sketch.touches(*source));
                self.place_copy(update.space, part, wanted, source, &mut batch).expect("the update holds its tables");
            }
        }
        self.let_go(update, batch)
    }

    /// Gives an update up.
    pub fn drop_update(&mut self, update: Update) -> Option<Work<F>> {
        let batch = self.works.begin();
        self.let_go(update, batch)
    }

    /// Addresses of a space are freed: a waiting update of it does nothing there any more.
    // spec: memory §4.8, pending updates on freed addresses are dropped
    pub fn update_loses_range(&self, update: &mut Update, space: SpaceId, base: GpuVa, size_bytes: u64) {
        if let Ok(run) = self.spaces.run_at(space, base, size_bytes)
            && update.space == space
        {
            update.gone.push(run);
        }
    }

    /// Whether a waiting update changes what some of these addresses show.
    pub fn update_changes(&self, update: &Update, space: SpaceId, base: GpuVa, size_bytes: u64) -> bool {
        let Ok(run) = self.spaces.run_at(space, base, size_bytes) else { return false };
        let changes = |part: &PageRun| part.first < run.end() && run.first < part.end();
        update.space == space
            && update.steps.iter().any(|step| without(step.target(), &update.gone).iter().any(changes))
    }

    /// An allocation dies: a waiting update does not map it any more.
    pub fn update_loses_allocation(&mut self, update: &mut Update, allocation: AllocationId) {
        update.steps.retain(|step| !matches!(step, Step::Map { allocation: mapped, .. } if *mapped == allocation));
        update.pinned.retain(|pinned| {
            *pinned != allocation || {
                self.unpin(allocation);
                false
            }
        });
    }

    fn let_go(&mut self, update: Update, mut batch: Batch<F>) -> Option<Work<F>> {
        for run in update.held {
            self.spaces.uncover(update.space, run, &mut batch);
        }
        for allocation in update.pinned {
            self.unpin(allocation);
        }
        self.finish(batch, false)
    }

    fn check_step(&self, space: SpaceId, operation: &UpdateOperation) -> Result<Step, UpdateError> {
        match *operation {
            UpdateOperation::Map { base, size_bytes, allocation, offset_bytes, allocation_size_bytes, protection } => {
                let run = self.spaces.run_at(space, base, size_bytes)?;
                let part = if allocation_size_bytes == 0 { size_bytes } else { allocation_size_bytes };
                if [offset_bytes, part].iter().any(|bytes| !bytes.is_multiple_of(PAGE_BYTES)) {
                    return Err(MapError::Misaligned.into());
                }
                // spec: memory §4.8, memory §10.2: at most the size, and divides it
                if !size_bytes.is_multiple_of(part) {
                    return Err(UpdateError::Repetition);
                }
                let protection = protection.unwrap_or(Protection::READ_WRITE);
                Ok(Step::Map { run, allocation, from: page_of(offset_bytes), period: page_of(part), protection })
            }
            UpdateOperation::Unmap { base, size_bytes, reserved } => {
                Ok(Step::Unmap { run: self.spaces.run_at(space, base, size_bytes)?, reserved })
            }
            UpdateOperation::Copy { source, size_bytes, destination } => {
                let source = self.spaces.run_at(space, source, size_bytes)?;
                Ok(Step::Copy { source, to: self.spaces.run_at(space, destination, size_bytes)?.first })
            }
        }
    }

    /// All targets are in one reservation, all sources of copies in one. Answers with the targets' driver protection.
    fn check_reservations(&self, space: SpaceId, steps: &[Step]) -> Result<u64, UpdateError> {
        let entry = &self.spaces[space];
        let targets = steps.iter().map(Step::target);
        let driver_protection = one_reservation(entry, targets).ok_or(UpdateError::Targets)?;
        let sources = steps.iter().filter_map(|step| match step {
            Step::Copy { source, .. } => Some(*source),
            _ => None,
        });
        if sources.clone().next().is_some() {
            one_reservation(entry, sources).ok_or(UpdateError::Sources)?;
        }
        Ok(driver_protection)
    }

    /// Makes the tables that the steps' entries will need, and counts their pages once more, so that they stay.
    fn hold_tables(
        &mut self,
        space: SpaceId,
        steps: &[Step],
        batch: &mut Batch<F>,
    ) -> Result<Vec<PageRun>, OutOfTables> {
        let mut made_zeros = false;
        let nothing = |step: &&Step| matches!(step, Step::Unmap { reserved: Reserved::NoAccess, .. });
        let wanted: Vec<&Step> = steps.iter().filter(|step| !nothing(step)).collect();
        let held: Vec<PageRun> = wanted.iter().map(|step| step.target()).collect();
        if steps.iter().any(|step| !matches!(step, Step::Map { .. })) {
            made_zeros = self.prepare_zero_page(space, batch)?;
        }
        // Nothing of the batch is carried out on failure.
        let provided = self.provide_tables(space, &held, batch);
        let root = provided.inspect_err(|_| self.forget_zero_page(space, made_zeros, batch))?;
        let coarse: Vec<bool> = wanted.iter().map(|step| self.step_begins_coarse(space, step)).collect();
        let serial = self.spaces.room_for_coarse(space, &held, &coarse).then_some(batch.epoch);
        for (run, coarse) in held.iter().zip(coarse) {
            let made = self.spaces.cover(space, *run, serial.filter(|_| coarse)).expect("there is room for them");
            batch.entries.extend(made);
        }
        self.spaces.set_root(space, root, batch);
        Ok(held)
    }

    /// Whether leaf tables that are made for a step begin with 64-KB entries.
    // spec: memory §4.5
    fn step_begins_coarse(&self, space: SpaceId, step: &Step) -> bool {
        let run = step.target();
        match *step {
            Step::Map { allocation, from, period, .. } => {
                is_coarse_run(period, 0) && self.begins_coarse(space, run, Shown::Allocation(allocation, from))
            }
            Step::Unmap { .. } => self.begins_coarse(space, run, Shown::Zero),
            Step::Copy { .. } => false,
        }
    }

    fn draw(&self, update: &Update, step: &Step, sketch: &mut Sketch) {
        match *step {
            Step::Map { run, allocation, from, period, protection } => {
                // Another mapping with a unique protection may have come in between (memory §4.11).
                if self.check_part(allocation, from, period.min(run.count.0), protection.driver).is_err() {
                    return;
                }
                debug_assert!(run.count.0.is_multiple_of(period), "{period} pages again and again are no {run:?}");
                for turn in 0..run.count.0 / period {
                    let part = PageRun { first: run.first + turn * period, count: Pages(period) };
                    sketch.set(part, Drawn::new(Some((Shown::Allocation(allocation, from), protection))));
                }
            }
            Step::Unmap { run, reserved: Reserved::NoAccess } => sketch.set(run, Drawn::new(None)),
            Step::Unmap { run, reserved: Reserved::Zero } => {
                sketch.set(run, Drawn::new(Some((Shown::Zero, Protection::default()))));
            }
            Step::Copy { source, to } => {
                // Everything is read before anything is written: the ranges may overlap.
                let mut read = Vec::new();
                for part in without(source, &update.gone) {
                    read.extend(sketch.read(&self.spaces[update.space], part));
                }
                for (run, wanted) in read {
                    sketch.set(PageRun { first: to + (run.first - source.first), count: run.count }, wanted);
                }
            }
        }
    }
}

/// The driver protection of the one reservation that all runs are in.
fn one_reservation(space: &Space, mut runs: impl Iterator<Item = PageRun>) -> Option<u64> {
    let (first, range) = space.range_of(runs.next()?)?;
    let Origin::Reservation(_, driver_protection) = range.origin else { return None };
    runs.all(|run| space.range_of(run).is_some_and(|(other, _)| other == first)).then_some(driver_protection)
}

/// The parts of a run outside the holes.
fn without(run: PageRun, gone: &[PageRun]) -> Vec<PageRun> {
    let mut left = vec![run];
    for hole in gone {
        let cut = |part: PageRun| {
            let before =
                PageRun { first: part.first, count: Pages(hole.first.min(part.end()).saturating_sub(part.first)) };
            let from = hole.end().max(part.first).min(part.end());
            let behind = PageRun { first: from, count: Pages(part.end() - from) };
            if hole.end() <= part.first || part.end() <= hole.first { vec![part] } else { vec![before, behind] }
        };
        left = left.into_iter().flat_map(cut).filter(|part| !part.count.is_zero()).collect();
    }
    let inside = |part: &PageRun| run.first <= part.first && part.end() <= run.end();
    debug_assert!(left.iter().all(inside), "{left:?} is left of {run:?}");
    left
}
