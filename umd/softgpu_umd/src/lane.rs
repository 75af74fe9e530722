//! Work on surfaces in whichever way the adapter's engines take it (memory §5.6, sync §4.1): a queue that the process feeds
//! itself, one that the kernel feeds, both with GPU virtual addresses, or packets with lists that the kernel-mode driver patches.
//! A caller that records names surfaces, so it need not know which of them the adapter has. Called by runtimes that run on every
//! adapter.

use d3dkmt::Fence;
use wddm_types::{NodeId, RawHandle};

use crate::commands::Commands;
use crate::gpu::{Gpu, Surface, UmdError};
use crate::kernel_fed::{Around, KernelFedStream};
use crate::patched::PatchedStream;
use crate::stream::{GpuSignal, GpuWait, Stream, StreamConfig};

/// The path by which work reaches an engine (sync §4.1).
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
            Stage::User => Ok(Lane::Addressed(Box::new(Stream::create(gpu, node, config)?), Commands::recorded(gpu))),
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

    /// What is recorded from here to the submission is work of a known length: as of [`Commands::work`].
    pub fn work(&mut self, ns: u64) {
        match self {
            Lane::Addressed(_, commands) | Lane::KernelFed(_, commands) => {
                commands.work(ns);
            }
            Lane::Patched(stream) => stream.work(ns),
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

    /// Records a copy of bytes from a place of a surface to a place of another, both of this adapter. Offsets are multiples of 8, bytes
    /// are rounded up to 8.
    ///
    /// # Panics
    /// When one of the ranges is not inside its surface, or begins where no list of an engine without addresses can say.
    pub fn copy(&mut self, source: &Surface, source_offset: u64, target: &Surface, target_offset: u64, bytes: u64) {
        for (surface, offset) in [(source, source_offset), (target, target_offset)] {
            let inside =
                offset.is_multiple_of(8) && offset.checked_add(bytes).is_some_and(|end| end <= surface.bytes());
            assert!(inside, "{bytes} bytes at {offset} of a surface of {}", surface.bytes());
        }
        match self {
            Lane::Addressed(_, commands) | Lane::KernelFed(_, commands) => {
                commands.copy(source.va().offset(source_offset), target.va().offset(target_offset), bytes);
            }
            Lane::Patched(stream) => {
                let listed = |offset| u32::try_from(offset).expect("lists say where in 32 bits (memory §7.3)");
                stream.copy(
                    (source, listed(source_offset)),
                    (target, listed(target_offset)),
                    bytes.next_multiple_of(8),
                );
            }
        }
    }

    /// Records filling bytes of a surface from a place on with a 32-bit pattern. Both are multiples of 8.
    ///
    /// # Panics
    /// As of [`Lane::copy`].
    pub fn fill(&mut self, surface: &Surface, offset: u64, bytes: u64, pattern: u32) {
        let inside = offset.is_multiple_of(8) && offset.checked_add(bytes).is_some_and(|end| end <= surface.bytes());
        assert!(inside, "{bytes} bytes at {offset} of a surface of {}", surface.bytes());
        match self {
            Lane::Addressed(_, commands) | Lane::KernelFed(_, commands) => {
                commands.fill(surface.va().offset(offset), bytes, pattern);
            }
            Lane::Patched(stream) => {
                let offset = u32::try_from(offset).expect("lists say where in 32 bits (memory §7.3)");
                stream.fill((surface, offset), bytes, pattern);
            }
        }
    }

    /// Submits recorded commands that write these primaries: they start when no display shows one of them, and none is about to. Where
    /// there are lists, the kernel takes the written primaries from them and ignores this argument.
    ///
    /// # Errors
    /// As of [`Lane::submit`]; [`UmdError::Lacks`] on a queue that the process feeds itself: its submissions do not tell the kernel what they write.
    // spec: memory §5.6, sync §3.17
    pub fn submit_writing(&mut self, gpu: &Gpu, primaries: &[RawHandle]) -> Result<u64, UmdError> {
        match self {
            Lane::Addressed(..) => Err(UmdError::Lacks("lists of written primaries on queues that processes feed")),
            Lane::KernelFed(stream, commands) => {
                let value = stream.submit_writing(gpu, None, commands, primaries)?;
                commands.clear();
                Ok(value)
            }
            Lane::Patched(stream) => stream.submit(gpu),
        }
    }

    /// Shows a primary when all submissions so far are done, `interval` blanks behind the flip before it. Returns how many flips are
    /// queued.
    ///
    /// # Errors
    /// Those of `D3DKMTPresent`; [`UmdError::Lacks`] on a queue that the process feeds itself.
    // spec: sync §4.6, sync §3.17
    pub fn flip(&self, primary: &Surface, interval: u32) -> Result<u32, UmdError> {
        match self {
            Lane::Addressed(..) => Err(UmdError::Lacks("flips on queues that processes feed")),
            Lane::KernelFed(stream, _) => Ok(stream.flip(primary.allocation(), interval)?),
            Lane::Patched(stream) => Ok(stream.flip(primary.allocation(), interval)?),
        }
    }

    /// Submits the recorded commands, to run from a paging-fence value on; returns the progress value that they complete.
    ///
    /// # Errors
    /// As of [`Stream::submit`] and [`PatchedStream::submit`].
    pub fn submit(&mut self, gpu: &Gpu, paged_at: Option<u64>) -> Result<u64, UmdError> {
        self.submit_synced(gpu, paged_at, &[], &[])
    }

    /// Submits behind waits on the GPU and before signals by it. Fences are native ones where the process feeds the queue itself;
    /// queues that the kernel feeds, and packets, take both kinds. A full lane blocks this call until its oldest
    /// submission is done, so the signals that this one waits for have to be on their way.
    ///
    /// # Errors
    /// [`UmdError::NotNative`] for a monitored fence on a queue that the process feeds: the lane submits nothing and keeps the
    /// recorded commands. Otherwise as of [`Lane::submit`], and the kernel's refusal of a fence: the GPU waits for the ones before it.
    // spec: sync §4.1, sync §3.12, sync §5
    pub fn submit_synced(
        &mut self,
        gpu: &Gpu,
        paged_at: Option<u64>,
        waits: &[(&Fence, u64)],
        signals: &[(&Fence, u64)],
    ) -> Result<u64, UmdError> {
        match self {
            Lane::Addressed(stream, commands) => {
                let paged = paged_at.map(|value| (gpu.paging().fence(), value));
                let waits = waits.iter().copied().chain(paged);
                let waits: Vec<_> = waits.map(|(fence, value)| GpuWait { fence: fence.into(), value }).collect();
                let signals = signals.iter().map(|(fence, value)| GpuSignal { fence: (*fence).into(), value: *value });
                let value = stream.submit_signaling(gpu, &waits, commands, &signals.collect::<Vec<_>>())?;
                commands.clear();
                Ok(value)
            }
            Lane::KernelFed(stream, commands) => {
                let value = stream.submit_around(gpu, Around { paged_at, waits, signals }, commands, &[])?;
                commands.clear();
                Ok(value)
            }
            Lane::Patched(stream) => stream.submit_synced(gpu, waits, signals),
        }
    }

    /// Has the GPU wait: submits the recorded commands first, to run from a paging-fence value on; commands recorded behind this call run
    /// when the fence has this value. The fence lives until the next submission.
    ///
    /// # Errors
    /// As of [`Lane::submit_synced`]; the GPU does not wait for a refused fence.
    // spec: sync §3.8
    pub fn wait_on_gpu(&mut self, gpu: &Gpu, paged_at: Option<u64>, fence: &Fence, value: u64) -> Result<(), UmdError> {
        if self.has_recorded() {
            self.submit(gpu, paged_at)?;
        }
        match self {
            Lane::Addressed(stream, _) => stream.wait_on_gpu(GpuWait { fence: fence.into(), value }),
            Lane::KernelFed(stream, _) => stream.wait_on_gpu(gpu, fence, value),
            Lane::Patched(stream) => stream.wait_on_gpu(fence, value),
        }
    }

    /// Whether recorded commands have not been submitted.
    pub fn has_recorded(&self) -> bool {
        match self {
            Lane::Addressed(_, commands) | Lane::KernelFed(_, commands) => !commands.words().is_empty(),
            Lane::Patched(stream) => stream.has_recorded(),
        }
    }

    /// The commands that the caller is recording, on engines that take commands with addresses.
    pub fn commands(&mut self) -> Option<&mut Commands> {
        match self {
            Lane::Addressed(_, commands) | Lane::KernelFed(_, commands) => Some(commands),
            Lane::Patched(_) => None,
        }
    }

    /// Whether the progress fence has the value that the kernel writes for a lost device, which no submission ever reaches.
    pub fn is_lost(&self) -> bool {
        let progress = self.progress();
        progress.current() == if progress.bits() == 64 { u64::MAX } else { u64::from(u32::MAX) }
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
