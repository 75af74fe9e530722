//! Flags of calls that no file of their own has. Unknown bits are kept everywhere, so that they can be refused.

use serde::{Deserialize, Serialize};

bitflags::bitflags! {
    /// `D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS` (sync §2.3).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct FenceFlags: u32 {
        /// The fence is shared.
        const SHARED = 1 << 0;
        /// By NT handle; requires SHARED.
        const NT_SECURITY_SHARING = 1 << 1;
        /// Across adapters.
        const CROSS_ADAPTER = 1 << 2;
        /// Monitored only: signalled when fetched.
        const TOP_OF_PIPELINE = 1 << 3;
        /// This device may only wait.
        const NO_SIGNAL = 1 << 4;
        /// This device may only signal.
        const NO_WAIT = 1 << 5;
        /// Not forced to the maximum on a reset.
        const NO_SIGNAL_MAX_VALUE_ON_TDR = 1 << 6;
        /// Not mapped on the GPU.
        const NO_GPU_ACCESS = 1 << 7;
        /// CPU notification only: the kernel-mode driver signals it.
        const SIGNAL_BY_KMD = 1 << 8;
        /// Shared: CPU waiters go on only when the last one destroys it.
        const UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY = 1 << 10;
        /// All that have a meaning.
        const DEFINED = 0x5ff;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// Flags of MakeResident (memory §5.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct MakeResidentFlags: u32 {
        /// May exceed the budget.
        const CANT_TRIM_FURTHER = 1 << 0;
        /// Failure puts the device in error; only with the bit before.
        const MUST_SUCCEED = 1 << 1;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// `D3DDDI_EVICT_FLAGS` (memory §5.3).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct EvictFlags: u32 {
        /// Stay until memory is short.
        const EVICT_ONLY_IF_NECESSARY = 1 << 0;
        /// The GPU did not write since made resident.
        const NOT_WRITTEN_TO = 1 << 1;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// `D3DDDICB_LOCKFLAGS` (memory §6.5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct LockFlags: u32 {
        /// The CPU only reads.
        const READ_ONLY = 1 << 0;
        /// The CPU only writes.
        const WRITE_ONLY = 1 << 1;
        /// Fail when the GPU uses it.
        const DONOT_WAIT = 1 << 2;
        /// Skip the busy check.
        const IGNORE_SYNC = 1 << 3;
        /// The whole allocation: no page list.
        const LOCK_ENTIRE = 1 << 4;
        /// Fail when it had to be evicted for this.
        const DONOT_EVICT = 1 << 5;
        /// Through a swizzling range.
        const ACQUIRE_APERTURE = 1 << 6;
        /// Rename: the old content is not needed.
        const DISCARD = 1 << 7;
        /// With DISCARD: no unsubmitted buffer names any instance.
        const NO_EXISTING_REFERENCE = 1 << 8;
        /// At an address that the driver chooses.
        const USE_ALTERNATE_VA = 1 << 9;
        /// Wait for GPU writes only.
        const IGNORE_READ_SYNC = 1 << 10;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// `D3DKMT_OFFER_FLAGS` (memory §5.9).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct OfferFlags: u32 {
        /// Not with the next submission but now. The kernel offers now in any case, and what submitted work still uses is
        /// thrown away only behind that work, with this flag or without.
        const OFFER_IMMEDIATELY = 1 << 0;
        /// The backing store may go too.
        const ALLOW_DECOMMIT = 1 << 1;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// `D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS` (sync §2.4).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct WaitFlags: u32 {
        /// Any object instead of all.
        const WAIT_ANY = 1 << 0;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// `D3DDDICB_SIGNALFLAGS` (sync §2.4).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SignalFlags: u32 {
        /// When what is before is submitted, not when it is done.
        const SIGNAL_AT_SUBMISSION = 1 << 0;
        /// No objects: an event is set.
        const ENQUEUE_CPU_EVENT = 1 << 1;
        /// The value may be lower than the present one.
        const ALLOW_FENCE_REWIND = 1 << 2;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// `D3DDDI_CREATEHWQUEUEFLAGS` (sync §2.5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct QueueFlags: u32 {
        /// No timeout detection.
        const DISABLE_GPU_TIMEOUT = 1 << 0;
        /// A signal that several queues give together does not wait for this one.
        const NO_BROADCAST_SIGNAL = 1 << 1;
        /// The same of waits. A wait names one queue here, so that there is none to be left out of.
        const NO_BROADCAST_WAIT = 1 << 2;
        /// Ring and doorbell.
        const USER_MODE_SUBMISSION = 1 << 4;
        /// Reported back: the progress fence is native.
        const NATIVE_PROGRESS_FENCE = 1 << 5;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }
}
