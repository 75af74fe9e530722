//! Render, Present and SubmitCommand, from the call to the context's queue (memory §7.4, §5.7, §5.6).
//!
//! What is wrong with the call refuses it, and nothing has changed. A reference to memory that the device's list does not
//! hold, or that has no physical address, rejects the submission and costs the device its life (memory §9.3).

use std::collections::VecDeque;

use ddi::{
    DmaBuffer, KmdContext, PatchLocation, PatchLocationsOut, Present, Render, RenderStatus, SubmitFlags,
    WRITTEN_PRIMARIES_MAX,
};
use events::Event;
use kmt_calls::{DeviceState, PatchLocationItem, Refusal};
use vidsch::{Packet as Queued, SubmitError};
use wddm_types::{Blame, GpuVa, NtStatus};

use super::{Bound, ListEntry, Packet, Work, list, split, uses};
use crate::adapter::{Adapter, Payload};
use crate::machine::Cx;
use crate::refusal::{invalid, no_memory, refuse, removed};

/// What a DMA buffer is to be made of.
enum Source<'a> {
    Render { command: &'a [u64], places: &'a [PatchLocation] },
    Present,
}

impl Adapter {
    /// `D3DKMTRender`.
    // spec: memory §7.4
    pub fn render(
        &mut self,
        cx: &mut Cx<'_>,
        context: u64,
        command: &[u64],
        entries: &[ListEntry],
        places: &[PatchLocationItem],
    ) -> Result<u32, Refusal> {
        let places = self.check_render(context, command, entries, places)?;
        self.queue_patched(cx, context, entries, &Source::Render { command, places: &places }, SubmitFlags::empty())
    }

    /// The rules of a command buffer and its lists.
    pub(super) fn check_render(
        &self,
        context: u64,
        command: &[u64],
        entries: &[ListEntry],
        places: &[PatchLocationItem],
    ) -> Result<Vec<PatchLocation>, Refusal> {
        self.check_patched(context)?;
        let bytes = command.len() as u64 * 8;
        let room = self.packet_contexts[context].info.dma_buffer_bytes;
        if bytes == 0 || bytes > u64::from(room) {
            return Err(invalid(format!("a command buffer of {bytes} bytes; 8 to {room} make one DMA buffer")));
        }
        self.check_places(context, bytes, entries, places)
    }

    /// `D3DKMTPresent` as far as memory goes: the list carries the parameters.
    // spec: memory §5.7
    pub fn present(&mut self, cx: &mut Cx<'_>, context: u64, entries: &[ListEntry]) -> Result<u32, Refusal> {
        self.check_patched(context)?;
        self.queue_patched(cx, context, entries, &Source::Present, SubmitFlags::PRESENT)
    }

    /// `D3DKMTSubmitCommand`.
    // spec: memory §5.6
    pub fn submit_virtual(
        &mut self,
        cx: &mut Cx<'_>,
        context: u64,
        commands: GpuVa,
        bytes: u32,
        primaries: &[u64],
    ) -> Result<u32, Refusal> {
        if !self.packet_contexts[context].addresses {
            return Err(invalid("a context that is patched takes Render"));
        }
        if commands.is_null() || bytes == 0 || !bytes.is_multiple_of(8) || !commands.0.is_multiple_of(8) {
            return Err(invalid("commands lie at a nonzero multiple of 8 and have a nonzero multiple of 8 bytes"));
        }
        let (device, owner) = self.owner_of(context);
        let listed = |number: &u64| self.vidmm.count(owner, self.allocations[*number].vidmm) > 0;
        if !primaries.iter().all(listed) {
            return Err(self.reject(cx, context, device, "a written primary that is not on the device's list".into()));
        }
        self.queue_packet(cx, context, Work::Virtual { commands, bytes, primaries: primaries.to_vec() })
    }

    fn check_patched(&self, context: u64) -> Result<(), Refusal> {
        if self.packet_contexts[context].addresses {
            return Err(invalid("a context with GPU virtual addresses takes no lists"));
        }
        Ok(())
    }

    fn owner_of(&self, context: u64) -> (u64, vidmm::DeviceId) {
        let device = self.packet_contexts[context].device;
        (device, self.devices[device].vidmm)
    }

