//! Work on surfaces in whichever way the adapter's engines take it (memory §5.6, sync §4.1): a queue that the process feeds
//! itself, one that the kernel feeds, both with GPU virtual addresses, or packets with lists that the kernel-mode driver patches.
//! Whoever records names surfaces, so it need not know. Called by runtimes that run on every adapter.

use d3dkmt::Fence;
use wddm_types::NodeId;

use crate::commands::Commands;
use crate::gpu::{Gpu, Surface, UmdError};
use crate::kernel_fed::KernelFedStream;
use crate::logs::FenceName;
use crate::patched::PatchedStream;
use crate::stream::{GpuWait, Stream, StreamConfig};

/// Who hands work to an engine (sync §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The kernel schedules packets (stage 0).
    Packet,
    /// The kernel hands command buffers to hardware queues, which the hardware schedules (stage 1).
    Hardware,
    /// The process feeds hardware queues itself and rings their doorbells (stage 2).
    User,
}

/// A stream of either mode, and the submission that is recorded for it.
pub enum Lane {
    /// Engines with GPU virtual addresses whose queues the process feeds.
    Addressed(Box<Stream>, Commands),
    /// Engines with GPU virtual addresses whose queues the kernel feeds.
    KernelFed(Box<KernelFedStream>, Commands),
    /// Engines without.
    Patched(Box<PatchedStream>),
}

impl Lane {
    /// A lane on a node, of the latest stage that the adapter has.
    ///
    /// # Errors
    /// When memory is short or the adapter lacks something.
    pub fn create(gpu: &Gpu, node: NodeId) -> Result<Lane, UmdError> {
        let stage = if gpu.has_addresses() && gpu.has_user_queues() { Stage::User } else { Stage::Packet };
        Lane::create_at(gpu, node, stage)
    }

    /// A lane of a stage on a node.
    ///
    /// # Errors
    /// When memory is short or the adapter lacks something that the stage needs.
    // spec: sync §4.1
    pub fn create_at(gpu: &Gpu, node: NodeId, stage: Stage) -> Result<Lane, UmdError> {
        let config = StreamConfig::default();
        match stage {
            Stage::User => Ok(Lane::Addressed(Box::new(Stream::create(gpu, node, config)?), Commands::new())),
            Stage::Hardware => {
                let stream = KernelFedStream::hardware(gpu, node, config)?;
                Ok(Lane::KernelFed(Box::new(stream), Commands::new()))
            }
            Stage::Packet if gpu.has_addresses() => {
                let stream = KernelFedStream::packets(gpu, node, config)?;
                Ok(Lane::KernelFed(Box::new(stream), Commands::new()))
            }
            Stage::Packet => Ok(Lane::Patched(Box::new(PatchedStream::create(gpu, node)?))),
        }
    }

    /// Records a read of a surface, and a write of the bytes read, changed, if `write`.
    pub fn touch(&mut self, surface: &Surface, write: bool) {
        match self {
            Lane::Addressed(_, commands) | Lane::KernelFed(_, commands) => {
                commands.touch(surface.va(), surface.bytes(), write);
            }
            Lane::Patched(stream) => stream.touch(surface, write),
        }
    }

    /// Records writing the content of a seed.
    pub fn pattern(&mut self, surface: &Surface, seed: u64) {
        match self {
            Lane::Addressed(_, commands) | Lane::KernelFed(_, commands) => {
                commands.pattern(surface.va(), surface.bytes(), seed);
            }
            Lane::Patched(stream) => stream.pattern(surface, seed),
        }
    }

    /// Records a comparison with the content of a seed; the first mismatch is written to `report` under `tag`.
    pub fn check(&mut self, surface: &Surface, seed: u64, report: &Surface, tag: u64) {
        match self {
            Lane::Addressed(_, commands) | Lane::KernelFed(_, commands) => {
                commands.check(surface.va(), surface.bytes(), seed, report.va(), tag);
            }
            Lane::Patched(stream) => stream.check(surface, seed, report, tag),
        }
    }

    /// Submits what is recorded, to run from a paging-fence value on; returns the progress value that it completes.
    ///
    /// # Errors
    /// As of [`Stream::submit`] and [`PatchedStream::submit`].
    pub fn submit(&mut self, gpu: &Gpu, paged_at: Option<u64>) -> Result<u64, UmdError> {
        match self {
            Lane::Addressed(stream, commands) => {
                let fence = FenceName::from(gpu.paging().fence());
                let wait = paged_at.map(|value| GpuWait { fence, value });
                let value = stream.submit(gpu, wait.as_slice(), commands)?;
                commands.clear();
                Ok(value)
            }
            Lane::KernelFed(stream, commands) => {
                let value = stream.submit(gpu, paged_at, commands)?;
                commands.clear();
                Ok(value)
            }
            Lane::Patched(stream) => stream.submit(gpu),
        }
    }

    /// Waits on the CPU until the lane has got to a value.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn wait(&mut self, gpu: &Gpu, value: u64) -> Result<(), UmdError> {
        match self {
            Lane::Addressed(stream, _) => stream.wait(gpu, value),
            Lane::KernelFed(stream, _) => stream.wait(gpu, value),
            Lane::Patched(stream) => stream.wait(gpu, value),
        }
    }

    /// The last value submitted.
    pub fn last_value(&self) -> u64 {
        match self {
            Lane::Addressed(stream, _) => stream.last_value(),
            Lane::KernelFed(stream, _) => stream.last_value(),
            Lane::Patched(stream) => stream.last_value(),
        }
    }

    /// The progress fence.
    pub fn progress(&self) -> &Fence {
        match self {
            Lane::Addressed(stream, _) => stream.progress(),
            Lane::KernelFed(stream, _) => stream.progress(),
            Lane::Patched(stream) => stream.progress(),
        }
    }

    /// The queue's number on its device, if it has one.
    pub fn device_queue(&self) -> Option<u32> {
        match self {
            Lane::Addressed(stream, _) => Some(stream.device_queue()),
            Lane::KernelFed(..) | Lane::Patched(_) => None,
        }
    }
}
