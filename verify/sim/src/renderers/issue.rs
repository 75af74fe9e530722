//! From an operation of the plan to the call that it makes.

use kmt_calls::{
    AdapterCall, AllocationCall, AllocationRequest, AllocationTarget, Call, ContextFlags, DestroyFlags, DeviceCall,
    EvictFlags, FenceFlags, GpuVaCall, GpuVaProtection, LockCall, MakeResidentFlags, PacketCall, PriorityCall,
    ResidencyCall, ResourceRequest, SignalFlags, SyncCall, SyncObjectKind, SyncObjectRequest, WaitFlags,
};
use softgpu_spec::pattern::{self, report};
use softgpu_spec::private_data::{AllocationRequest as PrivateData, Kind};
use wddm_types::{GpuVa, NodeId, Pages, RawHandle};

use super::client::{Client, Op};
use super::model::{Base, Content, Surface};
use super::plan::{Job, REPORT};

impl Client {
    /// The call of an operation; `None`: it needs none, and is done.
    pub(super) fn issue(&mut self, op: &Op) -> Result<Option<Call>, String> {
        let device = self.device;
        let progress = |client: &Client, at: usize| client.contexts[at].progress.expect("set up").fence;
        Ok(Some(match op {
            Op::Open(luid) => Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: *luid }),
            Op::Device => Call::Device(DeviceCall::CreateDevice { adapter: self.adapter }),
            Op::PagingQueue => Call::Device(DeviceCall::CreatePagingQueue { device, priority: 0, physical_adapter: 0 }),
            Op::Context { at } => {
                let (node, flags, private_data) = (NodeId(self.contexts[*at].node), ContextFlags::empty(), Vec::new());
                match self.contexts[*at].addressed {
                    true => Call::Packet(PacketCall::CreateContextVirtual {
                        device,
                        node,
                        engine_affinity: 1,
                        flags,
                        private_data,
                    }),
                    false => Call::Packet(PacketCall::CreateContext {
                        device,
                        node,
                        engine_affinity: 1,
                        flags,
                        private_data,
                    }),
                }
            }
            Op::Progress { .. } => {
                let kind = SyncObjectKind::MonitoredFence { initial_value: 0, engine_affinity: 0 };
                let request = SyncObjectRequest { kind, flags: FenceFlags::NO_GPU_ACCESS };
                Call::Sync(SyncCall::CreateSynchronizationObject2 { device, request })
            }
            Op::Create { kind, bytes, .. } => self.create(*kind, *bytes),
            Op::Map { slot } => Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
                paging_queue: self.paging.expect("set up").queue,
                allocation: self.surface(*slot).handle,
                base: GpuVa::NULL,
                minimum: GpuVa::NULL,
                maximum: GpuVa::NULL,
                offset_in_pages: 0,
                size_in_pages: Pages::holding(self.surface(*slot).bytes).0,
                protection: GpuVaProtection::WRITE,
                driver_protection: 0,
            }),
            Op::Resident { slots } => {
                let (paging_queue, flags) = (self.paging.expect("set up").queue, MakeResidentFlags::empty());
                Call::Residency(ResidencyCall::MakeResident { paging_queue, allocations: self.handles(slots), flags })
            }
            Op::Evict { slots, lazily } => {
                let mut flags = EvictFlags::empty();
                flags.set(EvictFlags::EVICT_ONLY_IF_NECESSARY, *lazily);
                Call::Residency(ResidencyCall::Evict { device, allocations: self.handles(slots), flags })
            }
            Op::EvictListed { slots, lazily } => {
                let slots: Vec<usize> = slots.iter().copied().filter(|slot| self.surface(*slot).count > 0).collect();
                if !slots.is_empty() {
                    self.plan.push_front(Op::Evict { slots, lazily: *lazily });
                }
                return Ok(None);
            }
            Op::Work { at, locked } => {
                self.plan_buffer(*at, *locked);
                return Ok(None);
            }
            Op::Destroy { slot } => {
                let target = AllocationTarget { allocations: self.handles(&[*slot]), ..AllocationTarget::default() };
                Call::Allocation(AllocationCall::DestroyAllocation { device, target, flags: DestroyFlags::empty() })
            }
            Op::Submit(job) => self.submission(job),
            Op::Signal { at } => {
                let points = vec![(progress(self, *at), self.contexts[*at].last)];
                Call::Sync(SyncCall::SignalSynchronizationObjectFromGpu { context: self.contexts[*at].handle, points })
            }
            Op::GpuWait { at, on } => {
                let points = vec![(progress(self, *on), self.contexts[*on].last)];
                Call::Sync(SyncCall::WaitForSynchronizationObjectFromGpu { context: self.contexts[*at].handle, points })
            }
            Op::GpuWaitPaging { at, value } => {
                let points = vec![(self.paging.expect("set up").fence.fence, *value)];
                Call::Sync(SyncCall::WaitForSynchronizationObjectFromGpu { context: self.contexts[*at].handle, points })
            }
            Op::Await { at, value } => match self.reached(*at) >= *value {
                true => return Ok(None),
                false => self.wait(progress(self, *at), *value),
            },
            Op::AwaitPaging { slot } => match self.paging_reached() >= self.surface(*slot).ready_at {
                true => return Ok(None),
                false => self.wait(self.paging.expect("set up").fence.fence, self.surface(*slot).ready_at),
            },
            Op::Lock { slot, flags } => {
                let surface = self.surface(*slot);
                let allocation = surface.handle;
                match flags {
                    Some(flags) => {
                        let (pages, private_driver_data) = (Vec::new(), 0);
                        self.busy_before = self.reached(surface.home);
                        Call::Lock(LockCall::Lock { device, allocation, private_driver_data, pages, flags: *flags })
                    }
                    None => Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 }),
                }
            }
            Op::CpuWork { slot, write } => return self.cpu_work(*slot, *write).map(|()| None),
            Op::Unlock { slot, legacy } => {
                self.surface_mut(*slot).lock = None;
                let allocation = self.surface(*slot).handle;
                match legacy {
                    true => Call::Lock(LockCall::Unlock { device, allocations: vec![allocation] }),
                    false => Call::Lock(LockCall::Unlock2 { device, allocation }),
                }
            }
            Op::Priority { at, priority } => Call::Priority(PriorityCall::SetContextInProcessSchedulingPriority {
                context: self.contexts[*at].handle,
                priority: *priority,
            }),
            Op::Class(class) => {
                Call::Priority(PriorityCall::SetProcessSchedulingPriorityClass { adapter: self.adapter, class: *class })
            }
            Op::DestroyContext { at } => {
                Call::Packet(PacketCall::DestroyContext { context: self.contexts[*at].handle })
            }
            Op::CatchUp { at } => Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu {
                device,
                points: vec![(progress(self, *at), self.contexts[*at].last)],
                flags: SignalFlags::empty(),
            }),
            Op::DestroyDevice => Call::Device(DeviceCall::DestroyDevice { device }),
            Op::Die => {
                self.die();
                return Ok(None);
            }
        }))
    }

    fn create(&self, kind: Kind, bytes: u64) -> Call {
        let data = PrivateData {
            kind,
            cpu_visible: true,
            // Content that may leave for system memory is cacheable, so that a lock takes it there.
            cached: kind == Kind::LocalThenSystem,
            accessed_physically: true,
            size_bytes: bytes,
        };
        let request = AllocationRequest { private_data: data.encode().to_vec(), ..AllocationRequest::default() };
        Call::Allocation(AllocationCall::CreateAllocation {
            device: self.device,
            allocations: vec![request],
            resource: ResourceRequest::default(),
        })
    }

    fn wait(&self, fence: RawHandle, value: u64) -> Call {
        Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
            device: self.device,
            points: vec![(fence, value)],
            async_event: RawHandle::NONE,
            flags: WaitFlags::empty(),
        })
    }

    fn submission(&mut self, job: &Job) -> Call {
        let context = &self.contexts[job.at];
        if !context.addressed {
            return Call::Packet(PacketCall::Render {
                context: context.handle,
                command: job.listing.words.clone(),
                allocation_list: job.listing.allocations.clone(),
                patch_location_list: job.listing.places.clone(),
                private_data: Vec::new(),
            });
        }
        let memory = self.surface(context.memory);
        let lock = memory.lock.as_ref().expect("command memory stays locked");
        lock.write_words(job.offset, &job.listing.words);
        // CAST: a buffer is far below 4 GiB.
        let command_bytes = job.listing.words.len() as u32 * 8;
        let commands = memory.va.offset(job.offset);
        Call::Packet(PacketCall::SubmitCommand {
            context: context.handle,
            commands,
            command_bytes,
            written_primaries: Vec::new(),
            private_data: Vec::new(),
        })
    }

    /// The CPU looks at a locked surface whole, and may write it. Of the report it reads that nothing was found wrong.
    fn cpu_work(&mut self, slot: usize, write: bool) -> Result<(), String> {
        self.next_seed += 1;
        let (seed, id) = (self.next_seed, self.id.0);
        let surface = self.surface_mut(slot);
        let Some(lock) = &surface.lock else { return Ok(()) };
        if slot == REPORT {
            let word = |at: u64| lock.read_word(at * 8);
            return match word(report::TAG) {
                0 => Ok(()),
                tag => Err(format!(
                    "process {id}: the GPU found {:#x} in place of {:#x} at {:#x} of surface {}",
                    word(report::FOUND),
                    word(report::EXPECTED),
                    word(report::OFFSET),
                    tag - 1
                )),
            };
        }
        for offset in (0..surface.bytes).step_by(8 * 61) {
            let found = lock.read_word(offset);
            if let Some(expected) = surface.content.word(offset)
                && found != expected
            {
                let Surface { content, home, last_use, .. } = surface;
                return Err(format!(
                    "process {id}, surface {slot} of context {home} at {offset:#x}: the CPU reads {found:#x}, {content:?} is \
                     {expected:#x}; used last by submission {last_use}"
                ));
            }
        }
        if write {
            lock.fill_words(0, surface.bytes / 8, |index| pattern::word(seed, index * 8));
            surface.content = Content::fresh(Base::Seed(seed));
        }
        Ok(())
    }
}
