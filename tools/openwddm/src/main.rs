//! The binary: a call of the library's `entry`.

use std::process::ExitCode;

fn main() -> ExitCode {
    openwddm::entry::enter()
}
