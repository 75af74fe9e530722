//! The facet of a driver that had it at adapter start and does not show it any more: whatever can fail fails, the rest does
//! nothing. So the kernel meets a driver that has failed, and its own rules for that decide what becomes of the adapter.

use ddi::*;
use wddm_types::{EngineId, NodeId, PhysicalAddress, VidPnSourceId};

/// All facets, gone.
pub(super) struct Gone;

const REASON: &str = "the driver has withdrawn entry points that it had at its start";
const FAILED: DriverStatus = DriverStatus::Unsuccessful(REASON);

impl GpuVirtualAddressing for Gone {
    fn gpu_mmu_caps(&self) -> GpuMmuCaps {
        GpuMmuCaps::default()
    }

    fn page_table_level(&self, _level: u32) -> PageTableLevelDesc {
        PageTableLevelDesc::default()
    }

    fn set_root_page_table(&mut self, _context: KmdContext, _root: PhysicalAddress, _entries: u32) {}
}

impl HardwareQueues for Gone {
    fn create_hw_context(&mut self, _: &mut dyn Host, _: CreateHwContext<'_>) -> Result<KmdContext, DriverStatus> {
        Err(FAILED)
    }

    fn destroy_hw_context(&mut self, _context: KmdContext) {}

    fn create_hw_queue(&mut self, _: &mut dyn Host, _: CreateHwQueue<'_>) -> Result<KmdQueue, DriverStatus> {
        Err(FAILED)
    }

    fn destroy_hw_queue(&mut self, _host: &mut dyn Host, _queue: KmdQueue) {}

    fn submit_command_to_hw_queue(&mut self, _submit: SubmitCommandToHwQueue) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn suspend_context(&mut self, _context: KmdContext, _suspend_fence: u64) -> Result<SuspendStatus, DriverStatus> {
        Err(FAILED)
    }

    fn resume_context(&mut self, _context: KmdContext) {}

    fn stop_hw_queue(&mut self, _queue: KmdQueue) {}

    fn set_context_scheduling_properties(&mut self, _: SetContextSchedulingProperties) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn set_engine_f_state(&mut self, _node: NodeId, _engine: EngineId, _state: FState) {}
}

impl NativeFences for Gone {
    fn caps(&self) -> NativeFenceCaps {
        NativeFenceCaps::default()
    }

    fn fence_storage(&mut self, _surface: &mut FenceStorageSurface) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn create(&mut self, _create: &mut CreateNativeFence<'_>) -> Result<KmdGlobalFence, DriverStatus> {
        Err(FAILED)
    }

    fn destroy(&mut self, _fence: KmdGlobalFence) {}

    fn open(&mut self, _open: &mut OpenNativeFence<'_>) -> Result<KmdLocalFence, DriverStatus> {
        Err(FAILED)
    }

    fn close(&mut self, _fence: KmdLocalFence) {}