    /// Has the driver write a DMA buffer and queues it.
    fn queue_patched(
        &mut self,
        cx: &mut Cx<'_>,
        context: u64,
        entries: &[ListEntry],
        source: &Source<'_>,
        flags: SubmitFlags,
    ) -> Result<u32, Refusal> {
        let (device, _) = self.owner_of(context);
        self.locked_leave(cx, device, entries)?;
        let (mut bound, wrong) = self.bind(device, entries);
        let buffer = self
            .take_dma_buffer(cx, context)
            .ok_or_else(|| no_memory("the context's DMA buffers are all queued, or there is no memory for another"))?;
        let written = self.write_buffer(context, buffer, &mut bound, source);
        let done = match (written, wrong) {
            (Ok(done), None) => done,
            (Err(Written::Status(status)), _) => {
                self.release_dma_buffer(cx, context, buffer);
                return Err(self.refused_by_driver(cx, device, status));
            }
            (Err(Written::Breach(rule)), _) => {
                self.stop(cx, rule.into());
                return Err(removed(format!("the adapter was stopped: {rule}")));
            }
            (Ok(_), Some(reason)) => {
                self.release_dma_buffer(cx, context, buffer);
                return Err(self.reject(cx, context, device, reason));
            }
        };
        let (written, places) = done;
        let used = uses::of(&bound);
        let work = Work::Patched { buffer, written, entries: bound, places, flags, portions: VecDeque::new() };
        let queued = self.queue_packet(cx, context, work);
        match &queued {
            Ok(_) => self.note_uses(context, used),
            Err(_) => self.release_dma_buffer(cx, context, buffer),
        }
        queued
    }

    /// What is locked is rendered from in an aperture, or not at all.
    // spec: memory §6.5, memory §9.2
    fn locked_leave(&mut self, cx: &mut Cx<'_>, device: u64, entries: &[ListEntry]) -> Result<(), Refusal> {
        let named = entries.iter().filter_map(|entry| Some(self.allocations[entry.allocation?].vidmm));
        let named: Vec<_> = named.filter(|id| self.vidmm.is_locked(*id)).collect();
        if !self.lists_are_residency() || named.is_empty() {
            return Ok(());
        }
        for id in &named {
            self.vidmm.may_render_from(*id).map_err(|error| self.portion_refused(cx, device, error))?;
        }
        let process = self.devices[device].process;
        for id in named {
            let work = self.vidmm.render_from_locked(id).map_err(|error| self.portion_refused(cx, device, error))?;
            self.queue_any(cx, process, work);
        }
        Ok(())
    }

    fn write_buffer(
        &mut self,
        context: u64,
        number: u64,
        bound: &mut [Bound],
        source: &Source<'_>,
    ) -> Result<(usize, Vec<PatchLocation>), Written> {
        let known = &mut self.packet_contexts[context];
        let (kmd, entries_max) = (known.kmd, known.info.patch_location_list_entries as usize);
        let buffer = known.buffers.iter_mut().find(|buffer| buffer.number == number).expect("just taken");
        let allocation_list = Adapter::driver_list(bound, None);
        let mut places = vec![PatchLocation::default(); entries_max];
        let dma_buffer = DmaBuffer { words: &mut buffer.words, written: 0, private_data: &mut buffer.private_data };
        let patch_locations_out = PatchLocationsOut { list: &mut places, written: 0 };
        let driver = self.miniport.packet_scheduling().expect("it made this context");
        let (used, listed) = call_driver(driver, kmd, source, &allocation_list, dma_buffer, patch_locations_out)?;
        if used == 0 || used > buffer.words.len() || listed > places.len() {
            return Err(Written::Breach("the driver wrote past its DMA buffer, or nothing"));
        }
        places.truncate(listed);
        list::check_answer(&places, allocation_list.len(), used).map_err(Written::Breach)?;
        let slots = self.packets.caps.expect("its driver schedules packets").max_allocation_list_slot_id;
        split::check_splits(&places, bound, slots).map_err(Written::Breach)?;
        for entry in bound {
            // spec: memory §7.4: the driver must have written the addresses that it was given
            entry.written = entry.binding.place;
        }
        Ok((used, places))
    }

    fn queue_packet(&mut self, cx: &mut Cx<'_>, context: u64, mut work: Work) -> Result<u32, Refusal> {
        let known = &self.packet_contexts[context];
        let (vidsch, number) = (known.vidsch, known.last_submitted + 1);
        self.vidsch.may_submit(vidsch, 1).map_err(|error| match error {
            SubmitError::UserQueue => unreachable!("a packet context is fed by the kernel"),
            SubmitError::TooMany => no_memory("the context holds as many packets as it may"),
            SubmitError::Stopped => removed("the context has stopped"),
        })?;
        self.make_portions(cx, context, number, &mut work)?;
        let known = &mut self.packet_contexts[context];
        self.vidsch.submit(vidsch, Queued::Work(Payload::Packet(number))).expect("the scheduler has just said so");
        known.last_submitted = number;
        known.queued.push_back(Packet { number, work, preempted: false });
        cx.emit(Event::PacketQueued { context, packet: number });
        self.pump_packets(cx);
        let done = self.packet_contexts.get(context).map_or(number, |known| self.current_value(known.progress));
        // CAST: the scheduler's limit is far below 2^32.
        Ok(number.saturating_sub(done) as u32)
    }

