//! Calls on adapters: what there are, their handles, and what they say of themselves.

use serde::{Deserialize, Serialize};
use wddm_types::{Luid, RawHandle};

/// A call on an adapter, or a question to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdapterCall {
    /// `D3DKMTEnumAdapters2` → [`crate::Reply::Adapters`].
    EnumAdapters,
    /// `D3DKMTOpenAdapterFromLuid` → `Handle`.
    OpenAdapterFromLuid {
        /// The adapter's LUID.
        luid: Luid,
    },
    /// `D3DKMTCloseAdapter`.
    CloseAdapter {
        /// The adapter; its devices must be gone.
        adapter: RawHandle,
    },
    /// `D3DKMTQueryAdapterInfo`: segments, nodes and capabilities in one answer → `AdapterInfo`.
    QueryAdapterInfo {
        /// The adapter.
        adapter: RawHandle,
    },
    /// `D3DKMTIsFeatureEnabled` → `Feature` (sync §2.10).
    IsFeatureEnabled {
        /// The adapter; NONE for a feature of the whole machine.
        adapter: RawHandle,
        /// `DXGK_FEATURE_ID`.
        feature: u32,
    },
    /// `D3DKMTQueryVideoMemoryInfo` → `VideoMemoryInfo`.
    QueryVideoMemoryInfo {
        /// A handle of a process that may be queried; 0: the calling one.
        process: u64,
        /// The adapter.
        adapter: RawHandle,
        /// Local group, else non-local.
        local: bool,
    },
    /// `D3DKMTSetStablePowerState`: all engines keep their full power, until the process says otherwise by the same handle, closes it, or
    /// ends.
    SetStablePowerState {
        /// The adapter.
        adapter: RawHandle,
        /// `Enabled`.
        enabled: bool,
    },
}

impl AdapterCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            AdapterCall::EnumAdapters => "EnumAdapters",
            AdapterCall::OpenAdapterFromLuid { .. } => "OpenAdapterFromLuid",
            AdapterCall::CloseAdapter { .. } => "CloseAdapter",
            AdapterCall::QueryAdapterInfo { .. } => "QueryAdapterInfo",
            AdapterCall::IsFeatureEnabled { .. } => "IsFeatureEnabled",
            AdapterCall::QueryVideoMemoryInfo { .. } => "QueryVideoMemoryInfo",
            AdapterCall::SetStablePowerState { .. } => "SetStablePowerState",
        }
    }
}
