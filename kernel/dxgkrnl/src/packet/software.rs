//! Software packets: the kernel's own actions when a context comes to a point (sync §2.4, §3.7, §3.8): take mutexes and semaphores,
//! signal objects, set an event. Waits for fences, and signals of fences alone, are packets of the scheduler. `adapter::packets::software`
//! carries the actions out.
//!
//! A signal that several contexts broadcast is a part in the queue of each; the context that brings the last part signals. A context that
//! goes, or is lost, takes its part with it: then the signal never comes, as if its own had been dropped, and the kernel sets the event
//! of the call nevertheless: nothing else ever would. Hardware queues that signal together have such parts, too (`queue`); nothing else
//! here is theirs.

use std::collections::BTreeMap;

use gpu_fence::LegacyWaitId;
use kmt_calls::SignalFlags;
use vidmm::AllocationId;

use crate::display::Flip;
use crate::number::{EventName, FenceNumber, PacketContextNumber, SyncObjectNumber};
use crate::packet::SoftwareNumber;
use crate::store::ObjectNumber;
use crate::sync::Fed;

/// The software packets of an adapter. A packet that is queued has one action here, and a broadcast is here as long as a part of it is
/// queued.
#[derive(Default)]
pub struct Software {
    steps: BTreeMap<SoftwareNumber, SoftwareStep>,
    broadcasts: BTreeMap<SoftwareNumber, Broadcast>,
    /// Numbers given so far, to both.
    made: u64,
    /// Contexts that wait for objects.
    waits: BTreeMap<PacketContextNumber, LegacyWaitId>,
}

/// The action of a software packet.
pub enum SoftwareStep {
    /// Takes these objects, all at once.
    Take {
        /// The objects.
        objects: Vec<SyncObjectNumber>,
        /// For the fences among them.
        value: u64,
    },
    /// One context's part of a broadcast.
    Part(SoftwareNumber),
    /// A flip, when what is before it is done.
    Flip(Flip),
    /// Commands that are not processed: they are over when what is before them is.
    Nothing,
    /// Primaries that the next command of a hardware queue writes: it waits while a display shows one.
    Writes(Vec<AllocationId>),
}

struct Broadcast {
    /// Parts in queues.
    left: usize,
    /// A part was lost.
    lost: bool,
    signal: Signal,
}

/// The last part of a broadcast is over.
#[must_use = "a signal that is not given leaves its waiters"]
pub enum BroadcastEnd {
    /// Every context has come so far.
    Signal(Signal),
    /// A part was lost: the signal is dropped.
    Dropped(Signal),
}

/// The action of a signal packet.
#[derive(Clone, Default)]
pub struct Signal {
    /// Fences with a word in memory.
    pub points: Vec<(FenceNumber, u64)>,
    /// The others.
    pub objects: Vec<SyncObjectNumber>,
    /// For the fences among these.
    pub fence_value: u64,
    /// An event.
    pub event: Option<EventName>,
    /// Flags of the call.
    pub flags: SignalFlags,
    /// The fed queues and contexts that hold it.
    pub fed: Vec<Fed>,
}

impl Software {
    /// Keeps an action until the turn of its packet comes. Answers with the packet's number.
    pub fn put(&mut self, step: SoftwareStep) -> SoftwareNumber {
        let number = self.number();
        let before = self.steps.insert(number, step);
        debug_assert!(before.is_none(), "a software packet has one action: {number:?}");
        number
    }

    /// The turn of a packet has come, or it is dropped. `None`: it has been before.
    pub fn take(&mut self, number: SoftwareNumber) -> Option<SoftwareStep> {
        self.steps.remove(&number)
    }

    /// Whether the turn of a packet is still to come.
    pub fn is_pending(&self, number: SoftwareNumber) -> bool {
        self.steps.contains_key(&number)
    }

    /// A signal waits for so many parts. Answers with the number of the broadcast.
    pub fn begin_broadcast(&mut self, parts: usize, signal: Signal) -> SoftwareNumber {
        let number = self.number();
        self.broadcasts.insert(number, Broadcast { left: parts, lost: false, signal });
        number
    }

    /// A part of a broadcast is over: its context has come to it, or it is lost. Answers with the end of the broadcast, if it was the last.
    pub fn part_is_over(&mut self, number: SoftwareNumber, lost: bool) -> Option<BroadcastEnd> {
        let broadcast = self.broadcasts.get_mut(&number).expect("as long as it has parts");
        debug_assert!(broadcast.left > 0, "a broadcast is there as long as it has parts: {number:?}");
        broadcast.left -= 1;
        broadcast.lost |= lost;
        if broadcast.left > 0 {
            return None;
        }
        let Broadcast { signal, lost, .. } = self.broadcasts.remove(&number).expect("just seen");
        Some(if lost { BroadcastEnd::Dropped(signal) } else { BroadcastEnd::Signal(signal) })
    }

    /// A context waits for objects.
    pub fn waits_for(&mut self, context: PacketContextNumber, wait: LegacyWaitId) {
        let before = self.waits.insert(context, wait);
        debug_assert!(before.is_none(), "a context waits once: {context:?} for {before:?}");
    }

    /// Whether a context waits for objects.
    pub fn is_waiting(&self, context: PacketContextNumber) -> bool {
        self.waits.contains_key(&context)
    }

    /// A context waits for no object any more. Answers with its wait, if it had one.
    pub fn waits_no_more(&mut self, context: PacketContextNumber) -> Option<LegacyWaitId> {
        self.waits.remove(&context)
    }

    /// The flips that contexts have not come to.
    pub fn queued_flips(&mut self) -> impl Iterator<Item = &mut Flip> {
        self.steps.values_mut().filter_map(|step| if let SoftwareStep::Flip(flip) = step { Some(flip) } else { None })
    }

    fn number(&mut self) -> SoftwareNumber {
        self.made += 1;
        SoftwareNumber::from_raw(self.made)
    }
}
