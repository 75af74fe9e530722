//! Services of the operating system beside the `D3DKMT` functions, for programs that run where it is not Windows: events, handles that
//! are closed, memory that a program shares with its allocations. The names begin with `OpenWddm`.

#[cfg(feature = "wsl")]
#[path = "event/descriptor.rs"]
pub mod handle;
#[cfg(not(feature = "wsl"))]
#[path = "event/kernel.rs"]
pub mod handle;

use d3dkmt_abi::*;
use kmt_calls::{Call, Reply, SectionCall, ShareCall};
use wddm_types::{NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::handle::{event_or_section, in_c};
use crate::refusal::expect_reply;

/// No NT handle of the kernel has this number.
const NO_NT_HANDLE: u64 = 0;

/// An NT handle from C for a call that names a device as well, which the kernel judges first: another handle becomes a number that is
/// none of the kernel's, and the kernel refuses that.
pub fn nt_handle_behind_device(caller: &Caller<'_>, handle: HANDLE) -> u64 {
    handle::nt_handle(caller, handle).unwrap_or(NO_NT_HANDLE)
}

/// `CreateEvent`: not set.
pub fn create_event(caller: &Caller<'_>, arguments: &mut OPENWDDM_CREATEEVENT) -> Answer {
    arguments.hEvent = handle::create(caller, arguments.bManualReset != 0)?;
    Ok(NtStatus::SUCCESS)
}

/// `WaitForSingleObject`, for ever or not at all: `STATUS_TIMEOUT` when it is not set.
pub fn wait_event(caller: &Caller<'_>, arguments: &OPENWDDM_WAITEVENT) -> Answer {
    match handle::wait(caller, arguments.hEvent, arguments.bBlock != 0) {
        Ok(()) => Ok(NtStatus::SUCCESS),
        Err(refusal) if refusal.status == NtStatus::TIMEOUT => Ok(NtStatus::TIMEOUT),
        Err(refusal) => Err(refusal),
    }
}

/// `SetEvent`.
pub fn set_event(caller: &Caller<'_>, arguments: &OPENWDDM_SETEVENT) -> Answer {
    handle::set(caller, arguments.hEvent)?;
    Ok(NtStatus::SUCCESS)
}

/// `ResetEvent`.
pub fn reset_event(caller: &Caller<'_>, arguments: &OPENWDDM_RESETEVENT) -> Answer {
    handle::reset(caller, arguments.hEvent)?;
    Ok(NtStatus::SUCCESS)
}

/// `CloseHandle`: of a section, an NT handle, an event.
pub fn close_handle(caller: &Caller<'_>, arguments: &OPENWDDM_CLOSEHANDLE) -> Answer {
    let section = event_or_section(arguments.hObject);
    if let Ok(section) = section
        && caller.process.call(Call::Section(SectionCall::Close { section })).is_ok()
    {
        return Ok(NtStatus::SUCCESS);
    }
    handle::close(caller, arguments.hObject)?;
    Ok(NtStatus::SUCCESS)
}

/// Returns the name by which another program, told it by any way, imports the object: an unguessable token of 64 bits.
// spec: sync §2.2
pub fn export_handle(caller: &Caller<'_>, arguments: &mut OPENWDDM_EXPORTHANDLE) -> Answer {
    arguments.Token = handle::nt_handle(caller, arguments.hObject)?;
    Ok(NtStatus::SUCCESS)
}

/// `DuplicateHandle` into this process: an NT handle of its own by the token that it was handed.
// spec: sync §2.2
pub fn import_handle(caller: &Caller<'_>, arguments: &mut OPENWDDM_IMPORTHANDLE) -> Answer {
    let reply = caller.process.call(Call::Share(ShareCall::TakeNtHandle { handle: arguments.Token }))?;
    let token = expect_reply!(reply, Reply::NtHandle(token) => token);
    arguments.hObject = handle::nt_handle_in_c(caller, token)?;
    Ok(NtStatus::SUCCESS)
}

/// `CreateSection` and a view of it: memory that allocations can lie over (`ExistingSection`).
pub fn create_section(caller: &Caller<'_>, arguments: &mut OPENWDDM_CREATESECTION) -> Answer {
    let adapter = RawHandle(arguments.hAdapter);
    let call = Call::Section(SectionCall::Create { adapter, size_bytes: arguments.Size });
    let created = expect_reply!(caller.process.call(call)?, Reply::Section(created) => created);
    match crate::lock::address(caller, &created.mapped) {
        Ok(address) => (arguments.hSection, arguments.pData) = (in_c(created.section), address),
        Err(refusal) => {
            caller.process.call(Call::Section(SectionCall::Close { section: created.section }))?;
            return Err(refusal);
        }
    }
    Ok(NtStatus::SUCCESS)
}
