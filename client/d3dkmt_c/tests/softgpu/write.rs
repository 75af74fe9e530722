//! Writes the header of the software GPU: its numbers, its layouts, its commands.

use std::fmt::Write as _;

use softgpu_spec::command::{ENTRIES_GIVEN_MAX, FORMS, Form, WORDS_MAX, Width, Word, touch_flags};
use softgpu_spec::context_data::{self, DmaBuffers};
use softgpu_spec::layout::{LAYOUTS, Layout};
use softgpu_spec::private_call::{self, Question};
use softgpu_spec::private_data::{self, Kind, VERSION_DETAILED};
use softgpu_spec::{QUEUE_COUNT, display, doorbell, engine, page_table, queue_data, register, submission_data, tile};

/// Most columns of a line of prose.
const COLUMNS: usize = 120;

const HEAD: &str = "\
/* The software GPU of openwddm for user-mode drivers: the private data of its allocations, contexts, hardware queues and private calls, and
 * its commands as 64-bit words. Written from the device's data sheet (contract/softgpu_spec); do not edit. C11 or C++17, little-endian.
 *
 * A command's first word has the opcode in bits 0-7, the number of the command's words in bits 8-31, and an operand in bits 32-63. An
 * encoder writes a command at `at` and returns the place behind it. Operands named `va` are GPU virtual addresses, those named `bus`
 * are bus addresses and make a command privileged: D3DKMTRender takes copy_physical, copy_tiled and fill_physical, whose addresses the kernel
 * writes, and refuses the other privileged commands; they are the kernel-mode driver's.
 */
#ifndef OPENWDDM_SOFTGPU_H
#define OPENWDDM_SOFTGPU_H

#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif
";

/// The makers of the layouts, and the content that the pattern command writes.
const MAKERS: &str = "\
/* The request for an allocation of `size` bytes. */
static inline SOFTGPU_ALLOCATION softgpu_allocation(uint8_t kind, uint32_t flags, uint64_t size) {
    SOFTGPU_ALLOCATION data = {SOFTGPU_ALLOCATION_MAGIC, SOFTGPU_ALLOCATION_VERSION, kind, 0, flags, 0, size};
    return data;
}

