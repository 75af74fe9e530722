//! Allocations and resources as devices have them.

use std::collections::{VecDeque, vec_deque};

use ddi::{KmdAllocation, KmdOpenAllocation};
use vidmm::{Blank, Seldom};
use wddm_types::RawHandle;

use crate::number::{AllocationNumber, DeviceNumber, ResourceBodyNumber, ResourceNumber};

/// An allocation as one device has it: a binding.
#[derive(Debug)]
pub struct Allocation {
    pub device: DeviceNumber,
    pub vidmm: vidmm::AllocationId,
    /// WDDM 1: its instances.
    pub renaming: Seldom<Renaming>,
    pub kmd: KmdAllocation,
    /// The driver's handle of this device's open.
    pub open: KmdOpenAllocation,
    /// The device's resource that it belongs to.
    pub resource: Option<ResourceNumber>,
}

impl Allocation {
    /// The memory of all its instances, the current one last.
    pub fn instances(&self) -> impl Iterator<Item = vidmm::AllocationId> + '_ {
        let former = self.renaming.former().map(|instance| instance.vidmm);
        former.chain([self.vidmm])
    }
}

/// The instances of an allocation (memory §6.5).
#[derive(Debug, Default)]
pub struct Renaming {
    /// The name of the current one; `None`: it was never to be renamed, and has the allocation's own handle alone.
    pub(super) current: Option<InstanceName>,
    /// The others, the one given up longest ago first.
    pub(super) former: VecDeque<Instance>,
    /// A name for the next one that is made.
    pub(super) spare: Option<InstanceName>,
    /// Names given so far, without the allocation's own.
    pub(super) names: u32,
}

impl Blank for Renaming {
    const BLANK: &'static Self = &Renaming { current: None, former: VecDeque::new(), spare: None, names: 0 };
}

impl Renaming {
    /// The name of the current instance; `None`: the allocation's own handle names it alone.
    pub fn current(&self) -> Option<InstanceName> {
        self.current
    }

    /// The instances that are not the current one, the one given up longest ago first.
    pub fn former(&self) -> vec_deque::Iter<'_, Instance> {
        self.former.iter()
    }

    /// A name for the next instance that is made.
    pub fn spare(&self) -> Option<InstanceName> {
        self.spare
    }

    /// Names given so far, without the allocation's own.
    pub fn names(&self) -> u32 {
        self.names
    }

    /// The names of all instances, and the one for the next.
    pub fn handles(&self) -> impl Iterator<Item = RawHandle> + '_ {
        let former = self.former.iter().map(|instance| instance.name);
        self.current.into_iter().chain(former).chain(self.spare).map(|name| name.handle)
    }
}

/// An instance's name in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceName {
    pub handle: RawHandle,
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

/// A resource as one device has it.
#[derive(Debug)]
pub struct Resource {
    pub device: DeviceNumber,
    pub body: ResourceBodyNumber,
    /// The device's bindings.
    pub allocations: Vec<AllocationNumber>,
}
