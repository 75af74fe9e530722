//! Drives a client with a workload: storages become allocations, operations become command buffers.
//!
//! For each operation, in order: its storages are made resident, a command buffer is submitted that waits *on the GPU* for
//! the paging fence, reads what the operation reads and writes what it writes, and its storages are evicted again, lazily
//! and saying what was not written. The CPU runs ahead as far as the stream lets it; it waits only when that is full, and at
//! the end of each step.
//!
//! With content, what an operation writes is a function of (storage, generation, offset), and what it reads is compared
//! with that, every word, by the GPU itself: a page that comes back wrong from any number of evictions is found at the
//! operation that reads it.
//!
//! It knows no kernel and no host: it is handed a link.

mod content;
mod error;
mod round_trip;
mod storages;

pub use content::Mismatch;
pub use d3dkmt::DeviceState;
pub use error::DriveError;
pub use round_trip::round_trip_ns;
pub use softgpu_umd::Stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt::{EvictFlags, Registration, Residency};
use kmt_link::Link;
use softgpu_umd::{Gpu, Lane, ResidencyList, Retry, UmdError};
use wddm_types::{NodeId, WordAddress};

use crate::drive::content::{Content, Report};
use crate::drive::storages::Storages;
use crate::steps::{StepEvent, StorageId};
use crate::workload::Workload;

/// The node that computes.
const COMPUTE: NodeId = NodeId(0);

/// How a workload is driven.
#[derive(Clone, Copy, Debug)]
pub struct DriveOptions {
    /// Steps to replay, at least 1.
    pub steps: u32,
    /// Whether content exists, and whether it is checked.
    pub content: ContentMode,
    /// Changes the content, so that two runs do not share it.
    pub seed: u64,
    /// What stays on the residency list between operations.
    pub residency: ResidencyPolicy,
    /// Have the kernel tell how the process's budget changes.
    pub hears_budget: bool,
    /// Who hands the work to the engine; `None`: the latest stage that the adapter has.
    pub stage: Option<Stage>,
}

/// What stays on the residency list between operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResidencyPolicy {
    /// Nothing: an operation's storages leave the list behind it, lazily. The kernel alone decides what goes.
    #[default]
    PerOperation,
    /// Whatever was used, until the kernel refuses or asks for it back (TrimResidency): as most drivers do.
    Kept,
}

/// Whether bytes are real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentMode {
    /// No content: operations touch memory.
    Timed,
    /// Operations write content; nobody checks it.
    Written,
    /// Operations write content and check what they read.
    Verified,
}

/// Told about a run as it goes on.
pub trait Observer {
    /// `done` of `total` operations are submitted.
    fn progress(&mut self, done: u64, total: u64);
    /// A step is complete on the GPU; the kernel's clock says `now_ns`.
    fn step_done(&mut self, step: u32, now_ns: u64);
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Driven {
    /// Operations completed.
    pub ops: u64,
    /// Steps completed.
    pub steps: u32,
    /// Kernel time from the first operation to the end of the last.
    pub elapsed_ns: u64,
    /// Kernel time at the first operation.
    pub started_ns: u64,
    /// The first content mismatch.
    pub mismatch: Option<Mismatch>,
    /// The run was cut short by its caller.
    pub interrupted: bool,
    /// The run was cut short because its device was lost: what has become of that. Operations are those submitted until then.
    pub lost: Option<DeviceState>,
    /// CurrentValue of the compute queue's progress fence: value i + 1 completes operation i.
    pub progress: WordAddress,
    /// The compute queue's number on its device; `None`: the kernel hands its work over as packets.
    pub device_queue: Option<u32>,
}

/// Replays a workload through a link. `cancel` ends it after the operation at hand.
///
/// # Errors
/// See [`DriveError`]: an operation that does not fit, a refused call, a lost device.
pub fn drive(
    workload: &Workload,
    link: Arc<dyn Link>,
    options: DriveOptions,
    observer: &mut dyn Observer,
    cancel: &AtomicBool,
) -> Result<Driven, DriveError> {
    let gpu = Gpu::open(Arc::clone(&link))?;
    let lane = lane(&gpu, options.stage)?;
    let report = Report::create(&gpu)?;
    let content = Content::new(options);
    let storages = Storages::new(workload.storages());
    let kept = match options.residency {
        ResidencyPolicy::PerOperation => None,
        ResidencyPolicy::Kept => Some(ResidencyList::create(&gpu)?),
    };
    let budget =
        if options.hears_budget { Some(gpu.device().register_budget_change().map_err(UmdError::from)?) } else { None };
    let mut driver =
        Driver { workload, link, options, gpu, lane, report, content, storages, kept, _budget: budget, ops: 0 };
    driver.run(observer, cancel)
}

fn lane(gpu: &Gpu, stage: Option<Stage>) -> Result<Lane, UmdError> {
    match stage {
        None => Lane::create(gpu, COMPUTE),
        Some(stage) => Lane::create_at(gpu, COMPUTE, stage),
    }
}

struct Driver<'a> {
    workload: &'a Workload,
    link: Arc<dyn Link>,
    options: DriveOptions,
    // Dropped in this order: work before memory, memory before the device.
    lane: Lane,
    storages: Storages,
    report: Report,
    /// With [`ResidencyPolicy::Kept`].
    kept: Option<ResidencyList>,
    /// Kept for its life: while it lives, changes are told.
    _budget: Option<Registration>,
    gpu: Gpu,
    content: Content,
    ops: u64,
}

