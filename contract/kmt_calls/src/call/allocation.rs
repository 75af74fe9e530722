//! Calls that make, open, describe and destroy allocations and resources (memory §2.7, §2.8, §6.2). Their arguments are in
//! `crate::allocation`.

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

use crate::allocation::{AllocationRequest, AllocationTarget, DestroyFlags, ResourceRequest, ShareName};

/// A call on allocations and resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocationCall {
    /// `D3DKMTCreateAllocation2` → `Allocations`: all or none.
    CreateAllocation {
        /// The device.
        device: RawHandle,
        /// The allocations; none makes an empty resource.
        allocations: Vec<AllocationRequest>,
        /// The description of the whole call.
        resource: ResourceRequest,
    },
    /// `D3DKMTDestroyAllocation2` → `Done`; deferred behind the commands queued before, as its flags say (memory §6.2).
    DestroyAllocation {
        /// The device.
        device: RawHandle,
        /// The allocations to destroy; the handles are dead at return.
        target: AllocationTarget,
        /// Flags of the call.
        flags: DestroyFlags,
    },
    /// Asks how large what a CreateAllocation asks for would be → `AllocationSizes`: the driver describes it, and nothing is made. A caller
    /// that gives memory of the program for it must know.
    DescribeAllocations {
        /// The device.
        device: RawHandle,
        /// As of CreateAllocation.
        allocations: Vec<AllocationRequest>,
        /// As of CreateAllocation.
        resource: ResourceRequest,
    },
    /// `D3DKMTOpenResource2`, `D3DKMTOpenResourceFromNtHandle` → `OpenedResource`.
    OpenResource {
        /// For which device.
        device: RawHandle,
        /// The shared resource.
        share: ShareName,
        /// `pKeyedMutexPrivateRuntimeData`: data for the keyed mutex that goes with it, if that has no data of a runtime yet.
        keyed_mutex_data: Vec<u8>,
    },
    /// `D3DKMTQueryResourceInfo`, `D3DKMTQueryResourceInfoFromNtHandle` → `ResourceInfo`.
    QueryResourceInfo {
        /// A device of the adapter.
        device: RawHandle,
        /// The shared resource.
        share: ShareName,
    },
}

impl AllocationCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            AllocationCall::CreateAllocation { .. } => "CreateAllocation",
            AllocationCall::DestroyAllocation { .. } => "DestroyAllocation",
            AllocationCall::DescribeAllocations { .. } => "DescribeAllocations",
            AllocationCall::OpenResource { .. } => "OpenResource",
            AllocationCall::QueryResourceInfo { .. } => "QueryResourceInfo",
        }
    }
}
