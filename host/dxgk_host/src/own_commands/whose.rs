//! Whose commands a queue of a device has. A hardware queue has an owner, the driver's name of a context, whose process the kernel tells when it
//! creates the queue. A ring of packets has packets of many contexts: each begins with a buffer whose number the device tells, and the kernel
//! tells whose it is, before that or behind it. Called by `own_commands`.

use std::collections::{BTreeMap, VecDeque};

use events::Event;

use super::{Counts, Seen};

/// Most packets of an adapter that are remembered. Its nodes have fewer in flight, and the kernel says whose a packet is in the turn in which
/// it hands it over.
const BUFFERS_MAX: usize = 512;

/// One adapter.
pub(super) struct Adapter {
    /// The configuration has a probe on its device, too.
    pub has_probe: bool,
    queues: BTreeMap<u32, Runs>,
    /// By the driver's names of contexts, those of processes that ask.
    owners: BTreeMap<u64, u32>,
    devices: BTreeMap<u64, u32>,
    /// Packet contexts: the process, and the node.
    contexts: BTreeMap<u64, (u32, u16)>,
    /// The oldest first.
    buffers: VecDeque<Buffer>,
}

/// What a queue of the device runs.
#[derive(Clone, Copy)]
enum Runs {
    Owner(u64),
    Buffer { node: u32, number: u64 },
}

/// A packet that the device has begun, or that the kernel has told of.
struct Buffer {
    node: u32,
    number: u64,
    whose: Whose,
}

enum Whose {
    /// The kernel has not said it yet: its commands so far.
    Unsaid(Counts),
    Process(u32),
    /// Of a process that does not ask, or the kernel's own.
    Other,
}

impl Adapter {
    pub fn new(has_probe: bool) -> Adapter {
        let (queues, owners, devices) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Adapter { has_probe, queues, owners, devices, contexts: BTreeMap::new(), buffers: VecDeque::new() }
    }

    /// Nothing is known of what was before.
    pub fn begin(&mut self) {
        *self = Adapter::new(self.has_probe);
    }

    /// A process has gone.
    pub fn forget(&mut self, process: u32) {
        self.owners.retain(|_, one| *one != process);
        self.devices.retain(|_, one| *one != process);
        self.contexts.retain(|_, (one, _)| *one != process);
        for buffer in &mut self.buffers {
            if matches!(buffer.whose, Whose::Process(one) if one == process) {
                buffer.whose = Whose::Other;
            }
        }
    }

    /// An engine has a queue.
    pub fn attached(&mut self, queue: u32, owner: u64) {
        if owner == 0 {
            self.queues.remove(&queue);
        } else {
            self.queues.insert(queue, Runs::Owner(owner));
        }
    }

    /// A queue has begun a packet.
    pub fn buffer(&mut self, node: u32, queue: u32, number: u64) {
        self.queues.insert(queue, Runs::Buffer { node, number });
        if self.find(node, number).is_none() {
            self.remember(Buffer { node, number, whose: Whose::Unsaid(Counts::default()) });
        }
    }

    /// A queue has begun a command: the process that it counts for.
    pub fn command(&mut self, queue: u32, seen: Seen) -> Option<(u32, Seen)> {
        match *self.queues.get(&queue)? {
            Runs::Owner(owner) => self.owners.get(&owner).map(|process| (*process, seen)),
            Runs::Buffer { node, number } => match &mut self.find(node, number)?.whose {
                Whose::Unsaid(counts) => {
                    counts.add(seen);
                    None
                }
                Whose::Process(process) => Some((*process, seen)),
                Whose::Other => None,
            },
        }
    }

    /// Hears the kernel: commands that are found to be a process's.
    pub fn hear(&mut self, event: &Event, asks: impl Fn(u32) -> bool) -> Option<(u32, Counts)> {
        match *event {
            Event::QueueCreated { process, owner, .. } => {
                note(&mut self.owners, owner, asks(process).then_some(process));
            }
            Event::DeviceCreated { process, device } => {
                note(&mut self.devices, device, asks(process).then_some(process));
            }
            Event::PacketContextCreated { context, device, node, .. } => {
                let process = self.devices.get(&device).copied();
                note(&mut self.contexts, context, process.map(|process| (process, node)));
            }
            Event::PacketStarted { context, node, fence_id, .. } => {
                let process = self.contexts.get(&context).map(|(process, _)| *process);
                return self.said(node, fence_id, process);
            }
            // The first portion has the packet's own number.
            Event::PortionStarted { context, fence_id, .. } => {
                let (process, node) = *self.contexts.get(&context)?;
                return self.said(node, fence_id, Some(process));
            }
            Event::PagingPacketStarted { node, fence_id, .. } => return self.said(node, fence_id, None),
            Event::AdapterReset { .. } => self.buffers.clear(),
            _ => {}
        }
        None
    }

    /// The kernel has handed over a packet.
    fn said(&mut self, node: u16, fence_id: u32, process: Option<u32>) -> Option<(u32, Counts)> {
        let (node, number) = (node.into(), fence_id.into());
        let whose = process.map_or(Whose::Other, Whose::Process);
        match self.find(node, number) {
            Some(buffer) => match (std::mem::replace(&mut buffer.whose, whose), process) {
                (Whose::Unsaid(counts), Some(process)) => return Some((process, counts)),
                _ => return None,
            },
            None => self.remember(Buffer { node, number, whose }),
        }
        None
    }

    fn find(&mut self, node: u32, number: u64) -> Option<&mut Buffer> {
        self.buffers.iter_mut().rev().find(|buffer| (buffer.node, buffer.number) == (node, number))
    }

    fn remember(&mut self, buffer: Buffer) {
        // One that the device has not begun came back to the kernel, which hands it over under another number.
        if self.buffers.len() == BUFFERS_MAX {
            self.buffers.pop_front();
        }
        self.buffers.push_back(buffer);
    }
}

/// An object is a process's that asks, or no such one's: the object that had its number before has gone.
fn note<T>(objects: &mut BTreeMap<u64, T>, number: u64, of: Option<T>) {
    if let Some(of) = of {
        objects.insert(number, of);
    } else {
        objects.remove(&number);
    }
}
