//! A queue that the kernel feeds: work goes to it buffer by buffer, by GPU virtual addresses and without lists. There are two
//! generations of it (sync §4.1):
//!
//! | stage | made of | the end of a buffer is known by |
//! |---|---|---|
//! | packet (memory §5.6, WDDM 2.0) | packets of a context | a monitored fence, signalled in whichever way the node can |
//! | hardware | commands of a hardware queue | its native progress fence, signalled by the hardware |
//!
//! | the node (sync §3.7) | at the end of each buffer of packets |
//! |---|---|
//! | advanced | a store that interrupts |
//! | basic | a store, which the kernel finds when the buffer has completed |
//! | cannot write it | nothing: behind it a software packet |

use std::collections::VecDeque;

use d3dkmt::{Allocation, Fence, FenceFlags, HwContext, KernelQueue, MonitoredFenceSignal, Refusal, VirtualContext};
use softgpu_spec::Command;
use wddm_types::{GpuVa, NodeId, NtStatus, RawHandle};

use crate::commands::Commands;
use crate::gpu::{Gpu, UmdError};
use crate::ring_memory::RingMemory;
use crate::stream::StreamConfig;

/// A queue that the kernel feeds, its command memory and its progress.
pub struct KernelFedStream {
    // The queue goes before the memory that it reads.
    feed: Feed,
    commands: RingMemory,
    /// Value, and where its commands end.
    in_flight: VecDeque<(u64, u64)>,
    config: StreamConfig,
    last_value: u64,
}

/// Waits before the commands of a submission, and signals behind them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Around<'a> {
    /// The paging-fence value from which they run.
    pub(crate) paged_at: Option<u64>,
    /// Fence values that the GPU waits for before them.
    pub(crate) waits: &'a [(&'a Fence, u64)],
    /// Fence values that the GPU signals behind them.
    pub(crate) signals: &'a [(&'a Fence, u64)],
}

/// The kernel's object that takes the work: a packet context or a hardware queue.
enum Feed {
    // The context goes before the fence that it signals.
    Packets { context: VirtualContext, progress: Fence, signal: MonitoredFenceSignal },
    // The queue goes before its context.
    Queue { queue: KernelQueue, _context: HwContext },
}

impl Feed {
    fn progress(&self) -> &Fence {
        match self {
            Feed::Packets { progress, .. } => progress,
            Feed::Queue { queue, .. } => queue.progress(),
        }
    }

    /// Appends the commands that signal a value at the end of a buffer.
    fn end(&self, value: u64, words: &mut Vec<u64>) {
        let va = self.progress().current_va().0;
        match self {
            Feed::Packets { signal: MonitoredFenceSignal::Advanced, .. } => {
                Command::SignalAlways { va, value }.encode(words);
            }
            Feed::Packets { signal: MonitoredFenceSignal::Basic, .. } => {
                Command::Store { va, words: &[value] }.encode(words);
            }
            // A buffer is never empty.
            Feed::Packets { signal: MonitoredFenceSignal::Packet, .. } | Feed::Queue { .. } => {
                Command::Nop.encode(words)
            }
        }
    }

    fn wait(&self, fence: &Fence, value: u64) -> Result<(), Refusal> {
        match self {
            Feed::Packets { context, .. } => context.wait(fence, value),
            Feed::Queue { queue, .. } => queue.submit_wait(fence, value),
        }
    }

    fn signal(&self, fence: &Fence, value: u64) -> Result<(), Refusal> {
        match self {
            Feed::Packets { context, .. } => context.signal(fence, value),
            Feed::Queue { queue, .. } => queue.submit_signal(fence, value),
        }
    }

    fn flip(&self, primary: &Allocation, interval: u32) -> Result<u32, Refusal> {
        match self {
            Feed::Packets { context, .. } => context.flip(primary, interval),
            Feed::Queue { queue, .. } => queue.flip(primary, interval),
        }
    }

