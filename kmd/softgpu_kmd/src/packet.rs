//! Packet contexts (memory §5.6). A packet is two commands in a ring of the driver's own: a branch to its buffer, and a
//! completion with its fence id ([`ring`]).
//!
//! Contexts without GPU addresses share one ring for each node, which runs privileged, because DMA buffers name bus addresses; only this
//! driver writes those ([`translate`], [`blt`]). A context with GPU addresses has a ring that runs in its process's space and unprivileged; the
//! ring of the system context runs in the paging process and privileged. Packets of a node run in the order of their submission.

mod blt;
mod preemption;
mod reset;
mod ring;
pub(crate) mod translate;

use ddi::{
    AllocationListEntry, ContextCaps, ContextInfo, CreateContext, CreateContextFlags, DeviceInfo, DmaFault,
    DriverStatus, Host, KmdContext, KmdDevice, Notify, PacketCaps, PacketScheduling, Patch, PreemptCommand, Present,
    Render, RenderStatus, ResetEngine, SubmitCommand, SubmitCommandVirtual, SubmitFlags, WRITTEN_PRIMARIES_MAX,
};
use softgpu_spec::bus;
use softgpu_spec::context_data::{self, DmaBuffers};
use softgpu_spec::register::fault;
use softgpu_spec::submission_data;
use wddm_types::{NodeId, PageRun, SegmentSet};

use crate::driver::SoftGpuKmd;
use crate::handles::Handles;
use crate::queues::save_area;
use preemption::{Interrupted, Node};
use ring::{Body, Packet, Ring, Space};

/// Packets in flight on a node.
const PACKETS_IN_FLIGHT: u32 = 4;
/// Slots of an allocation list.
const SLOTS: u32 = 256;
/// Bytes of a DMA buffer.
const DMA_BUFFER_BYTES: u32 = 16 << 10;
/// Bytes of a DMA buffer of a context with addresses: it holds a present.
const PRESENT_BUFFER_BYTES: u32 = 4 << 10;
/// Entries of the lists of a context that is patched.
const LIST_ENTRIES: u32 = 256;
/// This bit of a handle marks packet contexts; hardware contexts do not have it.
const PACKET: u64 = 1 << 63;

/// A packet context.
#[derive(Debug)]
pub(crate) struct PacketContext {
    device: KmdDevice,
    /// It runs in a GPU address space.
    addresses: bool,
    /// The kernel's own, for paging.
    system: bool,
    /// Its ring: its own, or its node's.
    ring: u64,
    /// It has faulted or was stopped: it runs nothing more.
    stopped: bool,
    /// A packet of it that was preempted when a part of it was done: it comes next.
    interrupted: Option<Interrupted>,
}

/// Packet contexts and rings by handle.
#[derive(Debug, Default)]
pub(crate) struct PacketTable {
    contexts: Handles<PacketContext>,
    rings: Handles<Ring>,
    nodes: [Node; softgpu_spec::engine::COUNT as usize],
}

impl PacketTable {
    /// Whether a handle is one of a packet context.
    pub(crate) fn owns(context: KmdContext) -> bool {
        context.0 & PACKET != 0
    }

    /// The memory of the rings.
    pub(crate) fn rings(&self) -> Vec<PageRun> {
        self.rings.iter().map(|(_, ring)| ring.run).collect()
    }

    /// The device was reset: no context runs anything any more, and no ring has anything.
    pub(crate) fn stop_all(&mut self) {
        for (_, context) in self.contexts.iter_mut() {
            (context.stopped, context.interrupted) = (true, None);
        }
        for (_, ring) in self.rings.iter_mut() {
            ring.in_flight.clear();
            ring.enabled = false;
        }
        for node in &mut self.nodes {
            node.waiting.clear();
            node.preempting = None;
        }
    }

    fn get(&self, context: KmdContext) -> Option<&PacketContext> {
        self.contexts.get(context.0 & !PACKET)
    }

    fn get_mut(&mut self, context: KmdContext) -> Option<&mut PacketContext> {
        self.contexts.get_mut(context.0 & !PACKET)
    }

    /// The node of the ring whose queue has this number.
    pub(crate) fn node_of(&self, index: u64) -> Option<NodeId> {
        self.rings.iter().find(|(_, ring)| u64::from(ring.index) == index).map(|(_, ring)| ring.node)
    }

    fn ring_mut(&mut self, ring: u64) -> &mut Ring {
        self.rings.get_mut(ring).expect("a ring outlives its contexts")
    }
}

const NO_CONTEXT: DriverStatus = DriverStatus::InvalidParameter("no such context");