    fn update_monitored_values(&mut self, _updates: &[MonitoredUpdate<'_>]) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn update_current_values(
        &mut self,
        _updates: &[CurrentUpdate<'_>],
        _flags: UpdateCurrentFlags,
    ) -> Result<(), DriverStatus> {
        Err(FAILED)
    }
}

impl NativeFenceLogs for Gone {
    fn set_log_buffer(&mut self, _set: SetNativeFenceLogBuffer<'_>) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn update_logs(&mut self, _queues: &[KmdQueue]) -> Result<(), DriverStatus> {
        Err(FAILED)
    }
}

impl PeerDoorbells for Gone {
    fn peer_doorbell_caps(&self) -> PeerDoorbellCaps {
        PeerDoorbellCaps::default()
    }

    fn set_inbox(&mut self, _own: u32, _inbox: u64) {}

    fn connect_peer(&mut self, _peer: u32, _inbox: u64) {}

    fn share_with_peers(&mut self, _fence: KmdGlobalFence, _id: u64, _peers: u64) -> Result<(), DriverStatus> {
        Err(FAILED)
    }
}

impl PacketScheduling for Gone {
    fn packet_caps(&self) -> PacketCaps {
        PacketCaps { max_allocation_list_slot_id: 0, hw_queue_packets: 1, preemption: None }
    }

    fn create_context(
        &mut self,
        _host: &mut dyn Host,
        _create: CreateContext<'_>,
    ) -> Result<(KmdContext, ContextInfo), DriverStatus> {
        Err(FAILED)
    }

    fn destroy_context(&mut self, _host: &mut dyn Host, _context: KmdContext) {}

    fn render(&mut self, _context: KmdContext, _render: &mut Render<'_>) -> Result<(), RenderStatus> {
        Err(RenderStatus::GpuException(REASON))
    }

    fn present(&mut self, _context: KmdContext, _present: &mut Present<'_>) -> Result<(), RenderStatus> {
        Err(RenderStatus::GpuException(REASON))
    }

    fn present_flip(&mut self, _context: KmdContext, _list: &[AllocationListEntry]) -> Result<(), RenderStatus> {
        Err(RenderStatus::GpuException(REASON))
    }

    fn patch(&mut self, _patch: &mut Patch<'_>) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn submit_command(&mut self, _submit: SubmitCommand<'_>) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn submit_command_virtual(&mut self, _submit: SubmitCommandVirtual<'_>) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn preempt_command(&mut self, _preempt: PreemptCommand) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn stop_context(&mut self, _context: KmdContext) {}
}

impl Doorbells for Gone {
    fn create_doorbell(&mut self, _create: CreateDoorbell<'_>) -> Result<KmdDoorbell, DriverStatus> {
        Err(FAILED)
    }

    fn connect_doorbell(
        &mut self,
        _host: &mut dyn DoorbellHost,
        _doorbell: KmdDoorbell,
    ) -> Result<ConnectedDoorbell, DriverStatus> {
        Err(FAILED)
    }

    fn disconnect_doorbell(&mut self, _doorbell: KmdDoorbell) {}

    fn destroy_doorbell(&mut self, _doorbell: KmdDoorbell) {}

    fn notify_work_submission(&mut self, _queue: KmdQueue) {}
}

impl HostAperture for Gone {
    fn map_cpu_host_aperture(&mut self, _map: MapCpuHostAperture<'_>) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn unmap_cpu_host_aperture(&mut self, _unmap: UnmapCpuHostAperture<'_>) {}
}

impl Swizzling for Gone {
    fn swizzling_ranges(&self) -> u32 {
        0
    }

    fn acquire_swizzling_range(&mut self, _acquire: &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError> {
        Err(SwizzlingError::Unsupported)
    }

    fn release_swizzling_range(&mut self, _release: ReleaseSwizzlingRange) {}
}

impl Display for Gone {
    fn vidpn_paths(&self) -> Vec<VidPnPath> {
        Vec::new()
    }

    fn flip_caps(&self) -> FlipCaps {
        FlipCaps::default()
    }

    fn describe_allocation(&mut self, _allocation: KmdAllocation) -> Option<Surface> {
        None
    }

    fn commit_vidpn(&mut self, _: VidPnSourceId, _: Option<KmdAllocation>) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn set_vidpn_source_address(&mut self, _set: SetVidPnSourceAddress) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn set_vidpn_source_visibility(&mut self, _source: VidPnSourceId, _visible: bool) {}

    fn control_interrupt(&mut self, _source: VidPnSourceId, _enable: bool) {}
}

impl FlipQueue for Gone {
    fn flip_queue_caps(&self) -> FlipQueueCaps {
        FlipQueueCaps::default()
    }

    fn set_flip_queue_log_buffer(&mut self, _set: SetFlipQueueLogBuffer) -> Result<(), DriverStatus> {
        Err(FAILED)
    }

    fn queue_flip(&mut self, _flip: QueueFlip) -> Result<(), FlipRefusal> {
        Err(FlipRefusal::Failed(FAILED))
    }

    fn update_flip_queue_log(&mut self, _source: VidPnSourceId, _layer: u32) -> u32 {
        0
    }

    fn set_interrupt_target_present_id(&mut self, _source: VidPnSourceId, _layer: u32, _present_id: u64) {}

    fn cancel_flips(&mut self, _source: VidPnSourceId, _layer: u32, _first: u64) -> u64 {
        0
    }
}
