//! The places of a fence's words and of a queue's logs, as answers name them. Part of `reply`.

use serde::{Deserialize, Serialize};
use wddm_types::{CpuVa, GpuVa, RawHandle, WordAddress};

use crate::sync_object::FencePrivateData;

/// A fence as its creator sees it (`D3DDDI_NATIVEFENCEMAPPING`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedFence {
    /// The handle.
    pub fence: RawHandle,
    /// CurrentValue, to be mapped read-only; [`CreatedFence::NO_CPU_ADDRESS`] of an INTRA_GPU fence.
    pub current: WordAddress,
    /// CurrentValue for the GPU: read/write. NULL in the IoMmu model.
    pub current_va: GpuVa,
    /// CurrentValue's CPU address in the process, where the GPU uses that: in the IoMmu model, mapped read/write then (sync
    /// §1.5). NULL on other adapters.
    pub current_cpu_va: CpuVa,
    /// MonitoredValue for the GPU: read-only. In the IoMmu model an address of the process's CPU page tables.
    pub monitored_va: GpuVa,
    /// The driver's answer.
    pub private_data: FencePrivateData,
}

impl CreatedFence {
    /// The CPU does not reach the word (`CurrentValueCpuVa` is NULL).
    pub const NO_CPU_ADDRESS: WordAddress = WordAddress(u64::MAX);
}

/// `D3DDDI_NATIVEFENCELOGDETAIL` (sync §2.9): the logs of a queue as the user-mode driver knows them. It never reads or writes them; it
/// chooses the entry that each wait and each signal writes. In the IoMmu model they are addresses of the process's CPU page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeFenceLogDetail {
    /// `WaitLogNumberOfEntries`.
    pub wait_entries: u32,
    /// `SignalLogNumberOfEntries`.
    pub signal_entries: u32,
    /// `WaitLogGpuBaseAddress`.
    pub wait_base: GpuVa,
    /// `SignalLogGpuBaseAddress`.
    pub signal_base: GpuVa,
    /// Entries of the log of submissions that have begun, which is there while a tool wants it; else 0 (sync §3.14).
    pub submission_entries: u32,
    /// Where it is; NULL while it is not.
    pub submission_base: GpuVa,
}
