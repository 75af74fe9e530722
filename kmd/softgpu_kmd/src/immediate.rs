//! Paging operations that the CPU does at once: those of the paging process's own tables, and those before there is a
//! paging queue (memory §3.4: `pDmaBuffer` NULL). Called by `paging` with the commands that would have gone
//! into a buffer; each has the effect that the engine would have given it.

use ddi::PagingStatus;
use shared_words::{Memory, Word};
use softgpu_spec::bus::{self, Place, aperture_entry};
use softgpu_spec::{Command, register};

use crate::driver::SoftGpuKmd;
use crate::segments::Geometry;

impl SoftGpuKmd {
    /// Carries a paging command out.
    pub(crate) fn execute(&self, geometry: &Geometry, command: Command<'_>) -> Result<(), PagingStatus> {
        let local = self.port.local_memory();
        match command {
            Command::WriteEntryRun { table, first, count, entry, step } => {
                let (memory, at, _) = self.resolve(geometry, table)?;
                for index in 0..u64::from(count) {
                    Word::store(memory.word(at + (u64::from(first) + index) * 8), entry + index * step);
                }
            }
            Command::MapAperture { first, count, system_address, step } => {
                for index in 0..count {
                    let entry = aperture_entry::to(system_address + index * step);
                    Word::store(local.word(geometry.entry(first + index)), entry);
                }
            }
            Command::FlushTlb { root, first_va, last_va } => {
                self.cmp_command(register::cmp::FLUSH_TLB, [root, first_va, last_va]);
            }
            Command::CopyPhysical { source_bus, target_bus, bytes } => {
                self.copy(geometry, source_bus, target_bus, bytes)?
            }
            Command::CopyTiled { linear_bus, surface_bus, offset, bytes, tiling, swizzle } => {
                let mut done = 0;
                while done < bytes {
                    let (place, room) = tiling.place(offset + done);
                    let (linear, tiled, piece) = (linear_bus + done, surface_bus + place, room.min(bytes - done));
                    let (source, target) = if swizzle { (linear, tiled) } else { (tiled, linear) };
                    self.copy(geometry, source, target, piece)?;
                    done += piece;
                }
            }
            Command::FillPhysical { target_bus, bytes, pattern } => self.fill(geometry, target_bus, bytes, pattern)?,
            _ => return Err(PagingStatus::Fatal("only a queue can signal a fence: the operation needs a buffer")),
        }
        Ok(())
    }

    /// Gives the CMP a command and waits for its result.
    pub(crate) fn cmp_command(&self, command: u64, arguments: [u64; 3]) -> u64 {
        self.port.write_register(register::CMP_ARGUMENT_0, arguments[0]);
        self.port.write_register(register::CMP_ARGUMENT_1, arguments[1]);
        self.port.write_register(register::CMP_ARGUMENT_2, arguments[2]);
        self.port.write_register(register::CMP_COMMAND, command);
        self.port.read_register(register::CMP_RESULT)
    }

    fn copy(&self, geometry: &Geometry, mut source: u64, mut target: u64, bytes: u64) -> Result<(), PagingStatus> {
        let mut left = bytes;
        while left > 0 {
            let (from, from_offset, from_room) = self.resolve(geometry, source)?;
            let (to, to_offset, to_room) = self.resolve(geometry, target)?;
            let piece = left.min(from_room).min(to_room);
            to.copy_from(to_offset, from, from_offset, piece);
            source += piece;
            target += piece;
            left -= piece;
        }
        Ok(())
    }

    fn fill(&self, geometry: &Geometry, mut target: u64, bytes: u64, pattern: u32) -> Result<(), PagingStatus> {
        let mut left = bytes;
        while left > 0 {
            let (to, offset, room) = self.resolve(geometry, target)?;
            let piece = left.min(room);
            to.fill(offset, piece, pattern);
            target += piece;
            left -= piece;
        }
        Ok(())
    }

    /// The memory behind a bus address, the offset in it, and how many bytes go on from there.
    fn resolve(&self, geometry: &Geometry, address: u64) -> Result<(&Memory, u64, u64), PagingStatus> {
        let outside = PagingStatus::Fatal("a transfer by the CPU outside of memory");
        let system = |offset: u64, room: u64| {
            if self.system.contains(offset, 1) {
                Ok((&*self.system, offset, room.min(self.system.bytes() - offset)))
            } else {
                Err(outside)
            }
        };
        match bus::place(address) {
            Place::Local(offset) if offset < geometry.local_bytes => {
                Ok((&**self.port.local_memory(), offset, geometry.local_bytes - offset))
            }
            Place::Aperture(offset) if offset < geometry.aperture_bytes => {
                let entry = Word::load(self.port.local_memory().word(geometry.entry(offset / bus::PAGE_BYTES)));
                if entry & aperture_entry::VALID == 0 {
                    return Err(PagingStatus::Fatal(
                        "a transfer by the CPU through an aperture page that was never mapped",
                    ));
                }
                let within = offset % bus::PAGE_BYTES;
                system((entry & !aperture_entry::VALID) + within, bus::PAGE_BYTES - within)
            }
            Place::System(offset) => system(offset, u64::MAX),
            Place::Local(_) | Place::Aperture(_) => Err(outside),
        }
    }
}
