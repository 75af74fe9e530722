//! A driver's state on one adapter: a device with a lane, the storages that are there, and the residency list.

use std::sync::Arc;

use d3dkmt::{Adapter, DeviceState, EvictFlags, Fence, Notification, Registration, Residency};
use kmt_link::Link;
use softgpu_umd::{ContextId, Contexts, Gpu, Lane, Renamed, ResidencyList, UmdError};
use wddm_types::{Luid, NodeId, WordAddress};

use crate::drive::ahead::DeadStorages;
use crate::drive::constants::Constants;
use crate::drive::content::{Content, Report};
use crate::drive::error::DriveError;
use crate::drive::storages::Storages;
use crate::drive::{DriveOptions, ResidencyPolicy, Stage};
use crate::steps::StorageId;
use crate::workload::Workload;

/// The node that computes.
const COMPUTE: NodeId = NodeId(0);

/// The purpose of a submission; kept with [`DriveOptions::keeps_submissions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The step that it belongs to.
    pub step: u32,
    /// Its work.
    pub work: Work,
}

/// The work of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// An operation: the index of its name.
    Op(u32),
    /// A part of this storage went on its way to another adapter.
    Leaves(u32),
    /// A part of this storage came from another adapter.
    Arrives(u32),
}

/// The outcome of a run on one adapter.
#[derive(Clone, Debug)]
pub struct DrivenOn {
    /// Operations completed there.
    pub ops: u64,
    /// Bytes of content that came from other adapters.
    pub arrived_bytes: u64,
    /// CurrentValue of the compute queue's progress fence: value i + 1 completes submission i.
    pub progress: WordAddress,
    /// The compute queue's number on its device; `None`: the kernel hands its work over.
    pub device_queue: Option<u32>,
    /// The work of each submission, with [`DriveOptions::keeps_submissions`]; else empty.
    pub submissions: Vec<Submission>,
    /// Counts of the maps of the constants, with [`DriveOptions::constant_bytes`].
    pub constants: Option<Renamed>,
}

/// The operation at hand, for the error that it does not fit.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub workload: &'a Workload,
    pub step: u32,
    pub op_index: u32,
    pub name: u32,
}

impl At<'_> {
    fn does_not_fit(&self, needed_bytes: u64, missing_bytes: u64) -> DriveError {
        DriveError::DoesNotFit {
            op: self.workload.op_names()[self.name as usize].clone(),
            step: self.step,
            op_index: self.op_index,
            needed_bytes,
            missing_bytes,
        }
    }
}

/// Fences that a submission signals beside its progress.
#[derive(Clone, Copy, Default)]
pub struct Order<'a> {
    pub signals: &'a [(&'a Fence, u64)],
}

/// One adapter's part of a drive.
pub struct Site {
    // Dropped in this order: work before memory, memory before the device.
    pub queues: Contexts,
    /// The one that computes.
    pub compute: ContextId,
    /// With [`DriveOptions::constant_bytes`].
    pub constants: Option<Constants>,
    pub storages: Storages,
    dead: DeadStorages,
    pub report: Report,
    /// With [`ResidencyPolicy::Kept`].
    kept: Option<ResidencyList>,
    /// While it lives the kernel sends the process changes of its budget.
    _budget: Option<Registration>,
    pub gpu: Gpu,
    keeps_submissions: bool,
    submissions: Vec<Submission>,
    ops: u64,
    arrived_bytes: u64,
}

