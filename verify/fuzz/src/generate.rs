//! The next call of a hostile process: any call there is, with arguments that are mostly in order, so that the odd ones are
//! seen deep in the kernel and not at its door.

mod display;
mod escape;
mod memory;
mod reported;
mod sharing;
mod submission;
mod work;

use kmt_calls::{
    AdapterCall, AllocationTarget, Call, DeviceCall, DisplayCall, GpuVaCall, GpuVaProtection, LockCall,
    MakeResidentFlags, NativeFenceRequest, NotificationCall, PRIORITY_ABSOLUTE, PacketCall, PriorityCall, QueueCall,
    QueueFlags, ResidencyCall, StatisticsCall, SyncCall,
};
use softgpu_spec::context_data::{self, DmaBuffers};
use wddm_types::{GpuVa, Luid, NodeId, RawHandle};

use crate::dice::Dice;
use crate::known::{Kind, Known};

/// Draws calls for one process.
pub struct Generator<'a> {
    /// The source of chance.
    pub dice: &'a mut Dice,
    /// The handles and addresses that the process knows.
    pub known: &'a Known,
    /// The adapter.
    pub luid: Luid,
    /// Whether the GPU may be given waits that no signal ends and buffers that fault.
    pub endless: bool,
    /// The adapter is of the first generation: it has packets with lists, and no GPU virtual addresses.
    pub old: bool,
    /// Its engines have hardware queues, and with them native fences.
    pub queues: bool,
    /// It has displays.
    pub shows: bool,
    /// The process has a driver that calls the adapter's in private.
    pub escapes: bool,
    /// Pages of the largest allocations that are meant to succeed, where worlds draw what public reports have drawn; else 0.
    pub reported_pages: u64,
}

