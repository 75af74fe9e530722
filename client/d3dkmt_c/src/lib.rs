//! The `D3DKMT` functions as C programs call them: casts, checks of pointers, one catch of panics. The functions themselves are made
//! by [`export!`] in the library that C programs link, which knows how a process comes to its kernel; here is everything that does
//! not depend on that.
//!
//! # The law of this boundary
//! - A C caller vouches for its pointers as the declarations say: so many bytes, readable or writable, during the call. The border checks
//!   all that it can see: a pointer that is NULL or misaligned is `STATUS_INVALID_PARAMETER`, and nothing has happened then.
//! - Memory that is not there, or that is for reading only where results go, faults in the caller's thread at the caller's address, before the
//!   kernel has heard of the call (decision 0044). The library installs no signal handler and holds no lock then.
//! - An argument is read once, before the call; results are written once, after it. Arrays for results are checked before the call,
//!   so that nothing is made that its caller cannot name.
//! - A structure and a [`kmt_calls::Call`] meet in one function of one file, named after the function. Nothing is checked here that the
//!   kernel checks, but for what a call value cannot say: reserved members that are not 0, flags of another family.
//! - A panic ends at the border as `STATUS_UNSUCCESSFUL`. Handles are the kernel's own.

// Functions bear the names of the C functions that they are, and do what those are documented to do.
#![allow(missing_docs)]

mod adapter;
mod allocation;
mod border;
mod buffer;
mod context;
mod device;
mod display;
mod doorbell;
mod escape;
mod event;
mod export;
mod fence;
mod fidelity;
mod function;
mod gpu_va;
mod handle;
mod keyed_mutex;
mod lock;
mod mode;
mod name;
mod notification;
mod ownership;
mod packet_sync;
mod parameter;
mod playback;
mod present;
mod priority;
mod program_memory;
mod question;
mod queue;
mod refusal;
mod residency;
mod resource;
mod session;
mod statistics;
mod subject;
mod sync_object;
mod trace;
mod unsupported;

#[cfg(test)]
mod refusing;

pub use d3dkmt_abi as abi;
pub use fidelity::{WITHOUT_EFFECT, WithoutEffect};
pub use function::{FUNCTIONS, Function, FunctionState, PLAIN, functions};
pub use playback::{FLAVOUR, PlayError, Playback, Played, from_wsl};
pub use session::{OpenLink, Session};
pub use subject::Subject;
pub use trace::{Same, VERSION as TRACE_VERSION, Value, program_ends};
pub use unsupported::{SUBJECTS, UNSUPPORTED};

/// The items that [`export!`] alone calls.
#[doc(hidden)]
pub mod exported {
    pub use crate::adapter::*;
    pub use crate::allocation::*;
    pub use crate::border::{
        Caller, enter, enter_finding, enter_in, enter_in_out, enter_refused, enter_telling, nothing_to_do,
    };
    pub use crate::context::*;
    pub use crate::device::*;
    pub use crate::display::*;
    pub use crate::doorbell::*;
    pub use crate::escape::*;
    pub use crate::event::{
        close_handle, create_event, create_section, export_handle, import_handle, reset_event, set_event, wait_event,
    };
    pub use crate::fence::*;
    pub use crate::gpu_va::*;
    pub use crate::keyed_mutex::*;
    pub use crate::lock::*;
    pub use crate::mode::*;
    pub use crate::name::{open_nt_handle_from_name, open_sync_object_nt_handle_from_name};
    pub use crate::notification::{
        register_budget_change_notification, register_trim_notification, unregister_budget_change_notification,
        unregister_trim_notification,
    };
    pub use crate::ownership::*;
    pub use crate::packet_sync::*;
    pub use crate::present::*;
    pub use crate::priority::*;
    pub use crate::question::*;
    pub use crate::queue::*;
    pub use crate::residency::*;
    pub use crate::resource::*;
    pub use crate::statistics::*;
    pub use crate::subject::Subject;
    pub use crate::sync_object::*;
}
