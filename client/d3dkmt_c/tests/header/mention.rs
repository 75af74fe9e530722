//! A file that mentions every published name which the header has compiles in both languages: a program written for those names finds them.
//! The names are those of the D3DKMT section of windows-sys 0.61; a name that leaves the header fails here.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Functions, and behind those of windows-sys the ones that only the library of the Linux subsystem has.
const FUNCTIONS: &str = include_str!("../published/functions.txt");
/// Structures, unions, flag words and enumerations.
const TYPES: &str = include_str!("../published/types.txt");
/// Values of enumerations, and limits.
const NUMBERS: &str = include_str!("../published/numbers.txt");

#[test]
fn every_published_name_can_be_mentioned() {
    let mut program = String::from("#include <openwddm/d3dkmt.h>\n\nint main(void) {\n");
    for name in TYPES.split_whitespace() {
        writeln!(program, "    (void)sizeof({name});").expect("a string");
    }
    for name in NUMBERS.split_whitespace() {
        writeln!(program, "    (void)({name});").expect("a string");
    }
    for name in FUNCTIONS.split_whitespace() {
        writeln!(program, "    (void)&{name};").expect("a string");
    }
    // Each function is one that a pointer of its published type takes.
    for name in FUNCTIONS.split_whitespace() {
        let suffix = name.trim_start_matches("D3DKMT");
        writeln!(program, "    {{ PFND3DKMT_{} at = {name}; (void)at; }}", suffix.to_uppercase()).expect("a string");
    }
    program.push_str("    OBJECT_ATTRIBUTES attributes;\n    UNICODE_STRING name = {0, 0, NULL};\n");
    program.push_str("    POBJECT_ATTRIBUTES named = &attributes;\n    PUNICODE_STRING text = &name;\n");
    program.push_str("    InitializeObjectAttributes(named, text, OBJ_CASE_INSENSITIVE, NULL, NULL);\n");
    program.push_str("    return named->ObjectName == text && named->Length == 48 ? 0 : 1;\n}\n");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mention.c");
    std::fs::write(&file, program).expect("a file");
    super::compile(&file, &[super::FLAVOUR]);
}

#[test]
fn every_published_function_is_on_the_list() {
    let listed: BTreeSet<&str> = d3dkmt_c::functions().map(|function| function.name).collect();
    let missing: Vec<&str> = FUNCTIONS.split_whitespace().filter(|name| !listed.contains(name)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
}
