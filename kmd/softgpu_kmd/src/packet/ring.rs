//! Rings: small ones of the driver's own, at bus addresses, each with a queue of the device. A packet puts two commands into
//! one: a branch to its buffer, and a completion with its fence id. The driver remembers where each ends in the ring, so
//! that a read pointer tells as much as the interrupt records do.
//!
//! The device takes turns among the queues of an engine, but packets of a node run in the order in which they are handed
//! over. So *one ring of a node has packets at any time*, and those for another wait until it is empty: those of a context
//! with addresses behind paging buffers.

use std::collections::VecDeque;

use ddi::{DriverStatus, Host, KmdContext};
use shared_words::doorbell::{ASLEEP_OFFSET, DOORBELL_BYTES, VALUE_OFFSET};
use shared_words::{Barrier, FrequentBarrier, Word, doorbell};
use softgpu_spec::register::{self, queue_control, queue_flags, queue_state};
use softgpu_spec::{Command, bus};
use wddm_types::{NodeId, PageRun};

use super::{PACKETS_IN_FLIGHT, PacketTable};
use crate::driver::SoftGpuKmd;
use crate::scheduling_log::NO_OWNER;

/// Bytes of a ring: a page has room for far more packets than may be in flight.
const RING_BYTES: u64 = bus::PAGE_BYTES;
/// Bytes of a packet in the ring at most: a branch and a completion.
pub(super) const PACKET_BYTES: u64 = 32;
const _: () = assert!(PACKET_BYTES * (PACKETS_IN_FLIGHT as u64 + 1) <= RING_BYTES);

/// The commands of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    /// Where its commands begin: a bus address, or a virtual one.
    pub(super) at: u64,
    pub(super) words: u32,
    /// Words that were executed before it was preempted: it goes on behind them.
    pub(super) done: u32,
    pub(super) physical: bool,
}

/// A packet in a ring, not known to be done.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) fence_id: u32,
    pub(super) context: KmdContext,
    pub(super) body: Body,
    /// Where it begins and ends in the ring.
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Where a ring's commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// In none: they name bus addresses.
    Bus,
    /// In a process's, unprivileged.
    Process,
    /// In the paging process's, privileged.
    Paging,
}

/// A ring.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) node: NodeId,
    /// The device's number of its queue.
    pub(super) index: u32,
    /// An address space that is translated has a root before anything runs in it.
    space: Space,
    pub(super) root: Option<u64>,
    pub(super) run: PageRun,
    written: u64,
    pub(super) in_flight: VecDeque<Packet>,
    pub(super) enabled: bool,
}

impl PacketTable {
    /// The rings of a node.
    fn rings_of(&self, node: usize) -> impl Iterator<Item = (u64, &Ring)> {
        self.rings.iter().filter(move |(_, ring)| usize::from(ring.node.0) == node)
    }

    /// Rings of these nodes that are on the device and have nothing.
    pub(super) fn idle_rings(&self, nodes: u64) -> Vec<(u64, u32)> {
        let idle = |ring: &Ring| nodes >> ring.node.0 & 1 == 1 && ring.enabled && ring.in_flight.is_empty();
        self.rings.iter().filter(|(_, ring)| idle(ring)).map(|(handle, ring)| (handle, ring.index)).collect()
    }

    /// Whether a ring of the node that is not this one has packets.
    fn is_another_busy(&self, node: usize, ring: u64) -> bool {
        self.rings_of(node).any(|(handle, known)| handle != ring && !known.in_flight.is_empty())
    }

    /// The ring of a queue of the device.
    pub(super) fn ring_at(&self, index: u64) -> Option<(u64, &Ring)> {
        self.rings.iter().find(|(_, ring)| u64::from(ring.index) == index)
    }
}

impl SoftGpuKmd {
    /// The ring that contexts without addresses share; made for the first context of a node, gone when the device stops.
    pub(super) fn node_ring(&mut self, host: &mut dyn Host, node: NodeId) -> Result<u64, DriverStatus> {
        if let Some(ring) = self.packets.nodes[usize::from(node.0)].ring {
            return Ok(ring);
        }
        let ring = self.create_ring(host, node, Space::Bus)?;
        if let Err(status) = self.enable_ring(ring) {
            self.destroy_ring(host, ring);
            return Err(status);
        }
        self.packets.nodes[usize::from(node.0)].ring = Some(ring);
        Ok(ring)
    }

