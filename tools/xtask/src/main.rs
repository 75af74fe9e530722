//! The rules of the house as a program: `cargo xtask arrows | tidy | spec | ci | fuzz | soak | mutants | instructions | python |
//! template`, and `headers`, `install`, `deb`.
//!
//! An unchecked rule is a wish. This program reads manifests, sources and fact sheets and says where one of them
//! is broken, with file and line. It is no build system and changes nothing here: it looks, and for `ci` it starts cargo.
//! `headers` writes the C headers, `install` below its `--prefix`, `deb` below `target`, `mutants` and `instructions` below `docs/verification` and `target`,
//! `python` and `template` below `target`; the others write nothing.
//! People call it by the alias in `.cargo/config.toml`; `.ci/run` calls `ci`.
//!
//! - [`arrows`]: which crate may depend on which
//! - [`tidy`]: the house rules of a file
//! - [`ratchet`]: figures that `tidy` lets fall and not rise
//! - [`spec`]: which section of the fact sheets is cited where, which acceptance row has a test
//! - [`ci`]: everything in order
//! - [`deb`]: the same and the command as a Debian package
//! - [`headers`]: the C headers, written from the declarations
//! - [`install`]: the C interface for a system's compilers
//! - [`instructions`]: counts of the hottest calls
//! - [`long`]: the runs that are too long for it
//! - [`mutants`]: breaks of the product that no test sees
//! - [`python`]: the wheel of the Python package, built and tried
//! - [`template`]: the template of a miniport, built and run apart from the workspace

mod arrows;
mod ci;
mod deb;
mod headers;
mod install;
mod instructions;
mod long;
mod mutants;
mod python;
mod ratchet;
mod report;
mod rust_text;
mod spec;
mod template;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  arrows                      check every dependency between crates against the law of the storeys
  tidy [--lower | --places RATCHET]
                              check sizes, names, file heads, waived lints, unsafe blocks, room READMEs, and that no ratchet rises;
                              write lower ceilings; list what a ratchet counts
  spec [--strict] [--quiet]   check citations of the fact sheets and that each row has a test; list uncited sections and crowded tests
  fuzz [--seed N] [--calls N] hostile calls and lying drivers against the kernel, a million calls if nothing else is said
  soak                        a million random operations of VidMm against its reference model
  mutants [CRATE…] [--again] [--shard K/N] [--minutes N] [--page]
                              break the crates in every small way, and list the breaks that no test sees
  breaks [ROW… | --draw N]    plant the breaks of docs/verification/breaks.toml, and see that the test of each fails
  instructions [--set]        count the instructions of the hottest calls under callgrind, and fail where one takes more
  python                      build the wheel of the Python package, install it into a fresh virtual environment, run its tests there
  template                    build and run the template of a miniport apart from the workspace, and look at what it brings along
  headers                     write the C headers, and the table of functions, from the declarations
  install --prefix DIR        build libopenwddm for release, and put it, its headers and openwddm.pc below DIR
  deb [--out FOLDER] [--profile PROFILE]
                              build the command and libopenwddm, and pack them, with manual, completions and units, as a Debian package
  ci [--fast]                 all of it, then clippy, tests and the longer runs; --fast: the inner loop, unit tests alone";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::from(2)
        }
    }
}

/// Runs one command; whether the house is in order, or why that could not be found out.
fn command(arguments: &[String]) -> Result<bool, String> {
    let (name, options) = arguments.split_first().ok_or(USAGE)?;
    let house = tree::House::here()?;
    match (name.as_str(), options) {
        ("arrows", []) => Ok(arrows::run(&house)?.print()),
        ("tidy", options) => Ok(tidy::run(&house, tidy::Options::parse(options)?)?.print()),
        ("spec", options) => Ok(spec::run(&house, spec::Options::parse(options)?)?.print()),
        ("ci", []) => Ok(ci::run(&house, false)),
        ("ci", [fast]) if fast == "--fast" => Ok(ci::run(&house, true)),
        ("fuzz", options) => long::fuzz(&house, options),
        ("instructions", options) => Ok(instructions::run(&house, instructions::options(options)?)?.print()),
        ("deb", options) => deb::run(&house, options),
        ("headers", []) => headers::run(&house),
        ("install", options) => install::run(&house, options),
        ("breaks", options) => mutants::planted::run(&house, options),
        ("mutants", options) => mutants::run(&house, options),
        ("python", []) => Ok(python::run(&house)?.print()),
        ("template", []) => Ok(template::run(&house)?.print()),
        ("soak", []) => long::soak(&house),
        _ => Err(USAGE.to_string()),
    }
}
