//! The refusals of calls that brought no answer of the kernel.

use kmt_calls::Refusal;
use rustix::io::Errno;
use wddm_types::{Blame, NtStatus};

use super::lanes::no_descriptor;
use super::packet::PacketError;

/// The refusal of a call that brought no answer: the kernel either never read the call, or may have made it.
pub(super) fn unasked(error: PacketError) -> Refusal {
    match error {
        PacketError::NoLane(reason) => {
            Refusal { status: NtStatus::NO_MEMORY, blame: Blame::Quota, reason: reason.into(), bytes_to_trim: 0 }
        }
        PacketError::Forked => {
            let reason = format!("{error}; open a connection of its own");
            Refusal { status: NtStatus::NOT_SUPPORTED, blame: Blame::Caller, reason: reason.into(), bytes_to_trim: 0 }
        }
        PacketError::GivenUp(_) => {
            let reason = error.to_string().into();
            Refusal { status: NtStatus::DEVICE_REMOVED, blame: Blame::Scarcity, reason, bytes_to_trim: 0 }
        }
        // The kernel lives, and so do the other lanes of this process.
        PacketError::System(errno @ (Errno::MFILE | Errno::NFILE)) => scarce(no_descriptor(errno)),
        PacketError::System(Errno::NOMEM | Errno::NOBUFS | Errno::TOOMANYREFS) | PacketError::TooLong(_) => {
            scarce(error.to_string())
        }
        error => gone(error.to_string()),
    }
}

/// This process, or its kernel, lacks what the call takes.
pub(super) fn scarce(reason: String) -> Refusal {
    Refusal { status: NtStatus::NO_MEMORY, blame: Blame::Scarcity, reason: reason.into(), bytes_to_trim: 0 }
}

/// The kernel has gone, or says what no kernel says.
pub(super) fn gone(reason: String) -> Refusal {
    Refusal {
        status: NtStatus::DEVICE_REMOVED,
        blame: Blame::Driver,
        reason: format!("the connection to the kernel is lost: {reason}").into(),
        bytes_to_trim: 0,
    }
}
