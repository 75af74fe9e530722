//! From a deed to its call.

use kmt_calls::{
    AdapterCall, AllocationCall, AllocationRequest, AllocationTarget, Call, ContextFlags, DestroyFlags, DeviceCall,
    EvictFlags, FenceFlags, GpuVaCall, GpuVaProtection, LockCall, MakeResidentFlags, NativeFenceRequest,
    NotificationCall, PacketCall, QueueCall, QueueFlags, ResidencyCall, ResourceRequest, SyncCall, SyncObjectKind,
    SyncObjectRequest, UpdateGpuVaFlags, UpdateGpuVaOperation, WaitFlags,
};
use softgpu_spec::Command;
use softgpu_spec::private_data::{AllocationRequest as PrivateData, Details, Kind};
use wddm_types::{GpuVa, NodeId, Pages, RawHandle};

use super::{BUFFER_BYTES, COMMANDS, Caller, Deed, Job, Lane, REPORT, Surface, Way, Wish};
use crate::renderers::Listing;

/// `NotifyEviction` of an allocation's second flags (memory §2.2).
const NOTIFY_EVICTION: u32 = 1 << 4;
/// Nothing is mapped there, and every shape of page tables reaches it.
const NOWHERE: u64 = 0x3f_0000_0000;

impl Caller {
    /// The call of a deed; `None`: its object is not there, or nothing is left to do.
    pub(super) fn issue(&mut self, deed: &Deed) -> Option<Call> {
        let device = self.book.device;
        if device == RawHandle::NONE && !matches!(deed, Deed::Open | Deed::Device) {
            return None;
        }
        Some(match deed {
            Deed::Open => Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: self.luid }),
            Deed::Device => Call::Device(DeviceCall::CreateDevice { adapter: self.adapter }),
            Deed::PagingQueue => {
                Call::Device(DeviceCall::CreatePagingQueue { device, priority: 0, physical_adapter: 0 })
            }
            Deed::Register => Call::Notification(NotificationCall::RegisterTrim { adapter: None, device }),
            Deed::QueryMemory => {
                Call::Adapter(AdapterCall::QueryVideoMemoryInfo { process: 0, adapter: self.adapter, local: true })
            }
            Deed::State => Call::Device(DeviceCall::GetDeviceState { device }),
            Deed::DestroyDevice => Call::Device(DeviceCall::DestroyDevice { device }),
            Deed::CreateMany { .. } | Deed::ResidentMany | Deed::EvictMany | Deed::DestroyMany => {
                self.many_call(deed)?
            }
            Deed::Context { .. }
            | Deed::Progress { .. }
            | Deed::Submit { .. }
            | Deed::Signal { .. }
            | Deed::Await { .. }
            | Deed::Gate { .. }
            | Deed::Close { .. } => self.lane_call(deed)?,
            Deed::Reserve
            | Deed::TileFence { .. }
            | Deed::TileMap { .. }
            | Deed::TileCopy { .. }
            | Deed::AwaitTiles => self.tile_call(deed)?,
            surface => self.surface_call(surface)?,
        })
    }

    fn surface_call(&mut self, deed: &Deed) -> Option<Call> {
        let device = self.book.device;
        match deed {
            Deed::Create { wish, .. } => Some(create(device, vec![request(*wish)])),
            Deed::Map { slot } => self.map(*slot),
            Deed::Resident { slots } => self.make_resident(self.handles(slots)),
            Deed::AwaitPaging => {
                let (_, fence) = self.book.paging?;
                (self.read(fence.current) < self.book.due).then(|| self.wait(fence.fence, self.book.due))
            }
            Deed::Evict { slots, lazily } => {
                let listed = |slot: &usize| self.surface(*slot).is_some_and(|surface| surface.listed > 0);
                let slots: Vec<usize> = slots.iter().copied().filter(listed).collect();
                self.evict(self.handles(&slots), *lazily)
            }
            Deed::Destroy { slot } => Some(destroy(device, vec![self.surface(*slot)?.handle])),
            Deed::Lock { slot } => {
                let surface = self.surface(*slot).filter(|surface| surface.lock.is_none())?;
                Some(Call::Lock(LockCall::Lock2 { device, allocation: surface.handle, flags: 0 }))
            }
            Deed::Unlock { slot } => {
                let surface = self.book.slots[*slot].as_mut()?;
                surface.lock.take()?;
                Some(Call::Lock(LockCall::Unlock2 { device, allocation: surface.handle }))
            }
            _ => None,
        }
    }

    fn lane_call(&mut self, deed: &Deed) -> Option<Call> {
        let device = self.book.device;
        match deed {
            Deed::Context { way, node } => Some(context(device, *way, NodeId(*node))),
            Deed::Progress { lane } => self.progress(*lane),
            Deed::Submit { lane, job } => self.submit(*lane, *job),
            Deed::Signal { lane } => {
                let lane = self.book.lanes.get(*lane)?;
                let points = vec![(lane.progress?.0, lane.last)];
                Some(Call::Sync(SyncCall::SignalSynchronizationObjectFromGpu { context: lane.context, points }))
            }
            Deed::Await { lane } => {
                let lane = self.book.lanes.get(*lane)?;
                let (fence, word) = lane.progress?;
                (self.read(word) < lane.last).then(|| self.wait(fence, lane.last))
            }
            Deed::Gate { lane } => {
                let lane = self.book.lanes.get(*lane).filter(|lane| lane.gate.is_none())?;
                Some(fence(device, lane.way))
            }
            Deed::Close { lane } => {
                let lane = self.book.lanes.get_mut(*lane)?;
                let (fence, promised) = lane.gate.as_mut()?;
                *promised += 1;
                let points = vec![(*fence, *promised)];
                Some(match lane.way {
                    Way::Queue => {
                        Call::Queue(QueueCall::SubmitWaitForSyncObjectsToHwQueue { queue: lane.queue, points })
                    }
                    _ => Call::Sync(SyncCall::WaitForSynchronizationObjectFromGpu { context: lane.context, points }),
                })
            }
            _ => None,
        }
    }

    fn many_call(&mut self, deed: &Deed) -> Option<Call> {
        let device = self.book.device;
        match deed {
            Deed::CreateMany { count } => {
                let (visible, notify, physical) = (false, false, self.ground.first_generation);
                let wish = Wish { kind: Kind::LocalThenSystem, bytes: 4096, visible, physical, notify };
                Some(create(device, vec![request(wish); *count]))
            }
            Deed::ResidentMany => self.make_resident(self.book.many.clone()),
            Deed::EvictMany => self.evict(self.book.many.clone(), false),
            Deed::DestroyMany => {
                let many = std::mem::take(&mut self.book.many);
                (!many.is_empty()).then(|| destroy(device, many))
            }
            _ => None,
        }
    }

    fn tile_call(&mut self, deed: &Deed) -> Option<Call> {
        let device = self.book.device;
        if !self.ground.maps {
            return None;
        }
        match deed {
            Deed::Reserve if self.book.tiles.is_none() => Some(Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress {
                device,
                base: GpuVa::NULL,
                minimum: GpuVa::NULL,
                maximum: GpuVa::NULL,
                size_bytes: 2 * super::answer::TILE_BYTES,
                reservation_type: 0,
                driver_protection: 0,
            })),
            Deed::TileFence { lane } => {
                let way = self.book.lanes.get(*lane)?.way;
                self.book.tiles.as_ref()?.fence.is_none().then(|| fence(device, way))
            }
            Deed::TileMap { lane, slot } => {
                let (allocation, size_bytes) = self.tiled(*slot)?;
                let (base, protection) = (self.book.tiles.as_ref()?.base, None);
                let operation = UpdateGpuVaOperation::Map {
                    base,
                    size_bytes,
                    allocation,
                    offset_bytes: 0,
                    allocation_size_bytes: 0,
                    protection,
                };
                self.update(*lane, operation)
            }
            Deed::TileCopy { lane } => {
                let tiles = self.book.tiles.as_ref()?;
                let (_, size_bytes) = self.tiled(tiles.shown[0]?)?;
                let (source, destination) = (tiles.base, tiles.base.offset(super::answer::TILE_BYTES));
                self.update(*lane, UpdateGpuVaOperation::Copy { source, size_bytes, destination })
            }
            Deed::AwaitTiles => {
                let (fence, value) = self.book.tiles.as_ref()?.fence?;
                (value > 0).then(|| self.wait(fence, value))
            }
            _ => None,
        }
    }

    /// A surface that fits into a region, and its bytes in pages.
    fn tiled(&self, slot: usize) -> Option<(RawHandle, u64)> {
        let surface = self.surface(slot)?;
        let bytes = Pages::holding(surface.bytes).bytes();
        (bytes <= super::answer::TILE_BYTES).then_some((surface.handle, bytes))
    }

    fn update(&self, lane: usize, operation: UpdateGpuVaOperation) -> Option<Call> {
        let (fence, fence_value) = self.book.tiles.as_ref()?.fence?;
        Some(Call::GpuVa(GpuVaCall::UpdateGpuVirtualAddress {
            device: self.book.device,
            context: self.book.lanes.get(lane)?.context,
            fence,
            fence_value,
            operations: vec![operation],
            flags: UpdateGpuVaFlags::DO_NOT_WAIT,
        }))
    }

    fn progress(&self, lane: usize) -> Option<Call> {
        let lane = self.book.lanes.get(lane).filter(|lane| lane.progress.is_none())?;
        Some(match lane.way {
            Way::Queue => Call::Queue(QueueCall::CreateHwQueue {
                context: lane.context,
                flags: QueueFlags::empty(),
                private_data: Vec::new(),
            }),
            way => fence(self.book.device, way),
        })
    }

    fn map(&self, slot: usize) -> Option<Call> {
        let surface = self.surface(slot).filter(|surface| self.ground.maps && surface.va == GpuVa::NULL)?;
        Some(Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
            paging_queue: self.book.paging?.0,
            allocation: surface.handle,
            base: GpuVa::NULL,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            offset_in_pages: 0,
            size_in_pages: Pages::holding(surface.bytes).0,
            protection: GpuVaProtection::WRITE,
            driver_protection: 0,
        }))
    }

    fn make_resident(&self, allocations: Vec<RawHandle>) -> Option<Call> {
        let (paging_queue, flags) = (self.book.paging?.0, MakeResidentFlags::empty());
        let wanted = !allocations.is_empty() && !self.ground.first_generation;
        wanted.then_some(Call::Residency(ResidencyCall::MakeResident { paging_queue, allocations, flags }))
    }

    fn evict(&self, allocations: Vec<RawHandle>, lazily: bool) -> Option<Call> {
        let mut flags = EvictFlags::empty();
        flags.set(EvictFlags::EVICT_ONLY_IF_NECESSARY, lazily);
        let device = self.book.device;
        (!allocations.is_empty()).then_some(Call::Residency(ResidencyCall::Evict { device, allocations, flags }))
    }

    fn handles(&self, slots: &[usize]) -> Vec<RawHandle> {
        slots.iter().filter_map(|slot| Some(self.surface(*slot)?.handle)).collect()
    }

    fn wait(&self, fence: RawHandle, value: u64) -> Call {
        Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
            device: self.book.device,
            points: vec![(fence, value)],
            async_event: RawHandle::NONE,
            flags: WaitFlags::empty(),
        })
    }

    fn submit(&mut self, lane: usize, job: Job) -> Option<Call> {
        let Lane { way, context, queue, last, .. } = *self.book.lanes.get(lane)?;
        if !self.has_buffers() {
            return None;
        }
        let wild = matches!(job, Job::WildAddress | Job::WildWord);
        if way == Way::Lists {
            let listing = (!wild).then(|| self.listing(job))?;
            return Some(Call::Packet(PacketCall::Render {
                context,
                command: listing.words,
                allocation_list: listing.allocations,
                patch_location_list: listing.places,
                private_data: Vec::new(),
            }));
        }
        let words = self.words(job);
        let commands = self.surface(COMMANDS)?;
        let offset = self.book.written * BUFFER_BYTES;
        commands.lock.as_ref()?.write_words(offset, &words);
        let buffer = commands.va.offset(offset);
        self.book.written += 1;
        self.book.guilty |= wild;
        // CAST: a few commands.
        let buffer_bytes = words.len() as u32 * 8;
        let (written_primaries, private_data) = (Vec::new(), Vec::new());
        Some(match way {
            Way::Queue => Call::Queue(QueueCall::SubmitCommandToHwQueue {
                queue,
                progress_value: last + 1,
                buffer,
                buffer_bytes,
                written_primaries,
                private_data,
            }),
            _ => Call::Packet(PacketCall::SubmitCommand {
                context,
                commands: buffer,
                command_bytes: buffer_bytes,
                written_primaries,
                private_data,
            }),
        })
    }

    fn listing(&self, job: Job) -> Listing {
        let mut listing = Listing::new();
        let (slots, seed) = match job {
            Job::Write { slot, seed } => (vec![slot], seed),
            Job::WriteAll { seed } => (self.slots(|_, _| true), seed),
            _ => (Vec::new(), 0),
        };
        // What no call makes resident the list does.
        let may = |of: &&Surface| of.physical && (of.listed > 0 || self.ground.first_generation);
        let surfaces: Vec<&Surface> = slots.into_iter().filter_map(|slot| self.surface(slot)).filter(may).collect();
        for surface in &surfaces {
            let command = Command::Pattern { va: 0, bytes: surface.bytes, seed };
            listing.push(&command, &[(1, surface.handle, true)]);
        }
        if surfaces.is_empty() {
            listing.push(&Command::Nop, &[]);
        }
        listing
    }

    fn words(&self, job: Job) -> Vec<u64> {
        let mut words = Vec::new();
        match job {
            Job::Write { slot, seed } => {
                let surface = self.surface(slot).filter(|of| of.va != GpuVa::NULL && of.listed > 0);
                if let Some(surface) = surface {
                    let (va, bytes) = (surface.va.0, surface.bytes);
                    let report_va = self.surface(COMMANDS).map_or(0, |commands| commands.va.0 + REPORT);
                    Command::Pattern { va, bytes, seed }.encode(&mut words);
                    let shown = self.book.tiles.iter().flat_map(|tiles| tiles.addresses_of(slot));
                    for va in shown.chain([va]) {
                        Command::Check { va, bytes, seed, report_va, tag: slot as u64 }.encode(&mut words);
                    }
                }
            }
            Job::Nop | Job::WriteAll { .. } => {}
            Job::WildAddress => Command::Fill { va: NOWHERE, bytes: 64, pattern: 1 }.encode(&mut words),
            Job::WildWord => words.push(0x7f | 1 << 8),
        }
        if words.is_empty() {
            Command::Nop.encode(&mut words);
        }
        words
    }
}

