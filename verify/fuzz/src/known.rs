//! What a hostile process has learnt from the kernel's answers: handles by kind, those that are dead, addresses. It knows
//! too much and forgets little: what went with its device stays here as one more stale handle.

mod asked;

use std::collections::BTreeMap;

use kmt_calls::{Call, CreatedAllocation, CreatedFence, EventCall, OfferList, PacketCall, QueueCall, Reply, SyncCall};
use wddm_types::{GpuVa, PAGE_BYTES, RawHandle};

use crate::dice::Dice;

pub use asked::Asked;

/// What a handle was said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Adapter,
    Device,
    PagingQueue,
    Allocation,
    Resource,
    GlobalShare,
    Section,
    HwContext,
    ListContext,
    VirtualContext,
    Queue,
    Doorbell,
    Fence,
    SyncObject,
    Event,
    Registration,
    /// A fence that everybody may signal.
    OwnFence,
    /// An allocation on its device's list, as often as it is there.
    Listed,
    /// A locked allocation.
    Locked,
    /// An offered one.
    Offered,
}

const KINDS: [Kind; 14] = [
    Kind::Adapter,
    Kind::Device,
    Kind::PagingQueue,
    Kind::Allocation,
    Kind::Resource,
    Kind::GlobalShare,
    Kind::Section,
    Kind::HwContext,
    Kind::ListContext,
    Kind::VirtualContext,
    Kind::Queue,
    Kind::Doorbell,
    Kind::Fence,
    Kind::Registration,
];
/// Of each kind so many are remembered, the latest.
const MEMORY: usize = 12;

/// What a process knows.
#[derive(Debug, Default)]
pub struct Known {
    /// Handles, each with the device that it was made on.
    handles: BTreeMap<Kind, Vec<(RawHandle, RawHandle)>>,
    /// The device that the next call is about.
    pub device: RawHandle,
    stale: Vec<RawHandle>,
    /// Reservations with their bytes.
    pub reserved: Vec<(GpuVa, u64)>,
    /// Addresses with their bytes.
    pub addresses: Vec<(GpuVa, u64)>,
    /// Where fence words are seen by the GPU.
    pub words: Vec<GpuVa>,
    /// What it has asked of its allocations.
    asked: BTreeMap<RawHandle, Asked>,
    /// It may write commands that wait for what nobody signals.
    pub endless: bool,
    /// Which allocation is seen where, and how much of it.
    mapped: Vec<(RawHandle, GpuVa, u64)>,
    /// Allocations that begin with commands.
    programs: BTreeMap<RawHandle, u32>,
    /// NT handles.
    pub nt_handles: Vec<u64>,
}

impl Known {
    /// Nothing yet.
    pub fn new(endless: bool) -> Known {
        Known { endless, ..Known::default() }
    }

    /// How many of a kind are alive, as far as it knows.
    pub fn count(&self, kind: Kind) -> usize {
        self.handles.get(&kind).map_or(0, Vec::len)
    }

    /// How many of a kind there are on the device that the next call is about.
    pub fn here(&self, kind: Kind) -> usize {
        self.handles.get(&kind).map_or(0, |list| list.iter().filter(|(_, on)| *on == self.device).count())
    }

    /// A handle of this kind; when hostile, something else.
    pub fn handle(&self, dice: &mut Dice, kind: Kind) -> RawHandle {
        if dice.odd() {
            return match dice.below(5) {
                0 => RawHandle::NONE,
                1 => RawHandle(dice.number32(1 << 12)),
                2 => dice.pick(&self.stale).unwrap_or(RawHandle(u32::MAX)),
                3 => RawHandle(u32::MAX - dice.number32(8)),
                _ => {
                    let other = dice.pick(&KINDS).unwrap_or(kind);
                    self.any(dice, other)
                }
            };
        }
        self.any(dice, kind)
    }

    /// Some handles of a kind, with repetitions now and then.
    pub fn list(&self, dice: &mut Dice, kind: Kind, most: u64) -> Vec<RawHandle> {
        let count = if dice.odd() { dice.below(2) * 70 } else { 1 + dice.below(most) };
        (0..count).map(|_| self.handle(dice, kind)).collect()
    }

    fn any(&self, dice: &mut Dice, kind: Kind) -> RawHandle {
        if kind == Kind::Device && !dice.odd() {
            return self.device;
        }
        let all = self.handles.get(&kind).map_or(&[][..], Vec::as_slice);
        // Objects of another device are an attack, too.
        let fits = |made_on: RawHandle| {
            matches!(kind, Kind::Adapter | Kind::Device | Kind::GlobalShare | Kind::Event) || made_on == self.device
        };
        let foreign = dice.odd();
        let list: Vec<RawHandle> =
            all.iter().filter(|(_, on)| foreign || fits(*on)).map(|(handle, _)| *handle).collect();
        // The latest are likelier to be alive.
        let recent = &list[list.len().saturating_sub(3)..];
        let from = if dice.chance(50) { recent } else { &list };
        dice.pick(from).unwrap_or(RawHandle::NONE)
    }

