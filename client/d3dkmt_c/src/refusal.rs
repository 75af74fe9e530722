//! Refusals that are made here and not by the kernel.

use std::borrow::Cow;

use kmt_calls::{Refusal, Reply};
use wddm_types::{Blame, NtStatus};

/// A refusal of the caller's.
pub fn refuse(status: NtStatus, reason: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal { status, blame: Blame::Caller, reason: reason.into(), bytes_to_trim: 0 }
}

/// `INVALID_PARAMETER`.
pub fn invalid(reason: impl Into<Cow<'static, str>>) -> Refusal {
    refuse(NtStatus::INVALID_PARAMETER, reason)
}

/// `NOT_SUPPORTED`: for functions and flags that are not built.
pub fn not_supported(reason: impl Into<Cow<'static, str>>) -> Refusal {
    refuse(NtStatus::NOT_SUPPORTED, reason)
}

/// `UNSUCCESSFUL`: a fault of ours or of the operating system's.
pub fn unsuccessful(reason: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal { blame: Blame::Driver, ..refuse(NtStatus::UNSUCCESSFUL, reason) }
}

/// The kernel has answered a call with another call's reply: a fault of ours.
pub fn unexpected(reply: &Reply) -> Refusal {
    unsuccessful(format!("unexpected reply type from the kernel: {reply:?}"))
}

/// Takes the expected arm of a reply.
macro_rules! expect_reply {
    ($reply:expr, $pattern:pat => $value:expr) => {
        match $reply {
            $pattern => $value,
            other => return Err($crate::refusal::unexpected(&other)),
        }
    };
}
pub(crate) use expect_reply;