impl PacketScheduling for SoftGpuKmd {
    fn packet_caps(&self) -> PacketCaps {
        PacketCaps {
            max_allocation_list_slot_id: SLOTS,
            hw_queue_packets: PACKETS_IN_FLIGHT,
            preemption: self.config.preemption.then_some(preemption::GRANULARITY),
        }
    }

    // spec: memory §7.1
    fn create_context(
        &mut self,
        host: &mut dyn Host,
        create: CreateContext<'_>,
    ) -> Result<(KmdContext, ContextInfo), DriverStatus> {
        if u32::from(create.node.0) >= softgpu_spec::engine::COUNT || create.engine_affinity != 1 {
            return Err(DriverStatus::InvalidParameter("no such node or engine"));
        }
        let addresses = create.flags.contains(CreateContextFlags::VIRTUAL_ADDRESSING);
        // Only the private data of contexts whose DMA buffers this driver writes ask for a place of them. Without private data the
        // buffers are as CreateDevice returned them.
        let buffers = match addresses || create.private_data.is_empty() {
            true => None,
            false => Some(
                context_data::decode(create.private_data)
                    .ok_or(DriverStatus::InvalidParameter("private data of no context of this device"))?,
            ),
        };
        // In the IoMmu model all engines use the CPU's addresses.
        if addresses && !self.config.has_addresses(create.node) && !self.config.uses_cpu_addresses() {
            return Err(DriverStatus::InvalidParameter(
                "an engine without virtual addresses: its contexts are patched",
            ));
        }
        if self.devices.get(create.device.0).is_none() {
            return Err(DriverStatus::InvalidParameter("no such device"));
        }
        let system = create.flags.contains(CreateContextFlags::SYSTEM_CONTEXT);
        if addresses && !system && self.config.context_save_bytes != 0 {
            let segment = self.geometry.as_ref().expect("the device is started").system();
            save_area(host, segment, self.config.context_save_bytes, create.context.0)?;
        }
        let shared = self.node_ring(host, create.node)?;
        let space = if system { Space::Paging } else { Space::Process };
        let ring = if addresses { self.create_ring(host, create.node, space)? } else { shared };
        self.devices.get_mut(create.device.0).expect("looked up above").contexts += 1;
        let context =
            PacketContext { device: create.device, addresses, system, ring, stopped: false, interrupted: None };
        let context = KmdContext(PACKET | self.packets.contexts.insert(context));
        let process = self.process_root(create.device).filter(|_| addresses);
        if let Some(root) = process {
            self.set_packet_root(context, root);
        }
        let mut info = if addresses { virtual_info(process.is_some()) } else { self.patched_info(buffers) };
        if system {
            // spec: memory §1.11: as much as its paging buffers have
            info.dma_buffer_private_data_bytes = translate::PRIVATE_DATA_BYTES;
        }
        Ok((context, info))
    }

    fn destroy_context(&mut self, host: &mut dyn Host, context: KmdContext) {
        self.stop_context(context);
        let gone = self.packets.contexts.remove(context.0 & !PACKET, "packet context");
        if gone.addresses {
            self.destroy_ring(host, gone.ring);
        }
        self.devices.get_mut(gone.device.0).expect("a device outlives its contexts").contexts -= 1;
    }

    fn render(&mut self, context: KmdContext, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        self.patched_context(context)?;
        self.translate(render)
    }

    fn present(&mut self, context: KmdContext, present: &mut Present<'_>) -> Result<(), RenderStatus> {
        match self.packets.get(context) {
            Some(known) if known.addresses && !known.system => self.present_at_addresses(present),
            Some(known) if !known.addresses => self.translate_present(present),
            _ => Err(RenderStatus::InvalidParameter("a context that presents nothing")),
        }
    }

    fn present_flip(&mut self, context: KmdContext, list: &[AllocationListEntry]) -> Result<(), RenderStatus> {
        self.patched_context(context)?;
        self.check_flip(list)
    }

    // spec: memory §7.3, memory §7.4
    fn patch(&mut self, patch: &mut Patch<'_>) -> Result<(), DriverStatus> {
        let first = patch.submission_start as usize;
        let places = patch.patch_locations.get(first..first + patch.submission_length as usize);
        let places = places.ok_or(DriverStatus::InvalidParameter("patch locations that there are not"))?;
        for place in places {
            let entry = patch.allocation_list[place.allocation_index as usize];
            if entry.allocation.is_none() {
                continue;
            }
            if entry.segment.is_system() {
                return Err(DriverStatus::InvalidParameter("an address to patch is not known"));
            }
            translate::write_address(patch.words, place, &entry);
        }
        Ok(())
    }