    fn submit(&self, at: GpuVa, bytes: u32, value: u64, primaries: Vec<RawHandle>) -> Result<(), Refusal> {
        match self {
            Feed::Packets { context, .. } => context.submit(at, bytes, primaries).map(drop),
            Feed::Queue { queue, .. } => queue.submit_writing(at, bytes, value, primaries),
        }
    }
}

impl KernelFedStream {
    /// A stream of packets, with a context of its own on a node. Of the sizes it uses those of command memory and of submissions in flight.
    ///
    /// # Errors
    /// When memory is short or the node takes no packets at addresses.
    pub fn packets(gpu: &Gpu, node: NodeId, config: StreamConfig) -> Result<KernelFedStream, UmdError> {
        let commands = RingMemory::create(gpu, config.command_bytes)?;
        let context = VirtualContext::create(gpu.device(), node, Vec::new())?;
        let progress = gpu.device().create_monitored_fence(FenceFlags::empty(), 0)?;
        let feed = Feed::Packets { context, progress, signal: gpu.monitored_fence_signal(node) };
        Ok(KernelFedStream::new(feed, commands, config))
    }

    /// A hardware queue with kernel-mode submission. It uses the same sizes as [`KernelFedStream::packets`].
    ///
    /// # Errors
    /// When memory is short or the adapter has no hardware queues.
    // spec: sync §4.1
    pub fn hardware(gpu: &Gpu, node: NodeId, config: StreamConfig) -> Result<KernelFedStream, UmdError> {
        let commands = RingMemory::create(gpu, config.command_bytes)?;
        let context = gpu.device().create_context(node)?;
        let feed = Feed::Queue { queue: context.create_kernel_queue()?, _context: context };
        Ok(KernelFedStream::new(feed, commands, config))
    }

    /// Shows a primary when all submissions so far are done, `interval` blanks behind the flip before it. Returns how many flips are
    /// queued.
    ///
    /// # Errors
    /// Those of `D3DKMTPresent`.
    // spec: sync §4.6
    pub fn flip(&self, primary: &Allocation, interval: u32) -> Result<u32, Refusal> {
        self.feed.flip(primary, interval)
    }

    fn new(feed: Feed, commands: RingMemory, config: StreamConfig) -> KernelFedStream {
        KernelFedStream { feed, commands, in_flight: VecDeque::new(), config, last_value: 0 }
    }

    /// Submits commands, to run from a paging-fence value on; returns the progress value that they complete. Blocks only when
    /// the stream is full.
    ///
    /// # Errors
    /// When the submission is larger than the stream, or the device is lost while the stream is full.
    // spec: sync §3.7, sync §3.8
    pub fn submit(&mut self, gpu: &Gpu, paged_at: Option<u64>, commands: &Commands) -> Result<u64, UmdError> {
        self.submit_writing(gpu, paged_at, commands, &[])
    }

    /// Submits commands that write these primaries: they start when no display shows one of them, and none is about to.
    ///
    /// # Errors
    /// As of [`KernelFedStream::submit`].
    // spec: memory §5.6
    pub fn submit_writing(
        &mut self,
        gpu: &Gpu,
        paged_at: Option<u64>,
        commands: &Commands,
        primaries: &[RawHandle],
    ) -> Result<u64, UmdError> {
        self.submit_around(gpu, Around { paged_at, ..Around::default() }, commands, primaries)
    }

