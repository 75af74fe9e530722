//! Commands: the 64-bit words of rings and nested buffers.
//!
//! The first word's low byte is the opcode, bits 8–31 the number of words of the whole command, bits 32–63 flags or a
//! short operand. Addresses named `va` are virtual in the queue's space; those named `bus` are bus addresses and make the
//! command privileged.

mod encoding;
mod fences;
mod form;
#[cfg(test)]
mod tests;

pub use encoding::{ENTRIES_GIVEN_MAX, WORDS_MAX};
pub use fences::FenceCommand;
pub use form::{FORMS, Form, Operand, Width, Word, touch_flags};

use crate::tile::Tiling;

/// One command, decoded. Inline data (page-table entries) stays a slice of the words it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Does nothing.
    Nop,
    /// Goes on when the 64-bit word at `va` is `value` or greater. With a log slot the unblocking is logged, and a full barrier put.
    Wait {
        /// Address of a CurrentValue.
        va: u64,
        /// The value to be reached.
        value: u64,
        /// Where to log.
        log: Option<LogSlot>,
    },
    /// Stores `value` at `current_va`, writes the log entry, puts a full barrier, reads `monitored_va`, and raises a fence
    /// interrupt if `value` is greater.
    Signal {
        /// Address of a CurrentValue.
        current_va: u64,
        /// Address of its MonitoredValue.
        monitored_va: u64,
        /// The value.
        value: u64,
        /// Where to log.
        log: Option<LogSlot>,
    },
    /// Stores `value` at `va`, as many bits as [`crate::register::SIGNAL_BITS`] says in one piece and the lowest, and always
    /// raises an interrupt.
    SignalAlways {
        /// Address, a multiple of 8.
        va: u64,
        /// The value.
        value: u64,
    },
    /// Writes an entry of a log for which there is no wait and no signal, with the time, and puts a full barrier.
    Log {
        /// The entry.
        slot: LogSlot,
        /// The operation of the entry.
        operation: u32,
        /// And the value that belongs to it.
        value: u64,
    },
    /// Executes `words` 64-bit words at `va`, then goes on behind this command. Nested buffers do not nest.
    Branch {
        /// Address of the nested buffer.
        va: u64,
        /// Its length in 64-bit words.
        words: u32,
    },
    /// Privileged: as Branch, with a bus address: the buffer is fetched past every page table.
    BranchPhysical {
        /// Bus address of the nested buffer.
        bus: u64,
        /// Its length in 64-bit words.
        words: u32,
    },
    /// Raises a completion record with `value`: everything before it in the queue is done. Privileged, except directly in a ring that
    /// lies at a bus address: commands that processes write are always nested there.
    Complete {
        /// The value.
        value: u64,
    },
    /// Stores the device's timestamp at `va`.
    Timestamp {
        /// Address of a 64-bit word.
        va: u64,
    },
    /// Copies by virtual address.
    Copy {
        /// Read from here on.
        source_va: u64,
        /// Stored from here on.
        target_va: u64,
        /// How much; a multiple of 8.
        bytes: u64,
    },
    /// Fills with a 32-bit pattern.
    Fill {
        /// From here on.
        va: u64,
        /// How much; a multiple of 8.
        bytes: u64,
        /// The pattern.
        pattern: u32,
    },
    /// Stores the 64-bit words that follow, from `va` on.
    Store {
        /// From here on.
        va: u64,
        /// The words.
        words: &'a [u64],
    },
    /// Stores `count` words from `va` on: `first`, then `first + step`, and so on. Real whether content is stored or not: a driver that
    /// reaches page tables through addresses writes them so.
    StoreRun {
        /// From here on.
        va: u64,
        /// How many; at most [`crate::page_table::ENTRIES_MAX`].
        count: u32,
        /// The first word.
        first: u64,
        /// Added for each next word.
        step: u64,
    },
    /// Stores `count` words from `target_va` on: those from `source_va` on. Real whether content is stored or not: page-table entries are
    /// copied so. The result is undefined where the ranges overlap.
    CopyRun {
        /// Read from here on.
        source_va: u64,
        /// Stored from here on.
        target_va: u64,
        /// How many; at most [`crate::page_table::ENTRIES_MAX`].
        count: u32,
    },
    /// Kernel `touch`: reads every byte of the range, or reads and writes it back changed.
    Touch {
        /// From here on.
        va: u64,
        /// How much; a multiple of 8.
        bytes: u64,
        /// Whether it writes.
        write: bool,
        /// Part of a piece of work whose time a [`Command::Work`] tells: in virtual time it takes none.
        within: bool,
    },
    /// Work of a known length: in virtual time it takes exactly `ns`, decoding included. A queue that is suspended in the middle begins it
    /// anew. From the 65,536th command in a row on that takes nothing, each takes as long as a Nop. The memory that the work uses is named
    /// by the Touch commands that are `within` it. Without virtual time it does nothing: kernels take what they take.
    Work {
        /// How long it takes, in nanoseconds.
        ns: u64,
    },
    /// Kernel `pattern`: writes the content of `seed` ([`crate::pattern`]).
    Pattern {
        /// From here on.
        va: u64,
        /// How much; a multiple of 8.
        bytes: u64,
        /// The seed of the content.
        seed: u64,
    },
    /// Kernel `check`: compares with the content of `seed`; the first mismatch is written to the report.
    Check {
        /// From here on.
        va: u64,
        /// How much; a multiple of 8.
        bytes: u64,
        /// The seed of the content.
        seed: u64,
        /// Where to report ([`crate::pattern::report`]).
        report_va: u64,
        /// Names the check in the report.
        tag: u64,
    },
    /// Kernel `checksum`: stores the wrapping sum of all 64-bit words at `result_va`.
    Checksum {
        /// From here on.
        va: u64,
        /// How much; a multiple of 8.
        bytes: u64,
        /// Where the sum goes.
        result_va: u64,
    },
    /// Kernel `saxpy` on 32-bit floats: y := a·x + y.
    Saxpy {
        /// Address of x.
        x_va: u64,
        /// Address of y.
        y_va: u64,
        /// How many elements; even.
        elements: u64,
        /// a, as the bits of a 32-bit float.
        a_bits: u32,
    },
    /// Privileged: copies by bus address.
    CopyPhysical {
        /// Read from here on.
        source_bus: u64,
        /// Stored from here on.
        target_bus: u64,
        /// How much; a multiple of 8.
        bytes: u64,
    },
    /// Privileged: copies part of a surface between a linear and a tiled form, by bus address ([`crate::tile`]).
    CopyTiled {
        /// The part in linear order.
        linear_bus: u64,
        /// First byte of the whole surface in tiled order.
        surface_bus: u64,
        /// Where in the linear surface the part begins; a multiple of 8.
        offset: u64,
        /// How much; a multiple of 8.
        bytes: u64,
        /// How the surface is tiled.
        tiling: Tiling,
        /// From linear to tiled; else from tiled to linear.
        swizzle: bool,
    },
    /// Privileged: fills by bus address.
    FillPhysical {
        /// From here on.
        target_bus: u64,
        /// How much; a multiple of 8.
        bytes: u64,
        /// The pattern.
        pattern: u32,
    },
    /// Privileged: reads the 64-bit word at a bus address and throws it away; with `write` it writes back what it read.
    /// Whatever the bus still holds for that address is carried out before.
    TouchPhysical {
        /// Bus address of the word.
        bus: u64,
        /// Whether it writes.
        write: bool,
    },
    /// Privileged: writes page-table entries `first…` of the table at bus address `table`, each given.
    WriteEntries {
        /// Bus address of the table.
        table: u64,
        /// First index.
        first: u32,
        /// The entries.
        entries: &'a [u64],
    },
    /// Privileged: writes `count` entries: `entry`, then `entry + step`, and so on.
    WriteEntryRun {
        /// Bus address of the table.
        table: u64,
        /// First index.
        first: u32,
        /// How many.
        count: u32,
        /// The first entry.
        entry: u64,
        /// Added for each next entry: 4096 for consecutive pages, 0 to repeat.
        step: u64,
    },
    /// Privileged: redirects `count` aperture pages from `first` to consecutive system pages from `system_address`; with
    /// `step` 0 all of them to the same page.
    MapAperture {
        /// First aperture page.
        first: u64,
        /// How many.
        count: u64,
        /// System physical address of the first page, and [`crate::bus::aperture_entry::COHERENT`] if the pages are to be snooped.
        system_address: u64,
        /// 4096, or 0.
        step: u64,
    },
    /// Privileged: forgets translations (as the CMP command).
    FlushTlb {
        /// Root offset, or all ones for every space.
        root: u64,
        /// First address.
        first_va: u64,
        /// Last address; 0 with `first_va` 0 is the whole space.
        last_va: u64,
    },
}

