//! DMA buffers as a driver writes them for Render and Present, and the answers that it may give (memory §7.1, §7.4, §9.2). Nothing is
//! queued here.

use ddi::{
    AllocationListEntry, DmaBuffer, KmdContext, PatchLocation, PatchLocationsOut, Present, Render, RenderStatus,
};
use kmt_calls::{DeviceState, Refusal};
use wddm_types::{Blame, GpuVa, NtStatus};

use super::{list, split};
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::DeviceNumber;
use crate::packet::PacketContextNumber;
use crate::refusal::{no_memory, refuse, removed};

/// The input of DMA buffers.
pub(super) enum Source<'a> {
    /// A command buffer of a process: one DMA buffer.
    Render { command: &'a [u64], places: &'a [PatchLocation], private_data: &'a [u8] },
    /// The list alone: as many as the driver asks for.
    Present,
}

/// A DMA buffer that the driver has written.
pub(super) struct Built {
    pub buffer: u64,
    pub written: usize,
    pub places: Vec<PatchLocation>,
}

impl Adapter {
    /// Has the driver write the DMA buffers for one call. They are in use from now on.
    ///
    /// # Errors
    /// There is no buffer, the driver refuses, or it breaks the contract, which stops the adapter. No buffer is in use then.
    // spec: memory §7.1, memory §9.2
    pub(super) fn write_dma_buffers(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        list: &[AllocationListEntry],
        source: &Source<'_>,
    ) -> Result<Vec<Built>, Refusal> {
        let mut built: Vec<Built> = Vec::new();
        let mut multipass = 0;
        loop {
            let Some(buffer) = self.take_dma_buffer(cx, context) else {
                self.release_built(cx, context, built);
                return Err(no_memory("the context's DMA buffers are all queued, or there is no memory for another"));
            };
            built.push(Built { buffer, written: 0, places: Vec::new() });
            let last = built.last_mut().expect("just pushed");
            match self.write_buffer(cx, context, last, list, source, &mut multipass) {
                Ok(true) => return Ok(built),
                Ok(false) => {}
                Err(Written::Status(status)) => {
                    self.release_built(cx, context, built);
                    let device = self.packet_contexts[context].device;
                    return Err(self.refused_by_driver(cx, device, status));
                }
                Err(Written::Breach(rule)) => {
                    self.stop(cx, rule.into());
                    return Err(removed(format!("the adapter was stopped: {rule}")));
                }
            }
        }
    }

    pub(super) fn release_built(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber, built: Vec<Built>) {
        built.into_iter().for_each(|built| self.release_dma_buffer(cx, context, built.buffer));
    }

    /// Asks the driver once. Says whether that was all.
    fn write_buffer(
        &mut self,
        cx: &Cx<'_>,
        context: PacketContextNumber,
        built: &mut Built,
        list: &[AllocationListEntry],
        source: &Source<'_>,
        multipass: &mut u32,
    ) -> Result<bool, Written> {
        let known = &mut self.packet_contexts[context];
        let (kmd, entries_max) = (known.kmd, known.info.patch_location_list_entries as usize);
        let buffer = known.buffers.iter_mut().find(|buffer| buffer.number == built.buffer).expect("just taken");
        let mut places = vec![PatchLocation::default(); entries_max];
        if let Source::Render { private_data, .. } = source {
            buffer.private_data[..private_data.len()].copy_from_slice(private_data);
        }
        let dma_buffer = DmaBuffer { words: &mut buffer.words, written: 0, private_data: &mut buffer.private_data };
        let patch_locations_out = PatchLocationsOut { list: &mut places, written: 0 };
        let driver = self.driver.call(cx).packet_scheduling().expect("it made this context");
        let asked = Asked { list, dma_buffer, dma_buffer_va: buffer.va, patch_locations_out };
        let (used, listed, whole) = call_driver(driver, kmd, source, asked, multipass)?;
        if used == 0 || used > buffer.words.len() || listed > places.len() {
            return Err(Written::Breach("the driver wrote past its DMA buffer, or nothing"));
        }
        places.truncate(listed);
        list::check_answer(&places, list.len(), used).map_err(Written::Breach)?;
        let slots = self.packets.caps.expect("its driver schedules packets").max_allocation_list_slot_id;
        split::check_splits(&places, list, slots).map_err(Written::Breach)?;
        (built.written, built.places) = (used, places);
        Ok(whole)
    }

