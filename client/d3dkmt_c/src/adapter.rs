//! Adapters: enumeration, opening, queries.

use d3dkmt_abi::*;
use kmt_calls::{AdapterCall, AdapterInfo, Call, FeatureResult, Reply, ResidencyCall};
use wddm_types::{Luid, NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::event::handle::process_handle;
use crate::refusal::{expect_reply, invalid, refuse};
use crate::subject::Subject;

/// Most adapters that a list names (`MAX_ENUM_ADAPTERS`).
const ADAPTERS_MAX: u32 = MAX_ENUM_ADAPTERS as u32;
/// Most adapters that a list of the caller's own names; a program that asks without a list is told this number.
const LISTED_MAX: u32 = 34;
/// All bits of the filter that mean something.
const FILTER_DEFINED: u64 =
    D3DKMT_ENUMADAPTERS_FILTER::IncludeComputeOnly | D3DKMT_ENUMADAPTERS_FILTER::IncludeDisplayOnly;

/// An adapter's id in C.
pub fn luid_in_c(luid: Luid) -> LUID {
    // CAST: the halves of the number.
    LUID { LowPart: luid.0 as u32, HighPart: (luid.0 >> 32) as i32 }
}

/// An adapter's id from C.
pub fn luid(from: LUID) -> Luid {
    // CAST: the bits of the upper half.
    Luid(u64::from(from.LowPart) | u64::from(from.HighPart as u32) << 32)
}

pub fn enum_adapters(caller: &Caller<'_>, arguments: &mut D3DKMT_ENUMADAPTERS) -> Answer {
    let adapters = opened(caller, ADAPTERS_MAX)?;
    arguments.Adapters[..adapters.len()].copy_from_slice(&adapters);
    // CAST: at most 16.
    arguments.NumAdapters = adapters.len() as u32;
    Ok(NtStatus::SUCCESS)
}

pub fn enum_adapters2(caller: &Caller<'_>, arguments: &mut D3DKMT_ENUMADAPTERS2) -> Answer {
    enumerate(caller, &mut arguments.NumAdapters, arguments.pAdapters)
}

/// Every adapter of ours renders, so that the filter leaves none out.
pub fn enum_adapters3(caller: &Caller<'_>, arguments: &mut D3DKMT_ENUMADAPTERS3) -> Answer {
    if arguments.Filter.Value & !FILTER_DEFINED != 0 {
        return Err(invalid(format!(
            "bits {:#x} of the filter are reserved",
            arguments.Filter.Value & !FILTER_DEFINED
        )));
    }
    enumerate(caller, &mut arguments.NumAdapters, arguments.pAdapters)
}

/// Without an array: how many there can be at most.
fn enumerate(caller: &Caller<'_>, count: &mut u32, array: *mut D3DKMT_ADAPTERINFO) -> Answer {
    if array.is_null() {
        *count = LISTED_MAX;
        return Ok(NtStatus::SUCCESS);
    }
    let room = caller.room(array, (*count).min(LISTED_MAX))?;
    // CAST: at most 34.
    let adapters = opened(caller, room.count() as u32)?;
    room.write(&adapters);
    *count = adapters.len() as u32;
    Ok(NtStatus::SUCCESS)
}

/// Opens every adapter: each handle is the caller's to close. If one cannot be opened, none is.
fn opened(caller: &Caller<'_>, room: u32) -> Result<Vec<D3DKMT_ADAPTERINFO>, kmt_calls::Refusal> {
    let adapters = expect_reply!(caller.process.call(Call::Adapter(AdapterCall::EnumAdapters))?, Reply::Adapters(adapters) => adapters);
    if adapters.len() > room as usize {
        return Err(refuse(
            NtStatus::BUFFER_TOO_SMALL,
            format!("there are {} adapters, and the array holds {room}; give a larger one", adapters.len()),
        ));
    }
    let mut list = Vec::with_capacity(adapters.len());
    for (luid, _) in adapters {
        match open(caller, luid) {
            Ok(adapter) => list.push(adapter),
            Err(refusal) => {
                for opened in &list {
                    let D3DKMT_ADAPTERINFO { hAdapter, .. } = *opened;
                    give_back(caller, RawHandle(hAdapter));
                }
                return Err(refusal);
            }
        }
    }
    Ok(list)
}

/// Closes an adapter that this library opened and whose handle the program has not seen. A refusal of the close changes no answer.
pub(crate) fn give_back(caller: &Caller<'_>, adapter: RawHandle) {
    let _ = caller.process.call(Call::Adapter(AdapterCall::CloseAdapter { adapter }));
}

/// An adapter that cannot say what it has is closed again.
pub fn open(caller: &Caller<'_>, luid: Luid) -> Result<D3DKMT_ADAPTERINFO, kmt_calls::Refusal> {
    let reply = caller.process.call(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid }))?;
    let adapter = expect_reply!(reply, Reply::Handle(handle) => handle);
    let displays = info(caller, adapter).inspect_err(|_| give_back(caller, adapter))?.displays.len();
    Ok(D3DKMT_ADAPTERINFO {
        hAdapter: adapter.0,
        AdapterLuid: luid_in_c(luid),
        // CAST: an adapter has a handful of displays.
        NumOfSources: displays as u32,
        bPrecisePresentRegionsPreferred: 0,
    })
}

pub fn open_adapter_from_luid(caller: &Caller<'_>, arguments: &mut D3DKMT_OPENADAPTERFROMLUID) -> Answer {
    let reply =
        caller.process.call(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: luid(arguments.AdapterLuid) }))?;
    arguments.hAdapter = expect_reply!(reply, Reply::Handle(handle) => handle.0);
    Ok(NtStatus::SUCCESS)
}

