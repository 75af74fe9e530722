//! The host that a driver is lent ([`ddi::Host`]): the negotiated features, the kernel's own pages, and requests for the object that the
//! driver creates. The kernel's rules for such requests stand with the memory manager; this file only passes them on.

use ddi::{
    CreateContextAllocation, DriverStatus, FeatureId, FeatureState, Host, MapContextAllocation, OsContextAllocation,
    QueryFeatureInterface, ReserveGpuVaRange,
};
use wddm_types::{GpuVa, PageRun, Pages};

use super::pages::KernelPages;
use crate::features::{self, Features};
use crate::platform::ClientMemory;

/// The kernel as a driver sees it during one call.
pub struct DriverHost<'a> {
    features: &'a Features,
    pages: &'a mut KernelPages,
    /// Lends pages to clients: pages that the driver gives back are no client's.
    clients: Option<&'a dyn ClientMemory>,
    creating: Creating<'a>,
}

/// The object that a driver is creating during the call: some of what it is lent belongs to that alone.
pub enum Creating<'a> {
    /// Nothing that it may ask more for.
    Nothing,
    /// A device of a process, or a context of one.
    Context(&'a mut dyn ContextRequests),
    /// A process.
    Process(&'a mut dyn ProcessRequests),
}

/// The requests that a driver may make while it creates a device or a context (memory §7.5).
pub trait ContextRequests {
    /// [`Host::create_context_allocation`].
    fn create(&mut self, create: CreateContextAllocation) -> Result<OsContextAllocation, DriverStatus>;

    /// [`Host::map_context_allocation`].
    fn map(&mut self, map: MapContextAllocation) -> Result<GpuVa, DriverStatus>;

    /// [`Host::update_context_allocation`].
    fn update(&mut self, allocation: OsContextAllocation, private_data: &[u8]) -> Result<(), DriverStatus>;
}

/// The requests that a driver may make while it creates a process (memory §4.6).
pub trait ProcessRequests {
    /// [`Host::reserve_gpu_va_range`].
    fn reserve(&mut self, reserve: ReserveGpuVaRange) -> Result<GpuVa, DriverStatus>;
}

impl<'a> DriverHost<'a> {
    /// The kernel during a call that creates this.
    pub fn new(
        features: &'a Features,
        pages: &'a mut KernelPages,
        clients: Option<&'a dyn ClientMemory>,
        creating: Creating<'a>,
    ) -> DriverHost<'a> {
        DriverHost { features, pages, clients, creating }
    }

    fn context(&mut self) -> Result<&mut dyn ContextRequests, DriverStatus> {
        match &mut self.creating {
            Creating::Context(context) => Ok(&mut **context),
            _ => Err(DriverStatus::NotSupported("no device and no context of a process is being created")),
        }
    }
}

impl Host for DriverHost<'_> {
    // spec: sync §3.1 step 5 (an adapter is asked about features of adapters)
    fn is_feature_enabled(&mut self, feature: FeatureId) -> Result<FeatureState, DriverStatus> {
        match features::global(feature) {
            None => Ok(self.features.state(feature)),
            Some(_) => Err(DriverStatus::InvalidParameter(
                "a feature of the whole machine, which is asked about without an adapter",
            )),
        }
    }

    fn query_feature_interface(&mut self, query: &mut QueryFeatureInterface) -> Result<(), DriverStatus> {
        self.features.query_interface(query)
    }

    fn allocate_contiguous(&mut self, pages: u64) -> Option<PageRun> {
        self.pages.take(Pages(pages))
    }

    fn free_contiguous(&mut self, run: PageRun) {
        self.pages.give_back(self.clients, run);
    }

    fn create_context_allocation(
        &mut self,
        create: CreateContextAllocation,
    ) -> Result<OsContextAllocation, DriverStatus> {
        self.context()?.create(create)
    }

    fn map_context_allocation(&mut self, map: MapContextAllocation) -> Result<GpuVa, DriverStatus> {
        self.context()?.map(map)
    }

    fn update_context_allocation(
        &mut self,
        allocation: OsContextAllocation,
        private_data: &[u8],
    ) -> Result<(), DriverStatus> {
        self.context()?.update(allocation, private_data)
    }

    // spec: memory §4.6, only inside DxgkDdiCreateProcess
    fn reserve_gpu_va_range(&mut self, reserve: ReserveGpuVaRange) -> Result<GpuVa, DriverStatus> {
        match &mut self.creating {
            Creating::Process(process) => process.reserve(reserve),
            _ => Err(DriverStatus::NotSupported("no process is being created")),
        }
    }
}