fn context(device: RawHandle, way: Way, node: NodeId) -> Call {
    let (engine_affinity, flags, private_data) = (1, ContextFlags::empty(), Vec::new());
    match way {
        Way::Queue => Call::Queue(QueueCall::CreateHwContext { device, node, private_data }),
        Way::Addresses => {
            Call::Packet(PacketCall::CreateContextVirtual { device, node, engine_affinity, flags, private_data })
        }
        Way::Lists => Call::Packet(PacketCall::CreateContext { device, node, engine_affinity, flags, private_data }),
    }
}

/// A fence for work that goes this way.
fn fence(device: RawHandle, way: Way) -> Call {
    match way {
        Way::Queue => Call::Sync(SyncCall::CreateNativeFence { device, request: NativeFenceRequest::default() }),
        way => {
            let kind = SyncObjectKind::MonitoredFence { initial_value: 0, engine_affinity: 0 };
            let flags = if way == Way::Lists { FenceFlags::NO_GPU_ACCESS } else { FenceFlags::empty() };
            let request = SyncObjectRequest { kind, flags };
            Call::Sync(SyncCall::CreateSynchronizationObject2 { device, request })
        }
    }
}

fn request(wish: Wish) -> AllocationRequest {
    let data = PrivateData {
        kind: wish.kind,
        cpu_visible: wish.visible,
        // Content that may leave for system memory is cacheable, so that a lock takes it there.
        cached: wish.visible && wish.kind == Kind::LocalThenSystem,
        accessed_physically: wish.physical,
        size_bytes: wish.bytes,
    };
    let private_data = match wish.notify {
        true => data.encode_with(&Details { flags2: NOTIFY_EVICTION, ..Details::default() }).to_vec(),
        false => data.encode().to_vec(),
    };
    AllocationRequest { private_data, ..AllocationRequest::default() }
}

fn create(device: RawHandle, allocations: Vec<AllocationRequest>) -> Call {
    Call::Allocation(AllocationCall::CreateAllocation { device, allocations, resource: ResourceRequest::default() })
}

fn destroy(device: RawHandle, allocations: Vec<RawHandle>) -> Call {
    let target = AllocationTarget { allocations, ..AllocationTarget::default() };
    Call::Allocation(AllocationCall::DestroyAllocation { device, target, flags: DestroyFlags::empty() })
}
