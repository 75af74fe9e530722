//! Commands as words, and words as commands: opcodes, lengths, what is refused.

use super::{Command, DecodeError, FenceCommand, LogSlot};
use crate::tile::Tiling;

pub(super) mod op {
    pub const NOP: u8 = 0x00;
    pub const WAIT: u8 = 0x01;
    pub const SIGNAL: u8 = 0x02;
    pub const BRANCH: u8 = 0x03;
    pub const TIMESTAMP: u8 = 0x04;
    pub const SIGNAL_ALWAYS: u8 = 0x05;
    pub const LOG: u8 = 0x06;
    pub const COPY: u8 = 0x10;
    pub const FILL: u8 = 0x11;
    pub const STORE: u8 = 0x12;
    pub const STORE_RUN: u8 = 0x13;
    pub const COPY_RUN: u8 = 0x14;
    pub const TOUCH: u8 = 0x20;
    pub const PATTERN: u8 = 0x21;
    pub const CHECK: u8 = 0x22;
    pub const CHECKSUM: u8 = 0x23;
    pub const SAXPY: u8 = 0x24;
    pub const WORK: u8 = 0x25;
    pub const COPY_PHYSICAL: u8 = 0x80;
    pub const FILL_PHYSICAL: u8 = 0x81;
    pub const COPY_TILED: u8 = 0x87;
    pub const WRITE_ENTRIES: u8 = 0x82;
    pub const WRITE_ENTRY_RUN: u8 = 0x83;
    pub const MAP_APERTURE: u8 = 0x84;
    pub const FLUSH_TLB: u8 = 0x85;
    pub const TOUCH_PHYSICAL: u8 = 0x86;
    pub const BRANCH_PHYSICAL: u8 = 0x90;
    pub const COMPLETE: u8 = 0x91;
}

/// Bits of TOUCH's operand.
pub(super) mod touch {
    pub const WRITE: u32 = 1;
    pub const WITHIN: u32 = 2;

    pub fn flags(write: bool, within: bool) -> u32 {
        (u32::from(write) * WRITE) | (u32::from(within) * WITHIN)
    }
}

/// The most words that one command can have.
pub const WORDS_MAX: usize = 3 + ENTRIES_GIVEN_MAX as usize;

/// Most entries that WRITE_ENTRIES gives one by one.
pub const ENTRIES_GIVEN_MAX: u32 = 512;

impl<'a> Command<'a> {
    /// How many words [`Command::encode`] appends.
    pub fn words(&self) -> usize {
        let log_words = |log: &Option<LogSlot>| if log.is_some() { LogSlot::WORDS } else { 0 };
        match self {
            Command::Nop => 1,
            Command::Wait { log, .. } => 3 + log_words(log),
            Command::Signal { log, .. } => 4 + log_words(log),
            Command::Branch { .. } | Command::BranchPhysical { .. } => 2,
            Command::Complete { .. } | Command::Timestamp { .. } | Command::Work { .. } => 2,
            Command::Copy { .. } | Command::Pattern { .. } | Command::Checksum { .. } | Command::Saxpy { .. } => 4,
            Command::SignalAlways { .. } => 3,
            Command::Fill { .. } | Command::Touch { .. } | Command::FillPhysical { .. } | Command::CopyRun { .. } => 3,
            Command::Log { .. } => 2 + LogSlot::WORDS,
            Command::Check { .. } => 6,
            Command::Store { words, .. } => 2 + words.len(),
            Command::TouchPhysical { .. } => 2,
            Command::CopyPhysical { .. } | Command::FlushTlb { .. } | Command::StoreRun { .. } => 4,
            Command::WriteEntries { entries, .. } => 3 + entries.len(),
            Command::WriteEntryRun { .. } | Command::MapAperture { .. } => 5,
            Command::CopyTiled { .. } => 6,
        }
    }

