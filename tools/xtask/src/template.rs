//! Builds and runs the template of a miniport (`examples/own_miniport`) as one who copies it does: by its own manifest, apart from the workspace.
//!
//! The template is worth something while it builds in about a minute, so a crate that brings many others along fails the check. Everything is
//! built below `target/own_miniport`. Called by `main` and by `ci`.

use std::path::PathBuf;
use std::process::Command;

use crate::report::{Finding, Report};
use crate::tree::House;

const MANIFEST: &str = "examples/own_miniport/Cargo.toml";
/// Crates that the template does without: the files of sweeps, the measurements, the command line.
const NOT_NEEDED: [&str; 3] = ["parquet", "openwddm-bench", "openwddm"];

/// Builds and runs.
///
/// # Errors
/// A program that could not be started, a file that could not be read or written.
pub fn run(house: &House) -> Result<Report, String> {
    let lock = house.copy_lockfile(MANIFEST)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut run = Command::new(cargo);
    run.args(["run", "--quiet", "--manifest-path", MANIFEST]).current_dir(house.root());
    run.env("CARGO_TARGET_DIR", target.join("own_miniport"));
    let status = run.status().map_err(|error| format!("cargo could not be started: {error}"))?;
    // Cargo has left in the lockfile what the template needs, and nothing else.
    let lock = std::fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    Ok(judged(status.success(), &packages(&lock)))
}

fn judged(succeeded: bool, packages: &[&str]) -> Report {
    let mut faults = Vec::new();
    if !succeeded {
        faults.push(Finding::new(MANIFEST, 0, "the template does not build, or does not run"));
    }
    for name in NOT_NEEDED.iter().filter(|name| packages.contains(*name)) {
        let text = format!(
            "the template builds {name}, which no miniport needs: `cargo tree -i {name}` in its folder says why"
        );
        faults.push(Finding::new(MANIFEST, 0, text));
    }
    let summary = format!("template: {} packages, {} faults", packages.len(), faults.len());
    Report { faults, summary, ..Report::default() }
}

/// The names of a lockfile's packages.
fn packages(lock: &str) -> Vec<&str> {
    lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_no_miniport_needs_is_a_fault() {
        let lock = "[[package]]\nname = \"openwddm-ddi\"\nversion = \"0.1.0\"\ndependencies = [\n \"serde\",\n]\n\n[[package]]\nname = \"parquet\"\n";
        assert_eq!(packages(lock), ["openwddm-ddi", "parquet"]);
        let report = judged(true, &packages(lock));
        assert_eq!(report.faults.len(), 1, "{:?}", report.faults);
        assert!(report.faults[0].text.contains("builds parquet"), "{}", report.faults[0]);
        assert!(judged(true, &["openwddm-ddi"]).faults.is_empty());
        assert_eq!(judged(false, &[]).faults.len(), 1);
    }
}
