//! Render and SubmitCommand, from the call to the context's queue (memory §7.4, §5.6); Present is `present`.
//!
//! A wrong call is refused, and nothing has changed. A reference to memory that the device's list does not hold, or that has no physical
//! address, rejects the submission and costs the device its life (memory §9.3).

use std::collections::VecDeque;

use ddi::{PatchLocation, SubmitFlags};
use events::Event;
use kmt_calls::{DeviceState, PatchLocationItem, Refusal};
use vidmm::AllocationId;
use vidsch::{Packet as Queued, SubmitError};
use wddm_types::{Blame, GpuVa, NtStatus};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, PacketContextNumber};
use crate::packet::{Built, DmaBufferNumber, ListEntry, Source, Work, check_private_data, driver_list, uses_of};
use crate::refusal::{invalid, no_memory, refuse, removed};
use crate::scheduling::{AnyContext, Payload};
use crate::store::ObjectNumber;

impl Adapter {
    /// `D3DKMTRender`.
    // spec: memory §7.4
    pub fn render(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        command: &[u64],
        entries: &[ListEntry],
        places: &[PatchLocationItem],
        private_data: &[u8],
    ) -> Result<u32, Refusal> {
        let places = self.check_render(context, command, entries, places)?;
        check_private_data(private_data, self.packets[context].info.dma_buffer_private_data_bytes)?;
        let source = Source::Render { command, places: &places, private_data };
        self.queue_patched(cx, context, entries, &source, SubmitFlags::empty())
    }

    /// Render of no commands: the runtime swaps the context's buffers by it, and the kernel queues nothing.
    // spec: memory §7.4
    pub(super) fn render_nothing(
        &self,
        cx: &Cx<'_>,
        context: PacketContextNumber,
        entries: &[ListEntry],
        places: &[PatchLocationItem],
    ) -> Result<u32, Refusal> {
        self.check_patched(context)?;
        self.check_places(context, 0, entries, places)?;
        Ok(self.unfinished(cx, context))
    }

    /// How many of a context's packets are not done.
    pub(super) fn unfinished(&self, cx: &Cx<'_>, context: PacketContextNumber) -> u32 {
        let done = self.sync.current_value(cx.memory, self.packets[context].progress);
        // CAST: the scheduler's limit is far below 2^32.
        self.packets.last_submitted(context).saturating_sub(done) as u32
    }

    /// The rules of a command buffer and its lists.
    pub(super) fn check_render(
        &self,
        context: PacketContextNumber,
        command: &[u64],
        entries: &[ListEntry],
        places: &[PatchLocationItem],
    ) -> Result<Vec<PatchLocation>, Refusal> {
        self.check_patched(context)?;
        let bytes = command.len() as u64 * 8;
        let room = self.packets[context].info.dma_buffer_bytes;
        if bytes > u64::from(room) {
            return Err(invalid(format!("a command buffer of {bytes} bytes; a DMA buffer holds {room}")));
        }
        self.check_places(context, bytes, entries, places)
    }

    /// `D3DKMTSubmitCommand`.
    // spec: memory §5.6
    pub fn submit_virtual(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        (commands, bytes): (GpuVa, u32),
        private_data: Vec<u8>,
        primaries: &[AllocationId],
    ) -> Result<u32, Refusal> {
        if !self.packets[context].addresses {
            return Err(invalid("a context that is patched takes Render"));
        }
        if commands.is_null() || bytes == 0 || !bytes.is_multiple_of(8) || !commands.0.is_multiple_of(8) {
            return Err(invalid("commands lie at a nonzero multiple of 8 and have a nonzero multiple of 8 bytes"));
        }
        check_private_data(&private_data, self.packets[context].info.dma_buffer_private_data_bytes)?;
        let (device, owner) = self.owner_of(context);
        let listed = |id: &AllocationId| self.vidmm.count(owner, *id) > 0;
        if !primaries.iter().all(listed) {
            return Err(self.reject(cx, context, device, "a written primary that is not on the device's list".into()));
        }
        self.enqueue(
            cx,
            context,
            Work::Virtual { commands, bytes, private_data, primaries: primaries.to_vec(), presented: None },
        )
    }

    fn check_patched(&self, context: PacketContextNumber) -> Result<(), Refusal> {
        if self.packets[context].addresses {
            return Err(invalid("a context with GPU virtual addresses takes no lists"));
        }
        Ok(())
    }

    pub(super) fn owner_of(&self, context: PacketContextNumber) -> (DeviceNumber, vidmm::DeviceId) {
        let device = self.packets[context].device;
        (device, self.owners.vidmm_of(device))
    }