/// How far a run has come.
#[derive(Default)]
struct Reached {
    steps: u32,
    interrupted: bool,
}

impl Driver<'_> {
    fn run(&mut self, observer: &mut dyn Observer, cancel: &AtomicBool) -> Result<Driven, DriveError> {
        let total = self.workload.ops() as u64 * u64::from(self.options.steps);
        self.create_persistent()?;
        let started_ns = self.link.now_ns();
        let mut reached = Reached::default();
        let lost = match self.operate(total, &mut reached, observer, cancel) {
            // Whoever waits for a lost device is not kept waiting.
            Ok(()) if self.lane.progress().current() != u64::MAX => None,
            ended => match self.gpu.device().state() {
                Ok(state) if state != DeviceState::Active => Some(state),
                _ => ended.map(|()| None)?,
            },
        };
        Ok(Driven {
            ops: self.ops,
            steps: reached.steps,
            elapsed_ns: self.link.now_ns() - started_ns,
            started_ns,
            mismatch: if lost.is_none() { self.report.read(self.workload) } else { None },
            interrupted: reached.interrupted,
            lost,
            progress: self.lane.progress().address(),
            device_queue: self.lane.device_queue(),
        })
    }

    /// All operations, or those before the run is cut short.
    fn operate(
        &mut self,
        total: u64,
        reached: &mut Reached,
        observer: &mut dyn Observer,
        cancel: &AtomicBool,
    ) -> Result<(), DriveError> {
        let workload = self.workload;
        for event in workload.steps(self.options.steps) {
            let op_step = match &event {
                StepEvent::Op { step, .. } => Some(*step),
                StepEvent::Death(_) => None,
            };
            if op_step.is_some_and(|step| step > reached.steps) {
                self.finish_step(reached.steps, observer)?;
                reached.steps += 1;
            }
            if cancel.load(Ordering::Relaxed) || self.report.found() {
                reached.interrupted = cancel.load(Ordering::Relaxed);
                break;
            }
            match event {
                StepEvent::Op { step, op_index, name, reads, writes } => {
                    self.op(step, op_index, name, &reads, &writes)?;
                    observer.progress(self.ops, total);
                }
                StepEvent::Death(storage) => {
                    if let (Some(kept), Some(surface)) = (&mut self.kept, self.storages.find(storage)) {
                        kept.forget(surface);
                    }
                    self.storages.drop_storage(storage);
                }
            }
        }
        let last = self.lane.last_value();
        self.lane.wait(&self.gpu, last)?;
        if self.ops == total && self.lane.progress().current() != u64::MAX {
            observer.step_done(reached.steps, self.link.now_ns());
            reached.steps += 1;
        }
        Ok(())
    }

    fn finish_step(&mut self, step: u32, observer: &mut dyn Observer) -> Result<(), DriveError> {
        let last = self.lane.last_value();
        self.lane.wait(&self.gpu, last)?;
        observer.step_done(step, self.link.now_ns());
        Ok(())
    }

    /// What is alive before the first step: its content comes from the CPU.
    fn create_persistent(&mut self) -> Result<(), DriveError> {
        for (index, storage) in self.workload.storages().iter().enumerate() {
            if storage.persistent && storage.bytes > 0 {
                // CAST: a workload has fewer than 2^32 storages.
                let id = StorageId { step: 0, storage: index as u32 };
                let surface = self.storages.get_or_create(&self.gpu, id)?;
                let lock = surface.lock()?;
                self.content.write_by_cpu(id, &lock, storage.bytes);
            }
        }
        Ok(())
    }

    fn op(
        &mut self,
        step: u32,
        op_index: u32,
        name: u32,
        reads: &[StorageId],
        writes: &[StorageId],
    ) -> Result<(), DriveError> {
        let set = union(reads, writes);
        if self.kept.is_none() {
            // Only budgets are told of, and nothing stays on the list that could be given back.
            while self.link.take_notification().is_some() {}
        }
        let wait = match self.options.residency {
            ResidencyPolicy::PerOperation => self.make_resident(step, op_index, name, &set)?,
            ResidencyPolicy::Kept => self.keep_resident(step, op_index, name, &set, writes)?,
        };
        for id in reads {
            let surface = self.storages.get(*id);
            self.content.read(&mut self.lane, *id, surface, &self.report, self.ops);
        }
        for id in writes {
            let surface = self.storages.get(*id);
            self.content.write(&mut self.lane, *id, surface);
        }
        self.lane.submit(&self.gpu, wait)?;
        if self.kept.is_none() {
            self.evict(&set, writes)?;
        }
        self.ops += 1;
        Ok(())
    }

    /// Makes the operation's storages resident; returns the paging-fence value that the GPU waits for.
    fn make_resident(
        &mut self,
        step: u32,
        op_index: u32,
        name: u32,
        set: &[StorageId],
    ) -> Result<Option<u64>, DriveError> {
        if set.is_empty() {
            // An operation on storages of no bytes: nothing to make resident, but it is an operation all the same.
            return Ok(None);
        }
        let mut handles = Vec::with_capacity(set.len());
        let mut mapped_at = 0;
        for id in set {
            let surface = self.storages.get_or_create(&self.gpu, *id)?;
            handles.push(surface.allocation().handle());
            mapped_at = mapped_at.max(surface.mapped_at());
        }
        let mut retry = Retry::default();
        loop {
            match self.gpu.paging().make_resident(handles.clone(), retry.flags()) {
                Ok(Residency::Resident) => return Ok(None),
                // The value stands behind the mappings of the same paging queue: it covers them.
                Ok(Residency::Pending { paging_fence_value }) => return Ok(Some(paging_fence_value.max(mapped_at))),
                Err(refusal) if refusal.bytes_to_trim > 0 => {
                    // Nothing of ours is on the list but what queued work still uses; the rest another process holds.
                    if !retry.harder(&self.gpu, &mut self.lane, &refusal)? {
                        return Err(self.does_not_fit(step, op_index, name, set, refusal.bytes_to_trim));
                    }
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }

    /// The same for a list that keeps what it has.
    fn keep_resident(
        &mut self,
        step: u32,
        op_index: u32,
        name: u32,
        set: &[StorageId],
        writes: &[StorageId],
    ) -> Result<Option<u64>, DriveError> {
        for id in set {
            self.storages.get_or_create(&self.gpu, *id)?;
        }
        let kept = self.kept.as_mut().expect("the policy says so");
        kept.honour_trims(&self.gpu, self.lane.progress().current())?;
        let surfaces: Vec<_> =
            set.iter().map(|id| (self.storages.get(*id), writes.binary_search(id).is_ok())).collect();
        match kept.use_surfaces(&self.gpu, &mut self.lane, &surfaces) {
            Ok(made) => Ok(made.wait_for),
            Err(UmdError::Refused(refusal)) if refusal.bytes_to_trim > 0 => {
                Err(self.does_not_fit(step, op_index, name, set, refusal.bytes_to_trim))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn does_not_fit(&self, step: u32, op_index: u32, name: u32, set: &[StorageId], missing_bytes: u64) -> DriveError {
        DriveError::DoesNotFit {
            op: self.workload.op_names()[name as usize].clone(),
            step,
            op_index,
            needed_bytes: set.iter().map(|id| self.storages.bytes(*id)).sum(),
            missing_bytes,
        }
    }

    /// Takes the storages off the residency list, in ascending order, and says which were not written. They leave video
    /// memory only when room is needed.
    fn evict(&mut self, set: &[StorageId], writes: &[StorageId]) -> Result<(), DriveError> {
        let written = |id: &StorageId| writes.binary_search(id).is_ok();
        for run in set.chunk_by(|a, b| written(a) == written(b)) {
            let handles = run.iter().map(|id| self.storages.get(*id).allocation().handle()).collect();
            let mut flags = EvictFlags::EVICT_ONLY_IF_NECESSARY;
            flags.set(EvictFlags::NOT_WRITTEN_TO, !written(&run[0]));
            self.gpu.device().evict(handles, flags)?;
        }
        Ok(())
    }
}

/// Both lists in one, ascending, each once.
fn union(reads: &[StorageId], writes: &[StorageId]) -> Vec<StorageId> {
    let mut set: Vec<StorageId> = reads.iter().chain(writes).copied().collect();
    set.sort_unstable();
    set.dedup();
    set
}
