//! A C program, written here from the list of functions, calls every exported function with bad structures: NULL, a misaligned one, one of
//! zeros, one whose bits are all set. A function that refuses each use refuses these. Each function answers with a documented status, none with the status of a failed library, and the
//! library works behind them all.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use d3dkmt_c::{FUNCTIONS, SUBJECTS, Subject, UNSUPPORTED, functions};

/// Functions that ask nothing of their structure, or of one of zeros: how many adapters there are at most, an event, a mutex.
const CONTENT_WITH_ZEROS: [&str; 7] = [
    "D3DKMTEnumAdapters",
    "D3DKMTEnumAdapters2",
    "D3DKMTEnumAdapters3",
    "D3DKMTCreateKeyedMutex",
    "D3DKMTCreateKeyedMutex2",
    "OpenWddmCreateEvent",
    // NULL and -1 are the calling process.
    "OpenWddmQueryProcess",
];
const CONTENT_WITH_ONES: [&str; 4] =
    ["D3DKMTEnumAdapters", "D3DKMTCreateKeyedMutex", "OpenWddmCreateEvent", "OpenWddmQueryProcess"];

/// The argument of a function whose structure the header does not have.
const ROOM: &str = "(void*)room.bytes";

const HEAD: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <openwddm/d3dkmt.h>

static int failures;

static void expect(const char* function, const char* what, NTSTATUS status, int right) {
    if (!right) {
        printf("%s with %s: %#010x\n", function, what, (unsigned)status);
        failures++;
    }
}

static int is_documented(NTSTATUS status) {
    return status < 0 && status != (NTSTATUS)0xc0000001;
}

static union { char bytes[65536]; long long align; } room;

