//! Packet scheduling between kernel and driver: contexts whose work the kernel hands over packet by packet (memory §5.6,
//! §7.1 to §7.4; sync §4.1). A driver that has engines of this kind offers [`PacketScheduling`]; hardware queues are
//! another facet, and an adapter may have both.
//!
//! # The law of this part
//! - The kernel has checked every list that it hands over: handles, counts, offsets, order. Only the driver knows the commands of a user
//!   buffer, so it checks them, and it alone writes DMA buffers.
//! - A context without [`ContextCaps::NO_PATCHING_REQUIRED`] names memory by list index; the addresses come with the list
//!   (pre-patching), and again with [`PacketScheduling::patch`] when they were unknown or have changed.
//! - Packets of one node are handed over in the order in which they run, whatever contexts they are of; each is answered by
//!   [`Interrupt::DmaCompleted`](crate::Interrupt) with its fence id, in that order. A node has packets of one context at a
//!   time, and paging buffers in front of them or behind.
//! - Ids of one node rise. A driver that is PreemptionAware gives packets back ([`PacketScheduling::preempt_command`]); paging
//!   buffers come again with the ids that they had, before anything else, everything else with new ones.

mod render;

pub use render::{AllocationListEntry, DmaBuffer, PatchLocation, PatchLocationsOut, Present, Render, RenderStatus};

use wddm_types::{GpuVa, NodeId, SegmentId, SegmentSet};

use crate::adapter::DriverStatus;
use crate::host::{Host, Notify};
use crate::preemption::{PreemptCommand, PreemptionGranularity, ResetEngine};
use crate::queue::{KmdContext, KmdDevice, OsContext};

/// `DXGK_PRESENT_SOURCE_INDEX` (memory §5.7).
pub const PRESENT_SOURCE_INDEX: u32 = 1;
/// `DXGK_PRESENT_DESTINATION_INDEX` (memory §5.7).
pub const PRESENT_DESTINATION_INDEX: u32 = 2;
/// `D3DDDI_MAX_WRITTEN_PRIMARIES`: entries of the allocation list of a context without patching (memory §0, §5.6).
pub const WRITTEN_PRIMARIES_MAX: usize = 16;

bitflags::bitflags! {
    /// `DXGK_CREATECONTEXTFLAGS` (sync §2.5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateContextFlags: u32 {
        /// The kernel's own, for paging.
        const SYSTEM_CONTEXT = 1 << 0;
        /// Of the GDI device.
        const GDI_CONTEXT = 1 << 1;
        /// It runs in the process's GPU address space.
        const VIRTUAL_ADDRESSING = 1 << 2;
        /// System, protected.
        const SYSTEM_PROTECTED_CONTEXT = 1 << 3;
        /// It may have hardware queues.
        const HW_QUEUE_SUPPORTED = 1 << 4;
        /// Kernel-mode testing.
        const TEST_CONTEXT = 1 << 5;
    }

    /// `DXGK_CONTEXTINFO_CAPS` (memory §7.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ContextCaps: u32 {
        /// No patch list; an allocation list of 16 written primaries.
        const NO_PATCHING_REQUIRED = 1 << 0;
        /// The driver handles residency for the context.
        const DRIVER_MANAGES_RESIDENCY = 1 << 1;
        /// It runs in the IoMmu model.
        const USE_IO_MMU = 1 << 2;
    }

    /// Flags of Patch and SubmitCommand (memory §7.4).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SubmitFlags: u32 {
        /// A paging buffer.
        const PAGING = 1 << 0;
        /// A present.
        const PRESENT = 1 << 1;
        /// A present that is redirected.
        const REDIRECTED_PRESENT = 1 << 2;
        /// Nothing is to be drawn.
        const NULL_RENDERING = 1 << 3;
        /// It was handed over before and preempted (memory §7.4).
        const RESUBMISSION = 1 << 7;
    }
}

/// `DXGK_CONTEXTINFO` (memory §7.1): what the driver wants for a context. Sizes are starting values; the kernel never gives
/// less. A patched context whose sizes are all 0, and its segment set empty, says nothing of buffers and lists: those of its device count
/// ([`crate::DeviceInfo`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextInfo {
    /// Bytes of a DMA buffer.
    pub dma_buffer_bytes: u32,
    /// Aperture segments in which DMA buffers are shown; empty: contiguous, locked system memory, read at its physical
    /// address. A memory segment fails the creation.
    pub dma_buffer_segment_set: SegmentSet,
    /// Private bytes that go with each DMA buffer, and of which the user-mode driver may fill as many as it likes.
    pub dma_buffer_private_data_bytes: u32,
    /// Entries of an allocation list.
    pub allocation_list_entries: u32,
    /// Entries of a patch-location list.
    pub patch_location_list_entries: u32,
    /// The kind of context.
    pub caps: ContextCaps,
    /// Node that runs paging for this one.
    pub paging_companion_node: NodeId,
}

