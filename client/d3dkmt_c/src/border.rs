//! The border: a C caller's structures become values here, and the only raw pointers of the crate are followed here. Behind it nothing is
//! unsafe.
//!
//! Each exported function calls [`enter_in`] or [`enter_in_out`] for a C program that waits for the answer and vouches for its pointers.
//! A [`Caller`] stands for that program while it waits: through it the pointers in its structures are followed, and it cannot be kept.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use kmt_calls::Refusal;
use shared_words::{AddressRange, ProgramError, ProgramPages};
use wddm_types::NtStatus;

use crate::refusal::{invalid, not_supported, refuse};
use crate::session::{Process, Session};

/// Most elements or bytes that a caller hands over in one array: a count beyond is a mistake, and is not read.
const ARRAY_MAX: usize = 1 << 24;

/// A function's answer.
pub type Answer = Result<NtStatus, Refusal>;

/// A C program that waits for its answer.
pub struct Caller<'call> {
    /// The process that it is.
    pub process: &'call Process,
}

/// A function whose structure is only read.
///
/// # Safety
/// `arguments`, if not NULL, and the pointers in it are good for what the function's declaration says until this returns.
pub unsafe fn enter_in<T: Copy>(
    session: &Session,
    name: &str,
    arguments: *const T,
    body: fn(&Caller<'_>, &T) -> Answer,
) -> i32 {
    status(name, || {
        checked(arguments)?;
        // SAFETY: not NULL, aligned, and readable as the caller vouches; any bytes are a value of these structures.
        let given = unsafe { arguments.read() };
        body(&Caller { process: session.process()? }, &given)
    })
}

/// A function that writes into its structure: when it has done what it was asked for. A refusal leaves every member as it was.
///
/// # Safety
/// As [`enter_in`]; the structure can be written, too.
// spec: memory §9.2, sync §5
pub unsafe fn enter_in_out<T: Copy>(
    session: &Session,
    name: &str,
    arguments: *mut T,
    body: fn(&Caller<'_>, &mut T) -> Answer,
) -> i32 {
    status(name, || {
        checked(arguments.cast_const())?;
        // SAFETY: as in `enter_in`.
        let mut given = unsafe { arguments.read() };
        let answer = body(&Caller { process: session.process()? }, &mut given)?;
        // SAFETY: writable as the caller vouches.
        unsafe { arguments.write(given) };
        Ok(answer)
    })
}

/// A function that tells something with a refusal, too: its body writes what that is, and nothing else, before it refuses.
///
/// # Safety
/// As [`enter_in_out`].
pub unsafe fn enter_telling<T: Copy>(
    session: &Session,
    name: &str,
    arguments: *mut T,
    body: fn(&Caller<'_>, &mut T) -> Answer,
) -> i32 {
    status(name, || {
        checked(arguments.cast_const())?;
        // SAFETY: as in `enter_in`.
        let mut given = unsafe { arguments.read() };
        let answer = body(&Caller { process: session.process()? }, &mut given);
        // SAFETY: writable as the caller vouches.
        unsafe { arguments.write(given) };
        answer
    })
}

/// A function whose status for what it does not find is `UNSUCCESSFUL`, which no structure at all gets, too.
///
/// # Safety
/// As [`enter_in_out`].
pub unsafe fn enter_finding<T: Copy>(
    session: &Session,
    name: &str,
    arguments: *mut T,
    body: fn(&Caller<'_>, &mut T) -> Answer,
) -> i32 {
    if arguments.is_null() {
        return status(name, || {
            Err(refuse(NtStatus::UNSUCCESSFUL, "NULL for the pointer to the arguments, which take the result"))
        });
    }
    // SAFETY: what the caller vouches for.
    unsafe { enter_in_out(session, name, arguments, body) }
}

/// A function that has no structure.
///
/// # Safety
/// The pointers that `body` follows are good for what the function's declaration says until this returns.
pub unsafe fn enter(session: &Session, name: &str, body: impl FnOnce(&Caller<'_>) -> Answer) -> i32 {
    status(name, || body(&Caller { process: session.process()? }))
}

/// A function that is not built.
pub fn refused(name: &str, reason: &'static str) -> i32 {
    status(name, || Err(not_supported(reason)))
}

/// Runs a function up to its status: the one catch of panics.
fn status(name: &str, function: impl FnOnce() -> Answer) -> i32 {
    let answer = catch_unwind(AssertUnwindSafe(function));
    let status = match answer {
        Ok(Ok(status)) => status,
        Ok(Err(refusal)) => {
            if std::env::var_os("OPENWDDM_REFUSALS").is_some() {
                eprintln!("openwddm: {name}: {refusal}");
            }
            refusal.status
        }
        // The panic has been reported where it happened.
        Err(_) => NtStatus::UNSUCCESSFUL,
    };
    // CAST: an NTSTATUS is signed in C.
    status.0 as i32
}

fn checked<T>(pointer: *const T) -> Result<(), Refusal> {
    if pointer.is_null() {
        return Err(invalid(format!("NULL for a pointer to {}", std::any::type_name::<T>())));
    }
    if !pointer.is_aligned() {
        return Err(invalid(format!("a misaligned pointer to {}", std::any::type_name::<T>())));
    }
    Ok(())
}

impl Caller<'_> {
    /// So many elements that the caller has put somewhere. None need no place.
    pub(crate) fn array<T: Copy>(&self, pointer: *const T, count: u32) -> Result<Vec<T>, Refusal> {
        let count = self.place(pointer, count)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: not NULL, aligned (checked), and readable as the caller vouches while it waits.
        Ok(unsafe { std::slice::from_raw_parts(pointer, count) }.to_vec())
    }

    /// So many bytes.
    pub(crate) fn bytes(&self, pointer: *const c_void, count: u32) -> Result<Vec<u8>, Refusal> {
        self.array(pointer.cast::<u8>(), count)
    }

    /// A place where so many elements will be written.
    pub(crate) fn room<T: Copy>(&self, pointer: *mut T, count: u32) -> Result<ResultBuffer<'_, T>, Refusal> {
        let count = self.place(pointer.cast_const(), count)?;
        Ok(ResultBuffer { pointer, count, _caller: self })
    }

    /// Puts the pages that `by` shows in place of the program's at this address, with what those hold.
    pub(crate) fn replace_pages(
        &self,
        address: u64,
        by: &AddressRange,
        runs: &[u64],
    ) -> Result<ProgramPages, ProgramError> {
        let base = NonNull::new(address as *mut u8).ok_or(ProgramError::NotMapped(address))?;
        // SAFETY: the caller has named the memory as its own to give, and nothing of ours looks at it.
        unsafe { ProgramPages::replace(base, by, runs) }
    }

    /// Gives the program pages of its own again.
    pub(crate) fn restore_pages(&self, pages: &ProgramPages) -> Result<(), ProgramError> {
        // SAFETY: as of `replace_pages`.
        unsafe { pages.restore() }.map_err(ProgramError::from)
    }

    fn place<T>(&self, pointer: *const T, count: u32) -> Result<usize, Refusal> {
        let count = count as usize;
        if count.saturating_mul(size_of::<T>()) > ARRAY_MAX {
            return Err(invalid(format!(
                "an array of {count} elements of {} bytes; an array has at most {ARRAY_MAX} bytes",
                size_of::<T>()
            )));
        }
        if count > 0 {
            checked(pointer)?;
        }
        Ok(count)
    }
}

/// A place of the caller's for results.
pub struct ResultBuffer<'call, T> {
    pointer: *mut T,
    count: usize,
    _caller: &'call Caller<'call>,
}

impl<T: Copy> ResultBuffer<'_, T> {
    /// How many elements there is room for.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Writes the results.
    ///
    /// # Panics
    /// When they are more than there is room for.
    pub fn write(&self, results: &[T]) {
        assert!(results.len() <= self.count, "{} results for {} places", results.len(), self.count);
        if !results.is_empty() {
            // SAFETY: not NULL, aligned, and writable for so many elements as the caller vouches while it waits; our own slice
            // does not overlap with what the caller has.
            unsafe { std::ptr::copy_nonoverlapping(results.as_ptr(), self.pointer, results.len()) }
        }
    }
}