int main(void) {
    NTSTATUS status;
"#;

const TAIL: &str = r#"
    HANDLE handle = NULL;
    D3DKMT_HANDLE objects[4] = {0};
    status = D3DKMTShareObjects(1, NULL, NULL, 0, &handle);
    expect("D3DKMTShareObjects", "no list", status, status == STATUS_INVALID_PARAMETER);
    status = D3DKMTShareObjects(1, objects, NULL, 0, NULL);
    expect("D3DKMTShareObjects", "no room", status, status == STATUS_INVALID_PARAMETER);
    status = D3DKMTShareObjects(0xffffffff, objects, NULL, 0xffffffff, &handle);
    expect("D3DKMTShareObjects", "too many", status, is_documented(status));
    status = D3DKMTShareObjects(1, objects, NULL, 0, &handle);
    expect("D3DKMTShareObjects", "no object", status, is_documented(status) && handle == NULL);

    D3DKMT_SCHEDULINGPRIORITYCLASS class;
    void* no_process = (void*)0x7fffffffffff0001;
    status = D3DKMTGetProcessSchedulingPriorityClass(NULL, NULL);
    expect("D3DKMTGetProcessSchedulingPriorityClass", "no room", status, status == STATUS_INVALID_PARAMETER);
    status = D3DKMTGetProcessSchedulingPriorityClass(NULL, (void*)(room.bytes + 1));
    expect("D3DKMTGetProcessSchedulingPriorityClass", "misaligned room", status, status == STATUS_INVALID_PARAMETER);
    status = D3DKMTGetProcessSchedulingPriorityClass(no_process, &class);
    expect("D3DKMTGetProcessSchedulingPriorityClass", "no process", status, is_documented(status));
    status = D3DKMTSetProcessSchedulingPriorityClass(no_process, 2);
    expect("D3DKMTSetProcessSchedulingPriorityClass", "no process", status, is_documented(status));
    status = D3DKMTSetProcessSchedulingPriorityClass(NULL, 0x7fffffff);
    expect("D3DKMTSetProcessSchedulingPriorityClass", "no class", status, status == STATUS_INVALID_PARAMETER);
    status = D3DKMTReleaseProcessVidPnSourceOwners(no_process);
    expect("D3DKMTReleaseProcessVidPnSourceOwners", "no process", status, is_documented(status));
    status = D3DKMTCheckExclusiveOwnership();
    expect("D3DKMTCheckExclusiveOwnership", "no owner", status, status == 0);
    D3DKMTCloseDxCoreDevice();

    D3DKMT_ENUMADAPTERS list;
    status = D3DKMTEnumAdapters(&list);
    expect("D3DKMTEnumAdapters", "everything before", status, status == STATUS_SUCCESS && list.NumAdapters == 1);
    D3DKMT_CREATEDEVICE create = {.hAdapter = list.Adapters[0].hAdapter};
    status = D3DKMTCreateDevice(&create);
    expect("D3DKMTCreateDevice", "everything before", status, status == STATUS_SUCCESS);
    D3DKMT_SETHWPROTECTIONTEARDOWNRECOVERY recovery = {.hAdapter = list.Adapters[0].hAdapter};
    status = D3DKMTSetHwProtectionTeardownRecovery(&recovery);
    expect("D3DKMTSetHwProtectionTeardownRecovery", "an adapter", status, status == STATUS_SUCCESS);
    status = D3DKMTRegisterVailProcess(NULL);
    expect("D3DKMTRegisterVailProcess", "no guest", status, status == STATUS_GRAPHICS_VAIL_STATE_CHANGED);
"#;

/// The whole program.
fn program() -> String {
    let mut text = String::from(HEAD);
    for function in FUNCTIONS {
        let name = function.name;
        let of = function.parameters.trim_start_matches("CONST ").trim_end_matches('*');
        let mut call = |what: &str, prepared: &str, argument: &str, right: &str| {
            writeln!(text, "    {prepared}\n    status = {name}({argument});").expect("a string");
            writeln!(text, "    expect(\"{name}\", \"{what}\", status, {right});").expect("a string");
        };
        let (room, whole) = (format!("({of}*)room.bytes"), format!("sizeof({of})"));
        let fill = |byte: u8| format!("memset(room.bytes, {byte}, {whole});");
        // This function looks for a display by its name, and finds none without a name.
        let finds = name == "D3DKMTOpenAdapterFromGdiDisplayName";
        let of_null = if finds { "STATUS_UNSUCCESSFUL" } else { "STATUS_INVALID_PARAMETER" };
        call("NULL", "", "NULL", &format!("status == {of_null}"));
        call("a misaligned structure", &fill(0), &format!("({of}*)(room.bytes + 1)"), "is_documented(status)");
        let answers = |content: &[&str]| match content.contains(&name) {
            true => "status == STATUS_SUCCESS",
            false if finds => "status == STATUS_UNSUCCESSFUL",
            false => "is_documented(status)",
        };
        call("zeros", &fill(0), &room, answers(&CONTENT_WITH_ZEROS));
        call("ones", &fill(0xff), &room, answers(&CONTENT_WITH_ONES));
    }
    for (function, (_, subject, _)) in UNSUPPORTED.iter().zip(SUBJECTS) {
        let name = function.name;
        let more = ", 0".repeat(function.parameters.split(", ").count() - 1);
        for (what, argument, byte) in [("NULL", "0", 0), ("zeros", ROOM, 0), ("garbage", ROOM, 0xcc)] {
            let right = match (subject, what) {
                (Subject::Nothing, _) => "status == STATUS_NOT_SUPPORTED",
                (Subject::NtHandle | Subject::Process, "zeros" | "garbage") => "status == STATUS_INVALID_HANDLE",
                _ => "status == STATUS_INVALID_PARAMETER",
            };
            let argument = if *subject == Subject::AdapterItself { "0x7fffffff" } else { argument };
            writeln!(text, "    memset(room.bytes, {byte}, 64);\n    status = {name}({argument}{more});")
                .expect("a string");
            writeln!(text, "    expect(\"{name}\", \"{what}\", status, {right});").expect("a string");
        }
    }
    text.push_str(TAIL);
    for (function, (_, subject, offset)) in UNSUPPORTED.iter().zip(SUBJECTS) {
        let name = function.name;
        let (handle, argument) = match subject {
            Subject::Adapter => ("list.Adapters[0].hAdapter", ROOM),
            Subject::AdapterItself => ("0", "list.Adapters[0].hAdapter"),
            Subject::Device | Subject::Context | Subject::Other => ("create.hDevice", ROOM),
            Subject::Luid => ("list.Adapters[0].AdapterLuid.LowPart", ROOM),
            Subject::NtHandle | Subject::Process | Subject::Nowhere | Subject::Nothing => continue,
        };
        let more = ", 0".repeat(function.parameters.split(", ").count() - 1);
        writeln!(text, "    memset(room.bytes, 0, 64);\n    *(UINT*)(room.bytes + {offset}) = {handle};")
            .expect("a string");
        writeln!(text, "    status = {name}({argument}{more});").expect("a string");
        writeln!(text, "    expect(\"{name}\", \"an object\", status, status == STATUS_NOT_SUPPORTED);")
            .expect("a string");
    }
    text + "    return failures != 0;\n}\n"
}

// spec: sync §5, memory §9.3
#[test]
fn no_argument_brings_the_library_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, out) = (folder.path().join("bad.c"), folder.path().join("bad"));
    std::fs::write(&source, program()).expect("a file");
    let libraries = std::env::current_exe().expect("this test is a file");
    let libraries = libraries.parent().expect("it lies in a folder");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../client/d3dkmt_c/include");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O0", "-w", "-I"]).arg(include).arg(&source).arg("-o").arg(&out);
    cc.arg("-L").arg(libraries).arg("-lopenwddm");
    if cfg!(feature = "wsl") {
        cc.arg("-DOPENWDDM_WSL");
    }
    let built = cc.output().expect("there is a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut run = Command::new(out);
    run.env_remove("OPENWDDM_SOCKET").env("LD_LIBRARY_PATH", libraries).env("OPENWDDM_VRAM", "33554432");
    let trace = folder.path().join("calls.jsonl");
    run.env("OPENWDDM_TRACE", format!("calls:{}", trace.display()));
    let ran = run.output().expect("it runs");
    let (said, why) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{}\n{said}\n{why}", ran.status);
    every_function_is_traced(&std::fs::read_to_string(trace).expect("it is written"));
}

/// The trace of the program has a line for each of its calls, of every function that there is.
fn every_function_is_traced(trace: &str) {
    let calls = trace.lines().skip(1).filter(|line| !line.starts_with("{\"fidelity\""));
    let lines: Vec<serde_json::Value> = calls.map(|line| serde_json::from_str(line).expect(line)).collect();
    let called: BTreeSet<&str> = lines.iter().map(|line| line["call"].as_str().expect("a name")).collect();
    let listed: BTreeSet<&str> = functions().map(|function| function.name).collect();
    assert_eq!(called, listed);
    // Four calls of each with a structure, three of each that refuses each use and one that names an object, and those of the end.
    let named = SUBJECTS.iter().filter(|(_, subject, _)| {
        !matches!(subject, Subject::NtHandle | Subject::Process | Subject::Nowhere | Subject::Nothing)
    });
    assert_eq!(lines.len(), 4 * FUNCTIONS.len() + 3 * UNSUPPORTED.len() + named.count() + 16);
    let refused: Vec<_> = lines.iter().filter(|line| line["status"].as_str() >= Some("0xc")).collect();
    assert!(refused.iter().all(|line| line["reason"].is_string() && line["name"].is_string()), "{refused:?}");
    assert!(refused.len() > 4 * FUNCTIONS.len() - 20, "{} refusals", refused.len());
}
