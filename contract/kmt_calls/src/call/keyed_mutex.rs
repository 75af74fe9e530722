//! Calls on keyed mutexes: processes hand a shared resource on from one to the next by keys. None names a device or an adapter.

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

bitflags::bitflags! {
    /// `D3DKMT_CREATEKEYEDMUTEX2_FLAGS`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct KeyedMutexFlags: u32 {
        /// It goes round with its resource by NT handle, and has no global handle.
        const NT_SECURITY_SHARING = 1 << 0;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }
}

/// A call on a keyed mutex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyedMutexCall {
    /// `D3DKMTCreateKeyedMutex2` → `KeyedMutex`; free, with fence value 0.
    Create {
        /// `InitialValue`: the first to acquire this key has it first.
        initial_key: u64,
        /// Flags of the call.
        flags: KeyedMutexFlags,
        /// The runtime's data: none with the first form.
        runtime_data: Vec<u8>,
    },
    /// `D3DKMTOpenKeyedMutex2` → `Handle`, for the process.
    Open {
        /// `hSharedHandle`, the global handle.
        shared: RawHandle,
        /// Data for a mutex that has no data of a runtime yet; else none, or as many bytes as it has, and they stay as they are.
        runtime_data: Vec<u8>,
    },
    /// `D3DKMTOpenKeyedMutexFromNtHandle`: `OBJECT_TYPE_MISMATCH`, because no keyed mutex has an NT handle for itself alone.
    OpenFromNtHandle {
        /// An NT handle.
        handle: u64,
    },
    /// `D3DKMTDestroyKeyedMutex`: the last of a shared one destroys it. The owner's destruction of its handle abandons the mutex.
    Destroy {
        /// The keyed mutex.
        mutex: RawHandle,
    },
    /// `D3DKMTAcquireKeyedMutex2` → `AcquiredKeyedMutex` when it was released with this key and has no owner; `TIMEOUT`; `ABANDONED`.
    Acquire {
        /// The keyed mutex.
        mutex: RawHandle,
        /// `Key`.
        key: u64,
        /// How long the call waits at most, in units of 100 ns; 0: not at all, `None`: for ever.
        timeout_100ns: Option<u64>,
        /// How many bytes of the runtime's data the caller has room for: 0, or as many as there are.
        runtime_data_bytes: u32,
    },
    /// `D3DKMTReleaseKeyedMutex2`, through the handle that has it.
    Release {
        /// The keyed mutex.
        mutex: RawHandle,
        /// `Key`: a process that acquires this one has it next.
        key: u64,
        /// `FenceValue`: the value that the next owner is told.
        fence_value: u64,
        /// The runtime's data from now on, as many bytes as at the creation; none: they stay as they are.
        runtime_data: Vec<u8>,
    },
}

impl KeyedMutexCall {
    /// The name of the `D3DKMT` function, without its prefix.
    pub const fn name(&self) -> &'static str {
        match self {
            KeyedMutexCall::Create { .. } => "CreateKeyedMutex2",
            KeyedMutexCall::Open { .. } => "OpenKeyedMutex2",
            KeyedMutexCall::OpenFromNtHandle { .. } => "OpenKeyedMutexFromNtHandle",
            KeyedMutexCall::Destroy { .. } => "DestroyKeyedMutex",
            KeyedMutexCall::Acquire { .. } => "AcquireKeyedMutex2",
            KeyedMutexCall::Release { .. } => "ReleaseKeyedMutex2",
        }
    }
}

/// A keyed mutex as its creator has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedKeyedMutex {
    /// The handle.
    pub mutex: RawHandle,
    /// `hSharedHandle`, the global handle; NONE with NtSecuritySharing.
    pub global_share: RawHandle,
}

/// The caller has it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquiredKeyedMutex {
    /// `FenceValue`: the value of the last release.
    pub fence_value: u64,
    /// The runtime's data, if they were asked for.
    pub runtime_data: Vec<u8>,
}
