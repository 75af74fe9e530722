//! Calls that must be refused and change nothing.

use super::*;
use kmt_calls::{AllocationCall, GpuVaCall, LockCall, ResidencyCall};

impl Process {
    /// A call that must be refused and change nothing.
    // spec: memory §9.3
    pub(super) fn hostile_call(&mut self) -> (Call, &'static str) {
        let device = self.device;
        let paging_queue = self.paging_handle();
        let paging_fence = self.paging.expect("set up").fence.made.fence;
        let queue = self.random.index(self.queues.len());
        let context = self.queues[queue].context;
        let progress = self.queues[queue].progress.map_or(paging_fence, |progress| progress.made.fence);
        let surface = self.surface(0).handle;
        let stale = self.dead_handles.last().copied().unwrap_or(RawHandle(0xffff_fff0));
        match self.random.below(15) {
            0 => (Call::Lock(LockCall::Lock2 { device, allocation: surface, flags: 4 }), "reserved flags of a lock"),
            1 => (evict(device, vec![surface], EvictFlags::from_bits_retain(1 << 9)), "reserved flags of an evict"),
            2 => (evict(device, vec![surface; 3], EvictFlags::empty()), "more evicts than the count"),
            3 => {
                let (allocations, flags) = (vec![surface], MakeResidentFlags::MUST_SUCCEED);
                let call = ResidencyCall::MakeResident { paging_queue, allocations, flags };
                (Call::Residency(call), "MustSucceed alone")
            }
            4 => (destroy_allocation(device, vec![stale]), "a stale handle"),
            5 => (destroy_allocation(device, vec![device]), "a device as an allocation"),
            6 => (
                Call::GpuVa(GpuVaCall::FreeGpuVirtualAddress {
                    device,
                    base: GpuVa(0x7ffe_0000_0000),
                    size_bytes: 4096,
                }),
                "an address that is free",
            ),
            7 => {
                let flags = QueueFlags::from_bits_retain(1 << 20);
                (
                    Call::Queue(QueueCall::CreateHwQueue { context, flags, private_data: Vec::new() }),
                    "reserved flags of a queue",
                )
            }
            8 => (
                Call::Queue(QueueCall::CreateHwContext { device, node: NodeId(99), private_data: vec![] }),
                "a node that is not there",
            ),
            9 => (Call::Sync(SyncCall::DestroySynchronizationObject { fence: progress }), "the fence of a queue"),
            10 => {
                let (points, flags) = (vec![(progress, u64::MAX)], SignalFlags::empty());
                let signal = SyncCall::SignalSynchronizationObjectFromCpu { device, points, flags };
                (Call::Sync(signal), "a signal of a progress fence")
            }
            11 => {
                let allocations =
                    vec![AllocationRequest { private_data: vec![0x5a; 24], ..AllocationRequest::default() }];
                (
                    Call::Allocation(AllocationCall::CreateAllocation {
                        device,
                        allocations,
                        resource: ResourceRequest::default(),
                    }),
                    "private data that no driver knows",
                )
            }
            12 => (self.hostile_wait(vec![(paging_fence, 1); 4_096]), "a wait for 4,096 objects"),
            13 => (self.hostile_wait(vec![(stale, 1)]), "a wait for a stale handle"),
            _ => self.hostile_submission(queue),
        }
    }

    fn hostile_wait(&self, points: Vec<(RawHandle, u64)>) -> Call {
        Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
            device: self.device,
            points,
            async_event: RawHandle::NONE,
            flags: WaitFlags::empty(),
        })
    }

    /// A command buffer for a queue that its process feeds itself, or one that ends within a word.
    fn hostile_submission(&self, queue: usize) -> (Call, &'static str) {
        let (buffer_bytes, why) = match self.queues[queue].user {
            true => (8, "kernel-mode submission on a queue that forbids it"),
            false => (7, "a buffer of 7 bytes"),
        };
        let call = Call::Queue(QueueCall::SubmitCommandToHwQueue {
            queue: self.queues[queue].handle,
            progress_value: u64::MAX,
            buffer: GpuVa(4096),
            buffer_bytes,
            written_primaries: Vec::new(),
            private_data: Vec::new(),
        });
        (call, why)
    }
}

fn evict(device: RawHandle, allocations: Vec<RawHandle>, flags: EvictFlags) -> Call {
    Call::Residency(ResidencyCall::Evict { device, allocations, flags })
}
