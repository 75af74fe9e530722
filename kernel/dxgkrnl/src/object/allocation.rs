//! Allocations as devices have them, the bodies that bindings share, and resources.

use std::collections::VecDeque;

use ddi::{KmdAllocation, KmdOpenAllocation, KmdResource};
use gpu_fence::FenceId;
use wddm_types::{FencePoint, ProcessId, VidPnSourceId};

use super::DeviceNumber;
pub use crate::number::{AllocationNumber, ResourceNumber};

/// An allocation as one device has it: a binding.
#[derive(Debug)]
pub struct Allocation {
    pub device: DeviceNumber,
    pub vidmm: vidmm::AllocationId,
    /// WDDM 1: its instances.
    pub renaming: Renaming,
    pub kmd: KmdAllocation,
    /// The driver's handle of this device's open.
    pub open: KmdOpenAllocation,
    /// The device's resource that it belongs to.
    pub resource: Option<ResourceNumber>,
}

/// The instances of an allocation (memory §6.5).
#[derive(Debug, Default)]
pub struct Renaming {
    /// The name of the current one; `None`: it was never to be renamed, and has the allocation's own handle alone.
    pub current: Option<InstanceName>,
    /// The others, the one given up longest ago first.
    pub former: VecDeque<Instance>,
    /// A name for the next one that is made.
    pub spare: Option<InstanceName>,
    /// Names given so far, without the allocation's own.
    pub names: u32,
}

impl Renaming {
    /// The names of all instances, and the one for the next.
    pub fn handles(&self) -> impl Iterator<Item = wddm_types::RawHandle> + '_ {
        let former = self.former.iter().map(|instance| instance.name);
        self.current.into_iter().chain(former).chain(self.spare).map(|name| name.handle)
    }
}

/// An instance's name in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceName {
    pub handle: wddm_types::RawHandle,
    /// 0: the allocation's own handle.
    pub number: u32,
}

/// An instance that is not the current one.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    pub vidmm: vidmm::AllocationId,
    pub name: InstanceName,
    /// No list names it any more: its content is worthless, and it may become the current one when the GPU is past it.
    pub retired: bool,
}

/// The state that all bindings of an allocation share.
#[derive(Debug)]
pub struct Body {
    /// Bindings that are not buried.
    pub bindings: u32,
    /// Bindings that are not destroyed.
    pub living: u32,
    pub creator: ProcessId,
    /// Of shared allocations, for openers.
    pub private_data: Vec<u8>,
    /// Of a shared standard allocation the data that its creator brought: openers see them instead of the driver's.
    pub callers_data: Option<Vec<u8>>,
    /// The body of the resource that it is a member of. An NT handle of the resource keeps its members.
    pub resource: Option<u64>,
    /// The machine's section whose pages are its backing store.
    pub section: Option<u64>,
    /// The source that shows it, of a primary.
    pub primary: Option<VidPnSourceId>,
    /// Last uses of the destroyed bindings.
    pub pending: Vec<FencePoint<FenceId>>,
}

impl Body {
    /// The private data that openers are shown.
    pub fn shown_data(&self) -> &[u8] {
        self.callers_data.as_ref().unwrap_or(&self.private_data)
    }
}

/// A resource as one device has it.
#[derive(Debug)]
pub struct Resource {
    pub device: DeviceNumber,
    pub body: u64,
    /// The device's bindings.
    pub allocations: Vec<AllocationNumber>,
}

/// The state that all devices share of a resource.
#[derive(Debug)]
pub struct ResourceBody {
    pub kmd: KmdResource,
    /// Its allocations in the order of creation.
    pub members: Vec<vidmm::AllocationId>,
    pub private_data: Vec<u8>,
    pub runtime_data: Vec<u8>,
    pub shared: bool,
    /// Shared by NT handle, not by global handle.
    pub by_nt_handle: bool,
    /// Its global handle, if it is shared that way.
    pub global: wddm_types::RawHandle,
    /// Only its creator writes it.
    pub read_only: bool,
    pub creator: ProcessId,
    /// Devices that have it, buried ones not counted.
    pub holds: u32,
    /// Of these, those that have not destroyed it.
    pub living: u32,
    /// NT handles that name it.
    pub names: u32,
}

/// The objects that the driver destroys when no name is left.
#[derive(Default)]
pub struct Gone {
    pub allocations: Vec<KmdAllocation>,
    pub resource: KmdResource,
    pub with_resource: bool,
}
