//! The traits: [`Miniport`] and its facets. `host` has the kernel's functions for a driver.

use wddm_types::{NodeId, PhysicalAddress};

use crate::adapter::{AdapterCaps, DriverStatus, NodeMetadata, PowerState};
use crate::allocation::{
    CreateAllocation, DestroyAllocation, KmdOpenAllocation, OpenAllocation, SetAllocationBackingStore,
    StandardAllocationDriverData, UpdateAllocationProperty,
};
use crate::cpu_access::{HostAperture, Swizzling};
use crate::display::Display;
use crate::doorbell::Doorbells;
use crate::escape::Escape;
use crate::feature::{FeatureId, FeatureSupport};
use crate::fence::{
    CreateNativeFence, CurrentUpdate, FenceStorageSurface, KmdGlobalFence, KmdLocalFence, MonitoredUpdate,
    NativeFenceCaps, OpenNativeFence, UpdateCurrentFlags,
};
use crate::fence_log::{GpuClock, NativeFenceLogs};
use crate::flip_queue::FlipQueue;
use crate::gpu_va::{GpuMmuCaps, PageTableLevelDesc, RootPageTableSize};
use crate::hardware_queues::HardwareQueues;
use crate::host::{Host, Notify};
use crate::packet::PacketScheduling;
use crate::paging::{BuildPagingBuffer, PagingStatus};
use crate::peer::PeerDoorbells;
use crate::queue::{CreateDevice, CreateProcess, DeviceInfo, KmdContext, KmdDevice, KmdProcess};
use crate::segment::{QueryMemoryRanges, QuerySegment, QuerySegment3, QuerySegment4};

/// A kernel-mode driver of one adapter.
pub trait Miniport: Send {
    /// `DxgkDdiStartDevice`, level 3. The driver finds its device, asks for features, sets the device up.
    ///
    /// # Errors
    /// Any status fails the adapter's start.
    fn start_device(&mut self, host: &mut dyn Host) -> Result<(), DriverStatus>;

    /// `DxgkDdiStopDevice`, level 3. The device touches no memory when it returns.
    fn stop_device(&mut self, host: &mut dyn Host);

    /// `DxgkDdiSetPowerState`, level 3: nothing executes, and what would be lost has been saved. Going down, the device
    /// touches no memory when it returns. Coming back, the aperture is empty, and tables are
    /// written anew afterwards; then the driver is told again which fences are always signalled, and of MonitoredValues that changed.
    ///
    /// # Errors
    /// Any status stops the adapter.
    fn set_power_state(&mut self, _host: &mut dyn Host, _state: PowerState) -> Result<(), DriverStatus> {
        Ok(())
    }

