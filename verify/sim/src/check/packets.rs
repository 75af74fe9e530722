//! The life of packets, told twice. The driver's calls and reports tell which packets each node has; the kernel's events tell which packets
//! of each context have run. The rules:
//! - a packet runs once, in its context's order;
//! - ids of a node rise; what comes again bears RESUBMISSION and a new id, except paging buffers, which keep theirs;
//! - paging buffers that came back are handed over before anything else;
//! - nothing is handed over between a preemption and its answer; a node has packets of one context at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ddi::{KmdContext, PreemptCommand, SubmitCommand, SubmitCommandVirtual, SubmitFlags};
use events::Event;

use crate::check::contract::Broken;

/// The commands of a packet, by which the checker recognises it when it comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    segment: u8,
    address: u64,
    start: u32,
    end: u32,
    addressed: bool,
}

/// A packet as it was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Of which context.
    pub context: KmdContext,
    /// Its id.
    pub fence_id: u32,
    /// Whether it is a paging buffer, and whether it comes again.
    pub flags: SubmitFlags,
    body: Body,
}

/// All packets of an adapter.
#[derive(Debug, Default)]
pub struct Packets {
    nodes: BTreeMap<u16, Node>,
    contexts: BTreeMap<KmdContext, Context>,
    told: BTreeMap<u64, Told>,
    in_flight_max: usize,
}

#[derive(Debug, Default)]
struct Node {
    last_id: u32,
    in_flight: VecDeque<Handed>,
    /// The preemption that has not been answered.
    asked: Option<u32>,
    /// Paging buffers that came back.
    paging: VecDeque<Handed>,
    /// Packets of contexts that were stopped: what the driver had gathered of them may still be told.
    dropped: BTreeSet<u32>,
}

#[derive(Debug)]
struct Context {
    node: u16,
    /// Its packets that came back.
    returned: VecDeque<Handed>,
}

/// A context's packets as events tell them.
#[derive(Debug, Default)]
struct Told {
    waiting: VecDeque<u64>,
    in_flight: VecDeque<u64>,
}

impl Handed {
    /// As the driver is asked.
    pub fn of(submit: &SubmitCommand<'_>) -> Handed {
        let SubmitCommand { context, fence_id, flags, .. } = *submit;
        let body = Body {
            segment: submit.dma_buffer_segment.0,
            address: submit.dma_buffer_physical_address,
            start: submit.start_offset,
            end: submit.end_offset,
            addressed: false,
        };
        Handed { context, fence_id, flags, body }
    }

    /// As the driver is asked, of a context with addresses.
    pub fn of_virtual(submit: &SubmitCommandVirtual<'_>) -> Handed {
        let SubmitCommandVirtual { context, fence_id, flags, dma_buffer, dma_buffer_bytes, .. } = *submit;
        let body = Body { segment: 0, address: dma_buffer.0, start: 0, end: dma_buffer_bytes, addressed: true };
        Handed { context, fence_id, flags, body }
    }

    fn is_paging(&self) -> bool {
        self.flags.contains(SubmitFlags::PAGING)
    }
}

impl Packets {
    /// So many packets a node may have.
    pub fn in_flight_max(&mut self, count: u32) {
        self.in_flight_max = count as usize;
    }

    /// A context was made.
    pub fn created(&mut self, context: KmdContext, node: u16) {
        self.nodes.entry(node).or_default();
        self.contexts.insert(context, Context { node, returned: VecDeque::new() });
    }

    /// Nothing of a context runs any more.
    pub fn stopped(&mut self, context: KmdContext) {
        if let Some(known) = self.contexts.get_mut(&context) {
            known.returned.clear();
            let node = self.nodes.get_mut(&known.node).expect("made with its first context");
            let (gone, left): (VecDeque<Handed>, _) =
                node.in_flight.drain(..).partition(|packet| packet.context == context);
            node.in_flight = left;
            node.dropped.extend(gone.iter().map(|packet| packet.fence_id));
        }
    }

    /// The hardware was reset: nothing that it had runs.
    pub fn lost(&mut self) {
        for known in self.nodes.values_mut() {
            known.in_flight.clear();
            known.paging.clear();
            known.asked = None;
        }
        self.contexts.values_mut().for_each(|known| known.returned.clear());
    }

    /// A context goes.
    pub fn destroyed(&mut self, context: KmdContext) {
        self.stopped(context);
        self.contexts.remove(&context);
    }

