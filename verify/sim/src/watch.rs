//! A decorator around any miniport that shows every call to the checkers before or after it goes on, and, in a sabotaged
//! world, leaves some out. It never changes what a call answers.

mod addresses;
mod fences;
mod folds;
mod packets;
mod queues;

use std::collections::BTreeSet;

use ddi::{
    AdapterCaps, BuildPagingBuffer, ConnectedDoorbell, CreateAllocation, CreateDevice, CreateDoorbell, CreateHwContext,
    CreateHwQueue, CreateNativeFence, CreateProcess, CurrentUpdate, DestroyAllocation, DeviceInfo, Disconnected,
    DoorbellHost, Doorbells, DriverStatus, Escape, FState, FeatureId, FeatureSupport, FenceStorageSurface, GpuMmuCaps,
    GpuVirtualAddressing, HardwareQueues, Host, KmdContext, KmdDevice, KmdDoorbell, KmdGlobalFence, KmdLocalFence,
    KmdOpenAllocation, KmdProcess, KmdQueue, Miniport, MonitoredUpdate, NativeFenceCaps, NativeFenceLogs, NativeFences,
    NodeMetadata, Notify, OpenAllocation, OpenNativeFence, OsDoorbell, OsQueue, PacketCaps, PacketScheduling,
    PageTableLevelDesc, PagingOp, PagingStatus, PteFlags, QueryMemoryRanges, QuerySegment, QuerySegment3,
    QuerySegment4, SegmentDescriptor3, SegmentDescriptor4, SetAllocationBackingStore, SetContextSchedulingProperties,
    SetSchedulingLogBuffer, SetupPriorityBands, StandardAllocationDriverData, SubmitCommandToHwQueue, SuspendStatus,
    Swizzling, TransferEnd, UpdateAllocationProperty, UpdateCurrentFlags, VirtualDirection,
};
use shared_words::Word;
use wddm_types::{EngineId, NodeId, PhysicalAddress};

use crate::check::contract::Broken;
use crate::check::{Ledger, Shared, shared};
use crate::sabotage::Sabotage;
pub use folds::{Folds, Names};
use packets::Tampering;

const CONTRACT: &str = "ddi contract";
const FRAMES: &str = "frames";
const FENCES: &str = "fences";
/// The first word of a command that there is not.
const NO_OPCODE: u64 = 0x7f | 1 << 8;

/// The decorator.
pub struct Watched {
    inner: Box<dyn Miniport>,
    ledger: Shared,
    sabotage: Sabotage,
    /// Facets are reached through `&mut`, their capabilities are asked for through `&`: what they said is kept.
    mmu: (GpuMmuCaps, Vec<PageTableLevelDesc>),
    fences: NativeFenceCaps,
    /// Entries that name tables of 64-KB entries.
    coarse: BTreeSet<(PhysicalAddress, u32)>,
    /// Processes of which such a table was converted, until a flush.
    converted: BTreeSet<KmdProcess>,
    /// In a world of packets.
    packet_caps: Option<PacketCaps>,
    tampering: Tampering,
}

impl Watched {
    /// Around this driver. Its packets are handed on in worlds that have some: in others the kernel knows of none.
    pub fn new(mut inner: Box<dyn Miniport>, ledger: Shared, sabotage: Sabotage, has_packets: bool) -> Watched {
        let packet_caps = inner.packet_scheduling().filter(|_| has_packets).map(|packets| packets.packet_caps());
        if let Some(caps) = packet_caps {
            shared(&ledger).packets.in_flight_max(caps.hw_queue_packets);
        }
        Watched {
            inner,
            ledger,
            sabotage,
            mmu: Default::default(),
            fences: NativeFenceCaps::default(),
            coarse: BTreeSet::new(),
            converted: BTreeSet::new(),
            packet_caps,
            tampering: Tampering::default(),
        }
    }

    fn see(&self, checker: &'static str, check: impl FnOnce(&mut Ledger) -> Result<(), Broken>) {
        let mut ledger = shared(&self.ledger);
        let outcome = check(&mut ledger);
        ledger.check(checker, outcome);
    }

    fn queues(&mut self) -> &mut dyn HardwareQueues {
        self.inner.hardware_queues().expect("the facet was there when the kernel asked")
    }