impl Generator<'_> {
    /// The next call.
    pub fn call(&mut self) -> Call {
        if self.known.count(Kind::Adapter) == 0 {
            return Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: self.luid });
        }
        if self.known.count(Kind::Device) == 0 || self.known.count(Kind::Device) == 1 && self.dice.chance(3) {
            return Call::Device(DeviceCall::CreateDevice { adapter: self.handle(Kind::Adapter) });
        }
        let device = self.known.device;
        if self.known.here(Kind::PagingQueue) == 0 {
            return Call::Device(DeviceCall::CreatePagingQueue { device, priority: 0, physical_adapter: 0 });
        }
        if self.known.here(Kind::Allocation) < 3 {
            return self.create_allocation();
        }
        if let Some(call) = self.towards_work() {
            return call;
        }
        if self.old && self.known.here(Kind::ListContext) == 0 && self.dice.chance(30) {
            return self.create_list_context();
        }
        if self.queues && self.known.here(Kind::HwContext) == 0 && self.dice.chance(20) {
            return Call::Queue(QueueCall::CreateHwContext { device, node: NodeId(0), private_data: Vec::new() });
        }
        if self.known.here(Kind::HwContext) > 0 && self.known.here(Kind::Queue) < 2 && self.dice.chance(15) {
            let user = self.known.here(Kind::Queue) == 1;
            let flags = if user { QueueFlags::USER_MODE_SUBMISSION } else { QueueFlags::empty() };
            return Call::Queue(QueueCall::CreateHwQueue {
                context: self.handle(Kind::HwContext),
                flags,
                private_data: Vec::new(),
            });
        }
        if self.dice.chance(6)
            && let Some(call) = self.create_fence_or_context(device)
        {
            return call;
        }
        if self.reported_pages > 0
            && self.dice.chance(12)
            && let Some(call) = self.reported()
        {
            return call;
        }
        if self.shows && self.dice.chance(20) {
            return self.display_call();
        }
        if self.escapes && self.dice.chance(8) {
            return self.escape();
        }
        match self.dice.below(100) {
            0..4 => self.adapter_call(),
            4..8 => self.device_call(),
            8..20 => self.allocation_call(),
            20..38 => self.residency_call(),
            38..40 if !self.old => self.address_call(),
            40..54 if self.old => self.packet_call(),
            40..54 => self.address_call(),
            54..68 => self.cpu_call(),
            68..72 => self.sharing_call(),
            72..84 if self.queues || !self.old && self.dice.chance(20) => self.queue_call(),
            72..94 => self.packet_call(),
            _ => self.fence_call(),
        }
    }

    /// A fence of the process's own, as long as it has few, then a packet context of the kind that it lacks.
    fn create_fence_or_context(&mut self, device: RawHandle) -> Option<Call> {
        let (node, engine_affinity) = (NodeId(0), 1);
        let (flags, private_data) = (kmt_calls::ContextFlags::empty(), Vec::new());
        if self.known.here(Kind::OwnFence) < 2 {
            let flags = self.fence_sharing();
            let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
            let native = Call::Sync(SyncCall::CreateNativeFence { device, request });
            return Some(if self.queues { native } else { self.create_fence() });
        }
        if !self.old && self.known.here(Kind::VirtualContext) == 0 {
            let create = PacketCall::CreateContextVirtual { device, node, engine_affinity, flags, private_data };
            return Some(Call::Packet(create));
        }
        (self.known.here(Kind::ListContext) == 0).then(|| self.create_list_context())
    }

    fn create_list_context(&mut self) -> Call {
        let place = match self.dice.below(3) {
            0 => Vec::new(),
            1 => context_data::encode(DmaBuffers::Contiguous).to_vec(),
            _ => context_data::encode(DmaBuffers::Aperture).to_vec(),
        };
        let private_data = if self.dice.odd() { vec![0xA5; self.dice.below(9) as usize] } else { place };
        let (device, node) = (self.known.device, NodeId(u16::from(self.dice.chance(70))));
        let flags = kmt_calls::ContextFlags::empty();
        Call::Packet(PacketCall::CreateContext { device, node, engine_affinity: 1, flags, private_data })
    }

    /// The next call that is still missing before the GPU can get valid work: memory on the list, commands in it, an address of them.
    fn towards_work(&mut self) -> Option<Call> {
        if !self.dice.chance(25) {
            return None;
        }
        let (device, paging_queue) = (self.known.device, self.handle(Kind::PagingQueue));
        if self.known.listed().iter().filter(|(_, asked)| asked.physical || !self.old).count() < 2 {
            let allocations = vec![self.handle(Kind::Allocation)];
            return Some(Call::Residency(ResidencyCall::MakeResident {
                paging_queue,
                allocations,
                flags: MakeResidentFlags::empty(),
            }));
        }
        if self.old {
            return None;
        }
        if let Some(allocation) = self.known.unseen_program() {
            let (minimum, maximum) = (GpuVa::NULL, GpuVa::NULL);
            return Some(Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
                paging_queue,
                allocation,
                base: GpuVa::NULL,
                minimum,
                maximum,
                offset_in_pages: 0,
                size_in_pages: 1,
                protection: GpuVaProtection::from_bits_retain(3),
                driver_protection: 0,
            }));
        }
        if self.known.buffers().is_empty() {
            let allocation = self.dice.pick(&self.known.lockable())?;
            return Some(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 }));
        }
        None
    }

    fn handle(&mut self, kind: Kind) -> RawHandle {
        self.known.handle(self.dice, kind)
    }

    fn target(&mut self) -> AllocationTarget {
        let list = |this: &mut Self| this.known.list(this.dice, Kind::Allocation, 3);
        match self.dice.below(12) {
            0 => AllocationTarget { resource: self.handle(Kind::Resource), allocations: list(self) },
            1 | 2 => AllocationTarget { resource: self.handle(Kind::Resource), allocations: Vec::new() },
            3 => AllocationTarget::default(),
            _ => AllocationTarget { resource: RawHandle::NONE, allocations: list(self) },
        }
    }

    /// Mostly the caller itself: handles of processes are not to be guessed.
    fn process(&mut self) -> u64 {
        if self.dice.odd() { self.dice.edge() } else { 0 }
    }

    fn adapter_call(&mut self) -> Call {
        let adapter = self.handle(Kind::Adapter);
        let local = self.dice.chance(70);
        match self.dice.below(11) {
            0 => Call::Adapter(AdapterCall::EnumAdapters),
            1 => {
                let luid = if self.dice.odd() { Luid(self.dice.edge()) } else { self.luid };
                Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid })
            }
            2 => Call::Adapter(AdapterCall::CloseAdapter { adapter }),
            3 => Call::Adapter(AdapterCall::QueryAdapterInfo { adapter }),
            4 => Call::Adapter(AdapterCall::QueryVideoMemoryInfo { process: self.process(), adapter, local }),
            5 => {
                let reservation_bytes = self.dice.number(1 << 20);
                Call::Residency(ResidencyCall::ChangeVideoMemoryReservation {
                    process: self.process(),
                    adapter,
                    local,
                    reservation_bytes,
                })
            }
            // Never above NORMAL: the witness stands above all of these.
            6 if self.dice.odd() => Call::Priority(self.priority_call()),
            6 => Call::Priority(PriorityCall::SetProcessSchedulingPriorityClass {
                adapter,
                class: self.dice.number32(2).wrapping_add(0),
            }),
            7 => Call::Adapter(AdapterCall::SetStablePowerState { adapter, enabled: self.dice.chance(60) }),
            8 => Call::Statistics(StatisticsCall::QueryProcessOfferInfo { process: self.process() }),
            9 => Call::Display(DisplayCall::GetSharedPrimaryHandle { adapter, source: self.source() }),
            _ => Call::Device(DeviceCall::CreateDevice { adapter }),
        }
    }

    /// Priorities of contexts of any kind; a hostile process has no privilege to go before the witness.
    fn priority_call(&mut self) -> PriorityCall {
        let kinds = [Kind::HwContext, Kind::ListContext, Kind::VirtualContext];
        let kind = kinds[self.dice.below(3) as usize];
        let context = self.handle(kind);
        // CAST: 40 at most, but for odd ones, which are to be odd.
        let level = self.dice.number32(40) as i32;
        match self.dice.below(6) {
            0 => PriorityCall::SetContextSchedulingPriority { context, priority: level.wrapping_sub(20) },
            1 => PriorityCall::SetContextSchedulingPriority { context, priority: PRIORITY_ABSOLUTE | level },
            2 => PriorityCall::SetContextInProcessSchedulingPriority { context, priority: level.wrapping_sub(20) },
            3 => PriorityCall::GetContextSchedulingPriority { context },
            4 => PriorityCall::GetContextInProcessSchedulingPriority { context },
            _ => PriorityCall::GetProcessSchedulingPriorityClass { adapter: self.handle(Kind::Adapter) },
        }
    }

    fn device_call(&mut self) -> Call {
        let device = self.handle(Kind::Device);
        match self.dice.below(12) {
            0 => Call::Device(DeviceCall::DestroyDevice { device }),
            1..3 => Call::Device(DeviceCall::GetDeviceState { device }),
            3 if self.dice.chance(20) => {
                Call::Residency(ResidencyCall::FlushHeapTransitions { adapter: self.handle(Kind::Adapter) })
            }
            3 if self.dice.chance(10) => Call::Display(DisplayCall::ReleaseProcessVidPnSourceOwners),
            3 if self.dice.chance(90) => Call::Device(DeviceCall::WaitForIdle { device }),
            3 => Call::Device(DeviceCall::MarkDeviceAsError { device, by_driver: self.dice.chance(50) }),
            4..6 => {
                let (priority, physical_adapter) =
                    ((self.dice.number32(3) as i32).wrapping_sub(1), self.dice.number32(0));
                Call::Device(DeviceCall::CreatePagingQueue { device, priority, physical_adapter })
            }
            6 => Call::Device(DeviceCall::DestroyPagingQueue { queue: self.handle(Kind::PagingQueue) }),
            7 | 8 => Call::Notification(NotificationCall::RegisterTrim { adapter: None, device }),
            9 | 10 => Call::Notification(NotificationCall::RegisterBudgetChange { device }),
            _ => Call::Notification(NotificationCall::Unregister { registration: self.handle(Kind::Registration) }),
        }
    }
}
