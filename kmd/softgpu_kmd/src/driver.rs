//! The driver as a value: its state, its processes and devices, and the trait `Miniport`, which hands each call to its module.

use std::sync::Arc;

use ddi::{
    AdapterCaps, BuildPagingBuffer, CreateAllocation, CreateDevice, CreateProcess, DestroyAllocation, DeviceInfo,
    Display, Doorbells, DriverStatus, Escape, FeatureId, FeatureSupport, FlipQueue, GpuClock, GpuVirtualAddressing,
    HardwareQueues, Host, HostAperture, KmdAllocation, KmdDevice, KmdOpenAllocation, KmdProcess, Miniport,
    NativeFenceLogs, NativeFences, NodeMetadata, Notify, OpenAllocation, PacketScheduling, PagingStatus, PeerDoorbells,
    PowerState, QuerySegment, QuerySegment3, QuerySegment4, StandardAllocationDriverData, Swizzling,
    UpdateAllocationProperty,
};
use device_port::DevicePort;
use shared_words::Memory;
use softgpu_spec::page_table::process_space;
use softgpu_spec::register;
use wddm_types::{NodeId, Pasid};

use crate::allocation::{Allocation, Opened};
use crate::config::{KmdConfig, PeerMode};
use crate::display::Output;
use crate::doorbells::DoorbellTable;
use crate::fences::FenceTable;
use crate::handles::Handles;
use crate::interrupts::Gathered;
use crate::packet::PacketTable;
use crate::queues::{Context, QueueTable};
use crate::segments::Geometry;
use crate::start::Negotiated;

/// The nodes: number, name. A node's number is its engine's (`softgpu_spec::engine`).
const NODES: [&str; softgpu_spec::engine::COUNT as usize] = ["compute", "copy"];

/// The miniport of one software GPU.
pub struct SoftGpuKmd {
    pub(crate) port: Arc<dyn DevicePort>,
    /// System memory as the CPU reaches it: the driver's own rings, and transfers that the CPU does.
    pub(crate) system: Arc<Memory>,
    pub(crate) config: KmdConfig,
    /// `None` until the device is started.
    pub(crate) geometry: Option<Geometry>,
    pub(crate) negotiated: Negotiated,
    pub(crate) processes: Handles<Process>,
    pub(crate) devices: Handles<Device>,
    pub(crate) allocations: Handles<Allocation>,
    pub(crate) opened: Handles<Opened>,
    pub(crate) resources: Handles<()>,
    pub(crate) contexts: Handles<Context>,
    pub(crate) queues: QueueTable,
    pub(crate) packets: PacketTable,
    pub(crate) doorbells: DoorbellTable,
    /// Swizzling ranges, and the allocation that each shows.
    pub(crate) ranges: Vec<Option<KmdAllocation>>,
    pub(crate) fences: FenceTable,
    /// The device's displays, found at its start.
    pub(crate) outputs: Vec<Output>,
    /// A tool has switched further types of logs on.
    pub(crate) verbose_logs: bool,
    /// The words of the command that was written last into a paging buffer, kept for their room.
    pub(crate) encoded: Vec<u64>,
    /// Interrupt records taken from the device and not yet reported.
    pub(crate) gathered: Gathered,
}

/// A process, from `create_process` on.
#[derive(Debug)]
pub(crate) struct Process {
    devices: u32,
    /// Its number at the IOMMU, where that translates.
    pasid: Option<Pasid>,
}

/// A device of a process.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) process: KmdProcess,
    /// The kernel's own, for paging.
    pub(crate) system: bool,
    pub(crate) contexts: u32,
    /// Its process's number at the IOMMU, where that translates.
    pub(crate) pasid: Option<Pasid>,
}

impl SoftGpuKmd {
    /// A driver for the device behind `port`. `system` is system memory, by system physical address. The driver touches
    /// neither before `start_device`.
    pub fn new(port: Arc<dyn DevicePort>, system: Arc<Memory>, config: KmdConfig) -> SoftGpuKmd {
        SoftGpuKmd {
            port,
            system,
            config,
            geometry: None,
            negotiated: Negotiated::default(),
            processes: Handles::default(),
            devices: Handles::default(),
            allocations: Handles::default(),
            opened: Handles::default(),
            resources: Handles::default(),
            contexts: Handles::default(),
            queues: QueueTable::default(),
            packets: PacketTable::default(),
            doorbells: DoorbellTable::default(),
            ranges: Vec::new(),
            fences: FenceTable::default(),
            outputs: Vec::new(),
            verbose_logs: false,
            encoded: Vec::new(),
            gathered: Gathered::default(),
        }
    }
}

impl SoftGpuKmd {
    /// Whether the engines have hardware queues; native fences go with them.
    pub(crate) fn has_native_fences(&self) -> bool {
        self.config.translates() && self.config.hardware_queues
    }

