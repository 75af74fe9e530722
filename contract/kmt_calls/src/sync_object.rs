//! Input and answers of the calls that create synchronization objects (sync §2.1, §2.2).

use serde::{Deserialize, Serialize};
use wddm_types::{CpuVa, GpuVa, RawHandle, WordAddress};

use crate::call::FenceFlags;

/// The input of `D3DKMT_CREATENATIVEFENCE` (sync §2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeFenceRequest {
    /// Initial CurrentValue.
    pub initial_value: u64,
    /// `D3DDDI_NATIVEFENCE_TYPE` as a number: 0 DEFAULT, 1 INTRA_GPU; others are refused.
    pub fence_type: u32,
    /// `D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS`.
    pub flags: FenceFlags,
    /// Bit n: map it for physical adapter n of the link; 0: for all.
    pub engine_affinity: u32,
    /// For the driver.
    pub private_data: FencePrivateData,
}

/// The input of `D3DKMT_OPENNATIVEFENCEFROMNTHANDLE` (sync §2.1), and of `D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2` (sync §2.2) as
/// far as that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSyncObjectRequest {
    /// The NT handle.
    pub handle: u64,
    /// Bit n: map it for physical adapter n of the link; 0: for all.
    pub engine_affinity: u32,
    /// The limits of this device's open: NoSignal, NoWait, NoSignalMaxValueOnTdr.
    pub flags: FenceFlags,
    /// For the driver; not of the second call.
    pub private_data: FencePrivateData,
}

/// `D3DDDI_NATIVE_FENCE_PDD_SIZE` bytes from the user-mode driver to its kernel-mode driver and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[[u8; 32]; 2]", into = "[[u8; 32]; 2]")]
pub struct FencePrivateData(pub [u8; 64]);

// On the wire it is two halves: serialization knows arrays of up to 32.
impl From<[[u8; 32]; 2]> for FencePrivateData {
    fn from(halves: [[u8; 32]; 2]) -> Self {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(halves.as_flattened());
        FencePrivateData(bytes)
    }
}

impl From<FencePrivateData> for [[u8; 32]; 2] {
    fn from(data: FencePrivateData) -> Self {
        let (first, second) = data.0.split_at(32);
        [first, second].map(|half| half.try_into().expect("a half"))
    }
}

impl Default for FencePrivateData {
    fn default() -> Self {
        FencePrivateData([0; 64])
    }
}

bitflags::bitflags! {
    /// The access that a name of a shared synchronization object gives (`dwDesiredAccess` of `D3DKMTShareObjects`, sync §2.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SyncObjectAccess: u32 {
        /// `D3DDDI_SYNC_OBJECT_WAIT`.
        const WAIT = 0x1;
        /// `D3DDDI_SYNC_OBJECT_SIGNAL`.
        const SIGNAL = 0x2;
        /// Without it a process that opens the object has no access at all.
        const STANDARD_RIGHTS_READ = 0x2_0000;
        /// `D3DDDI_SYNC_OBJECT_ALL_ACCESS`.
        const ALL_ACCESS = 0x1f_0003;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }
}

/// `D3DDDI_SYNCHRONIZATIONOBJECTINFO2`: the type with its arm of the union (sync §1.1, §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncObjectKind {
    /// 1, `D3DDDI_SYNCHRONIZATION_MUTEX`.
    MutexObject {
        /// `InitialState`: it is owned.
        owned: bool,
    },
    /// 2, `D3DDDI_SEMAPHORE`.
    Semaphore {
        /// `MaxCount`.
        max_count: u32,
        /// `InitialCount`.
        initial_count: u32,
    },
    /// 3, `D3DDDI_FENCE`, of software packets.
    Fence {
        /// `FenceValue`, initial.
        value: u64,
    },
    /// 4, `D3DDDI_CPU_NOTIFICATION`.
    CpuNotification {
        /// `Event`, of `CreateEvent`.
        event: RawHandle,
    },
    /// 5, `D3DDDI_MONITORED_FENCE`.
    MonitoredFence {
        /// `InitialFenceValue`.
        initial_value: u64,
        /// `EngineAffinity`: bit n, it has an address on physical adapter n; 0: on all.
        engine_affinity: u32,
    },
    /// 6, `D3DDDI_PERIODIC_MONITORED_FENCE`.
    PeriodicMonitoredFence {
        /// `VidPnTargetId`.
        target: u32,
        /// `Time`: before VSync, in units of 100 ns.
        time_100ns: u64,
        /// As of a monitored fence.
        engine_affinity: u32,
    },
    /// A number that this call does not know. 7, a native fence, has a call of its own.
    Other(u32),
}

impl SyncObjectKind {
    /// `D3DDDI_SYNCHRONIZATIONOBJECT_TYPE` (sync §1.1).
    pub const fn number(&self) -> u32 {
        match *self {
            SyncObjectKind::MutexObject { .. } => 1,
            SyncObjectKind::Semaphore { .. } => 2,
            SyncObjectKind::Fence { .. } => 3,
            SyncObjectKind::CpuNotification { .. } => 4,
            SyncObjectKind::MonitoredFence { .. } => 5,
            SyncObjectKind::PeriodicMonitoredFence { .. } => 6,
            SyncObjectKind::Other(number) => number,
        }
    }
}

/// The input of `D3DKMT_CREATESYNCHRONIZATIONOBJECT2` (sync §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncObjectRequest {
    /// The type, with its members.
    pub kind: SyncObjectKind,
    /// `D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS`.
    pub flags: FenceFlags,
}

/// A synchronization object without a word in memory as its creator has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedSyncObject {
    /// The handle.
    pub object: RawHandle,
    /// `SharedHandle`: the global handle, if it is shared that way; else NONE.
    pub global_share: RawHandle,
}

/// How the CPU's mapping of a fence's word is cached (sync §1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CpuCaching {
    /// Write-back: the platform keeps the caches coherent.
    WriteBack,
    /// Uncached: it does not.
    Uncached,
}

/// A monitored fence as its creator sees it: the outputs of the union's arm (sync §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedMonitoredFence {
    /// The handle.
    pub fence: RawHandle,
    /// `FenceValueCPUVirtualAddress`: the word, to be mapped read-only.
    pub value: WordAddress,
    /// `FenceValueGPUVirtualAddress`: the same for the GPU, read/write. NULL: it has no GPU access, or the CPU address is used.
    pub value_va: GpuVa,
    /// The word's CPU address in the process, where the GPU uses that: in the IoMmu model (sync §1.5). NULL on other adapters.
    pub value_cpu_va: CpuVa,
    /// How the CPU's mapping is cached.
    pub caching: CpuCaching,
    /// Bits of the word: 64, or 32 where the GPU updates no more (`No64BitAtomics`); then they are the value's lower half.
    pub bits: u32,
}
