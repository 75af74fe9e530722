//! Rendering: the allocations that a user buffer names, and the DMA buffer that the driver writes from it (memory §7.2 to §7.4). Part of
//! `packet`.

use wddm_types::{BltRectangle, GpuVa, SegmentId};

use crate::allocation::KmdOpenAllocation;

/// `DXGK_ALLOCATIONLIST` (memory §7.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationListEntry {
    /// `hDeviceSpecificAllocation`: the allocation as this device has it open; `None` is the NULL element: unbind.
    pub allocation: Option<KmdOpenAllocation>,
    /// The buffer writes it.
    pub write_operation: bool,
    /// Where it is now; 0: nothing is known for pre-patching.
    pub segment: SegmentId,
    /// With a segment: the GPU address (base + offset) of its first byte.
    pub physical_address: u64,
    /// In a context with addresses, instead: where all of it lies in the context's space; NULL elsewhere.
    pub virtual_address: GpuVa,
}

/// `D3DDDI_PATCHLOCATIONLIST` (memory §7.3). Offsets are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchLocation {
    /// Index of the entry in the allocation list.
    pub allocation_index: u32,
    /// The slot that the entry is bound to; a later entry of the same slot replaces it. 24 bits.
    pub slot_id: u32,
    /// The driver's.
    pub driver_id: u32,
    /// Added to the allocation's address.
    pub allocation_offset: u32,
    /// Where the address is written.
    pub patch_offset: u32,
    /// The buffer can run up to here without the allocation.
    pub split_offset: u32,
}

/// A DMA buffer while the driver writes it.
#[derive(Debug)]
pub struct DmaBuffer<'a> {
    /// Its content as 64-bit words.
    pub words: &'a mut [u64],
    /// Out: words used from the start.
    pub written: usize,
    /// Private data: zeroed once when the buffer was created, then the driver's but for what a Render brings.
    pub private_data: &'a mut [u8],
}

/// A patch-location list while the driver writes it.
#[derive(Debug)]
pub struct PatchLocationsOut<'a> {
    /// Room for the list.
    pub list: &'a mut [PatchLocation],
    /// Out: entries used from the start.
    pub written: usize,
}

/// `DXGKARG_RENDER` (memory §7.4). The guaranteed contract holds: one command buffer is exactly one DMA buffer.
#[derive(Debug)]
pub struct Render<'a> {
    /// The user-mode driver's commands, copied before anything was checked; untrusted.
    pub command: &'a [u64],
    /// The allocations that the commands name, by index; checked by the kernel.
    pub allocation_list: &'a [AllocationListEntry],
    /// The user-mode driver's patch locations; in bounds, meaning unchecked.
    pub patch_locations_in: &'a [PatchLocation],
    /// Where the translation goes.
    pub dma_buffer: DmaBuffer<'a>,
    /// So many of its private data, from the first on, are what the user-mode driver has handed along with these commands; untrusted.
    pub user_data_bytes: u32,
    /// All places that hold an address, in the order of their use.
    pub patch_locations_out: PatchLocationsOut<'a>,
}

/// `DXGKARG_PRESENT` as far as memory goes: the source's content goes to the destination (memory §5.7). Element 0 of the list
/// is NULL, 1 is the source, 2 the destination.
///
/// In a context with addresses the list tells virtual ones, which stay as long as the buffer does, there are no places to be
/// patched, and the buffer is submitted with [`PacketScheduling::submit_command_virtual`](super::PacketScheduling::submit_command_virtual). It is shown there read-only.
#[derive(Debug)]
pub struct Present<'a> {
    /// The parts that are copied, in texels; none: as much as source and destination both have. Of 1 by 1 texel at least each; where they lie
    /// in the allocations the driver checks.
    pub rectangles: &'a [BltRectangle],
    /// Three entries.
    pub allocation_list: &'a [AllocationListEntry],
    /// Where the commands go.
    pub dma_buffer: DmaBuffer<'a>,
    /// `DmaBufferGpuVirtualAddress`: where that lies in the space of a context with addresses; NULL elsewhere.
    pub dma_buffer_va: GpuVa,
    /// All places that hold an address; no room in a context with addresses.
    pub patch_locations_out: PatchLocationsOut<'a>,
    /// `MultipassOffset`: 0 in the first call, then what the driver left here when its buffer was full.
    pub multipass_offset: u32,
}

/// The statuses of a driver for Render and Present besides success (memory §9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderStatus {
    /// `STATUS_NO_MEMORY`.
    #[error("the driver says: no memory ({0})")]
    NoMemory(&'static str),
    /// `STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER`: of Present, which has filled its buffer and is asked again with another one. Render
    /// may not say so under the guaranteed contract, nor Present on a buffer that it has not begun: that stops the adapter.
    #[error("the DMA buffer is full")]
    InsufficientDmaBuffer,
    /// `STATUS_PRIVILEGED_INSTRUCTION`.
    #[error("a privileged command")]
    PrivilegedInstruction,
    /// `STATUS_ILLEGAL_INSTRUCTION`.
    #[error("words that are no command")]
    IllegalInstruction,
    /// `STATUS_INVALID_PARAMETER`.
    #[error("the driver says: invalid parameter ({0})")]
    InvalidParameter(&'static str),
    /// `STATUS_INVALID_USER_BUFFER`.
    #[error("the driver says: invalid user buffer ({0})")]
    InvalidUserBuffer(&'static str),
    /// `STATUS_INVALID_HANDLE`: a list names what it may not.
    #[error("the driver says: invalid handle ({0})")]
    InvalidHandle(&'static str),
    /// `STATUS_GRAPHICS_DRIVER_MISMATCH`.
    #[error("a user-mode driver of another version")]
    DriverMismatch,
    /// `STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE`: the device is lost.
    #[error("the device is lost: {0}")]
    GpuException(&'static str),
}