    fn native(&mut self) -> &mut dyn NativeFences {
        self.inner.native_fences().expect("the facet was there when the kernel asked")
    }

    fn bells(&mut self) -> &mut dyn Doorbells {
        self.inner.doorbells().expect("the facet was there when the kernel asked")
    }

    /// Whether a sabotaged driver leaves this operation out.
    fn driver_skips(&self, operation: &PagingOp<'_>) -> bool {
        match (self.sabotage, operation) {
            (Sabotage::DriverSkipsFlush, PagingOp::FlushTlb { .. })
            | (Sabotage::DriverSkipsFill, PagingOp::Fill { .. } | PagingOp::VirtualFill { .. }) => true,
            (Sabotage::DriverSkipsPageOut, PagingOp::Transfer { destination, .. }) => {
                matches!(destination, TransferEnd::Mdl(_))
            }
            (Sabotage::DriverSkipsPageOut, PagingOp::VirtualTransfer { direction, .. }) => {
                *direction == VirtualDirection::LocalToSystem
            }
            (Sabotage::DriverSkipsCopy, PagingOp::CopyPageTableEntries { .. }) => true,
            (Sabotage::DriverSkipsRelocation, PagingOp::Transfer { source, destination, .. }) => {
                matches!((source, destination), (TransferEnd::Segment { .. }, TransferEnd::Segment { .. }))
            }
            _ => false,
        }
    }

    /// Whether a sabotaged kernel never asked for this operation.
    fn kernel_skips(&mut self, operation: &PagingOp<'_>) -> bool {
        if let PagingOp::UpdatePageTable { level: 1, table, start_index, first, process, .. } = *operation {
            let place = (table, start_index);
            let coarse = first.flags.contains(PteFlags::LEAF_64KB);
            if coarse {
                self.coarse.insert(place);
            } else if self.coarse.remove(&place) && first.flags.contains(PteFlags::VALID) {
                self.converted.insert(process);
            }
        }
        match (self.sabotage, operation) {
            (Sabotage::KernelSkipsConversionFlush, PagingOp::FlushTlb { process, start, end, .. }) => {
                (start.0, end.0) != (0, 0) && self.converted.remove(process)
            }
            (
                Sabotage::KernelSkipsCopiedInvalidation,
                PagingOp::UpdatePageTable { level: 0, first, initial: false, process, first_va, count, .. },
            ) => {
                let invalid = !first.flags.contains(PteFlags::VALID);
                invalid && shared(&self.ledger).frames.was_copied(*process, *first_va, *count)
            }
            (Sabotage::KernelSkipsFlush, PagingOp::FlushTlb { .. }) => true,
            (Sabotage::KernelSkipsInvalidation, PagingOp::UpdatePageTable { level: 0, first, initial: false, .. }) => {
                !first.flags.contains(PteFlags::VALID)
            }
            _ => false,
        }
    }
}

impl Miniport for Watched {
    fn start_device(&mut self, host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.see(CONTRACT, |ledger| ledger.contract.started(true));
        self.inner.start_device(host)
    }

    fn stop_device(&mut self, host: &mut dyn Host) {
        self.see(CONTRACT, |ledger| ledger.contract.started(false));
        self.inner.stop_device(host);
    }

    fn reset_from_timeout(&mut self, host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.inner.reset_from_timeout(host)
    }

    fn restart_from_timeout(&mut self, host: &mut dyn Host) -> Result<(), DriverStatus> {
        shared(&self.ledger).was_reset();
        self.inner.restart_from_timeout(host)
    }

    fn set_power_state(&mut self, host: &mut dyn Host, state: ddi::PowerState) -> Result<(), DriverStatus> {
        let on = state == ddi::PowerState::On;
        self.see(CONTRACT, |ledger| ledger.contract.power(on));
        if !on {
            self.see("packets", |ledger| ledger.packets.idle());
            shared(&self.ledger).frames.power_lost();
        }
        self.inner.set_power_state(host, state)
    }

    fn query_feature_support(
        &mut self,
        feature: FeatureId,
        allow_experimental: bool,
    ) -> Result<FeatureSupport, DriverStatus> {
        self.inner.query_feature_support(feature, allow_experimental)
    }

