//! Events and NT handles as numbers of the program, which fit 30 bits as those of the operating system do. An event's is the kernel's own. An
//! NT handle is the program's number for an unguessable token of 64 bits, which the kernel knows: a number means nothing in another
//! process, and the token is what is handed over (`OpenWddmExportHandle`, `OpenWddmImportHandle`). The flavour of the Linux subsystem has descriptors instead
//! (`descriptor`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Mutex;

use d3dkmt_abi::HANDLE;
use kmt_calls::{Call, EventCall, Refusal, Reply, ShareCall};
use kmt_link::Link;
use wddm_types::{NtStatus, RawHandle};

use crate::border::Caller;
use crate::handle::{event_or_section, in_c};
use crate::refusal::{expect_reply, refuse};
use crate::session::lock;

/// The process keeps nothing of events: the kernel has them.
#[derive(Default)]
pub struct Events;

impl Events {
    /// Does nothing: the kernel's own events send no notification.
    pub fn set(&self, _link: &dyn Link, _event: RawHandle) {}

    /// Does nothing: the calls that wait for them end with the connection.
    pub fn end(&self) {}
}

/// The first number: odd multiples of 4, between the kernel's numbers of events and sections.
const FIRST: u32 = 0x1000_0004;
const BEHIND: u32 = 0x4000_0000;
const STEP: u32 = 8;

/// The NT handles of the program.
#[derive(Default)]
pub struct NtHandles {
    numbers: Mutex<Numbers>,
}

#[derive(Default)]
struct Numbers {
    tokens: BTreeMap<u32, u64>,
    /// So many were given.
    given: u32,
}

impl Numbers {
    /// A number that is free; they come again when all have been given.
    fn add(&mut self, token: u64) -> u32 {
        loop {
            let number = FIRST + self.given % ((BEHIND - FIRST) / STEP) * STEP;
            self.given = self.given.wrapping_add(1);
            if let Entry::Vacant(free) = self.tokens.entry(number) {
                free.insert(token);
                return number;
            }
        }
    }
}

/// Makes a call with the event of a handle; NULL is none. Answers with the event, too.
pub fn with_event<T>(
    _caller: &Caller<'_>,
    (handle, _once): (HANDLE, bool),
    call: impl FnOnce(RawHandle) -> Result<T, Refusal>,
) -> Result<(T, RawHandle), Refusal> {
    let event = event_or_section(handle)?;
    Ok((call(event)?, event))
}

/// An event serves an object.
pub fn serves(_caller: &Caller<'_>, _object: RawHandle, _event: RawHandle) {}

/// An object has gone.
pub fn object_gone(_caller: &Caller<'_>, _object: RawHandle) {}

/// A new event.
pub fn create(caller: &Caller<'_>, manual_reset: bool) -> Result<HANDLE, Refusal> {
    let created = caller.process.call(Call::Event(EventCall::Create { manual_reset }))?;
    Ok(expect_reply!(created, Reply::Handle(event) => in_c(event)))
}

/// Waits for one; `TIMEOUT` when it is not set and the caller does not block.
pub fn wait(caller: &Caller<'_>, handle: HANDLE, block: bool) -> Result<(), Refusal> {
    let event = event_or_section(handle)?;
    caller.process.call(Call::Event(EventCall::Wait { event, block })).map(drop)
}

/// Sets one.
pub fn set(caller: &Caller<'_>, handle: HANDLE) -> Result<(), Refusal> {
    let event = event_or_section(handle)?;
    caller.process.call(Call::Event(EventCall::Set { event })).map(drop)
}

/// The kernel has set the event of a wait that it refused.
pub fn set_of_refused_wait(_caller: &Caller<'_>, _handle: HANDLE) {}

/// Resets one.
pub fn reset(caller: &Caller<'_>, handle: HANDLE) -> Result<(), Refusal> {
    let event = event_or_section(handle)?;
    caller.process.call(Call::Event(EventCall::Reset { event })).map(drop)
}

/// Closes an event or an NT handle.
pub fn close(caller: &Caller<'_>, handle: HANDLE) -> Result<(), Refusal> {
    let number = u32::try_from(handle.addr()).unwrap_or(0);
    let token = lock(&caller.process.nt_handles.numbers).tokens.remove(&number);
    if let Some(token) = token {
        return caller.process.call(Call::Share(ShareCall::CloseNtHandle { handle: token })).map(drop);
    }
    let event = event_or_section(handle)?;
    caller.process.call(Call::Event(EventCall::Close { event })).map(drop)
}

/// An NT handle from C.
// spec: memory §9.3: INVALID_HANDLE is for handles of the operating system
pub fn nt_handle(caller: &Caller<'_>, handle: HANDLE) -> Result<u64, Refusal> {
    let number = u32::try_from(handle.addr()).unwrap_or(0);
    let known = lock(&caller.process.nt_handles.numbers).tokens.get(&number).copied();
    known.ok_or_else(|| {
        refuse(NtStatus::INVALID_HANDLE, format!("{:#x} is no NT handle of this process", handle.addr()))
    })
}

/// An NT handle for C.
pub fn nt_handle_in_c(caller: &Caller<'_>, token: u64) -> Result<HANDLE, Refusal> {
    let number = lock(&caller.process.nt_handles.numbers).add(token);
    Ok(in_c(RawHandle(number)))
}

/// A process by its handle; NULL and -1 are the caller itself, and mean that to the kernel, too.
pub fn process_handle(caller: &Caller<'_>, handle: HANDLE) -> Result<u64, Refusal> {
    match handle.addr() {
        0 | usize::MAX => Ok(handle.addr() as u64),
        _ => nt_handle(caller, handle),
    }
}

/// The handle of a process for C.
pub fn process_handle_in_c(caller: &Caller<'_>, token: u64) -> Result<HANDLE, Refusal> {
    nt_handle_in_c(caller, token)
}