/// `DXGKARG_CREATECONTEXT` (memory §7.1).
#[derive(Clone, Copy, Debug)]
pub struct CreateContext<'a> {
    /// The device.
    pub device: KmdDevice,
    /// The kernel's handle.
    pub context: OsContext,
    /// The node that the context runs on.
    pub node: NodeId,
    /// `1 << engine`.
    pub engine_affinity: u32,
    /// Flags of the context.
    pub flags: CreateContextFlags,
    /// From the user-mode driver; untrusted.
    pub private_data: &'a [u8],
}

/// `DXGKARG_PATCH` (memory §7.4): in place, without a change of size. May come several times for one buffer.
#[derive(Debug)]
pub struct Patch<'a> {
    /// The context.
    pub context: KmdContext,
    /// The buffer's words.
    pub words: &'a mut [u64],
    /// Private data.
    pub private_data: &'a mut [u8],
    /// The list with the addresses of now.
    pub allocation_list: &'a [AllocationListEntry],
    /// The places of addresses, as Render or Present wrote them.
    pub patch_locations: &'a [PatchLocation],
    /// The first of these that is to be patched: the others belong to other portions of the buffer, and what they name may
    /// be nowhere.
    pub submission_start: u32,
    /// How many.
    pub submission_length: u32,
    /// First byte that is about to run.
    pub start_offset: u32,
    /// One past the last.
    pub end_offset: u32,
    /// The packet.
    pub fence_id: u32,
    /// Flags of the submission.
    pub flags: SubmitFlags,
}

/// `DXGKARG_SUBMITCOMMAND` (memory §7.4).
#[derive(Clone, Copy, Debug)]
pub struct SubmitCommand<'a> {
    /// The context.
    pub context: KmdContext,
    /// The segment that shows the buffer; 0: system memory.
    pub dma_buffer_segment: SegmentId,
    /// The beginning of the buffer: with a segment its GPU address, else the system physical address (memory §7.1).
    pub dma_buffer_physical_address: u64,
    /// First byte to run.
    pub start_offset: u32,
    /// One past the last.
    pub end_offset: u32,
    /// Private data.
    pub private_data: &'a [u8],
    /// The number that [`Interrupt::DmaCompleted`](crate::Interrupt) names.
    pub fence_id: u32,
    /// Flags of the submission.
    pub flags: SubmitFlags,
}

/// `DXGKARG_SUBMITCOMMANDVIRTUAL` (memory §7.4).
#[derive(Clone, Copy, Debug)]
pub struct SubmitCommandVirtual<'a> {
    /// The context.
    pub context: KmdContext,
    /// The commands in the context's space.
    pub dma_buffer: GpuVa,
    /// Their bytes.
    pub dma_buffer_bytes: u32,
    /// Private data: of a buffer that the driver has written (a paging buffer, a present) its own, of a user's what the user-mode driver
    /// has handed along.
    pub private_data: &'a [u8],
    /// `DmaBufferUmdPrivateDataSize`: so many of them, from the first on, are the user-mode driver's; untrusted.
    pub user_data_bytes: u32,
    /// The number that [`Interrupt::DmaCompleted`](crate::Interrupt) names.
    pub fence_id: u32,
    /// Flags of the submission.
    pub flags: SubmitFlags,
}

/// Capabilities of packet scheduling that belong to the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketCaps {
    /// `DXGK_DRIVERCAPS.MaxAllocationListSlotId`: slot ids are below.
    pub max_allocation_list_slot_id: u32,
    /// Packets handed over and not completed, per node (`HwQueuePacketCap`); not 0.
    pub hw_queue_packets: u32,
    /// `PreemptionAware`, and how finely; `None`: a packet that was handed over runs to its end.
    pub preemption: Option<PreemptionGranularity>,
}

/// Packet scheduling.
pub trait PacketScheduling {
    /// The members of `DXGK_DRIVERCAPS` and `DXGK_VIDSCHCAPS` about it.
    fn packet_caps(&self) -> PacketCaps;

    /// `DxgkDdiCreateContext`, level 0.
    ///
    /// # Errors
    /// `NoMemory`; `DriverMismatch`; `InvalidParameter` for private data, or for virtual addressing on a node that has none.
    fn create_context(
        &mut self,
        host: &mut dyn Host,
        create: CreateContext<'_>,
    ) -> Result<(KmdContext, ContextInfo), DriverStatus>;

    /// `DxgkDdiDestroyContext`. When it returns the hardware executes nothing for it any more.
    fn destroy_context(&mut self, host: &mut dyn Host, context: KmdContext);

