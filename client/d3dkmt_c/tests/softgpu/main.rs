//! The header of the software GPU is written from the device's data sheet, and a C program that includes it says what the sheet says: each
//! number, each offset, each command's words, each maker's bytes. With `OPENWDDM_WRITE_HEADER` set the file is written anew instead of
//! compared (`cargo xtask headers`).

mod commands;
mod write;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use softgpu_spec::Command;
use softgpu_spec::command::FORMS;
use softgpu_spec::context_data::{self, DmaBuffers};
use softgpu_spec::layout::LAYOUTS;
use softgpu_spec::private_call::{self, Hardware, Question, Usage};
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use softgpu_spec::{pattern, queue_data};

fn headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

#[test]
fn the_header_is_what_the_data_sheet_says() {
    let (file, text) = (headers().join("openwddm/softgpu.h"), write::header());
    if std::env::var_os("OPENWDDM_WRITE_HEADER").is_some() {
        std::fs::write(file, text).expect("the header can be written");
        return;
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert!(found == text, "the header is not current: cargo xtask headers writes it anew");
}

/// The body of `main` in a program that includes the header, in both languages; the lines that each prints.
fn said_in_c(declarations: &str, body: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, program) = (folder.path().join("says.c"), folder.path().join("says"));
    let text = format!(
        "#include <openwddm/softgpu.h>\n#include <inttypes.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n{declarations}\
         int main(void) {{\n{body}    return 0;\n}}\n"
    );
    std::fs::write(&file, text).expect("a file");
    let mut said = Vec::new();
    for language in [&["-std=c11"][..], &["-x", "c++", "-std=c++17"]] {
        let mut compiler = Process::new("cc");
        compiler.args(language).args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-I"]).arg(headers());
        let output = compiler.arg(&file).arg("-o").arg(&program).output().expect("there is a C compiler");
        let errors = String::from_utf8_lossy(&output.stderr);
        // A C compiler without its C++ half is enough to link Rust programs.
        if language[0] == "-x" && errors.contains("cannot execute") {
            eprintln!("left out: there is no C++ compiler here");
            continue;
        }
        assert!(output.status.success(), "{errors}");
        let output = Process::new(&program).output().expect("the program runs");
        assert!(output.status.success(), "{}", output.status);
        said.push(String::from_utf8(output.stdout).expect("text"));
    }
    assert!(said.iter().all(|text| *text == said[0]), "C and C++ say different things");
    said[0].lines().map(str::to_owned).collect()
}

#[test]
fn numbers_sizes_and_offsets_are_those_of_the_data_sheet() {
    let (mut body, mut wanted) = (String::new(), Vec::new());
    let mut put = |expression: &str, value: u64| {
        writeln!(body, "    printf(\"{expression} %llu\\n\", (unsigned long long)({expression}));").expect("a string");
        wanted.push(format!("{expression} {value}"));
    };
    for (name, value, _) in write::numbers() {
        put(name, value);
    }
    for form in FORMS {
        let name = form.name.to_uppercase();
        if !name.ends_with("_LOGGED") {
            put(&format!("SOFTGPU_OP_{name}"), form.opcode.into());
        }
        put(&format!("SOFTGPU_{name}_WORDS"), form.words() as u64);
    }
    for layout in LAYOUTS {
        put(&format!("sizeof({})", layout.name), layout.bytes as u64);
        for member in layout.members {
            put(&format!("offsetof({}, {})", layout.name, member.name), member.at as u64);
        }
    }
    put("sizeof(SOFTGPU_QUESTION)", private_call::BYTES as u64);
    put("offsetof(SOFTGPU_QUESTION, answer)", 8);
    put("sizeof(SOFTGPU_DETAILED_ALLOCATION)", 80);
    assert_eq!(said_in_c("", &body), wanted);
}

#[test]
fn each_encoder_writes_the_command_s_words() {
    let each = commands::each();
    let named: BTreeSet<&str> = each.iter().map(|(name, _, _)| *name).collect();
    assert_eq!(named, FORMS.iter().map(|form| form.name).collect(), "a form is not tried");
    let (mut body, mut wanted) = (String::from("    uint64_t words[16], *end;\n"), Vec::new());
    for (name, operands, command) in &each {
        let comma = if operands.is_empty() { "" } else { ", " };
        writeln!(body, "    end = softgpu_{name}(words{comma}{operands});\n    say(\"{name}\", words, end);")
            .expect("a string");
        let mut words = Vec::new();
        command.encode(&mut words);
        assert_eq!(Command::decode(&words), Ok((*command, words.len())));
        wanted.push(words.iter().fold(name.to_string(), |said, word| format!("{said} {word:x}")));
    }
    let seed = pattern::seed(3, 4);
    for offset in [0, 8, 4088] {
        writeln!(body, "    words[0] = softgpu_pattern_word(UINT64_C({seed:#x}), {offset});").expect("a string");
        body.push_str("    say(\"content\", words, words + 1);\n");
        wanted.push(format!("content {:x}", pattern::word(seed, offset)));
    }
    let say = "static void say(const char* name, const uint64_t* word, const uint64_t* end) {\n    printf(\"%s\", name);\n    \
               for (; word < end; word++) printf(\" %\" PRIx64, *word);\n    printf(\"\\n\");\n}\n";
    assert_eq!(said_in_c(&format!("{}{say}", commands::given()), &body), wanted);
}

/// Prints the bytes of a variable.
const SAY_BYTES: &str = "static void say(const void* at, size_t bytes) {\n    const unsigned char* byte = (const unsigned char*)at;\n    \
     while (bytes--) printf(\"%02x\", *byte++);\n    printf(\"\\n\");\n}\n";

