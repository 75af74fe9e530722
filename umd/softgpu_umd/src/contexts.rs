//! Command buffers under construction, one for each context, and which of them uses which resource. Recording costs no call; a flush
//! submits what was recorded. This module knows when the GPU is past a use, not the purpose of the use. Called by runtimes, and by
//! `dynamic` when the CPU wants memory that a context uses.

use std::collections::BTreeMap;

use d3dkmt::Fence;
use wddm_types::NodeId;

use crate::commands::Commands;
use crate::gpu::{Gpu, UmdError};
use crate::lane::{Lane, Stage};

/// Names a context of [`Contexts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextId(usize);

/// The contexts of one device that share resources, of whichever stages.
#[derive(Default)]
pub struct Contexts {
    list: Vec<Context>,
}

struct Context {
    lane: Lane,
    /// Paging-fence value from which everything that is recorded can be reached.
    reachable_at: u64,
}

/// The last uses of something: for each context the progress value that its last read and its last write complete. A value
/// beyond the last one submitted belongs to the command buffer that is not flushed yet.
// spec: memory §6.4
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    reads: BTreeMap<ContextId, u64>,
    writes: BTreeMap<ContextId, u64>,
}

impl Uses {
    /// The progress values that the CPU waits for, by context: those of the writes, or of reads and writes.
    pub fn points(&self, reads_too: bool) -> Vec<(ContextId, u64)> {
        let reads = self.reads.iter().filter(|_| reads_too);
        let mut points: BTreeMap<ContextId, u64> = BTreeMap::new();
        for (&context, &value) in self.writes.iter().chain(reads) {
            let last = points.entry(context).or_insert(0);
            *last = (*last).max(value);
        }
        points.into_iter().collect()
    }
}

impl Contexts {
    /// No contexts.
    pub fn new() -> Contexts {
        Contexts::default()
    }

    /// Adds a context on a node, of a stage; `None`: of the latest that the adapter has.
    ///
    /// # Errors
    /// As [`Lane::create`].
    pub fn add(&mut self, gpu: &Gpu, node: NodeId, stage: Option<Stage>) -> Result<ContextId, UmdError> {
        let lane = match stage {
            None => Lane::create(gpu, node)?,
            Some(stage) => Lane::create_at(gpu, node, stage)?,
        };
        self.list.push(Context { lane, reachable_at: 0 });
        Ok(ContextId(self.list.len() - 1))
    }

    /// The command buffer of a context that is being recorded; uses of resources are recorded with
    /// [`crate::DynamicResource::record_read`] and `record_write`.
    ///
    /// # Panics
    /// On engines without addresses, which have no resources of this driver's to rename.
    pub fn commands(&mut self, context: ContextId) -> &mut Commands {
        self.list[context.0].lane.commands().expect("an engine that takes commands with addresses")
    }

    /// Submits a context's recorded commands; `None`: there were none.
    ///
    /// # Errors
    /// As [`Lane::submit`].
    pub fn flush(&mut self, gpu: &Gpu, context: ContextId) -> Result<Option<u64>, UmdError> {
        match self.lane(context).has_recorded() {
            true => self.submit(gpu, context, None, &[], &[]).map(Some),
            false => Ok(None),
        }
    }

    /// Submits a context's recorded commands, to run from a paging-fence value on, behind waits and before signals; returns the
    /// progress value that they complete.
    ///
    /// # Errors
    /// As [`Lane::submit_synced`].
    pub fn submit(
        &mut self,
        gpu: &Gpu,
        context: ContextId,
        paged_at: Option<u64>,
        waits: &[(&Fence, u64)],
        signals: &[(&Fence, u64)],
    ) -> Result<u64, UmdError> {
        // The GPU waits for surfaces that are still being paged in; the CPU does not.
        let paged_at = self.reachable(gpu, context).max(paged_at);
        self.list[context.0].lane.submit_synced(gpu, paged_at, waits, signals)
    }

    /// Has the GPU wait for a fence: flushes what the context has recorded, then queues the wait in the kernel or in the ring.
    ///
    /// # Errors
    /// As [`Lane::wait_on_gpu`].
    // spec: sync §3.8
    pub fn wait_on_gpu(&mut self, gpu: &Gpu, context: ContextId, fence: &Fence, value: u64) -> Result<(), UmdError> {
        let paged_at = self.reachable(gpu, context);
        self.list[context.0].lane.wait_on_gpu(gpu, paged_at, fence, value)
    }

    /// The lane of a context.
    pub fn lane(&self, context: ContextId) -> &Lane {
        &self.list[context.0].lane
    }

    /// The lane of a context, to record in it.
    pub fn lane_mut(&mut self, context: ContextId) -> &mut Lane {
        &mut self.list[context.0].lane
    }

    /// The paging-fence value from which all surfaces of the recorded commands are reachable; `None`: they are already.
    fn reachable(&self, gpu: &Gpu, context: ContextId) -> Option<u64> {
        let value = self.list[context.0].reachable_at;
        (gpu.paging().fence().current() < value).then_some(value)
    }

    /// Notes that the commands being recorded read a resource that the GPU reaches from a paging-fence value on.
    pub(crate) fn note_read(&mut self, uses: &mut Uses, context: ContextId, reachable_at: u64) {
        uses.reads.insert(context, self.recording(context));
        self.need(context, reachable_at);
    }

    /// Notes that the commands being recorded write such a resource.
    pub(crate) fn note_write(&mut self, uses: &mut Uses, context: ContextId, reachable_at: u64) {
        uses.writes.insert(context, self.recording(context));
        self.need(context, reachable_at);
    }

    /// Whether the GPU is past all of these: a load for each context, no call.
    pub(crate) fn reached(&self, points: &[(ContextId, u64)]) -> bool {
        points.iter().all(|(context, value)| self.lane(*context).progress().current() >= *value)
    }

    /// Submits the command buffers that have any of these uses.
    pub(crate) fn flush_uses(&mut self, gpu: &Gpu, points: &[(ContextId, u64)]) -> Result<(), UmdError> {
        for &(context, value) in points {
            if value == self.recording(context) {
                self.flush(gpu, context)?;
            }
        }
        Ok(())
    }

    /// Blocks, in one call, until the GPU is past all of these.
    // spec: memory §6.4
    pub(crate) fn wait(&self, gpu: &Gpu, points: &[(ContextId, u64)]) -> Result<(), UmdError> {
        let fences: Vec<_> = points.iter().map(|(context, value)| (self.lane(*context).progress(), *value)).collect();
        gpu.device().wait(&fences)?;
        if points.iter().any(|(context, _)| self.lane(*context).is_lost()) {
            return Err(UmdError::Lost(gpu.device().state()?));
        }
        Ok(())
    }

    fn need(&mut self, context: ContextId, reachable_at: u64) {
        let context = &mut self.list[context.0];
        context.reachable_at = context.reachable_at.max(reachable_at);
    }

    /// The value that the command buffer being recorded will complete.
    fn recording(&self, context: ContextId) -> u64 {
        self.lane(context).last_value() + 1
    }
}
