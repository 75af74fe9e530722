//! A hardware queue with user-mode submission.
//!
//! A submission's commands go to *command memory*; the ring gets the waits, a branch to them, and the signal of the
//! progress fence (sync §3.11). Each wait and each signal names the entry of the queue's logs that it writes (`logs`). Both memories are rings whose room comes back when the progress fence says that the
//! hardware has got past it. The values in the ring rise by one a submission.

use std::collections::VecDeque;

use d3dkmt::{Fence, HwContext, NativeFenceLogDetail, QueuedFence, UserQueue};
use softgpu_spec::{Command, LogSlot};
use wddm_types::NodeId;

use crate::commands::Commands;
use crate::gpu::{Gpu, UmdError};
use crate::logs::{BEGIN_WORDS, FenceName, Logs, log_begin};
use crate::ring_memory::RingMemory;

/// Words of commands in the ring.
const LOGGED_WAIT_WORDS: usize = 3 + LogSlot::WORDS;
const BRANCH_WORDS: usize = 2;
const LOGGED_SIGNAL_WORDS: usize = 4 + LogSlot::WORDS;

/// A fence value to be waited for on the GPU.
#[derive(Clone, Copy, Debug)]
pub struct GpuWait {
    /// The fence.
    pub fence: FenceName,
    /// The value.
    pub value: u64,
}

/// A fence value to be signalled on the GPU.
#[derive(Clone, Copy, Debug)]
pub struct GpuSignal {
    /// The fence.
    pub fence: FenceName,
    /// The value.
    pub value: u64,
}

/// Sizes of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamConfig {
    /// Bytes of the ring, a power of two from 4096.
    pub ring_bytes: u64,
    /// Bytes of command memory, a power of two from 4096.
    pub command_bytes: u64,
    /// Most submissions in flight; at the most the stream waits for half of them.
    pub in_flight_max: usize,
}

impl Default for StreamConfig {
    fn default() -> Self {
        StreamConfig { ring_bytes: 64 << 10, command_bytes: 1 << 20, in_flight_max: 64 }
    }
}

/// A hardware queue that this process feeds.
pub struct Stream {
    // The queue goes before the context, and both before the memory that the hardware reads.
    queue: UserQueue,
    _context: HwContext,
    ring: RingMemory,
    commands: RingMemory,
    in_flight: VecDeque<InFlight>,
    config: StreamConfig,
    last_value: u64,
    scratch: Vec<u64>,
    logs: Logs,
    body: Vec<u64>,
    /// Waits in front of the next submission.
    waiting: Vec<GpuWait>,
}

struct InFlight {
    value: u64,
    ring_end: u64,
    commands_end: u64,
}

impl Stream {
    /// A stream on a node.
    ///
    /// # Errors
    /// When memory is short or the node has no user-mode submission.
    pub fn create(gpu: &Gpu, node: NodeId, config: StreamConfig) -> Result<Stream, UmdError> {
        if !gpu.has_addresses() {
            return Err(UmdError::Lacks("GPU virtual addresses for user-mode submission"));
        }
        if !gpu.has_user_queues() {
            return Err(UmdError::Lacks("user-mode submission with native fences"));
        }
        let ring = RingMemory::create(gpu, config.ring_bytes)?;
        let commands = RingMemory::create(gpu, config.command_bytes)?;
        let context = gpu.device().create_context(node)?;
        let queue = context.create_user_queue(ring.surface().allocation(), ring.surface().va())?;
        let logs = Logs::of(queue.logs());
        Ok(Stream {
            queue,
            _context: context,
            ring,
            commands,
            in_flight: VecDeque::new(),
            config,
            last_value: 0,
            scratch: Vec::new(),
            logs,
            body: Vec::new(),
            waiting: Vec::new(),
        })
    }

