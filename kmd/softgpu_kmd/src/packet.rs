//! Packet contexts (memory §5.6): each has a queue of the device with a small ring of the driver's own, at a bus address,
//! into which each packet puts two commands: a branch to its buffer, and a completion with its fence id.
//!
//! A context without GPU addresses runs privileged, because its DMA buffers name bus addresses; nobody but this driver
//! writes those ([`translate`]). A context with GPU addresses runs in its process's space and unprivileged.
//!
//! The kernel keeps packets of one node in order and in flight for one context at a time, so rings of several contexts
//! are as good as one ring for the node, and a fault stops exactly one context.

mod translate;

use std::collections::VecDeque;

use ddi::{
    ContextCaps, ContextInfo, CreateContext, CreateContextFlags, DmaFault, DriverModel, DriverStatus, Host, KmdContext,
    KmdDevice, PacketCaps, PacketScheduling, Patch, Present, Render, RenderStatus, SubmitCommand, SubmitCommandVirtual,
    SubmitFlags, WRITTEN_PRIMARIES_MAX,
};
use shared_words::doorbell::{ASLEEP_OFFSET, DOORBELL_BYTES, VALUE_OFFSET};
use shared_words::{HardwareBarrier, Word, doorbell};
use softgpu_spec::context_data::{self, DmaBuffers};
use softgpu_spec::register::{self, fault, queue_control, queue_flags, queue_state};
use softgpu_spec::{Command, bus};
use wddm_types::{NodeId, PageRun, SegmentSet};

use crate::driver::SoftGpuKmd;
use crate::handles::Handles;

/// Packets in flight on a node.
const PACKETS_IN_FLIGHT: u32 = 4;
/// Bytes of a context's ring: a page has room for far more packets than may be in flight.
const RING_BYTES: u64 = bus::PAGE_BYTES;
/// Bytes of a packet in the ring: a branch and a completion.
const PACKET_BYTES: u64 = 32;
const _: () = assert!(PACKET_BYTES * (PACKETS_IN_FLIGHT as u64 + 1) <= RING_BYTES);
/// Slots of an allocation list.
const SLOTS: u32 = 256;
/// Bytes of a DMA buffer.
const DMA_BUFFER_BYTES: u32 = 16 << 10;
/// Entries of the lists of a context that is patched.
const LIST_ENTRIES: u32 = 256;
/// Packet contexts are told from hardware contexts by this bit of their handle.
const PACKET: u64 = 1 << 63;

/// A packet context.
#[derive(Debug)]
pub(crate) struct PacketContext {
    device: KmdDevice,
    node: NodeId,
    /// The device's number of its queue.
    index: u32,
    /// It runs in a GPU address space.
    addresses: bool,
    /// The kernel's own, for paging.
    system: bool,
    root: Option<u64>,
    ring: PageRun,
    written: u64,
    /// Packets in the ring that are not known to be done: fence id, and where in the ring each ends.
    in_flight: VecDeque<(u32, u64)>,
    enabled: bool,
    /// It has faulted or was stopped: it runs nothing more.
    stopped: bool,
}

/// Packet contexts by handle.
#[derive(Debug, Default)]
pub(crate) struct PacketTable(Handles<PacketContext>);

impl PacketTable {
    /// Whether a context is one of these.
    pub(crate) fn owns(context: KmdContext) -> bool {
        context.0 & PACKET != 0
    }

    /// The drivers' own rings.
    pub(crate) fn rings(&self) -> Vec<PageRun> {
        self.0.iter().map(|(_, context)| context.ring).collect()
    }

    fn get(&self, context: KmdContext) -> Option<&PacketContext> {
        self.0.get(context.0 & !PACKET)
    }

    fn get_mut(&mut self, context: KmdContext) -> Option<&mut PacketContext> {
        self.0.get_mut(context.0 & !PACKET)
    }

