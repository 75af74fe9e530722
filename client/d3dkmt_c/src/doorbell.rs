//! Doorbells. The program rings by a store of its own: the ring's new write pointer at `DoorbellCPUVirtualAddress`. How an engine that
//! sleeps is woken is the hardware's protocol, which the user-mode driver knows; the software GPU's is in [`shared_words::doorbell`], and
//! `D3DKMTNotifyWorkSubmission` wakes.

use std::sync::Arc;

use d3dkmt_abi::*;
use kmt_calls::{Call, QueueCall, Refusal, Reply};
use kmt_link::{DoorbellPage, WritableWord};
use wddm_types::{GpuVa, NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::refusal::{expect_reply, invalid, not_supported};

/// Keeps mapped the pages whose addresses the program was given, for as long as it has the doorbell.
pub struct RungByHand {
    _page: Arc<DoorbellPage>,
    _last_queued: WritableWord,
}

// spec: sync §2.9, sync §3.17
pub fn create_doorbell(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATE_DOORBELL) -> Answer {
    const DEFINED: u32 =
        D3DKMT_CREATE_DOORBELL_FLAGS::RequireSecondaryCpuVA | D3DKMT_CREATE_DOORBELL_FLAGS::ResizeRingBufferOperation;
    if arguments.Flags.Value & !DEFINED != 0 {
        return Err(invalid(format!("doorbell flags {:#x} are reserved", arguments.Flags.Value & !DEFINED)));
    }
    if arguments.Flags.Value != 0 {
        return Err(not_supported("secondary addresses of doorbells and rings that change their size"));
    }
    if arguments.hRingBufferControl != 0 {
        return Err(not_supported("an allocation for a ring's pointers: they are in the doorbell"));
    }
    let call = QueueCall::CreateDoorbell {
        queue: RawHandle(arguments.hHwQueue),
        ring: RawHandle(arguments.hRingBuffer),
        ring_va: GpuVa::NULL,
        private_data: caller.bytes(arguments.PrivateDriverData, arguments.PrivateDriverDataSize)?,
    };
    let results = caller.room::<u8>(arguments.PrivateDriverData.cast(), arguments.PrivateDriverDataSize)?;
    let created = expect_reply!(caller.process.call(Call::Queue(call))?, Reply::Doorbell(created) => created);
    let link = caller.process.link();
    let shown = link.doorbell(created.address).and_then(|page| page.address().map(|address| (page, address)));
    let status = caller.process.word(created.status);
    let (Some((page, address)), Ok(status)) = (shown, status) else {
        // The program gets no address to ring it at.
        destroy(caller, created.doorbell)?;
        return Err(not_supported("the operating system does not hold stores: doorbells have no address"));
    };
    let last_queued = link.writable(created.last_queued);
    arguments.DoorbellCPUVirtualAddress = address.as_ptr().cast();
    arguments.DoorbellSecondaryCPUVirtualAddress = std::ptr::null_mut();
    arguments.DoorbellStatusCPUVirtualAddress = status;
    arguments.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress = last_queued.address().as_ptr().cast();
    arguments.hDoorbell = created.doorbell.0;
    results.write(&created.private_data);
    let by_hand = RungByHand { _page: page, _last_queued: last_queued };
    caller.process.doorbells().insert(created.doorbell, by_hand);
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.9
pub fn connect_doorbell(caller: &Caller<'_>, arguments: &D3DKMT_CONNECT_DOORBELL) -> Answer {
    if arguments.Flags.Value != 0 {
        return Err(invalid(format!("flags {:#x} of ConnectDoorbell are reserved", arguments.Flags.Value)));
    }
    caller.process.call(Call::Queue(QueueCall::ConnectDoorbell { doorbell: RawHandle(arguments.hDoorbell) }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.9
pub fn destroy_doorbell(caller: &Caller<'_>, arguments: &D3DKMT_DESTROY_DOORBELL) -> Answer {
    let doorbell = RawHandle(arguments.hDoorbell);
    destroy(caller, doorbell)?;
    caller.process.doorbells().remove(&doorbell);
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.9, sync §3.17
pub fn notify_work_submission(caller: &Caller<'_>, arguments: &D3DKMT_NOTIFY_WORK_SUBMISSION) -> Answer {
    if arguments.Flags.Value != 0 {
        return Err(invalid(format!("flags {:#x} of NotifyWorkSubmission are reserved", arguments.Flags.Value)));
    }
    caller.process.call(Call::Queue(QueueCall::NotifyWorkSubmission { doorbell: RawHandle(arguments.hDoorbell) }))?;
    Ok(NtStatus::SUCCESS)
}

fn destroy(caller: &Caller<'_>, doorbell: RawHandle) -> Result<(), Refusal> {
    caller.process.call(Call::Queue(QueueCall::DestroyDoorbell { doorbell })).map(drop)
}
