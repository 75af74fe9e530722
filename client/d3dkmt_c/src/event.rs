//! What the operating system gives beside `D3DKMT` functions, for programs that run where it is not Windows: events, handles that are
//! closed, memory that a program shares with its allocations. The names begin with `OpenWddm`.

use d3dkmt_abi::*;
use kmt_calls::{Call, EventCall, Reply};
use wddm_types::{NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::handle::{event_or_section, in_c, nt_handle};
use crate::refusal::expect_reply;

/// `CreateEvent`: not set.
pub fn create_event(caller: &Caller<'_>, arguments: &mut OPENWDDM_CREATEEVENT) -> Answer {
    let call = Call::Event(EventCall::Create { manual_reset: arguments.bManualReset != 0 });
    arguments.hEvent = expect_reply!(caller.process.call(call)?, Reply::Handle(event) => in_c(event));
    Ok(NtStatus::SUCCESS)
}

/// `WaitForSingleObject`, for ever or not at all: `STATUS_TIMEOUT` when it is not set.
pub fn wait_event(caller: &Caller<'_>, arguments: &OPENWDDM_WAITEVENT) -> Answer {
    let event = event_or_section(arguments.hEvent)?;
    match caller.process.call(Call::Event(EventCall::Wait { event, block: arguments.bBlock != 0 })) {
        Ok(_) => Ok(NtStatus::SUCCESS),
        Err(refusal) if refusal.status == NtStatus::TIMEOUT => Ok(NtStatus::TIMEOUT),
        Err(refusal) => Err(refusal),
    }
}

/// `SetEvent`.
pub fn set_event(caller: &Caller<'_>, arguments: &OPENWDDM_SETEVENT) -> Answer {
    let event = event_or_section(arguments.hEvent)?;
    caller.process.call(Call::Event(EventCall::Set { event }))?;
    Ok(NtStatus::SUCCESS)
}

/// `ResetEvent`.
pub fn reset_event(caller: &Caller<'_>, arguments: &OPENWDDM_RESETEVENT) -> Answer {
    let event = event_or_section(arguments.hEvent)?;
    caller.process.call(Call::Event(EventCall::Reset { event }))?;
    Ok(NtStatus::SUCCESS)
}

/// `CloseHandle`: of an NT handle, an event, a section.
pub fn close_handle(caller: &Caller<'_>, arguments: &OPENWDDM_CLOSEHANDLE) -> Answer {
    let closed = caller.process.call(Call::CloseNtHandle { handle: nt_handle(arguments.hObject) });
    let Err(refusal) = closed else { return Ok(NtStatus::SUCCESS) };
    let Ok(object) = event_or_section(arguments.hObject) else { return Err(refusal) };
    let of_event = caller.process.call(Call::Event(EventCall::Close { event: object }));
    match of_event.or_else(|_| caller.process.call(Call::CloseSection { section: object })) {
        Ok(_) => Ok(NtStatus::SUCCESS),
        // What an NT handle that names nothing is refused with.
        Err(_) => Err(refusal),
    }
}

/// `CreateSection` and a view of it: memory that allocations can lie over (`ExistingSection`).
pub fn create_section(caller: &Caller<'_>, arguments: &mut OPENWDDM_CREATESECTION) -> Answer {
    let adapter = RawHandle(arguments.hAdapter);
    let call = Call::CreateSection { adapter, size_bytes: arguments.Size };
    let created = expect_reply!(caller.process.call(call)?, Reply::Section(created) => created);
    match crate::lock::address(caller, &created.mapped) {
        Ok(address) => (arguments.hSection, arguments.pData) = (in_c(created.section), address),
        Err(refusal) => {
            caller.process.call(Call::CloseSection { section: created.section })?;
            return Err(refusal);
        }
    }
    Ok(NtStatus::SUCCESS)
}