    /// Allocations on the list of the device that the next call is about, with what was asked of them.
    pub fn listed(&self) -> Vec<(RawHandle, Asked)> {
        let listed = self.handles.get(&Kind::Listed).map_or(&[][..], Vec::as_slice);
        let here = listed.iter().filter(|(_, on)| *on == self.device);
        here.filter_map(|(handle, _)| Some((*handle, *self.asked.get(handle)?))).collect()
    }

    /// Allocations of the device that the CPU may lock.
    pub fn lockable(&self) -> Vec<RawHandle> {
        let all = self.handles.get(&Kind::Allocation).map_or(&[][..], Vec::as_slice);
        let here = all
            .iter()
            .filter(|(handle, on)| *on == self.device && self.asked.get(handle).is_some_and(|asked| asked.cpu_visible));
        here.map(|(handle, _)| *handle).collect()
    }

    /// Addresses of listed allocations with their bytes.
    pub fn reachable(&self) -> Vec<(GpuVa, u64)> {
        self.mapped_and_listed().map(|(_, va, bytes)| (*va, *bytes)).collect()
    }

    /// Command buffers on the device's list: where they are seen, and their bytes.
    pub fn buffers(&self) -> Vec<(GpuVa, u32)> {
        self.mapped_and_listed().filter_map(|(handle, va, _)| Some((*va, *self.programs.get(handle)?))).collect()
    }

    fn mapped_and_listed(&self) -> impl Iterator<Item = &(RawHandle, GpuVa, u64)> {
        let listed = self.listed();
        self.mapped.iter().filter(move |(handle, ..)| listed.iter().any(|(known, _)| known == handle))
    }

    /// An allocation that begins with commands and is on the list, but not seen anywhere yet.
    pub fn unseen_program(&self) -> Option<RawHandle> {
        let listed = self.listed();
        let seen = |handle: &RawHandle| self.mapped.iter().any(|(known, ..)| known == handle);
        listed.iter().map(|(handle, _)| *handle).find(|handle| self.programs.contains_key(handle) && !seen(handle))
    }

    /// Commands were written to the beginning of an allocation.
    pub fn has_written(&mut self, allocation: RawHandle, bytes: u32) {
        self.programs.insert(allocation, bytes);
    }

    /// Everything may be gone: a device was lost, and with it most of this.
    pub fn forget_devices(&mut self) {
        for (kind, list) in &mut self.handles {
            if !matches!(kind, Kind::Adapter | Kind::Section | Kind::GlobalShare | Kind::Event) {
                self.stale.extend(list.drain(..).map(|(handle, _)| handle));
            }
        }
        let most = self.stale.len().saturating_sub(MEMORY);
        self.stale.drain(..most);
        self.addresses.clear();
        self.mapped.clear();
        self.programs.clear();
        self.reserved.clear();
        self.words.clear();
    }

    /// The device that a call is about, as far as its handles say.
    fn device_of(&self, call: &Call) -> RawHandle {
        let of = |kind: Kind, handle: RawHandle| {
            let found = self.handles.get(&kind).and_then(|list| list.iter().find(|(known, _)| *known == handle));
            found.map_or(self.device, |(_, device)| *device)
        };
        match call {
            Call::CreateAllocation { device, .. }
            | Call::CreatePagingQueue { device }
            | Call::Queue(QueueCall::CreateHwContext { device, .. })
            | Call::Packet(PacketCall::CreateContext { device, .. })
            | Call::Packet(PacketCall::CreateContextVirtual { device, .. })
            | Call::Sync(SyncCall::CreateNativeFence { device, .. })
            | Call::Sync(SyncCall::CreateSynchronizationObject2 { device, .. })
            | Call::OpenResource { device, .. } => *device,
            Call::MakeResident { paging_queue, .. } => of(Kind::PagingQueue, *paging_queue),
            Call::Queue(QueueCall::CreateHwQueue { context, .. }) => of(Kind::HwContext, *context),
            Call::Queue(QueueCall::CreateDoorbell { queue, .. }) => of(Kind::Queue, *queue),
            _ => self.device,
        }
    }