    fn at(&mut self, index: u64) -> Option<&mut PacketContext> {
        let handle = self.0.iter().find(|(_, context)| u64::from(context.index) == index)?.0;
        self.0.get_mut(handle)
    }
}

const NO_CONTEXT: DriverStatus = DriverStatus::InvalidParameter("no such context");

impl PacketScheduling for SoftGpuKmd {
    fn packet_caps(&self) -> PacketCaps {
        PacketCaps { max_allocation_list_slot_id: SLOTS, hw_queue_packets: PACKETS_IN_FLIGHT }
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
        let buffers = context_data::decode(create.private_data)
            .ok_or(DriverStatus::InvalidParameter("private data of no context of this device"))?;
        let addresses = create.flags.contains(CreateContextFlags::VIRTUAL_ADDRESSING);
        let translates = self.config.driver_model == DriverModel::Wddm2;
        if addresses && !translates {
            return Err(DriverStatus::InvalidParameter("this generation has no virtual addresses"));
        }
        if self.devices.get(create.device.0).is_none() {
            return Err(DriverStatus::InvalidParameter("no such device"));
        }
        let ring = host.allocate_contiguous(RING_BYTES / bus::PAGE_BYTES).ok_or(DriverStatus::NoMemory("a ring"))?;
        let Some(index) = self.queues.reserve_index() else {
            host.free_contiguous(ring);
            return Err(DriverStatus::NoMemory("every hardware queue is taken"));
        };
        self.devices.get_mut(create.device.0).expect("looked up above").contexts += 1;
        let context = KmdContext(
            PACKET
                | self.packets.0.insert(PacketContext {
                    device: create.device,
                    node: create.node,
                    index,
                    addresses,
                    system: create.flags.contains(CreateContextFlags::SYSTEM_CONTEXT),
                    root: None,
                    ring,
                    written: 0,
                    in_flight: VecDeque::new(),
                    enabled: false,
                    stopped: false,
                }),
        );
        if !addresses && let Err(status) = self.enable_packets(context) {
            PacketScheduling::destroy_context(self, host, context);
            return Err(status);
        }
        Ok((context, if addresses { virtual_info() } else { self.patched_info(buffers) }))
    }

    fn destroy_context(&mut self, host: &mut dyn Host, context: KmdContext) {
        self.stop_context(context);
        let gone = self.packets.0.remove(context.0 & !PACKET, "packet context");
        self.queues.release_index(gone.index);
        host.free_contiguous(gone.ring);
        self.devices.get_mut(gone.device.0).expect("a device outlives its contexts").contexts -= 1;
    }

    fn render(&mut self, context: KmdContext, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        self.patched_context(context)?;
        self.translate(render)
    }

    fn present(&mut self, context: KmdContext, present: &mut Present<'_>) -> Result<(), RenderStatus> {
        self.patched_context(context)?;
        self.translate_present(present)
    }

