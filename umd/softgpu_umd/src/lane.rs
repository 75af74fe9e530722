//! Work on surfaces in whichever way the adapter's engines take it (memory §5.6): a queue that the process feeds itself,
//! with GPU virtual addresses, or packets with lists that the kernel-mode driver patches. Whoever records names surfaces,
//! so it need not know. Called by runtimes that run on every adapter.

use d3dkmt::Fence;
use wddm_types::NodeId;

use crate::commands::Commands;
use crate::gpu::{Gpu, Surface, UmdError};
use crate::logs::FenceName;
use crate::packets::PacketStream;
use crate::patched::PatchedStream;
use crate::stream::{GpuWait, Stream, StreamConfig};

/// A stream of either mode, and the submission that is recorded for it.
pub enum Lane {
    /// Engines with GPU virtual addresses whose queues the process feeds.
    Addressed(Box<Stream>, Commands),
    /// Engines with GPU virtual addresses that take packets.
    Packets(Box<PacketStream>, Commands),
    /// Engines without.
    Patched(Box<PatchedStream>),
}

impl Lane {
    /// A lane on a node.
    ///
    /// # Errors
    /// When memory is short or the adapter lacks something.
    pub fn create(gpu: &Gpu, node: NodeId) -> Result<Lane, UmdError> {
        if gpu.has_addresses() && !gpu.has_user_queues() {
            let stream = PacketStream::create(gpu, node, StreamConfig::default())?;
            return Ok(Lane::Packets(Box::new(stream), Commands::new()));
        }
        if gpu.has_addresses() {
            let stream = Stream::create(gpu, node, StreamConfig::default())?;
            return Ok(Lane::Addressed(Box::new(stream), Commands::new()));
        }
        Ok(Lane::Patched(Box::new(PatchedStream::create(gpu, node)?)))
    }

    /// Records a read of a surface, and a write of the bytes read, changed, if `write`.
    pub fn touch(&mut self, surface: &Surface, write: bool) {
        match self {
            Lane::Addressed(_, commands) | Lane::Packets(_, commands) => {
                commands.touch(surface.va(), surface.bytes(), write);
            }
            Lane::Patched(stream) => stream.touch(surface, write),
        }
    }

    /// Records writing the content of a seed.
    pub fn pattern(&mut self, surface: &Surface, seed: u64) {
        match self {
            Lane::Addressed(_, commands) | Lane::Packets(_, commands) => {
                commands.pattern(surface.va(), surface.bytes(), seed);
            }
            Lane::Patched(stream) => stream.pattern(surface, seed),
        }
    }

    /// Records a comparison with the content of a seed; the first mismatch is written to `report` under `tag`.
    pub fn check(&mut self, surface: &Surface, seed: u64, report: &Surface, tag: u64) {
        match self {
            Lane::Addressed(_, commands) | Lane::Packets(_, commands) => {
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
            Lane::Packets(stream, commands) => {
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
            Lane::Packets(stream, _) => stream.wait(gpu, value),
            Lane::Patched(stream) => stream.wait(gpu, value),
        }
    }

    /// The last value submitted.
    pub fn last_value(&self) -> u64 {
        match self {
            Lane::Addressed(stream, _) => stream.last_value(),
            Lane::Packets(stream, _) => stream.last_value(),
            Lane::Patched(stream) => stream.last_value(),
        }
    }

    /// The progress fence.
    pub fn progress(&self) -> &Fence {
        match self {
            Lane::Addressed(stream, _) => stream.progress(),
            Lane::Packets(stream, _) => stream.progress(),
            Lane::Patched(stream) => stream.progress(),
        }
    }

    /// The queue's number on its device, if it has one.
    pub fn device_queue(&self) -> Option<u32> {
        match self {
            Lane::Addressed(stream, _) => Some(stream.device_queue()),
            Lane::Packets(..) | Lane::Patched(_) => None,
        }
    }
}
