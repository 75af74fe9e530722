//! The paging ring of an adapter without GPU virtual addresses: paging buffers are packets of a system context on the
//! paging node, handed over with [`SubmitFlags::PAGING`] and named by segment and address (memory §1.11, §7.4).
//!
//! They come before everybody else's packets of that node: as long as one waits, no other is handed over, and when the node
//! is empty it is theirs. Nothing they need waits for a packet that is held back by this, because paging work is built
//! only after all that it must wait for. The hardware signals no fence here; the kernel does, when packets complete.

use std::collections::VecDeque;

use ddi::{
    CreateContext, CreateContextFlags, DriverStatus, Host, KmdContext, KmdDevice, Miniport, OsContext, SubmitCommand,
    SubmitFlags,
};
use wddm_types::NodeId;

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::paging::PagingRing;

/// A paging buffer that is built and waits for the node.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    buffer: usize,
    words: usize,
    /// The ring's progress that it completes.
    value: u64,
}

/// Rings of packets.
pub struct PacketRing;

impl PacketRing {
    /// Whether an adapter's ring is one.
    pub fn is_used(miniport: &mut dyn Miniport) -> bool {
        miniport.gpu_va().is_none()
    }

    /// The system context.
    ///
    /// # Errors
    /// What the driver says; `NotSupported` without packets.
    // spec: memory §1.11, memory §7.1
    pub fn create_context(
        miniport: &mut dyn Miniport,
        host: &mut dyn Host,
        device: KmdDevice,
        node: NodeId,
    ) -> Result<KmdContext, DriverStatus> {
        let create = CreateContext {
            device,
            context: OsContext(0),
            node,
            engine_affinity: 1,
            flags: CreateContextFlags::SYSTEM_CONTEXT,
            private_data: &[],
        };
        let packets = miniport.packet_scheduling().ok_or(DriverStatus::NotSupported("packets"))?;
        packets.create_context(host, create).map(|(context, _)| context)
    }
}

impl PagingRing {
    /// The buffer that has just been built waits for its node.
    pub(super) fn make_ready(&mut self, value: u64, words: usize) {
        self.ready.push_back(Ready { buffer: self.next_buffer, words, value });
    }

    /// Whether paging buffers wait for the node.
    pub fn waits_for_node(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next of them.
    fn take_ready(&mut self) -> Option<Ready> {
        VecDeque::pop_front(&mut self.ready)
    }
}

impl Adapter {
    /// Hands the next paging buffer over; answers with the ring's progress that it completes, `None` when there is none.
    ///
    /// # Errors
    /// The driver refused it, which stops the adapter.
    // spec: memory §7.1, memory §7.4
    pub fn hand_over_paging(&mut self, fence_id: u32) -> Result<Option<u64>, DriverStatus> {
        let Some(Ready { buffer, words, value }) = self.ring.take_ready() else { return Ok(None) };
        let (segment, address) = self.ring.buffers[buffer].place;
        let submit = SubmitCommand {
            context: self.ring.context,
            dma_buffer_segment: segment,
            dma_buffer_physical_address: address,
            start_offset: 0,
            // CAST: a paging buffer is far below 4 GiB.
            end_offset: words as u32 * 8,
            private_data: &[],
            fence_id,
            flags: SubmitFlags::PAGING,
        };
        self.miniport.packet_scheduling().expect("checked at adapter start").submit_command(submit)?;
        Ok(Some(value))
    }

    /// A paging packet is done: the ring has got so far.
    pub fn paging_packet_done(&mut self, cx: &mut Cx<'_>, value: u64) {
        let progress = self.ring.queue.as_ref().expect("the ring runs").progress;
        self.signal_fence(cx, progress, value);
        self.reap_paging(cx);
    }

    /// A work of a paging queue is complete, and nobody but the kernel says so.
    pub(super) fn signal_paging_queue(&mut self, cx: &mut Cx<'_>, queue: u64, value: u64) {
        if let Some(fence) = self.paging_queues.get(queue).map(|queue| queue.fence) {
            self.signal_fence(cx, fence, value);
        }
    }
}
