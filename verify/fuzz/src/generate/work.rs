//! Calls that give the GPU something to do: queues, doorbells, packets, fences.

use kmt_calls::{
    Call, ContextFlags, EventCall, FenceFlags, NativeFenceRequest, PacketCall, QueueCall, QueueFlags, SignalFlags,
    SyncCall, SyncObjectKind, SyncObjectRequest, WaitFlags,
};
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
                Call::Queue(QueueCall::CreateHwContext {
                    device,
                    node: self.node(),
                    private_data: vec![0x5A; length as usize],
                })
            }
            3 => Call::Queue(QueueCall::DestroyHwContext { context: self.handle(Kind::HwContext) }),
            4..8 => {
                let flags = if self.dice.chance(50) { QueueFlags::USER_MODE_SUBMISSION } else { QueueFlags::empty() };
                let odd = if self.dice.odd() { self.dice.flags32(0x31) } else { 0 };
                let flags = flags | QueueFlags::from_bits_retain(odd);
                Call::Queue(QueueCall::CreateHwQueue {
                    context: self.handle(Kind::HwContext),
                    flags,
                    private_data: Vec::new(),
                })
            }
            8 => Call::Queue(QueueCall::DestroyHwQueue { queue }),
            9..11 => {
                let ring_va = self.dice.address(&self.known.addresses);
                let ring = self.handle(Kind::Allocation);
                let private_data = vec![0; 8];
                Call::Queue(QueueCall::CreateDoorbell { queue, ring, ring_va, private_data })
            }
            11 => Call::Queue(QueueCall::ConnectDoorbell { doorbell: self.handle(Kind::Doorbell) }),
            12 => Call::Queue(QueueCall::DestroyDoorbell { doorbell: self.handle(Kind::Doorbell) }),
            13 if self.dice.chance(30) => Call::Queue(QueueCall::GetNativeFenceLogDetail { queue }),
            13 => Call::Queue(QueueCall::NotifyWorkSubmission { doorbell: self.handle(Kind::Doorbell) }),
            14..17 => {
                let (buffer, buffer_bytes) = self.buffer();
                Call::Queue(QueueCall::SubmitCommandToHwQueue {
                    queue,
                    progress_value: self.dice.number(1 << 20).saturating_add(1),
                    buffer,
                    buffer_bytes,
                    written_primaries: if self.dice.odd() {
                        self.known.list(self.dice, Kind::Allocation, 3)
                    } else {
                        Vec::new()
                    },
                    private_data: self.private_data(),
                })
            }
            17..20 => Call::Queue(QueueCall::SubmitWaitForSyncObjectsToHwQueue { queue, points: self.gpu_points() }),
            _ => {
                let mut queues = vec![queue];
                if self.dice.odd() {
                    queues.extend(self.known.list(self.dice, Kind::Queue, 2));
                }
                let flags = kmt_calls::SignalFlags::from_bits_retain(self.dice.flags32(0b111));
                let points = self.points();
                Call::Queue(QueueCall::SubmitSignalSyncObjectsToHwQueue { queues, points, flags })
            }
        }
    }

    pub(super) fn packet_call(&mut self) -> Call {
        let device = self.handle(Kind::Device);
        let list = self.handle(Kind::ListContext);
        let context = if self.dice.odd() { self.handle(Kind::HwContext) } else { self.handle(Kind::VirtualContext) };
        let flags = if self.dice.odd() { self.dice.flags32(0x7F) } else { 0 };
        let flags = ContextFlags::from_bits_retain(flags);
        let engine_affinity = if self.dice.odd() { self.dice.number32(u32::MAX) } else { 1 };
        match self.dice.below(15) {
            0 | 1 => Call::Packet(PacketCall::CreateContext {
                device,
                node: self.node(),
                engine_affinity,
                flags,
                private_data: vec![],
            }),
            2 | 3 => Call::Packet(PacketCall::CreateContextVirtual {
                device,
                node: self.node(),
                engine_affinity,
                flags,
                private_data: vec![],
            }),
            4 if self.dice.chance(50) => Call::Packet(PacketCall::DestroyContext { context: list }),
            4 => Call::Packet(PacketCall::DestroyContext { context }),
            5..8 => self.render(list),
            8 => self.present(list),
            9 => {
                let addressed = self.handle(Kind::VirtualContext);
                self.present(addressed)
            }
            10..13 => {
                let (commands, command_bytes) = self.buffer();
                let odd = self.dice.odd();
                let written_primaries = if odd { self.known.list(self.dice, Kind::Allocation, 3) } else { Vec::new() };
                let private_data = self.private_data();
                Call::Packet(match self.dice.chance(10) {
                    true => PacketCall::SubmitNull { context, written_primaries },
                    false => {
                        PacketCall::SubmitCommand { context, commands, command_bytes, written_primaries, private_data }
                    }
                })
            }
            13 => Call::Sync(SyncCall::WaitForSynchronizationObjectFromGpu { context, points: self.gpu_points() }),
            _ => Call::Sync(SyncCall::SignalSynchronizationObjectFromGpu { context, points: self.points() }),
        }
    }

    /// Private data of a submission: mostly none.
    pub(super) fn private_data(&mut self) -> Vec<u8> {
        match self.dice.chance(20) {
            true => vec![0xA5; self.dice.below(20_000) as usize],
            false => Vec::new(),
        }
    }

    /// A fence that every adapter has; when odd, any object of the call.
    pub(super) fn create_fence(&mut self) -> Call {
        let odd = self.dice.odd();
        let initial_value = self.dice.number(2);
        let monitored = SyncObjectKind::MonitoredFence { initial_value, engine_affinity: u32::from(odd) };
        let kind = match if odd { self.dice.below(8) } else { 7 } {
            0 => SyncObjectKind::MutexObject { owned: self.dice.chance(50) },
            1 => SyncObjectKind::Semaphore { max_count: self.dice.number32(2), initial_count: self.dice.number32(2) },
            2 => SyncObjectKind::Fence { value: self.dice.number(2) },
            3 => SyncObjectKind::CpuNotification { event: self.handle(Kind::Event) },
            4 => SyncObjectKind::PeriodicMonitoredFence { target: 0, time_100ns: initial_value, engine_affinity: 0 },
            5 => SyncObjectKind::Other(self.dice.number32(9)),
            _ => monitored,
        };
        let flags = match self.dice.below(4) {
            0 if odd => FenceFlags::from_bits_retain(self.dice.flags32(0x5FF)),
            1 => FenceFlags::NO_GPU_ACCESS,
            _ => self.fence_sharing(),
        };
        let flags = match kind {
            _ if self.dice.odd() => flags,
            SyncObjectKind::MonitoredFence { .. } => flags,
            _ => self.object_sharing(),
        };
        Call::Sync(SyncCall::CreateSynchronizationObject2 {
            device: self.handle(Kind::Device),
            request: SyncObjectRequest { kind, flags },
        })
    }

    /// Calls of contexts on all kinds of objects, and on events.
    pub(super) fn sync_call(&mut self) -> Call {
        let context = if self.dice.odd() { self.handle(Kind::ListContext) } else { self.handle(Kind::VirtualContext) };
        let flags = SignalFlags::from_bits_retain(self.dice.flags32(7));
        let event = if self.dice.chance(60) { RawHandle::NONE } else { self.handle(Kind::Event) };
        match self.dice.below(8) {
            0 => Call::Event(EventCall::Create { manual_reset: self.dice.chance(50) }),
            1 => Call::Event(EventCall::Wait { event: self.handle(Kind::Event), block: self.endless }),
            2 if self.dice.chance(40) => Call::Event(EventCall::Set { event: self.handle(Kind::Event) }),
            2 => Call::Event(EventCall::Close { event: self.handle(Kind::Event) }),
            3 => Call::Sync(SyncCall::SignalSynchronizationObjectFromGpu2 {
                contexts: vec![context],
                points: self.points(),
                event,
                flags,
            }),
            4 => Call::Sync(SyncCall::WaitForSynchronizationObject2 {
                context,
                objects: self.known.list(self.dice, Kind::SyncObject, 2),
                fence_value: if self.endless { self.dice.number(3) } else { 0 },
            }),
            _ => Call::Sync(SyncCall::SignalSynchronizationObject2 {
                context,
                objects: self.known.list(self.dice, Kind::SyncObject, 2),
                broadcast: Vec::new(),
                fence_value: self.dice.number(3),
                event,
                flags,
            }),
        }
    }

    pub(super) fn fence_call(&mut self) -> Call {
        let device = self.handle(Kind::Device);
        match self.dice.below(14) {
            12..14 => self.sync_call(),
            0..4 if !self.queues || self.dice.chance(30) => self.create_fence(),
            0..4 => {
                let request = NativeFenceRequest {
                    initial_value: self.dice.number(2),
                    fence_type: self.dice.number32(0),
                    flags: if self.dice.odd() {
                        FenceFlags::from_bits_retain(self.dice.flags32(0xFF))
                    } else {
                        self.fence_sharing()
                    },
                    ..NativeFenceRequest::default()
                };
                Call::Sync(SyncCall::CreateNativeFence { device, request })
            }
            4 | 5 => Call::Sync(SyncCall::DestroySynchronizationObject { fence: self.handle(Kind::Fence) }),
            6..8 => {
                let flags = WaitFlags::from_bits_retain(self.dice.flags32(1));
                Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
                    device,
                    points: self.points(),
                    async_event: if self.dice.chance(70) { RawHandle::NONE } else { self.handle(Kind::Event) },
                    flags,
                })
            }
            _ => Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu {
                device,
                points: self.points(),
                flags: SignalFlags::from_bits_retain(self.dice.flags32(7)),
            }),
        }
    }
}
