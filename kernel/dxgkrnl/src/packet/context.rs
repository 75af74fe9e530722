//! Packet contexts: what each is, and what it has queued. `adapter::packets::context` creates and destroys them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Index;

use ddi::{ContextInfo, KmdContext};
use vidmm::StateDigest;
use vidsch::QueueId;
use wddm_types::{NodeId, ProcessId};

use super::dma_buffer::DmaBuffer;
use super::uses::Uses;
use super::work::{Packet, Work};
use super::{Nodes, Packets};
use crate::context_allocation::ContextAllocation;
use crate::number::{DeviceNumber, FenceNumber, PacketContextNumber, PacketNumber};
use crate::store::ObjectNumber;

/// What a packet context is, from its creation on.
#[derive(Clone, Copy)]
pub struct ContextFacts {
    /// Its device.
    pub device: DeviceNumber,
    /// The driver's handle.
    pub kmd: KmdContext,
    /// The node that runs its packets.
    pub node: NodeId,
    /// The driver's needs of buffers and lists for it.
    pub info: ContextInfo,
    /// It has GPU addresses, and no lists.
    pub addresses: bool,
    /// Its queue at the scheduler.
    pub vidsch: QueueId,
    /// DisableGpuTimeout: its packets may take as long as they take.
    pub no_timeout: bool,
    /// NullRendering: no command that it is given is processed.
    pub null_rendering: bool,
    /// The kernel's own fence: the number of the last packet that is done.
    pub progress: FenceNumber,
    /// The kernel's own fence of portions that are not the last of their packets; `None`: lists are no residency here.
    pub portions: Option<FenceNumber>,
}

impl ContextFacts {
    /// The fences that packets and portions of the context signal when they are done.
    pub fn fences(&self) -> impl Iterator<Item = FenceNumber> + use<> {
        std::iter::once(self.progress).chain(self.portions)
    }
}

/// A packet context.
pub(super) struct PacketContext {
    pub(super) facts: ContextFacts,
    /// The number of the last packet queued.
    last_submitted: u64,
    /// The number of the last portion on the fence of portions.
    portions_made: u64,
    /// Packets that were not handed over, oldest first.
    pub(super) queued: VecDeque<Packet>,
    /// The uses of its buffers that were not done when the last one was queued.
    pub(super) uses: VecDeque<Uses>,
    pub(super) buffers: Vec<DmaBuffer>,
    /// The driver's allocations for it.
    allocations: Vec<ContextAllocation>,
}

impl Packets {
    /// The number of the next context.
    pub fn next_number(&self) -> PacketContextNumber {
        self.contexts.next_number()
    }

    /// A new context.
    pub fn add(&mut self, facts: ContextFacts, allocations: Vec<ContextAllocation>) -> PacketContextNumber {
        let number = self.contexts.insert(PacketContext {
            facts,
            last_submitted: 0,
            portions_made: 0,
            queued: VecDeque::new(),
            uses: VecDeque::new(),
            buffers: Vec::new(),
            allocations,
        });
        let fresh = self.of_devices.entry(facts.device).or_default().insert(number);
        debug_assert!(fresh, "a context is listed for its device once: {number:?}");
        number
    }

    /// A context goes. Its packets were dropped, and its buffers taken. Answers with the driver's allocations for it.
    pub fn remove(&mut self, context: PacketContextNumber) -> Vec<ContextAllocation> {
        let gone = self.contexts.remove(context).expect("a context is destroyed once");
        debug_assert!(gone.queued.is_empty() && gone.buffers.is_empty(), "nothing of it is left");
        if let Entry::Occupied(mut of) = self.of_devices.entry(gone.facts.device) {
            let listed = of.get_mut().remove(&context);
            debug_assert!(listed, "a context is listed for its device: {context:?}");
            if of.get().is_empty() {
                of.remove();
            }
        }
        gone.allocations
    }

    /// Forgets what a context has queued and in flight. The hardware is, or is about to be, told.
    pub fn drop_packets(&mut self, nodes: &mut Nodes, context: PacketContextNumber) {
        let known = &mut self.contexts[context];
        known.queued.clear();
        nodes.drop_of(known.facts.node, context);
    }

    /// What a context is, if it still is.
    pub fn get(&self, context: PacketContextNumber) -> Option<&ContextFacts> {
        self.contexts.get(context).map(|known| &known.facts)
    }

    /// All contexts, by number.
    pub fn contexts(&self) -> impl Iterator<Item = (PacketContextNumber, &ContextFacts)> {
        self.contexts.iter().map(|(number, known)| (number, &known.facts))
    }