    fn adapter_caps(&self) -> AdapterCaps {
        let caps = self.inner.adapter_caps();
        shared(&self.ledger).frames.moves_by_address(caps.paging_by_gpu_va);
        caps
    }

    fn query_segment4(&self, query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        let result = self.inner.query_segment4(query);
        if let Some(descriptors) = &query.descriptors {
            let all: Vec<_> = (0..descriptors.len()).filter_map(|index| descriptors.get(index)).collect();
            shared(&self.ledger).frames.segments(&all);
        }
        result
    }

    fn query_segment(&self, query: &mut QuerySegment<'_>) -> Result<(), DriverStatus> {
        self.inner.query_segment(query)
    }

    fn query_segment3(&self, query: &mut QuerySegment3<'_>) -> Result<(), DriverStatus> {
        let result = self.inner.query_segment3(query);
        if let Some(descriptors) = &query.descriptors {
            // Where a segment lies and what it is, every form says alike.
            let place = |known: &SegmentDescriptor3| SegmentDescriptor4 {
                base_address: known.base_address,
                size_bytes: known.size_bytes,
                flags: known.flags,
                ..SegmentDescriptor4::default()
            };
            let all: Vec<_> = descriptors.iter().map(place).collect();
            shared(&self.ledger).frames.segments(&all);
        }
        result
    }

    fn segment_memory_state(&self, query: &mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus> {
        self.inner.segment_memory_state(query)
    }

    fn uefi_frame_buffer_ranges(&self, query: &mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus> {
        self.inner.uefi_frame_buffer_ranges(query)
    }

    fn node_metadata(&self, node: NodeId) -> Option<NodeMetadata> {
        self.inner.node_metadata(node)
    }

    fn create_process(&mut self, host: &mut dyn Host, create: CreateProcess<'_>) -> Result<KmdProcess, DriverStatus> {
        let process = self.inner.create_process(host, create)?;
        self.see(CONTRACT, |ledger| ledger.contract.create_process(process, create.system));
        Ok(process)
    }

    fn destroy_process(&mut self, process: KmdProcess) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_process(process));
        self.see(FRAMES, |ledger| ledger.frames.process_gone(process));
        self.inner.destroy_process(process);
    }

    fn create_device(
        &mut self,
        host: &mut dyn Host,
        create: CreateDevice,
    ) -> Result<(KmdDevice, DeviceInfo), DriverStatus> {
        let (device, info) = self.inner.create_device(host, create)?;
        self.see(CONTRACT, |ledger| {
            ledger.device_asked(create.process);
            ledger.contract.create_device(device, create.process)
        });
        Ok((device, info))
    }