    /// Appends the command's words.
    pub fn encode(&self, out: &mut Vec<u64>) {
        let words = self.words();
        let head = |opcode: u8, operand: u32| u64::from(opcode) | (words as u64) << 8 | u64::from(operand) << 32;
        match *self {
            Command::Nop => out.push(head(op::NOP, 0)),
            Command::Wait { va, value, log } => {
                out.extend([head(op::WAIT, 0), va, value]);
                put_log(&log, out);
            }
            Command::Signal { current_va, monitored_va, value, log } => {
                out.extend([head(op::SIGNAL, 0), current_va, monitored_va, value]);
                put_log(&log, out);
            }
            Command::Log { slot, operation, value } => {
                out.extend([head(op::LOG, operation), value]);
                put_log(&Some(slot), out);
            }
            Command::SignalAlways { va, value } => out.extend([head(op::SIGNAL_ALWAYS, 0), va, value]),
            Command::Branch { va, words } => out.extend([head(op::BRANCH, words), va]),
            Command::BranchPhysical { bus, words } => out.extend([head(op::BRANCH_PHYSICAL, words), bus]),
            Command::Complete { value } => out.extend([head(op::COMPLETE, 0), value]),
            Command::Timestamp { va } => out.extend([head(op::TIMESTAMP, 0), va]),
            Command::Copy { source_va, target_va, bytes } => {
                out.extend([head(op::COPY, 0), source_va, target_va, bytes])
            }
            Command::Fill { va, bytes, pattern } => out.extend([head(op::FILL, pattern), va, bytes]),
            Command::Store { va, words } => out.extend([head(op::STORE, 0), va].iter().chain(words)),
            Command::StoreRun { va, count, first, step } => out.extend([head(op::STORE_RUN, count), va, first, step]),
            Command::CopyRun { source_va, target_va, count } => {
                out.extend([head(op::COPY_RUN, count), source_va, target_va]);
            }
            Command::TouchPhysical { bus, write } => out.extend([head(op::TOUCH_PHYSICAL, u32::from(write)), bus]),
            Command::Touch { va, bytes, write, within } => {
                out.extend([head(op::TOUCH, touch::flags(write, within)), va, bytes])
            }
            Command::Work { ns } => out.extend([head(op::WORK, 0), ns]),
            Command::Pattern { va, bytes, seed } => out.extend([head(op::PATTERN, 0), va, bytes, seed]),
            Command::Check { va, bytes, seed, report_va, tag } => {
                out.extend([head(op::CHECK, 0), va, bytes, seed, report_va, tag]);
            }
            Command::Checksum { va, bytes, result_va } => out.extend([head(op::CHECKSUM, 0), va, bytes, result_va]),
            Command::Saxpy { x_va, y_va, elements, a_bits } => {
                out.extend([head(op::SAXPY, a_bits), x_va, y_va, elements])
            }
            Command::CopyPhysical { source_bus, target_bus, bytes } => {
                out.extend([head(op::COPY_PHYSICAL, 0), source_bus, target_bus, bytes]);
            }
            Command::CopyTiled { linear_bus, surface_bus, offset, bytes, tiling, swizzle } => {
                // The flag stands beside the pitch, which is far below 2^32.
                let operand = u64::from(swizzle) << 32 | tiling.pitch();
                out.extend([head(op::COPY_TILED, 0), linear_bus, surface_bus, offset, bytes, operand]);
            }
            Command::FillPhysical { target_bus, bytes, pattern } => {
                out.extend([head(op::FILL_PHYSICAL, pattern), target_bus, bytes]);
            }
            Command::WriteEntries { table, first, entries } => {
                out.extend([head(op::WRITE_ENTRIES, first), table, entries.len() as u64]);
                out.extend_from_slice(entries);
            }
            Command::WriteEntryRun { table, first, count, entry, step } => {
                out.extend([head(op::WRITE_ENTRY_RUN, first), table, u64::from(count), entry, step]);
            }
            Command::MapAperture { first, count, system_address, step } => {
                out.extend([head(op::MAP_APERTURE, 0), first, count, system_address, step]);
            }
            Command::FlushTlb { root, first_va, last_va } => {
                out.extend([head(op::FLUSH_TLB, 0), root, first_va, last_va])
            }
        }
    }