    /// Submits commands behind waits; returns the progress value that they complete. Blocks only when the stream is full.
    ///
    /// # Errors
    /// When a fence that is waited for or signalled is a monitored one; when the submission is larger than the stream, or the device was
    /// lost before, or is while the stream is full. Nothing is submitted then.
    // spec: sync §1.2, sync §5
    pub fn submit(&mut self, gpu: &Gpu, waits: &[GpuWait], commands: &Commands) -> Result<u64, UmdError> {
        self.submit_signaling(gpu, waits, commands, &[])
    }

    /// Submissions behind this call run when a fence has this value. The ring has the wait in front of the next submission; the fence lives
    /// until then.
    ///
    /// # Errors
    /// A monitored fence; a fence whose two words are one.
    // spec: sync §3.8
    pub fn wait_on_gpu(&mut self, wait: GpuWait) -> Result<(), UmdError> {
        wait.fence.check_native()?;
        wait.fence.check()?;
        self.waiting.push(wait);
        Ok(())
    }

    /// Submits with signals behind the commands: the engine carries them out before it signals the progress fence.
    ///
    /// # Errors
    /// As of [`Stream::submit`].
    pub fn submit_signaling(
        &mut self,
        gpu: &Gpu,
        waits: &[GpuWait],
        commands: &Commands,
        signals: &[GpuSignal],
    ) -> Result<u64, UmdError> {
        commands.check_native()?;
        let fences = waits.iter().map(|wait| &wait.fence).chain(signals.iter().map(|signal| &signal.fence));
        fences.into_iter().try_for_each(FenceName::check_native)?;
        commands.check_signals()?;
        signals.iter().try_for_each(|signal| signal.fence.check())?;
        let limit = (self.config.command_bytes / 8) as usize;
        let (body_words, value) = (commands.logged_words(), self.last_value + 1);
        let begin_words = if self.logs.submissions.is_some() { BEGIN_WORDS } else { 0 };
        let waits: Vec<GpuWait> = self.waiting.iter().chain(waits).copied().collect();
        let ring_words =
            waits.len() * LOGGED_WAIT_WORDS + begin_words + BRANCH_WORDS + (signals.len() + 1) * LOGGED_SIGNAL_WORDS;
        let ring_bytes = ring_words as u64 * 8;
        if body_words > limit || ring_bytes > self.config.ring_bytes {
            return Err(UmdError::TooLarge { words: body_words.max(ring_words), limit });
        }
        // A device can be lost after the ring: then the wait for the submission, or the next submission, returns the loss.
        if self.queue.is_aborted() {
            return Err(UmdError::Lost(gpu.device().state()?));
        }
        self.make_room(gpu, ring_bytes, body_words as u64 * 8)?;
        // The code below does not fail, so the driver gives out entries of logs in the order in which the GPU writes them.
        self.waiting.clear();
        self.scratch.clear();
        for GpuWait { fence, value } in waits.iter().copied() {
            let log = Some(self.logs.waits.next(fence.handle));
            Command::Wait { va: fence.current.0, value, log }.encode(&mut self.scratch);
        }
        if let Some(submissions) = &mut self.logs.submissions {
            log_begin(submissions, self.queue.progress().handle(), value, &mut self.scratch);
        }
        self.body.clear();
        commands.logged(&mut self.logs, &mut self.body);
        let va = self.commands.put_whole(&self.body);
        // CAST: command memory is far below 2^32 words.
        Command::Branch { va: va.0, words: self.body.len() as u32 }.encode(&mut self.scratch);
        let progress = GpuSignal { fence: FenceName::from(self.queue.progress()), value };
        for GpuSignal { fence, value } in signals.iter().chain([&progress]).copied() {
            let log = Some(self.logs.signals.next(fence.handle));
            let (current_va, monitored_va) = (fence.current.0, fence.monitored.0);
            Command::Signal { current_va, monitored_va, value, log }.encode(&mut self.scratch);
        }
        assert_eq!((self.scratch.len(), self.body.len()), (ring_words, body_words), "there is room for so many");
        if self.queue.traces_fences() {
            self.tell_queued(gpu, &waits, commands, signals.iter().chain([&progress]));
        }
        self.ring.put_wrapping(&self.scratch);
        self.last_value = value;
        self.in_flight.push_back(InFlight {
            value,
            ring_end: self.ring.written(),
            commands_end: self.commands.written(),
        });
        self.queue.ring(value, self.ring.written());
        // The status is read behind the ring. The commands are appended once; a reconnected doorbell is rung again, and they log
        // where the appended words say. Another queue may take the doorbell before it is rung again.
        // spec: sync §3.17, sync §6 D3
        while self.queue.is_disconnected() {
            self.queue.reconnect()?;
            self.logs.reconnected(self.queue.logs());
            self.queue.ring(value, self.ring.written());
        }
        Ok(value)
    }

