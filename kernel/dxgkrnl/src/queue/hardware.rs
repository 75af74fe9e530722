//! Hardware queues and their contexts.

use std::collections::BTreeSet;

use ddi::{KmdContext, KmdQueue};
use wddm_types::NodeId;

use super::Feed;
use crate::context_allocation::ContextAllocation;
use crate::fence_log::Logs;
use crate::number::{ContextNumber, DeviceNumber, DoorbellNumber, FenceNumber, QueueNumber};

/// A hardware context.
#[derive(Debug)]
pub struct Context {
    pub device: DeviceNumber,
    pub kmd: KmdContext,
    pub node: NodeId,
    pub queues: BTreeSet<QueueNumber>,
    /// The driver's allocations for it.
    pub allocations: Vec<ContextAllocation>,
}

/// A hardware queue.
#[derive(Debug)]
pub struct Queue {
    pub context: ContextNumber,
    pub device: DeviceNumber,
    pub kmd: KmdQueue,
    pub vidsch: vidsch::QueueId,
    /// Its progress fence.
    pub progress: FenceNumber,
    /// User-mode submission.
    pub user_mode: bool,
    pub doorbell: Option<DoorbellNumber>,
    /// Its logs, if its process feeds it.
    pub logs: Logs,
    /// The work that the kernel has fed it.
    pub feed: Feed,
    /// DisableGpuTimeout: its work may take as long as it takes.
    pub no_timeout: bool,
    /// NoBroadcastSignal: signals of several queues do not wait for it.
    pub no_broadcast_signal: bool,
    /// The hardware's count of its running time at the last charge; `None`: it does not count.
    pub counted_ns: Option<u64>,
}
