//! The host that a driver is lent, with other wishes for the addresses of its context allocations, and other answers about features.

use ddi::*;
use wddm_types::{GpuVa, PageRun};

/// The kernel's host, and changes of a map.
pub struct Lent<'a> {
    pub host: &'a mut dyn Host,
    pub map: &'a (dyn Fn(&mut MapContextAllocation) + Send),
    pub ask: &'a Ask,
}

/// The answer to the driver's question whether a feature is on, in place of the kernel's.
pub type Ask = dyn Fn(FeatureId, Result<FeatureState, DriverStatus>) -> Result<FeatureState, DriverStatus> + Send;

impl Host for Lent<'_> {
    fn is_feature_enabled(&mut self, feature: FeatureId) -> Result<FeatureState, DriverStatus> {
        (self.ask)(feature, self.host.is_feature_enabled(feature))
    }
    fn query_feature_interface(&mut self, query: &mut QueryFeatureInterface) -> Result<(), DriverStatus> {
        self.host.query_feature_interface(query)
    }
    fn allocate_contiguous(&mut self, pages: u64) -> Option<PageRun> {
        self.host.allocate_contiguous(pages)
    }
    fn free_contiguous(&mut self, run: PageRun) {
        self.host.free_contiguous(run);
    }
    fn create_context_allocation(
        &mut self,
        create: CreateContextAllocation,
    ) -> Result<OsContextAllocation, DriverStatus> {
        self.host.create_context_allocation(create)
    }
    fn map_context_allocation(&mut self, mut map: MapContextAllocation) -> Result<GpuVa, DriverStatus> {
        (self.map)(&mut map);
        self.host.map_context_allocation(map)
    }
    fn update_context_allocation(&mut self, allocation: OsContextAllocation, data: &[u8]) -> Result<(), DriverStatus> {
        self.host.update_context_allocation(allocation, data)
    }
    fn reserve_gpu_va_range(&mut self, reserve: ReserveGpuVaRange) -> Result<GpuVa, DriverStatus> {
        self.host.reserve_gpu_va_range(reserve)
    }
}