    fn learn(&mut self, kind: Kind, handle: RawHandle, device: RawHandle) {
        if handle == RawHandle::NONE {
            return;
        }
        let list = self.handles.entry(kind).or_default();
        list.push((handle, device));
        if list.len() > MEMORY {
            let at = list.len() / 3;
            list.remove(at);
        }
    }

    fn learn_address(&mut self, va: GpuVa, bytes: u64) {
        self.addresses.push((va, bytes));
        if self.addresses.len() > MEMORY {
            self.addresses.remove(0);
        }
    }

    fn learn_mapping(&mut self, allocation: RawHandle, va: GpuVa, bytes: u64) {
        self.learn_address(va, bytes);
        self.mapped.push((allocation, va, bytes));
        let most = self.mapped.len().saturating_sub(MEMORY);
        self.mapped.drain(..most);
    }

    /// An allocation that has its address by itself, which its engines use.
    // spec: memory §4.1
    fn learn_own_address(&mut self, made: &CreatedAllocation) {
        if made.address.0 != 0 {
            let bytes = self.asked.get(&made.handle).map_or(PAGE_BYTES, |asked| asked.bytes);
            self.learn_mapping(made.handle, GpuVa(made.address.0), bytes);
        }
    }

    /// One entry of a kind goes.
    fn forget_one(&mut self, kind: Kind, handle: RawHandle) {
        let list = self.handles.entry(kind).or_default();
        if let Some(at) = list.iter().position(|(known, _)| *known == handle) {
            list.remove(at);
        }
    }

    /// The shared resources that it knows.
    pub fn shares(&self) -> Vec<RawHandle> {
        self.handles
            .get(&Kind::GlobalShare)
            .map_or_else(Vec::new, |list| list.iter().map(|(share, _)| *share).collect())
    }

    /// Another process has told it of a shared resource.
    pub fn told_of(&mut self, share: RawHandle) {
        self.learn(Kind::GlobalShare, share, RawHandle::NONE);
    }

    /// Another device may be next.
    pub fn choose_device(&mut self, dice: &mut Dice) {
        let devices: Vec<RawHandle> = self
            .handles
            .get(&Kind::Device)
            .map_or_else(Vec::new, |list| list.iter().map(|(handle, _)| *handle).collect());
        self.device = dice.pick(&devices).unwrap_or(RawHandle::NONE);
    }

    fn learn_fence(&mut self, fence: &CreatedFence, device: RawHandle) {
        self.learn(Kind::Fence, fence.fence, device);
        self.words.extend([fence.current_va, fence.monitored_va]);
        let most = self.words.len().saturating_sub(MEMORY);
        self.words.drain(..most);
    }

    fn dies(&mut self, handle: RawHandle) {
        for list in self.handles.values_mut() {
            list.retain(|(known, _)| *known != handle);
        }
        self.mapped.retain(|(known, ..)| *known != handle);
        self.programs.remove(&handle);
        self.asked.remove(&handle);
        self.stale.push(handle);
    }