impl Site {
    /// A device on an adapter.
    pub fn create(
        workload: &Workload,
        link: &Arc<dyn Link>,
        luid: Luid,
        options: DriveOptions,
    ) -> Result<Site, DriveError> {
        let gpu = Gpu::on(Adapter::open(Arc::clone(link), luid)?)?;
        let mut queues = Contexts::new();
        let compute = queues.add(&gpu, COMPUTE, options.stage)?;
        let constants = options.constant_bytes.map(|bytes| Constants::create(&gpu, bytes)).transpose()?;
        let report = Report::create(&gpu)?;
        let kept = match options.residency {
            ResidencyPolicy::PerOperation => None,
            ResidencyPolicy::Kept => Some(ResidencyList::create(&gpu)?),
        };
        let told = options.hears_budget.then(|| gpu.device().register_budget_change());
        let budget = told.transpose().map_err(UmdError::from)?;
        let storages = Storages::new(workload.storages(), options.in_place);
        let ahead_bytes = match options.ahead_bytes {
            Some(bytes) => bytes,
            None => gpu.adapter().video_memory_info(true).map_err(UmdError::from)?.budget_bytes,
        };
        let dead = DeadStorages::new(ahead_bytes);
        let keeps_submissions = options.keeps_submissions;
        let (submissions, ops, arrived_bytes) = (Vec::new(), 0, 0);
        Ok(Site {
            queues,
            compute,
            constants,
            storages,
            dead,
            report,
            kept,
            _budget: budget,
            gpu,
            keeps_submissions,
            submissions,
            ops,
            arrived_bytes,
        })
    }

    /// Makes storages resident for the submission that comes next, which writes these of them; returns the paging-fence value
    /// that the GPU waits for.
    pub fn make_resident(
        &mut self,
        at: At<'_>,
        set: &[StorageId],
        writes: &[StorageId],
    ) -> Result<Option<u64>, DriveError> {
        self.wait_for_the_dead(set)?;
        match self.kept {
            None => self.make_resident_once(at, set),
            Some(_) => self.keep_resident(at, set, writes),
        }
    }

    /// Before a storage is made: waits for the GPU while dead ones hold too many bytes.
    fn wait_for_the_dead(&mut self, set: &[StorageId]) -> Result<(), DriveError> {
        if set.iter().all(|id| self.storages.find(*id).is_some()) {
            return Ok(());
        }
        self.dead.reached(self.lane().progress().current());
        if let Some(value) = self.dead.wait_for() {
            self.queues.lane_mut(self.compute).wait(&self.gpu, value)?;
            self.dead.reached(value);
        }
        Ok(())
    }

    fn make_resident_once(&mut self, at: At<'_>, set: &[StorageId]) -> Result<Option<u64>, DriveError> {
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
        // This device's list has only storages that queued work still uses; another process holds the rest.
        let nothing_to_give = |_| Ok(0);
        let lane = self.queues.lane_mut(self.compute);
        match softgpu_umd::make_resident(&self.gpu, lane, &handles, nothing_to_give) {
            Ok(Residency::Resident) => Ok(None),
            // The value stands behind the mappings of the same paging queue: it covers them.
            Ok(Residency::Pending { paging_fence_value, .. }) => Ok(Some(paging_fence_value.max(mapped_at))),
            Err(error) => Err(self.error_of_residency(at, set, error)),
        }
    }

    /// Makes the storages resident on a list that keeps used ones.
    fn keep_resident(
        &mut self,
        at: At<'_>,
        set: &[StorageId],
        writes: &[StorageId],
    ) -> Result<Option<u64>, DriveError> {
        for id in set {
            self.storages.get_or_create(&self.gpu, *id)?;
        }
        let kept = self.kept.as_mut().expect("the policy says so");
        let surfaces: Vec<_> =
            set.iter().map(|id| (self.storages.get(*id), writes.binary_search(id).is_ok())).collect();
        match kept.use_surfaces(&self.gpu, self.queues.lane_mut(self.compute), &surfaces) {
            Ok(made) => Ok(made.wait_for),
            Err(error) => Err(self.error_of_residency(at, set, error)),
        }
    }

    /// The error of a list that could not be made resident.
    fn error_of_residency(&self, at: At<'_>, set: &[StorageId], error: UmdError) -> DriveError {
        match error {
            UmdError::Refused(refusal) if refusal.bytes_to_trim > 0 => {
                at.does_not_fit(self.bytes_of(set), refusal.bytes_to_trim)
            }
            other => other.into(),
        }
    }

    fn bytes_of(&self, set: &[StorageId]) -> u64 {
        set.iter().map(|id| self.storages.bytes(*id)).sum()
    }

    /// The lane that computes.
    pub fn lane(&self) -> &Lane {
        self.queues.lane(self.compute)
    }

    /// Commands recorded behind this call wait for a fence on the GPU.
    pub fn wait_on_gpu(&mut self, fence: &Fence, value: u64) -> Result<(), DriveError> {
        Ok(self.queues.wait_on_gpu(&self.gpu, self.compute, fence, value)?)
    }

