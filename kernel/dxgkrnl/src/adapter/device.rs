//! Devices: their creation, their errors, their end, and the end of a process (memory §8.6, sync §3.4, §3.16).

use std::collections::BTreeSet;

use ddi::{CreateDevice, DeviceInfo, KmdDevice};
use events::Event;
use kmt_calls::{DeviceFault, DeviceState, Refusal};
use vidsch::SuspendReasons;
use wddm_types::{Blame, NodeId, NtStatus, ProcessId, RawHandle};

use crate::adapter::Adapter;
use crate::context_allocation::ContextAllocation;
use crate::driver::Creating;
use crate::effect::Cx;
use crate::number::{ContextNumber, DeviceNumber, FenceOpenNumber, QueueNumber};
use crate::object::Object;
use crate::owners::{DeviceFacts, ProcessFacts};
use crate::packet::check_device_info;
use crate::process::Terms;
use crate::refusal::{from_driver, refuse, removed};
use crate::scheduling::Suspendable;
use crate::store::ObjectNumber;

impl Adapter {
    /// `D3DKMTCreateDevice`: the first device of a process brings its address space and its first fence words.
    pub fn create_device(
        &mut self,
        cx: &mut Cx<'_>,
        (process, adapter): (ProcessId, RawHandle),
        terms: Terms,
    ) -> Result<DeviceNumber, Refusal> {
        self.unblocked(process)?;
        if !self.owners.has_process(process) {
            self.add_process(cx, process, terms)?;
        }
        let ProcessFacts { space, kmd } = self.owners.facts_of_process(process).expect("just added");
        let create = CreateDevice { process: kmd, system: false, pasid: self.memory.pasids.of(space) };
        let vidmm = self.vidmm.create_device(space);
        let (made, kmd, info) = self.create_device_in_driver(cx, (vidmm, process), create)?;
        let device = self.owners.device_comes(DeviceFacts { process, handle: adapter, vidmm, kmd, info });
        self.memory.allocations.keep_for_contexts(device, made);
        self.quiesce_new_device(device);
        cx.emit(self.index, Event::DeviceCreated { process: process.0, device: device.raw() });
        // The page tables of its process are away: it runs when they are back (memory §4.6).
        if self.vidmm.is_suspended(vidmm) {
            let reasons = SuspendReasons::RESIDENCY;
            self.vidsch.suspensions.quiesce(Suspendable::Device(device), reasons);
            cx.emit(self.index, Event::DeviceSuspended { device: device.raw(), reasons: reasons.bits() });
        }
        Ok(device)
    }

    /// Asks the driver for a device. Of one that it refuses, or describes wrongly, nothing is left.
    // spec: memory §7.5: what its driver makes for it has it as owner
    fn create_device_in_driver(
        &mut self,
        cx: &mut Cx<'_>,
        (vidmm, process): (vidmm::DeviceId, ProcessId),
        create: CreateDevice,
    ) -> Result<(Vec<ContextAllocation>, KmdDevice, DeviceInfo), Refusal> {
        let (mut asked, driver) = self.context_host(vidmm, process);
        let (mut driver, mut host) = driver.creating(cx, Creating::Context(&mut asked));
        let created = driver.create_device(&mut host, create);
        let (made, works) = (asked.made, asked.works);
        // What was decided is carried out in any case: a refusal takes it back behind it.
        self.queue_works(cx, process, works);
        // spec: memory §7.1
        let checked = created.map_err(from_driver).and_then(|(kmd, info)| {
            let sound = check_device_info(self.vidmm.segments(), &info);
            sound.map(|()| (kmd, info)).map_err(|rule| {
                self.driver.call(cx).destroy_device(kmd);
                refuse(NtStatus::INVALID_PARAMETER, Blame::Driver, rule)
            })
        });
        match checked {
            Ok((kmd, info)) => Ok((made, kmd, info)),
            Err(refusal) => {
                self.destroy_context_allocations(cx, process, made);
                self.vidmm.destroy_device(vidmm, &[]);
                self.drop_process_if_empty(cx, process);
                Err(refusal)
            }
        }
    }

