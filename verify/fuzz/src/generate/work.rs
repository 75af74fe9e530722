//! Calls that give the GPU something to do: queues, doorbells, packets, fences.

use kmt_calls::{
    AllocationListFlags, AllocationListItem, Call, ContextFlags, FenceFlags, NativeFenceRequest, PatchLocationItem,
    QueueFlags, WaitFlags,
};
use softgpu_spec::Command;
use wddm_types::{NodeId, RawHandle};

use super::Generator;
use crate::known::Kind;

impl Generator<'_> {
    fn node(&mut self) -> NodeId {
        // CAST: any bits will do.
        NodeId(self.dice.number(1) as u16)
    }

    fn points(&mut self) -> Vec<(RawHandle, u64)> {
        let count = if self.dice.odd() { self.dice.below(2) * 80 } else { 1 + self.dice.below(2) };
        let kind = if self.dice.chance(80) { Kind::OwnFence } else { Kind::Fence };
        (0..count).map(|_| (self.handle(kind), self.dice.number(3))).collect()
    }

    /// Points that are reached, unless waits without end are allowed.
    fn gpu_points(&mut self) -> Vec<(RawHandle, u64)> {
        let points = self.points();
        if self.endless { points } else { points.into_iter().map(|(fence, _)| (fence, 0)).collect() }
    }

    pub(super) fn queue_call(&mut self) -> Call {
        let device = self.handle(Kind::Device);
        let queue = self.handle(Kind::Queue);
        match self.dice.below(24) {
            0..3 => {
                let length = if self.dice.odd() { self.dice.number(64).min(8192) } else { 0 };
                // CAST: at most 8192.
                Call::CreateHwContext { device, node: self.node(), private_data: vec![0x5A; length as usize] }
            }
            3 => Call::DestroyHwContext { context: self.handle(Kind::HwContext) },
            4..8 => {
                let flags = if self.dice.chance(50) { QueueFlags::USER_MODE_SUBMISSION } else { QueueFlags::empty() };
                let odd = if self.dice.odd() { self.dice.flags32(0x31) } else { 0 };
                let flags = flags | QueueFlags::from_bits_retain(odd);
                Call::CreateHwQueue { context: self.handle(Kind::HwContext), flags }
            }
            8 => Call::DestroyHwQueue { queue },
            9..11 => {
                let ring_va = self.dice.address(&self.known.addresses);
                Call::CreateDoorbell { queue, ring: self.handle(Kind::Allocation), ring_va }
            }
            11 => Call::ConnectDoorbell { doorbell: self.handle(Kind::Doorbell) },
            12 => Call::DestroyDoorbell { doorbell: self.handle(Kind::Doorbell) },
            13 => Call::NotifyWorkSubmission { doorbell: self.handle(Kind::Doorbell) },
            14..17 => {
                let wild = self.endless || self.dice.chance(5);
                let buffer = if wild { self.dice.address(&self.known.addresses) } else { wddm_types::GpuVa(4) };
                Call::SubmitCommandToHwQueue {
                    queue,
                    progress_value: self.dice.number(1 << 20).saturating_add(1),
                    buffer,
                    buffer_bytes: if self.dice.odd() { self.dice.number32(u32::MAX) } else { 64 },
                    written_primaries: if self.dice.odd() {
                        self.known.list(self.dice, Kind::Allocation, 3)
                    } else {
                        Vec::new()
                    },
                }
            }
            17..20 => Call::SubmitWaitForSyncObjectsToHwQueue { queue, points: self.gpu_points() },
            _ => Call::SubmitSignalSyncObjectsToHwQueue { queue, points: self.points() },
        }
    }

    pub(super) fn packet_call(&mut self) -> Call {
        let device = self.handle(Kind::Device);
        let list = self.handle(Kind::ListContext);
        let context = if self.dice.odd() { self.handle(Kind::HwContext) } else { self.handle(Kind::VirtualContext) };
        let flags = if self.dice.odd() { self.dice.flags32(0x7F) } else { 0 };
        let flags = ContextFlags::from_bits_retain(flags);
        let engine_affinity = if self.dice.odd() { self.dice.number32(u32::MAX) } else { 1 };
        match self.dice.below(12) {
            0 | 1 => Call::CreateContext { device, node: self.node(), engine_affinity, flags, private_data: vec![] },
            2 | 3 => {
                Call::CreateContextVirtual { device, node: self.node(), engine_affinity, flags, private_data: vec![] }
            }
            4 if self.dice.chance(50) => Call::DestroyContext { context: list },
            4 => Call::DestroyContext { context },
            5..8 => self.render(list),
            8 => {
                let (source, destination) = (self.handle(Kind::Allocation), self.handle(Kind::Allocation));
                Call::Present { context: list, source, destination }
            }
            9 => Call::SubmitCommand {
                context,
                commands: self.dice.address(&self.known.addresses),
                command_bytes: self.dice.number32(64),
                written_primaries: self.known.list(self.dice, Kind::Allocation, 3),
            },
            10 => Call::WaitForSynchronizationObjectFromGpu { context, points: self.gpu_points() },
            _ => Call::SignalSynchronizationObjectFromGpu { context, points: self.points() },
        }
    }

    fn render(&mut self, context: RawHandle) -> Call {
        let mut command = Vec::new();
        for _ in 0..self.dice.below(3) {
            let va = self.dice.address(&self.known.addresses).0;
            match self.dice.below(4) {
                0 => Command::Nop.encode(&mut command),
                1 => Command::Fill { va, bytes: self.dice.bytes(2), pattern: 7 }.encode(&mut command),
                2 => Command::Copy { source_va: va, target_va: va, bytes: 64 }.encode(&mut command),
                _ => command.push(self.dice.edge()),
            }
        }
        let list = self.known.list(self.dice, Kind::Allocation, 3);
        let items = list.into_iter().map(|allocation| AllocationListItem {
            allocation,
            flags: AllocationListFlags::from_bits_retain(self.dice.flags32(1)),
        });
        let allocation_list = items.collect();
        let count = if self.dice.odd() { self.dice.below(2) * 200 } else { self.dice.below(3) };
        let patch = |this: &mut Self| PatchLocationItem {
            allocation_index: this.dice.number32(2),
            slot_id: this.dice.number32(1),
            driver_id: this.dice.number32(1),
            allocation_offset: this.dice.number32(64),
            patch_offset: this.dice.number32(64),
            split_offset: this.dice.number32(64),
        };
        let patch_location_list = (0..count).map(|_| patch(self)).collect();
        Call::Render { context, command, allocation_list, patch_location_list }
    }

    pub(super) fn fence_call(&mut self) -> Call {
        let device = self.handle(Kind::Device);
        match self.dice.below(12) {
            0..4 => {
                let request = NativeFenceRequest {
                    initial_value: self.dice.number(2),
                    fence_type: self.dice.number32(0),
                    flags: FenceFlags::from_bits_retain(if self.dice.odd() { self.dice.flags32(0xFF) } else { 0 }),
                };
                Call::CreateNativeFence { device, request }
            }
            4 | 5 => Call::DestroySynchronizationObject { fence: self.handle(Kind::Fence) },
            6..8 => {
                let flags = WaitFlags::from_bits_retain(self.dice.flags32(1));
                Call::WaitForSynchronizationObjectFromCpu { device, points: self.points(), flags }
            }
            _ => Call::SignalSynchronizationObjectFromCpu { device, points: self.points() },
        }
    }
}
