//! Stores into pages of a program that are held while the pages change. Two ways:
//! - **The operating system holds them** (`faults`), whatever thread makes them.
//! - **No thread runs that could store**: the only thread of the program sleeps in the call (`asleep`), and the threads of this library are
//!   stopped (`own_threads`). The code takes this way where the operating system does not hold stores (a container's filter of system
//!   calls, an emulator), or not into pages of that kind.
//!
//! Limit of both: a process that has the same memory without being a thread of this one (`vfork`, `clone` with `CLONE_VM`), or a device, can
//! store unseen.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::faults::Faults;
use crate::own_threads::{OthersRun, Stopped};
use crate::program_map::ProgramError;

/// Stores into pages that are held as long as this lives. Nothing may allocate meanwhile.
pub(super) enum StoreHold {
    Faults(Faults, NonNull<u8>, u64),
    Stopped {
        _threads: Stopped,
    },
    /// Pages of a kind into which the operating system holds no stores, of a program with other threads.
    Nothing,
}

impl StoreHold {
    /// Holds them. `asleep`: the thread for which the calling one works.
    ///
    /// # Errors
    /// When the operating system holds no stores, and other threads of the program run.
    pub fn hold(base: u64, bytes: u64, asleep: i32) -> Result<StoreHold, ProgramError> {
        let place = NonNull::new(base as *mut u8).ok_or(ProgramError::NotMapped(base))?;
        // Some kernels protect only pages that are there: a page that was never touched becomes one of zeroes. Where that is refused (no
        // load is allowed there) no thread stores either.
        // SAFETY: the pages are the program's own, and what they hold stays.
        let _ = unsafe { madvise(place.as_ptr().cast(), bytes as usize, Advice::LinuxPopulateRead) };
        let faults = Faults::open();
        if let Ok(faults) = faults {
            // SAFETY: the pages are the program's own, and they are let go when this is dropped.
            if unsafe { faults.hold(place, bytes) }.is_ok() {
                return Ok(StoreHold::Faults(faults, place, bytes));
            }
        }
        let stopped = Stopped::all_but(asleep).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        match (stopped, faults) {
            (Ok(threads), _) => Ok(StoreHold::Stopped { _threads: threads }),
            (Err(_), Ok(_)) => Ok(StoreHold::Nothing),
            (Err(OthersRun(others)), Err(why)) => Err(ProgramError::NoHold { others, why }),
        }
    }
}

impl Drop for StoreHold {
    fn drop(&mut self) {
        if let StoreHold::Faults(faults, place, bytes) = self {
            // Pages that were replaced are held no more; those that were not are let go.
            let _ = faults.release(*place, *bytes);
            faults.wake(*place, *bytes);
        }
    }
}