    /// Has the driver write DMA buffers and queues them.
    pub(super) fn queue_patched(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        entries: &[ListEntry],
        source: &Source<'_>,
        flags: SubmitFlags,
    ) -> Result<u32, Refusal> {
        let (device, _) = self.owner_of(context);
        self.locked_may_leave(cx, device, entries)?;
        let (told, wrong) = self.bind(device, entries);
        let list = driver_list(&told, None);
        let built = self.write_dma_buffers(cx, context, &list, source)?;
        if let Some(reason) = wrong {
            self.release_built(cx, context, built);
            return Err(self.reject(cx, context, device, reason));
        }
        // Nothing leaves for a buffer that is refused; of what leaves the driver learns the address when it patches.
        let left = self.may_queue(context, built.len()).and_then(|()| self.locked_leave(cx, device, entries));
        if let Err(refusal) = left {
            self.release_built(cx, context, built);
            return Err(refusal);
        }
        let (mut bound, _) = self.bind(device, entries);
        for (entry, told) in bound.iter_mut().zip(&told) {
            // spec: memory §7.4: the driver must have written the addresses that it was given
            entry.written = told.bindings.now.place;
        }
        let used = uses_of(&bound);
        let work = |built: Built| {
            let Built { buffer, written, places } = built;
            let entries = bound.clone();
            (buffer, Work::Patched { buffer, written, entries, places, flags, portions: VecDeque::new() })
        };
        let queued = self.queue_built(cx, context, built.into_iter().map(work).collect(), used);
        if queued.is_ok() {
            self.retire_instances(cx, entries);
        }
        queued
    }

    /// Queues all that a driver has written for one call, or nothing.
    pub(super) fn queue_built(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        works: Vec<(DmaBufferNumber, Work)>,
        used: Vec<(vidmm::AllocationId, bool)>,
    ) -> Result<u32, Refusal> {
        let (device, _) = self.owner_of(context);
        let mut queued = self.may_queue(context, works.len()).map(|()| 0);
        for (nth, (buffer, work)) in works.into_iter().enumerate() {
            if queued.is_ok() {
                queued = self.enqueue(cx, context, work);
                match &queued {
                    Ok(_) => self.note_uses(cx, context, used.clone()),
                    Err(refusal) if nth > 0 => {
                        let reason = format!("a present that was begun could not go on: {}", refusal.reason);
                        self.fail_device(cx, device, DeviceState::ErrorOutOfMemory, reason);
                    }
                    Err(_) => {}
                }
            }
            if queued.is_err() {
                self.release_dma_buffer(cx, context, buffer);
            }
        }
        queued
    }

    /// Whether a context takes so many packets more.
    pub(in crate::adapter) fn may_queue(&self, context: PacketContextNumber, packets: usize) -> Result<(), Refusal> {
        self.vidsch.queues.may_submit(self.packets[context].vidsch, packets).map_err(|error| match error {
            SubmitError::UserQueue => unreachable!("a packet context is fed by the kernel"),
            SubmitError::TooMany => no_memory("the context holds as many packets as it may"),
            SubmitError::Stopped => removed("the context has stopped"),
        })
    }

    /// Checks that locked allocations may be rendered from: in an aperture, or not at all.
    // spec: memory §6.5, memory §9.2
    pub(super) fn locked_may_leave(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        entries: &[ListEntry],
    ) -> Result<(), Refusal> {
        let refused = self.locked_of(entries).into_iter().find_map(|id| self.vidmm.may_render_from(id).err());
        refused.map_or(Ok(()), |error| Err(self.portion_refused(cx, device, error)))
    }

    /// Moves locked allocations to where they are rendered from.
    // spec: memory §6.5
    fn locked_leave(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, entries: &[ListEntry]) -> Result<(), Refusal> {
        let process = self.owners.process_of(device);
        for id in self.locked_of(entries) {
            let work = self.vidmm.render_from_locked(id).map_err(|error| self.portion_refused(cx, device, error))?;
            self.queue_any(cx, process, work);
        }
        Ok(())
    }

    /// The locked allocations that a list names, where lists are residency.
    fn locked_of(&self, entries: &[ListEntry]) -> Vec<vidmm::AllocationId> {
        let named = entries.iter().filter_map(|entry| Some(entry.allocation?.instance));
        named.filter(|id| self.lists_are_residency() && self.vidmm.is_locked(*id)).collect()
    }

    /// Queues a packet. Answers with how many of the context's packets are not done.
    fn enqueue(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber, mut work: Work) -> Result<u32, Refusal> {
        let (vidsch, number) = (self.packets[context].vidsch, self.packets.next_packet(context));
        self.may_queue(context, 1)?;
        self.make_portions(cx, context, number, &mut work)?;
        self.vidsch
            .queues
            .submit(vidsch, Queued::Work(Payload::Packet(number)))
            .expect("the scheduler has just said so");
        assert_eq!(self.packets.queue(context, work), number);
        cx.emit(self.index, Event::PacketQueued { context: context.raw(), packet: number.raw() });
        self.pump_packets(cx);
        let number = number.raw();
        let done = self.packets.get(context).map_or(number, |known| self.sync.current_value(cx.memory, known.progress));
        // CAST: the scheduler's limit is far below 2^32.
        Ok(number.saturating_sub(done) as u32)
    }

    /// A submission names what it may not: the kernel rejects it and its device is lost; other devices go on.
    // spec: memory §5.6, memory §5.8, memory §9.3
    pub(in crate::adapter) fn reject(
        &mut self,
        cx: &mut Cx<'_>,
        context: impl Into<AnyContext>,
        device: DeviceNumber,
        reason: String,
    ) -> Refusal {
        let context = context.into().number();
        cx.emit(self.index, Event::SubmissionRejected { context, reason: reason.clone() });
        self.fail_device(cx, device, DeviceState::ErrorDmaFault, format!("context {context}: {reason}"));
        refuse(NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE, Blame::Caller, reason)
    }
}
