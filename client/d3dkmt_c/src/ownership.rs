//! Ownership of displays over all adapters: whether some device owns a display for itself.

use d3dkmt_abi::{BOOLEAN, HANDLE};
use kmt_calls::{AdapterCall, Call, DisplayCall, Refusal, Reply};
use wddm_types::{Luid, NtStatus, RawHandle, VidPnSourceId};

use crate::adapter::{give_back, open};
use crate::border::{Answer, Caller};
use crate::priority::check_own;
use crate::refusal::expect_reply;

/// Success where no device owns a display of any adapter for itself; the kernel refuses with `GRAPHICS_PRESENT_OCCLUDED` where one does.
/// Any other refusal is the answer where no adapter says that.
pub fn no_exclusive_owner(caller: &Caller<'_>) -> Answer {
    let reply = caller.process.call(Call::Adapter(AdapterCall::EnumAdapters))?;
    let adapters = expect_reply!(reply, Reply::Adapters(adapters) => adapters);
    ask_each(adapters, |(luid, _)| no_owner_on(caller, luid))?;
    Ok(NtStatus::SUCCESS)
}

fn no_owner_on(caller: &Caller<'_>, luid: Luid) -> Result<(), Refusal> {
    let opened = open(caller, luid)?;
    let adapter = RawHandle(opened.hAdapter);
    let owned = ask_each((0..opened.NumOfSources).map(VidPnSourceId), |source| {
        let call = DisplayCall::CheckVidPnExclusiveOwnership { adapter, source };
        caller.process.call(Call::Display(call)).map(drop)
    });
    give_back(caller, adapter);
    owned
}

/// Asks until one is owned. The first refusal for another reason is the answer where none is.
fn ask_each<T>(all: impl IntoIterator<Item = T>, ask: impl Fn(T) -> Result<(), Refusal>) -> Result<(), Refusal> {
    let mut refused = Ok(());
    for one in all {
        match ask(one) {
            Err(refusal) if refusal.status == NtStatus::GRAPHICS_PRESENT_OCCLUDED => return Err(refusal),
            answer => refused = refused.and(answer),
        }
    }
    refused
}

/// The answer of a function without a status: TRUE where a device owns a display. FALSE also where no adapter says so and one could not
/// be asked.
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
