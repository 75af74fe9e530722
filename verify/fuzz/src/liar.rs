//! A driver that lies: between the kernel and the software GPU's driver, it breaks the contract now and then. It says wrong
//! sizes, segments, counts, capabilities; fails what must succeed; is busy or short of room for ever; names fences that
//! are not there. It hands on everything else. The facets are in `facets`.

mod displays;
mod facets;
mod hardware_queues;
mod plan;

use ddi::*;
use wddm_types::{NodeId, SegmentSet};

pub use self::plan::{Lie, Lies, World};

/// The driver.
pub struct Liar {
    inner: Box<dyn Miniport>,
    lies: Lies,
    /// Answers to questions by a shared reference, asked beforehand: facets are lent mutably.
    honest_mmu: Option<(GpuMmuCaps, Vec<PageTableLevelDesc>)>,
    honest_fences: NativeFenceCaps,
    honest_packets: Option<PacketCaps>,
    honest_displays: displays::Honest,
}

impl Liar {
    /// In front of an honest one.
    pub fn new(inner: Box<dyn Miniport>, lies: Lies) -> Liar {
        Liar {
            inner,
            lies,
            honest_mmu: None,
            honest_fences: NativeFenceCaps::default(),
            honest_packets: None,
            honest_displays: displays::Honest::default(),
        }
    }
}

impl Miniport for Liar {
    fn start_device(&mut self, host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.inner.start_device(host)
    }

    fn stop_device(&mut self, host: &mut dyn Host) {
        self.inner.stop_device(host);
    }

    fn reset_from_timeout(&mut self, host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        self.inner.reset_from_timeout(host)
    }

    fn restart_from_timeout(&mut self, host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        self.inner.restart_from_timeout(host)
    }

