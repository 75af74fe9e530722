//! A queue of an engine without GPU virtual addresses: work goes to the kernel packet by packet, each with its lists
//! (memory §5.6, §7.4). The counterpart of [`Stream`](crate::Stream), which feeds its queue by itself.
//!
//! A submission may have more commands than one buffer or its lists hold. It is *split*: as many buffers as it takes, in
//! order, and behind the last one the signal of its progress value. This stream does not wait for the paging fence: the kernel
//! does not run a buffer before the addresses in it hold.

use std::collections::VecDeque;
use std::sync::Arc;

use d3dkmt::{Allocation, Context, Fence, FenceFlags, Refusal};
use wddm_types::NodeId;

use crate::gpu::{Gpu, Surface, UmdError};
use crate::listed::ListedCommands;
use crate::retry::{Holding, render_when_buffers_return};

/// A context with lists, and the commands that are recorded for it.
pub struct PatchedStream {
    // The context goes before the fence that it signals.
    context: Context,
    progress: Fence,
    /// The recorded commands, split where a buffer or a list was full.
    parts: Vec<ListedCommands>,
    /// A length of work stands before what is recorded.
    within_work: bool,
    /// Submissions not known to be done, by value.
    in_flight: VecDeque<u64>,
    last_value: u64,
}

impl PatchedStream {
    /// A stream on a node.
    ///
    /// # Errors
    /// When memory is short or the node's driver has no packets.
    pub fn create(gpu: &Gpu, node: NodeId) -> Result<PatchedStream, UmdError> {
        let context = Context::create(gpu.device(), node, Vec::new())?;
        let progress = gpu.device().create_monitored_fence(FenceFlags::NO_GPU_ACCESS, 0)?;
        let (parts, in_flight) = (Vec::new(), VecDeque::new());
        Ok(PatchedStream { context, progress, parts, within_work: false, in_flight, last_value: 0 })
    }

    /// What is recorded from here to the submission is work of a known length: as of [`Commands::work`](crate::Commands::work).
    pub fn work(&mut self, ns: u64) {
        self.part().work(ns);
        self.within_work = true;
    }

    /// Records a read of a surface, and a write of the bytes read, changed, if `write`.
    pub fn touch(&mut self, surface: &Surface, write: bool) {
        self.part().touch(surface.allocation(), surface.bytes(), write);
    }

    /// Records writing the content of a seed.
    pub fn pattern(&mut self, surface: &Surface, seed: u64) {
        self.part().pattern(surface.allocation(), surface.bytes(), seed);
    }

    /// Records a comparison with the content of a seed; the first mismatch is written to `report` under `tag`.
    pub fn check(&mut self, surface: &Surface, seed: u64, report: &Surface, tag: u64) {
        self.part().check(surface.allocation(), surface.bytes(), seed, report.allocation(), tag);
    }

    /// Records filling bytes of a surface from a place on with a pattern. The list says that they write it.
    pub(crate) fn fill(&mut self, (surface, offset): (&Surface, u32), bytes: u64, pattern: u32) {
        self.part().fill((surface.allocation(), offset), bytes, pattern);
    }

    /// As of [`KernelFedStream::flip`](crate::KernelFedStream::flip).
    ///
    /// # Errors
    /// Those of `D3DKMTPresent`.
    // spec: memory §5.7
    pub fn flip(&self, primary: &Allocation, interval: u32) -> Result<u32, Refusal> {
        self.context.flip(primary, interval)
    }

    /// Records a copy from a place of a surface to a place of another.
    pub(crate) fn copy(&mut self, source: (&Surface, u32), target: (&Surface, u32), bytes: u64) {
        let named = |(surface, offset): (&Surface, u32)| (Arc::clone(surface.allocation()), offset);
        let (source, target) = (named(source), named(target));
        self.part().copy((&source.0, source.1), (&target.0, target.1), bytes);
    }