    /// `D3DKMTDestroyDevice`: queues first, so that the hardware touches nothing of it any more; then everything else.
    // spec: sync §3.4 (process exit), memory §6.2
    pub fn destroy_device(&mut self, cx: &mut Cx<'_>, number: DeviceNumber) {
        self.device_leaves_displays(cx, number);
        let contexts: Vec<_> = self.queues.contexts_of(number).collect();
        for context in contexts {
            self.destroy_context(cx, context);
        }
        for context in self.packet_contexts_of(number) {
            self.destroy_packet_context(cx, context);
        }
        self.bury_dead_of(cx, number);
        let fences: Vec<_> = self.sync.fence_opens_of(number).collect();
        for open in fences {
            self.close_fence(cx, open);
        }
        self.unmap_local_words(cx, number);
        for open in self.sync.opens_of_device(number) {
            self.close_sync_object(cx, open);
        }
        self.end_waits_of_device(cx, number);
        let made = self.memory.allocations.take_for_contexts(number);
        self.destroy_context_allocations(cx, self.owners.process_of(number), made);
        let resources: Vec<_> = self.memory.allocations.resources_of(number).collect();
        for resource in resources {
            self.destroy_resource(cx, resource, &[]);
        }
        let allocations: Vec<_> = self.memory.allocations.of_device(number).collect();
        for allocation in allocations {
            self.destroy_allocation(cx, allocation, &[]);
        }
        let paging_queues: Vec<_> = self.memory.paging_queues.of_device(number).collect();
        for queue in paging_queues {
            self.destroy_paging_queue(queue);
        }
        self.memory.registrations.device_goes(number);
        self.memory.ring.device_goes(number);
        self.packets.device_goes(number);
        self.displays.forget_device(number);
        debug_assert!(
            self.memory.allocations.of_device(number).next().is_none()
                && self.memory.allocations.resources_of(number).next().is_none(),
            "allocations go before their device: {number:?}"
        );
        debug_assert!(
            self.queues.contexts_of(number).next().is_none() && self.packets.of_device(number).next().is_none(),
            "contexts go before their device: {number:?}"
        );
        debug_assert!(
            self.memory.paging_queues.of_device(number).next().is_none()
                && self.memory.registrations.of_device(number).next().is_none(),
            "paging queues and registrations go before their device: {number:?}"
        );
        debug_assert!(
            self.sync.fence_opens_of(number).next().is_none(),
            "opens of fences go before their device: {number:?}"
        );
        let facts = self.owners.device_goes(number);
        self.vidsch.suspensions.drop_reasons(Suspendable::Device(number));
        self.vidmm.destroy_device(facts.vidmm, &[]);
        self.driver.call(cx).destroy_device(facts.kmd);
        self.drop_process_if_empty(cx, facts.process);
    }

    /// A hardware context and all that goes with it, as far as its process may have handles of it.
    pub fn named_of_context(&self, number: ContextNumber) -> Vec<Object> {
        let of_queues = self.queues[number].queues.iter().flat_map(|queue| self.named_of_queue(*queue));
        of_queues.chain([Object::Context(self.index, number)]).collect()
    }

    /// The same of a hardware queue.
    pub fn named_of_queue(&self, number: QueueNumber) -> Vec<Object> {
        let (index, queue) = (self.index, &self.queues[number]);
        let doorbell = queue.doorbell.map(|doorbell| Object::Doorbell(index, doorbell));
        let progress = Object::Fence(index, self.sync.only_open(queue.progress));
        doorbell.into_iter().chain([progress, Object::Queue(index, number)]).collect()
    }

