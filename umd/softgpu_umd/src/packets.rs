//! A queue of an engine that takes packets at GPU virtual addresses, without lists (memory §5.6): what WDDM 2.0 has. Work goes
//! to the kernel buffer by buffer; the progress is a monitored fence, signalled in whichever way the engine can (sync §3.7):
//!
//! | the node | at the end of each buffer |
//! |---|---|
//! | advanced | a store that interrupts |
//! | basic | a store, which the kernel finds when the buffer has completed |
//! | cannot write it | nothing: behind it a software packet |

use std::collections::VecDeque;

use d3dkmt::{Fence, FenceFlags, MonitoredFenceSignal, VirtualContext};
use softgpu_spec::Command;
use wddm_types::{NodeId, NtStatus};

use crate::commands::Commands;
use crate::gpu::{Gpu, UmdError};
use crate::stream::{RingMemory, StreamConfig};

/// A packet context, its command memory and its progress.
pub struct PacketStream {
    // The context goes before the memory that it reads and the fence that it signals.
    context: VirtualContext,
    progress: Fence,
    commands: RingMemory,
    signal: MonitoredFenceSignal,
    /// Value, and where its commands end.
    in_flight: VecDeque<(u64, u64)>,
    config: StreamConfig,
    last_value: u64,
}

impl PacketStream {
    /// A stream on a node; of the sizes only those of command memory and of what is in flight mean something.
    ///
    /// # Errors
    /// When memory is short or the node takes no packets at addresses.
    pub fn create(gpu: &Gpu, node: NodeId, config: StreamConfig) -> Result<PacketStream, UmdError> {
        let commands = RingMemory::create(gpu, config.command_bytes)?;
        let context = VirtualContext::create(gpu.device(), node, Vec::new())?;
        let progress = gpu.device().create_monitored_fence(FenceFlags::empty(), 0)?;
        let signal = gpu.monitored_fence_signal(node);
        Ok(PacketStream { context, progress, commands, signal, in_flight: VecDeque::new(), config, last_value: 0 })
    }

    /// Submits commands, to run from a paging-fence value on; returns the progress value that they complete. Blocks only when
    /// the stream is full.
    ///
    /// # Errors
    /// When the submission is larger than the stream, or the device is lost while the stream is full.
    // spec: sync §3.7, sync §3.8
    pub fn submit(&mut self, gpu: &Gpu, paged_at: Option<u64>, commands: &Commands) -> Result<u64, UmdError> {
        let value = self.last_value + 1;
        let mut words = commands.words().to_vec();
        let va = self.progress.current_va().0;
        match self.signal {
            MonitoredFenceSignal::Advanced => Command::SignalAlways { va, value }.encode(&mut words),
            MonitoredFenceSignal::Basic => Command::Store { va, words: &[value] }.encode(&mut words),
            // A buffer is never empty.
            MonitoredFenceSignal::Packet => Command::Nop.encode(&mut words),
        }
        let limit = (self.config.command_bytes / 8) as usize;
        if words.len() > limit {
            return Err(UmdError::TooLarge { words: words.len(), limit });
        }
        self.make_room(gpu, words.len() as u64 * 8)?;
        if let Some(paged_at) = paged_at.filter(|value| gpu.paging().fence().current() < *value) {
            self.context.wait(gpu.paging().fence(), paged_at)?;
        }
        let at = self.commands.put_whole(&words);
        loop {
            // CAST: command memory is far below 4 GiB.
            match self.context.submit(at, words.len() as u32 * 8, Vec::new()) {
                Ok(_) => break,
                // The kernel holds as much as it may: it is scarce, and gets less by itself.
                Err(refusal) if refusal.status == NtStatus::NO_MEMORY && !self.in_flight.is_empty() => {
                    let oldest = self.in_flight[0].0;
                    self.wait(gpu, oldest)?;
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
        if self.signal == MonitoredFenceSignal::Packet {
            self.context.signal(&self.progress, value)?;
        }
        self.last_value = value;
        self.in_flight.push_back((value, self.commands.written));
        Ok(value)
    }

    /// Waits on the CPU until the stream has got to a value.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn wait(&mut self, gpu: &Gpu, value: u64) -> Result<(), UmdError> {
        if self.progress.current() < value {
            gpu.device().wait(&[(&self.progress, value)])?;
        }
        let lost = if self.progress.bits() == 64 { u64::MAX } else { u64::from(u32::MAX) };
        if self.progress.current() == lost {
            // The kernel's word for a device that is lost: no submission ever gets that far.
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
        &self.progress
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
        let reached = self.progress.current();
        while let Some(&(_, end)) = self.in_flight.front().filter(|(value, _)| *value <= reached) {
            self.in_flight.pop_front();
            self.commands.freed = end;
        }
    }
}