    /// Tells a tool which fences a submission waits for and signals; the logs will say when it has. The waits and signals around the
    /// commands are recorded now.
    // spec: sync §3.14
    fn tell_queued<'a>(
        &self,
        gpu: &Gpu,
        waits: &[GpuWait],
        commands: &Commands,
        signals: impl Iterator<Item = &'a GpuSignal>,
    ) {
        let recorded_ns = gpu.device().link().now_ns();
        let around = |fence: FenceName, value, signal| QueuedFence { fence: fence.handle, value, signal, recorded_ns };
        let waits = waits.iter().map(|wait| around(wait.fence, wait.value, false));
        let signals = signals.map(|signal| around(signal.fence, signal.value, true));
        let queued: Vec<QueuedFence> = waits.chain(commands.queued(recorded_ns)).chain(signals).collect();
        self.queue.fences_queued(&queued);
    }

    /// Waits on the CPU until the stream has got to a value.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn wait(&mut self, gpu: &Gpu, value: u64) -> Result<(), UmdError> {
        if self.queue.progress().current() < value {
            gpu.device().wait(&[(self.queue.progress(), value)])?;
        }
        if self.queue.progress().current() == u64::MAX {
            // The kernel writes this value for a lost device: no submission ever gets that far.
            return Err(UmdError::Lost(gpu.device().state()?));
        }
        self.reap();
        Ok(())
    }

    /// The last value submitted.
    pub fn last_value(&self) -> u64 {
        self.last_value
    }

    /// The progress fence.
    pub fn progress(&self) -> &Fence {
        self.queue.progress()
    }

    /// The logs of its waits and signals.
    pub fn logs(&self) -> NativeFenceLogDetail {
        self.queue.logs()
    }

    /// The queue's number on its device.
    pub fn device_queue(&self) -> u32 {
        self.queue.device_queue()
    }

    /// Waits until there is room: for half of the submissions in flight at once, so that the CPU is woken seldom.
    fn make_room(&mut self, gpu: &Gpu, ring_bytes: u64, command_bytes: u64) -> Result<(), UmdError> {
        loop {
            if self.has_room(ring_bytes, command_bytes) {
                return Ok(());
            }
            // The progress word is read only when the stream is full: the engine has just written it, so the read misses the cache.
            self.reap();
            if self.has_room(ring_bytes, command_bytes) {
                return Ok(());
            }
            let middle = self.in_flight.len() / 2;
            // PANIC: a submission fits an empty stream (checked), so a full one has something unfinished.
            let value = self.in_flight[middle].value;
            self.wait(gpu, value)?;
        }
    }

    fn has_room(&self, ring_bytes: u64, command_bytes: u64) -> bool {
        self.in_flight.len() < self.config.in_flight_max
            && self.ring.has_room(ring_bytes)
            && self.commands.has_room(self.commands.needed_whole(command_bytes))
    }

    fn reap(&mut self) {
        let reached = self.queue.progress().current();
        while self.in_flight.front().is_some_and(|oldest| oldest.value <= reached) {
            let done = self.in_flight.pop_front().expect("just seen");
            self.ring.freed = done.ring_end;
            self.commands.freed = done.commands_end;
        }
    }
}