    /// The contexts of which the hardware has no packet.
    pub fn resting(&self) -> impl Iterator<Item = KmdContext> + '_ {
        let runs = |context, node| self.nodes[&node].in_flight.iter().any(|packet| packet.context == context);
        self.contexts.iter().filter(move |(context, known)| !runs(**context, known.node)).map(|(context, _)| *context)
    }

    /// Packets of a context that came back and have not been handed over again.
    pub fn returned(&self, context: KmdContext) -> usize {
        self.contexts.get(&context).map_or(0, |known| known.returned.len())
    }

    /// Whether the node of a context has paging buffers that came back.
    pub fn paging_came_back(&self, context: KmdContext) -> bool {
        self.contexts.get(&context).is_some_and(|known| !self.nodes[&known.node].paging.is_empty())
    }

    /// A packet is handed over.
    // spec: memory §7.4, sync §4.1, sync §4.3
    pub fn handed_over(&mut self, packet: Handed) -> Result<(), Broken> {
        let known = self.contexts.get_mut(&packet.context).ok_or_else(|| format!("{packet:?} of no context"))?;
        let node = self.nodes.get_mut(&known.node).expect("made with its first context");
        if let Some(asked) = node.asked {
            return Err(format!("{packet:?} is handed over before preemption {asked} was answered"));
        }
        let again = packet.flags.contains(SubmitFlags::RESUBMISSION);
        let back = if packet.is_paging() { node.paging.pop_front() } else { known.returned.pop_front() };
        match back {
            Some(back) if !again => return Err(format!("{packet:?} does not say that it comes again, as {back:?}")),
            Some(back) if back.body != packet.body => {
                return Err(format!("{packet:?} is handed over although {back:?} comes first"));
            }
            None if again => return Err(format!("{packet:?} comes again and had not come back")),
            _ => {}
        }
        match back.filter(|_| packet.is_paging()) {
            Some(back) if back.fence_id != packet.fence_id => {
                return Err(format!(
                    "a paging buffer had id {} and comes again with another: {packet:?}",
                    back.fence_id
                ));
            }
            Some(_) => {}
            None if packet.fence_id <= node.last_id => {
                return Err(format!("{packet:?} after packet {}", node.last_id));
            }
            None => node.last_id = packet.fence_id,
        }
        if !packet.is_paging() {
            if let Some(first) = node.paging.front() {
                return Err(format!("{packet:?} is handed over before the paging buffer {first:?}, which came back"));
            }
            let other = node.in_flight.iter().find(|of| !of.is_paging() && of.context != packet.context);
            if let Some(other) = other {
                return Err(format!("{packet:?} is handed over while the node has {other:?}"));
            }
        }
        node.in_flight.push_back(packet);
        if node.in_flight.len() > self.in_flight_max {
            return Err(format!("{} packets in flight, {} may be", node.in_flight.len(), self.in_flight_max));
        }
        Ok(())
    }

    /// The driver says that a packet is done, and with it those before it.
    // spec: sync §2.8
    pub fn completed(&mut self, node: u16, fence_id: u32) -> Result<(), Broken> {
        let known = self.nodes.get_mut(&node).ok_or_else(|| format!("node {node} has no contexts"))?;
        let at = known.in_flight.iter().position(|packet| packet.fence_id == fence_id);
        if at.is_none() && known.dropped.remove(&fence_id) {
            return Ok(());
        }
        let at = at.ok_or_else(|| format!("packet {fence_id} of node {node} is done, which it does not have"))?;
        known.in_flight.drain(..=at);
        Ok(())
    }

    /// The driver is asked for what a node has.
    // spec: sync §4.3
    pub fn preempt(&mut self, preempt: &PreemptCommand) -> Result<(), Broken> {
        let fence = preempt.preemption_fence_id;
        let node = self.nodes.get_mut(&preempt.node.0).ok_or("a preemption of a node without contexts")?;
        match node.asked.replace(fence) {
            Some(asked) => Err(format!("preemption {fence} before {asked} was answered")),
            None => Ok(()),
        }
    }

    /// The driver has answered: what it has not done comes back.
    // spec: sync §4.3
    pub fn preempted(&mut self, node: u16, fence: u32, last_completed: u32) -> Result<(), Broken> {
        let known = self.nodes.get_mut(&node).ok_or_else(|| format!("node {node} has no contexts"))?;
        if known.asked.take() != Some(fence) {
            return Err(format!("preemption {fence} of node {node} was not asked for"));
        }
        let done = known.in_flight.iter().position(|packet| packet.fence_id == last_completed).map_or(0, |at| at + 1);
        known.in_flight.drain(..done);
        // The youngest first, so that the oldest is in front.
        while let Some(packet) = known.in_flight.pop_back() {
            if packet.is_paging() {
                known.paging.push_front(packet);
            } else if let Some(context) = self.contexts.get_mut(&packet.context) {
                context.returned.push_front(packet);
            }
        }
        Ok(())
    }

    /// Takes in an event of the kernel about its contexts.
    // spec: memory §7.4, sync §4.1
    pub fn told(&mut self, event: &Event) -> Result<(), Broken> {
        match *event {
            Event::PacketQueued { context, packet } => {
                let told = self.told.entry(context).or_default();
                let last = told.waiting.back().or(told.in_flight.back());
                if last.is_some_and(|last| *last >= packet) {
                    return Err(format!("packet {packet} of context {context} is queued behind {last:?}"));
                }
                told.waiting.push_back(packet);
            }
            Event::PacketStarted { context, packet, .. } | Event::PortionStarted { context, packet, .. } => {
                let told = self.told.entry(context).or_default();
                if told.waiting.front() == Some(&packet) {
                    told.waiting.pop_front();
                    told.in_flight.push_back(packet);
                } else if told.in_flight.back() != Some(&packet) {
                    return Err(format!("packet {packet} of context {context} starts, {told:?}"));
                }
            }
            Event::PacketPreempted { context, packet, .. } => {
                let told = self.told.entry(context).or_default();
                // Of a packet that runs in portions each comes back.
                if told.in_flight.back() == Some(&packet) {
                    told.in_flight.pop_back();
                    told.waiting.push_front(packet);
                } else if told.waiting.front() != Some(&packet) {
                    return Err(format!("packet {packet} of context {context} comes back, {told:?}"));
                }
            }
            Event::PacketCompleted { context, packet } => {
                let told = self.told.entry(context).or_default();
                if told.in_flight.pop_front() != Some(packet) {
                    return Err(format!("packet {packet} of context {context} is done, behind {told:?}"));
                }
            }
            Event::PacketContextDestroyed { context } => {
                self.told.remove(&context);
            }
            _ => {}
        }
        Ok(())
    }

    /// Nothing is left to do.
    pub fn idle(&self) -> Result<(), Broken> {
        match self.nodes.iter().find(|(_, node)| !node.in_flight.is_empty() || node.asked.is_some()) {
            Some((number, node)) => Err(format!("node {number} is never done: {node:?}")),
            None => Ok(()),
        }
    }
}