    /// A device and all that goes with it, as far as its process may have handles of it.
    pub fn named_of_device(&self, number: DeviceNumber) -> Vec<Object> {
        let index = self.index;
        let mut named = vec![Object::Device(index, number)];
        named.extend(self.queues.contexts_of(number).flat_map(|context| self.named_of_context(context)));
        named.extend(self.packets.of_device(number).map(|context| Object::PacketContext(index, context)));
        named.extend(self.memory.paging_queues.of_device(number).flat_map(|queue| {
            let fence = self.sync.only_open(self.memory.paging_queues.fence_of(queue));
            [Object::PagingQueue(index, queue), Object::Fence(index, fence)]
        }));
        named.extend(self.memory.allocations.of_device(number).flat_map(|allocation| {
            let instances = self.memory.allocations[allocation].renaming.names();
            let instances = (1..=instances).map(move |name| Object::Instance(index, allocation, name));
            instances.chain([Object::Allocation(index, allocation)])
        }));
        named.extend(self.memory.allocations.resources_of(number).map(|resource| Object::Resource(index, resource)));
        named.extend(self.sync.fence_opens_of(number).map(|open| Object::Fence(index, open)));
        named.extend(self.sync.opens_of_device(number).into_iter().map(|open| Object::Legacy(index, open)));
        named.extend(self.memory.registrations.of_device(number).map(|number| Object::Registration(index, number)));
        named
    }

    /// How many devices a process has created by this handle of the adapter.
    pub fn devices_created_through(&self, process: ProcessId, handle: RawHandle) -> usize {
        let by_handle =
            |device: &DeviceNumber| self.owners.facts_of(*device).is_some_and(|facts| facts.handle == handle);
        self.owners.devices_of(process).filter(by_handle).count()
    }

    /// The devices of a process here.
    pub fn devices_of_process(&self, process: ProcessId) -> BTreeSet<DeviceNumber> {
        self.owners.devices_of(process).collect()
    }

    fn drop_process_if_empty(&mut self, cx: &mut Cx<'_>, process: ProcessId) {
        let Some(ProcessFacts { space, kmd }) = self.owners.process_goes(process) else { return };
        let words = self.sync.process_goes(process);
        self.tally.forget(process);
        let work = self.vidmm.destroy_space(space);
        self.queue_any(cx, process, work);
        self.release_fence_words(process);
        self.packets.process_goes(process);
        let logs = self.queues.take_log_pages(process);
        self.release_logs(logs);
        let clients = cx.platform(self.index).clients();
        words.release(clients, self.driver.pages());
        self.defer_space(space, kmd);
    }

    /// Everything of a process that has gone.
    pub fn process_died(&mut self, cx: &mut Cx<'_>, process: ProcessId) {
        for device in self.devices_of_process(process) {
            self.destroy_device(cx, device);
        }
        for open in self.sync.opens_of_process(process) {
            self.close_sync_object(cx, open);
        }
        debug_assert!(!self.owners.has_process(process), "a process goes with its last device: {process:?}");
        self.end_stable_power(cx, |(of, _)| of == process);
        self.life.forget(process);
        self.tally.process_ended(process);
    }

    /// Clears what processes and names that have gone have left behind, without waiting for another call: destructions whose last use is
    /// still with the hardware, works of the ring, and the actions behind these.
    // spec: memory §6.2
    pub fn clear_behind(&mut self, cx: &mut Cx<'_>) {
        self.watch_dying(cx);
        self.memory.ring.clear_behind();
        let queued = self.memory.ring.queued();
        self.settle(cx);
        if self.memory.ring.queued() > queued {
            // Settling has queued works of its own, such as those of burials.
            self.memory.ring.clear_behind();
            self.settle(cx);
        }
    }

    /// A name has ended, which may have been the last that kept memory: the same, behind the turn.
    // spec: memory §6.2
    pub fn name_ended(&mut self, cx: &mut Cx<'_>) {
        self.watch_dying(cx);
        self.memory.ring.clear_behind();
    }