    /// Takes an answer in.
    pub fn answered(&mut self, call: &Call, reply: &Reply) {
        let on = self.device_of(call);
        match (call, reply) {
            (Call::OpenAdapterFromLuid { .. }, Reply::Handle(handle)) => self.learn(Kind::Adapter, *handle, on),
            (Call::CreateDevice { .. }, Reply::Handle(handle)) => self.learn(Kind::Device, *handle, on),
            (Call::Queue(QueueCall::CreateHwContext { .. }), Reply::Handle(handle)) => {
                self.learn(Kind::HwContext, *handle, on)
            }
            (Call::Packet(PacketCall::CreateContextVirtual { .. }), Reply::Handle(handle)) => {
                self.learn(Kind::VirtualContext, *handle, on)
            }
            (Call::Event(_), Reply::Handle(handle)) => self.learn(Kind::Event, *handle, on),
            (Call::Sync(SyncCall::CreateSynchronizationObject2 { .. }), Reply::Handle(handle)) => {
                self.learn(Kind::SyncObject, *handle, on);
            }
            (_, Reply::Handle(handle)) => self.learn(Kind::Registration, *handle, on),
            (_, Reply::Context(made)) => self.learn(Kind::ListContext, made.context, on),
            (Call::CreateAllocation { allocations, .. }, Reply::Allocations(made)) => {
                for (request, made) in allocations.iter().zip(&made.allocations) {
                    self.asked.extend(Asked::of(request).map(|asked| (made.handle, asked)));
                }
                made.allocations.iter().for_each(|made| self.learn(Kind::Allocation, made.handle, on));
                made.allocations.iter().for_each(|made| self.learn_own_address(made));
                self.learn(Kind::Resource, made.resource, on);
                self.learn(Kind::GlobalShare, made.global_share, on);
            }
            (_, Reply::OpenedResource(opened)) => {
                opened.allocations.iter().for_each(|made| self.learn(Kind::Allocation, made.handle, on));
                self.learn(Kind::Resource, opened.resource, on);
            }
            (_, Reply::Section(made)) => self.learn(Kind::Section, made.section, on),
            (_, Reply::NtHandle(handle)) => self.nt_handles.push(*handle),
            (_, Reply::PagingQueue(made)) => {
                self.learn(Kind::PagingQueue, made.queue, on);
                self.learn_fence(&made.fence, on);
            }
            (_, Reply::HwQueue(made)) => {
                self.learn(Kind::Queue, made.queue, on);
                self.learn_fence(&made.progress, on);
            }
            (_, Reply::Doorbell(made)) => self.learn(Kind::Doorbell, made.doorbell, on),
            (_, Reply::MonitoredFence(made)) => {
                self.learn(Kind::Fence, made.fence, on);
                self.learn(Kind::OwnFence, made.fence, on);
                self.words.push(made.value_va);
            }
            (_, Reply::Fence(made)) => {
                self.learn_fence(made, on);
                self.learn(Kind::OwnFence, made.fence, on);
            }
            (Call::MapGpuVirtualAddress { size_in_pages, allocation, .. }, Reply::MappedVa { va, .. }) => {
                self.learn_mapping(*allocation, *va, size_in_pages * PAGE_BYTES);
            }
            (Call::ReserveGpuVirtualAddress { size_bytes, .. }, Reply::MappedVa { va, .. }) => {
                self.learn_address(*va, *size_bytes);
                self.reserved.push((*va, *size_bytes));
                let most = self.reserved.len().saturating_sub(MEMORY);
                self.reserved.drain(..most);
            }
            (Call::MakeResident { allocations, .. }, Reply::Residency(_)) => {
                allocations.iter().for_each(|handle| self.learn(Kind::Listed, *handle, on));
            }
            (Call::Evict { allocations, .. }, Reply::BytesToTrim(_)) => {
                allocations.iter().for_each(|handle| self.forget_one(Kind::Listed, *handle));
            }
            (Call::Lock2 { allocation, .. } | Call::Lock { allocation, .. }, _) => {
                self.learn(Kind::Locked, *allocation, on);
            }
            (Call::ReclaimAllocations { list, .. } | Call::ReclaimAllocations2 { list, .. }, _) => {
                handles_of(list).iter().for_each(|handle| self.forget_one(Kind::Offered, *handle));
            }
            (call, Reply::Done) => self.done(call, on),
            _ => {}
        }
    }

    fn done(&mut self, call: &Call, on: RawHandle) {
        match call {
            Call::Unlock2 { allocation, .. } => self.forget_one(Kind::Locked, *allocation),
            Call::Unlock { allocations, .. } => {
                allocations.iter().for_each(|handle| self.forget_one(Kind::Locked, *handle));
            }
            Call::FreeGpuVirtualAddress { base, .. } => {
                self.mapped.retain(|(_, va, _)| va != base);
                self.addresses.retain(|(va, _)| va != base);
            }
            Call::OfferAllocations { list, .. } => {
                handles_of(list).iter().for_each(|handle| self.learn(Kind::Offered, *handle, on));
            }
            Call::DestroyDevice { device } => {
                let others = self.count(Kind::Device) > 1;
                self.dies(*device);
                if !others {
                    self.forget_devices();
                }
            }
            Call::DestroyAllocation { target, .. } => {
                target.allocations.iter().for_each(|handle| self.dies(*handle));
                self.dies(target.resource);
            }
            Call::CloseAdapter { adapter: handle }
            | Call::DestroyPagingQueue { queue: handle }
            | Call::CloseSection { section: handle }
            | Call::Queue(QueueCall::DestroyHwContext { context: handle })
            | Call::Packet(PacketCall::DestroyContext { context: handle })
            | Call::Queue(QueueCall::DestroyHwQueue { queue: handle })
            | Call::Queue(QueueCall::DestroyDoorbell { doorbell: handle })
            | Call::Sync(SyncCall::DestroySynchronizationObject { fence: handle })
            | Call::Event(EventCall::Close { event: handle })
            | Call::UnregisterNotification { registration: handle } => self.dies(*handle),
            _ => {}
        }
    }
}

/// The allocations that offers name one by one; what a resource has is not known.
fn handles_of(list: &OfferList) -> &[RawHandle] {
    match list {
        OfferList::Allocations(handles) => handles,
        OfferList::Resources(_) => &[],
    }
}
