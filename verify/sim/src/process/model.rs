//! The model of a process: its surfaces and their content, its queues, its fences.

use std::collections::VecDeque;

use kmt_calls::CreatedFence;
use kmt_link::MappedBytes;
use softgpu_spec::private_data::Kind;
use wddm_types::{GpuVa, RawHandle};

use crate::process::bells::Bell;

/// Queues of one process at most.
pub const QUEUES_MAX: usize = 3;

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Opens, makes queues.
    Setup,
    /// Works on its plan.
    Working,
    /// Its device is lost, or it has enough: it gives back.
    Ending,
    /// It is gone.
    Dead,
}

/// The content of a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Never written.
    Zero,
    /// The pattern of a seed.
    Seed(u64),
    /// A 32-bit pattern.
    Filled(u32),
    /// A queue was destroyed while it wrote.
    Unknown,
}

/// The properties asked of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub kind: Kind,
    pub bytes: u64,
    pub visible: bool,
    pub physical: bool,
}

/// An allocation with its addresses.
#[derive(Debug)]
pub struct Surface {
    pub handle: RawHandle,
    pub wish: Wish,
    pub va: Option<Mapping>,
    pub second: Option<Mapping>,
    /// How often it stands on the device's list.
    pub count: u32,
    /// Paging-fence value from which the GPU may use it.
    pub resident_at: u64,
    /// The GPU was told to write it since its count left 0.
    pub written: bool,
    pub content: Content,
    /// The last submission of each queue that uses it.
    pub uses: [u64; QUEUES_MAX],
    pub lock: Option<MappedBytes>,
    /// It is a ring, command memory or the report: no work is done on it.
    pub pinned: bool,
}

impl Surface {
    /// One that was just created: zeros, without an address.
    pub fn fresh(handle: RawHandle, wish: Wish) -> Surface {
        Surface {
            handle,
            wish,
            va: None,
            second: None,
            count: 0,
            resident_at: 0,
            written: false,
            content: Content::Zero,
            uses: [0; QUEUES_MAX],
            lock: None,
            pinned: false,
        }
    }
}

/// An address of a surface.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub va: GpuVa,
    /// Paging-fence value from which it leads somewhere.
    pub at: u64,
    /// Uses up to these submissions.
    pub uses: [u64; QUEUES_MAX],
}

/// A fence as its maker knows it, with the kernel's own number.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub made: CreatedFence,
    pub number: u64,
}

/// The paging queue.
#[derive(Clone, Copy, Debug)]
pub struct PagingQueue {
    pub handle: RawHandle,
    pub fence: Known,
}

/// A hardware queue.
pub struct Queue {
    pub user: bool,
    pub node: u16,
    /// Slot of the ring, or of command memory.
    pub memory: usize,
    pub context: RawHandle,
    pub handle: RawHandle,
    pub progress: Option<Known>,
    /// How far it had got when it was destroyed.
    pub reached: u64,
    pub bell: Option<Bell>,
    pub last_value: u64,
    pub written: u64,
    pub freed: u64,
    /// Unfinished submissions: value, end in the memory.
    pub in_flight: VecDeque<(u64, u64)>,
}

/// The side that signals a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Cpu,
    Queue(usize),
}

/// A native fence.
#[derive(Clone, Copy, Debug)]
pub struct Fence {
    pub made: CreatedFence,
    pub number: u64,
    pub owner: Owner,
    /// The highest promised value.
    pub promised: u64,
    /// The highest value that a queue was told to signal.
    pub signalled: u64,
    /// Submissions of each queue that wait for it or signal it.
    pub uses: [u64; QUEUES_MAX],
    /// If its words are in memory of the GPU: whether its queue has given it its first value.
    pub local: Option<bool>,
}

/// A checksum that the GPU will have written when a queue has got that far.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    pub place: u64,
    pub queue: usize,
    pub value: u64,
    pub expected: u64,
    pub what: (&'static str, usize),
}

impl Content {
    /// The wrapping sum of all its words; `None` where the pattern check says more.
    pub fn checksum(self, bytes: u64) -> Option<u64> {
        match self {
            Content::Zero => Some(0),
            Content::Filled(pattern) => {
                let word = u64::from(pattern) | u64::from(pattern) << 32;
                Some(word.wrapping_mul(bytes / 8))
            }
            Content::Seed(_) | Content::Unknown => None,
        }
    }

    /// The word at an offset.
    pub fn word(self, offset: u64) -> Option<u64> {
        match self {
            Content::Zero => Some(0),
            Content::Filled(pattern) => Some(u64::from(pattern) | u64::from(pattern) << 32),
            Content::Seed(seed) => Some(softgpu_spec::pattern::word(seed, offset)),
            Content::Unknown => None,
        }
    }
}
