//! `libopenwddm`: the `D3DKMT` functions for C programs, over a kernel in the same process or a served one. `d3dkmt_c` implements the
//! functions; this crate only connects the program to its kernel, which is why it stands in the host's room.
//!
//! The program says by its environment what it wants, before its first call:
//! - `OPENWDDM_ADAPTER`: a profile (`openwddm adapters` lists them) or a file that describes an adapter (`openwddm adapters PROFILE --toml`
//!   prints one), several with commas between; `discrete-4k` if nothing is said.
//! - `OPENWDDM_VRAM`: video memory of each adapter, if not the profile's: bytes, or an amount as `512MiB` or `1.5GB`.
//! - `OPENWDDM_SYSTEM`: system memory for the allocations of each adapter, if not all of the computer's; it is taken as it is used.
//! - `OPENWDDM_FAULTS`: calls that are to fail, and faults of the first adapter's device (docs/faults.md); not with `OPENWDDM_SOCKET`, where
//!   the daemon has its own.
//! - `OPENWDDM_REFUSALS`: if set, each refusal is written to the standard error output with its reason.
//! - `OPENWDDM_FIDELITY`: a file for the table of what the kernel did, accepted without effect, or refused (docs/calls.md).
//! - `OPENWDDM_TRACE`: `calls[,errors][:FILE]` has each call written with its arguments and results (docs/calls.md).
#![allow(unsafe_code)] // The exported functions are called by C programs with pointers.

mod kernel;

use d3dkmt_c::Session;

/// The program is one process of its kernel.
static SESSION: Session = Session::new(kernel::open);

d3dkmt_c::export!(&SESSION);

/// The last words of a trace, behind all that the program itself does at its end.
#[used]
#[unsafe(link_section = ".fini_array")]
pub(crate) static AT_END: extern "C" fn() = at_end;

extern "C" fn at_end() {
    d3dkmt_c::program_ends();
}