    // spec: memory §7.3, memory §7.4
    fn patch(&mut self, patch: &mut Patch<'_>) -> Result<(), DriverStatus> {
        for place in patch.patch_locations {
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
        if paging && bytes == 0 {
            // It only marks a place.
            return self.append_packet(submit.context, Command::Nop, submit.fence_id);
        }
        if !paging && translate::words_of(submit.private_data) != Some(submit.end_offset / 8) {
            return Err(DriverStatus::InvalidParameter("the private data belong to another buffer"));
        }
        // spec: memory §7.1: the segments' bases are their bus addresses
        let base = if submit.dma_buffer_segment.is_system() { bus::SYSTEM_BASE } else { 0 };
        let at = base + submit.dma_buffer_physical_address + u64::from(submit.start_offset);
        self.append_packet(submit.context, Command::BranchPhysical { bus: at, words: bytes / 8 }, submit.fence_id)
    }

    fn submit_command_virtual(&mut self, submit: SubmitCommandVirtual) -> Result<(), DriverStatus> {
        if !submit.dma_buffer.0.is_multiple_of(8) || !submit.dma_buffer_bytes.is_multiple_of(8) {
            return Err(DriverStatus::InvalidParameter("a command buffer is made of 64-bit words"));
        }
        let branch = Command::Branch { va: submit.dma_buffer.0, words: submit.dma_buffer_bytes / 8 };
        self.append_packet(submit.context, branch, submit.fence_id)
    }

    fn stop_context(&mut self, context: KmdContext) {
        let index = self.packets.get(context).expect("the kernel stops a context that there is").index;
        self.disable_index(index);
        // What it has raised so far is taken while its number still means it, and not reported any more.
        self.gather();
        let gone = self.packets.get_mut(context).expect("looked up above");
        gone.stopped = true;
        gone.in_flight.clear();
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
        let known = self.packets.get_mut(context).expect("the kernel names a context that there is");
        assert!(known.in_flight.is_empty(), "a root page table moved under a packet");
        if known.root.replace(root) != Some(root) {
            // A device that refuses leaves the context as it was, and the first packet says so.
            let _ = self.enable_packets(context);
        }
    }

    fn enable_packets(&mut self, context: KmdContext) -> Result<(), DriverStatus> {
        let known = self.packets.get(context).ok_or(NO_CONTEXT)?;
        let flags = if known.addresses { 0 } else { queue_flags::PRIVILEGED | queue_flags::UNTRANSLATED };
        let (index, node, root, ring) = (known.index, known.node, known.root.unwrap_or(0), known.ring);
        Word::store(self.port.doorbell_page().word(u64::from(index) * DOORBELL_BYTES + VALUE_OFFSET), 0);
        for (register, value) in [
            (register::QUEUE_SELECT, u64::from(index)),
            (register::QUEUE_ENGINE, u64::from(node.0)),
            (register::QUEUE_ROOT, root),
            (register::QUEUE_RING, bus::SYSTEM_BASE + ring.first * bus::PAGE_BYTES),
            (register::QUEUE_RING_BYTES, RING_BYTES),
            (register::QUEUE_FLAGS, flags | queue_flags::RING_PHYSICAL),
            (register::QUEUE_CONTROL, queue_control::ENABLE),
        ] {
            self.port.write_register(register, value);
        }
        let known = self.packets.get_mut(context).expect("looked up above");
        known.written = 0;
        known.enabled = self.port.read_register(register::QUEUE_CONTROL) != queue_state::DISABLED;
        if known.enabled { Ok(()) } else { Err(DriverStatus::Unsuccessful("the device did not take the queue")) }
    }

    fn append_packet(&mut self, context: KmdContext, branch: Command<'_>, fence_id: u32) -> Result<(), DriverStatus> {
        let known = self.packets.get_mut(context).ok_or(NO_CONTEXT)?;
        if !known.enabled || known.stopped {
            return Err(DriverStatus::Unsuccessful("the context runs nothing"));
        }
        if known.in_flight.len() >= PACKETS_IN_FLIGHT as usize {
            return Err(DriverStatus::Unsuccessful("the kernel keeps to HwQueuePacketCap"));
        }
        let mut words = Vec::with_capacity((PACKET_BYTES / 8) as usize);
        branch.encode(&mut words);
        Command::Complete { value: u64::from(fence_id) }.encode(&mut words);
        let base = known.ring.first * bus::PAGE_BYTES;
        for (offset, word) in (known.written..).step_by(8).zip(&words) {
            Word::store(self.system.word(base + offset % RING_BYTES), *word);
        }
        known.written += words.len() as u64 * 8;
        known.in_flight.push_back((fence_id, known.written));
        let (index, end) = (known.index, known.written);
        let page = self.port.doorbell_page();
        let at = u64::from(index) * DOORBELL_BYTES;
        // spec: sync §3.17
        if doorbell::ring::<HardwareBarrier>(page.word(at + VALUE_OFFSET), page.word(at + ASLEEP_OFFSET), end) {
            self.port.doorbell_rung(index);
        }
        Ok(())
    }

    /// The device has told that a packet is done, and with it those before it in the ring.
    pub(crate) fn gather_completed(&mut self, index: u64, value: u64) {
        let Some(known) = self.packets.at(index) else { return };
        let Some(at) = known.in_flight.iter().position(|(fence, _)| u64::from(*fence) == value) else { return };
        let node = known.node;
        for (fence, _) in known.in_flight.drain(..=at) {
            self.gathered.completed(node, fence);
        }
    }

    /// A queue of a packet context has faulted: the packet at its head is the one. False when it is no such queue.
    // spec: memory §5.8
    pub(crate) fn gather_packet_fault(&mut self, index: u64, virtual_address: u64, cause: u64) -> bool {
        let Some(known) = self.packets.at(index) else { return false };
        if let Some((fence_id, _)) = known.in_flight.front().copied().filter(|_| !known.stopped) {
            known.stopped = true;
            let cause = cause & 0xff;
            self.gathered.dma_fault(DmaFault {
                node: known.node,
                fence_id,
                virtual_address,
                write: cause == fault::READ_ONLY,
                invalid_instruction: matches!(cause, fault::BAD_COMMAND | fault::PRIVILEGE),
            });
        }
        true
    }

    /// Records were lost: the rings themselves tell how far they are.
    pub(crate) fn recheck_packets(&mut self) {
        // The write takes hold between two commands, so that every completion that was raised has moved its read pointer.
        self.port.write_register(register::ENGINE_ENABLE, 1);
        let rings: Vec<(u64, u32)> = self.packets.0.iter().map(|(handle, context)| (handle, context.index)).collect();
        for (handle, index) in rings {
            self.port.write_register(register::QUEUE_SELECT, u64::from(index));
            let read = self.port.read_register(register::QUEUE_READ_POINTER);
            let faulted = self.port.read_register(register::QUEUE_CONTROL) == queue_state::FAULTED;
            let known = self.packets.0.get_mut(handle).expect("just listed");
            let done = known.in_flight.iter().take_while(|(_, end)| *end <= read).count();
            let node = known.node;
            for (fence, _) in known.in_flight.drain(..done) {
                self.gathered.completed(node, fence);
            }
            if faulted {
                self.gather_packet_fault(u64::from(index), 0, 0);
            }
        }
    }
}

impl SoftGpuKmd {
    // spec: memory §5.6, memory §7.1
    fn patched_info(&self, buffers: DmaBuffers) -> ContextInfo {
        let geometry = self.geometry.expect("contexts exist while the device runs");
        let segment = match buffers {
            DmaBuffers::Contiguous => None,
            // Without an aperture segment only contiguous memory is left.
            DmaBuffers::Aperture => geometry.aperture_segment(),
            DmaBuffers::Local => geometry.first_memory_segment(),
        };
        let set = segment.map_or(SegmentSet::NONE, SegmentSet::only);
        ContextInfo {
            dma_buffer_bytes: DMA_BUFFER_BYTES,
            dma_buffer_segment_set: set,
            dma_buffer_private_data_bytes: translate::PRIVATE_DATA_BYTES,
            allocation_list_entries: LIST_ENTRIES,
            patch_location_list_entries: LIST_ENTRIES,
            caps: ContextCaps::empty(),
            paging_companion_node: NodeId(softgpu_spec::engine::COPY as u16),
        }
    }
}

// spec: memory §5.6
fn virtual_info() -> ContextInfo {
    ContextInfo {
        // CAST: 16.
        allocation_list_entries: WRITTEN_PRIMARIES_MAX as u32,
        caps: ContextCaps::NO_PATCHING_REQUIRED,
        paging_companion_node: NodeId(softgpu_spec::engine::COPY as u16),
        ..ContextInfo::default()
    }
}

#[cfg(test)]
mod tests;