    /// The refusals of Render and Present by a driver, as statuses.
    // spec: memory §9.2
    pub(super) fn refused_by_driver(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, status: RenderStatus) -> Refusal {
        let (code, blame) = match status {
            RenderStatus::NoMemory(_) => (NtStatus::NO_MEMORY, Blame::Scarcity),
            RenderStatus::InsufficientDmaBuffer => unreachable!("another buffer, or a breach of the contract"),
            RenderStatus::PrivilegedInstruction => (NtStatus::PRIVILEGED_INSTRUCTION, Blame::Caller),
            RenderStatus::IllegalInstruction => (NtStatus::ILLEGAL_INSTRUCTION, Blame::Caller),
            RenderStatus::InvalidParameter(_) => (NtStatus::INVALID_PARAMETER, Blame::Caller),
            RenderStatus::InvalidUserBuffer(_) => (NtStatus::INVALID_USER_BUFFER, Blame::Caller),
            RenderStatus::InvalidHandle(_) => (NtStatus::INVALID_HANDLE, Blame::Caller),
            RenderStatus::DriverMismatch => (NtStatus::GRAPHICS_DRIVER_MISMATCH, Blame::Caller),
            RenderStatus::GpuException(_) => (NtStatus::GRAPHICS_GPU_EXCEPTION_ON_DEVICE, Blame::Driver),
        };
        if let RenderStatus::GpuException(reason) = status {
            let reason = format!("the driver gave the device up: {reason}");
            self.fail_device(cx, device, DeviceState::ErrorDmaFault, reason);
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

/// The arguments of a driver's call.
struct Asked<'a> {
    list: &'a [AllocationListEntry],
    dma_buffer: DmaBuffer<'a>,
    dma_buffer_va: GpuVa,
    patch_locations_out: PatchLocationsOut<'a>,
}

/// Words and patch locations that the driver has written, and whether that is all of it.
fn call_driver(
    driver: &mut dyn ddi::PacketScheduling,
    kmd: KmdContext,
    source: &Source<'_>,
    asked: Asked<'_>,
    multipass: &mut u32,
) -> Result<(usize, usize, bool), Written> {
    let Asked { list: allocation_list, dma_buffer, dma_buffer_va, patch_locations_out } = asked;
    match *source {
        Source::Render { command, places, private_data } => {
            let mut render = Render {
                command,
                allocation_list,
                patch_locations_in: places,
                dma_buffer,
                // CAST: no more than the driver said in 32 bits.
                user_data_bytes: private_data.len() as u32,
                patch_locations_out,
            };
            driver.render(kmd, &mut render).map_err(|status| match status {
                // spec: memory §7.1: under the guaranteed contract there is always room
                RenderStatus::InsufficientDmaBuffer => {
                    Written::Breach("the driver wants a larger DMA buffer than it asked for")
                }
                status => Written::Status(status),
            })?;
            Ok((render.dma_buffer.written, render.patch_locations_out.written, true))
        }
        Source::Present => {
            let multipass_offset = *multipass;
            let mut present =
                Present { allocation_list, dma_buffer, dma_buffer_va, patch_locations_out, multipass_offset };
            // spec: memory §7.1: Present may ask for more
            let whole = match driver.present(kmd, &mut present) {
                Ok(()) => true,
                Err(RenderStatus::InsufficientDmaBuffer) => false,
                Err(status) => return Err(Written::Status(status)),
            };
            *multipass = present.multipass_offset;
            Ok((present.dma_buffer.written, present.patch_locations_out.written, whole))
        }
    }
}
