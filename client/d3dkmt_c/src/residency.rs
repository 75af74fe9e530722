//! Residency: paging queues, lists, offers.

use d3dkmt_abi::*;
use kmt_calls::{
    Call, DeviceCall, EvictFlags, MakeResidentFlags, OfferFlags, OfferList, ReclaimResult, Refusal, Reply, Residency,
    ResidencyCall, StatisticsCall,
};
use wddm_types::{NtStatus, RawHandle};

use crate::border::{Answer, Caller, remark};
use crate::event::handle::process_handle;
use crate::handle::handles;
use crate::refusal::{expect_reply, invalid};

/// A value to wait for is `STATUS_PENDING`, none is `STATUS_SUCCESS`.
// spec: memory §4.9
pub fn at(paging_fence_value: u64) -> NtStatus {
    if paging_fence_value == 0 { NtStatus::SUCCESS } else { NtStatus::PENDING }
}

// spec: memory §4.9
pub fn create_paging_queue(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATEPAGINGQUEUE) -> Answer {
    let call = Call::Device(DeviceCall::CreatePagingQueue {
        device: RawHandle(arguments.hDevice),
        priority: arguments.Priority,
        physical_adapter: arguments.PhysicalAdapterIndex,
    });
    let created = expect_reply!(caller.process.call(call)?, Reply::PagingQueue(created) => created);
    arguments.hPagingQueue = created.queue.0;
    arguments.hSyncObject = created.fence.fence.0;
    let undo = Call::Device(DeviceCall::DestroyPagingQueue { queue: created.queue });
    arguments.FenceValueCPUVirtualAddress = caller.process.word_of_new(created.fence.current, undo)?;
    caller.process.has_word(created.fence.fence);
    Ok(NtStatus::SUCCESS)
}

pub fn destroy_paging_queue(caller: &Caller<'_>, arguments: &mut D3DDDI_DESTROYPAGINGQUEUE) -> Answer {
    caller.process.call(Call::Device(DeviceCall::DestroyPagingQueue { queue: RawHandle(arguments.hPagingQueue) }))?;
    Ok(NtStatus::SUCCESS)
}

/// The list of priorities means nothing (memory §5.2).
// spec: memory §5.2, memory §10.1 row 12
pub fn make_resident(caller: &Caller<'_>, arguments: &mut D3DDDI_MAKERESIDENT) -> Answer {
    let asked = *arguments;
    // A refusal tells that nothing was made resident, and what would have to go.
    (arguments.NumAllocations, arguments.NumBytesToTrim) = (0, 0);
    let call = Call::Residency(ResidencyCall::MakeResident {
        paging_queue: RawHandle(asked.hPagingQueue),
        allocations: handles(caller, asked.AllocationList, asked.NumAllocations)?,
        flags: MakeResidentFlags::from_bits_retain(asked.Flags.Value),
    });
    let reply = caller.process.call(call).inspect_err(|refusal| arguments.NumBytesToTrim = refusal.bytes_to_trim)?;
    let value = match expect_reply!(reply, Reply::Residency(residency) => residency) {
        Residency::Resident => 0,
        Residency::Pending { paging_fence_value, locked } => {
            if let Some(place) = locked {
                remark("D3DKMTMakeResident", || {
                    format!(
                        "element {place} of the list is locked, and may not enter its segment meanwhile: value {paging_fence_value} of the \
                         paging fence comes when it is unlocked"
                    )
                });
            }
            paging_fence_value
        }
    };
    arguments.NumAllocations = asked.NumAllocations;
    arguments.PagingFenceValue = value;
    Ok(at(value))
}

// spec: memory §5.3
pub fn evict(caller: &Caller<'_>, arguments: &mut D3DKMT_EVICT) -> Answer {
    let call = Call::Residency(ResidencyCall::Evict {
        device: RawHandle(arguments.hDevice),
        allocations: handles(caller, arguments.AllocationList, arguments.NumAllocations)?,
        flags: EvictFlags::from_bits_retain(arguments.Flags.Value),
    });
    arguments.NumBytesToTrim = expect_reply!(caller.process.call(call)?, Reply::BytesToTrim(bytes) => bytes);
    Ok(NtStatus::SUCCESS)
}

/// Resources or allocations: one of the two lists.
fn offered(
    caller: &Caller<'_>,
    resources: *mut D3DKMT_HANDLE,
    allocations: *const D3DKMT_HANDLE,
    count: u32,
) -> Result<OfferList, Refusal> {
    match (resources.is_null(), allocations.is_null()) {
        (false, true) => Ok(OfferList::Resources(handles(caller, resources.cast_const(), count)?)),
        (true, _) => Ok(OfferList::Allocations(handles(caller, allocations, count)?)),
        (false, false) => Err(invalid("both pResources and HandleList are given; give one of them")),
    }
}

