//! The binary: everything stands in the library's `entry`.

use std::process::ExitCode;

fn main() -> ExitCode {
    openwddm::entry::enter()
}
