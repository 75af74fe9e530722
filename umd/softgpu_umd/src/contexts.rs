//! Command buffers under construction, one for each context, and who is used by which. Recording costs no call; a flush
//! submits what was recorded. It knows when the GPU is past a use, not what the use was for. Called by runtimes, and by
//! `dynamic` when the CPU wants memory that a context uses.

use std::collections::BTreeMap;

use wddm_types::NodeId;

use crate::commands::Commands;
use crate::gpu::{Gpu, UmdError};
use crate::stream::{GpuWait, Stream, StreamConfig};

/// Names a context of [`Contexts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextId(usize);

/// The contexts of one device that share resources.
#[derive(Default)]
pub struct Contexts {
    list: Vec<Context>,
}

struct Context {
    stream: Stream,
    commands: Commands,
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
    /// What the CPU has to see the end of: the writes, or reads and writes.
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
    /// None yet.
    pub fn new() -> Contexts {
        Contexts::default()
    }

    /// One more, on a node.
    ///
    /// # Errors
    /// As [`Stream::create`].
    pub fn add(&mut self, gpu: &Gpu, node: NodeId, config: StreamConfig) -> Result<ContextId, UmdError> {
        let stream = Stream::create(gpu, node, config)?;
        self.list.push(Context { stream, commands: Commands::recorded(gpu), reachable_at: 0 });
        Ok(ContextId(self.list.len() - 1))
    }

    /// The command buffer of a context that is being recorded; uses of resources are recorded with
    /// [`crate::DynamicResource::record_read`] and `record_write`.
    pub fn commands(&mut self, context: ContextId) -> &mut Commands {
        &mut self.list[context.0].commands
    }

    /// Submits what a context has recorded; `None`: nothing.
    ///
    /// # Errors
    /// As [`Stream::submit`].
    pub fn flush(&mut self, gpu: &Gpu, context: ContextId) -> Result<Option<u64>, UmdError> {
        let context = &mut self.list[context.0];
        if context.commands.words().is_empty() {
            return Ok(None);
        }
        let paging = gpu.paging().fence();
        let wait = GpuWait { fence: paging.into(), value: context.reachable_at };
        // The GPU waits for what is still being paged in; the CPU does not.
        let waits = if paging.current() < wait.value { &[wait][..] } else { &[] };
        let value = context.stream.submit(gpu, waits, &context.commands)?;
        context.commands.clear();
        Ok(Some(value))
    }

    /// The stream of a context.
    pub fn stream(&self, context: ContextId) -> &Stream {
        &self.list[context.0].stream
    }

    /// The commands being recorded read something that the GPU reaches from a paging-fence value on.
    pub(crate) fn note_read(&mut self, uses: &mut Uses, context: ContextId, reachable_at: u64) {
        uses.reads.insert(context, self.recording(context));
        self.need(context, reachable_at);
    }

    /// They write it.
    pub(crate) fn note_write(&mut self, uses: &mut Uses, context: ContextId, reachable_at: u64) {
        uses.writes.insert(context, self.recording(context));
        self.need(context, reachable_at);
    }

    /// Whether the GPU is past all of these: a load for each context, no call.
    pub(crate) fn reached(&self, points: &[(ContextId, u64)]) -> bool {
        points.iter().all(|(context, value)| self.stream(*context).progress().current() >= *value)
    }

    /// Submits the command buffers in which any of these uses stands.
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
        let fences: Vec<_> = points.iter().map(|(context, value)| (self.stream(*context).progress(), *value)).collect();
        gpu.device().wait(&fences)?;
        if fences.iter().any(|(fence, _)| fence.current() == u64::MAX) {
            // The kernel's word for a device that is lost: no submission ever gets that far.
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
        self.stream(context).last_value() + 1
    }
}
