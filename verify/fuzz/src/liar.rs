//! A driver that lies: between the kernel and the software GPU's driver, it breaks the contract now and then. It says wrong
//! sizes, segments, counts, capabilities; fails what must succeed; is busy or short of room for ever; names fences that
//! are not there. It hands on everything else. The facets are in `facets`.

mod displays;
mod facets;
mod hardware_queues;
mod plan;

use ddi::*;
use miniport_filter::*;
use wddm_types::{NodeId, SegmentSet};

pub use self::plan::{Lie, Lies, World};

/// The lies, as a filter in front of an honest driver.
pub struct Liar {
    lies: Lies,
}

impl Liar {
    /// In front of an honest one.
    pub fn before(driver: Box<dyn Miniport>, lies: Lies) -> Box<dyn Miniport> {
        Box::new(Filtered::new(driver, Liar { lies }))
    }
}

passes_on!(Liar: PeerDoorbellsFilter, SwizzlingFilter);

impl Filter for Liar {
    fn reset_from_timeout(&mut self, next: &mut dyn Miniport, host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.reset_from_timeout(host)
    }

    fn restart_from_timeout(&mut self, next: &mut dyn Miniport, host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.restart_from_timeout(host)
    }

    fn set_power_state(
        &mut self,
        next: &mut dyn Miniport,
        host: &mut dyn Host,
        state: PowerState,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.set_power_state(host, state)
    }

    fn adapter_caps(&self, next: &dyn Miniport) -> AdapterCaps {
        let mut caps = next.adapter_caps();
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

    fn query_segment4(&self, next: &dyn Miniport, query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        let result = next.query_segment4(query);
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

    fn node_metadata(&self, next: &dyn Miniport, node: NodeId) -> Option<NodeMetadata> {
        let mut metadata = next.node_metadata(node)?;
        if self.lies.tells(Lie::Nodes).is_some() {
            metadata.gpu_mmu_supported = !metadata.gpu_mmu_supported;
        }
        Some(metadata)
    }

    fn create_process(
        &mut self,
        next: &mut dyn Miniport,
        host: &mut dyn Host,
        create: CreateProcess<'_>,
    ) -> Result<KmdProcess, DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.create_process(host, create)
    }

    fn create_device(
        &mut self,
        next: &mut dyn Miniport,
        host: &mut dyn Host,
        create: CreateDevice,
    ) -> Result<(KmdDevice, DeviceInfo), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        let (device, mut info) = next.create_device(host, create)?;
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

    fn create_allocation(
        &mut self,
        next: &mut dyn Miniport,
        create: &mut CreateAllocation<'_, '_>,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.create_allocation(create)?;
        for new in create.allocations.iter_mut() {
            self.misdescribe(&mut new.info);
        }
        Ok(())
    }

    fn open_allocation(
        &mut self,
        next: &mut dyn Miniport,
        open: &mut OpenAllocation<'_, '_>,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.open_allocation(open)
    }

    fn validate_update_allocation_property(
        &mut self,
        next: &mut dyn Miniport,
        update: UpdateAllocationProperty,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.validate_update_allocation_property(update)
    }

    fn standard_allocation_driver_data(
        &mut self,
        next: &mut dyn Miniport,
        query: &mut StandardAllocationDriverData<'_>,
    ) -> Result<(), DriverStatus> {
        let result = next.standard_allocation_driver_data(query);
        if let Some(mut dice) = self.lies.tells(Lie::StandardData) {
            query.allocation_bytes = dice.number32(5000);
            (query.resource_bytes, query.pitch_bytes) = (dice.number32(5000), dice.number32(5000));
        }
        result
    }

    fn escape(&mut self, next: &mut dyn Miniport, escape: &mut Escape<'_>) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        let Some(mut dice) = self.lies.tells(Lie::Escapes) else { return next.escape(escape) };
        // An answer to something else, one that is refused after all, or none that was ever asked for.
        let answered = if dice.chance(50) { next.escape(escape) } else { Ok(()) };
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

    fn build_paging_buffer(
        &mut self,
        next: &mut dyn Miniport,
        build: &mut BuildPagingBuffer<'_>,
    ) -> Result<(), PagingStatus> {
        if self.lies.tells(Lie::Busy).is_some() {
            return Err(PagingStatus::AllocationBusy);
        }
        if self.lies.tells(Lie::Insufficient).is_some() {
            return Err(PagingStatus::InsufficientDmaBuffer);
        }
        if self.lies.tells(Lie::Fatal).is_some() {
            return Err(PagingStatus::Fatal("a lie"));
        }
        let result = next.build_paging_buffer(build);
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

    fn interrupt_routine(&mut self, next: &mut dyn Miniport, notify: &mut dyn Notify) -> bool {
        if let Some(mut dice) = self.lies.tells(Lie::Interrupts) {
            facets::false_interrupt(&mut dice, notify);
        }
        if let Some(mut dice) = self.lies.tells(Lie::Blanks) {
            displays::false_blank(&mut dice, notify);
        }
        next.interrupt_routine(&mut facets::Muffled { lies: &self.lies, notify })
    }

    fn query_dependent_engine_group(&mut self, next: &mut dyn Miniport, node: NodeId) -> u64 {
        let honest = next.query_dependent_engine_group(node);
        match self.lies.tells(Lie::Groups).map(|mut dice| (dice.below(4), dice)) {
            None => honest,
            // True, or at least not to be told from what is.
            Some((0 | 1, _)) => 0b11,
            Some((2, mut dice)) => honest ^ 1 << dice.below(64),
            Some((_, mut dice)) => dice.edge(),
        }
    }

    fn calibrate_gpu_clock(&self, next: &dyn Miniport, node: NodeId) -> Result<GpuClock, DriverStatus> {
        let clock = next.calibrate_gpu_clock(node)?;
        match self.lies.tells(Lie::Flips).map(|mut dice| dice.edge()) {
            Some(counter) => Ok(GpuClock { counter, ..clock }),
            None => Ok(clock),
        }
    }
}
