//! The paging ring of an adapter without hardware queues: paging buffers are packets of a system context on the paging node,
//! handed over with [`SubmitFlags::PAGING`].
//!
//! | the driver pages, or writes tables, by address; or it is of the IoMmu model | the context | a buffer is named by |
//! |---|---|---|
//! | no | is patched, in no address space | segment and address (memory §1.11, §7.4) |
//! | yes | has the paging process's addresses | its address there (memory §3.1, §4.7) |
//!
//! They come before all other packets of that node: as long as one waits, no other is handed over. Others that are
//! with the driver are preempted, or are waited for where the driver gives nothing back. A paging buffer that came back itself,
//! because packets of contexts were preempted behind it, goes first, with the id that it had. Nothing paging buffers need waits
//! for a packet that is held back by this, because paging work is built only after all that it must wait for. The hardware
//! signals no fence here; the kernel does, when packets complete.

use ddi::{
    CreateContext, CreateContextFlags, DriverStatus, Host, KmdContext, KmdDevice, OsContext, PagingBufferInfo, Patch,
    SubmitCommand, SubmitCommandVirtual, SubmitFlags,
};
use shared_words::Memory;
use vidsch::{PacketFenceId, Powered};
use wddm_types::NodeId;

use crate::driver::{EntryPoints, Facets};
use crate::paging::PagingRing;
use crate::paging::pool::Buffer;
use crate::start::StartError;

/// A paging buffer that is built and waits for the node.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    buffer: usize,
    words: usize,
    /// The ring's progress that it completes.
    value: u64,
    /// The id that it had when it was preempted.
    fence_id: Option<PacketFenceId>,
}

impl Ready {
    /// The ring's progress that it completes.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// The id that it keeps.
    // spec: memory §7.4, sync §4.3
    pub fn fence_id(&self) -> Option<PacketFenceId> {
        self.fence_id
    }
}

/// Rings of packets.
pub struct PacketRing;

impl PacketRing {
    /// Whether an adapter's ring is one.
    pub fn is_used(facets: Facets) -> bool {
        !facets.hardware_queues
    }

    /// The system context. Its DMA buffers are the paging buffers, of which the driver has said before how many private
    /// bytes they have: here it says the same.
    ///
    /// # Errors
    /// The driver's refusal, `NotSupported` without packets; or the rule that it breaks.
    // spec: memory §1.11, memory §7.1
    pub fn create_context(
        miniport: &mut EntryPoints<'_>,
        host: &mut dyn Host,
        device: KmdDevice,
        node: NodeId,
        paging_buffer: PagingBufferInfo,
        addresses: bool,
    ) -> Result<KmdContext, StartError> {
        let mut flags = CreateContextFlags::SYSTEM_CONTEXT;
        flags.set(CreateContextFlags::VIRTUAL_ADDRESSING, addresses);
        let create =
            CreateContext { device, context: OsContext(0), node, engine_affinity: 1, flags, private_data: &[] };
        let packets = miniport.again().packet_scheduling().ok_or(DriverStatus::NotSupported("packets"))?;
        let (context, info) = packets.create_context(host, create)?;
        if info.dma_buffer_private_data_bytes != paging_buffer.private_data_bytes {
            return Err(StartError::Rule(
                "PagingBufferPrivateDataSize is DmaBufferPrivateDataSize of the system context",
            ));
        }
        Ok(context)
    }
}

impl PagingRing {
    /// The buffer that has just been built waits for its node.
    pub(super) fn make_ready(&mut self, value: u64, words: usize) {
        debug_assert!(
            self.ready.back().is_none_or(|before| before.value < value),
            "buffers wait in the order of what they complete: {value}"
        );
        self.ready.push_back(Ready { buffer: self.next_buffer, words, value, fence_id: None });
    }

    /// Whether paging buffers wait for the node.
    pub fn waits_for_node(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next of them.
    pub fn next_ready(&self) -> Option<&Ready> {
        self.ready.front()
    }

    /// The next of them, which is handed over now.
    pub fn take_ready(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// One came back: it is the next again, and keeps its id.
    // spec: memory §7.4, sync §4.3
    pub fn give_back(&mut self, ready: Ready, fence_id: PacketFenceId) {
        debug_assert!(
            self.ready.front().is_none_or(|behind| ready.value < behind.value),
            "the youngest comes back first: {ready:?}"
        );
        self.ready.push_front(Ready { fence_id: Some(fence_id), ..ready });
    }

    /// Hands a paging buffer over. Without addresses it is patched first, like every DMA buffer, though it names nothing by a list.
    ///
    /// # Errors
    /// The driver refused it: bug check 0x119, parameter 3 for Patch, 2 for SubmitCommand.
    // spec: memory §1.11, memory §7.1, memory §7.4
    pub fn hand_over(
        &mut self,
        driver: EntryPoints<'_>,
        memory: &Memory,
        ready: Ready,
        id: PacketFenceId,
        _powered: Powered,
    ) -> Result<(), String> {
        let Ready { buffer, words, .. } = ready;
        let PacketFenceId(fence_id) = id;
        let mut flags = SubmitFlags::PAGING;
        flags.set(SubmitFlags::RESUBMISSION, ready.fence_id.is_some());
        // CAST: a paging buffer is far below 4 GiB.
        let end_offset = words as u32 * 8;
        let context = self.context;
        let driver = driver.packet_scheduling().expect("checked at adapter start");
        let Buffer { place: (segment, physical), va, address, content, .. } = &mut self.buffers[buffer];
        if self.has_addresses {
            memory.store_words(*address, words as u64, |index| content.words[index as usize]);
            let (dma_buffer, dma_buffer_bytes) = (*va, end_offset);
            let private_data = content.private_data.as_slice();
            let user_data_bytes = 0;
            let submit = SubmitCommandVirtual {
                context,
                dma_buffer,
                dma_buffer_bytes,
                private_data,
                user_data_bytes,
                fence_id,
                flags,
            };
            let submitted = driver.submit_command_virtual(submit);
            return submitted.map_err(|status| format!("SubmitCommandVirtual of a paging buffer failed: {status}"));
        }
        let mut patch = Patch {
            context,
            words: &mut content.words[..words],
            private_data: &mut content.private_data,
            allocation_list: &[],
            patch_locations: &[],
            submission_start: 0,
            submission_length: 0,
            start_offset: 0,
            end_offset,
            fence_id,
            flags,
        };
        driver.patch(&mut patch).map_err(|status| format!("Patch of a paging buffer failed: {status}"))?;
        memory.store_words(*address, words as u64, |index| content.words[index as usize]);
        let submit = SubmitCommand {
            context,
            dma_buffer_segment: *segment,
            dma_buffer_physical_address: *physical,
            start_offset: 0,
            end_offset,
            private_data: &content.private_data,
            fence_id,
            flags,
        };
        driver.submit_command(submit).map_err(|status| format!("SubmitCommand of a paging buffer failed: {status}"))
    }
}