    /// The contexts of a device.
    pub fn of_device(&self, device: DeviceNumber) -> impl Iterator<Item = PacketContextNumber> + '_ {
        self.of_devices.get(&device).into_iter().flatten().copied()
    }

    /// Finds a context that is not listed for its device, or a listed one that is not there, or whose device is not; a queue of packets
    /// that are not in the order of their numbers, or a pool with more than one free buffer.
    ///
    /// # Errors
    /// It.
    pub fn check_contexts(&self, is_there: impl Fn(DeviceNumber) -> bool) -> Result<(), String> {
        if let Some(device) = self.of_devices.keys().chain(self.turns.keys()).find(|device| !is_there(**device)) {
            return Err(format!("{device:?} has gone, and has packet contexts or turns"));
        }
        let is_of = |device, number| self.contexts.get(number).is_some_and(|known| known.facts.device == device);
        for (number, known) in self.contexts.iter() {
            let numbers: Vec<_> = known.queued.iter().map(|packet| packet.number).collect();
            let last = numbers.last().is_none_or(|last| last.raw() == known.last_submitted);
            if !last || !numbers.windows(2).all(|pair| pair[0] < pair[1]) {
                return Err(format!("context {number:?} has queued {numbers:?}, the last of {}", known.last_submitted));
            }
            if known.buffers.iter().filter(|buffer| !buffer.is_busy()).count() > 1 {
                return Err(format!("context {number:?} has more than one free buffer"));
            }
        }
        let mut listed =
            self.of_devices.iter().flat_map(|(device, of)| of.iter().map(move |number| (*device, *number)));
        match listed.find(|(device, number)| !is_of(*device, *number)) {
            Some(wrong) => Err(format!("{wrong:?} is listed")),
            None if self.of_devices.values().map(BTreeSet::len).sum::<usize>() == self.contexts.iter().count() => {
                Ok(())
            }
            None => Err("a packet context is of no device".into()),
        }
    }

    /// For the digest of the adapter's state.
    pub fn add_to(&self, digest: &mut StateDigest) {
        for (number, known) in self.contexts.iter() {
            digest.add("packet context", &number, &(known.facts.device, known.last_submitted));
        }
        self.views.iter().for_each(|(process, at)| digest.add("views of process", &process.0, at));
    }

    /// The position of the ring at which all allocations of a process's presents are mapped.
    // spec: memory §4.11
    pub fn views_mapped_at(&self, process: ProcessId) -> u64 {
        self.views.get(&process).copied().unwrap_or(0)
    }

    /// An allocation of a process's present is mapped when the ring has come to this position.
    pub fn view_mapped(&mut self, process: ProcessId, position: u64) {
        let before = self.views.insert(process, position);
        debug_assert!(before.is_none_or(|before| before <= position), "the ring goes on: {before:?}, then {position}");
    }

    /// A process goes, whose contexts have gone.
    pub fn process_goes(&mut self, process: ProcessId) {
        self.views.remove(&process);
    }

    /// Whether there is no context.
    pub fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// The driver's allocations for a context.
    pub fn allocations(&self, context: PacketContextNumber) -> &[ContextAllocation] {
        &self.contexts[context].allocations
    }

    /// The number of the last packet that a context has queued.
    pub fn last_submitted(&self, context: PacketContextNumber) -> u64 {
        self.contexts[context].last_submitted
    }

    /// The number that a context's next packet gets.
    pub fn next_packet(&self, context: PacketContextNumber) -> PacketNumber {
        PacketNumber::from_raw(self.contexts[context].last_submitted + 1)
    }

    /// Queues a packet. Answers with its number.
    pub fn queue(&mut self, context: PacketContextNumber, work: Work) -> PacketNumber {
        let number = self.next_packet(context);
        let known = &mut self.contexts[context];
        debug_assert!(
            known.queued.back().is_none_or(|before| before.number.raw() == known.last_submitted),
            "packets rise by one: {number:?} is next"
        );
        known.last_submitted = number.raw();
        known.queued.push_back(Packet { number, work, preempted: false });
        number
    }

    /// The number of the next portion of a context that is not the last of its packet.
    pub fn number_portion(&mut self, context: PacketContextNumber) -> u64 {
        let known = &mut self.contexts[context];
        known.portions_made += 1;
        known.portions_made
    }
}

impl Index<PacketContextNumber> for Packets {
    type Output = ContextFacts;

    /// # Panics
    /// For a context that is gone: inside the kernel numbers are held only as long as their objects.
    fn index(&self, context: PacketContextNumber) -> &ContextFacts {
        &self.contexts[context].facts
    }
}
