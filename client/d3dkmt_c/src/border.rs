//! The border: a C caller's structures become values here, and the only raw pointers of the crate are followed here. Behind it nothing is
//! unsafe.
//!
//! Each exported function calls [`enter_in`] or [`enter_in_out`] for a C program that waits for the answer and vouches for its pointers.
//! A [`Caller`] stands for that program while it waits: through it the pointers in its structures are followed, and it cannot be kept.
#![allow(unsafe_code)]

mod play;
mod probe;

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use kmt_calls::Refusal;
use shared_words::{ProgramError, ProgramPages, SectionPages};
use wddm_types::NtStatus;

use crate::refusal::{invalid, not_supported, refuse};
use crate::session::{Process, Session};
use crate::subject::{Subject, name_at};
use crate::trace::{self, Returned, Watched};

pub(crate) use play::play;

/// Most elements or bytes that a caller hands over in one array: a count beyond is a mistake, and is not read.
const ARRAY_MAX: usize = 1 << 24;

/// A function's answer.
pub type Answer = Result<NtStatus, Refusal>;

/// A C program that waits for its answer.
pub struct Caller<'call> {
    /// The process that it is.
    pub process: &'call Process,
    /// Told of the memory that the call looks at, where a trace or a replay wants to know.
    watched: Option<&'call Watched>,
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
    // SAFETY: what the caller vouches for.
    let place = unsafe { Place::structure(arguments) };
    status(name, place, |watched| {
        checked(arguments)?;
        // SAFETY: readable as the caller vouches.
        unsafe { probe::readable(arguments.cast(), size_of::<T>()) };
        // SAFETY: not NULL, aligned, and good for the rest as the caller vouches.
        unsafe { read_only(&Caller { process: session.process()?, watched }, arguments, body) }
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
    // SAFETY: what the caller vouches for.
    let place = unsafe { Place::structure(arguments.cast_const()) };
    status(name, place, |watched| {
        checked(arguments.cast_const())?;
        // SAFETY: writable as the caller vouches.
        unsafe { probe::writable(arguments.cast(), size_of::<T>()) };
        // SAFETY: as in `enter_in`; writable as the caller vouches.
        unsafe { written_on_success(&Caller { process: session.process()?, watched }, arguments, body) }
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
    // SAFETY: what the caller vouches for.
    let place = unsafe { Place::structure(arguments.cast_const()) };
    status(name, place, |watched| {
        checked(arguments.cast_const())?;
        // SAFETY: writable as the caller vouches.
        unsafe { probe::writable(arguments.cast(), size_of::<T>()) };
        // SAFETY: as in `enter_in_out`.
        unsafe { written_always(&Caller { process: session.process()?, watched }, arguments, body) }
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
        return status(name, Place::Nothing, |_| {
            Err(refuse(NtStatus::UNSUCCESSFUL, "NULL for the pointer to the arguments, which take the result"))
        });
    }
    // SAFETY: what the caller vouches for.
    unsafe { enter_in_out(session, name, arguments, body) }
}

/// A function that has no structure, but these parameters.
///
/// # Safety
/// The pointers that `body` follows are good for what the function's declaration says until this returns.
pub unsafe fn enter(
    session: &Session,
    name: &str,
    parameters: &[u64],
    body: impl FnOnce(&Caller<'_>) -> Answer,
) -> i32 {
    status(name, Place::Parameters(parameters), |watched| body(&Caller { process: session.process()?, watched }))
}

/// A function that refuses each use. `subject`: the object that its structure names, and where.
///
/// # Safety
/// `arguments`, if not NULL, is good for what the function's declaration says until this returns.
pub unsafe fn enter_refused(
    session: &Session,
    name: &str,
    arguments: *const c_void,
    (subject, offset): (Subject, usize),
    reason: &'static str,
) -> i32 {
    if subject == Subject::Nothing {
        return status(name, Place::Nothing, |_| Err(not_supported(reason)));
    }
    if subject.is_in_structure() && arguments.is_null() {
        return status(name, Place::Nothing, |_| Err(invalid("NULL for the pointer to the arguments")));
    }
    let named = match subject {
        Subject::AdapterItself => arguments.addr() as u64,
        // SAFETY: not NULL, and readable as the caller vouches.
        _ => unsafe { name_at(arguments, offset, subject.size()) },
    };
    // SAFETY: `refusal` follows no pointer.
    unsafe { enter(session, name, &[named], |caller| refusal(caller, subject, named, reason)) }
}

/// The refusal of a request to a function that refuses each use: for its object, or else for the function.
pub(crate) fn refusal(caller: &Caller<'_>, subject: Subject, named: u64, reason: &'static str) -> Answer {
    subject.judge(caller, named)?;
    Err(not_supported(reason))
}

/// A function that has nothing to do.
pub fn nothing_to_do(name: &str) {
    status(name, Place::Nothing, |_| Ok(NtStatus::SUCCESS));
}

/// # Safety
/// `arguments` is not NULL, aligned and readable; the rest as of [`enter_in`].
unsafe fn read_only<T: Copy>(caller: &Caller<'_>, arguments: *const T, body: fn(&Caller<'_>, &T) -> Answer) -> Answer {
    // SAFETY: readable as the caller vouches; any bytes are a value of these structures.
    let given = unsafe { arguments.read() };
    body(caller, &given)
}

/// # Safety
/// As [`read_only`], and writable.
unsafe fn written_on_success<T: Copy>(
    caller: &Caller<'_>,
    arguments: *mut T,
    body: fn(&Caller<'_>, &mut T) -> Answer,
) -> Answer {
    // SAFETY: as in `read_only`.
    let mut given = unsafe { arguments.read() };
    let answer = body(caller, &mut given)?;
    // SAFETY: writable as the caller vouches.
    unsafe { arguments.write(given) };
    Ok(answer)
}

/// # Safety
/// As [`written_on_success`].
unsafe fn written_always<T: Copy>(
    caller: &Caller<'_>,
    arguments: *mut T,
    body: fn(&Caller<'_>, &mut T) -> Answer,
) -> Answer {
    // SAFETY: as in `read_only`.
    let mut given = unsafe { arguments.read() };
    let answer = body(caller, &mut given);
    // SAFETY: writable as the caller vouches.
    unsafe { arguments.write(given) };
    answer
}

/// Runs a function up to its status in C, and shows a trace what it did.
fn status(name: &str, place: Place<'_>, function: impl FnOnce(Option<&Watched>) -> Answer) -> i32 {
    if !trace::is_on() {
        return in_c(judged(name, || function(None)).0);
    }
    let watched = Watched::default();
    let begun = trace::begins();
    let before = place.bytes();
    let (status, refusal) = judged(name, || function(Some(&watched)));
    let end = trace::ends();
    let (after, reason) = (place.bytes(), refusal.map(|refusal| refusal.reason.into_owned()));
    trace::returned(&Returned { function: name, before, after, watched: &watched, status, reason, begun, end });
    in_c(status)
}

fn in_c(status: NtStatus) -> i32 {
    // CAST: an NTSTATUS is signed in C.
    status.0 as i32
}

/// Says under OPENWDDM_REFUSALS why a call that succeeded will wait.
pub fn remark(name: &str, text: impl FnOnce() -> String) {
    if std::env::var_os("OPENWDDM_REFUSALS").is_some() {
        eprintln!("openwddm: {name}: {}", text());
    }
}

/// The status of a function, and its refusal: the one catch of panics.
fn judged(name: &str, function: impl FnOnce() -> Answer) -> (NtStatus, Option<Refusal>) {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(Ok(status)) => (status, None),
        Ok(Err(refusal)) => {
            remark(name, || refusal.to_string());
            (refusal.status, Some(refusal))
        }
        // The panic has been reported where it happened.
        Err(_) => (NtStatus::UNSUCCESSFUL, None),
    }
}

/// The arguments of a function, where a trace finds them.
#[derive(Clone, Copy)]
enum Place<'call> {
    /// A structure that can be read, and its size.
    Structure(*const u8, usize),
    /// Parameters, each as a number.
    Parameters(&'call [u64]),
    /// None, or none that the function looks at.
    Nothing,
}

impl Place<'_> {
    /// # Safety
    /// As of [`enter_in`], for as long as the place is used.
    unsafe fn structure<T>(arguments: *const T) -> Self {
        match checked(arguments) {
            Ok(()) => Place::Structure(arguments.cast(), size_of::<T>()),
            Err(_) => Place::Nothing,
        }
    }

    fn bytes(self) -> Option<Vec<u8>> {
        match self {
            // SAFETY: not NULL, so that the caller vouches for the structure while it waits.
            Place::Structure(at, size) => Some(unsafe { std::slice::from_raw_parts(at, size) }.to_vec()),
            Place::Parameters(parameters) => Some(parameters.iter().flat_map(|value| value.to_le_bytes()).collect()),
            Place::Nothing => None,
        }
    }
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

impl<'call> Caller<'call> {
    /// A program without a trace.
    #[cfg(test)]
    pub(crate) fn new(process: &'call Process) -> Caller<'call> {
        Caller { process, watched: None }
    }
    /// So many elements that the caller has put somewhere. None need no place.
    pub(crate) fn array<T: Copy>(&self, pointer: *const T, count: u32) -> Result<Vec<T>, Refusal> {
        let count = self.place(pointer, count)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        if let Some(watched) = self.watched {
            // SAFETY: as below; the structures of the interface are numbers and pointers, whose bytes have values.
            let bytes = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), count * size_of::<T>()) };
            watched.read(pointer.addr(), bytes.to_vec());
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
        if let Some(watched) = self.watched.filter(|_| count > 0) {
            watched.room(pointer.addr(), count * size_of::<T>());
        }
        // SAFETY: writable as the caller vouches; nothing is asked of no elements.
        unsafe { probe::writable(pointer.cast(), count * size_of::<T>()) };
        Ok(ResultBuffer { pointer, count, caller: self })
    }

    /// The program gives memory of its own, over which allocations are to lie.
    pub(crate) fn gives(&self, address: u64, bytes: u64) -> Result<(), Refusal> {
        let Some(watched) = self.watched else { return Ok(()) };
        watched.given(address, bytes);
        // CAST: an address and a length have 64 bits.
        watched.check(address as usize, bytes as usize)
    }

    /// Puts the pages of a section in place of the program's at this address, with what those hold.
    pub(crate) fn replace_pages(&self, address: u64, by: SectionPages<'_>) -> Result<ProgramPages, ProgramError> {
        let base = NonNull::new(address as *mut u8).ok_or(ProgramError::NotMapped(address))?;
        // SAFETY: the caller has named the memory as its own to give, and nothing of ours looks at it.
        unsafe { ProgramPages::replace(base, by) }
    }

    /// Gives the program pages of its own again.
    pub(crate) fn restore_pages(&self, pages: &ProgramPages) -> Result<(), ProgramError> {
        // SAFETY: as of `replace_pages`.
        unsafe { pages.restore() }
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
            if let Some(watched) = self.watched {
                watched.check(pointer.addr(), count * size_of::<T>())?;
            }
        }
        Ok(count)
    }
}

/// A place of the caller's for results.
pub struct ResultBuffer<'call, T> {
    pointer: *mut T,
    count: usize,
    caller: &'call Caller<'call>,
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
            if let Some(watched) = self.caller.watched {
                // SAFETY: what was just written there.
                let bytes =
                    unsafe { std::slice::from_raw_parts(self.pointer.cast_const().cast::<u8>(), size_of_val(results)) };
                watched.wrote(self.pointer.addr(), bytes.to_vec());
            }
        }
    }
}