    /// The number of words of the command that begins with `first`.
    ///
    /// # Errors
    /// When it says that it has none, or more than any command can have.
    #[inline]
    pub fn length(first: u64) -> Result<usize, DecodeError> {
        let words = ((first >> 8) & 0xff_ffff) as usize;
        if words == 0 || words > WORDS_MAX {
            return Err(DecodeError::Operand {
                opcode: first as u8,
                rule: "the word count is 1 to the longest command",
            });
        }
        Ok(words)
    }

    /// Decodes the command at the start of `words`. Returns it with its length in words.
    ///
    /// # Errors
    /// When the words are no command of this data sheet.
    #[inline]
    pub fn decode(words: &'a [u64]) -> Result<(Command<'a>, usize), DecodeError> {
        let first = *words.first().ok_or(DecodeError::Cut { needed: 1, left: 0 })?;
        let length = Command::length(first)?;
        let body = words.get(..length).ok_or(DecodeError::Cut { needed: length, left: words.len() })?;
        if let Some(command) = FenceCommand::decode(body) {
            return Ok((command.into(), length));
        }
        let opcode = first as u8;
        let operand = (first >> 32) as u32;
        let need = |expected: usize| {
            if length == expected {
                Ok(())
            } else {
                Err(DecodeError::Operand { opcode, rule: "the word count is wrong" })
            }
        };
        let eights = |bytes: u64| {
            if bytes.is_multiple_of(8) {
                Ok(bytes)
            } else {
                Err(DecodeError::Operand { opcode, rule: "bytes come in multiples of 8" })
            }
        };
        let command = match opcode {
            op::NOP => Command::Nop,
            op::SIGNAL_ALWAYS => {
                need(3)?;
                Command::SignalAlways { va: body[1], value: body[2] }
            }
            op::LOG => {
                need(2 + LogSlot::WORDS)?;
                // CAST: a handle has 32 bits.
                let slot = LogSlot { entry_va: body[2], header_va: body[3], handle: body[4] as u32 };
                Command::Log { slot, operation: operand, value: body[1] }
            }
            op::BRANCH => {
                need(2)?;
                Command::Branch { va: body[1], words: operand }
            }
            op::BRANCH_PHYSICAL => {
                need(2)?;
                Command::BranchPhysical { bus: body[1], words: operand }
            }
            op::COMPLETE => {
                need(2)?;
                Command::Complete { value: body[1] }
            }
            op::TIMESTAMP => {
                need(2)?;
                Command::Timestamp { va: body[1] }
            }
            op::COPY => {
                need(4)?;
                Command::Copy { source_va: body[1], target_va: body[2], bytes: eights(body[3])? }
            }
            op::FILL => {
                need(3)?;
                Command::Fill { va: body[1], bytes: eights(body[2])?, pattern: operand }
            }
            op::STORE_RUN => {
                need(4)?;
                if operand > crate::page_table::ENTRIES_MAX {
                    return Err(DecodeError::Operand { opcode, rule: "no more words than a table has entries" });
                }
                Command::StoreRun { va: body[1], count: operand, first: body[2], step: body[3] }
            }
            op::COPY_RUN => {
                need(3)?;
                if operand > crate::page_table::ENTRIES_MAX {
                    return Err(DecodeError::Operand { opcode, rule: "no more words than a table has entries" });
                }
                Command::CopyRun { source_va: body[1], target_va: body[2], count: operand }
            }
            op::STORE if length >= 3 => Command::Store { va: body[1], words: &body[2..] },
            op::TOUCH_PHYSICAL => {
                need(2)?;
                Command::TouchPhysical { bus: body[1], write: operand != 0 }
            }
            op::TOUCH => {
                need(3)?;
                if operand & !(touch::WRITE | touch::WITHIN) != 0 {
                    return Err(DecodeError::Operand { opcode, rule: "there are two flags" });
                }
                let (write, within) = (operand & touch::WRITE != 0, operand & touch::WITHIN != 0);
                Command::Touch { va: body[1], bytes: eights(body[2])?, write, within }
            }
            op::WORK => {
                need(2)?;
                Command::Work { ns: body[1] }
            }
            op::PATTERN => {
                need(4)?;
                Command::Pattern { va: body[1], bytes: eights(body[2])?, seed: body[3] }
            }
            op::CHECK => {
                need(6)?;
                Command::Check { va: body[1], bytes: eights(body[2])?, seed: body[3], report_va: body[4], tag: body[5] }
            }
            op::CHECKSUM => {
                need(4)?;
                Command::Checksum { va: body[1], bytes: eights(body[2])?, result_va: body[3] }
            }
            op::SAXPY => {
                need(4)?;
                if !body[3].is_multiple_of(2) || body[3] > u64::MAX / 8 {
                    return Err(DecodeError::Operand { opcode, rule: "elements come in pairs" });
                }
                Command::Saxpy { x_va: body[1], y_va: body[2], elements: body[3], a_bits: operand }
            }
            op::COPY_PHYSICAL => {
                need(4)?;
                Command::CopyPhysical { source_bus: body[1], target_bus: body[2], bytes: eights(body[3])? }
            }
            op::FILL_PHYSICAL => {
                need(3)?;
                Command::FillPhysical { target_bus: body[1], bytes: eights(body[2])?, pattern: operand }
            }
            op::COPY_TILED => {
                need(6)?;
                let wrong = DecodeError::Operand { opcode, rule: "a row is whole tiles wide, the flag is 0 or 1" };
                let tiling = Tiling::of_pitch(body[5] & u64::from(u32::MAX)).filter(|_| body[5] >> 32 <= 1);
                Command::CopyTiled {
                    linear_bus: body[1],
                    surface_bus: body[2],
                    offset: eights(body[3])?,
                    bytes: eights(body[4])?,
                    tiling: tiling.ok_or(wrong)?,
                    swizzle: body[5] >> 32 == 1,
                }
            }
            op::WRITE_ENTRIES if length >= 3 => {
                let entries = &body[3..];
                if body[2] != entries.len() as u64
                    || body[2] > u64::from(ENTRIES_GIVEN_MAX)
                    || u64::from(operand) + body[2] > u64::from(crate::page_table::ENTRIES_MAX)
                {
                    return Err(DecodeError::Operand { opcode, rule: "the entries fit the table" });
                }
                Command::WriteEntries { table: body[1], first: operand, entries }
            }
            op::WRITE_ENTRY_RUN => {
                need(5)?;
                if body[2] > u64::from(crate::page_table::ENTRIES_MAX)
                    || u64::from(operand) + body[2] > u64::from(crate::page_table::ENTRIES_MAX)
                {
                    return Err(DecodeError::Operand { opcode, rule: "the entries fit the table" });
                }
                // CAST: at most the entries of a table, checked above.
                Command::WriteEntryRun {
                    table: body[1],
                    first: operand,
                    count: body[2] as u32,
                    entry: body[3],
                    step: body[4],
                }
            }
            op::MAP_APERTURE => {
                need(5)?;
                Command::MapAperture { first: body[1], count: body[2], system_address: body[3], step: body[4] }
            }
            op::FLUSH_TLB => {
                need(4)?;
                Command::FlushTlb { root: body[1], first_va: body[2], last_va: body[3] }
            }
            op::WAIT | op::SIGNAL | op::STORE | op::WRITE_ENTRIES => {
                return Err(DecodeError::Operand { opcode, rule: "the word count is wrong" });
            }
            other => return Err(DecodeError::Opcode(other)),
        };
        Ok((command, length))
    }

    /// Whether the command may only stand in a privileged queue.
    pub fn is_privileged(&self) -> bool {
        matches!(
            self,
            Command::BranchPhysical { .. }
                | Command::Complete { .. }
                | Command::CopyPhysical { .. }
                | Command::CopyTiled { .. }
                | Command::FillPhysical { .. }
                | Command::TouchPhysical { .. }
                | Command::WriteEntries { .. }
                | Command::WriteEntryRun { .. }
                | Command::MapAperture { .. }
                | Command::FlushTlb { .. }
        )
    }
}

/// Appends where a log entry goes, if one is written.
fn put_log(log: &Option<LogSlot>, out: &mut Vec<u64>) {
    if let Some(slot) = log {
        out.extend([slot.entry_va, slot.header_va, u64::from(slot.handle)]);
    }
}