    fn submit_command(&mut self, submit: SubmitCommand<'_>) -> Result<(), DriverStatus> {
        let bytes = submit.end_offset.checked_sub(submit.start_offset).filter(|bytes| bytes.is_multiple_of(8));
        let bytes = bytes.ok_or(DriverStatus::InvalidParameter("a range that is none"))?;
        let paging = submit.flags.contains(SubmitFlags::PAGING);
        if paging != self.packets.get(submit.context).is_some_and(|known| known.system) {
            return Err(DriverStatus::InvalidParameter("paging buffers run in the system context"));
        }
        // A portion may end before the buffer does. A paging buffer runs whole; the driver built none if it has no words.
        let noted = translate::words_of(submit.private_data);
        let own = |words: u32| if paging { submit.end_offset / 8 == words } else { submit.end_offset / 8 <= words };
        let unbuilt = paging && bytes == 0;
        if !unbuilt && !noted.is_some_and(own) {
            return Err(DriverStatus::InvalidParameter("the private data belong to another buffer"));
        }
        // spec: memory §7.1: the segments' bases are their bus addresses
        let base = if submit.dma_buffer_segment.is_system() { bus::SYSTEM_BASE } else { 0 };
        let at = base + submit.dma_buffer_physical_address + u64::from(submit.start_offset);
        // A buffer without words only marks a place in the order.
        let body = Body { at, words: bytes / 8, done: 0, physical: true };
        self.append_packet(submit.context, body, submit.fence_id, submit.flags)
    }

    fn submit_command_virtual(&mut self, submit: SubmitCommandVirtual<'_>) -> Result<(), DriverStatus> {
        if !submit.dma_buffer.0.is_multiple_of(8) || !submit.dma_buffer_bytes.is_multiple_of(8) {
            return Err(DriverStatus::InvalidParameter("a command buffer is made of 64-bit words"));
        }
        let paging = submit.flags.contains(SubmitFlags::PAGING);
        if !self.packets.get(submit.context).is_some_and(|known| known.addresses && known.system == paging) {
            return Err(DriverStatus::InvalidParameter("paging buffers run in the system context"));
        }
        let presents = submit.flags.contains(SubmitFlags::PRESENT);
        // The driver ignores a user's private data: the commands are complete without them (`softgpu_spec::submission_data`).
        if presents && translate::words_of(submit.private_data) != Some(submit.dma_buffer_bytes / 8) {
            return Err(DriverStatus::InvalidParameter("the private data belong to another buffer"));
        }
        let body = Body { at: submit.dma_buffer.0, words: submit.dma_buffer_bytes / 8, done: 0, physical: false };
        self.append_packet(submit.context, body, submit.fence_id, submit.flags)
    }

    fn preempt_command(&mut self, preempt: PreemptCommand) -> Result<(), DriverStatus> {
        self.preempt_node(preempt)
    }

    fn reset_engine(&mut self, reset: ResetEngine, notify: &mut dyn Notify) -> Result<u32, DriverStatus> {
        self.reset_node(reset.node, notify)
    }

    fn stop_context(&mut self, context: KmdContext) {
        let known = self.packets.get_mut(context).expect("the kernel stops a context that there is");
        (known.stopped, known.interrupted) = (true, None);
        let ring = known.ring;
        let node = usize::from(self.packets.ring_mut(ring).node.0);
        self.packets.nodes[node].waiting.retain(|(_, packet)| packet.context != context);
        if self.awaits_ring(ring, context) {
            self.take_packets_out(ring, context);
        }
        self.advance_node(node);
    }
}

impl SoftGpuKmd {
    fn patched_context(&self, context: KmdContext) -> Result<(), RenderStatus> {
        match self.packets.get(context) {
            Some(known) if !known.addresses => Ok(()),
            _ => Err(RenderStatus::InvalidParameter("a context that is not patched")),
        }
    }

    /// The root of a packet context with addresses. It moves while nothing of the context is in flight.
    pub(crate) fn set_packet_root(&mut self, context: KmdContext, root: u64) {
        let ring = self.packets.get(context).expect("the kernel names a context that there is").ring;
        let known = self.packets.ring_mut(ring);
        assert!(known.in_flight.is_empty(), "a root page table moved under a packet");
        if known.root.replace(root) != Some(root) {
            // If the device refuses, the context stays as it was, and its next packet returns the error.
            let _ = self.enable_ring(ring);
        }
    }

