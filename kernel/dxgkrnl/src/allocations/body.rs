//! The state that all devices share of an allocation and of a resource.

use ddi::KmdResource;
use gpu_fence::FenceId;
use kmt_calls::{CreateAllocationFlags, ResourceRequest};
use vidmm::{AllocationId, Blank, Seldom};
use wddm_types::{FencePoint, ProcessId, RawHandle, VidPnSourceId};

use crate::number::{AllocationNumber, ResourceBodyNumber, SectionNumber};
use crate::store::ObjectNumber;

/// The state that all bindings of an allocation share.
#[derive(Debug)]
pub struct Body {
    /// Bindings that are not buried.
    pub(super) bindings: u32,
    /// Bindings that are not destroyed.
    pub(super) living: u32,
    pub creator: ProcessId,
    /// The number under which its moves are told: the first binding's.
    pub(super) told_as: AllocationNumber,
    /// The body of the resource that it is a member of. An NT handle of the resource keeps its members.
    pub resource: Option<ResourceBodyNumber>,
    /// What few bodies have.
    pub rare: Seldom<BodyRare>,
}

/// Parts of a body that few have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BodyRare {
    /// Of shared allocations, for openers.
    pub private_data: Vec<u8>,
    /// Of a shared standard allocation the data that its creator brought: openers see them instead of the driver's.
    pub callers_data: Option<Vec<u8>>,
    /// The machine's section whose pages are its backing store.
    pub section: Option<SectionNumber>,
    /// The source that shows it, of a primary.
    pub primary: Option<VidPnSourceId>,
    /// Last uses of the destroyed bindings.
    pub pending: Vec<FencePoint<FenceId>>,
}

impl Blank for BodyRare {
    const BLANK: &'static Self =
        &BodyRare { private_data: Vec::new(), callers_data: None, section: None, primary: None, pending: Vec::new() };
}

impl Body {
    /// One that its creator's device alone has. [`Allocations::enter`](super::Allocations::enter) says under which number it is told.
    pub fn new(creator: ProcessId, resource: Option<ResourceBodyNumber>, rare: BodyRare) -> Body {
        let told_as = AllocationNumber::from_raw(0);
        Body { bindings: 1, living: 1, creator, told_as, resource, rare: Seldom::unless_blank(rare) }
    }

    /// Whether a device has it that has not destroyed it.
    pub fn is_alive(&self) -> bool {
        self.living > 0
    }

    /// Whether one binding is left of it, destroyed or not.
    pub fn has_one_binding(&self) -> bool {
        self.bindings == 1
    }

    /// The private data that openers are shown.
    pub fn shown_data(&self) -> &[u8] {
        self.rare.callers_data.as_ref().unwrap_or(&self.rare.private_data)
    }
}

/// The state that all devices share of a resource.
#[derive(Debug)]
pub struct ResourceBody {
    pub(super) kmd: KmdResource,
    /// Its allocations in the order of creation.
    pub(super) members: Vec<AllocationId>,
    pub private_data: Vec<u8>,
    pub runtime_data: Vec<u8>,
    pub shared: bool,
    /// Shared by NT handle, not by global handle.
    pub by_nt_handle: bool,
    /// Its global handle, if it is shared that way.
    pub(super) global: RawHandle,
    /// Only its creator writes it.
    pub read_only: bool,
    pub creator: ProcessId,
    /// Devices that have it, buried ones not counted.
    pub(super) holds: u32,
    /// Of these, those that have not destroyed it.
    pub(super) living: u32,
    /// NT handles that name it.
    pub(super) names: u32,
}

impl ResourceBody {
    /// One that was created as this call asks, and that its creator's device alone has.
    pub fn new(creator: ProcessId, call: &ResourceRequest, kmd: KmdResource) -> ResourceBody {
        ResourceBody {
            kmd,
            members: Vec::new(),
            private_data: call.private_data.clone(),
            runtime_data: call.runtime_data.clone(),
            shared: call.flags.contains(CreateAllocationFlags::CREATE_SHARED),
            by_nt_handle: call.flags.contains(CreateAllocationFlags::NT_SECURITY_SHARING),
            global: RawHandle::NONE,
            read_only: call.flags.contains(CreateAllocationFlags::READ_ONLY),
            creator,
            holds: 1,
            living: 1,
            names: 0,
        }
    }

    /// The driver's name of it.
    pub fn kmd(&self) -> KmdResource {
        self.kmd
    }

    /// Its allocations in the order of creation.
    pub fn members(&self) -> &[AllocationId] {
        &self.members
    }

    /// Its global handle; NONE: it is not shared that way.
    pub fn global(&self) -> RawHandle {
        self.global
    }

    /// NT handles that name it.
    pub fn names(&self) -> u32 {
        self.names
    }

    /// Whether an NT handle names it.
    pub fn is_named(&self) -> bool {
        self.names > 0
    }

    /// Whether a device has it that has not destroyed it, or an NT handle names it.
    pub(super) fn can_be_opened(&self) -> bool {
        self.living > 0 || self.is_named()
    }
}
