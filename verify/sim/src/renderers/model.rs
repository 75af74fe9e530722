//! The model of a client: its contexts, its surfaces and each of their words.

use kmt_calls::{CreatedFence, CreatedMonitoredFence};
use kmt_link::MappedBytes;
use softgpu_spec::pattern;
use softgpu_spec::private_data::Kind;
use wddm_types::{GpuVa, RawHandle};

/// The content of a surface: the last full write, and how often each word was changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub base: Base,
    pub touched: u64,
}

/// The last full write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Nothing yet.
    Zero,
    /// The pattern of a seed.
    Seed(u64),
    /// A 32-bit pattern.
    Filled(u32),
    /// Its context went while it wrote, or the content was thrown away.
    Unknown,
}

impl Content {
    pub const ZERO: Content = Content { base: Base::Zero, touched: 0 };
    pub const UNKNOWN: Content = Content { base: Base::Unknown, touched: 0 };

    /// Just written.
    pub fn fresh(base: Base) -> Content {
        Content { base, touched: 0 }
    }

    /// The word at an offset.
    pub fn word(self, offset: u64) -> Option<u64> {
        let base = match self.base {
            Base::Zero => 0,
            Base::Seed(seed) => pattern::word(seed, offset),
            Base::Filled(filled) => u64::from(filled) | u64::from(filled) << 32,
            Base::Unknown => return None,
        };
        Some(base.wrapping_add(self.touched))
    }
}

/// A packet context.
#[derive(Debug)]
pub struct Context {
    pub node: u16,
    /// Its buffers lie at addresses.
    pub addressed: bool,
    pub handle: RawHandle,
    pub progress: Option<CreatedMonitoredFence>,
    /// The value of its last submission.
    pub last: u64,
    /// Where its buffers lie, if at addresses.
    pub memory: usize,
}

/// A surface.
#[derive(Debug)]
pub struct Surface {
    pub handle: RawHandle,
    pub kind: Kind,
    pub bytes: u64,
    /// The context that works on it.
    pub home: usize,
    pub content: Content,
    pub va: GpuVa,
    /// Paging-fence value from which it may be used at its address.
    pub ready_at: u64,
    /// How often it is on the device's list.
    pub count: u32,
    /// The submission of its context that uses it last.
    pub last_use: u64,
    pub lock: Option<MappedBytes>,
    /// The report, or command memory: no work is done on it.
    pub pinned: bool,
}

impl Surface {
    /// One that was just created, for a context that works on it.
    pub fn fresh(handle: RawHandle, (kind, bytes, home): (Kind, u64, usize), va: GpuVa) -> Surface {
        Surface {
            handle,
            kind,
            bytes,
            home,
            content: Content::ZERO,
            va,
            ready_at: 0,
            count: 0,
            last_use: 0,
            lock: None,
            pinned: false,
        }
    }
}

/// The paging queue.
#[derive(Clone, Copy, Debug)]
pub struct Paging {
    pub queue: RawHandle,
    pub fence: CreatedFence,
}
