//! Paging operations as commands of the data sheet (memory §3). The kernel hands over one operation and the rest of a
//! buffer; this file cuts the operation into commands and writes as many as fit.
//!
//! An operation becomes [`Pieces`] (`pieces`): a sequence of commands that can be resumed at a number. The number is the
//! `MultipassOffset`, which the driver owns (memory §3.2): bytes done of a transfer, pages done of a mapping, 0 for
//! an operation of one command. So an operation cut by full buffers gives the same commands as one that was not.
//!
//! | operation | commands |
//! |---|---|
//! | Transfer | `CopyPhysical`, one for each piece that is contiguous at both ends; `CopyTiled` for tiles that become rows or rows tiles |
//! | SpecialLockTransfer | `CopyTiled`: the CPU saw rows |
//! | Fill | `FillPhysical` |
//! | MapApertureSegment | `MapAperture`, one for each run of the MDL |
//! | MapApertureSegment2 | the same for each run of consecutive pages of the ADL |
//! | UnmapApertureSegment | `MapAperture` with step 0 to the dummy page |
//! | ReadPhysical, WritePhysical | `TouchPhysical` |
//! | VirtualTransfer, VirtualFill | `Copy`, `Fill` in the paging process's space |
//! | CopyPageTableEntries | `CopyRun`, one for each range: the tables are mapped there |
//! | InitContextResource | `Store` of the head: the kernel has filled the pages with zeros |
//! | UpdateContextAllocation | `Store`: the private data are an offset and the words that go there |
//! | UpdatePageTable | `WriteEntryRun`, of dual entries one for each half; in mode GPU_VIRTUAL `StoreRun` |
//! | FlushTlb | `FlushTlb` |
//! | SignalMonitoredFence | `Signal` |
//! | NotifyFenceResidency | none: seals of the words are lifted at once (`fences`) |
//! | DiscardContent, NotifyResidency, NotifyAlloc | none: the device keeps nothing beside the frames |
//!
//! When there is no buffer the CPU carries out the same commands (`immediate`).

use ddi::{BuildPagingBuffer, PagingOp, PagingStatus};

use crate::allocation::Rows;
use crate::driver::SoftGpuKmd;
use crate::packet::translate;
use crate::paging::pieces::Pieces;

use PagingStatus::Fatal;

mod pages;
mod pairs;
mod pieces;
mod tiled;

impl SoftGpuKmd {
    // spec: memory §3.1, memory §3.2
    pub(crate) fn build_paging(&mut self, build: &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> {
        let result = self.write_commands(build);
        if !build.immediate {
            // The next operation of this buffer replaces the note.
            build.private_written = 0;
            let words = build.write_offset as usize / 8 + build.written;
            if !translate::note_words(build.private_data, words) {
                return Err(Fatal("less private data than PagingBufferPrivateDataSize"));
            }
        }
        result
    }

    fn write_commands(&mut self, build: &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> {
        let geometry = self.geometry.ok_or(Fatal("the device is not started"))?;
        build.written = 0;
        if let PagingOp::NotifyFenceResidency { fences } = build.operation {
            self.words_move(fences)?;
        }
        let mut pieces = match self.tiled_copy(&geometry, &build.operation, build.multipass_offset)? {
            Some(copy) => Pieces::Tiled(copy),
            None => {
                let operation = tiled::plain(build.operation);
                Pieces::new(&geometry, self.rows_of(&operation), &operation, build.multipass_offset)?
            }
        };
        let mut inline = Vec::new();
        while let Some(command) = pieces.next(&mut inline)? {
            if build.immediate {
                self.execute(&geometry, command)?;
                continue;
            }
            let room = &mut build.buffer[build.written..];
            if room.len() < command.words() {
                return Err(PagingStatus::InsufficientDmaBuffer);
            }
            self.encoded.clear();
            command.encode(&mut self.encoded);
            room[..self.encoded.len()].copy_from_slice(&self.encoded);
            build.written += self.encoded.len();
            build.multipass_offset = pieces.done();
        }
        Ok(())
    }

    /// How the rows of what a transfer moves lie where pitches are aligned.
    // spec: memory §2.6
    fn rows_of(&self, operation: &PagingOp<'_>) -> Option<Rows> {
        match operation {
            PagingOp::Transfer { allocation: Some(allocation), .. } => self.allocations.get(allocation.0)?.rows(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
