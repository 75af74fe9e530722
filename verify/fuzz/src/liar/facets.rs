//! The lies of the facets, and interrupts that never happened.

use ddi::*;
use miniport_filter::*;
use wddm_types::{EngineId, NodeId, SegmentId, SegmentSet};

use super::{Liar, Lie, Lies};
use crate::dice::Dice;

/// Now and then withholds a report of a preemption or a suspension from the kernel.
pub struct Muffled<'a> {
    pub lies: &'a Lies,
    pub notify: &'a mut dyn Notify,
}

impl Notify for Muffled<'_> {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        let of_room = matches!(interrupt, Interrupt::DmaPreempted { .. } | Interrupt::SuspendContextCompleted { .. });
        if !of_room || self.lies.tells(Lie::Silence).is_none() {
            self.notify.interrupt(interrupt);
        }
    }
}

/// An interrupt about something that there is not.
pub fn false_interrupt(dice: &mut Dice, notify: &mut dyn Notify) {
    // CAST: any bits will do.
    let (node, queue, fence_id) = (NodeId(dice.number(2) as u16), KmdQueue(dice.number(9)), dice.number32(9));
    let fences = [OsGlobalFence(dice.number(9)), OsGlobalFence(dice.edge())];
    let queues = [queue];
    match dice.below(7) {
        0 => notify.interrupt(Interrupt::NativeFenceSignaled {
            node,
            engine: EngineId(0),
            fences: Some(&fences),
            queues: &[],
            flags: InterruptFlags::empty(),
        }),
        1 => notify.interrupt(Interrupt::NativeFenceSignaled {
            node,
            engine: EngineId(0),
            fences: None,
            queues: &queues,
            flags: InterruptFlags::from_bits_retain(dice.number32(4)),
        }),
        2 => {
            let context = OsContext(dice.number(9));
            notify.interrupt(Interrupt::SuspendContextCompleted { context, suspend_fence: dice.number(9) });
        }
        3 => notify.interrupt(Interrupt::DmaCompleted { node, fence_id }),
        4 => notify.interrupt(Interrupt::DmaPageFaulted(DmaFault {
            node,
            fence_id,
            virtual_address: dice.edge(),
            write: true,
            invalid_instruction: dice.chance(50),
        })),
        5 => notify.interrupt(Interrupt::DmaPreempted {
            node,
            engine: wddm_types::EngineId(0),
            preemption_fence_id: dice.number32(3),
            last_completed_fence_id: fence_id,
        }),
        _ => notify.interrupt(Interrupt::HwQueuePageFaulted(PageFault {
            queue,
            node,
            virtual_address: dice.edge(),
            write: true,
            level: dice.number32(3),
            invalid_instruction: dice.chance(50),
        })),
    }
}

impl GpuVirtualAddressingFilter for Liar {
    fn gpu_mmu_caps(&self, mut caps: GpuMmuCaps) -> GpuMmuCaps {
        if let Some(mut dice) = self.lies.tells(Lie::MmuCaps) {
            match dice.below(3) {
                0 => caps.virtual_address_bits = dice.number32(64),
                1 => caps.page_table_levels = dice.number32(9),
                _ => caps.flags ^= GpuMmuFlags::from_bits_retain(1 << dice.below(32) as u32),
            }
        }
        caps
    }

    fn page_table_level(&self, _level: u32, mut description: PageTableLevelDesc) -> PageTableLevelDesc {
        if let Some(mut dice) = self.lies.tells(Lie::Levels) {
            match dice.below(5) {
                0 => description.index_bits = dice.number32(40),
                1 => description.size_bytes = dice.number32(1 << 16),
                2 => description.alignment_bytes = dice.number32(1 << 16),
                3 => description.segment = SegmentId(dice.number32(9) as u8),
                _ => description.paging_process_segment = SegmentId(dice.number32(9) as u8),
            }
        }
        description
    }

    fn root_page_table_size(
        &mut self,
        next: &mut dyn GpuVirtualAddressing,
        entries: u32,
    ) -> Option<ddi::RootPageTableSize> {
        let mut size = next.root_page_table_size(entries)?;
        if let Some(mut dice) = self.lies.tells(Lie::Levels) {
            match dice.below(2) {
                0 => size.entries = dice.number32(1 << 16),
                _ => size.bytes = u64::from(dice.number32(1 << 16)),
            }
        }
        Some(size)
    }
}