    /// Whether the driver offers its hardware queues: they signal native progress fences and no others, so where the kernel has those
    /// switched off the engines take packets.
    // spec: sync §3.1, sync §3.11
    fn uses_hardware_queues(&self) -> bool {
        self.has_native_fences() && self.negotiated.native_fence.is_some()
    }

    /// The number of a process or device, which there is in the IoMmu model and in no other.
    // spec: memory §4.1
    fn check_pasid(&self, pasid: Option<Pasid>) -> Result<(), DriverStatus> {
        match (pasid, self.config.uses_cpu_addresses()) {
            (None, false) => Ok(()),
            (Some(Pasid(number)), true) if number >> process_space::PASID_BITS == 0 => Ok(()),
            (Some(_), true) => Err(DriverStatus::InvalidParameter("a process number of more bits than the device has")),
            (Some(_), false) => Err(DriverStatus::InvalidParameter("a process number where the GPU has page tables")),
            (None, true) => Err(DriverStatus::InvalidParameter("no process number, and nothing else that translates")),
        }
    }

    /// The root of a device's contexts, where it is no page table.
    pub(crate) fn process_root(&self, device: KmdDevice) -> Option<u64> {
        let Pasid(pasid) = self.devices.get(device.0)?.pasid?;
        Some(process_space::root(pasid))
    }
}

impl Miniport for SoftGpuKmd {
    fn start_device(&mut self, host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.start(host)
    }

    fn stop_device(&mut self, host: &mut dyn Host) {
        self.stop(host);
    }

    fn reset_from_timeout(&mut self, _host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.reset()
    }

    fn restart_from_timeout(&mut self, _host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.restart()
    }

    fn set_power_state(&mut self, _host: &mut dyn Host, state: PowerState) -> Result<(), DriverStatus> {
        self.power(state)
    }

    fn query_feature_support(
        &mut self,
        feature: FeatureId,
        _allow_experimental: bool,
    ) -> Result<FeatureSupport, DriverStatus> {
        crate::start::feature_support(feature, self.has_native_fences(), self.config.flip_queue)
    }

    fn adapter_caps(&self) -> AdapterCaps {
        AdapterCaps {
            // spec: sync §3.1: only when the feature is enabled
            native_gpu_fence: self.negotiated.native_fence.is_some(),
            optimized_native_fence_interrupt: self.negotiated.native_fence.is_some()
                && self.config.optimized_fence_interrupt,
            // spec: sync §1.6
            no_64_bit_atomics: self.port.read_register(register::SIGNAL_BITS) == 32,
            driver_model: self.config.driver_model,
            ddi_version: self.config.ddi_version(),
            paging_node: softgpu_spec::engine::COPY as u16,
            paging_by_gpu_va: self.config.paging_by_gpu_va,
            memory: self.config.memory_caps(),
            move_paging_supported: true,
            ..AdapterCaps::default()
        }
    }

    fn query_segment4(&self, query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        self.describe_segments(query)
    }

    fn query_segment3(&self, query: &mut QuerySegment3<'_>) -> Result<(), DriverStatus> {
        self.describe_segments3(query)
    }

    fn query_segment(&self, query: &mut QuerySegment<'_>) -> Result<(), DriverStatus> {
        self.describe_segments1(query)
    }

    fn node_metadata(&self, node: NodeId) -> Option<NodeMetadata> {
        let name = NODES.get(usize::from(node.0))?;
        Some(NodeMetadata {
            name,
            gpu_mmu_supported: self.config.has_addresses(node),
            user_mode_submission: self.uses_hardware_queues(),
            fence_interrupt: self.config.fence_interrupt,
            max_in_flight_buffers: self.config.max_in_flight,
        })
    }

    fn create_process(&mut self, _host: &mut dyn Host, create: CreateProcess<'_>) -> Result<KmdProcess, DriverStatus> {
        let pasid = match create.pasids {
            [] => None,
            // There is one physical adapter.
            [pasid] => Some(*pasid),
            _ => return Err(DriverStatus::InvalidParameter("a process has one number on one physical adapter")),
        };
        self.check_pasid(pasid)?;
        Ok(KmdProcess(self.processes.insert(Process { devices: 0, pasid })))
    }

    fn destroy_process(&mut self, process: KmdProcess) {
        let process = self.processes.remove(process.0, "process");
        assert_eq!(process.devices, 0, "a process outlives its devices");
    }

