//! The kernel-mode miniport of the software GPU: `ddi` above, the data sheet below.
//!
//! It works on any device that honours `softgpu_spec`; it has never heard of the one that this project brings along, nor of
//! the kernel. Between the two it translates: segments into bus addresses, paging operations into privileged commands,
//! hardware queues into rings and queue registers, native fences into commands of the context management processor,
//! interrupt records into reports.
//!
//! # What it decides
//! - **The aperture table is hidden from VidMm** (memory §1.1): it lies at the end of local memory, and the memory segment
//!   is reported without it.
//! - **A queue's index is its doorbell's index**: no physical doorbell is ever shared, so disconnecting one needs no
//!   hardware; what was rung before still runs (sync §3.17: on exit the kernel disconnects, then waits for the progress
//!   fence). The queue is disabled when its doorbell or the queue itself is destroyed.
//! - **The device has no "always signalled" fence** (sync §3.16): the driver stores the largest value, which every wait
//!   passes. A signal that a healthy queue still executes would overwrite it; the kernel stops those queues first.
//!
//! # Who calls it
//! The kernel, one thread at a time; see the law in `ddi`. It stores nothing that it was lent.
//!
//! | module | what |
//! |---|---|
//! | `driver` | the value, its handles, the trait `Miniport` |
//! | `start` | finding the device, features, start and stop |
//! | `segments` | geometry, the segment query, bus addresses |
//! | `cpu_access` | the CPU host aperture |
//! | `gpu_va` | the page-table facet and its entries |
//! | `allocation` | private data to placement |
//! | `paging`, `immediate` | paging operations as commands; the same commands by the CPU |
//! | `queues`, `doorbells` | hardware queues, kernel-mode rings, user-mode rings |
//! | `packet` | packet contexts: translation, patching, packets in rings |
//! | `display` | displays: modes, addresses, vertical blanks |
//! | `escape` | the private call |
//! | `fences`, `interrupts` | native fences, interrupt records |

mod allocation;
mod config;
mod cpu_access;
mod display;
mod doorbells;
mod driver;
mod escape;
#[cfg(test)]
mod fake_port;
mod fences;
mod gpu_va;
mod handles;
mod immediate;
mod interrupts;
mod logs;
mod packet;
mod paging;
mod peers;
mod queues;
mod recovery;
mod scheduling_log;
mod segments;
mod start;
mod swizzling;

pub use config::{Addressing, KmdConfig, Layout, PeerMode, TableHome, TableHomes};
pub use doorbells::VictimPolicy;
pub use driver::SoftGpuKmd;
