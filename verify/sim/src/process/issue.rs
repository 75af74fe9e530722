//! From an operation of the plan to the call that it makes.

mod queue;

use kmt_calls::{
    AdapterCall, AllocationCall, AllocationRequest, AllocationTarget, Call, DestroyFlags, DeviceCall, EvictFlags,
    GpuVaCall, GpuVaProtection, LockCall, MakeResidentFlags, NativeFenceRequest, QueueCall, QueueFlags, ResidencyCall,
    ResourceRequest, SignalFlags, SyncCall, WaitFlags,
};
use softgpu_spec::private_data::{AllocationRequest as PrivateData, Kind};
use wddm_types::{GpuVa, Luid, NodeId, Pages, RawHandle};

use crate::process::Process;
use crate::process::model::{Content, Owner, Phase, Wish};
use crate::process::submission::Job;
use crate::process::tiles::Tile;

/// Far from what is mapped where the kernel puts it.
const FIRST_PLACE: u64 = 1 << 32;

/// A fence and a value that are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The handle.
    pub handle: RawHandle,
    /// The kernel's number of the fence.
    pub number: u64,
    /// The value.
    pub value: u64,
}

/// One thing that a process does.
#[derive(Clone, Debug)]
pub enum Op {
    Open(Luid),
    Device,
    PagingQueue,
    DestroyPagingQueue,
    Create {
        slot: usize,
        wish: Wish,
        pinned: bool,
    },
    Map {
        slot: usize,
        second: bool,
    },
    FreeSecond {
        slot: usize,
    },
    /// Addresses for tiles.
    Reserve,
    /// The fence of their updates.
    TileFence,
    /// One update of tiles.
    Tiles {
        queue: usize,
        changes: Vec<Tile>,
    },
    AwaitTiles,
    Resident {
        slots: Vec<usize>,
        tries: u32,
    },
    AwaitPaging {
        slots: Vec<usize>,
    },
    Evict {
        slots: Vec<usize>,
        lazily: bool,
    },
    Lock {
        slot: usize,
    },
    CpuWork {
        slot: usize,
    },
    Unlock {
        slot: usize,
    },
    Destroy {
        slot: usize,
    },
    Context {
        queue: usize,
    },
    Queue {
        queue: usize,
    },
    Doorbell {
        queue: usize,
    },
    Connect {
        queue: usize,
    },
    /// Whether the doorbell that was just rung is there.
    Look {
        queue: usize,
    },
    /// Rings for what was rung for already.
    Ring {
        queue: usize,
    },
    DestroyQueue {
        queue: usize,
    },
    Submit(Job),
    KernelWait {
        queue: usize,
        points: Vec<Point>,
    },
    KernelCommand {
        queue: usize,
        value: u64,
        buffer: GpuVa,
        bytes: u32,
    },
    KernelSignal {
        queue: usize,
        points: Vec<Point>,
    },
    Fence {
        slot: usize,
        owner: Owner,
        /// Its words are in memory of the GPU.
        local: bool,
    },
    SignalCpu {
        fence: usize,
    },
    DestroyFence {
        fence: usize,
    },
    /// Blocks the process until a queue has got to a value, at most its last.
    AwaitQueue {
        queue: usize,
        value: u64,
    },
    /// Waits in the background.
    Background {
        points: Vec<Point>,
        any: bool,
    },
    /// Must be refused, and change nothing.
    Hostile {
        call: Box<Call>,
        why: &'static str,
    },
    /// Must be refused because the device is lost.
    Doomed {
        call: Box<Call>,
    },
    State,
    QueryMemory,
    DestroyDevice,
    Die,
}

/// The calls or steps of an operation.
pub enum Issue {
    /// This call.
    Call(Call),
    /// This call waits for points, of which all or any are enough; in the background or not.
    Wait {
        /// The call.
        call: Call,
        /// The points.
        points: Vec<Point>,
        /// Any is enough.
        any: bool,
        /// The process goes on meanwhile.
        background: bool,
    },
    /// No call: it was done.
    Done,
    /// The end of the process.
    Die,
}

