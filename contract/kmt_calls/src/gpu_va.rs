//! Input of the calls about GPU virtual addresses (memory §4.8). The calls themselves are [`crate::Call`]'s.

use serde::{Deserialize, Serialize};
use wddm_types::{GpuVa, RawHandle};

bitflags::bitflags! {
    /// `D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE` (memory §4.8). Reading is always allowed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct GpuVaProtection: u64 {
        /// Engines may write.
        const WRITE = 1 << 0;
        /// Engines may execute.
        const EXECUTE = 1 << 1;
        /// Reads return 0, writes are dropped; without an allocation.
        const ZERO = 1 << 2;
        /// Every access faults; without an allocation.
        const NO_ACCESS = 1 << 3;
        /// For the system; processes may not.
        const SYSTEM_USE_ONLY = 1 << 4;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// Flags of `D3DKMT_UPDATEGPUVIRTUALADDRESS` (memory §4.8).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct UpdateGpuVaFlags: u32 {
        /// The fence is not waited for.
        const DO_NOT_WAIT = 1 << 0;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }
}

/// `D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION` (memory §4.8). Everything is a multiple of 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateGpuVaOperation {
    /// 0 MAP and 3 MAP_PROTECT.
    Map {
        /// First address.
        base: GpuVa,
        /// Bytes of the range.
        size_bytes: u64,
        /// The allocation to show.
        allocation: RawHandle,
        /// From this byte on.
        offset_bytes: u64,
        /// So many bytes of it, again and again; 0: as many as the range has.
        allocation_size_bytes: u64,
        /// Protection and DriverProtection of MAP_PROTECT; `None` is MAP: reading and writing.
        protection: Option<(GpuVaProtection, u64)>,
    },
    /// 1 UNMAP.
    Unmap {
        /// First address.
        base: GpuVa,
        /// Bytes of the range.
        size_bytes: u64,
        /// ZERO or NO_ACCESS.
        protection: GpuVaProtection,
    },
    /// 2 COPY: the destination shows what the source shows when the operation's turn comes.
    Copy {
        /// First address of the source.
        source: GpuVa,
        /// Bytes of the range.
        size_bytes: u64,
        /// First address of the destination.
        destination: GpuVa,
    },
}
