//! Packet contexts: created, stopped, destroyed (memory §7.1).

use ddi::{ContextInfo, CreateContext, CreateContextFlags, KmdContext, OsContext};
use events::Event;
use kmt_calls::{ContextFlags, Refusal};
use vidsch::QueueKind;
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::context_allocation::ContextAllocation;
use crate::driver::Creating;
use crate::effect::Cx;
use crate::number::{DeviceNumber, FenceNumber, PacketContextNumber, UpdateContext};
use crate::owners::DeviceFacts;
use crate::packet::{ContextFacts, check_context_info, info_of_context};
use crate::refusal::{from_driver, invalid, not_supported};
use crate::scheduling::{AnyContext, Leaving};
use crate::store::ObjectNumber;
use crate::sync::WaitsOf;

/// The bit of the only engine of a node, as drivers are told it.
// spec: memory §7.1: 1 << engine
const ENGINE_0: u32 = 1;

impl Adapter {
    /// `D3DKMTCreateContext`, and `D3DKMTCreateContextVirtual` with `addresses`.
    // spec: memory §5.6, memory §7.1
    #[allow(clippy::too_many_arguments)] // the members of D3DKMT_CREATECONTEXT
    pub fn create_packet_context(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        node: NodeId,
        engine_affinity: u32,
        flags: ContextFlags,
        addresses: bool,
        private_data: &[u8],
    ) -> Result<PacketContextNumber, Refusal> {
        self.check_context(node, engine_affinity, flags, addresses)?;
        let number = self.packets.next_number();
        let DeviceFacts { process, kmd: kmd_device, vidmm, info: of_device, .. } =
            self.owners.facts_of(device).expect("a resolved device is here");
        let create = CreateContext {
            device: kmd_device,
            context: OsContext(number.raw()),
            node,
            engine_affinity: ENGINE_0,
            flags: if addresses { CreateContextFlags::VIRTUAL_ADDRESSING } else { CreateContextFlags::empty() },
            private_data,
        };
        let (allocations, kmd, info) = self.create_context_in_driver(cx, (vidmm, process), create)?;
        let info = info_of_context(of_device, info, addresses);
        let made =
            self.check_context_info(&info, addresses).and_then(|()| self.create_fence(cx, None, ProcessId::SYSTEM, 0));
        let progress = match made {
            Ok(progress) => progress,
            Err(refusal) => {
                self.take_back_context(cx, process, kmd, allocations);
                return Err(refusal);
            }
        };
        let in_portions = !addresses && self.lists_are_residency();
        let portions = match in_portions.then(|| self.create_fence(cx, None, ProcessId::SYSTEM, 0)).transpose() {
            Ok(portions) => portions,
            Err(refusal) => {
                self.take_back_context(cx, process, kmd, allocations);
                self.defer_fence(progress);
                return Err(refusal);
            }
        };
        if addresses {
            self.tell_root(cx, kmd, process);
        }
        let vidsch = self.open_scheduled(process, node, QueueKind::Kernel, 0);
        let facts = ContextFacts {
            device,
            kmd,
            node,
            info,
            addresses,
            vidsch,
            no_timeout: flags.contains(ContextFlags::DISABLE_GPU_TIMEOUT),
            null_rendering: flags.contains(ContextFlags::NULL_RENDERING),
            progress,
            portions,
        };
        let allocations = self.keep_context_allocations(device, allocations);
        assert_eq!(self.packets.add(facts, allocations), number);
        self.enter_ranks(AnyContext::Packets(number), process);
        self.vidsch.nodes.enter(number, node, vidsch);
        self.emit_packet_context(cx, number);
        Ok(number)
    }

    fn check_context_info(&self, info: &ContextInfo, addresses: bool) -> Result<(), Refusal> {
        let by_cpu_addresses = addresses && self.uses_cpu_addresses();
        let has_node = |node| self.driver.has_node(node);
        check_context_info(info, addresses, by_cpu_addresses, has_node, self.vidmm.segments())
    }

    fn emit_packet_context(&self, cx: &mut Cx<'_>, number: PacketContextNumber) {
        let ContextFacts { device, node, addresses, .. } = self.packets[number];
        let (device, node) = (device.raw(), node.0);
        cx.emit(self.index, Event::PacketContextCreated { context: number.raw(), device, node, patched: !addresses });
    }

    /// Asks the driver for a context of a device. What it made for a context that it then refuses is destroyed.
    // spec: memory §7.5
    fn create_context_in_driver(
        &mut self,
        cx: &mut Cx<'_>,
        (device, process): (vidmm::DeviceId, ProcessId),
        create: CreateContext<'_>,
    ) -> Result<(Vec<ContextAllocation>, KmdContext, ContextInfo), Refusal> {
        let (mut asked, driver) = self.context_host(device, process);
        let (driver, mut host) = driver.creating(cx, Creating::Context(&mut asked));
        let packets = driver.packet_scheduling().expect("just checked");
        let created = packets.create_context(&mut host, create);
        let (allocations, works) = (asked.made, asked.works);
        // What was decided is carried out in any case: a refusal takes it back behind it.
        self.queue_works(cx, process, works);
        match created {
            Ok((kmd, info)) => Ok((allocations, kmd, info)),
            Err(status) => {
                self.destroy_context_allocations(cx, process, allocations);
                Err(from_driver(status))
            }
        }
    }