impl Process {
    /// Turns an operation into its call or step.
    ///
    /// # Errors
    /// A contradiction with the model.
    pub fn issue(&mut self, op: &Op) -> Result<Issue, String> {
        let device = self.device;
        let call = match op {
            Op::Open(luid) => Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: *luid }),
            Op::Device => Call::Device(DeviceCall::CreateDevice { adapter: self.adapter }),
            Op::PagingQueue => Call::Device(DeviceCall::CreatePagingQueue { device, priority: 0, physical_adapter: 0 }),
            Op::DestroyPagingQueue => Call::Device(DeviceCall::DestroyPagingQueue { queue: self.paging_handle() }),
            Op::Create { wish, .. } => create(device, *wish),
            Op::Map { slot, .. } => self.map(*slot),
            Op::FreeSecond { slot } => {
                let surface = self.surface_mut(*slot);
                let Some(mapping) = surface.second.take() else { return Ok(Issue::Done) };
                let (base, size_bytes) = (mapping.va, Pages::holding(surface.wish.bytes).bytes());
                Call::GpuVa(GpuVaCall::FreeGpuVirtualAddress { device, base, size_bytes })
            }
            Op::Resident { slots, .. } => {
                let (paging_queue, flags) = (self.paging_handle(), MakeResidentFlags::empty());
                let allocations = self.handles(slots);
                Call::Residency(ResidencyCall::MakeResident { paging_queue, allocations, flags })
            }
            Op::Reserve | Op::TileFence | Op::Tiles { .. } | Op::AwaitTiles => return Ok(self.tile_call(op)),
            Op::AwaitPaging { slots } => return Ok(self.await_paging(slots)),
            Op::Evict { slots, lazily } => self.evict(slots, *lazily),
            Op::Lock { slot } => {
                let allocation = self.surface(*slot).handle;
                Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 })
            }
            Op::CpuWork { slot } => return self.cpu_work(*slot).map(|()| Issue::Done),
            Op::Unlock { slot } => {
                self.surface_mut(*slot).lock = None;
                Call::Lock(LockCall::Unlock2 { device, allocation: self.surface(*slot).handle })
            }
            Op::Destroy { slot } => destroy_allocation(device, self.handles(&[*slot])),
            Op::Submit(job) => return Ok(self.submit(job)),
            Op::Look { queue } => return Ok(self.look(*queue)),
            Op::Ring { queue } => {
                self.ring_bell(*queue);
                return Ok(Issue::Done);
            }
            Op::SignalCpu { fence } => match self.fences[*fence] {
                Some(made) if made.local.is_none() && self.read(made.made.current) < made.promised => {
                    Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu {
                        device,
                        points: vec![(made.made.fence, made.promised)],
                        flags: SignalFlags::empty(),
                    })
                }
                _ => return Ok(Issue::Done),
            },
            Op::Fence { local, .. } => {
                let request = NativeFenceRequest { fence_type: u32::from(*local), ..NativeFenceRequest::default() };
                Call::Sync(SyncCall::CreateNativeFence { device, request })
            }
            Op::DestroyFence { fence } => match self.fences[*fence] {
                Some(made) => Call::Sync(SyncCall::DestroySynchronizationObject { fence: made.made.fence }),
                None => return Ok(Issue::Done),
            },
            Op::AwaitQueue { queue, value } => return Ok(self.await_queue(*queue, *value)),
            Op::Background { points, any } => return Ok(self.wait(points.clone(), *any, true)),
            Op::Hostile { call, .. } | Op::Doomed { call } => (**call).clone(),
            Op::State => Call::Device(DeviceCall::GetDeviceState { device }),
            Op::QueryMemory => self.query_memory(),
            Op::DestroyDevice => Call::Device(DeviceCall::DestroyDevice { device }),
            Op::Die => return Ok(Issue::Die),
            queue_op => self.queue_call(queue_op),
        };
        Ok(Issue::Call(call))
    }

    fn query_memory(&self) -> Call {
        Call::Adapter(AdapterCall::QueryVideoMemoryInfo { process: 0, adapter: self.adapter, local: true })
    }

    /// Maps an allocation for writing, at or above the place that its process has chosen.
    fn map(&mut self, slot: usize) -> Call {
        let minimum = self.place(slot);
        let surface = self.surface(slot);
        Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
            paging_queue: self.paging_handle(),
            allocation: surface.handle,
            base: GpuVa::NULL,
            minimum,
            maximum: GpuVa::NULL,
            offset_in_pages: 0,
            size_in_pages: Pages::holding(surface.wish.bytes).0,
            protection: GpuVaProtection::WRITE,
            driver_protection: 0,
        })
    }

    /// Evicts allocations, and says so where none of them was written since it came.
    fn evict(&self, slots: &[usize], lazily: bool) -> Call {
        let mut flags = EvictFlags::empty();
        flags.set(EvictFlags::EVICT_ONLY_IF_NECESSARY, lazily);
        let untouched = slots.iter().all(|slot| !self.surface(*slot).written);
        flags.set(EvictFlags::NOT_WRITTEN_TO, untouched);
        Call::Residency(ResidencyCall::Evict { device: self.device, allocations: self.handles(slots), flags })
    }

    fn handles(&self, slots: &[usize]) -> Vec<RawHandle> {
        slots.iter().map(|slot| self.surface(*slot).handle).collect()
    }

    pub(super) fn paging_handle(&self) -> RawHandle {
        self.paging.expect("set up").handle
    }

    fn await_paging(&self, slots: &[usize]) -> Issue {
        let paging = self.paging.expect("set up");
        let value = slots.iter().map(|slot| self.ready_at(*slot)).max().unwrap_or(0);
        if self.read(paging.fence.made.current) >= value {
            return Issue::Done;
        }
        let point = Point { handle: paging.fence.made.fence, number: paging.fence.number, value };
        self.wait(vec![point], false, false)
    }

    /// The paging-fence value from which a surface may be used at all its addresses.
    pub(super) fn ready_at(&self, slot: usize) -> u64 {
        let surface = self.surface(slot);
        let mapped = [surface.va, surface.second].into_iter().flatten().map(|mapping| mapping.at);
        mapped.fold(surface.resident_at, u64::max)
    }

    fn await_queue(&self, queue: usize, value: u64) -> Issue {
        let Some(progress) = self.queues[queue].progress else { return Issue::Done };
        let value = value.min(self.queues[queue].last_value);
        if value == 0 || !self.guilty && self.read(progress.made.current) >= value {
            return Issue::Done;
        }
        self.wait(vec![Point { handle: progress.made.fence, number: progress.number, value }], false, false)
    }

    /// From where on a surface is mapped.
    fn place(&mut self, slot: usize) -> GpuVa {
        match self.habits.places {
            _ if self.surface(slot).pinned => GpuVa::NULL,
            0 => GpuVa::NULL,
            places => GpuVa(FIRST_PLACE + self.random.below(places) * self.habits.apart),
        }
    }

    pub(super) fn wait(&self, points: Vec<Point>, any: bool, background: bool) -> Issue {
        let flags = if any { WaitFlags::WAIT_ANY } else { WaitFlags::empty() };
        let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
            device: self.device,
            points: plain(&points),
            async_event: RawHandle::NONE,
            flags,
        });
        Issue::Wait { call, points, any, background }
    }

    /// The CPU looks at a locked surface, and may write it.
    fn cpu_work(&mut self, slot: usize) -> Result<(), String> {
        let write = self.random.chance(50);
        self.next_seed += 1;
        let seed = self.next_seed;
        let id = self.id.0;
        let surface = self.surface_mut(slot);
        let Some(lock) = &surface.lock else { return Ok(()) };
        for offset in (0..surface.wish.bytes / 8 * 8).step_by(8 * 61) {
            let found = lock.read_word(offset);
            if let Some(expected) = surface.content.word(offset)
                && found != expected
            {
                return Err(format!(
                    "process {id}, surface {slot} at {offset:#x}: the CPU reads {found:#x}, {:?} is {expected:#x}",
                    surface.content
                ));
            }
        }
        if write {
            lock.fill_words(0, surface.wish.bytes / 8, |index| softgpu_spec::pattern::word(seed, index * 8));
            surface.content = Content::Seed(seed);
        }
        Ok(())
    }

    pub(super) fn working(&self) -> bool {
        self.phase == Phase::Working
    }
}

fn plain(points: &[Point]) -> Vec<(RawHandle, u64)> {
    points.iter().map(|point| (point.handle, point.value)).collect()
}

fn create(device: RawHandle, wish: Wish) -> Call {
    let data = PrivateData {
        kind: wish.kind,
        cpu_visible: wish.visible,
        // Content that may leave for system memory is cacheable, so that a lock takes it there.
        cached: wish.visible && wish.kind == Kind::LocalThenSystem,
        accessed_physically: wish.physical,
        size_bytes: wish.bytes,
    };
    let request = AllocationRequest { private_data: data.encode().to_vec(), ..AllocationRequest::default() };
    Call::Allocation(AllocationCall::CreateAllocation {
        device,
        allocations: vec![request],
        resource: ResourceRequest::default(),
    })
}

/// Destroys allocations behind the commands queued before.
pub(super) fn destroy_allocation(device: RawHandle, allocations: Vec<RawHandle>) -> Call {
    let target = AllocationTarget { allocations, ..AllocationTarget::default() };
    Call::Allocation(AllocationCall::DestroyAllocation { device, target, flags: DestroyFlags::empty() })
}
