//! From a user's command buffer to a DMA buffer (memory §7.3, §7.4). The words come from a process and will run privileged,
//! so each command is checked: only copies (tiled ones too), fills and the compute kernels, on memory that the allocation list
//! names, inside its bounds, written only where the list says so. The driver never uses the addresses that the process wrote.

use ddi::{AllocationListEntry, PatchLocation, PatchLocationsOut, Render, RenderStatus};
use softgpu_spec::{Command, DecodeError, bus, pattern};

use wddm_types::SegmentSet;

use crate::driver::SoftGpuKmd;

/// Private data of a DMA buffer, paging buffers too: how many words it has.
pub(crate) const PRIVATE_DATA_BYTES: u32 = 4;

/// The kernel has given less than the driver said.
pub(super) const TOO_LITTLE: RenderStatus =
    RenderStatus::InvalidParameter("less private data than DmaBufferPrivateDataSize");

/// Bytes of a check's report.
const REPORT_BYTES: u64 = pattern::report::WORDS * 8;

/// An address that a command needs: the word it stands in, how many bytes from there on, and whether they are written.
type Operand = (usize, u64, bool);

impl SoftGpuKmd {
    // spec: memory §7.3, memory §7.4
    pub(super) fn translate(&self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        let words = render.command;
        let target = &mut render.dma_buffer;
        let room = target.words.get_mut(..words.len()).ok_or(RenderStatus::InsufficientDmaBuffer)?;
        room.copy_from_slice(words);
        let mut places = render.patch_locations_in.iter().peekable();
        let mut at = 0;
        while at < words.len() {
            let (command, length) = Command::decode(&words[at..]).map_err(undecodable)?;
            for operand in operands(&command, at)?.into_iter().flatten() {
                // CAST: a command buffer is smaller than a DMA buffer.
                let split = at as u32 * 8;
                while let Some(unbind) = places.next_if(|place| is_null(render.allocation_list, place)) {
                    emit(&mut render.patch_locations_out, unbound(unbind), split)?;
                }
                let wanted = operand.0 * 8;
                let place = places.next_if(|place| place.patch_offset as usize == wanted);
                let place = *place.ok_or(RenderStatus::InvalidUserBuffer("an address without a patch location"))?;
                let entry = render.allocation_list[place.allocation_index as usize];
                self.check_operand(&entry, &place, operand)?;
                emit(&mut render.patch_locations_out, place, split)?;
                // spec: memory §7.4: an address that is known is written now, Patch may never come
                target.words[operand.0] = 0;
                if !entry.segment.is_system() {
                    write_address(target.words, &place, &entry);
                }
            }
            at += length;
        }
        for rest in places {
            if !is_null(render.allocation_list, rest) {
                return Err(RenderStatus::InvalidUserBuffer(
                    "a patch location where no address stands, or out of order",
                ));
            }
            // CAST: as above.
            emit(&mut render.patch_locations_out, unbound(rest), words.len() as u32 * 8)?;
        }
        target.written = words.len();
        if note_words(target.private_data, words.len()) { Ok(()) } else { Err(TOO_LITTLE) }
    }

    fn check_operand(
        &self,
        entry: &AllocationListEntry,
        place: &PatchLocation,
        (_, bytes, write): Operand,
    ) -> Result<(), RenderStatus> {
        let allocation = entry.allocation.ok_or(RenderStatus::InvalidUserBuffer("an address in a NULL element"))?;
        let size = self.size_of(allocation).ok_or(RenderStatus::InvalidHandle("an unknown allocation"))?;
        let offset = u64::from(place.allocation_offset);
        if !offset.is_multiple_of(8) {
            return Err(RenderStatus::InvalidParameter("addresses are multiples of 8"));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > size) {
            return Err(RenderStatus::InvalidParameter("a range beyond its allocation"));
        }
        if write && !entry.write_operation {
            return Err(RenderStatus::InvalidParameter("a write to what the list only reads"));
        }
        Ok(())
    }

    /// Bytes that an allocation surely has, wherever it may lie when the buffer runs.
    pub(super) fn size_of(&self, open: ddi::KmdOpenAllocation) -> Option<u64> {
        let known = self.allocations.get(self.opened.get(open.0)?.allocation.0)?;
        let pitched = self.geometry?.pitched().filter(|id| known.supported == SegmentSet::only(*id));
        let bytes = match (pitched, known.rows()) {
            (Some(_), Some(rows)) => rows.room_bytes,
            _ => known.size_bytes,
        };
        Some(bytes.next_multiple_of(bus::PAGE_BYTES))
    }
}

