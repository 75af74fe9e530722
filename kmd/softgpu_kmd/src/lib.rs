//! The kernel-mode miniport of the software GPU: `ddi` above, the data sheet below.
//!
//! It works on any device that honours `softgpu_spec`; it depends neither on the device of this project nor on
//! the kernel. Between the two it translates: segments into bus addresses, paging operations into privileged commands,
//! hardware queues into rings and queue registers, native fences into commands of the context management processor,
//! interrupt records into reports.
//!
//! # What it decides
//! - **The aperture table is hidden from VidMm** (memory §1.1): it lies at the end of local memory, and the memory segment
//!   is reported without it.
//! - **Physical doorbells are assigned** (sync §3.17): a connect gives a queue a free one, or takes one from another queue. A
//!   queue without one listens to its own doorbell, which no process sees, so work rung before a disconnect still runs: on
//!   exit the kernel disconnects, then waits for the progress fence. The driver disables a queue when the kernel destroys its
//!   doorbell or the queue itself.
//! - **An "always signalled" fence is a sealed word** (sync §3.16): the CMP stores the largest value, which every wait
//!   passes, and later signals of engines leave the word alone.
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
