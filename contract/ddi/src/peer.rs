//! Doorbells from GPU to GPU, between kernel and driver (sync §3.18): the fact sheet gives the goals and a shape, WDDM has no names for
//! it yet. With them the signal of a cross-adapter fence reaches the queues of other GPUs without a processor between, and MonitoredValue
//! follows the CPU waiters again, instead of being 0 for life.

use crate::adapter::DriverStatus;
use crate::fence::KmdGlobalFence;

/// The driver's capabilities of doorbells from GPU to GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerDoorbellCaps {
    /// A fence that is created here has one linear storage for all adapters: each reaches both words.
    pub linear_storage: bool,
}

/// Doorbells from GPU to GPU.
pub trait PeerDoorbells {
    /// The driver's capabilities.
    fn peer_doorbell_caps(&self) -> PeerDoorbellCaps;

    /// The adapter's number among its peers, and the page of system memory where they write what they have signalled; once, behind
    /// the start. The kernel has cleared it.
    fn set_inbox(&mut self, own: u32, inbox: u64);

    /// The page where this adapter writes what it has signalled for another.
    fn connect_peer(&mut self, peer: u32, inbox: u64);

    /// Has the device tell these peers of the fence's signals, a bit for each number; none: it tells no peer any more. `id` is the
    /// fence's for all adapters. On return the device tells the signals that follow, and CurrentValue holds what was signalled before.
    ///
    /// # Errors
    /// Any status stops the adapter.
    fn share_with_peers(&mut self, fence: KmdGlobalFence, id: u64, peers: u64) -> Result<(), DriverStatus>;
}