    /// How many command buffers the recorded commands take.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Submits the recorded commands; returns the progress value that they complete. Blocks only when the kernel has no room for
    /// more buffers.
    ///
    /// # Errors
    /// The kernel's refusals. A surface that is not on the residency list puts the device in error.
    pub fn submit(&mut self, gpu: &Gpu) -> Result<u64, UmdError> {
        self.submit_synced(gpu, &[], &[])
    }

    /// Submits the recorded commands behind waits and before signals.
    ///
    /// # Errors
    /// As of [`PatchedStream::submit`]; when a fence may not be waited for or signalled.
    // spec: sync §4.1
    pub(crate) fn submit_synced(
        &mut self,
        gpu: &Gpu,
        waits: &[(&Fence, u64)],
        signals: &[(&Fence, u64)],
    ) -> Result<u64, UmdError> {
        for (fence, value) in waits {
            self.context.wait(fence, *value)?;
        }
        let value = self.last_value + 1;
        self.within_work = false;
        for part in std::mem::take(&mut self.parts) {
            let (context, progress, in_flight) = (&self.context, &self.progress, &mut self.in_flight);
            render_when_buffers_return(
                || part.render(context).map(drop),
                || wait_for_buffers(gpu, context, progress, in_flight),
            )?;
        }
        self.context.signal(&self.progress, value)?;
        self.last_value = value;
        self.in_flight.push_back(value);
        for (fence, value) in signals {
            self.context.signal(fence, *value)?;
        }
        Ok(value)
    }

    /// Waits on the CPU until the stream has got to a value.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn wait(&mut self, gpu: &Gpu, value: u64) -> Result<(), UmdError> {
        wait_for(gpu, &self.progress, value)
    }

    /// Submissions behind this call run when a fence has this value.
    ///
    /// # Errors
    /// When the fence may not be waited for.
    // spec: sync §3.8
    pub(crate) fn wait_on_gpu(&self, fence: &Fence, value: u64) -> Result<(), UmdError> {
        Ok(self.context.wait(fence, value)?)
    }

    /// Whether recorded commands have not been submitted.
    pub(crate) fn has_recorded(&self) -> bool {
        !self.parts.is_empty()
    }

    /// The last value submitted.
    pub fn last_value(&self) -> u64 {
        self.last_value
    }

    /// The progress fence.
    pub fn progress(&self) -> &Fence {
        &self.progress
    }

    fn part(&mut self) -> &mut ListedCommands {
        let sizes = self.context.sizes();
        if self.parts.last().is_none_or(|part| !part.has_room(&sizes)) {
            let mut part = ListedCommands::new();
            if self.within_work {
                part.go_on_within();
            }
            self.parts.push(part);
        }
        self.parts.last_mut().expect("just seen or made")
    }
}

/// Waits for the oldest submission of a context, or for the packets of this one that are queued already.
fn wait_for_buffers(
    gpu: &Gpu,
    context: &Context,
    progress: &Fence,
    in_flight: &mut VecDeque<u64>,
) -> Result<Holding, UmdError> {
    let reached = progress.current();
    in_flight.retain(|value| *value > reached);
    if let Some(oldest) = in_flight.pop_front() {
        wait_for(gpu, progress, oldest)?;
        return Ok(Holding::QueuedPackets);
    }
    let behind_all = gpu.device().create_monitored_fence(FenceFlags::NO_GPU_ACCESS, 0)?;
    context.signal(&behind_all, 1)?;
    if behind_all.current() < 1 {
        gpu.device().wait(&[(&behind_all, 1)])?;
    }
    Ok(Holding::NoPacket)
}

fn wait_for(gpu: &Gpu, progress: &Fence, value: u64) -> Result<(), UmdError> {
    if progress.current() < value {
        gpu.device().wait(&[(progress, value)])?;
    }
    if progress.current() == u64::MAX {
        // The kernel writes this value for a lost device: no submission ever gets that far.
        return Err(UmdError::Lost(gpu.device().state()?));
    }
    Ok(())
}