    fn set_power_state(&mut self, host: &mut dyn Host, state: PowerState) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        self.inner.set_power_state(host, state)
    }

    fn query_feature_support(&mut self, id: FeatureId, experimental: bool) -> Result<FeatureSupport, DriverStatus> {
        self.inner.query_feature_support(id, experimental)
    }

    fn adapter_caps(&self) -> AdapterCaps {
        let mut caps = self.inner.adapter_caps();
        let Some(mut dice) = self.lies.tells(Lie::Caps) else { return caps };
        match dice.below(8) {
            0 => caps.driver_model = DriverModel::Wddm1,
            1 => caps.highest_acceptable_address = dice.edge(),
            2 => caps.aperture_segment_commit_limit_bytes = dice.edge(),
            3 => caps.native_gpu_fence = !caps.native_gpu_fence,
            // CAST: any bits will do.
            4 => caps.paging_node = dice.edge() as u16,
            5 => caps.paging_by_gpu_va = !caps.paging_by_gpu_va,
            6 => caps.memory ^= VidMmCaps::from_bits_retain(1 << dice.below(18)),
            _ => caps.memory ^= VidMmCaps::MAP_APERTURE2_SUPPORTED,
        }
        caps
    }

    fn query_segment(&self, query: &mut QuerySegment<'_>) -> Result<(), DriverStatus> {
        self.inner.query_segment(query)
    }

    fn query_segment3(&self, query: &mut QuerySegment3<'_>) -> Result<(), DriverStatus> {
        self.inner.query_segment3(query)
    }

    fn query_segment4(&self, query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        let result = self.inner.query_segment4(query);
        if let Some(mut dice) = self.lies.tells(Lie::SegmentCount) {
            query.count = dice.number32(4);
        }
        if let Some(mut dice) = self.lies.tells(Lie::PagingBufferInfo) {
            match dice.below(3) {
                0 => query.paging_buffer.size_bytes = dice.number32(1 << 20),
                1 => query.paging_buffer.private_data_bytes = dice.number32(1 << 20),
                _ => query.paging_buffer.segment = wddm_types::SegmentId(dice.number32(31) as u8),
            }
        }
        if let Some(descriptors) = &mut query.descriptors
            && let Some(mut dice) = self.lies.tells(Lie::Segments)
            && let Some(at) = dice.pick(&[0, 1])
            && let Some(mut descriptor) = descriptors.get(at)
        {
            match dice.below(8) {
                0 => descriptor.base_address = dice.edge(),
                1 => descriptor.size_bytes = dice.edge(),
                2 => descriptor.commit_limit_bytes = dice.edge(),
                3 => descriptor.system_memory_end_address = dice.edge(),
                4 => descriptor.num_invalid_memory_ranges = dice.number32(9),
                5 => descriptor.num_uefi_frame_buffer_ranges = dice.number32(9),
                6 => descriptor.cpu = CpuAccess::Translated(dice.edge()),
                _ => descriptor.flags ^= SegmentFlags::from_bits_retain(1 << dice.below(32) as u32),
            }
            let _ = descriptors.put(at, &descriptor);
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
        let mut metadata = self.inner.node_metadata(node)?;
        if self.lies.tells(Lie::Nodes).is_some() {
            metadata.gpu_mmu_supported = !metadata.gpu_mmu_supported;
        }
        Some(metadata)
    }

    fn create_process(&mut self, host: &mut dyn Host, create: CreateProcess<'_>) -> Result<KmdProcess, DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        self.inner.create_process(host, create)
    }

    fn destroy_process(&mut self, process: KmdProcess) {
        self.inner.destroy_process(process);
    }

    fn create_device(
        &mut self,
        host: &mut dyn Host,
        create: CreateDevice,
    ) -> Result<(KmdDevice, DeviceInfo), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        let (device, mut info) = self.inner.create_device(host, create)?;
        if let Some(mut dice) = self.lies.tells(Lie::ContextInfo) {
            match dice.below(5) {
                0 => info.dma_buffer_bytes = dice.number32(1 << 20),
                1 => info.dma_buffer_segment_set = SegmentSet(dice.number32(15)),
                2 => info.dma_buffer_private_data_bytes = dice.number32(1 << 20),
                3 => info.allocation_list_entries = dice.number32(1 << 12),
                _ => info.patch_location_list_entries = dice.number32(1 << 12),
            }
        }
        Ok((device, info))
    }

    fn destroy_device(&mut self, device: KmdDevice) {
        self.inner.destroy_device(device);
    }

    fn create_allocation(&mut self, create: &mut CreateAllocation<'_, '_>) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        self.inner.create_allocation(create)?;
        for new in create.allocations.iter_mut() {
            self.misdescribe(&mut new.info);
        }
        Ok(())
    }

    fn open_allocation(&mut self, open: &mut OpenAllocation<'_, '_>) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        self.inner.open_allocation(open)
    }

    fn close_allocation(&mut self, device: KmdDevice, open: &[KmdOpenAllocation]) {
        self.inner.close_allocation(device, open);
    }

    fn destroy_allocation(&mut self, destroy: &mut DestroyAllocation<'_>) {
        self.inner.destroy_allocation(destroy);
    }

    fn validate_update_allocation_property(&mut self, update: UpdateAllocationProperty) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        self.inner.validate_update_allocation_property(update)
    }

    fn standard_allocation_driver_data(
        &mut self,
        query: &mut StandardAllocationDriverData<'_>,
    ) -> Result<(), DriverStatus> {
        let result = self.inner.standard_allocation_driver_data(query);
        if let Some(mut dice) = self.lies.tells(Lie::StandardData) {
            query.allocation_bytes = dice.number32(5000);
            (query.resource_bytes, query.pitch_bytes) = (dice.number32(5000), dice.number32(5000));
        }
        result
    }

    fn escape(&mut self, escape: &mut Escape<'_>) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        let Some(mut dice) = self.lies.tells(Lie::Escapes) else { return self.inner.escape(escape) };
        // An answer to something else, one that is refused after all, or none that was ever asked for.
        let answered = if dice.chance(50) { self.inner.escape(escape) } else { Ok(()) };
        for _ in 0..dice.below(64) {
            if let Some(byte) = escape.private_data.get_mut(dice.below(64) as usize) {
                // CAST: any bits will do.
                *byte = dice.edge() as u8;
            }
        }
        match dice.below(3) {
            0 => Err(DriverStatus::Unsuccessful("a lie")),
            1 => Ok(()),
            _ => answered,
        }
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> {
        if self.lies.tells(Lie::Busy).is_some() {
            return Err(PagingStatus::AllocationBusy);
        }
        if self.lies.tells(Lie::Insufficient).is_some() {
            return Err(PagingStatus::InsufficientDmaBuffer);
        }
        if self.lies.tells(Lie::Fatal).is_some() {
            return Err(PagingStatus::Fatal("a lie"));
        }
        let result = self.inner.build_paging_buffer(build);
        if build.written > 0 && !build.immediate && self.lies.tells(Lie::Hardware).is_some() {
            // No command of this device: the hardware fails under the kernel's own work, and is reset.
            build.buffer[0] = 0x7f | 1 << 8;
        }
        if let Some(mut dice) = self.lies.tells(Lie::Written) {
            match dice.below(3) {
                0 => build.written = build.buffer.len() + 1,
                // CAST: any bits will do.
                1 => build.written = dice.edge() as usize,
                _ => build.multipass_offset = dice.edge(),
            }
        }
        result
    }

    fn interrupt_routine(&mut self, notify: &mut dyn Notify) -> bool {
        if let Some(mut dice) = self.lies.tells(Lie::Interrupts) {
            facets::false_interrupt(&mut dice, notify);
        }
        if let Some(mut dice) = self.lies.tells(Lie::Blanks) {
            displays::false_blank(&mut dice, notify);
        }
        self.inner.interrupt_routine(&mut facets::Muffled { lies: &self.lies, notify })
    }

    fn query_dependent_engine_group(&mut self, node: NodeId) -> u64 {
        let honest = self.inner.query_dependent_engine_group(node);
        match self.lies.tells(Lie::Groups).map(|mut dice| (dice.below(4), dice)) {
            None => honest,
            // True, or at least not to be told from what is.
            Some((0 | 1, _)) => 0b11,
            Some((2, mut dice)) => honest ^ 1 << dice.below(64),
            Some((_, mut dice)) => dice.edge(),
        }
    }

    fn gpu_va(&mut self) -> Option<&mut dyn GpuVirtualAddressing> {
        let facet = self.inner.gpu_va()?;
        let caps = facet.gpu_mmu_caps();
        self.honest_mmu =
            Some((caps, (0..caps.page_table_levels).map(|level| facet.page_table_level(level)).collect()));
        Some(self)
    }

    fn hardware_queues(&mut self) -> Option<&mut dyn HardwareQueues> {
        self.inner.hardware_queues()?;
        Some(self)
    }

    fn native_fences(&mut self) -> Option<&mut dyn NativeFences> {
        self.honest_fences = self.inner.native_fences()?.caps();
        Some(self)
    }

    fn native_fence_logs(&mut self) -> Option<&mut dyn NativeFenceLogs> {
        self.inner.native_fence_logs()?;
        Some(self)
    }

    fn packet_scheduling(&mut self) -> Option<&mut dyn PacketScheduling> {
        self.honest_packets = Some(self.inner.packet_scheduling()?.packet_caps());
        Some(self)
    }

    fn doorbells(&mut self) -> Option<&mut dyn Doorbells> {
        self.inner.doorbells()?;
        Some(self)
    }

    fn cpu_host_aperture(&mut self) -> Option<&mut dyn HostAperture> {
        self.inner.cpu_host_aperture()?;
        Some(self)
    }

    fn calibrate_gpu_clock(&self, node: NodeId) -> Result<GpuClock, DriverStatus> {
        let clock = self.inner.calibrate_gpu_clock(node)?;
        match self.lies.tells(Lie::Flips).map(|mut dice| dice.edge()) {
            Some(counter) => Ok(GpuClock { counter, ..clock }),
            None => Ok(clock),
        }
    }

    fn display(&mut self) -> Option<&mut dyn Display> {
        self.honest_displays.see(self.inner.as_mut())?;
        Some(self)
    }

    fn flip_queue(&mut self) -> Option<&mut dyn FlipQueue> {
        self.honest_displays.queue = self.inner.flip_queue()?.flip_queue_caps();
        Some(self)
    }
}
