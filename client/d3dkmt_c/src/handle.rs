//! Handles between C and call values: lists of the kernel's own, and the operating system's in a pointer's clothes.

use d3dkmt_abi::{D3DKMT_HANDLE, HANDLE};
use kmt_calls::Refusal;
use wddm_types::{NtStatus, RawHandle};

use crate::border::Caller;
use crate::refusal::refuse;

/// A list of the kernel's handles.
pub fn handles(caller: &Caller<'_>, list: *const D3DKMT_HANDLE, count: u32) -> Result<Vec<RawHandle>, Refusal> {
    Ok(caller.array(list, count)?.into_iter().map(RawHandle).collect())
}

/// Fences with their values.
pub fn points(
    caller: &Caller<'_>,
    list: *const D3DKMT_HANDLE,
    values: *const u64,
    count: u32,
) -> Result<Vec<(RawHandle, u64)>, Refusal> {
    Ok(handles(caller, list, count)?.into_iter().zip(caller.array(values, count)?).collect())
}

/// An event or a section by the handle that C programs hold. NULL is none.
// spec: memory §9.3: INVALID_HANDLE is for handles of the operating system
pub fn event_or_section(handle: HANDLE) -> Result<RawHandle, Refusal> {
    let number = u32::try_from(handle.addr());
    let refused = |_| refuse(NtStatus::INVALID_HANDLE, format!("{handle:?} is no handle of an event or a section"));
    number.map(RawHandle).map_err(refused)
}

/// The same for C programs.
pub fn in_c(handle: RawHandle) -> HANDLE {
    std::ptr::without_provenance_mut(handle.0 as usize)
}