    /// The CPU hands constants to the operation at hand, which reads them.
    pub fn hand_constants(&mut self, content: &Content, op: u64) -> Result<(), DriveError> {
        let Some(constants) = &mut self.constants else { return Ok(()) };
        constants.hand(&self.gpu, &mut self.queues, self.compute, content, &self.report, op)
    }

    /// Submits the recorded commands.
    pub fn submit(&mut self, paged_at: Option<u64>, order: Order<'_>, what: Submission) -> Result<(), DriveError> {
        self.queues.submit(&self.gpu, self.compute, paged_at, &[], order.signals)?;
        match what.work {
            Work::Op(_) => self.ops += 1,
            Work::Leaves(_) | Work::Arrives(_) => {}
        }
        if self.keeps_submissions {
            self.submissions.push(what);
        }
        Ok(())
    }

    /// Behind a submission: unless the list keeps them, evicts the storages in ascending order, and tells the kernel which were
    /// not written. They leave video memory only when the kernel needs the room.
    pub fn evict(&mut self, set: &[StorageId], writes: &[StorageId]) -> Result<(), DriveError> {
        if self.kept.is_some() {
            return Ok(());
        }
        let written = |id: &StorageId| writes.binary_search(id).is_ok();
        let list = |run: &[StorageId]| {
            let handles = run.iter().map(|id| self.storages.get(*id).allocation().handle()).collect();
            let mut flags = EvictFlags::EVICT_ONLY_IF_NECESSARY;
            flags.set(EvictFlags::NOT_WRITTEN_TO, !written(&run[0]));
            (handles, flags)
        };
        self.gpu.device().evict_lists(set.chunk_by(|a, b| written(a) == written(b)).map(list).collect())?;
        Ok(())
    }

    /// Carries out a notification of the kernel for this device, and ignores those for others.
    pub fn hear(&mut self, told: &Notification) -> Result<(), DriveError> {
        if let Some(kept) = &mut self.kept {
            kept.honour_trim(&self.gpu, self.queues.lane(self.compute).progress().current(), told)?;
        }
        if let Some(constants) = &mut self.constants {
            constants.hear(&self.queues, told);
        }
        Ok(())
    }

    /// The storage is not needed here any more: it died, or its content here is out of date.
    pub fn drop_storage(&mut self, id: StorageId) {
        let Some(surface) = self.storages.find(id) else { return };
        if let Some(kept) = &mut self.kept {
            kept.forget(surface);
        }
        self.dead.died(self.lane().last_value(), surface.bytes());
        self.storages.drop_storage(id);
    }

    /// Content has come from another adapter.
    pub fn count_arrived(&mut self, bytes: u64) {
        self.arrived_bytes += bytes;
    }

    /// Waits until everything submitted is done.
    pub fn finish(&mut self) -> Result<(), DriveError> {
        let last = self.lane().last_value();
        Ok(self.queues.lane_mut(self.compute).wait(&self.gpu, last)?)
    }

    /// Whether the progress fence has the value that the kernel writes for a lost device.
    pub fn is_lost(&self) -> bool {
        self.lane().is_lost()
    }

    /// The state of the device, if it is lost.
    pub fn lost_state(&self) -> Option<DeviceState> {
        self.gpu.device().state().ok().filter(|state| *state != DeviceState::Active)
    }

    /// The outcome of the run on this adapter.
    pub fn driven(&mut self) -> DrivenOn {
        DrivenOn {
            ops: self.ops,
            arrived_bytes: self.arrived_bytes,
            progress: self.lane().progress().address(),
            device_queue: self.lane().device_queue(),
            submissions: std::mem::take(&mut self.submissions),
            constants: self.constants.as_ref().map(Constants::done),
        }
    }
}

/// A lane of a stage on the node that computes; `None`: of the latest stage that the adapter has.
pub fn lane(gpu: &Gpu, stage: Option<Stage>) -> Result<Lane, UmdError> {
    match stage {
        None => Lane::create(gpu, COMPUTE),
        Some(stage) => Lane::create_at(gpu, COMPUTE, stage),
    }
}