pub fn close_adapter(caller: &Caller<'_>, arguments: &D3DKMT_CLOSEADAPTER) -> Answer {
    caller.process.call(Call::Adapter(AdapterCall::CloseAdapter { adapter: RawHandle(arguments.hAdapter) }))?;
    Ok(NtStatus::SUCCESS)
}

pub fn info(caller: &Caller<'_>, adapter: RawHandle) -> Result<AdapterInfo, kmt_calls::Refusal> {
    Ok(
        expect_reply!(caller.process.call(Call::Adapter(AdapterCall::QueryAdapterInfo { adapter }))?, Reply::AdapterInfo(info) => info),
    )
}

// spec: sync §2.10
pub fn is_feature_enabled(caller: &Caller<'_>, arguments: &mut D3DKMT_ISFEATUREENABLED) -> Answer {
    let call = Call::Adapter(AdapterCall::IsFeatureEnabled {
        adapter: RawHandle(arguments.hAdapter),
        feature: arguments.FeatureId,
    });
    let result = expect_reply!(caller.process.call(call)?, Reply::Feature(result) => result);
    let FeatureResult { version, enabled, known, supported_by_driver, supported_on_current_config } = result;
    let bits = [
        (enabled, DXGK_ISFEATUREENABLED_BITS::Enabled),
        (known, DXGK_ISFEATUREENABLED_BITS::KnownFeature),
        (supported_by_driver, DXGK_ISFEATUREENABLED_BITS::SupportedByDriver),
        (supported_on_current_config, DXGK_ISFEATUREENABLED_BITS::SupportedOnCurrentConfig),
    ];
    let word = bits.iter().filter(|(set, _)| *set).fold(0, |word, (_, bit)| word | bit);
    arguments.Result =
        DXGK_ISFEATUREENABLED_RESULT { Version: version, Anonymous: DXGK_ISFEATUREENABLED_BITS { Value: word } };
    Ok(NtStatus::SUCCESS)
}

/// Whether a budget group is the local one (memory §5.5).
pub fn is_local(group: D3DKMT_MEMORY_SEGMENT_GROUP) -> Result<bool, kmt_calls::Refusal> {
    match group {
        D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL => Ok(true),
        D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL => Ok(false),
        other => Err(invalid(format!("no segment group has the number {other}"))),
    }
}

// spec: memory §5.5
pub fn query_video_memory_info(caller: &Caller<'_>, arguments: &mut D3DKMT_QUERYVIDEOMEMORYINFO) -> Answer {
    one_physical_adapter(arguments.PhysicalAdapterIndex)?;
    let call = Call::Adapter(AdapterCall::QueryVideoMemoryInfo {
        process: process_handle(caller, arguments.hProcess)?,
        adapter: RawHandle(arguments.hAdapter),
        local: is_local(arguments.MemorySegmentGroup)?,
    });
    let info = expect_reply!(caller.process.call(call)?, Reply::VideoMemoryInfo(info) => info);
    arguments.Budget = info.budget_bytes;
    arguments.CurrentUsage = info.current_usage_bytes;
    arguments.CurrentReservation = info.current_reservation_bytes;
    arguments.AvailableForReservation = info.available_for_reservation_bytes;
    Ok(NtStatus::SUCCESS)
}

// spec: memory §5.5
pub fn change_video_memory_reservation(caller: &Caller<'_>, arguments: &D3DKMT_CHANGEVIDEOMEMORYRESERVATION) -> Answer {
    one_physical_adapter(arguments.PhysicalAdapterIndex)?;
    caller.process.call(Call::Residency(ResidencyCall::ChangeVideoMemoryReservation {
        process: process_handle(caller, arguments.hProcess)?,
        adapter: RawHandle(arguments.hAdapter),
        local: is_local(arguments.MemorySegmentGroup)?,
        reservation_bytes: arguments.Reservation,
    }))?;
    Ok(NtStatus::SUCCESS)
}

/// Adapters are not linked here: each has one physical adapter.
pub fn one_physical_adapter(index: u32) -> Result<(), kmt_calls::Refusal> {
    match index {
        0 => Ok(()),
        other => Err(invalid(format!("no physical adapter has the number {other}"))),
    }
}

// spec: sync §3.17
/// Has no effect: no adapter of this kernel protects content.
pub fn set_hw_protection_teardown_recovery(
    caller: &Caller<'_>,
    arguments: &D3DKMT_SETHWPROTECTIONTEARDOWNRECOVERY,
) -> Answer {
    Subject::Adapter.judge(caller, arguments.hAdapter.into())?;
    Ok(NtStatus::SUCCESS)
}

/// The kernel is no guest of a virtual machine whose host could know the program.
pub fn register_vail_process(_caller: &Caller<'_>) -> Answer {
    let reason = "the kernel is no guest, and knows no host of virtual machines";
    Err(refuse(NtStatus::GRAPHICS_VAIL_STATE_CHANGED, reason))
}

pub fn set_stable_power_state(caller: &Caller<'_>, arguments: &D3DKMT_SETSTABLEPOWERSTATE) -> Answer {
    let (adapter, enabled) = (RawHandle(arguments.hAdapter), arguments.Enabled != 0);
    caller.process.call(Call::Adapter(AdapterCall::SetStablePowerState { adapter, enabled }))?;
    Ok(NtStatus::SUCCESS)
}