    /// Destroys a context that the driver has made and the kernel cannot use.
    fn take_back_context(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        context: KmdContext,
        allocations: Vec<ContextAllocation>,
    ) {
        self.destroy_in_packet_driver(cx, context);
        self.destroy_context_allocations(cx, process, allocations);
    }

    fn check_context(
        &mut self,
        node: NodeId,
        engine_affinity: u32,
        flags: ContextFlags,
        addresses: bool,
    ) -> Result<(), Refusal> {
        if !self.driver.has_node(node) {
            return Err(invalid(format!("node {} of {}", node.0, self.driver.nodes().len())));
        }
        if !self.packets.are_there() {
            return Err(not_supported("the driver has no packet scheduling"));
        }
        if addresses && !self.driver.node(node).gpu_mmu_supported && !self.uses_cpu_addresses() {
            return Err(invalid("the node has no GPU virtual addresses: its contexts are patched"));
        }
        // The bit of engine 0, or none: programs pass either for the only engine of a node.
        if engine_affinity > 1 {
            return Err(invalid(format!(
                "EngineAffinity {engine_affinity:#x}: a node here has engine 0 only (0 or 1)"
            )));
        }
        if flags.contains(ContextFlags::HW_QUEUE_SUPPORTED) {
            return Err(not_supported("a context with hardware queues is made by CreateHwContext"));
        }
        // spec: sync §2.5
        if !(ContextFlags::DISABLE_GPU_TIMEOUT | ContextFlags::NULL_RENDERING).contains(flags) {
            return Err(invalid(format!("context flags {:#x} are reserved or not for user mode", flags.bits())));
        }
        Ok(())
    }

    /// `D3DKMTDestroyContext`: its queued packets are dropped; running ones have ended when the driver returns.
    pub fn destroy_packet_context(&mut self, cx: &mut Cx<'_>, number: PacketContextNumber) {
        let context = self.packets[number];
        self.packets.drop_packets(&mut self.vidsch.nodes, number);
        self.drop_updates(cx, UpdateContext::Packets(number));
        self.destroy_in_packet_driver(cx, context.kmd);
        for buffer in self.packets.take_buffers(number) {
            self.destroy_dma_buffer(cx, number, buffer);
        }
        let allocations = self.packets.remove(number);
        self.vidsch.nodes.leave(context.vidsch);
        let dropped = self.vidsch.queues.destroy_queue(context.vidsch);
        self.drop_software(cx, number, dropped);
        self.end_idle_waits(cx, WaitsOf::Packets(number));
        self.vidsch.ranks.leave(AnyContext::Packets(number));
        self.forget_suspension(cx, Leaving::Packets(number));
        self.destroy_context_allocations(cx, self.owners.process_of(context.device), allocations);
        // Paging work may stand behind its progress: it is reached for ever now, and goes when the ring has passed.
        for fence in context.fences() {
            self.signal_always(cx, fence);
            self.defer_fence(fence);
        }
        cx.emit(self.index, Event::PacketContextDestroyed { context: number.raw() });
    }

    fn destroy_in_packet_driver(&mut self, cx: &Cx<'_>, kmd: KmdContext) {
        let (driver, mut host) = self.driver.with_host(cx);
        driver.packet_scheduling().expect("it made this context").destroy_context(&mut host, kmd);
    }

    /// The contexts of a device that went into error: nothing of them runs any more. Answers with their fences.
    // spec: memory §8.6
    pub(in crate::adapter) fn fail_packets(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) -> Vec<FenceNumber> {
        let mut fences = Vec::new();
        for number in self.packet_contexts_of(device) {
            let known = self.packets[number];
            self.driver.call(cx).packet_scheduling().expect("it made this context").stop_context(known.kmd);
            self.packets.drop_packets(&mut self.vidsch.nodes, number);
            let dropped = self.vidsch.queues.fail(known.vidsch);
            self.drop_software(cx, number, dropped);
            self.vidsch.ranks.waits_no_more(known.vidsch);
            self.forget_suspension(cx, Leaving::Packets(number));
            fences.extend(known.fences());
        }
        fences
    }

    /// The hardware has lost every packet, and says nothing of any: those of contexts have gone with their devices, those
    /// of the ring with its works.
    // spec: sync §4.4
    pub(in crate::adapter) fn packets_lost(&mut self) {
        self.vidsch.nodes.lost();
    }

    /// The packet contexts of a device.
    pub(in crate::adapter) fn packet_contexts_of(&self, device: DeviceNumber) -> Vec<PacketContextNumber> {
        self.packets.of_device(device).collect()
    }
}
