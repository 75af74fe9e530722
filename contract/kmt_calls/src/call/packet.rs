//! Calls on packet contexts (memory §5.6, §7).

use serde::{Deserialize, Serialize};
use wddm_types::{BltRectangle, GpuVa, NodeId, RawHandle};

use crate::packet::{AllocationListItem, ContextFlags, PatchLocationItem};

/// A call on a packet context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PacketCall {
    /// `D3DKMTCreateContext` → `Context`: packets with lists, for engines without GPU virtual addresses (memory §5.6).
    CreateContext {
        /// The device.
        device: RawHandle,
        /// The node that the context runs on.
        node: NodeId,
        /// `1 << engine`.
        engine_affinity: u32,
        /// Flags of the context.
        flags: ContextFlags,
        /// For the driver.
        private_data: Vec<u8>,
    },
    /// `D3DKMTCreateContextVirtual` → `Handle`: packets in the process's address space.
    CreateContextVirtual {
        /// The device.
        device: RawHandle,
        /// The node that the context runs on.
        node: NodeId,
        /// `1 << engine`.
        engine_affinity: u32,
        /// Flags of the context.
        flags: ContextFlags,
        /// For the driver.
        private_data: Vec<u8>,
    },
    /// `D3DKMTDestroyContext`.
    DestroyContext {
        /// The context.
        context: RawHandle,
    },
    /// `D3DKMTRender` → `Queued`: a command buffer with its lists.
    Render {
        /// A context of `CreateContext`.
        context: RawHandle,
        /// The commands.
        command: Vec<u64>,
        /// The allocations that the commands name.
        allocation_list: Vec<AllocationListItem>,
        /// The places in the commands that name them.
        patch_location_list: Vec<PatchLocationItem>,
        /// `pPrivateDriverData`: for the driver, as much as it takes with a buffer of the context.
        private_data: Vec<u8>,
    },
    /// `D3DKMTSubmitCommand` and `D3DKMTRender` with NullRendering → `Queued`: a submission that stands in the context's queue and is over
    /// when what is before it is; its commands, wherever they stand, are not looked at.
    SubmitNull {
        /// A packet context.
        context: RawHandle,
        /// `WrittenPrimaries`, which it does not write.
        written_primaries: Vec<RawHandle>,
    },
    /// `D3DKMTPresent` as far as memory goes → `Queued`: the source's content goes to the destination.
    Present {
        /// A context of `CreateContext` or `CreateContextVirtual`.
        context: RawHandle,
        /// The allocation to read.
        source: RawHandle,
        /// The allocation to write.
        destination: RawHandle,
        /// The parts that are copied, of 16,384 rows together at most; none: as much as both have.
        rectangles: Vec<BltRectangle>,
    },
    /// `D3DKMTSubmitCommand` → `Queued`.
    SubmitCommand {
        /// A context of `CreateContextVirtual`.
        context: RawHandle,
        /// The commands.
        commands: GpuVa,
        /// Their bytes.
        command_bytes: u32,
        /// `WrittenPrimaries`: primaries that they write, 16 at most.
        written_primaries: Vec<RawHandle>,
        /// `pPrivateDriverData`: as of `Render`.
        private_data: Vec<u8>,
    },
}

impl PacketCall {
    /// The name of the `D3DKMT` function, without its prefix.
    pub const fn name(&self) -> &'static str {
        match self {
            PacketCall::CreateContext { .. } => "CreateContext",
            PacketCall::CreateContextVirtual { .. } => "CreateContextVirtual",
            PacketCall::DestroyContext { .. } => "DestroyContext",
            PacketCall::Render { .. } => "Render",
            PacketCall::SubmitNull { .. } => "SubmitCommand",
            PacketCall::Present { .. } => "Present",
            PacketCall::SubmitCommand { .. } => "SubmitCommand",
        }
    }
}
