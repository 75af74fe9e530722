//! Ownership of displays over all adapters: whether some device owns a display for itself.

use d3dkmt_abi::{BOOLEAN, HANDLE};
use kmt_calls::{AdapterCall, Call, DisplayCall, Reply};
use wddm_types::{NtStatus, RawHandle, VidPnSourceId};

use crate::border::{Answer, Caller};
use crate::priority::check_own;
use crate::refusal::expect_reply;

/// Success where no device owns a display of any adapter for itself; the kernel refuses with `GRAPHICS_PRESENT_OCCLUDED` where one does.
pub fn no_exclusive_owner(caller: &Caller<'_>) -> Answer {
    let reply = caller.process.call(Call::Adapter(AdapterCall::EnumAdapters))?;
    for (luid, _) in expect_reply!(reply, Reply::Adapters(adapters) => adapters) {
        let opened = crate::adapter::open(caller, luid)?;
        let adapter = RawHandle(opened.hAdapter);
        let owned = (0..opened.NumOfSources).map(VidPnSourceId).try_for_each(|source| {
            let call = DisplayCall::CheckVidPnExclusiveOwnership { adapter, source };
            caller.process.call(Call::Display(call)).map(drop)
        });
        caller.process.call(Call::Adapter(AdapterCall::CloseAdapter { adapter }))?;
        owned?;
    }
    Ok(NtStatus::SUCCESS)
}

/// The answer of a function without a status: TRUE where a device owns a display. FALSE also where the kernel could not be asked.
pub fn is_owned(status: i32) -> BOOLEAN {
    // CAST: an NTSTATUS is signed in C.
    BOOLEAN::from(status as u32 == NtStatus::GRAPHICS_PRESENT_OCCLUDED.0)
}

/// All devices of the process give up their displays.
pub fn release_sources_of(caller: &Caller<'_>, process: HANDLE) -> Answer {
    check_own(caller, process, "the displays")?;
    caller.process.call(Call::Display(DisplayCall::ReleaseProcessVidPnSourceOwners))?;
    Ok(NtStatus::SUCCESS)
}