// spec: memory §5.9
pub fn offer_allocations(caller: &Caller<'_>, arguments: &D3DKMT_OFFERALLOCATIONS) -> Answer {
    let D3DKMT_OFFERALLOCATIONS { hDevice, pResources, HandleList, NumAllocations, Priority, Flags } = *arguments;
    caller.process.call(Call::Residency(ResidencyCall::OfferAllocations {
        device: RawHandle(hDevice),
        list: offered(caller, pResources, HandleList, NumAllocations)?,
        // CAST: a negative number is as little a priority as a large one.
        priority: Priority as u32,
        flags: OfferFlags::from_bits_retain(Flags.Value),
    }))?;
    Ok(NtStatus::SUCCESS)
}

/// The results are numbers of which the first two are FALSE and TRUE of the older form (`pDiscarded`).
// spec: memory §5.9
pub fn reclaim_allocations2(caller: &Caller<'_>, arguments: &mut D3DKMT_RECLAIMALLOCATIONS2) -> Answer {
    let count = arguments.NumAllocations;
    let wanted = if arguments.Anonymous.pResults().is_null() { 0 } else { count };
    let room = caller.room(arguments.Anonymous.pResults(), wanted)?;
    let call = Call::Residency(ResidencyCall::ReclaimAllocations2 {
        paging_queue: RawHandle(arguments.hPagingQueue),
        list: offered(caller, arguments.pResources, arguments.HandleList, count)?,
    });
    let (results, value) = expect_reply!(
        caller.process.call(call)?,
        Reply::Reclaimed { results, paging_fence_value } => (results, paging_fence_value)
    );
    if room.count() > 0 {
        let number = |result: &ReclaimResult| match result {
            ReclaimResult::Ok => D3DDDI_RECLAIM_RESULT_OK,
            ReclaimResult::Discarded => D3DDDI_RECLAIM_RESULT_DISCARDED,
            ReclaimResult::NotCommitted => D3DDDI_RECLAIM_RESULT_NOT_COMMITTED,
        };
        room.write(&results.iter().map(number).collect::<Vec<_>>());
    }
    arguments.PagingFenceValue = value;
    Ok(at(value))
}

/// The first form has no fence: when it returns, the GPU may use the allocations.
// spec: memory §5.9
pub fn reclaim_allocations(caller: &Caller<'_>, arguments: &mut D3DKMT_RECLAIMALLOCATIONS) -> Answer {
    let D3DKMT_RECLAIMALLOCATIONS { hDevice, pResources, HandleList, pDiscarded, NumAllocations } = *arguments;
    let asks = !pDiscarded.is_null();
    let room = caller.room(pDiscarded, if asks { NumAllocations } else { 0 })?;
    let list = offered(caller, pResources, HandleList, NumAllocations)?;
    let call = Call::Residency(ResidencyCall::ReclaimAllocations { device: RawHandle(hDevice), list, asks });
    let lost = expect_reply!(caller.process.call(call)?, Reply::Discarded(lost) => lost);
    room.write(&lost.into_iter().map(BOOL::from).collect::<Vec<_>>());
    Ok(NtStatus::SUCCESS)
}

/// A process's content that the kernel can give up without a copy. The kernel numbers no decommitments.
// spec: memory §5.9
pub fn query_process_offer_info(caller: &Caller<'_>, arguments: &mut D3DKMT_QUERYPROCESSOFFERINFO) -> Answer {
    let process = process_handle(caller, arguments.hProcess)?;
    let reply = caller.process.call(Call::Statistics(StatisticsCall::QueryProcessOfferInfo { process }))?;
    let (given, wanted) = (arguments.cbSize as usize, size_of::<D3DKMT_QUERYPROCESSOFFERINFO>());
    if given != wanted {
        return Err(invalid(format!("cbSize is {given}, and the structure has {wanted} bytes; set cbSize to that")));
    }
    arguments.DecommittableBytes = expect_reply!(reply, Reply::DecommittableBytes(bytes) => bytes);
    arguments.DecommitUniqueness = 0;
    Ok(NtStatus::SUCCESS)
}

/// The calling thread waits until all content that is on its way has arrived.
pub fn flush_heap_transitions(caller: &Caller<'_>, arguments: &D3DKMT_FLUSHHEAPTRANSITIONS) -> Answer {
    let adapter = RawHandle(arguments.hAdapter);
    caller.process.call(Call::Residency(ResidencyCall::FlushHeapTransitions { adapter }))?;
    Ok(NtStatus::SUCCESS)
}
