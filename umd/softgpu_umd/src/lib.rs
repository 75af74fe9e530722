//! The user-mode driver of the software GPU: turns work into command buffers for its data sheet.
//!
//! It is what a runtime links besides the client: [`Gpu`] opens an adapter and makes [`Surface`]s (allocations with a GPU
//! virtual address); a [`Stream`] is a compute or copy queue with user-mode submission, fed with [`Commands`]. Order is
//! kept by native fences: a submission waits on the GPU for fence values, and its own completion is the stream's progress
//! value. The CPU waits only when the ring is full, or when it is asked to.
//!
//! Engines without GPU virtual addresses take [`ListedCommands`] through a [`PatchedStream`]; a [`Lane`] is either, for callers
//! that run on every adapter.
//!
//! Content that crosses to another adapter lies in a [`CrossMemory`]; a [`CrossFence`] orders the accesses.
//!
//! The CPU maps a [`DynamicResource`] while the GPU works: since WDDM 2 this driver waits, renames, or says that the GPU
//! is still drawing; [`Contexts`] knows which command buffer uses it.
//!
//! A driver of the first generation maps a [`LegacyResource`], whose instances are the kernel's, and has [`TwoForms`] of a tiled
//! surface that the CPU reads.
//!
//! The caller decides what is resident when; [`ResidencyList`] is the usual policy: a used surface stays until the kernel
//! asks for it back.

mod commands;
mod contexts;
mod cross;
mod dynamic;
mod gpu;
mod kernel_fed;
mod lane;
mod legacy;
mod listed;
mod logs;
mod map;
mod patched;
mod question;
mod residency;
mod retry;
mod ring_memory;
mod stream;
mod two_forms;

pub use commands::Commands;
pub use contexts::{ContextId, Contexts};
pub use cross::{CrossFence, CrossMemory};
pub use dynamic::{DynamicResource, RenamePolicy, Renamed};
pub use gpu::{Gpu, Surface, UmdError};
pub use kernel_fed::KernelFedStream;
pub use lane::{Lane, Stage};
pub use legacy::LegacyResource;
pub use listed::{ListedCommands, SurfacePart};
pub use logs::FenceName;
pub use map::{DO_NOT_WAIT, MapError, MapKind};
pub use patched::PatchedStream;
pub use residency::{MadeResident, ResidencyList};
pub use retry::make_resident;
pub use softgpu_spec::context_data::{DmaBuffers, encode as context_data};
pub use softgpu_spec::display::pitch_bytes;
pub use softgpu_spec::pattern;
pub use softgpu_spec::private_call::{Hardware, Usage};
pub use softgpu_spec::private_data::Kind as SurfaceKind;
pub use stream::{GpuSignal, GpuWait, Stream, StreamConfig};
pub use two_forms::TwoForms;
