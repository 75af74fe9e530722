//! A refused call leaves every member of its structure as it was. This test writes one C program from the list of functions and the
//! declarations of their structures: the program calls each function that writes with wrong arguments of several kinds, and compares each
//! member. [`TOLD`] lists the members that a refusal does write.

use std::fmt::Write as _;

use d3dkmt_c::abi::{ITEMS, Item, Shape};
use d3dkmt_c::{FUNCTIONS, FunctionState};

use crate::programs::{build_source, run, said};

/// Members that a refusal writes, with what it writes there for these failures.
// spec: memory §10.1 row 12
const TOLD: [(&str, &str, u32); 2] =
    [("D3DKMTMakeResident", "NumAllocations", 0), ("D3DKMTMakeResident", "NumBytesToTrim", 0)];

/// Calls that would sleep for ever if their arguments were right by chance.
const SLEEPS: [&str; 2] = ["D3DKMTAcquireKeyedMutex", "D3DKMTAcquireKeyedMutex2"];

/// The bytes of a structure, and whether its handles name existing objects.
const FAILURES: [(&str, u8, bool); 6] = [
    ("zeros", 0, false),
    ("ones", 0xff, false),
    ("garbage", 0xa5, false),
    ("zeros behind good handles", 0, true),
    ("ones behind good handles", 0xff, true),
    ("garbage behind good handles", 0xa5, true),
];

/// Handles that a program has, by the names of members.
const HANDLES: [(&str, &str); 7] = [
    ("hAdapter", "adapter"),
    ("hDevice", "device.hDevice"),
    ("hPagingQueue", "paging.hPagingQueue"),
    ("hContext", "context.hContext"),
    ("hHwContext", "hardware.hHwContext"),
    ("hHwQueue", "queue.hHwQueue"),
    ("hKeyedMutex", "mutex.hKeyedMutex"),
];

const HEAD: &str = r#"
#include "steps.h"
static int failures, refused;
static union { char bytes[65536]; long long align; } room, before;

static void member(const char* function, const char* failure, const char* name, size_t at, size_t size) {
    if (memcmp(room.bytes + at, before.bytes + at, size) != 0) {
        printf("%s, %s: %s has changed\n", function, failure, name);
        failures++;
    }
}

static void told(const char* function, const char* failure, const char* name, unsigned long long is, unsigned long long wanted) {
    if (is != wanted) {
        printf("%s, %s: %s is %llu\n", function, failure, name, is);
        failures++;
    }
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_CREATEDEVICE device = {.hAdapter = adapter};
    OK(D3DKMTCreateDevice(&device));
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device.hDevice);
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device.hDevice};
    OK(D3DKMTCreateContextVirtual(&context));
    D3DKMT_CREATEHWCONTEXT hardware = {.hDevice = device.hDevice};
    OK(D3DKMTCreateHwContext(&hardware));
    D3DKMT_CREATEHWQUEUE queue = {.hHwContext = hardware.hHwContext};
    OK(D3DKMTCreateHwQueue(&queue));
    D3DKMT_CREATEKEYEDMUTEX mutex = {.InitialValue = 3};
    OK(D3DKMTCreateKeyedMutex(&mutex));
    (void)adapter;
"#;

fn item(name: &str) -> &'static Item {
    ITEMS.iter().copied().flatten().find(|item| item.name == name).expect("each structure is declared")
}

/// The members of a structure, with the size of each as C knows it; of a union without a name the whole.
fn members(of: &'static Item) -> Vec<(&'static str, usize, usize)> {
    let (Shape::Struct(fields) | Shape::Packed(fields)) = of.shape else { panic!("{} is no structure", of.name) };
    let ends = fields.iter().skip(1).map(|field| field.offset).chain([of.size]);
    fields.iter().zip(ends).map(|(field, end)| (field.name, field.offset, end - field.offset)).collect()
}

/// The whole program, and how many comparisons it may make.
fn program() -> (String, usize) {
    let (mut text, mut rows) = (String::from(HEAD), 0);
    let writes = |function: &&d3dkmt_c::Function| {
        !matches!(function.state, FunctionState::Refuses(_)) && !function.parameters.starts_with("CONST ")
    };
    for function in FUNCTIONS.iter().filter(writes) {
        let (name, of) = (function.name, item(function.parameters.trim_end_matches('*')));
        for (failure, byte, good) in FAILURES {
            if good && SLEEPS.contains(&name) {
                continue;
            }
            writeln!(text, "    memset(room.bytes, {byte}, {});", of.size).expect("a string");
            for (member, offset, _) in members(of) {
                let known = HANDLES.iter().find(|(known, _)| good && *known == member);
                if let Some((_, handle)) = known {
                    writeln!(text, "    memcpy(room.bytes + {offset}, &{handle}, 4);").expect("a string");
                }
            }
            writeln!(text, "    before = room;").expect("a string");
            writeln!(text, "    if ({name}(({}*)room.bytes) < 0) {{\n        refused++;", of.name).expect("a string");
            for (member, offset, size) in members(of) {
                let told = TOLD.iter().find(|(of, known, _)| (*of, *known) == (name, member));
                let call = match told {
                    None => format!("member(\"{name}\", \"{failure}\", \"{member}\", {offset}, {size})"),
                    Some((_, _, wanted)) => {
                        let is = format!("(({}*)room.bytes)->{member}", of.name);
                        format!("told(\"{name}\", \"{failure}\", \"{member}\", {is}, {wanted})")
                    }
                };
                writeln!(text, "        {call};").expect("a string");
                rows += 1;
            }
            text.push_str("    }\n");
        }
    }
    text.push_str("    printf(\"%d refused, %d wrong\\n\", refused, failures);\n    return 0;\n}\n");
    (text, rows)
}

// spec: sync §5, memory §9.2
#[test]
fn a_refused_call_leaves_every_member_as_it_was() {
    let (text, rows) = program();
    assert!(rows > 1000, "{rows} rows are not all");
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("unchanged.c"), folder.path().join("unchanged"));
    std::fs::write(&source, text).expect("a file");
    build_source(&source, &program, &["-lopenwddm"]);
    let said = said(&run(&program, &[]));
    let last = said.lines().last().expect("it says how many");
    let refused: usize = last.split(' ').next().and_then(|count| count.parse().ok()).expect("a number");
    assert!(refused > 200 && last.ends_with(" 0 wrong"), "{said}");
}
