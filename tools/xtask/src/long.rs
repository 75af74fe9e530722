//! Runs that are too long for every change: each has a short form in `ci`.

use std::process::Command;

use crate::tree::House;

/// Calls of a fuzz run without `--calls`.
const CALLS: &str = "1000000";

/// Hostile calls and lying drivers (`verify/fuzz`), optimised. `options`: `--seed N`, `--calls N`.
pub fn fuzz(house: &House, options: &[String]) -> Result<bool, String> {
    let mut words = vec!["run", "--release", "--quiet", "-p", "openwddm-fuzz", "--"];
    if !options.iter().any(|option| option == "--calls") {
        words.extend(["--calls", CALLS]);
    }
    words.extend(options.iter().map(String::as_str));
    cargo(house, &words)
}

/// The reference model of VidMm over a million random operations. Without optimisation, as in `ci`, the same tests take a
/// few thousand.
pub fn soak(house: &House) -> Result<bool, String> {
    cargo(house, &["test", "--release", "-p", "openwddm-vidmm", "--lib", "soak", "--", "--nocapture"])
}

fn cargo(house: &House, words: &[&str]) -> Result<bool, String> {
    println!("   cargo {}", words.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(words).current_dir(house.root()).status();
    status.map(|status| status.success()).map_err(|error| format!("cargo could not be started: {error}"))
}