    /// A submission names what it may not: it is rejected, its device is lost, nobody else notices.
    // spec: memory §5.6, memory §5.8, memory §9.3
    pub(super) fn reject(&mut self, cx: &mut Cx<'_>, context: u64, device: u64, reason: String) -> Refusal {
        cx.emit(Event::SubmissionRejected { context, reason: reason.clone() });
        self.fail_device(cx, device, DeviceState::ErrorDmaFault, format!("context {context}: {reason}"));
        refuse(NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE, Blame::Caller, reason)
    }

    /// What Render and Present may answer, as statuses.
    // spec: memory §9.2
    fn refused_by_driver(&mut self, cx: &mut Cx<'_>, device: u64, status: RenderStatus) -> Refusal {
        let (code, blame) = match status {
            RenderStatus::NoMemory(_) => (NtStatus::NO_MEMORY, Blame::Scarcity),
            RenderStatus::InsufficientDmaBuffer => unreachable!("a breach of the contract, found before"),
            RenderStatus::PrivilegedInstruction => (NtStatus::PRIVILEGED_INSTRUCTION, Blame::Caller),
            RenderStatus::IllegalInstruction => (NtStatus::ILLEGAL_INSTRUCTION, Blame::Caller),
            RenderStatus::InvalidParameter(_) => (NtStatus::INVALID_PARAMETER, Blame::Caller),
            RenderStatus::InvalidUserBuffer(_) => (NtStatus::INVALID_USER_BUFFER, Blame::Caller),
            RenderStatus::InvalidHandle(_) => (NtStatus::INVALID_HANDLE, Blame::Caller),
            RenderStatus::DriverMismatch => (NtStatus::GRAPHICS_DRIVER_MISMATCH, Blame::Caller),
            RenderStatus::GpuException(_) => (NtStatus::GRAPHICS_GPU_EXCEPTION_ON_DEVICE, Blame::Driver),
        };
        if let RenderStatus::GpuException(reason) = status {
            self.fail_device(
                cx,
                device,
                DeviceState::ErrorDmaFault,
                format!("the driver gave the device up: {reason}"),
            );
        }
        refuse(code, blame, status.to_string())
    }
}

/// Why there is no buffer.
enum Written {
    /// The driver refuses, as it may.
    Status(RenderStatus),
    /// The driver broke the contract: the adapter stops.
    Breach(&'static str),
}

fn call_driver(
    driver: &mut dyn ddi::PacketScheduling,
    kmd: KmdContext,
    source: &Source<'_>,
    allocation_list: &[ddi::AllocationListEntry],
    dma_buffer: DmaBuffer<'_>,
    patch_locations_out: PatchLocationsOut<'_>,
) -> Result<(usize, usize), Written> {
    let status = |status| match status {
        // spec: memory §7.1: under the guaranteed contract there is always room
        RenderStatus::InsufficientDmaBuffer => {
            Written::Breach("the driver wants a larger DMA buffer than it asked for")
        }
        status => Written::Status(status),
    };
    match *source {
        Source::Render { command, places } => {
            let mut render =
                Render { command, allocation_list, patch_locations_in: places, dma_buffer, patch_locations_out };
            driver.render(kmd, &mut render).map_err(status)?;
            Ok((render.dma_buffer.written, render.patch_locations_out.written))
        }
        Source::Present => {
            let mut present = Present { allocation_list, dma_buffer, patch_locations_out };
            driver.present(kmd, &mut present).map_err(status)?;
            Ok((present.dma_buffer.written, present.patch_locations_out.written))
        }
    }
}

/// The written primaries of a submission.
///
/// # Errors
/// More than 16 (memory §10.1 row 16).
// spec: memory §5.6, memory §10.1
pub fn check_primaries(count: usize) -> Result<(), Refusal> {
    if count > WRITTEN_PRIMARIES_MAX {
        return Err(invalid(format!("{count} written primaries; at most {WRITTEN_PRIMARIES_MAX}")));
    }
    Ok(())
}
