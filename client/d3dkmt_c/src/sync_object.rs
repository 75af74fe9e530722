//! Synchronization objects: creation, opening, waits and signals.

use d3dkmt_abi::*;
use kmt_calls::{
    Call, CreatedFence, CreatedMonitoredFence, FenceFlags, OpenSyncObjectRequest, Refusal, Reply, SignalFlags,
    SyncCall, SyncObjectKind, SyncObjectRequest, WaitFlags,
};
use wddm_types::{CpuVa, GpuVa, NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::event::handle::{nt_handle, object_gone, serves, set_of_refused_wait, with_event};
use crate::event::nt_handle_behind_device;
use crate::handle::{handles, points};
use crate::refusal::{expect_reply, invalid};

/// The address of a word that a GPU uses: its GPU address, or in the IoMmu model the process's address (sync §1.5).
pub fn for_gpu(gpu: GpuVa, cpu: CpuVa) -> u64 {
    if cpu.is_null() { gpu.0 } else { cpu.for_gpu().0 }
}

// spec: sync §2.2
pub fn create_synchronization_object2(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_CREATESYNCHRONIZATIONOBJECT2,
) -> Answer {
    let info = &mut arguments.Info;
    let flags = FenceFlags::from_bits_retain(info.Flags.Value);
    let device = RawHandle(arguments.hDevice);
    let notified = match info.Type {
        D3DDDI_CPU_NOTIFICATION => info.Anonymous.CPUNotification().Event,
        _ => std::ptr::null_mut(),
    };
    let (reply, event) = with_event(caller, (notified, false), |event| {
        let request = SyncObjectRequest { kind: kind(info, event)?, flags };
        caller.process.call(Call::Sync(SyncCall::CreateSynchronizationObject2 { device, request }))
    })?;
    info.SharedHandle = 0;
    match reply {
        Reply::SyncObject(created) => {
            caller.process.has_no_word(created.object);
            if event != RawHandle::NONE {
                serves(caller, created.object, event);
            }
            arguments.hSyncObject = created.object.0;
            info.SharedHandle = created.global_share.0;
        }
        Reply::MonitoredFence(created) => {
            caller.process.has_word(created.fence);
            arguments.hSyncObject = created.fence.0;
            let undo = Call::Sync(SyncCall::DestroySynchronizationObject { fence: created.fence });
            let value = caller.process.word_of_new(created.value, undo)?;
            let gpu_va = for_gpu(created.value_va, created.value_cpu_va);
            if info.Type == D3DDDI_PERIODIC_MONITORED_FENCE {
                let mut arm = info.Anonymous.PeriodicMonitoredFence();
                (arm.FenceValueCPUVirtualAddress, arm.FenceValueGPUVirtualAddress) = (value, gpu_va);
                info.Anonymous.PeriodicMonitoredFence = arm;
            } else {
                let mut arm = info.Anonymous.MonitoredFence();
                (arm.FenceValueCPUVirtualAddress, arm.FenceValueGPUVirtualAddress) = (value, gpu_va);
                info.Anonymous.MonitoredFence = arm;
            }
        }
        other => return Err(crate::refusal::unexpected(&other)),
    }
    Ok(NtStatus::SUCCESS)
}

/// The arm of the union that the type names; `event` is that of a CPU notification.
// spec: sync §1.1, sync §2.2
fn kind(info: &D3DDDI_SYNCHRONIZATIONOBJECTINFO2, event: RawHandle) -> Result<SyncObjectKind, Refusal> {
    Ok(match info.Type {
        D3DDDI_SYNCHRONIZATION_MUTEX => {
            SyncObjectKind::MutexObject { owned: info.Anonymous.SynchronizationMutex().InitialState != 0 }
        }
        D3DDDI_SEMAPHORE => {
            let D3DDDI_SEMAPHORE_ARM { MaxCount, InitialCount } = info.Anonymous.Semaphore();
            SyncObjectKind::Semaphore { max_count: MaxCount, initial_count: InitialCount }
        }
        D3DDDI_FENCE => SyncObjectKind::Fence { value: info.Anonymous.Fence().FenceValue },
        D3DDDI_CPU_NOTIFICATION => SyncObjectKind::CpuNotification { event },
        D3DDDI_MONITORED_FENCE => {
            let arm = info.Anonymous.MonitoredFence();
            // spec: sync §2.2: what only a fence with a GPU address needs
            let for_gpu = !FenceFlags::from_bits_retain(info.Flags.Value).contains(FenceFlags::NO_GPU_ACCESS);
            if for_gpu && arm.Padding != 0 {
                return Err(invalid(format!("Padding is {}, and it must be 0", arm.Padding)));
            }
            SyncObjectKind::MonitoredFence { initial_value: arm.InitialFenceValue, engine_affinity: arm.EngineAffinity }
        }
        D3DDDI_PERIODIC_MONITORED_FENCE => {
            let arm = info.Anonymous.PeriodicMonitoredFence();
            if arm.Padding != 0 {
                return Err(invalid(format!("Padding is {}, and it must be 0", arm.Padding)));
            }
            SyncObjectKind::PeriodicMonitoredFence {
                target: arm.VidPnTargetId,
                time_100ns: arm.Time,
                engine_affinity: arm.EngineAffinity,
            }
        }
        // CAST: a number that is no type, whatever its sign.
        other => SyncObjectKind::Other(other as u32),
    })
}

/// The first form knows mutexes and semaphores.
pub fn create_synchronization_object(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_CREATESYNCHRONIZATIONOBJECT,
) -> Answer {
    let kind = match arguments.Info.Type {
        D3DDDI_SYNCHRONIZATION_MUTEX => {
            SyncObjectKind::MutexObject { owned: arguments.Info.Anonymous.SynchronizationMutex().InitialState != 0 }
        }
        D3DDDI_SEMAPHORE => {
            let D3DDDI_SEMAPHORE_ARM { MaxCount, InitialCount } = arguments.Info.Anonymous.Semaphore();
            SyncObjectKind::Semaphore { max_count: MaxCount, initial_count: InitialCount }
        }
        other => {
            return Err(invalid(format!(
                "type {other} is neither a mutex nor a semaphore; use D3DKMTCreateSynchronizationObject2"
            )));
        }
    };
    let request = SyncObjectRequest { kind, flags: FenceFlags::empty() };
    let device = RawHandle(arguments.hDevice);
    let reply = caller.process.call(Call::Sync(SyncCall::CreateSynchronizationObject2 { device, request }))?;
    let created = expect_reply!(reply, Reply::SyncObject(created) => created);
    caller.process.has_no_word(created.object);
    arguments.hSyncObject = created.object.0;
    Ok(NtStatus::SUCCESS)
}

pub fn destroy_synchronization_object(caller: &Caller<'_>, arguments: &D3DKMT_DESTROYSYNCHRONIZATIONOBJECT) -> Answer {
    let fence = RawHandle(arguments.hSyncObject);
    caller.process.call(Call::Sync(SyncCall::DestroySynchronizationObject { fence }))?;
    object_gone(caller, fence);
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.2
pub fn open_synchronization_object(caller: &Caller<'_>, arguments: &mut D3DKMT_OPENSYNCHRONIZATIONOBJECT) -> Answer {
    if arguments.Reserved != [0; 8] {
        return Err(invalid("Reserved is not 0"));
    }
    let shared = RawHandle(arguments.hSharedHandle);
    let reply = caller.process.call(Call::Sync(SyncCall::OpenSynchronizationObject { shared }))?;
    arguments.hSyncObject = wordless(caller, reply)?;
    Ok(NtStatus::SUCCESS)
}

fn wordless(caller: &Caller<'_>, reply: Reply) -> Result<u32, Refusal> {
    let object = expect_reply!(reply, Reply::Handle(object) => object);
    caller.process.has_no_word(object);
    Ok(object.0)
}

// spec: sync §2.2
pub fn open_sync_object_from_nt_handle(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_OPENSYNCOBJECTFROMNTHANDLE,
) -> Answer {
    let handle = nt_handle(caller, arguments.hNtHandle)?;
    let reply = caller.process.call(Call::Sync(SyncCall::OpenSyncObjectFromNtHandle { handle }))?;
    arguments.hSyncObject = wordless(caller, reply)?;
    Ok(NtStatus::SUCCESS)
}

/// Of a native fence this form tells CurrentValue alone.
// spec: sync §2.2
pub fn open_sync_object_from_nt_handle2(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2,
) -> Answer {
    let mut arm = arguments.Anonymous.MonitoredFence();
    let request = OpenSyncObjectRequest {
        handle: nt_handle_behind_device(caller, arguments.hNtHandle),
        engine_affinity: arm.EngineAffinity,
        flags: FenceFlags::from_bits_retain(arguments.Flags.Value),
        ..OpenSyncObjectRequest::default()
    };
    let device = RawHandle(arguments.hDevice);
    let reply = caller.process.call(Call::Sync(SyncCall::OpenSyncObjectFromNtHandle2 { device, request }))?;
    let (handle, word, gpu_va) = match reply {
        Reply::MonitoredFence(CreatedMonitoredFence { fence, value, value_va, value_cpu_va, .. }) => {
            (fence, value, for_gpu(value_va, value_cpu_va))
        }
        Reply::Fence(CreatedFence { fence, current, current_va, current_cpu_va, .. }) => {
            (fence, current, for_gpu(current_va, current_cpu_va))
        }
        reply => {
            arguments.hSyncObject = wordless(caller, reply)?;
            return Ok(NtStatus::SUCCESS);
        }
    };
    caller.process.has_word(handle);
    arguments.hSyncObject = handle.0;
    let undo = Call::Sync(SyncCall::DestroySynchronizationObject { fence: handle });
    arm.FenceValueCPUVirtualAddress = caller.process.word_of_new(word, undo)?;
    arm.FenceValueGPUVirtualAddress = gpu_va;
    arguments.Anonymous.MonitoredFence = arm;
    Ok(NtStatus::SUCCESS)
}

/// With an event the answer comes at once, and the event later; without, the calling thread waits.
// spec: sync §2.4
pub fn wait_for_synchronization_object_from_cpu(
    caller: &Caller<'_>,
    arguments: &D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
) -> Answer {
    let device = RawHandle(arguments.hDevice);
    let points = points(caller, arguments.ObjectHandleArray, arguments.FenceValueArray, arguments.ObjectCount)?;
    let flags = WaitFlags::from_bits_retain(arguments.Flags.Value);
    let waited = with_event(caller, (arguments.hAsyncEvent, true), |async_event| {
        let call = SyncCall::WaitForSynchronizationObjectFromCpu { device, points, async_event, flags };
        caller.process.call(Call::Sync(call))
    });
    if let Err(refusal) = &waited
        && refusal.status == NtStatus::ACCESS_DENIED
    {
        set_of_refused_wait(caller, arguments.hAsyncEvent);
    }
    waited.map(|_| NtStatus::SUCCESS)
}

// spec: sync §2.4
pub fn signal_synchronization_object_from_cpu(
    caller: &Caller<'_>,
    arguments: &D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU,
) -> Answer {
    caller.process.call(Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu {
        device: RawHandle(arguments.hDevice),
        points: points(caller, arguments.ObjectHandleArray, arguments.FenceValueArray, arguments.ObjectCount)?,
        flags: SignalFlags::from_bits_retain(arguments.Flags.Value),
    }))?;
    Ok(NtStatus::SUCCESS)
}

/// Objects with the values of a union: one value for objects without a word in memory, an array with one each for fences that have it.
// spec: sync §2.4
fn union_points(
    caller: &Caller<'_>,
    list: *const D3DKMT_HANDLE,
    count: u32,
    values: *const u64,
) -> Result<Vec<(RawHandle, u64)>, Refusal> {
    let objects = handles(caller, list, count)?;
    if objects.iter().any(|object| caller.process.is_without_word(*object)) {
        // The other arm: the number itself.
        let value = values.addr() as u64;
        return Ok(objects.into_iter().map(|object| (object, value)).collect());
    }
    Ok(objects.into_iter().zip(caller.array(values, count)?).collect())
}

// spec: sync §2.4
pub fn wait_for_synchronization_object_from_gpu(
    caller: &Caller<'_>,
    arguments: &D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
) -> Answer {
    let (list, count) = (arguments.ObjectHandleArray, arguments.ObjectCount);
    caller.process.call(Call::Sync(SyncCall::WaitForSynchronizationObjectFromGpu {
        context: RawHandle(arguments.hContext),
        points: union_points(caller, list, count, arguments.Anonymous.MonitoredFenceValueArray())?,
    }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.4
pub fn signal_synchronization_object_from_gpu(
    caller: &Caller<'_>,
    arguments: &D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU,
) -> Answer {
    let (list, count) = (arguments.ObjectHandleArray, arguments.ObjectCount);
    caller.process.call(Call::Sync(SyncCall::SignalSynchronizationObjectFromGpu {
        context: RawHandle(arguments.hContext),
        points: union_points(caller, list, count, arguments.Anonymous.MonitoredFenceValueArray())?,
    }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.4
pub fn signal_synchronization_object_from_gpu2(
    caller: &Caller<'_>,
    arguments: &D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2,
) -> Answer {
    let flags = SignalFlags::from_bits_retain(arguments.Flags.Value);
    let (list, count) = (arguments.ObjectHandleArray, arguments.ObjectCount);
    let (points, event) = match flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) {
        true => (
            handles(caller, list, count)?.into_iter().map(|object| (object, 0)).collect(),
            arguments.Anonymous.CpuEventHandle(),
        ),
        false => {
            let values = arguments.Anonymous.MonitoredFenceValueArray();
            (union_points(caller, list, count, values)?, std::ptr::null_mut())
        }
    };
    let contexts = handles(caller, arguments.BroadcastContextArray, arguments.BroadcastContextCount)?;
    with_event(caller, (event, true), |event| {
        let call = SyncCall::SignalSynchronizationObjectFromGpu2 { contexts, points, event, flags };
        caller.process.call(Call::Sync(call))
    })?;
    Ok(NtStatus::SUCCESS)
}
