//! Every function that takes a structure is called with memory that is not there, that is too short, and that is for reading only, and so is each
//! pointer within each structure: `faults.c` makes the calls, this file writes its rows from the list of functions. The program runs with
//! a kernel of its own and behind a socket, and the answers are the same.

use std::fmt::Write as _;

use d3dkmt_c::FUNCTIONS;
use d3dkmt_c::abi::{Field, ITEMS, Shape};

use super::programs::{Served, build_source, run};

/// The members that a call follows when every count of the structure is 1 and everything else is 0, each as `function.member`.
const FOLLOWED: &str = include_str!("followed.txt");

fn shape(name: &str) -> Option<&'static Shape> {
    ITEMS.iter().flat_map(|items| items.iter()).find(|item| item.name == name).map(|item| &item.shape)
}

/// The members of a structure with their places; those of a union or structure within it, too.
fn members(of: &str, at: usize, found: &mut Vec<(usize, &'static Field)>) {
    let Some(Shape::Struct(fields) | Shape::Packed(fields) | Shape::Union(fields)) = shape(of) else { return };
    for field in *fields {
        found.push((at + field.offset, field));
        members(field.of, at + field.offset, found);
    }
}

/// Whether a member says how much lies behind a pointer.
fn counts(name: &str) -> bool {
    name.starts_with("Num") || name.ends_with("Count") || name.ends_with("Size") || name.ends_with("Length")
}

/// The rows of `faults.c`.
fn rows() -> String {
    let (mut rows, mut pointers, mut lengths) = (String::new(), String::new(), String::new());
    for (row, function) in FUNCTIONS.iter().enumerate() {
        let (name, of) = (function.name, function.parameters.trim_start_matches("CONST ").trim_end_matches('*'));
        let writes = i32::from(!function.parameters.starts_with("CONST "));
        writeln!(rows, "    {{\"{name}\", (NTSTATUS (*)(void*)){name}, sizeof({of}), _Alignof({of}), {writes}}},")
            .expect("a string");
        let mut found = Vec::new();
        members(of, 0, &mut found);
        for (offset, field) in found {
            if field.of.starts_with('*') {
                let result = i32::from(field.says.starts_with("out"));
                writeln!(pointers, "    {{{row}, \"{}\", {offset}, {result}}},", field.name).expect("a string");
            } else if counts(field.name) {
                writeln!(lengths, "    {{{row}, {offset}, {}}},", field.size).expect("a string");
            }
        }
    }
    format!(
        "static const struct row rows[] = {{\n{rows}}};\nstatic const struct pointer pointers[] = {{\n{pointers}}};\n\
         static const struct count counts[] = {{\n{lengths}}};\n"
    )
}

/// Builds the program and runs it; it must find nothing wrong, and follow the members that are listed.
fn faults_are_the_callers(environment: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("faults.c"), folder.path().join("faults"));
    std::fs::write(folder.path().join("rows.h"), rows()).expect("a file");
    std::fs::write(&source, include_str!("faults.c")).expect("a file");
    build_source(&source, &program, &["-Wno-cast-function-type", "-lopenwddm"]);
    let ran = run(&program, environment);
    let said = String::from_utf8_lossy(&ran.stdout);
    let wrong: Vec<&str> = said.lines().filter(|line| line.starts_with('!')).collect();
    assert!(ran.status.success() && wrong.is_empty(), "{}: {wrong:#?}", ran.status);
    let followed: Vec<&str> = said.lines().collect();
    let listed: Vec<&str> = FOLLOWED.lines().collect();
    assert_eq!(followed, listed);
}

// spec: sync §5, memory §9.3
#[test]
fn a_bad_pointer_is_a_fault_of_the_caller_before_the_call() {
    faults_are_the_callers(&[]);
}

// spec: sync §5, memory §9.3
#[test]
fn a_bad_pointer_is_the_same_fault_behind_a_socket() {
    let mut served = Served::start();
    faults_are_the_callers(&served.environment());
    served.end();
}