fn bytes(line: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).expect("two digits");
    (0..line.len()).step_by(2).map(byte).collect()
}

#[test]
fn the_driver_reads_what_the_makers_write() {
    let details = Details {
        flags: 1,
        flags2: 2,
        preferred_segment: 3,
        hinted_bank: 4,
        supported_segments: 5,
        eviction_segments: 6,
        priority: 7,
        tile_pitch: 8,
        pitch_aligned_size_bytes: 9 << 40,
        alignment_bytes: 10 << 40,
        row_bytes: 11,
        display_width: 12,
        display_height: 13,
    };
    let body = "    SOFTGPU_ALLOCATION allocation = softgpu_allocation(SOFTGPU_LOCAL_THEN_SYSTEM, SOFTGPU_CPU_VISIBLE | SOFTGPU_CACHED,
                                                       UINT64_C(0x1000000000));
    say(&allocation, sizeof allocation);
    SOFTGPU_DETAILED_ALLOCATION detailed = softgpu_detailed_allocation(SOFTGPU_LOCAL, SOFTGPU_ACCESSED_PHYSICALLY, 4096);
    say(&detailed, sizeof detailed);
    const SOFTGPU_ALLOCATION_DETAILS details = {1, 2, 3, 4, 5, 6, 7, 8, UINT64_C(9) << 40, UINT64_C(10) << 40, 11, 12, 13};
    detailed.details = details;
    say(&detailed, sizeof detailed);
    SOFTGPU_CONTEXT context = softgpu_context(SOFTGPU_DMA_LOCAL);
    say(&context, sizeof context);
    SOFTGPU_QUEUE queue = softgpu_queue();
    say(&queue, sizeof queue);
    SOFTGPU_QUESTION hardware = softgpu_question(SOFTGPU_ASK_HARDWARE), usage = softgpu_question(SOFTGPU_ASK_USAGE);
    say(&hardware, sizeof hardware);
    say(&usage, sizeof usage);
";
    let said: Vec<Vec<u8>> = said_in_c(SAY_BYTES, body).iter().map(|line| bytes(line)).collect();
    let request = AllocationRequest {
        kind: Kind::LocalThenSystem,
        cpu_visible: true,
        cached: true,
        accessed_physically: false,
        size_bytes: 1 << 36,
    };
    assert_eq!(AllocationRequest::decode(&said[0]), Ok(request));
    let request = AllocationRequest {
        kind: Kind::Local,
        cpu_visible: false,
        cached: false,
        accessed_physically: true,
        size_bytes: 4096,
    };
    assert_eq!(AllocationRequest::decode_with_details(&said[1]), Ok((request, Some(Details::default()))));
    assert_eq!(AllocationRequest::decode_with_details(&said[2]), Ok((request, Some(details))));
    assert_eq!(context_data::decode(&said[3]), Some(DmaBuffers::Local));
    assert_eq!(said[4], queue_data::question());
    let questions = [&said[5], &said[6]].map(|bytes| Question::decode(bytes).map(|(question, _)| question));
    assert_eq!(questions, [Ok(Question::Hardware), Ok(Question::Usage)]);
}

#[test]
fn a_program_reads_what_the_driver_answers() {
    let mut hardware_bytes = Question::Hardware.encode();
    let hardware = Hardware {
        id: 1 << 40,
        timestamp_ns: 2 << 40,
        local_bytes: 3 << 40,
        aperture_bytes: 4 << 40,
        signal_bits: 5,
        pasid_bits: 6,
        doorbells: 7,
        ranges: 8,
    };
    hardware.write(&mut hardware_bytes);
    let mut usage_bytes = Question::Usage.encode();
    Usage { queues: 9, queues_taken: 10, contexts: 11, connections: 12 << 40 }.write(&mut usage_bytes);
    let mut queue_bytes = queue_data::question();
    assert!(queue_data::answer(&mut queue_bytes, 13 << 40));
    let array = |name: &str, bytes: &[u8]| {
        let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
        format!("static const unsigned char {name}[] = {{{}}};\n", bytes.join(", "))
    };
    let declarations = [array("h", &hardware_bytes), array("u", &usage_bytes), array("q", &queue_bytes)].concat();
    let mut body = String::from("    SOFTGPU_QUESTION hardware, usage;\n    SOFTGPU_QUEUE queue;\n");
    body.push_str("    memcpy(&hardware, h, sizeof hardware);\n    memcpy(&usage, u, sizeof usage);\n    memcpy(&queue, q, sizeof queue);\n");
    let members = [
        "hardware.answer.hardware.id >> 40",
        "hardware.answer.hardware.timestamp >> 40",
        "hardware.answer.hardware.local_bytes >> 40",
        "hardware.answer.hardware.aperture_bytes >> 40",
        "hardware.answer.hardware.signal_bits",
        "hardware.answer.hardware.pasid_bits",
        "hardware.answer.hardware.doorbells",
        "hardware.answer.hardware.ranges",
        "usage.answer.usage.queues",
        "usage.answer.usage.queues_taken",
        "usage.answer.usage.contexts",
        "usage.answer.usage.connections >> 40",
        "queue.progress_monitored_va >> 40",
    ];
    for member in members {
        writeln!(body, "    printf(\"%d\\n\", (int)({member}));").expect("a string");
    }
    let wanted: Vec<String> = (1..=13).map(|value| value.to_string()).collect();
    assert_eq!(said_in_c(&declarations, &body), wanted);
}
