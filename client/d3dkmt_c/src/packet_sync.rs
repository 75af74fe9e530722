//! Waits and signals of contexts on objects without a word in memory: mutexes, semaphores, packet fences and CPU notifications; and a
//! fence's value as an event of its own.

use d3dkmt_abi::*;
use kmt_calls::{Call, Refusal, SignalFlags, SyncCall};
use wddm_types::{NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::event::handle::{close, create, with_event};
use crate::refusal::invalid;
use crate::sync_object::wait_for_synchronization_object_from_cpu;

/// The first of so many handles in a structure.
fn listed(list: &[u32], count: u32) -> Result<Vec<RawHandle>, Refusal> {
    let listed = list
        .get(..count as usize)
        .ok_or_else(|| invalid(format!("the list names {count} objects; it holds {}", list.len())))?;
    Ok(listed.iter().copied().map(RawHandle).collect())
}

/// The first form has no value for fences.
// spec: sync §2.4
pub fn wait_for_synchronization_object(caller: &Caller<'_>, arguments: &D3DKMT_WAITFORSYNCHRONIZATIONOBJECT) -> Answer {
    caller.process.call(Call::Sync(SyncCall::WaitForSynchronizationObject2 {
        context: RawHandle(arguments.hContext),
        objects: listed(&arguments.ObjectHandleArray, arguments.ObjectCount)?,
        fence_value: 0,
    }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.4
pub fn signal_synchronization_object(caller: &Caller<'_>, arguments: &D3DKMT_SIGNALSYNCHRONIZATIONOBJECT) -> Answer {
    caller.process.call(Call::Sync(SyncCall::SignalSynchronizationObject2 {
        context: RawHandle(arguments.hContext),
        objects: listed(&arguments.ObjectHandleArray, arguments.ObjectCount)?,
        broadcast: Vec::new(),
        fence_value: 0,
        event: RawHandle::NONE,
        flags: SignalFlags::from_bits_retain(arguments.Flags.Value),
    }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.4
pub fn wait_for_synchronization_object2(
    caller: &Caller<'_>,
    arguments: &D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2,
) -> Answer {
    caller.process.call(Call::Sync(SyncCall::WaitForSynchronizationObject2 {
        context: RawHandle(arguments.hContext),
        objects: listed(&arguments.ObjectHandleArray, arguments.ObjectCount)?,
        fence_value: arguments.Anonymous.Fence().FenceValue,
    }))?;
    Ok(NtStatus::SUCCESS)
}

/// The union holds the event with `EnqueueCpuEvent`, and else the value for the fences.
// spec: sync §2.4
pub fn signal_synchronization_object2(caller: &Caller<'_>, arguments: &D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2) -> Answer {
    let flags = SignalFlags::from_bits_retain(arguments.Flags.Value);
    let (fence_value, event) = match flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) {
        true => (0, arguments.Anonymous.CpuEventHandle()),
        false => (arguments.Anonymous.Fence().FenceValue, std::ptr::null_mut()),
    };
    let context = RawHandle(arguments.hContext);
    let objects = listed(&arguments.ObjectHandleArray, arguments.ObjectCount)?;
    let broadcast = listed(&arguments.BroadcastContext, arguments.BroadcastContextCount)?;
    with_event(caller, (event, true), |event| {
        let call = SyncCall::SignalSynchronizationObject2 { context, objects, broadcast, fence_value, event, flags };
        caller.process.call(Call::Sync(call))
    })?;
    Ok(NtStatus::SUCCESS)
}

/// A new event, set when the fence has the value; the program closes the event as it closes any.
pub fn create_sync_file(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATESYNCFILE) -> Answer {
    let event = create(caller, true)?;
    let (fence, value) = (arguments.hMonitoredFence, arguments.FenceValue);
    let waits = wait_for_synchronization_object_from_cpu(
        caller,
        &D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: arguments.hDevice,
            ObjectCount: 1,
            ObjectHandleArray: &raw const fence,
            FenceValueArray: &raw const value,
            hAsyncEvent: event,
            ..D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::zeroed()
        },
    );
    if let Err(refusal) = waits {
        close(caller, event)?;
        return Err(refusal);
    }
    arguments.hSyncFile = event.addr() as u64;
    Ok(NtStatus::SUCCESS)
}