    /// `DxgkDdiResetFromTimeout`, level 3: the hardware does not do what it should. When this returns the device touches no
    /// memory, nothing that it was given will complete, and no interrupt speaks of it. Contexts and queues stay as objects
    /// until they are destroyed, and run nothing any more. Until [`Miniport::restart_from_timeout`] the driver hears what
    /// is lost, by [`Miniport::build_paging_buffer`] without content and by releases of swizzling ranges (memory §3.5).
    ///
    /// # Errors
    /// Any status stops the adapter; so does the default, which says that the device cannot be reset.
    fn reset_from_timeout(&mut self, _host: &mut dyn Host) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("ResetFromTimeout"))
    }

    /// `DxgkDdiRestartFromTimeout`, level 3: the device works again, as after its start. The content of its memory is lost, the aperture
    /// is empty. The kernel makes the paging process's context and queue anew, and writes tables anew.
    ///
    /// # Errors
    /// Any status stops the adapter.
    fn restart_from_timeout(&mut self, _host: &mut dyn Host) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("RestartFromTimeout"))
    }

    /// `QueryFeatureSupport` (sync §3.1 step 3). May be called before `start_device`.
    ///
    /// # Errors
    /// `InvalidParameter` for an id that the driver does not know.
    fn query_feature_support(
        &mut self,
        feature: FeatureId,
        allow_experimental: bool,
    ) -> Result<FeatureSupport, DriverStatus>;

    /// `QueryAdapterInfo(DRIVERCAPS)`; after `start_device`.
    fn adapter_caps(&self) -> AdapterCaps;

    /// `QueryAdapterInfo(QUERYSEGMENT)`, twice (memory §1.3). Asked of WDDM 1.0 and 1.1 drivers only.
    ///
    /// # Errors
    /// Any status fails the adapter's start.
    fn query_segment(&self, _query: &mut QuerySegment<'_>) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("QUERYSEGMENT"))
    }

    /// `QueryAdapterInfo(QUERYSEGMENT3)`, twice (memory §1.3). Asked of WDDM 1.2 and 1.3 drivers only.
    ///
    /// # Errors
    /// Any status fails the adapter's start.
    fn query_segment3(&self, _query: &mut QuerySegment3<'_>) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("QUERYSEGMENT3"))
    }

    /// `QueryAdapterInfo(QUERYSEGMENT4)`, twice (memory §1.3). Asked of WDDM 2 drivers only.
    ///
    /// # Errors
    /// Any status fails the adapter's start.
    fn query_segment4(&self, _query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("QUERYSEGMENT4"))
    }

    /// `QueryAdapterInfo(SEGMENTMEMORYSTATE)`: the invalid ranges of a segment whose descriptor announced some (memory §1.4). VidMm never
    /// places an allocation there.
    ///
    /// # Errors
    /// Any status fails the adapter's start.
    fn segment_memory_state(&self, _query: &mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("SEGMENTMEMORYSTATE"))
    }

    /// `QueryAdapterInfo(UEFIFRAMEBUFFERRANGES)`: the ranges of the firmware's frame buffer (memory §1.4), announced in the same way.
    ///
    /// # Errors
    /// Any status fails the adapter's start.
    fn uefi_frame_buffer_ranges(&self, _query: &mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("UEFIFRAMEBUFFERRANGES"))
    }

    /// `QueryAdapterInfo(PAGINGPROCESSGPUVASIZE)`: how large the paging process's address space is to be, in megabytes (memory
    /// §4.7). Asked of drivers with GPU virtual addresses, at adapter start.
    ///
    /// # Errors
    /// Any status, like 0, leaves it to the kernel.
    fn paging_process_gpu_va_mb(&self) -> Result<u32, DriverStatus> {
        Err(DriverStatus::NotSupported("PAGINGPROCESSGPUVASIZE"))
    }

    /// `DxgkDdiGetNodeMetadata`, for node 0, 1, … until `None`.
    fn node_metadata(&self, node: NodeId) -> Option<NodeMetadata>;

    /// `DxgkDdiCreateProcess`. Its address space is there: the driver may reserve parts of it now, and at no other time.
    ///
    /// # Errors
    /// The process cannot use the adapter; its reservations are gone with its space.
    fn create_process(&mut self, host: &mut dyn Host, create: CreateProcess<'_>) -> Result<KmdProcess, DriverStatus>;

    /// `DxgkDdiDestroyProcess`. Must succeed.
    fn destroy_process(&mut self, process: KmdProcess);

    /// `DxgkDdiCreateDevice`, level 0. Context allocations that it makes belong to the device (memory §7.5): the host takes them for any
    /// but the system's. They go before the device does, and with a refusal. Answers the DMA buffers of the device's contexts for
    /// contexts that say nothing of their own; a segment set that breaks the rules of memory §7.1 fails the creation.
    ///
    /// # Errors
    /// `NoMemory`.
    fn create_device(
        &mut self,
        host: &mut dyn Host,
        create: CreateDevice,
    ) -> Result<(KmdDevice, DeviceInfo), DriverStatus>;

    /// `DxgkDdiDestroyDevice`. Its contexts are gone already.
    fn destroy_device(&mut self, device: KmdDevice);

    /// `DxgkDdiCreateAllocation`, level 0; adapter-scoped: the driver's state of it must not point at a device (memory §2.7).
    ///
    /// # Errors
    /// `InvalidParameter` (private data), `NoMemory`, `DriverMismatch`. Then nothing of the call exists.
    fn create_allocation(&mut self, create: &mut CreateAllocation<'_, '_>) -> Result<(), DriverStatus>;

    /// `DxgkDdiOpenAllocation`, level 0; device-scoped. It follows a creation, and stands alone when another device opens a
    /// shared resource (memory §2.7).
    ///
    /// # Errors
    /// `InvalidParameter`, `NoMemory`, `DriverMismatch`. Then none of the call's allocations is open; after a creation the
    /// kernel destroys them.
    fn open_allocation(&mut self, open: &mut OpenAllocation<'_, '_>) -> Result<(), DriverStatus>;

    /// `DxgkDdiCloseAllocation`, level 0: once for each open, all allocations of a resource together. Must succeed.
    fn close_allocation(&mut self, device: KmdDevice, open: &[KmdOpenAllocation]);

    /// `DxgkDdiDestroyAllocation`, after the last close, with nothing in flight that names them. Must succeed.
    fn destroy_allocation(&mut self, destroy: &mut DestroyAllocation<'_>);

    /// `DxgkDdiSetAllocationBackingStore` (memory §2.2): the backing store of an allocation with ShareBackingStoreWithKmd. Called while
    /// it is created, between `create_allocation` and `open_allocation`, and while the feature is enabled only. The pages are the same
    /// until the allocation is destroyed.
    ///
    /// # Errors
    /// The allocation is not created.
    fn set_allocation_backing_store(&mut self, set: SetAllocationBackingStore<'_>) -> Result<(), DriverStatus> {
        let _ = set;
        Err(DriverStatus::NotSupported("SetAllocationBackingStore"))
    }

    /// `DxgkDdiValidateUpdateAllocationProperty` (memory §2.8): asked before the kernel changes anything.
    ///
    /// # Errors
    /// The change is refused with this status.
    fn validate_update_allocation_property(&mut self, update: UpdateAllocationProperty) -> Result<(), DriverStatus>;

    /// `DxgkDdiGetStandardAllocationDriverData` (memory §2.7), twice.
    ///
    /// # Errors
    /// `NotSupported` for a kind that the device has no use for.
    fn standard_allocation_driver_data(
        &mut self,
        query: &mut StandardAllocationDriverData<'_>,
    ) -> Result<(), DriverStatus>;

    /// `DxgkDdiEscape` of type DRIVERPRIVATE, level 2 with HARDWARE_ACCESS and else level 1, in which the driver touches no hardware. Its
    /// meaning is between the driver and its user-mode driver. Without an entry point there is nothing private.
    ///
    /// # Errors
    /// The caller gets the status, and none of the bytes. `InvalidParameter` for a question that needs HARDWARE_ACCESS and has not got
    /// it.
    fn escape(&mut self, escape: &mut Escape<'_>) -> Result<(), DriverStatus> {
        let _ = escape;
        Err(DriverStatus::NotSupported("Escape"))
    }

    /// `DxgkDdiBuildPagingBuffer`, level 1 (memory §3).
    ///
    /// # Errors
    /// [`PagingStatus`]; its `Fatal` stops the adapter.
    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus>;

    /// `DxgkDdiCalibrateGpuClock`: an engine's clock now, the one whose times stand in fence logs. The kernel sets its own beside it.
    ///
    /// # Errors
    /// `NotSupported`: the times mean nothing outside the engine.
    fn calibrate_gpu_clock(&self, _node: NodeId) -> Result<GpuClock, DriverStatus> {
        Err(DriverStatus::NotSupported("CalibrateGpuClock"))
    }

    /// `DxgkDdiQueryDependentEngineGroup`, level 1, class of the GPU scheduler, at passive level (sync §4.4): which nodes a reset of this
    /// one resets, as a bit for each, its own among them. Asked before each reset of an engine, because it may depend on what runs. The
    /// nodes named are taken back then as far as they give back, and those that have not done so 500 ms later are reset one by one.
    /// Without an entry point each node stands alone. Must succeed: a node that there is not, or not the one asked about, is bug check
    /// 0x119, parameter 8, and the adapter stops.
    fn query_dependent_engine_group(&mut self, node: NodeId) -> u64 {
        1 << node.0
    }

    /// `DxgkDdiInterruptRoutine`, at device interrupt level. Returns whether the interrupt was the device's.
    fn interrupt_routine(&mut self, notify: &mut dyn Notify) -> bool;

    /// GPU virtual addressing (`GpuMmuSupported`).
    fn gpu_va(&mut self) -> Option<&mut dyn GpuVirtualAddressing>;

    /// Hardware scheduling.
    fn hardware_queues(&mut self) -> Option<&mut dyn HardwareQueues>;

    /// Native fences.
    fn native_fences(&mut self) -> Option<&mut dyn NativeFences>;

    /// Logs of native fences, which came with WDDM 3.2: a driver that says NativeGpuFence has them.
    fn native_fence_logs(&mut self) -> Option<&mut dyn NativeFenceLogs> {
        None
    }

    /// Doorbells from GPU to GPU; only beside native fences.
    fn peer_doorbells(&mut self) -> Option<&mut dyn PeerDoorbells> {
        None
    }

    /// Packet scheduling: contexts whose packets the kernel hands over one by one (memory §5.6).
    fn packet_scheduling(&mut self) -> Option<&mut dyn PacketScheduling> {
        None
    }

    /// User-mode submission.
    fn doorbells(&mut self) -> Option<&mut dyn Doorbells>;

    /// A CPU host aperture (`SupportsCpuHostAperture` of a segment).
    fn cpu_host_aperture(&mut self) -> Option<&mut dyn HostAperture> {
        None
    }

    /// Swizzling ranges; WDDM 1 drivers only.
    fn swizzling(&mut self) -> Option<&mut dyn Swizzling> {
        None
    }

    /// Displays; without it the adapter only renders.
    fn display(&mut self) -> Option<&mut dyn Display> {
        None
    }

    /// A flip queue of the hardware; only beside displays.
    fn flip_queue(&mut self) -> Option<&mut dyn FlipQueue> {
        None
    }
}

/// The GpuMmu model (memory §4).
pub trait GpuVirtualAddressing {
    /// `QueryAdapterInfo(GPUMMUCAPS)`.
    fn gpu_mmu_caps(&self) -> GpuMmuCaps;

    /// `QueryAdapterInfo(PAGETABLELEVELDESC)`; level 0 is the leaf. Called for each level below `page_table_levels`.
    fn page_table_level(&self, level: u32) -> PageTableLevelDesc;

    /// `DxgkDdiGetRootPageTableSize`: the size of a root of at least so many entries. Asked at adapter start, for the sizes that the
    /// kernel will use. `None`: the entry point is not there; only a driver with two levels needs it, whose root is lengthened and
    /// shortened (memory §4.2, §4.6).
    fn root_page_table_size(&mut self, entries: u32) -> Option<RootPageTableSize> {
        let _ = entries;
        None
    }

    /// `DxgkDdiSetRootPageTable`: before the context runs, and again after each move or change of length, while the context
    /// is idle.
    fn set_root_page_table(&mut self, context: KmdContext, root: PhysicalAddress, entries: u32);
}

/// Native fences (sync §2.6). Called only while feature NATIVE_FENCE is enabled.
///
/// An update of MonitoredValues and the interrupt routine never run at the same time (`DxgkDdiUpdateMonitoredValues` is synchronised with
/// the interrupt, sync §3.9): each has the driver for itself. One behind the other is all that there is:
/// ```
/// fn both(driver: &mut dyn ddi::Miniport, notify: &mut dyn ddi::Notify) {
///     let fences = driver.native_fences().expect("it has some");
///     fences.update_monitored_values(&[]).expect("nothing to update");
///     driver.interrupt_routine(notify);
/// }
/// ```
/// and while one of them has the driver, the other is not to be had:
/// ```compile_fail,E0499
/// fn both(driver: &mut dyn ddi::Miniport, notify: &mut dyn ddi::Notify) {
///     let fences = driver.native_fences().expect("it has some");
///     driver.interrupt_routine(notify);
///     fences.update_monitored_values(&[]).expect("nothing to update");
/// }
/// ```
/// nor by a driver that several parties share:
/// ```compile_fail,E0596
/// fn routine(driver: &dyn ddi::Miniport, notify: &mut dyn ddi::Notify) {
///     driver.interrupt_routine(notify);
/// }
/// ```
pub trait NativeFences {
    /// `QueryAdapterInfo(NATIVE_FENCE_CAPS)`.
    fn caps(&self) -> NativeFenceCaps;

    /// `DxgkDdiGetStandardAllocationDriverData` with FENCESTORAGE: in which segments words may lie that are not to lie in system
    /// memory. It has no private data, and the kernel makes the allocation by itself.
    ///
    /// # Errors
    /// `NotSupported` for words that this device keeps in system memory only.
    fn fence_storage(&mut self, _surface: &mut FenceStorageSurface) -> Result<(), DriverStatus> {
        Err(DriverStatus::NotSupported("fences in local memory"))
    }

    /// `DxgkDdiCreateNativeFence`.
    ///
    /// # Errors
    /// The fence is not created.
    fn create(&mut self, create: &mut CreateNativeFence<'_>) -> Result<KmdGlobalFence, DriverStatus>;

    /// `DxgkDdiDestroyNativeFence`: after the last close. Afterwards neither GPU nor driver touches the words.
    fn destroy(&mut self, fence: KmdGlobalFence);

    /// `DxgkDdiOpenNativeFence`: always follows a create.
    ///
    /// # Errors
    /// The open fails; the kernel destroys without close.
    fn open(&mut self, open: &mut OpenNativeFence<'_>) -> Result<KmdLocalFence, DriverStatus>;

    /// `DxgkDdiCloseNativeFence`.
    fn close(&mut self, fence: KmdLocalFence);

    /// `DxgkDdiUpdateMonitoredValues`, at device interrupt level. On return each GPU that stores a CurrentValue reads the new
    /// MonitoredValue afterwards, and every signal that decided by the old one is visible in CurrentValue (sync §3.9).
    ///
    /// # Errors
    /// Bug check 0x119, parameter 0x12.
    fn update_monitored_values(&mut self, updates: &[MonitoredUpdate<'_>]) -> Result<(), DriverStatus>;

    /// `DxgkDdiUpdateCurrentValuesFromCpu`, at dispatch level: store, barrier, kick (sync §3.6).
    ///
    /// # Errors
    /// Bug check 0x119, parameter 0x13.
    fn update_current_values(
        &mut self,
        updates: &[CurrentUpdate<'_>],
        flags: UpdateCurrentFlags,
    ) -> Result<(), DriverStatus>;
}