/// Where a signal or wait logs itself: the driver chooses the entry, the engine writes payload and time, and then advances the header
/// ([`shared_words::log`]): by one entry, behind the last of those that the header says there are to the first and one wrap more. The
/// user-mode driver gives out entries in this order.
///
/// The time is that of a reading of the device's clock. Up to eight consecutive entries of signals of one queue share a reading, unless one
/// of the signals has told a waiter: then the entry behind it has a new one. The signals were announced before the reading, and it may lie
/// before their stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSlot {
    /// Address of the entry (48 bytes).
    pub entry_va: u64,
    /// Address of the log's header.
    pub header_va: u64,
    /// Payload: the fence's handle in the queue's process.
    pub handle: u32,
}

impl LogSlot {
    /// Words of it in a command.
    pub const WORDS: usize = 3;
}

/// Why words are no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer words left than the command says.
    #[error("the command needs {needed} words, {left} are left")]
    Cut {
        /// Words the command says it has.
        needed: usize,
        /// Words there are.
        left: usize,
    },
    /// No such opcode.
    #[error("opcode {0:#x} does not exist")]
    Opcode(u8),
    /// An operand breaks its rule.
    #[error("opcode {opcode:#x}: {rule}")]
    Operand {
        /// The opcode.
        opcode: u8,
        /// The rule.
        rule: &'static str,
    },
}