impl NativeFencesFilter for Liar {
    fn create_native_fence(
        &mut self,
        next: &mut dyn NativeFences,
        create: &mut CreateNativeFence<'_>,
    ) -> Result<KmdGlobalFence, DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.create(create)
    }

    fn open_native_fence(
        &mut self,
        next: &mut dyn NativeFences,
        open: &mut OpenNativeFence<'_>,
    ) -> Result<KmdLocalFence, DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.open(open)
    }

    fn update_monitored_values(
        &mut self,
        next: &mut dyn NativeFences,
        updates: &[MonitoredUpdate<'_>],
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Fences)?;
        next.update_monitored_values(updates)
    }

    fn update_current_values(
        &mut self,
        next: &mut dyn NativeFences,
        updates: &[CurrentUpdate<'_>],
        flags: UpdateCurrentFlags,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Fences)?;
        next.update_current_values(updates, flags)
    }
}

impl NativeFenceLogsFilter for Liar {
    fn set_log_buffer(
        &mut self,
        next: &mut dyn NativeFenceLogs,
        set: SetNativeFenceLogBuffer<'_>,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.set_log_buffer(set)
    }

    fn update_logs(&mut self, next: &mut dyn NativeFenceLogs, queues: &[KmdQueue]) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Fences)?;
        next.update_logs(queues)
    }
}

impl DoorbellsFilter for Liar {
    fn create_doorbell(
        &mut self,
        next: &mut dyn Doorbells,
        create: CreateDoorbell<'_>,
    ) -> Result<KmdDoorbell, DriverStatus> {
        self.lies.refusal(Lie::Doorbell)?;
        next.create_doorbell(create)
    }

    fn connect_doorbell(
        &mut self,
        next: &mut dyn Doorbells,
        host: &mut dyn DoorbellHost,
        doorbell: KmdDoorbell,
    ) -> Result<ConnectedDoorbell, DriverStatus> {
        self.lies.refusal(Lie::Doorbell)?;
        let mut connected = next.connect_doorbell(host, doorbell)?;
        if let Some(mut dice) = self.lies.tells(Lie::Doorbell) {
            connected.offset = dice.edge();
        }
        Ok(connected)
    }
}

impl PacketSchedulingFilter for Liar {
    fn create_context(
        &mut self,
        next: &mut dyn PacketScheduling,
        host: &mut dyn Host,
        create: CreateContext<'_>,
    ) -> Result<(KmdContext, ContextInfo), DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        let (context, mut info) = next.create_context(host, create)?;
        if let Some(mut dice) = self.lies.tells(Lie::ContextInfo) {
            match dice.below(7) {
                0 => info.dma_buffer_bytes = dice.number32(1 << 20),
                1 => info.dma_buffer_segment_set = SegmentSet(dice.number32(15)),
                2 => info.dma_buffer_private_data_bytes = dice.number32(1 << 20),
                3 => info.allocation_list_entries = dice.number32(1 << 12),
                4 => info.patch_location_list_entries = dice.number32(1 << 12),
                5 => info.caps ^= ContextCaps::from_bits_retain(1 << dice.below(4)),
                _ => info.paging_companion_node = NodeId(dice.number32(5) as u16),
            }
        }
        Ok((context, info))
    }

    fn render(
        &mut self,
        next: &mut dyn PacketScheduling,
        context: KmdContext,
        render: &mut Render<'_>,
    ) -> Result<(), RenderStatus> {
        let result = next.render(context, render);
        match self.lies.tells(Lie::Render) {
            None => result,
            Some(mut dice) => lie_about(&mut dice, &mut render.dma_buffer.written, &mut render.patch_locations_out),
        }
    }

    fn present(
        &mut self,
        next: &mut dyn PacketScheduling,
        context: KmdContext,
        present: &mut Present<'_>,
    ) -> Result<(), RenderStatus> {
        let result = next.present(context, present);
        match self.lies.tells(Lie::Render) {
            None => result,
            Some(mut dice) => lie_about(&mut dice, &mut present.dma_buffer.written, &mut present.patch_locations_out),
        }
    }

    fn present_flip(
        &mut self,
        next: &mut dyn PacketScheduling,
        context: KmdContext,
        list: &[AllocationListEntry],
    ) -> Result<(), RenderStatus> {
        match self.lies.tells(Lie::Render) {
            None => next.present_flip(context, list),
            Some(mut dice) => Err(refusal(&mut dice)),
        }
    }

    fn patch(&mut self, next: &mut dyn PacketScheduling, patch: &mut Patch<'_>) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Submit)?;
        next.patch(patch)
    }

    fn submit_command(
        &mut self,
        next: &mut dyn PacketScheduling,
        submit: SubmitCommand<'_>,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Submit)?;
        next.submit_command(submit)
    }

    fn submit_command_virtual(
        &mut self,
        next: &mut dyn PacketScheduling,
        submit: SubmitCommandVirtual<'_>,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Submit)?;
        next.submit_command_virtual(submit)
    }

    fn preempt_command(
        &mut self,
        next: &mut dyn PacketScheduling,
        preempt: PreemptCommand,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Submit)?;
        next.preempt_command(preempt)
    }

    fn reset_engine(
        &mut self,
        next: &mut dyn PacketScheduling,
        reset: ResetEngine,
        notify: &mut dyn Notify,
    ) -> Result<u32, DriverStatus> {
        let honest = next.reset_engine(reset, notify)?;
        match self.lies.tells(Lie::Resets).map(|mut dice| (dice.below(3), dice)) {
            None => Ok(honest),
            Some((0, _)) => Err(DriverStatus::Unsuccessful("a lie")),
            Some((1, mut dice)) => Ok(dice.number32(9)),
            Some((_, mut dice)) => {
                notify.interrupt(Interrupt::DmaCompleted { node: reset.node, fence_id: dice.number32(9) });
                Ok(honest)
            }
        }
    }
}

