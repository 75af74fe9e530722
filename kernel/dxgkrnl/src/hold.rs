//! What the kernel holds, and what ends each hold: the rule "holds" of [`crate::invariant`].
//!
//! The kernel holds operations on a value or on a step: a work of the paging ring behind a wait, a window until the hardware is past it, a
//! device off the hardware until its content has moved. If nothing that is queued brings the value or the step, the hold never ends. The
//! calls of every process that come to stand behind it then hang, and nothing says so. So each part names the end of each thing that it
//! holds ([`Hold`]), and the adapter looks whether that end is queued (`adapter::holds`).
//!
//! An example: the windows that showed a chunk of an eviction notice are busy until the ring's progress comes to 7. The hardware was given
//! buffers up to 6. Then the buffer under construction must be one that the ring gives to the hardware, or no chunk gets a window any more.
//!
//! An end that a client alone brings is an end: a fence wait is legitimate. So is an answer of the outside or of the device, which timeouts
//! watch. This module has the words; it knows no part.

use wddm_types::NodeId;

use crate::due::Waiter;
use crate::leaving::Leaving;
use crate::number::DeviceNumber;

/// How long works and calls of other processes wait for a use that the hardware does not run, in ns. Then the device of the use gives way, or
/// the call does without the memory. The kernel asks the hardware when this time is over for the first time, and again after as long.
// spec: memory §10.1
pub const USE_MAX_NS: u64 = 10_000_000;

/// How long the work at the ring's head waits for uses that the hardware runs while another process waits for the ring, in ns. Then the devices
/// of the uses give way: work that the hardware can preempt may run without end.
// spec: memory §10.1
pub const RUN_MAX_NS: u64 = 100_000_000;

/// How long a creation waits for a destruction of another process while the hardware runs the work of its uses, in ns: as long as the default of
/// TdrDelay. Then the creation does without that memory. Its caller may lose more by the refusal than a device that gives way.
// spec: memory §6.2
pub const DESTRUCTION_MAX_NS: u64 = 2_000_000_000;

/// A thing that the kernel holds.
#[derive(Debug)]
pub struct Hold {
    /// What is held, for a reader of a broken rule.
    pub what: &'static str,
    /// Which of its kind, for that reader.
    pub which: u64,
    /// What ends the hold.
    pub until: Until,
}

/// The end of a hold.
#[derive(Debug, PartialEq, Eq)]
pub enum Until {
    /// The ring's progress comes to this value. A buffer that completes it was given to the hardware, or waits for its node.
    Progress(u64),
    /// The buffer under construction is over, which goes to the hardware with the work at the ring's head at the latest.
    Buffer,
    /// The ring is past the work of this number, which is queued.
    Work(u64),
    /// The ring is past the memory manager's work of this serial, which is queued.
    Serial(u64),
    /// A wait for fences ends. It is registered.
    Wait(Waiter),
    /// The outside carries out a change of a mapping that it was told.
    Answer,
    /// A node gives back what it was handed, or is reset.
    Node(NodeId),
    /// A reset that is being prepared.
    Reset,
    /// A device has its turn, for which it stands in line.
    Turn(DeviceNumber),
    /// A suspended context leaves the hardware.
    Leaves(Leaving),
    /// A display shows another primary.
    Display,
    /// A client signals or releases an object without a word in memory.
    Object,
    /// The part that holds finds nothing that ends it.
    Nothing,
}

impl Hold {
    /// A hold of this kind. `which` tells holds of one kind apart, for a reader.
    pub fn new(what: &'static str, which: u64, until: Until) -> Hold {
        Hold { what, which, until }
    }
}
