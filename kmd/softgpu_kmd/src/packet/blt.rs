//! Blts (memory §5.7): copies from one allocation of a present to another one. Without parts one copy, from the source's first byte to the
//! destination's; of each part a copy for each row. Rows that a buffer has no room for go into the next one: `multipass_offset` counts the
//! copies that are written.

use ddi::{AllocationListEntry, PRESENT_DESTINATION_INDEX, PRESENT_SOURCE_INDEX, PatchLocation, Present, RenderStatus};
use softgpu_spec::{Command, display};
use wddm_types::{BltRectangle, GpuVa};

use super::translate::{TOO_LITTLE, emit, note_words, write_address};
use crate::driver::SoftGpuKmd;

/// Engines copy so many bytes at once, and at multiples of them.
const COPY_BYTES: u64 = 8;

/// Bytes that go from one place of the source to one of the destination.
#[derive(Clone, Copy)]
struct Run {
    source: u64,
    destination: u64,
    bytes: u64,
}

impl SoftGpuKmd {
    /// Builds a present whose addresses the kernel patches.
    pub(super) fn translate_present(&self, present: &mut Present<'_>) -> Result<(), RenderStatus> {
        self.write_runs(present, None)
    }

    /// Builds a present at addresses of the context's space.
    pub(super) fn present_at_addresses(&self, present: &mut Present<'_>) -> Result<(), RenderStatus> {
        let addresses = [PRESENT_SOURCE_INDEX, PRESENT_DESTINATION_INDEX]
            .map(|index| present.allocation_list[index as usize].virtual_address);
        if addresses.iter().any(|address| address.is_null()) {
            return Err(RenderStatus::InvalidParameter("an allocation of a present without an address"));
        }
        self.write_runs(present, Some(addresses))
    }

    fn write_runs(&self, present: &mut Present<'_>, addresses: Option<[GpuVa; 2]>) -> Result<(), RenderStatus> {
        let runs = self.runs(present.allocation_list, present.rectangles)?;
        // CAST: the kernel bounds the rows of a blt.
        let mut done = present.multipass_offset as usize;
        let mut words = Vec::new();
        for run in &runs[done.min(runs.len())..] {
            let at = words.len();
            match addresses {
                Some([source, destination]) => Command::Copy {
                    source_va: source.0 + run.source,
                    target_va: destination.0 + run.destination,
                    bytes: run.bytes,
                },
                None => Command::CopyPhysical { source_bus: 0, target_bus: 0, bytes: run.bytes },
            }
            .encode(&mut words);
            let places = &present.patch_locations_out;
            let has_places = addresses.is_some() || places.written + 2 <= places.list.len();
            if words.len() > present.dma_buffer.words.len() || !has_places {
                words.truncate(at);
                break;
            }
            if addresses.is_none() {
                emit_places(present, at, run)?;
            }
            done += 1;
        }
        if words.is_empty() {
            return Err(RenderStatus::InsufficientDmaBuffer);
        }
        let target = &mut present.dma_buffer;
        target.words[..words.len()].copy_from_slice(&words);
        for place in &present.patch_locations_out.list[..present.patch_locations_out.written] {
            let entry = present.allocation_list[place.allocation_index as usize];
            if !entry.segment.is_system() {
                write_address(target.words, place, &entry);
            }
        }
        target.written = words.len();
        if !note_words(target.private_data, words.len()) {
            return Err(TOO_LITTLE);
        }
        // CAST: as above.
        present.multipass_offset = done as u32;
        if done < runs.len() { Err(RenderStatus::InsufficientDmaBuffer) } else { Ok(()) }
    }

    fn runs(&self, list: &[AllocationListEntry], parts: &[BltRectangle]) -> Result<Vec<Run>, RenderStatus> {
        let open = [PRESENT_SOURCE_INDEX, PRESENT_DESTINATION_INDEX].map(|index| {
            let entry = list.get(index as usize).and_then(|entry| entry.allocation);
            entry.ok_or(RenderStatus::InvalidHandle("no allocation"))
        });
        let [source, destination] = open;
        let (source, destination) = (source?, destination?);
        if parts.is_empty() {
            let size = |open| self.size_of(open).ok_or(RenderStatus::InvalidHandle("no allocation"));
            let bytes = size(source)?.min(size(destination)?);
            return Ok(vec![Run { source: 0, destination: 0, bytes }]);
        }
        let surface = |open: ddi::KmdOpenAllocation| {
            let known = self.opened.get(open.0).and_then(|opened| self.allocations.get(opened.allocation.0));
            let shown = known.and_then(|known| known.shown());
            shown.ok_or(RenderStatus::InvalidParameter("parts of an allocation whose rows no private data describe"))
        };
        let (source, destination) = (surface(source)?, surface(destination)?);
        let mut runs = Vec::new();
        for part in parts {
            let from = (part.source_left, part.source_top);
            let to = (part.destination_left, part.destination_top);
            check_inside(source, from, part)?;
            check_inside(destination, to, part)?;
            let bytes = u64::from(part.width) * display::TEXEL_BYTES;
            let place = |(width, _): (u32, u32), (left, top): (u32, u32), row: u32| {
                u64::from(top + row) * display::pitch_bytes(width) + u64::from(left) * display::TEXEL_BYTES
            };
            runs.extend((0..part.height).map(|row| Run {
                source: place(source, from, row),
                destination: place(destination, to, row),
                bytes,
            }));
        }
        let aligned = |run: &Run| (run.source | run.destination | run.bytes).is_multiple_of(COPY_BYTES);
        match runs.iter().all(aligned) {
            true => Ok(runs),
            false => Err(RenderStatus::InvalidParameter("parts of a blt begin and end at even columns")),
        }
    }
}

/// The places of both addresses of a command that begins at a word.
fn emit_places(present: &mut Present<'_>, at: usize, run: &Run) -> Result<(), RenderStatus> {
    let operands = [(PRESENT_SOURCE_INDEX, 1, run.source), (PRESENT_DESTINATION_INDEX, 2, run.destination)];
    for (allocation_index, word, offset) in operands {
        let allocation_offset = u32::try_from(offset);
        let place = PatchLocation {
            allocation_index,
            slot_id: allocation_index,
            // CAST: a DMA buffer is far below 4 GiB.
            patch_offset: (at + word) as u32 * 8,
            allocation_offset: allocation_offset
                .map_err(|_| RenderStatus::InvalidParameter("a row beyond 4 GiB of its surface"))?,
            ..PatchLocation::default()
        };
        emit(&mut present.patch_locations_out, place, 0)?;
    }
    Ok(())
}

fn check_inside(surface: (u32, u32), (left, top): (u32, u32), part: &BltRectangle) -> Result<(), RenderStatus> {
    let ends = |first: u32, count: u32, max: u32| first.checked_add(count).is_some_and(|end| end <= max);
    match ends(left, part.width, surface.0) && ends(top, part.height, surface.1) {
        true => Ok(()),
        false => Err(RenderStatus::InvalidParameter("a part of a blt beyond its surface")),
    }
}
