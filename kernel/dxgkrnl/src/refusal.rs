//! Refusals by blame, and how the rooms' own errors become statuses. `NtStatus` is chosen here and nowhere else in this
//! crate (memory §9, sync §5).

use std::borrow::Cow;

use ddi::DriverStatus;
use kmt_calls::Refusal;
use wddm_types::{Blame, NtStatus};

/// The caller is wrong.
pub fn invalid(reason: impl Into<Cow<'static, str>>) -> Refusal {
    refuse(NtStatus::INVALID_PARAMETER, Blame::Caller, reason)
}

/// Something is scarce.
pub fn no_memory(reason: impl Into<Cow<'static, str>>) -> Refusal {
    refuse(NtStatus::NO_MEMORY, Blame::Scarcity, reason)
}

/// Not built, or not on this adapter.
pub fn not_supported(reason: impl Into<Cow<'static, str>>) -> Refusal {
    refuse(NtStatus::NOT_SUPPORTED, Blame::Caller, reason)
}

/// The object's rights do not allow it.
pub fn access_denied(reason: impl Into<Cow<'static, str>>) -> Refusal {
    refuse(NtStatus::ACCESS_DENIED, Blame::Caller, reason)
}

/// The device or its adapter is lost.
pub fn removed(reason: impl Into<Cow<'static, str>>) -> Refusal {
    refuse(NtStatus::DEVICE_REMOVED, Blame::Driver, reason)
}

/// Any status.
pub fn refuse(status: NtStatus, blame: Blame, reason: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal { status, blame, reason: reason.into(), bytes_to_trim: 0 }
}

/// Passes a driver's answer on to the caller.
pub fn from_driver(status: DriverStatus) -> Refusal {
    let (code, blame) = match status {
        DriverStatus::InvalidParameter(_) => (NtStatus::INVALID_PARAMETER, Blame::Caller),
        DriverStatus::NoMemory(_) => (NtStatus::NO_MEMORY, Blame::Scarcity),
        DriverStatus::NotSupported(_) => (NtStatus::NOT_SUPPORTED, Blame::Caller),
        DriverStatus::Unsuccessful(_) => (NtStatus::UNSUCCESSFUL, Blame::Driver),
        // spec: memory §9.1, memory §9.2: NT_SUCCESS of it is true, so no caller may judge it by its severity
        DriverStatus::BufferTooSmall(_) => (NtStatus::BUFFER_TOO_SMALL, Blame::Caller),
        DriverStatus::DriverMismatch(_) => (NtStatus::GRAPHICS_DRIVER_MISMATCH, Blame::Caller),
    };
    refuse(code, blame, status.to_string())
}
