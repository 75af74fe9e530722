//! Events and NT handles as numbers, which are the kernel's own. The flavour of the Linux subsystem has descriptors instead
//! (`descriptor`).

use d3dkmt_abi::HANDLE;
use kmt_calls::{Call, EventCall, Refusal, Reply};
use kmt_link::Link;
use wddm_types::RawHandle;

use crate::border::Caller;
use crate::handle::{event_or_section, in_c};
use crate::refusal::expect_reply;

/// What the process keeps of events: nothing.
#[derive(Default)]
pub struct Events;

impl Events {
    /// Nobody asks to be told.
    pub fn set(&self, _link: &dyn Link, _event: RawHandle) {}
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

/// Resets one.
pub fn reset(caller: &Caller<'_>, handle: HANDLE) -> Result<(), Refusal> {
    let event = event_or_section(handle)?;
    caller.process.call(Call::Event(EventCall::Reset { event })).map(drop)
}

/// Closes an event or an NT handle.
pub fn close(caller: &Caller<'_>, handle: HANDLE) -> Result<(), Refusal> {
    let token = nt_handle(caller, handle)?;
    let Err(refusal) = caller.process.call(Call::CloseNtHandle { handle: token }) else { return Ok(()) };
    let Ok(event) = event_or_section(handle) else { return Err(refusal) };
    // What an NT handle that names nothing is refused with.
    caller.process.call(Call::Event(EventCall::Close { event })).map(drop).map_err(|_| refusal)
}

/// An NT handle of a shared object from C.
pub fn nt_handle(_caller: &Caller<'_>, handle: HANDLE) -> Result<u64, Refusal> {
    Ok(crate::handle::nt_handle(handle))
}

/// The same for C.
pub fn nt_handle_in_c(_caller: &Caller<'_>, token: u64) -> Result<HANDLE, Refusal> {
    Ok(crate::handle::nt_handle_in_c(token))
}
