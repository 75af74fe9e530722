//! The commands' forms as data: which operand stands in which word. [`Command::encode`](super::Command::encode) is the law, and the tests
//! compare both; the C header `openwddm/softgpu.h` is written from this table.

use super::encoding::{op, touch};

/// One way to write a command. A command with an optional part has two forms.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The form's name: the command's in small letters.
    pub name: &'static str,
    /// The low byte of the first word.
    pub opcode: u8,
    /// Only a privileged queue may hold the command.
    pub privileged: bool,
    /// The operands in the order in which programs give them.
    pub operands: &'static [Operand],
    /// Bits 32–63 of the first word: the operand of this name; empty: 0.
    pub head: &'static str,
    /// The words behind the first.
    pub words: &'static [Word],
    /// The words of any number that end the command: the operand of this name; empty: none.
    pub tail: &'static str,
    /// The command's effect in a sentence or two.
    pub says: &'static str,
}

/// One operand.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Its name.
    pub name: &'static str,
    /// Its width.
    pub width: Width,
}

/// The width of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    Short,
    /// 64 bits.
    Long,
    /// As many 64-bit words as the program likes.
    Words,
}

/// One word behind the first.
#[derive(Clone, Copy, Debug)]
pub enum Word {
    /// The operand of this name.
    Of(&'static str),
    /// Two operands of 32 bits, the lower half first.
    Halves(&'static str, &'static str),
    /// The number of words in the tail.
    Count,
}

impl Form {
    /// Words of the command without its tail.
    pub const fn words(&self) -> usize {
        1 + self.words.len()
    }
}

/// Bits of the touch command's `flags`.
pub mod touch_flags {
    /// The command writes back changed what it read.
    pub const WRITE: u32 = super::touch::WRITE;
    /// The touch belongs to the work of a work command, and takes no time of its own.
    pub const WITHIN: u32 = super::touch::WITHIN;
}

const fn short(name: &'static str) -> Operand {
    Operand { name, width: Width::Short }
}

const fn long(name: &'static str) -> Operand {
    Operand { name, width: Width::Long }
}

const fn tail(name: &'static str) -> Operand {
    Operand { name, width: Width::Words }
}

/// A form that any queue may hold, with only words behind the first.
const fn plain(
    name: &'static str,
    opcode: u8,
    operands: &'static [Operand],
    words: &'static [Word],
    says: &'static str,
) -> Form {
    Form { name, opcode, privileged: false, operands, head: "", words, tail: "", says }
}

impl Form {
    const fn head(self, head: &'static str) -> Form {
        Form { head, ..self }
    }

    const fn tail(self, tail: &'static str) -> Form {
        Form { tail, ..self }
    }