    /// The device has started again: the rings that contexts share run, and are empty.
    pub(crate) fn enable_node_rings(&mut self) -> Result<(), DriverStatus> {
        let shared: Vec<u64> = self.packets.nodes.iter().filter_map(|node| node.ring).collect();
        shared.into_iter().try_for_each(|ring| self.enable_ring(ring))
    }

    pub(super) fn create_ring(&mut self, host: &mut dyn Host, node: NodeId, space: Space) -> Result<u64, DriverStatus> {
        let run = host.allocate_contiguous(RING_BYTES / bus::PAGE_BYTES).ok_or(DriverStatus::NoMemory("a ring"))?;
        let Some(index) = self.queues.reserve_index() else {
            host.free_contiguous(run);
            return Err(DriverStatus::NoMemory("every hardware queue is taken"));
        };
        let in_flight = VecDeque::new();
        let ring = Ring { node, index, space, root: None, run, written: 0, in_flight, enabled: false };
        Ok(self.packets.rings.insert(ring))
    }

    pub(super) fn destroy_ring(&mut self, host: &mut dyn Host, ring: u64) {
        let gone = self.packets.rings.remove(ring, "ring");
        self.disable_index(gone.index);
        self.queues.release_index(gone.index);
        host.free_contiguous(gone.run);
    }

    /// Enables the ring, empty.
    pub(super) fn enable_ring(&mut self, ring: u64) -> Result<(), DriverStatus> {
        let known = self.packets.ring_mut(ring);
        let flags = match known.space {
            Space::Bus => queue_flags::PRIVILEGED | queue_flags::UNTRANSLATED,
            Space::Process => 0,
            Space::Paging => queue_flags::PRIVILEGED,
        };
        let (index, node, root, run) = (known.index, known.node, known.root.unwrap_or(0), known.run);
        Word::store(self.port.doorbell_page().word(u64::from(index) * DOORBELL_BYTES + VALUE_OFFSET), 0);
        for (register, value) in [
            (register::QUEUE_SELECT, u64::from(index)),
            (register::QUEUE_ENGINE, u64::from(node.0)),
            (register::QUEUE_ROOT, root),
            (register::QUEUE_RING, bus::SYSTEM_BASE + run.first * bus::PAGE_BYTES),
            (register::QUEUE_RING_BYTES, RING_BYTES),
            (register::QUEUE_FLAGS, flags | queue_flags::RING_PHYSICAL),
        ] {
            self.port.write_register(register, value);
        }
        self.write_rank(crate::queues::ranks::ORDINARY);
        self.write_owner(NO_OWNER);
        self.port.write_register(register::QUEUE_CONTROL, queue_control::ENABLE);
        let state = self.port.read_register(register::QUEUE_CONTROL);
        let enabled = !matches!(state, queue_state::DISABLED | register::ABSENT);
        let known = self.packets.ring_mut(ring);
        (known.written, known.enabled) = (0, enabled);
        if enabled { Ok(()) } else { Err(DriverStatus::Unsuccessful("the device did not take the queue")) }
    }

    /// A packet is the last of its node: it goes to the end of its ring, or waits until another ring of the node is empty.
    pub(super) fn append_to_ring(&mut self, ring: u64, packet: Packet) -> Result<(), DriverStatus> {
        let known = self.packets.ring_mut(ring);
        if !known.enabled {
            return Err(DriverStatus::Unsuccessful("the context runs nothing"));
        }
        let node = usize::from(known.node.0);
        let waiting = self.packets.nodes[node].waiting.len();
        let in_flight: usize = self.packets.rings_of(node).map(|(_, ring)| ring.in_flight.len()).sum();
        if waiting + in_flight >= PACKETS_IN_FLIGHT as usize {
            return Err(DriverStatus::Unsuccessful("the kernel keeps to HwQueuePacketCap"));
        }
        if waiting > 0 || self.packets.is_another_busy(node, ring) {
            self.packets.nodes[node].waiting.push_back((ring, packet));
        } else {
            self.put_in_ring(ring, packet);
        }
        Ok(())
    }

    /// A ring of a node may have become empty: packets that waited for that begin.
    pub(super) fn advance_node(&mut self, node: usize) {
        // No packet begins during a preemption: the driver gives waiting ones back with its answer.
        while self.packets.nodes[node].preempting.is_none()
            && let Some(&(ring, _)) = self.packets.nodes[node].waiting.front()
            && !self.packets.is_another_busy(node, ring)
        {
            let (_, packet) = self.packets.nodes[node].waiting.pop_front().expect("just seen");
            self.put_in_ring(ring, packet);
        }
    }

