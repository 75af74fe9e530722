//! Calls for the figures of adapters. They change nothing.

use serde::{Deserialize, Serialize};
use wddm_types::{Luid, ProcessId, RawHandle};

use crate::process::ProcessAccess;

/// A call for figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatisticsCall {
    /// `D3DKMTEnumProcesses` → `Processes`: those with a device on the adapter, in the order of their ids.
    EnumProcesses {
        /// The adapter; it need not be opened.
        adapter: Luid,
    },
    /// `D3DKMTQueryStatistics` → `Statistics`: all types of that function in one answer. Costs a look at every allocation.
    QueryStatistics {
        /// The adapter; it need not be opened.
        adapter: Luid,
    },
    /// The operating system's `OpenProcess` → `NtHandle`, closed like every NT handle. Every process may read every process's figures, so
    /// the kernel grants QUERY_INFORMATION to each caller; any other right only the host grants.
    OpenProcess {
        /// The process to open.
        process: ProcessId,
        /// The rights that the handle is to have.
        access: ProcessAccess,
    },
    /// The operating system's `GetProcessId` → `Processes`, of one.
    GetProcessId {
        /// A handle of a process that may be queried; 0: the calling one.
        process: u64,
    },
    /// The operating system's name of a program (`QueryFullProcessImageName`) → `ProcessIdentity`.
    QueryProcessIdentity {
        /// A handle of a process that may be queried; 0: the calling one.
        process: u64,
    },
    /// `D3DKMTQueryProcessOfferInfo` → `DecommittableBytes`, of all adapters together.
    QueryProcessOfferInfo {
        /// A handle of a process that may be queried; 0: the calling one.
        process: u64,
    },
    /// `D3DKMTQueryClockCalibration` → `ClockCalibration`.
    QueryClockCalibration {
        /// The adapter.
        adapter: RawHandle,
        /// `NodeOrdinal`.
        node: u32,
        /// `PhysicalAdapterIndex`: 0.
        physical_adapter: u32,
    },
}

impl StatisticsCall {
    /// The function's name without its prefix.
    pub const fn name(&self) -> &'static str {
        match self {
            StatisticsCall::EnumProcesses { .. } => "EnumProcesses",
            StatisticsCall::QueryStatistics { .. } => "QueryStatistics",
            StatisticsCall::OpenProcess { .. } => "OpenProcess",
            StatisticsCall::GetProcessId { .. } => "GetProcessId",
            StatisticsCall::QueryProcessIdentity { .. } => "QueryProcessIdentity",
            StatisticsCall::QueryProcessOfferInfo { .. } => "QueryProcessOfferInfo",
            StatisticsCall::QueryClockCalibration { .. } => "QueryClockCalibration",
        }
    }
}