    fn create_device(
        &mut self,
        host: &mut dyn Host,
        create: CreateDevice,
    ) -> Result<(KmdDevice, DeviceInfo), DriverStatus> {
        let process =
            self.processes.get_mut(create.process.0).ok_or(DriverStatus::InvalidParameter("no such process"))?;
        if create.pasid != process.pasid {
            return Err(DriverStatus::InvalidParameter("a device has its process's number"));
        }
        let CreateDevice { process: of, system, pasid } = create;
        process.devices += 1;
        let device = self.devices.insert(Device { process: of, system, contexts: 0, pasid });
        if let Err(status) = self.device_area(host, device, system) {
            self.destroy_device(KmdDevice(device));
            return Err(status);
        }
        Ok((KmdDevice(device), self.device_info()))
    }

    fn destroy_device(&mut self, device: KmdDevice) {
        let device = self.devices.remove(device.0, "device");
        assert_eq!(device.contexts, 0, "a device outlives its contexts");
        let process = self.processes.get_mut(device.process.0).expect("a process outlives its devices");
        process.devices -= 1;
    }

    fn create_allocation(&mut self, create: &mut CreateAllocation<'_, '_>) -> Result<(), DriverStatus> {
        self.place_allocations(create)
    }

    fn open_allocation(&mut self, open: &mut OpenAllocation<'_, '_>) -> Result<(), DriverStatus> {
        self.open_allocations(open)
    }

    fn close_allocation(&mut self, device: KmdDevice, open: &[KmdOpenAllocation]) {
        self.close_allocations(device, open);
    }

    fn destroy_allocation(&mut self, destroy: &mut DestroyAllocation<'_>) {
        self.destroy_allocations(destroy);
    }

    fn validate_update_allocation_property(&mut self, update: UpdateAllocationProperty) -> Result<(), DriverStatus> {
        self.validate_update(update)
    }

    fn standard_allocation_driver_data(
        &mut self,
        query: &mut StandardAllocationDriverData<'_>,
    ) -> Result<(), DriverStatus> {
        self.standard_data(query)
    }

    fn escape(&mut self, escape: &mut Escape<'_>) -> Result<(), DriverStatus> {
        self.answer_private_call(escape)
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> {
        self.build_paging(build)
    }

    fn calibrate_gpu_clock(&self, _node: NodeId) -> Result<GpuClock, DriverStatus> {
        // All engines have the device's clock, which counts nanoseconds.
        match self.port.read_register(register::TIMESTAMP) {
            register::ABSENT => Err(DriverStatus::Unsuccessful("the device is gone")),
            counter => Ok(GpuClock { frequency_hz: 1_000_000_000, counter }),
        }
    }

    fn query_dependent_engine_group(&mut self, node: NodeId) -> u64 {
        self.reset_group(node).unwrap_or(1 << node.0)
    }

    fn interrupt_routine(&mut self, notify: &mut dyn Notify) -> bool {
        self.report_interrupts(notify)
    }

    fn gpu_va(&mut self) -> Option<&mut dyn GpuVirtualAddressing> {
        self.config.has_page_tables().then_some(self as &mut dyn GpuVirtualAddressing)
    }

    fn hardware_queues(&mut self) -> Option<&mut dyn HardwareQueues> {
        self.uses_hardware_queues().then_some(self as &mut dyn HardwareQueues)
    }

    // The entry points are there whether the kernel may call them or not.
    fn native_fences(&mut self) -> Option<&mut dyn NativeFences> {
        self.has_native_fences().then_some(self as &mut dyn NativeFences)
    }

    fn peer_doorbells(&mut self) -> Option<&mut dyn PeerDoorbells> {
        let there = self.uses_hardware_queues() && self.config.peers != PeerMode::None;
        there.then_some(self as &mut dyn PeerDoorbells)
    }

    fn native_fence_logs(&mut self) -> Option<&mut dyn NativeFenceLogs> {
        self.has_native_fences().then_some(self as &mut dyn NativeFenceLogs)
    }

    fn packet_scheduling(&mut self) -> Option<&mut dyn PacketScheduling> {
        Some(self)
    }

    fn doorbells(&mut self) -> Option<&mut dyn Doorbells> {
        self.uses_hardware_queues().then_some(self as &mut dyn Doorbells)
    }

    fn cpu_host_aperture(&mut self) -> Option<&mut dyn HostAperture> {
        (self.config.cpu_window_pages > 0).then_some(self as &mut dyn HostAperture)
    }
    // spec: memory §6.5
    fn swizzling(&mut self) -> Option<&mut dyn Swizzling> {
        (!self.ranges.is_empty()).then_some(self as &mut dyn Swizzling)
    }

    fn display(&mut self) -> Option<&mut dyn Display> {
        (!self.outputs.is_empty()).then_some(self as &mut dyn Display)
    }

    fn flip_queue(&mut self) -> Option<&mut dyn FlipQueue> {
        let there = self.negotiated.flip_queue && !self.outputs.is_empty();
        there.then_some(self as &mut dyn FlipQueue)
    }
}

#[cfg(test)]
mod tests;