    /// Puts a packet at the end of a ring and rings its doorbell.
    pub(super) fn put_in_ring(&mut self, ring: u64, mut packet: Packet) {
        let known = self.packets.rings.get_mut(ring).expect("a ring outlives its contexts");
        let mut words = Vec::with_capacity((PACKET_BYTES / 8) as usize);
        packet.body.branch().encode(&mut words);
        Command::Complete { value: u64::from(packet.fence_id) }.encode(&mut words);
        let base = known.run.first * bus::PAGE_BYTES;
        for (offset, word) in (known.written..).step_by(8).zip(&words) {
            Word::store(self.system.word(base + offset % RING_BYTES), *word);
        }
        packet.start = known.written;
        known.written += words.len() as u64 * 8;
        packet.end = known.written;
        known.in_flight.push_back(packet);
        let (index, end) = (known.index, known.written);
        let page = self.port.doorbell_page();
        let at = u64::from(index) * DOORBELL_BYTES;
        // spec: sync §3.17
        if doorbell::ring(FrequentBarrier::full, page.word(at + VALUE_OFFSET), page.word(at + ASLEEP_OFFSET), end) {
            self.port.doorbell_rung(index);
        }
    }

    /// A record says that a packet is done, and with it those before it in the ring.
    pub(crate) fn gather_completed(&mut self, index: u64, value: u64) {
        let Some((handle, ring)) = self.packets.ring_at(index) else { return };
        let Some(at) = ring.in_flight.iter().position(|packet| u64::from(packet.fence_id) == value) else { return };
        self.complete_first(handle, at + 1);
    }

    /// The packets of a ring up to where the device has read it are done.
    pub(super) fn complete_read(&mut self, ring: u64, read: u64) {
        let done = self.packets.ring_mut(ring).in_flight.iter().take_while(|packet| packet.end <= read).count();
        self.complete_first(ring, done);
    }

    fn complete_first(&mut self, ring: u64, count: usize) {
        let known = self.packets.rings.get_mut(ring).expect("found by the caller");
        for packet in known.in_flight.drain(..count) {
            self.packets.nodes[usize::from(known.node.0)].last_completed = packet.fence_id;
            self.gathered.completed(known.node, packet.fence_id);
        }
        let node = usize::from(known.node.0);
        self.advance_node(node);
    }

    /// The queue of a ring has faulted, and the record of that may be lost: the packet that the device is in is the one.
    pub(super) fn gather_unrecorded_fault(&mut self, ring: u64) {
        let index = self.packets.ring_mut(ring).index;
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        let read = self.port.read_register(register::QUEUE_READ_POINTER);
        self.complete_read(ring, read);
        self.gather_packet_fault(u64::from(index), 0, 0);
    }

    /// Records were lost: reads the progress of the rings from the device.
    pub(crate) fn recheck_packets(&mut self) {
        // The write takes hold between two commands, so that every completion that was raised has moved its read pointer.
        self.port.write_register(register::ENGINE_ENABLE, 1);
        let rings: Vec<(u64, u32)> = self.packets.rings.iter().map(|(handle, ring)| (handle, ring.index)).collect();
        for (handle, index) in rings {
            self.port.write_register(register::QUEUE_SELECT, u64::from(index));
            let read = self.port.read_register(register::QUEUE_READ_POINTER);
            let nested = self.port.read_register(register::QUEUE_NESTED_WORDS);
            let state = self.port.read_register(register::QUEUE_CONTROL);
            self.complete_read(handle, read);
            match state {
                queue_state::FAULTED => self.gather_unrecorded_fault(handle),
                queue_state::PREEMPTED => self.gather_preempted(u64::from(index), read, nested),
                _ => {}
            }
        }
    }
}

impl Body {
    fn branch(self) -> Command<'static> {
        let (words, behind) = (self.words - self.done, u64::from(self.done) * 8);
        match (words, self.physical) {
            (0, _) => Command::Nop,
            (_, true) => Command::BranchPhysical { bus: self.at + behind, words },
            (_, false) => Command::Branch { va: self.at.wrapping_add(behind), words },
        }
    }
}
