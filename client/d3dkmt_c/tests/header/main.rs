//! The C header is written from the declarations, and says what they say: sizes and offsets as a C compiler sees them are those that the
//! Rust compiler has confirmed. With `OPENWDDM_WRITE_HEADER` set the file is written anew instead of compared.

mod mention;
mod write;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use d3dkmt_abi::{Enumerator, ITEMS, Shape};
use d3dkmt_c::{FunctionState, functions};

const TABLE_HEAD: &str = "| function | state |\n|---|---|\n";

fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/openwddm/d3dkmt.h")
}

#[test]
fn the_header_is_what_the_declarations_say() {
    let text = write::header();
    if std::env::var_os("OPENWDDM_WRITE_HEADER").is_some() {
        std::fs::write(header(), text).expect("the header can be written");
        return;
    }
    let found = std::fs::read_to_string(header()).expect("the header is there");
    assert!(found == text, "the header is not current: cargo xtask headers writes it anew");
}

#[test]
fn the_table_of_the_readme_says_what_each_function_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let found = std::fs::read_to_string(&path).expect("the page is there");
    let (before, _) = found.split_once(TABLE_HEAD).expect("the page ends with the table");
    let mut text = format!("{before}{TABLE_HEAD}");
    for function in functions() {
        let state = match function.state {
            FunctionState::Works => "works".to_string(),
            FunctionState::Partly(rest) => format!("partly; `NOT_SUPPORTED`: {rest}"),
            FunctionState::Lacks(rest) => format!("partly: {rest}"),
            FunctionState::Refuses(reason) => format!("`NOT_SUPPORTED`: {reason}"),
        };
        writeln!(text, "| {} | {state} |", function.name).expect("a string");
    }
    if std::env::var_os("OPENWDDM_WRITE_HEADER").is_some() {
        std::fs::write(&path, text).expect("the page can be written");
        return;
    }
    assert!(found == text, "the table is not current: cargo xtask headers writes it anew");
}