    const fn privileged(self) -> Form {
        Form { privileged: true, ..self }
    }
}

use Word::{Count, Halves, Of};

/// Every form, by opcode.
#[rustfmt::skip]
pub const FORMS: &[Form] = &[
    plain("nop", op::NOP, &[], &[], "Does nothing."),
    plain("wait", op::WAIT, &[long("va"), long("value")], &[Of("va"), Of("value")],
        "Holds the queue until the 64-bit word at va, a fence's CurrentValue, is value or greater."),
    plain("wait_logged", op::WAIT,
        &[long("va"), long("value"), long("entry_va"), long("header_va"), short("handle")],
        &[Of("va"), Of("value"), Of("entry_va"), Of("header_va"), Of("handle")],
        "As wait; the engine then writes the log entry at entry_va (48 bytes) and advances the log's header at header_va."),
    plain("signal", op::SIGNAL, &[long("current_va"), long("monitored_va"), long("value")],
        &[Of("current_va"), Of("monitored_va"), Of("value")],
        "Stores value at current_va and interrupts if it is greater than the word at monitored_va. A value never exceeds itself: with \
         current_va for monitored_va no interrupt comes, and a waiter on the CPU sleeps for ever."),
    plain("signal_logged", op::SIGNAL,
        &[long("current_va"), long("monitored_va"), long("value"), long("entry_va"), long("header_va"), short("handle")],
        &[Of("current_va"), Of("monitored_va"), Of("value"), Of("entry_va"), Of("header_va"), Of("handle")],
        "As signal; the engine also writes the log entry at entry_va (48 bytes) and advances the log's header at header_va."),
    plain("branch", op::BRANCH, &[long("va"), short("words")], &[Of("va")],
        "Executes so many 64-bit words at va, then goes on behind this command. A buffer that a branch executes has no branch.").head("words"),
    plain("timestamp", op::TIMESTAMP, &[long("va")], &[Of("va")], "Stores the device's time in nanoseconds at va."),
    plain("signal_always", op::SIGNAL_ALWAYS, &[long("va"), long("value")], &[Of("va"), Of("value")],
        "Stores value at va, a multiple of 8, and always interrupts. A device of 32-bit atomics stores the low half."),
    plain("log", op::LOG,
        &[long("value"), long("entry_va"), long("header_va"), short("handle"), short("operation")],
        &[Of("value"), Of("entry_va"), Of("header_va"), Of("handle")],
        "Writes an entry of a fence log for which there is no wait and no signal, with the device's time.").head("operation"),
    plain("copy", op::COPY, &[long("source_va"), long("target_va"), long("bytes")],
        &[Of("source_va"), Of("target_va"), Of("bytes")], "Copies bytes, a multiple of 8."),
    plain("fill", op::FILL, &[long("va"), long("bytes"), short("pattern")], &[Of("va"), Of("bytes")],
        "Fills bytes, a multiple of 8, with a 32-bit pattern.").head("pattern"),
    plain("store", op::STORE, &[long("va"), tail("words")], &[Of("va")],
        "Stores the words, one at least, from va on.").tail("words"),
    plain("store_run", op::STORE_RUN, &[long("va"), short("count"), long("first"), long("step")],
        &[Of("va"), Of("first"), Of("step")],
        "Stores count words from va on: first, first + step, and so on. At most SOFTGPU_TABLE_ENTRIES_MAX.").head("count"),
    plain("copy_run", op::COPY_RUN, &[long("source_va"), long("target_va"), short("count")],
        &[Of("source_va"), Of("target_va")],
        "Copies count 64-bit words, at most SOFTGPU_TABLE_ENTRIES_MAX; the ranges must not overlap.").head("count"),
    plain("touch", op::TOUCH, &[long("va"), long("bytes"), short("flags")], &[Of("va"), Of("bytes")],
        "Reads bytes, a multiple of 8; flags are bits of SOFTGPU_TOUCH_WRITE and SOFTGPU_TOUCH_WITHIN.").head("flags"),
    plain("pattern", op::PATTERN, &[long("va"), long("bytes"), long("seed")], &[Of("va"), Of("bytes"), Of("seed")],
        "Writes bytes, a multiple of 8, of the content of seed: softgpu_pattern_word says each word."),
    plain("check", op::CHECK,
        &[long("va"), long("bytes"), long("seed"), long("report_va"), long("tag")],
        &[Of("va"), Of("bytes"), Of("seed"), Of("report_va"), Of("tag")],
        "Compares bytes, a multiple of 8, with the content of seed. The first difference is written as a SOFTGPU_REPORT at report_va, \
         unless one is there."),
    plain("checksum", op::CHECKSUM, &[long("va"), long("bytes"), long("result_va")],
        &[Of("va"), Of("bytes"), Of("result_va")],
        "Stores the sum of the 64-bit words of bytes, a multiple of 8, at result_va; the sum wraps."),
    plain("saxpy", op::SAXPY, &[long("x_va"), long("y_va"), long("elements"), short("a_bits")],
        &[Of("x_va"), Of("y_va"), Of("elements")],
        "y = a * x + y over 32-bit floats; elements is even, a_bits are the bits of the float a.").head("a_bits"),
    plain("work", op::WORK, &[long("ns")], &[Of("ns")],
        "Keeps the engine busy for so many nanoseconds of virtual time; in real time it does nothing."),
    plain("copy_physical", op::COPY_PHYSICAL, &[long("source_bus"), long("target_bus"), long("bytes")],
        &[Of("source_bus"), Of("target_bus"), Of("bytes")], "Copies bytes, a multiple of 8, by bus address.").privileged(),
    plain("fill_physical", op::FILL_PHYSICAL, &[long("target_bus"), long("bytes"), short("pattern")],
        &[Of("target_bus"), Of("bytes")],
        "Fills bytes, a multiple of 8, with a 32-bit pattern by bus address.").head("pattern").privileged(),
    plain("write_entries", op::WRITE_ENTRIES, &[long("table"), short("first"), tail("entries")],
        &[Of("table"), Count], "Writes page-table entries from the index first on.").head("first").tail("entries").privileged(),
    plain("write_entry_run", op::WRITE_ENTRY_RUN,
        &[long("table"), short("first"), short("count"), long("entry"), long("step")],
        &[Of("table"), Of("count"), Of("entry"), Of("step")],
        "Writes count page-table entries from the index first on: entry, entry + step, and so on.").head("first").privileged(),
    plain("map_aperture", op::MAP_APERTURE,
        &[long("first"), long("count"), long("system_address"), long("step")],
        &[Of("first"), Of("count"), Of("system_address"), Of("step")],
        "Redirects aperture pages to system pages; step is 4096, or 0 for one page behind all.").privileged(),
    plain("flush_tlb", op::FLUSH_TLB, &[long("root"), long("first_va"), long("last_va")],
        &[Of("root"), Of("first_va"), Of("last_va")],
        "Forgets translations of a range; root is all ones for every address space, two zeros are the whole space.").privileged(),
    plain("touch_physical", op::TOUCH_PHYSICAL, &[long("bus"), short("write")], &[Of("bus")],
        "Reads the 64-bit word at a bus address, and with write writes it back.").head("write").privileged(),
    plain("copy_tiled", op::COPY_TILED,
        &[long("linear_bus"), long("surface_bus"), long("offset"), long("bytes"), short("pitch"), short("swizzle")],
        &[Of("linear_bus"), Of("surface_bus"), Of("offset"), Of("bytes"), Halves("pitch", "swizzle")],
        "Copies part of a surface with rows of pitch bytes, with swizzle 1 from linear to tiled order, with 0 back.").privileged(),
    plain("branch_physical", op::BRANCH_PHYSICAL, &[long("bus"), short("words")], &[Of("bus")],
        "As branch, with a bus address.").head("words").privileged(),
    plain("complete", op::COMPLETE, &[long("value")], &[Of("value")],
        "Raises a completion record with value.").privileged(),
];
