//! The knowledge of a hostile process from the kernel's answers: handles by kind, dead handles, addresses. It forgets little: an object
//! that went with its device stays here as one more stale handle.

mod answers;
mod asked;

use std::collections::BTreeMap;

use kmt_calls::{
    AllocationCall, Call, CreatedAllocation, CreatedFence, DeviceCall, EventCall, KeyedMutexCall, OfferList,
    PacketCall, QueueCall, Reply, ResidencyCall, SyncCall,
};
use wddm_types::{GpuVa, PAGE_BYTES, RawHandle};

use crate::dice::Dice;

pub use asked::Asked;

/// The kind of object that a handle names.
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
    KeyedMutex,
    /// A fence that its processes may signal; a queue's progress fence is none.
    OwnFence,
    /// An allocation on its device's list, as often as it is there.
    Listed,
    /// A locked allocation.
    Locked,
    /// An offered one.
    Offered,
}

const KINDS: [Kind; 15] = [
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
    Kind::KeyedMutex,
];
/// Of each kind so many are remembered, the latest.
const MEMORY: usize = 12;

/// The knowledge of a process.
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
    /// The properties that it has asked of its allocations.
    asked: BTreeMap<RawHandle, Asked>,
    /// It may write commands whose waits no signal ends.
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
                1 => RawHandle(0x4000_0000 | dice.number32(1 << 12) << 6),
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

    /// The newest handle of a kind on the device that the next call is about.
    pub fn newest(&self, kind: Kind) -> Option<RawHandle> {
        let all = self.handles.get(&kind)?;
        all.iter().rev().find(|(_, on)| *on == self.device).map(|(handle, _)| *handle)
    }

    /// Allocations on the list of the device that the next call is about, with what was asked of them.
    pub fn listed(&self) -> Vec<(RawHandle, Asked)> {
        let listed = self.handles.get(&Kind::Listed).map_or(&[][..], Vec::as_slice);
        let here = listed.iter().filter(|(_, on)| *on == self.device);
        here.filter_map(|(handle, _)| Some((*handle, *self.asked.get(handle)?))).collect()
    }

    /// Primaries of the device.
    pub fn primaries(&self) -> Vec<RawHandle> {
        let all = self.handles.get(&Kind::Allocation).map_or(&[][..], Vec::as_slice);
        let shown = |handle: &RawHandle| self.asked.get(handle).is_some_and(|asked| asked.primary);
        all.iter().filter(|(handle, on)| *on == self.device && shown(handle)).map(|(handle, _)| *handle).collect()
    }

    /// Allocations of the device that the CPU may lock.
    pub fn lockable(&self) -> Vec<RawHandle> {
        let all = self.handles.get(&Kind::Allocation).map_or(&[][..], Vec::as_slice);
        let here = all
            .iter()
            .filter(|(handle, on)| *on == self.device && self.asked.get(handle).is_some_and(|asked| asked.cpu_visible));
        here.map(|(handle, _)| *handle).collect()
    }

    /// Allocations on the device's list that the CPU may lock.
    pub fn listed_and_lockable(&self) -> Vec<RawHandle> {
        self.listed().iter().filter(|(_, asked)| asked.cpu_visible).map(|(handle, _)| *handle).collect()
    }

    /// One or two allocations of the device that, as far as it knows, may be offered.
    pub fn offerable(&self, dice: &mut Dice) -> Vec<RawHandle> {
        let of = |kind: Kind| self.handles.get(&kind).map_or(&[][..], Vec::as_slice).iter();
        let taken = |handle: RawHandle| of(Kind::Locked).chain(of(Kind::Offered)).any(|(known, _)| *known == handle);
        let here = of(Kind::Allocation).filter(|(handle, on)| *on == self.device && !taken(*handle));
        let mut all: Vec<RawHandle> = here.map(|(handle, _)| *handle).collect();
        let count = (1 + dice.below(2)).min(all.len() as u64);
        // CAST: at most as many as are remembered.
        (0..count).map(|_| all.remove(dice.below(all.len() as u64) as usize)).collect()
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
            if !matches!(kind, Kind::Adapter | Kind::Section | Kind::GlobalShare | Kind::Event | Kind::KeyedMutex) {
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
            Call::Allocation(AllocationCall::CreateAllocation { device, .. })
            | Call::Device(DeviceCall::CreatePagingQueue { device, .. })
            | Call::Queue(QueueCall::CreateHwContext { device, .. })
            | Call::Packet(PacketCall::CreateContext { device, .. })
            | Call::Packet(PacketCall::CreateContextVirtual { device, .. })
            | Call::Sync(SyncCall::CreateNativeFence { device, .. })
            | Call::Sync(SyncCall::CreateSynchronizationObject2 { device, .. })
            | Call::Allocation(AllocationCall::OpenResource { device, .. }) => *device,
            Call::Residency(ResidencyCall::MakeResident { paging_queue, .. }) => of(Kind::PagingQueue, *paging_queue),
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
}

/// The allocations that offers name one by one; what a resource has is not known.
fn handles_of(list: &OfferList) -> &[RawHandle] {
    match list {
        OfferList::Allocations(handles) => handles,
        OfferList::Resources(_) => &[],
    }
}