    /// `DxgkDdiRender`, level 0: checks the user's commands and translates them into the DMA buffer. Where the list has an
    /// address the driver must write it at once (Patch may never come), and it tells every place all the same.
    ///
    /// # Errors
    /// [`RenderStatus`]; the buffer is not submitted.
    fn render(&mut self, context: KmdContext, render: &mut Render<'_>) -> Result<(), RenderStatus>;

    /// `DxgkDdiPresent`, level 0: as Render, from the list alone, in as many buffers as it takes. In a context with addresses too,
    /// if the driver wants DMA buffers for it ([`ContextInfo::dma_buffer_bytes`]).
    ///
    /// # Errors
    /// [`RenderStatus`].
    fn present(&mut self, context: KmdContext, present: &mut Present<'_>) -> Result<(), RenderStatus>;

    /// `DxgkDdiPresent` with Flags.Flip and a NULL `pDmaBuffer`, level 0, in a context that is patched: element 0 of the list is NULL, 1
    /// the primary that is to be shown behind everything that the context has. Where the list has an address it is of now;
    /// [`crate::Display::set_vidpn_source_address`] says the one that counts.
    ///
    /// # Errors
    /// [`RenderStatus`], but for `InsufficientDmaBuffer`, which says nothing here; the flip is not queued.
    fn present_flip(
        &mut self,
        context: KmdContext,
        allocation_list: &[AllocationListEntry],
    ) -> Result<(), RenderStatus>;

    /// `DxgkDdiPatch`, level 1.
    ///
    /// # Errors
    /// Bug check 0x119, parameter 3: the adapter stops, unless a fault explains it ([`PacketScheduling::submit_command`]).
    fn patch(&mut self, patch: &mut Patch<'_>) -> Result<(), DriverStatus>;

    /// `DxgkDdiSubmitCommand`, level 1, at dispatch level.
    ///
    /// # Errors
    /// Bug check 0x119, parameter 2: the adapter stops. A driver may refuse a packet for a fault on its node of which the kernel has not
    /// heard: the kernel hears the driver's interrupts before it judges a refusal. A fault of the same device makes the refusal moot; with
    /// that of another one the kernel asks again.
    fn submit_command(&mut self, submit: SubmitCommand<'_>) -> Result<(), DriverStatus>;

    /// `DxgkDdiSubmitCommandVirtual`.
    ///
    /// # Errors
    /// `InvalidParameter` puts the device in error; anything else stops the adapter, unless a fault explains it
    /// ([`PacketScheduling::submit_command`]).
    fn submit_command_virtual(&mut self, submit: SubmitCommandVirtual<'_>) -> Result<(), DriverStatus>;

    /// `DxgkDdiPreemptCommand`, level 1, class of the GPU scheduler, at dispatch level: take the node back from what was handed
    /// over, between two units of the granularity that the capabilities tell. The answer is
    /// [`Interrupt::DmaPreempted`](crate::Interrupt), even if everything was done before the request. Only asked of a driver
    /// that is PreemptionAware, and not again before the answer.
    ///
    /// # Errors
    /// Bug check 0x119: the adapter stops, unless a packet of the node has faulted. The request is over then, and is not answered.
    fn preempt_command(&mut self, preempt: PreemptCommand) -> Result<(), DriverStatus>;

    /// `DxgkDdiResetEngine`, level 1, class of the GPU scheduler (`SupportPerEngineTDR`): a node has not answered a preemption in time.
    /// The driver's reports until the call count. Nodes that are reset with it
    /// ([`Miniport::query_dependent_engine_group`](crate::Miniport::query_dependent_engine_group)) have given back what they had, or the
    /// kernel calls this for them, too, in the order of their numbers. When this returns, the node has no packet and takes the next one;
    /// the preemption is not answered any more. The driver reports packets that were done before through `notify`, by
    /// [`Interrupt::DmaCompleted`](crate::Interrupt) and nothing else. It answers with `LastAbortedFenceId`: this packet, and each undone
    /// one before it, is lost. Packets behind it did not begin, and the kernel hands them over again as after a preemption. The packet
    /// that was done last: nothing is lost.
    ///
    /// # Errors
    /// Any status has the kernel reset the adapter; so does the default, which says that engines cannot be reset by themselves.
    fn reset_engine(&mut self, reset: ResetEngine, notify: &mut dyn Notify) -> Result<u32, DriverStatus> {
        let _ = (reset, notify);
        Err(DriverStatus::NotSupported("ResetEngine"))
    }

    /// `DxgkDdiResetEngine` narrowed to one context after a fault, or when its device is lost: nothing of it runs any more
    /// when this returns, its packets are not reported, and it takes no more. Must succeed.
    fn stop_context(&mut self, context: KmdContext);
}
