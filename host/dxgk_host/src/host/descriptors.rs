//! Descriptors that stand for NT handles, for processes here and elsewhere.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError};

use dxgkrnl::{NtHandleNumber, ObjectNumber};
use kmt_calls::Refusal;
use kmt_link::Descriptors;
use wddm_types::{Blame, NtStatus, ProcessId};

use super::Host;

impl Host {
    /// A descriptor for an NT handle of a process. From now on no process can close the handle: it goes with the last copy of the descriptor.
    ///
    /// # Errors
    /// `INVALID_HANDLE` when the process has no such NT handle; `NO_MEMORY` when the operating system has no descriptor left for it, or no
    /// watch. Then the NT handle is the process's still.
    // spec: sync §2.2
    pub fn nt_descriptor(self: &Arc<Self>, process: ProcessId, handle: u64) -> Result<OwnedFd, Refusal> {
        // This lock covers both steps: every descriptor names an NT handle that the kernel keeps.
        let mut kept = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        let descriptors = self.kept_descriptors(&mut kept).map_err(|error| no_memory(error.to_string()))?;
        // The descriptor comes first, and gets its name when the kernel keeps the NT handle.
        let none_left =
            |error| no_memory(format!("the operating system gives no descriptor for an NT handle: {error}"));
        let unnamed = descriptors.unnamed().map_err(none_left)?;
        self.hold_sound()?.turn(|machine, _| machine.keep_nt_handle(process, NtHandleNumber::from_raw(handle)))?;
        Ok(descriptors.name(unnamed, handle))
    }

    /// The NT handle that a descriptor stands for.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for any other descriptor.
    // spec: memory §9.3
    pub fn nt_handle_of(&self, descriptor: BorrowedFd<'_>) -> Result<u64, Refusal> {
        let kept = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().and_then(|kept| kept.handle(descriptor)).ok_or_else(|| Refusal {
            status: NtStatus::INVALID_HANDLE,
            blame: Blame::Caller,
            reason: "a descriptor that stands for no NT handle of this kernel".into(),
            bytes_to_trim: 0,
        })
    }

    /// Whether quotas may count what closed descriptors keep: some were given out.
    pub(super) fn gives_descriptors(&self) -> bool {
        self.descriptors.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// NT handles whose last descriptor was closed are closed, before a call asks for something of others.
    pub(super) fn close_nt_handles(&self) {
        let kept = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.as_ref() {
            kept.settle();
        }
    }

    /// Makes ready for NT handles as descriptors: a program may give up the rights for that later.
    ///
    /// # Errors
    /// When the operating system gives no thread, no descriptor or no instance of `inotify`.
    pub fn prepare_descriptors(self: &Arc<Self>) -> io::Result<()> {
        let mut kept = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        self.kept_descriptors(&mut kept).map(drop)
    }

    fn kept_descriptors<'a>(self: &Arc<Self>, kept: &'a mut Option<Descriptors>) -> io::Result<&'a mut Descriptors> {
        let descriptors = match kept.take() {
            Some(descriptors) => descriptors,
            None => {
                let host = Arc::downgrade(self);
                Descriptors::new(Box::new(move |handle| {
                    let Some(host) = host.upgrade() else { return };
                    if let Ok(mut state) = host.hold_sound() {
                        state.turn(|machine, cx| machine.close_kept_nt_handle(cx, NtHandleNumber::from_raw(handle)));
                    }
                }))?
            }
        };
        Ok(kept.insert(descriptors))
    }
}

fn no_memory(reason: String) -> Refusal {
    Refusal { status: NtStatus::NO_MEMORY, blame: Blame::Scarcity, reason: reason.into(), bytes_to_trim: 0 }
}
