//! DMA buffers as a driver writes them for Render and Present, and the answers that it may give (memory §7.1, §7.4, §9.2). Nothing is
//! queued here.

use ddi::{
    AllocationListEntry, DmaBuffer, KmdContext, PatchLocation, PatchLocationsOut, Present, Render, RenderStatus,
};
use wddm_types::{BltRectangle, GpuVa};

use super::list::{check_answer, check_splits};
use super::{DmaBufferNumber, Packets};
use crate::number::PacketContextNumber;

/// The input of DMA buffers.
pub enum Source<'a> {
    /// A command buffer of a process: one DMA buffer.
    Render {
        /// The commands.
        command: &'a [u64],
        /// Its patch locations.
        places: &'a [PatchLocation],
        /// The user-mode driver's private data.
        private_data: &'a [u8],
    },
    /// Source and destination on the list: as many as the driver asks for.
    Present {
        /// The parts that are copied; none: all.
        rectangles: &'a [BltRectangle],
    },
}

/// A DMA buffer that the driver has written.
pub struct Built {
    /// Its number.
    pub buffer: DmaBufferNumber,
    /// Words of it that are written.
    pub written: usize,
    /// The places of addresses in it.
    pub places: Vec<PatchLocation>,
}

impl Packets {
    /// Asks the driver once for a buffer's content. Says whether that was all.
    ///
    /// # Errors
    /// The driver's refusal, or the rule that it breaks.
    pub fn write_buffer(
        &mut self,
        driver: &mut dyn ddi::PacketScheduling,
        context: PacketContextNumber,
        built: &mut Built,
        list: &[AllocationListEntry],
        source: &Source<'_>,
        multipass: &mut u32,
    ) -> Result<bool, Written> {
        let slots = self.slots();
        let known = &mut self.contexts[context];
        let (kmd, entries_max) = (known.facts.kmd, known.facts.info.patch_location_list_entries as usize);
        let buffer = known.buffers.iter_mut().find(|buffer| buffer.number == built.buffer).expect("just taken");
        let mut places = vec![PatchLocation::default(); entries_max];
        if let Source::Render { private_data, .. } = source {
            buffer.private_data[..private_data.len()].copy_from_slice(private_data);
        }
        let dma_buffer = DmaBuffer { words: &mut buffer.words, written: 0, private_data: &mut buffer.private_data };
        let patch_locations_out = PatchLocationsOut { list: &mut places, written: 0 };
        let asked = Asked { list, dma_buffer, dma_buffer_va: buffer.place.va, patch_locations_out };
        let (used, listed, whole) = call_driver(driver, kmd, source, asked, multipass)?;
        if used == 0 || used > buffer.words.len() || listed > places.len() {
            return Err(Written::Breach("the driver wrote past its DMA buffer, or nothing"));
        }
        places.truncate(listed);
        check_answer(&places, list.len(), used).map_err(Written::Breach)?;
        check_splits(&places, list, slots).map_err(Written::Breach)?;
        (built.written, built.places) = (used, places);
        Ok(whole)
    }
}

/// Why there is no buffer.
pub enum Written {
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
        Source::Present { rectangles } => {
            let multipass_offset = *multipass;
            let mut present = Present {
                rectangles,
                allocation_list,
                dma_buffer,
                dma_buffer_va,
                patch_locations_out,
                multipass_offset,
            };
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
