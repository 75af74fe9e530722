//! The private data that a user-mode driver may hand along with a command buffer. The commands of this device say all that it does,
//! so the data mean nothing to it: its kernel-mode driver takes as many as other drivers hand along, and hands none on to the device.

/// Most bytes with a command buffer that lies at an address of its process.
pub const BYTES_MAX: u32 = 16384;
/// Most bytes with one that the kernel-mode driver copies into a DMA buffer.
pub const PATCHED_BYTES_MAX: u32 = 1024;