/// Each member says its direction, in words of one list, and its meaning; a flag, that it is one.
#[test]
fn every_member_says_what_it_is() {
    const MEMBERS: [&str; 7] = ["in", "out", "in, out", "in, optional", "out, optional", "in, out, optional", "unread"];
    let (mut said, mut wrong) = (0, Vec::new());
    let mut look = |item: &str, name: &str, says: &str, heads: &[&str]| {
        let right = says.split_once(": ").is_some_and(|(head, rest)| heads.contains(&head) && !rest.is_empty());
        said += 1;
        if !right || says.contains("*/") || says.len() > 120 {
            wrong.push(format!("{item}.{name}: {says:?}"));
        }
    };
    for item in ITEMS.iter().copied().flatten() {
        match item.shape {
            Shape::Struct(fields) | Shape::Packed(fields) | Shape::Union(fields) => {
                for field in fields.iter().filter(|field| !write::is_nameless(field.name)) {
                    look(item.name, field.name, field.says, &MEMBERS);
                }
            }
            Shape::Flags(_, flags) => {
                flags.iter().for_each(|flag| look(item.name, flag.name, flag.says, &["flag", "flag, out"]));
            }
            Shape::Enum(_) => {}
        }
    }
    assert!(said > 1200, "{said} members are not all");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Each value of an enumeration says its meaning, and the header has it behind the value.
#[test]
fn every_enumerator_says_what_it_means() {
    let header = write::header();
    let (mut said, mut wrong) = (0, Vec::new());
    for item in ITEMS.iter().copied().flatten() {
        let Shape::Enum(values) = item.shape else { continue };
        for Enumerator { name, is, says } in values {
            said += 1;
            let written = header.contains(&format!("    {name} = {is}, /* {says} */\n"));
            if says.len() < 4 || says.len() > 120 || says.contains("*/") || !written {
                wrong.push(format!("{}.{name}: {says:?}", item.name));
            }
        }
    }
    assert!(said > 250, "{said} enumerators are not all");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Each size and each offset, in both languages that include it.
#[test]
fn a_c_compiler_lays_out_what_the_rust_compiler_does() {
    let mut program = String::from("#include <stddef.h>\n#include <openwddm/d3dkmt.h>\n");
    program.push_str("#ifdef __cplusplus\n#define CHECK static_assert\n#else\n#define CHECK _Static_assert\n#endif\n");
    let mut checks = 0;
    for item in ITEMS.iter().copied().flatten().filter(|item| !write::is_inline(item.name)) {
        let (name, size) = (item.name, item.size);
        writeln!(program, "CHECK(sizeof({name}) == {size}, \"{name}\");").expect("a string");
        if let Shape::Struct(fields) | Shape::Packed(fields) = item.shape {
            for field in fields.iter().filter(|field| !write::is_nameless(field.name)) {
                let (field, offset) = (field.name, field.offset);
                writeln!(program, "CHECK(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");")
                    .expect("a string");
                checks += 1;
            }
        }
    }
    assert!(checks > 400, "{checks} fields are not all");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("layout.c");
    std::fs::write(&file, program).expect("a file");
    compile(&file, &[FLAVOUR]);
}

/// Names, values and layouts as a source has them that was written for Windows' own header.
#[test]
fn a_source_for_the_header_of_windows_compiles_in_both_flavours() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/header/outside.c");
    ["-UOPENWDDM_WSL", "-DOPENWDDM_WSL"].iter().for_each(|flavour| compile(&file, &[flavour]));
}

/// The macros for literals and for programs of the plain number: the wrong width is an error, and the old spelling still compiles.
#[test]
fn a_literal_of_the_wrong_width_is_an_error_and_a_large_integer_may_stay_a_plain_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("program.c");
    let write = |line: &str| std::fs::write(&file, format!("#include <openwddm/d3dkmt.h>\n{line}\n")).expect("a file");
    for (width, right, wrong) in [("-UOPENWDDM_WSL", 'u', 'U'), ("-DOPENWDDM_WSL", 'U', 'u')] {
        write(&format!("UNICODE_STRING name = RTL_CONSTANT_STRING({right}\"name\");"));
        compile(&file, &[width]);
        write(&format!("UNICODE_STRING name = RTL_CONSTANT_STRING({wrong}\"name\");"));
        let said = errors(&file, C11, &[width]).expect("the literal has another width");
        assert!(said.contains("negative"), "{said}");
    }
    write(
        "LARGE_INTEGER at_once = 0;\nLARGE_INTEGER* address(void);\nLARGE_INTEGER* address(void) { return &at_once; }",
    );
    compile(&file, &["-DOPENWDDM_PLAIN_LARGE_INTEGER"]);
    let said = errors(&file, C11, &[]).expect("it is a union");
    assert!(said.contains("invalid initializer") || said.contains("incompatible type"), "{said}");
}

/// The flavour of the library that the tests are built with.
const FLAVOUR: &str = if cfg!(feature = "wsl") { "-DOPENWDDM_WSL" } else { "-UOPENWDDM_WSL" };
const C11: &[&str] = &["-std=c11"];
const CPP17: &[&str] = &["-x", "c++", "-std=c++17"];

/// A C compiler takes the file in both languages, with every warning that programs switch on.
fn compile(file: &Path, defined: &[&str]) {
    for language in [C11, CPP17] {
        if let Some(said) = errors(file, language, defined) {
            // A C compiler without its C++ half is enough to link Rust programs.
            let lacks_language = language == CPP17 && said.contains("cannot execute");
            assert!(lacks_language, "{language:?} {defined:?}: {said}");
        }
    }
}

/// The text with which a compiler refuses the file.
fn errors(file: &Path, language: &[&str], defined: &[&str]) -> Option<String> {
    let include = header().ancestors().nth(2).expect("a folder of headers").to_path_buf();
    let mut compiler = Command::new("cc");
    compiler.args(language).args(defined).args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I"]);
    let output = compiler.arg(include).arg(file).output().expect("there is a C compiler");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}
