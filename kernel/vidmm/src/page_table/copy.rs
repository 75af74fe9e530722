//! Entries copied from leaf table to leaf table (COPY_PAGE_TABLE_ENTRIES, memory §3.4): what they say then is what the source
//! shows when the hardware gets there. Only 4-KB entries are copied; everything else is written.

use wddm_types::PageRun;

use super::PageTable;
use crate::operation::Operation;
use crate::slab::SpaceId;

impl PageTable {
    /// Copies the entries of the pages from `source` on to those of `run`; false when tables are away, larger than
    /// `pages_max`, or have entries of another size: then nothing has been done.
    // spec: memory §3.4, operation 14
    pub fn copy(
        &mut self,
        source: u64,
        run: PageRun,
        pages_max: u64,
        space: SpaceId,
        operations: &mut Vec<Operation>,
    ) -> bool {
        let level = self.geometry.levels[0];
        let (shift, mask) = (level.table_shift, (1u64 << level.table_shift) - 1);
        let plain = |first: u64, count: u64| {
            self.levels[0]
                .range(first >> shift..=(first + count - 1) >> shift)
                .all(|(_, table)| table.large.is_none() && (self.dual || table.coarse.is_none()))
                && !(self.dual && self.any_coarse(first, count))
        };
        let (count, whole) = (run.count.0, level.table_pages <= pages_max);
        if !self.resident || !whole || !plain(source, count) || !plain(run.first, count) {
            return false;
        }
        let mut done = 0;
        while done < count {
            let (from, to) = (source + done, run.first + done);
            let room = (mask + 1 - (from & mask)).min(mask + 1 - (to & mask));
            let part = room.min(count - done);
            operations.push(Operation::CopyEntries {
                space,
                source: self.levels[0][&(from >> shift)].address,
                target: self.levels[0][&(to >> shift)].address,
                table_pages: level.table_pages,
                // CAST: an index has at most 31 bits, and a run inside a table no more entries.
                source_start: (from & mask) as u32,
                target_start: (to & mask) as u32,
                count: part as u32,
            });
            done += part;
        }
        if self.dual {
            self.copied(source, run);
        }
        true
    }
}
