//! Keyed mutexes. The first forms of their functions are the second ones without the runtime's data.

use std::time::{SystemTime, UNIX_EPOCH};

use d3dkmt_abi::*;
use kmt_calls::{Call, CreatedKeyedMutex, KeyedMutexCall, KeyedMutexFlags, Refusal, Reply};
use wddm_types::{NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::event::handle::nt_handle;
use crate::refusal::expect_reply;

/// From January 1, 1601, where absolute times begin, to 1970, in units of 100 ns.
const TO_1970_100NS: u64 = 11_644_473_600 * 10_000_000;

fn call(caller: &Caller<'_>, call: KeyedMutexCall) -> Result<Reply, Refusal> {
    caller.process.call(Call::KeyedMutex(call))
}

fn create(
    caller: &Caller<'_>,
    initial_key: u64,
    flags: KeyedMutexFlags,
    runtime_data: Vec<u8>,
) -> Result<CreatedKeyedMutex, Refusal> {
    let reply = call(caller, KeyedMutexCall::Create { initial_key, flags, runtime_data })?;
    Ok(expect_reply!(reply, Reply::KeyedMutex(created) => created))
}

pub fn create_keyed_mutex(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATEKEYEDMUTEX) -> Answer {
    let created = create(caller, arguments.InitialValue, KeyedMutexFlags::empty(), Vec::new())?;
    (arguments.hKeyedMutex, arguments.hSharedHandle) = (created.mutex.0, created.global_share.0);
    Ok(NtStatus::SUCCESS)
}

pub fn create_keyed_mutex2(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATEKEYEDMUTEX2) -> Answer {
    let data = caller.bytes(arguments.pPrivateRuntimeData, arguments.PrivateRuntimeDataSize)?;
    let flags = KeyedMutexFlags::from_bits_retain(arguments.Flags.Value);
    let created = create(caller, arguments.InitialValue, flags, data)?;
    (arguments.hKeyedMutex, arguments.hSharedHandle) = (created.mutex.0, created.global_share.0);
    Ok(NtStatus::SUCCESS)
}

pub fn open_keyed_mutex(caller: &Caller<'_>, arguments: &mut D3DKMT_OPENKEYEDMUTEX) -> Answer {
    let shared = RawHandle(arguments.hSharedHandle);
    let reply = call(caller, KeyedMutexCall::Open { shared, runtime_data: Vec::new() })?;
    arguments.hKeyedMutex = expect_reply!(reply, Reply::Handle(mutex) => mutex.0);
    Ok(NtStatus::SUCCESS)
}

/// The runtime's data are input: what the mutex gets if it has none yet.
// spec: sync §2.2
pub fn open_keyed_mutex2(caller: &Caller<'_>, arguments: &mut D3DKMT_OPENKEYEDMUTEX2) -> Answer {
    let runtime_data = caller.bytes(arguments.pPrivateRuntimeData, arguments.PrivateRuntimeDataSize)?;
    let shared = RawHandle(arguments.hSharedHandle);
    let reply = call(caller, KeyedMutexCall::Open { shared, runtime_data })?;
    arguments.hKeyedMutex = expect_reply!(reply, Reply::Handle(mutex) => mutex.0);
    Ok(NtStatus::SUCCESS)
}

/// No NT handle is of a keyed mutex alone: one of a resource opens the mutex with it.
// spec: sync §2.2 (allowed sets)
pub fn open_keyed_mutex_from_nt_handle(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE,
) -> Answer {
    let handle = nt_handle(caller, arguments.hNtHandle)?;
    let reply = call(caller, KeyedMutexCall::OpenFromNtHandle { handle })?;
    arguments.hKeyedMutex = expect_reply!(reply, Reply::Handle(mutex) => mutex.0);
    Ok(NtStatus::SUCCESS)
}

pub fn destroy_keyed_mutex(caller: &Caller<'_>, arguments: &D3DKMT_DESTROYKEYEDMUTEX) -> Answer {
    call(caller, KeyedMutexCall::Destroy { mutex: RawHandle(arguments.hKeyedMutex) })?;
    Ok(NtStatus::SUCCESS)
}

/// How long a call waits at most; `None`: for ever. A negative time is from now on, a positive one begins with 1601.
fn timeout(caller: &Caller<'_>, time: *const LARGE_INTEGER) -> Result<Option<u64>, Refusal> {
    if time.is_null() {
        return Ok(None);
    }
    let time = caller.array(time, 1)?[0];
    if time <= 0 {
        return Ok(Some(time.unsigned_abs()));
    }
    // A clock before 1970 is wrong, and the time has come.
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // CAST: some thousand years.
    let now = TO_1970_100NS.saturating_add((since_1970.as_nanos() / 100) as u64);
    Ok(Some(time.unsigned_abs().saturating_sub(now)))
}

/// The status, and the fence value, which is 0 with each but success. With success the data are written, too.
fn acquire(
    caller: &Caller<'_>,
    (mutex, key, time): (D3DKMT_HANDLE, UINT64, *const LARGE_INTEGER),
    (data, runtime_data_bytes): (*mut VOID, UINT),
) -> Result<(NtStatus, u64), Refusal> {
    let room = caller.room::<u8>(data.cast(), runtime_data_bytes)?;
    let timeout_100ns = timeout(caller, time)?;
    let mutex = RawHandle(mutex);
    match call(caller, KeyedMutexCall::Acquire { mutex, key, timeout_100ns, runtime_data_bytes }) {
        Ok(reply) => {
            let acquired = expect_reply!(reply, Reply::AcquiredKeyedMutex(acquired) => acquired);
            room.write(&acquired.runtime_data);
            Ok((NtStatus::SUCCESS, acquired.fence_value))
        }
        Err(refusal) if [NtStatus::TIMEOUT, NtStatus::ABANDONED].contains(&refusal.status) => Ok((refusal.status, 0)),
        Err(refusal) => Err(refusal),
    }
}

pub fn acquire_keyed_mutex(caller: &Caller<'_>, arguments: &mut D3DKMT_ACQUIREKEYEDMUTEX) -> Answer {
    let wanted = (arguments.hKeyedMutex, arguments.Key, arguments.pTimeout.cast_const());
    let (status, fence_value) = acquire(caller, wanted, (std::ptr::null_mut(), 0))?;
    arguments.FenceValue = fence_value;
    Ok(status)
}

pub fn acquire_keyed_mutex2(caller: &Caller<'_>, arguments: &mut D3DKMT_ACQUIREKEYEDMUTEX2) -> Answer {
    let wanted = (arguments.hKeyedMutex, arguments.Key, arguments.pTimeout.cast_const());
    let room = (arguments.pPrivateRuntimeData, arguments.PrivateRuntimeDataSize);
    let (status, fence_value) = acquire(caller, wanted, room)?;
    arguments.FenceValue = fence_value;
    Ok(status)
}

fn release(caller: &Caller<'_>, mutex: D3DKMT_HANDLE, key: u64, fence_value: u64, runtime_data: Vec<u8>) -> Answer {
    match call(caller, KeyedMutexCall::Release { mutex: RawHandle(mutex), key, fence_value, runtime_data }) {
        Ok(_) => Ok(NtStatus::SUCCESS),
        Err(refusal) if refusal.status == NtStatus::ABANDONED => Ok(NtStatus::ABANDONED),
        Err(refusal) => Err(refusal),
    }
}

pub fn release_keyed_mutex(caller: &Caller<'_>, arguments: &mut D3DKMT_RELEASEKEYEDMUTEX) -> Answer {
    release(caller, arguments.hKeyedMutex, arguments.Key, arguments.FenceValue, Vec::new())
}

pub fn release_keyed_mutex2(caller: &Caller<'_>, arguments: &mut D3DKMT_RELEASEKEYEDMUTEX2) -> Answer {
    let data = caller.bytes(arguments.pPrivateRuntimeData, arguments.PrivateRuntimeDataSize)?;
    release(caller, arguments.hKeyedMutex, arguments.Key, arguments.FenceValue, data)
}
