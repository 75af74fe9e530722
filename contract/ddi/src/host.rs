//! The kernel's functions for a driver: [`Host`] during a call, [`Notify`] in its interrupt routine.

use wddm_types::{GpuVa, PageRun};

use crate::adapter::DriverStatus;
use crate::context_allocation::{CreateContextAllocation, MapContextAllocation, OsContextAllocation};
use crate::feature::{FeatureId, FeatureState, QueryFeatureInterface};
use crate::gpu_va::ReserveGpuVaRange;
use crate::interrupt::Interrupt;

/// The kernel's functions for a driver, lent for one call.
pub trait Host {
    /// `IsFeatureEnabled` (sync §3.1 step 5). Unknown features are off with version 0. A driver takes a query that fails for "off, with
    /// version 0".
    ///
    /// # Errors
    /// `InvalidParameter` for a feature of the whole machine, which no adapter is asked about.
    fn is_feature_enabled(&mut self, feature: FeatureId) -> Result<FeatureState, DriverStatus>;

    /// `QueryFeatureInterface` (sync §3.1 step 6): the functions of a feature, in the negotiated version. For that one, and with room for
    /// its table, it never fails.
    ///
    /// # Errors
    /// `InvalidParameter` for an id that the kernel does not know; `Unsuccessful` when the feature is off, or another version
    /// was negotiated; `BufferTooSmall` when the table has more bytes than there is room for. The query is as it was then.
    fn query_feature_interface(&mut self, query: &mut QueryFeatureInterface) -> Result<(), DriverStatus>;

    /// Contiguous, locked system memory for the driver's own use (rings of kernel-mode queues), or `None`. It stays the
    /// driver's until [`Host::free_contiguous`].
    fn allocate_contiguous(&mut self, pages: u64) -> Option<PageRun>;

    /// Gives it back. The hardware does not touch it any more.
    fn free_contiguous(&mut self, run: PageRun);

    /// `DxgkCbCreateContextAllocation` (memory §7.5), while a device or a context is created. It is resident before the context, or
    /// any of the device, runs, its content begins with `InitContextResource`, and it goes with the context; with the device, if it was
    /// made for that or is shared across contexts. Not for the system's.
    ///
    /// # Errors
    /// `NotSupported` outside of such a creation; `InvalidParameter`; `NoMemory`.
    fn create_context_allocation(
        &mut self,
        _create: CreateContextAllocation,
    ) -> Result<OsContextAllocation, DriverStatus> {
        Err(DriverStatus::NotSupported("no device and no context of a process is being created"))
    }

    /// `DxgkCbMapContextAllocation`: an address in the application's space.
    ///
    /// # Errors
    /// `NotSupported` outside of such a creation; `InvalidParameter`.
    fn map_context_allocation(&mut self, _map: MapContextAllocation) -> Result<GpuVa, DriverStatus> {
        Err(DriverStatus::NotSupported("no device and no context of a process is being created"))
    }

    /// `DxgkCbUpdateContextAllocation`: the driver gets `UpdateContextAllocation` with these bytes, before the context runs.
    ///
    /// # Errors
    /// `NotSupported` outside of such a creation; `InvalidParameter`; `Unsuccessful` when it is not resident.
    fn update_context_allocation(
        &mut self,
        _allocation: OsContextAllocation,
        _private_data: &[u8],
    ) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("no device and no context of a process is being created"))
    }

    /// `DxgkCbReserveGpuVirtualAddressRange` (memory §4.6), while a process is created: addresses that are the driver's as long as the
    /// process lives. The kernel gives them to no allocation of the process; the driver's context allocations may be mapped there.
    ///
    /// # Errors
    /// `NotSupported` outside a process's creation, and where there are no page tables; `InvalidParameter`: the rules, and
    /// addresses that are taken; `NoMemory` when no range is free.
    fn reserve_gpu_va_range(&mut self, _reserve: ReserveGpuVaRange) -> Result<GpuVa, DriverStatus> {
        Err(DriverStatus::NotSupported("no process is being created"))
    }
}

/// The kernel's function for an interrupt routine (`DxgkCbNotifyInterrupt`).
pub trait Notify {
    /// Reports one interrupt. The kernel copies what it needs and acts after the routine has returned.
    fn interrupt(&mut self, interrupt: Interrupt<'_>);
}