    /// Submits commands behind waits and before signals.
    ///
    /// # Errors
    /// As of [`KernelFedStream::submit`]; when a fence may not be waited for or signalled.
    // spec: sync §4.1
    pub(crate) fn submit_around(
        &mut self,
        gpu: &Gpu,
        around: Around<'_>,
        commands: &Commands,
        primaries: &[RawHandle],
    ) -> Result<u64, UmdError> {
        commands.check_signals()?;
        let value = self.last_value + 1;
        let mut words = commands.words().to_vec();
        self.feed.end(value, &mut words);
        let limit = (self.config.command_bytes / 8) as usize;
        if words.len() > limit {
            return Err(UmdError::TooLarge { words: words.len(), limit });
        }
        self.make_room(gpu, words.len() as u64 * 8)?;
        let paging = gpu.paging().fence();
        let paged = around.paged_at.filter(|value| paging.current() < *value).map(|value| (paging, value));
        for (fence, value) in around.waits.iter().copied().chain(paged) {
            self.give(gpu, |feed| feed.wait(fence, value))?;
        }
        let at = self.commands.put_whole(&words);
        // CAST: command memory is far below 4 GiB.
        self.give(gpu, |feed| feed.submit(at, words.len() as u32 * 8, value, primaries.to_vec()))?;
        if let Feed::Packets { context, progress, signal: MonitoredFenceSignal::Packet } = &self.feed {
            context.signal(progress, value)?;
        }
        self.last_value = value;
        self.in_flight.push_back((value, self.commands.written()));
        for (fence, value) in around.signals.iter().copied() {
            self.give(gpu, |feed| feed.signal(fence, value))?;
        }
        Ok(value)
    }

    /// Submissions behind this call run when a fence has this value.
    ///
    /// # Errors
    /// When the fence may not be waited for.
    // spec: sync §3.8
    pub fn wait_on_gpu(&mut self, gpu: &Gpu, fence: &Fence, value: u64) -> Result<(), UmdError> {
        self.give(gpu, |feed| feed.wait(fence, value))
    }

    /// Gives the kernel a packet; if the kernel's queue is full, retries when a submission is done.
    fn give(&mut self, gpu: &Gpu, packet: impl Fn(&Feed) -> Result<(), Refusal>) -> Result<(), UmdError> {
        loop {
            match packet(&self.feed) {
                // It is scarce, and gets less by itself.
                Err(refusal) if refusal.status == NtStatus::NO_MEMORY && !self.in_flight.is_empty() => {
                    let oldest = self.in_flight[0].0;
                    self.wait(gpu, oldest)?;
                }
                given => return Ok(given?),
            }
        }
    }

    /// Waits on the CPU until the stream has got to a value.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn wait(&mut self, gpu: &Gpu, value: u64) -> Result<(), UmdError> {
        let progress = self.progress();
        if progress.current() < value {
            gpu.device().wait(&[(progress, value)])?;
        }
        let lost = if progress.bits() == 64 { u64::MAX } else { u64::from(u32::MAX) };
        if progress.current() == lost {
            // The kernel writes this value for a lost device: no submission ever gets that far.
            return Err(UmdError::Lost(gpu.device().state()?));
        }
        self.reap();
        Ok(())
    }

    /// Its context, if it takes packets. Flips go through it.
    pub fn context(&self) -> Option<&VirtualContext> {
        match &self.feed {
            Feed::Packets { context, .. } => Some(context),
            Feed::Queue { .. } => None,
        }
    }

    /// The last value submitted.
    pub fn last_value(&self) -> u64 {
        self.last_value
    }

    /// The progress fence.
    pub fn progress(&self) -> &Fence {
        self.feed.progress()
    }

    fn make_room(&mut self, gpu: &Gpu, bytes: u64) -> Result<(), UmdError> {
        self.reap();
        while self.in_flight.len() >= self.config.in_flight_max
            || !self.commands.has_room(self.commands.needed_whole(bytes))
        {
            // PANIC: a submission fits an empty stream (checked), so a full one has something unfinished.
            let value = self.in_flight[self.in_flight.len() / 2].0;
            self.wait(gpu, value)?;
        }
        Ok(())
    }

    fn reap(&mut self) {
        let reached = self.progress().current();
        while let Some(&(_, end)) = self.in_flight.front().filter(|(value, _)| *value <= reached) {
            self.in_flight.pop_front();
            self.commands.freed = end;
        }
    }
}