    /// A packet goes to the end of its context's ring. One that was interrupted goes on where it was.
    fn append_packet(
        &mut self,
        context: KmdContext,
        mut body: Body,
        fence_id: u32,
        flags: SubmitFlags,
    ) -> Result<(), DriverStatus> {
        let known = self.packets.get_mut(context).ok_or(NO_CONTEXT)?;
        if known.stopped {
            return Err(DriverStatus::Unsuccessful("the context runs nothing"));
        }
        if let Some(interrupted) = known.interrupted {
            // spec: memory §7.4
            if !flags.contains(SubmitFlags::RESUBMISSION) || interrupted.at != body.at {
                return Err(DriverStatus::InvalidParameter("the packet that was interrupted comes first"));
            }
            known.interrupted = None;
            body.done = interrupted.done.min(body.words);
        }
        let ring = known.ring;
        self.append_to_ring(ring, Packet { fence_id, context, body, start: 0, end: 0 })
    }

    /// A queue of a ring has faulted: the packet at its head is the one. False when it is no such queue.
    // spec: memory §5.8
    pub(crate) fn gather_packet_fault(&mut self, index: u64, virtual_address: u64, cause: u64) -> bool {
        let Some((_, ring)) = self.packets.ring_at(index) else { return false };
        let (node, head) = (ring.node, ring.in_flight.front().map(|packet| (packet.fence_id, packet.context)));
        let Some((fence_id, context)) = head else { return true };
        let known = self.packets.get_mut(context).expect("a packet's context is there while it is in the ring");
        if !known.stopped {
            known.stopped = true;
            let cause = cause & 0xff;
            self.gathered.dma_fault(DmaFault {
                node,
                fence_id,
                virtual_address,
                write: cause == fault::READ_ONLY,
                invalid_instruction: matches!(cause, fault::BAD_COMMAND | fault::PRIVILEGE),
            });
        }
        true
    }
}

impl SoftGpuKmd {
    // spec: memory §5.6, memory §7.1
    fn patched_info(&self, buffers: Option<DmaBuffers>) -> ContextInfo {
        let wished = buffers.map_or(DeviceInfo::default(), |buffers| self.buffers_in(buffers));
        ContextInfo {
            dma_buffer_bytes: wished.dma_buffer_bytes,
            dma_buffer_segment_set: wished.dma_buffer_segment_set,
            dma_buffer_private_data_bytes: wished.dma_buffer_private_data_bytes,
            allocation_list_entries: wished.allocation_list_entries,
            patch_location_list_entries: wished.patch_location_list_entries,
            caps: ContextCaps::empty(),
            paging_companion_node: NodeId(softgpu_spec::engine::COPY as u16),
        }
    }

    /// Sizes of DMA buffers and lists of a device's patched contexts that ask for no others.
    // spec: memory §7.1
    pub(crate) fn device_info(&self) -> DeviceInfo {
        self.buffers_in(self.config.dma_buffers)
    }

    fn buffers_in(&self, buffers: DmaBuffers) -> DeviceInfo {
        let geometry = self.geometry.expect("devices exist while the hardware runs");
        let set = match buffers {
            DmaBuffers::Contiguous => SegmentSet::NONE,
            // Without an aperture segment only contiguous memory is left.
            DmaBuffers::Aperture => geometry.aperture_segments(),
            DmaBuffers::Local => geometry.first_memory_segment().map_or(SegmentSet::NONE, SegmentSet::only),
        };
        DeviceInfo {
            dma_buffer_bytes: DMA_BUFFER_BYTES,
            dma_buffer_segment_set: set,
            dma_buffer_private_data_bytes: submission_data::PATCHED_BYTES_MAX + translate::PRIVATE_DATA_BYTES,
            allocation_list_entries: LIST_ENTRIES,
            patch_location_list_entries: LIST_ENTRIES,
        }
    }
}

// spec: memory §5.6
fn virtual_info(io_mmu: bool) -> ContextInfo {
    // spec: memory §4.1, memory §7.1
    let model = if io_mmu { ContextCaps::USE_IO_MMU } else { ContextCaps::empty() };
    ContextInfo {
        dma_buffer_bytes: PRESENT_BUFFER_BYTES,
        dma_buffer_private_data_bytes: submission_data::BYTES_MAX + translate::PRIVATE_DATA_BYTES,
        // CAST: 16.
        allocation_list_entries: WRITTEN_PRIMARIES_MAX as u32,
        caps: ContextCaps::NO_PATCHING_REQUIRED | model,
        paging_companion_node: NodeId(softgpu_spec::engine::COPY as u16),
        ..ContextInfo::default()
    }
}

#[cfg(test)]
mod tests;