    /// A device goes into error: its doorbells are taken away for ever, its queues stop, its fences are satisfied for ever, its
    /// waiters are told.
    // spec: memory §8.6, sync §3.16, sync §3.17
    pub fn fail_device(&mut self, cx: &mut Cx<'_>, number: DeviceNumber, state: DeviceState, reason: String) {
        if !self.owners.lose(number, state, &reason) {
            return;
        }
        self.tally.device_lost();
        let code = match state {
            DeviceState::Active => 1,
            DeviceState::Reset => 2,
            DeviceState::Hung => 3,
            DeviceState::Stopped => 4,
            DeviceState::ErrorOutOfMemory => 5,
            DeviceState::ErrorDmaFault => 6,
            DeviceState::ErrorDmaPageFault => 7,
        };
        cx.emit(self.index, Event::DeviceInError { device: number.raw(), state: code, reason });
        let lost = |open: FenceOpenNumber| {
            let open = self.sync.open(open);
            open.is_lost_with_device().then_some(open.fence)
        };
        let of_user: Vec<_> = self.sync.fence_opens_of(number).filter_map(lost).collect();
        self.device_leaves_displays(cx, number);
        let mut fences = self.fail_packets(cx, number);
        let news = self.sync.device_lost(cx, number);
        self.carry_out_sync(news);
        for queue in self.queues.of_device(number).map(|(queue, _)| queue).collect::<Vec<_>>() {
            if let Some(doorbell) = self.queues[queue].doorbell {
                self.lend_doorbells(cx, |doorbells, lent| doorbells.abort(lent, doorbell));
            }
            let queue = &self.queues[queue];
            let (kmd, vidsch, progress) = (queue.kmd, queue.vidsch, queue.progress);
            if let Some(hardware) = self.driver.call(cx).hardware_queues() {
                hardware.stop_hw_queue(kmd);
            }
            // Packets that never started are dropped: their device is lost.
            self.vidsch.ranks.waits_no_more(vidsch);
            let dropped = self.vidsch.queues.fail(vidsch);
            self.drop_parts(cx, dropped);
            fences.push(progress);
        }
        for fence in fences {
            self.signal_always(cx, fence);
        }
        for fence in of_user {
            self.lose_signaller(cx, fence);
        }
        // Its threads wait for nothing any more, also on fences that others go on with.
        self.end_waits_of_device(cx, number);
        self.forget_suspension_of(cx, number);
    }

    /// Refuses what a device in error may not do (memory §8.6).
    ///
    /// # Errors
    /// `DEVICE_REMOVED`; `RETRY` while the adapter sleeps.
    pub fn device_alive(&self, device: DeviceNumber) -> Result<(), Refusal> {
        self.life.awake()?;
        self.device_active(device)
    }

    /// The same, whether the adapter sleeps or not.
    ///
    /// # Errors
    /// `DEVICE_REMOVED`.
    pub fn device_active(&self, device: DeviceNumber) -> Result<(), Refusal> {
        if self.owners.is_active(device) {
            return Ok(());
        }
        let (state, lost_for) = (self.owners.state_of(device), self.owners.loss_of(device).unwrap_or_default());
        Err(removed(format!("the device is lost ({state:?}): {lost_for}")))
    }

    /// The refusal of a call that waited while its device was lost, or went.
    pub fn lost_meanwhile(&self, device: DeviceNumber) -> Refusal {
        match self.owners.loss_of(device).or(self.life.why_stopped()) {
            Some(reason) => removed(format!("the device was lost while the call waited: {reason}")),
            None => removed("the device was destroyed while the call waited"),
        }
    }

    /// A device's work on a node has faulted: it is lost, and GetDeviceState tells where and how.
    // spec: memory §5.8, memory §8.6
    pub fn fail_faulted_device(
        &mut self,
        cx: &mut Cx<'_>,
        (number, node): (DeviceNumber, NodeId),
        (state, whose): (DeviceState, String),
        fault: DeviceFault,
    ) {
        if self.owners.is_active(number) {
            self.due.fault_heard(node);
        }
        self.owners.note_fault(number, fault);
        let DeviceFault { address, write, invalid_instruction } = fault;
        let what = match (invalid_instruction, write) {
            (true, _) => "an invalid command",
            (false, true) => "a write that is not allowed",
            (false, false) => "a GPU virtual address without memory",
        };
        self.fail_device(cx, number, state, format!("{whose}: {what} at {address:#x}"));
    }
}