/* The same with the details of a description; their members are 0, for the program to fill in. */
static inline SOFTGPU_DETAILED_ALLOCATION softgpu_detailed_allocation(uint8_t kind, uint32_t flags, uint64_t size) {
    SOFTGPU_DETAILED_ALLOCATION data = {
        {SOFTGPU_ALLOCATION_MAGIC, SOFTGPU_ALLOCATION_VERSION_DETAILED, kind, 0, flags, 0, size},
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
    return data;
}

/* The wish of a packet context for its DMA buffers. */
static inline SOFTGPU_CONTEXT softgpu_context(uint8_t dma_buffers) {
    SOFTGPU_CONTEXT data = {SOFTGPU_CONTEXT_MAGIC, SOFTGPU_CONTEXT_VERSION, dma_buffers, 0};
    return data;
}

/* The question for a hardware queue's MonitoredValue. */
static inline SOFTGPU_QUEUE softgpu_queue(void) {
    SOFTGPU_QUEUE data = {SOFTGPU_QUEUE_MAGIC, SOFTGPU_QUEUE_VERSION, 0, 0};
    return data;
}

/* A question for D3DKMTEscape (Type D3DKMT_ESCAPE_DRIVERPRIVATE): SOFTGPU_ASK_HARDWARE or SOFTGPU_ASK_USAGE. */
static inline SOFTGPU_QUESTION softgpu_question(uint16_t question) {
    SOFTGPU_QUESTION data = {SOFTGPU_QUESTION_MAGIC, SOFTGPU_QUESTION_VERSION, question, {{0, 0, 0, 0, 0, 0, 0, 0, 0}}};
    return data;
}

/* The word that the pattern command writes at byte `offset`, a multiple of 8, of its range. */
static inline uint64_t softgpu_pattern_word(uint64_t seed, uint64_t offset) {
    return ((seed ^ offset) * UINT64_C(0x9e3779b97f4a7c15)) ^ (seed >> 32);
}

/* The first word of a command. */
static inline uint64_t softgpu_head(uint8_t opcode, uint64_t words, uint32_t operand) {
    return (uint64_t)opcode | words << 8 | (uint64_t)operand << 32;
}
";

/// What joins layouts of the table.
const JOINED: &str = "
/* pPrivateDriverData of an allocation with details: softgpu_detailed_allocation fills it in. */
typedef struct {
    SOFTGPU_ALLOCATION allocation; /* in, out: version is SOFTGPU_ALLOCATION_VERSION_DETAILED */
    SOFTGPU_ALLOCATION_DETAILS details; /* in: what the description has beyond the usual */
} SOFTGPU_DETAILED_ALLOCATION;

/* pPrivateDriverData of D3DKMTEscape: softgpu_question fills it in. */
typedef struct {
    uint32_t magic; /* in: SOFTGPU_QUESTION_MAGIC */
    uint16_t version; /* in: SOFTGPU_QUESTION_VERSION */
    uint16_t question; /* in: SOFTGPU_ASK_HARDWARE or SOFTGPU_ASK_USAGE */
    union {
        SOFTGPU_HARDWARE hardware; /* in: 0; out: the answer to SOFTGPU_ASK_HARDWARE */
        SOFTGPU_USAGE usage; /* in: 0; out: the answer to SOFTGPU_ASK_USAGE */
    } answer;
} SOFTGPU_QUESTION;

";

/// The numbers: name, value, meaning.
pub fn numbers() -> Vec<(&'static str, u64, &'static str)> {
    vec![
        ("SOFTGPU_ID", register::ID_VALUE, "the name of this kind of device"),
        ("SOFTGPU_NODE_COMPUTE", engine::COMPUTE.into(), "NodeOrdinal of the compute engine"),
        ("SOFTGPU_NODE_COPY", engine::COPY.into(), "NodeOrdinal of the copy engine"),
        ("SOFTGPU_NODES", engine::COUNT.into(), "engines of the device"),
        ("SOFTGPU_QUEUES", QUEUE_COUNT.into(), "hardware queues of the device"),
        ("SOFTGPU_LOCAL", Kind::Local.number().into(), "kind: video memory and nothing else"),
        ("SOFTGPU_SYSTEM", Kind::System.number().into(), "kind: system memory"),
        ("SOFTGPU_LOCAL_THEN_SYSTEM", Kind::LocalThenSystem.number().into(), "kind: video memory, else system memory"),
        ("SOFTGPU_CPU_VISIBLE", private_data::CPU_VISIBLE.into(), "flag: the CPU may lock the allocation"),
        ("SOFTGPU_CACHED", private_data::CACHED.into(), "flag: the CPU's caches hold its system pages"),
        (
            "SOFTGPU_ACCESSED_PHYSICALLY",
            private_data::ACCESSED_PHYSICALLY.into(),
            "flag: commands name it by bus address",
        ),
        ("SOFTGPU_ALLOCATION_MAGIC", private_data::MAGIC.into(), "\"SGAL\""),
        ("SOFTGPU_ALLOCATION_VERSION", private_data::VERSION.into(), "an allocation without details"),
        ("SOFTGPU_ALLOCATION_VERSION_DETAILED", VERSION_DETAILED.into(), "an allocation with details"),
        ("SOFTGPU_ALLOCATION_SIZE_MAX", private_data::SIZE_BYTES_MAX, "most bytes of an allocation"),
        ("SOFTGPU_DMA_CONTIGUOUS", DmaBuffers::Contiguous.number().into(), "DMA buffers in contiguous system memory"),
        ("SOFTGPU_DMA_APERTURE", DmaBuffers::Aperture.number().into(), "DMA buffers behind the aperture"),
        (
            "SOFTGPU_DMA_LOCAL",
            DmaBuffers::Local.number().into(),
            "DMA buffers in video memory; the kernel refuses them",
        ),
        ("SOFTGPU_CONTEXT_MAGIC", context_data::MAGIC.into(), "\"SGCX\""),
        ("SOFTGPU_CONTEXT_VERSION", context_data::VERSION.into(), "the version of SOFTGPU_CONTEXT"),
        ("SOFTGPU_QUEUE_MAGIC", queue_data::MAGIC.into(), "\"SGQU\""),
        ("SOFTGPU_QUEUE_VERSION", queue_data::VERSION.into(), "the version of SOFTGPU_QUEUE"),
        ("SOFTGPU_QUESTION_MAGIC", private_call::MAGIC.into(), "\"SGES\""),
        ("SOFTGPU_QUESTION_VERSION", private_call::VERSION.into(), "the version of SOFTGPU_QUESTION"),
        (
            "SOFTGPU_ASK_HARDWARE",
            Question::Hardware.number().into(),
            "question: SOFTGPU_HARDWARE; needs Flags.HardwareAccess",
        ),
        ("SOFTGPU_ASK_USAGE", Question::Usage.number().into(), "question: SOFTGPU_USAGE"),
        (
            "SOFTGPU_SUBMISSION_DATA_MAX",
            submission_data::BYTES_MAX.into(),
            "most bytes of private data with a command buffer at a GPU address; the driver takes them and they mean nothing",
        ),
        (
            "SOFTGPU_PATCHED_DATA_MAX",
            submission_data::PATCHED_BYTES_MAX.into(),
            "most bytes of private data with a command buffer of D3DKMTRender",
        ),
        (
            "SOFTGPU_DOORBELL_BYTES",
            doorbell::BYTES,
            "bytes at DoorbellCPUVirtualAddress: first the write pointer in bytes",
        ),
        (
            "SOFTGPU_DOORBELL_ASLEEP",
            shared_words::doorbell::ASLEEP_OFFSET,
            "byte offset in the doorbell of the word that is not 0 while the engine sleeps",
        ),
        ("SOFTGPU_COMMAND_WORDS_MAX", WORDS_MAX as u64, "most words of a command"),
        ("SOFTGPU_ENTRIES_GIVEN_MAX", ENTRIES_GIVEN_MAX.into(), "most entries of write_entries"),
        (
            "SOFTGPU_TABLE_ENTRIES_MAX",
            page_table::ENTRIES_MAX.into(),
            "most entries of a page table, and most words of a run",
        ),
        ("SOFTGPU_TOUCH_WRITE", touch_flags::WRITE.into(), "flag: the touch writes back changed what it read"),
        (
            "SOFTGPU_TOUCH_WITHIN",
            touch_flags::WITHIN.into(),
            "flag: the touch is part of a work command, and takes no time",
        ),
        ("SOFTGPU_TILE_ROW_BYTES", tile::ROW_BYTES, "bytes of a tile's row; a tiled surface's pitch is a multiple"),
        ("SOFTGPU_TILE_ROWS", tile::ROWS, "rows of a tile; a tiled surface has a multiple of them"),
        ("SOFTGPU_TILE_PITCH_MAX", tile::PITCH_MAX, "most bytes of a tiled surface's row"),
        (
            "SOFTGPU_DISPLAY_PITCH_ALIGNMENT",
            display::PITCH_ALIGNMENT_BYTES,
            "a primary's rows begin at multiples of so many bytes",
        ),
        (
            "SOFTGPU_DISPLAY_TEXEL_BYTES",
            display::TEXEL_BYTES,
            "bytes of a texel: blue, green, red, and one that is not shown",
        ),
    ]
}

/// The whole text.
pub fn header() -> String {
    let mut text = String::from(HEAD);
    text.push('\n');
    for (name, value, says) in numbers() {
        let value = if value > u64::from(u32::MAX >> 1) { format!("UINT64_C({value:#x})") } else { value.to_string() };
        line(&mut text, format_args!("#define {name} {value} /* {says} */"));
    }
    text.push('\n');
    for form in FORMS {
        let name = form.name.to_uppercase();
        let logged = form.name.ends_with("_logged");
        if !logged {
            line(&mut text, format_args!("#define SOFTGPU_OP_{name} {:#04x}", form.opcode));
        }
        let more = if form.tail.is_empty() { "" } else { " /* and the words given */" };
        line(&mut text, format_args!("#define SOFTGPU_{name}_WORDS {}{more}", form.words()));
    }
    for layout in LAYOUTS {
        structure(&mut text, layout);
    }
    text.push_str(JOINED);
    text.push_str(MAKERS);
    for form in FORMS {
        encoder(&mut text, form);
    }
    text.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    text
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a string takes everything");
}

/// A comment in front of a declaration.
fn prose(text: &mut String, says: &str) {
    let mut row = String::from("/*");
    for word in says.split_whitespace() {
        if row.len() + word.len() + 4 > COLUMNS {
            line(text, format_args!("{row}"));
            row = String::from(" *");
        }
        row.push(' ');
        row.push_str(word);
    }
    line(text, format_args!("{row} */"));
}

fn structure(text: &mut String, layout: &Layout) {
    text.push('\n');
    prose(text, layout.says);
    text.push_str("typedef struct {\n");
    for member in layout.members {
        line(text, format_args!("    uint{}_t {}; /* {} */", member.bits, member.name, member.says));
    }
    line(text, format_args!("}} {};", layout.name));
}

fn encoder(text: &mut String, form: &Form) {
    let name = form.name;
    text.push('\n');
    let privileged = if form.privileged { " Privileged." } else { "" };
    prose(text, &format!("{}{privileged}", form.says));
    let mut parameters = String::from("uint64_t* at");
    for operand in form.operands {
        let of = operand.name;
        match operand.width {
            Width::Short => write!(parameters, ", uint32_t {of}"),
            Width::Long => write!(parameters, ", uint64_t {of}"),
            Width::Words => write!(parameters, ", const uint64_t* {of}, uint32_t {of}_count"),
        }
        .expect("a string");
    }
    line(text, format_args!("static inline uint64_t* softgpu_{name}({parameters}) {{"));
    let (fixed, tail) = (form.words(), form.tail);
    let length = if tail.is_empty() { fixed.to_string() } else { format!("{fixed} + (uint64_t){tail}_count") };
    let head = if form.head.is_empty() { "0" } else { form.head };
    line(text, format_args!("    at[0] = softgpu_head({:#04x}, {length}, {head});", form.opcode));
    for (at, word) in (1..).zip(form.words) {
        match word {
            Word::Of(of) => line(text, format_args!("    at[{at}] = {of};")),
            Word::Halves(low, high) => line(text, format_args!("    at[{at}] = {low} | (uint64_t){high} << 32;")),
            Word::Count => line(text, format_args!("    at[{at}] = {tail}_count;")),
        }
    }
    if tail.is_empty() {
        line(text, format_args!("    return at + {fixed};\n}}"));
    } else {
        line(text, format_args!("    for (uint32_t next = 0; next < {tail}_count; next++) {{"));
        line(text, format_args!("        at[{fixed} + (uint64_t)next] = {tail}[next];\n    }}"));
        line(text, format_args!("    return at + {fixed} + {tail}_count;\n}}"));
    }
}
