//! Calls on NT handles and names of shared objects (memory §2.7, sync §2.2).

use serde::{Deserialize, Serialize};
use wddm_types::{ProcessId, RawHandle};

use crate::allocation::ShareName;
use crate::sync_object::SyncObjectAccess;

/// A call on the NT handles by which shared objects go from process to process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShareCall {
    /// `D3DKMTShareObjects` → `NtHandle`. A fence lives as long as it has a handle; a resource as long as a device has it.
    ShareObjects {
        /// A resource or a synchronization object, created with NT_SECURITY_SHARING; or a resource, its keyed mutex, and a synchronization
        /// object without a word in memory, in this order.
        objects: Vec<RawHandle>,
        /// The access that the name gives to a process that opens a synchronization object by it.
        access: SyncObjectAccess,
        /// A name by which others get NT handles of their own (`ObjectName`); case makes no difference. It goes with the last of them.
        name: Option<String>,
    },
    /// `D3DKMTOpenSyncObjectNtHandleFromName`, `D3DKMTOpenNtHandleFromName` → `NtHandle`, which the caller closes.
    OpenNtHandleFromName {
        /// The name.
        name: String,
        /// `dwDesiredAccess`: of a synchronization object not more than it was shared with.
        access: u32,
        /// A synchronization object is wanted, else a resource.
        sync_object: bool,
    },
    /// `D3DKMTGetSharedResourceAdapterLuid` → `Adapters`, of one: the adapter that a shared resource is on.
    GetSharedResourceAdapterLuid {
        /// The resource.
        share: ShareName,
    },
    /// `D3DKMTCheckSharedResourceAccess`: a process may use a shared resource, or the call is refused with ACCESS_DENIED.
    CheckSharedResourceAccess {
        /// The caller's resource, or a global handle of a resource.
        resource: RawHandle,
        /// `ClientPid`: the kernel's number of the process.
        process: ProcessId,
    },
    /// An NT handle of its own, for a process that was told the token of another's → `NtHandle`. It names the same object, with the same
    /// access, and keeps it like every other.
    TakeNtHandle {
        /// The token.
        handle: u64,
    },
    /// The operating system's `CloseHandle` of an NT handle that this process got from ShareObjects, or of a process.
    CloseNtHandle {
        /// The NT handle.
        handle: u64,
    },
}

impl ShareCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            ShareCall::ShareObjects { .. } => "ShareObjects",
            ShareCall::OpenNtHandleFromName { sync_object: true, .. } => "OpenSyncObjectNtHandleFromName",
            ShareCall::OpenNtHandleFromName { .. } => "OpenNtHandleFromName",
            ShareCall::GetSharedResourceAdapterLuid { .. } => "GetSharedResourceAdapterLuid",
            ShareCall::CheckSharedResourceAccess { .. } => "CheckSharedResourceAccess",
            ShareCall::TakeNtHandle { .. } => "TakeNtHandle",
            ShareCall::CloseNtHandle { .. } => "CloseHandle",
        }
    }
}