    fn destroy_device(&mut self, device: KmdDevice) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_device(device));
        self.inner.destroy_device(device);
    }

    fn create_allocation(&mut self, create: &mut CreateAllocation<'_, '_>) -> Result<(), DriverStatus> {
        self.inner.create_allocation(create)?;
        for created in create.allocations.iter() {
            let allocation = created.info.allocation;
            self.see(CONTRACT, |ledger| {
                ledger.allocation_asked(allocation);
                ledger.contract.create_allocation(allocation)
            });
        }
        Ok(())
    }

    fn open_allocation(&mut self, open: &mut OpenAllocation<'_, '_>) -> Result<(), DriverStatus> {
        self.inner.open_allocation(open)?;
        for opened in open.allocations.iter() {
            self.see(CONTRACT, |ledger| ledger.contract.open_allocation(opened.open, opened.allocation, open.device));
        }
        Ok(())
    }

    fn close_allocation(&mut self, device: KmdDevice, open: &[KmdOpenAllocation]) {
        for &open in open {
            self.see(CONTRACT, |ledger| ledger.contract.close_allocation(open, device));
        }
        self.inner.close_allocation(device, open);
    }

    fn destroy_allocation(&mut self, destroy: &mut DestroyAllocation<'_>) {
        for &allocation in destroy.allocations {
            self.see(CONTRACT, |ledger| ledger.contract.destroy_allocation(allocation));
            self.see(FRAMES, |ledger| ledger.frames.allocation_gone(allocation));
        }
        self.inner.destroy_allocation(destroy);
    }

    fn validate_update_allocation_property(&mut self, update: UpdateAllocationProperty) -> Result<(), DriverStatus> {
        self.inner.validate_update_allocation_property(update)
    }

    fn set_allocation_backing_store(&mut self, set: SetAllocationBackingStore<'_>) -> Result<(), DriverStatus> {
        self.inner.set_allocation_backing_store(set)
    }

    fn escape(&mut self, escape: &mut Escape<'_>) -> Result<(), DriverStatus> {
        self.inner.escape(escape)
    }

    fn standard_allocation_driver_data(
        &mut self,
        query: &mut StandardAllocationDriverData<'_>,
    ) -> Result<(), DriverStatus> {
        self.inner.standard_allocation_driver_data(query)
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> {
        self.see(CONTRACT, |ledger| ledger.contract.running());
        if self.kernel_skips(&build.operation) {
            return Ok(());
        }
        let result = if self.driver_skips(&build.operation) { Ok(()) } else { self.inner.build_paging_buffer(build) };
        if result.is_ok() && !build.immediate && build.written > 0 && shared(&self.ledger).takes_hang() {
            // No such opcode: the engine stops.
            build.buffer[0] = NO_OPCODE;
        }
        // A part of an operation changes nothing for the checkers: the whole of it stands in the ring before anything that
        // is built later.
        if result.is_ok() {
            let operation = build.operation;
            match operation {
                PagingOp::CopyPageTableEntries { .. } => shared(&self.ledger).count("entries copied"),
                PagingOp::UpdatePageTable { first_64kb: Some(_), .. } => {
                    shared(&self.ledger).count("dual entry written");
                }
                PagingOp::VirtualTransfer { .. } => shared(&self.ledger).count("content moved by address"),
                PagingOp::NotifyFenceResidency { .. } => shared(&self.ledger).count("words moved"),
                _ => {}
            }
            self.see(FRAMES, |ledger| {
                let Ledger { frames, contract, .. } = ledger;
                frames.operation(&operation, contract)
            });
        }
        result
    }

    fn query_dependent_engine_group(&mut self, node: NodeId) -> u64 {
        self.inner.query_dependent_engine_group(node)
    }

    fn interrupt_routine(&mut self, notify: &mut dyn Notify) -> bool {
        self.interrupts(notify)
    }

    fn gpu_va(&mut self) -> Option<&mut dyn GpuVirtualAddressing> {
        let facet = self.inner.gpu_va()?;
        let caps = facet.gpu_mmu_caps();
        self.mmu = (caps, (0..caps.page_table_levels).map(|level| facet.page_table_level(level)).collect());
        shared(&self.ledger).frames.levels(self.mmu.0, &self.mmu.1);
        Some(self)
    }

    fn hardware_queues(&mut self) -> Option<&mut dyn HardwareQueues> {
        self.inner.hardware_queues()?;
        Some(self)
    }

    fn native_fences(&mut self) -> Option<&mut dyn NativeFences> {
        self.fences = self.inner.native_fences()?.caps();
        Some(self)
    }

    fn doorbells(&mut self) -> Option<&mut dyn Doorbells> {
        self.inner.doorbells()?;
        Some(self)
    }

    fn display(&mut self) -> Option<&mut dyn ddi::Display> {
        self.inner.display()
    }

    fn flip_queue(&mut self) -> Option<&mut dyn ddi::FlipQueue> {
        self.inner.flip_queue()
    }

    fn calibrate_gpu_clock(&self, node: NodeId) -> Result<ddi::GpuClock, DriverStatus> {
        self.inner.calibrate_gpu_clock(node)
    }

    fn peer_doorbells(&mut self) -> Option<&mut dyn ddi::PeerDoorbells> {
        self.inner.peer_doorbells()
    }

    fn native_fence_logs(&mut self) -> Option<&mut dyn NativeFenceLogs> {
        self.inner.native_fence_logs()
    }

    fn packet_scheduling(&mut self) -> Option<&mut dyn PacketScheduling> {
        self.packet_caps?;
        Some(self)
    }

    fn swizzling(&mut self) -> Option<&mut dyn Swizzling> {
        self.packet_caps?;
        self.inner.swizzling()
    }
}
