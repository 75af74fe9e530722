//! Entries of two halves (dual entries, memory §4.5): the first names a leaf table of 4-KB entries or a large page, the second
//! a leaf table of 64-KB entries. The second half is written first: as long as the first one names memory, it does not count.

use ddi::{PagingStatus, Pte, PteFlags};
use softgpu_spec::Command;
use softgpu_spec::bus::PAGE_BYTES;
use wddm_types::{GpuVa, PhysicalAddress};

use super::pieces::by_address;
use crate::gpu_va;
use crate::segments::Geometry;

use PagingStatus::Fatal;

/// The halves of an update that are still to be written.
pub(super) struct Pairs {
    table: u64,
    /// Where the paging process sees the table, if it is written by address.
    table_va: Option<GpuVa>,
    start: u32,
    count: u32,
    halves: [u64; 2],
    /// The difference of the addresses in consecutive entries.
    step: u64,
    /// Halves written, or all at once.
    done: u64,
}

impl Pairs {
    /// An update of `count` entries from `start` on.
    // spec: memory §3.4, memory §4.5
    pub fn new(
        geometry: &Geometry,
        (table, table_va): (PhysicalAddress, Option<GpuVa>),
        (start, count): (u32, u32),
        halves: [Pte; 2],
        repeat: bool,
    ) -> Result<Pairs, PagingStatus> {
        let table = geometry.table_address(table).ok_or(super::pieces::OUTSIDE)?;
        if u64::from(start) + u64::from(count) > u64::from(geometry.shape.entries(1)) {
            return Err(Fatal("a page-table update beyond the table"));
        }
        if halves.iter().any(|half| half.flags.contains(PteFlags::LEAF_64KB))
            || halves[1].flags.contains(PteFlags::LARGE_PAGE)
        {
            return Err(Fatal("which half of an entry it is says what it names"));
        }
        let names_page = halves.iter().any(|half| half.flags.contains(PteFlags::VALID));
        let [first, second] = halves.map(|half| gpu_va::encode(geometry, half).map_err(Fatal));
        let step = if repeat || !names_page { 0 } else { PAGE_BYTES };
        Ok(Pairs { table, table_va, start, count, halves: [first?, second?], step, done: 0 })
    }

    /// From where a full buffer stopped it.
    pub fn resumed(self, done: u64) -> Pairs {
        Pairs { done, ..self }
    }

    /// The next command.
    pub fn next(&mut self) -> Result<Option<Command<'static>>, PagingStatus> {
        let halves = u64::from(self.count) * 2;
        if self.done >= halves {
            return Ok(None);
        }
        let command = |first, count, entry| Command::WriteEntryRun { table: self.table, first, count, entry, step: 0 };
        let (command, done) = if self.halves == [0, 0] {
            (command(self.start * 2, self.count * 2, 0), halves)
        } else {
            // CAST: a table has at most 2^20 entries, and an entry two halves.
            let (index, half) = ((self.done / 2) as u32, 1 - (self.done % 2) as u32);
            let said = self.halves[half as usize];
            let entry = if said == 0 { 0 } else { said + u64::from(index) * self.step };
            (command((self.start + index) * 2 + half, 1, entry), self.done + 1)
        };
        self.done = done;
        self.table_va.map_or(Ok(command), |va| by_address(command, va)).map(Some)
    }

    /// Where to resume.
    pub fn done(&self) -> u64 {
        self.done
    }
}
