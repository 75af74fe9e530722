//! The C headers, and the table of functions in the page of the C interface, written anew from the declarations. Two tests of the C
//! interface write them where a variable asks for it, and compare where none does; `ci` runs them so.

use std::process::Command;

use crate::tree::House;

/// The variable that has the tests write.
const WRITES: &str = "OPENWDDM_WRITE_HEADER";

/// Writes the files.
///
/// # Errors
/// A cargo that cannot be started.
pub fn run(house: &House) -> Result<bool, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tests = Command::new(cargo);
    tests.args(["test", "--quiet", "-p", "openwddm-d3dkmt-c", "--test", "header", "--test", "softgpu", "--"]);
    tests.args(["the_header_is", "the_table_of"]).env(WRITES, "1").current_dir(house.root());
    Ok(tests.status().map_err(|error| format!("cargo: {error}"))?.success())
}