/// The memory operands of a command, in the order of its words. Only these commands may be in user buffers.
fn operands(command: &Command<'_>, at: usize) -> Result<[Option<Operand>; 2], RenderStatus> {
    match *command {
        Command::Nop | Command::Work { .. } => Ok([None, None]),
        Command::CopyPhysical { bytes, .. } => Ok([Some((at + 1, bytes, false)), Some((at + 2, bytes, true))]),
        Command::CopyTiled { offset, bytes, tiling, swizzle, .. } => {
            // The surface is reached up to the end of the last band that the copy touches.
            let end = offset.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(tiling.band_bytes()));
            let end = end.ok_or(RenderStatus::InvalidParameter("a range beyond its allocation"))?;
            Ok([Some((at + 1, bytes, !swizzle)), Some((at + 2, end, swizzle))])
        }
        Command::FillPhysical { bytes, .. } => Ok([Some((at + 1, bytes, true)), None]),
        // The context's queue is not translated: these name bus addresses, too.
        Command::Copy { bytes, .. } => Ok([Some((at + 1, bytes, false)), Some((at + 2, bytes, true))]),
        Command::Fill { bytes, .. } | Command::Pattern { bytes, .. } => Ok([Some((at + 1, bytes, true)), None]),
        Command::Touch { bytes, write, .. } => Ok([Some((at + 1, bytes, write)), None]),
        Command::Check { bytes, .. } => Ok([Some((at + 1, bytes, false)), Some((at + 4, REPORT_BYTES, true))]),
        Command::Checksum { bytes, .. } => Ok([Some((at + 1, bytes, false)), Some((at + 3, 8, true))]),
        Command::Saxpy { elements, .. } => {
            let bytes = elements.saturating_mul(4);
            Ok([Some((at + 1, bytes, false)), Some((at + 2, bytes, true))])
        }
        _ if command.is_privileged() => Err(RenderStatus::PrivilegedInstruction),
        _ => Err(RenderStatus::IllegalInstruction),
    }
}

fn undecodable(error: DecodeError) -> RenderStatus {
    match error {
        DecodeError::Cut { .. } => RenderStatus::InvalidUserBuffer("a command goes on behind the buffer"),
        DecodeError::Opcode(_) | DecodeError::Operand { .. } => RenderStatus::IllegalInstruction,
    }
}

/// NULL elements unbind a slot; there is no address in them.
// spec: memory §7.3
fn is_null(list: &[AllocationListEntry], place: &PatchLocation) -> bool {
    list[place.allocation_index as usize].allocation.is_none()
}

/// There is no address in a NULL element, so the place that it names means nothing.
fn unbound(place: &PatchLocation) -> PatchLocation {
    PatchLocation { patch_offset: 0, allocation_offset: 0, ..*place }
}

pub(super) fn emit(
    out: &mut PatchLocationsOut<'_>,
    place: PatchLocation,
    split_offset: u32,
) -> Result<(), RenderStatus> {
    let room = out.list.get_mut(out.written).ok_or(RenderStatus::InsufficientDmaBuffer)?;
    *room = PatchLocation { split_offset, ..place };
    out.written += 1;
    Ok(())
}

/// Writes the address of a place into its word.
// spec: memory §7.3
pub(super) fn write_address(words: &mut [u64], place: &PatchLocation, entry: &AllocationListEntry) {
    words[place.patch_offset as usize / 8] = entry.physical_address + u64::from(place.allocation_offset);
}

/// Notes how many words a buffer has, in the last bytes of its private data: those that are left however many the driver
/// has taken before. False: there are too few.
#[must_use]
pub(crate) fn note_words(private_data: &mut [u8], words: usize) -> bool {
    // CAST: a DMA buffer is far below 4 GiB.
    let note = (words as u32).to_le_bytes();
    private_data.last_chunk_mut().map(|place| *place = note).is_some()
}

/// How many words a DMA buffer has, by its private data.
pub(crate) fn words_of(private_data: &[u8]) -> Option<u32> {
    private_data.last_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