fn lie_about(dice: &mut Dice, written: &mut usize, out: &mut PatchLocationsOut<'_>) -> Result<(), RenderStatus> {
    match dice.below(8) {
        // CAST: any bits will do.
        0 => *written = dice.edge() as usize,
        1 => out.written = dice.edge() as usize,
        2 => {
            if let Some(first) = out.list.first_mut() {
                first.allocation_index = dice.number32(9);
                first.patch_offset = dice.number32(1 << 20);
                first.split_offset = dice.number32(1 << 20);
            }
            out.written = out.written.max(1);
        }
        _ => return Err(refusal(dice)),
    }
    Ok(())
}

fn refusal(dice: &mut Dice) -> RenderStatus {
    match dice.below(5) {
        0 => RenderStatus::NoMemory("a lie"),
        1 => RenderStatus::InsufficientDmaBuffer,
        2 => RenderStatus::GpuException("a lie"),
        3 => RenderStatus::DriverMismatch,
        _ => RenderStatus::InvalidHandle("a lie"),
    }
}

impl HostApertureFilter for Liar {
    fn map_cpu_host_aperture(
        &mut self,
        next: &mut dyn HostAperture,
        map: MapCpuHostAperture<'_>,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Window)?;
        next.map_cpu_host_aperture(map)
    }
}

impl Liar {
    /// Spoils the description of an allocation that the kernel gets.
    pub(super) fn misdescribe(&self, info: &mut AllocationInfo) {
        if let Some(mut dice) = self.lies.tells(Lie::Size) {
            match dice.below(3) {
                0 => info.size_bytes = dice.edge(),
                1 => info.alignment_bytes = dice.edge(),
                _ => info.pitch_aligned_size_bytes = dice.edge(),
            }
        }
        if let Some(mut dice) = self.lies.tells(Lie::Sets) {
            let set = SegmentSet(dice.number32(15));
            match dice.below(4) {
                0 => info.supported_segments = set,
                1 => info.read_segments = set,
                2 => info.eviction_segments = set,
                _ => info.physical_adapter = dice.number32(1),
            }
        }
        if let Some(mut dice) = self.lies.tells(Lie::AllocationFlags) {
            match dice.below(3) {
                0 => info.flags = AllocationFlags::from_bits_retain(dice.edge() as u32),
                1 => info.flags2 = AllocationFlags2::from_bits_retain(dice.edge() as u32),
                _ => info.priority = dice.edge() as u32,
            }
        }
        if let Some(mut dice) = self.lies.tells(Lie::Handles) {
            info.allocation = KmdAllocation(dice.number(8));
        }
    }
}
