//! A graphics processor in software, as its data sheet (`softgpu_spec`) says. It has never heard of an operating system's
//! driver model: it knows rings, page tables, words and an interrupt pin.
//!
//! ```text
//!  registers ─► queues ─┬─► compute engine ─┐            ┌─ local memory
//!  doorbells ─► (rings) └─► copy engine ────┼─ MMU ─ bus ┼─ aperture ─┐
//!                  ▲   park │ unpark        │            └─ system ◄──┘
//!                  └────── CMP ◄────────────┘
//!                           └─► interrupt records ─► pin
//! ```
//!
//! It runs in real time as one thread an engine ([`SoftGpu::run_threads`]), or in virtual time by being told the time
//! ([`device_port::Clocked`]); the code that executes commands is the same. In virtual time each command takes what the cost
//! model says ([`Timing`]), and bulk content may be left out ([`DataMode::Modelled`]).
//!
//! # The law of this room
//! - Nothing that comes over the bus is trusted: registers, rings, page tables and memory may hold anything. Anything wrong becomes a
//!   fault record of the queue that did it; other queues go on.
//! - An engine's state has one owner at a time: its thread, or a register access that has asked for it. From one command to
//!   the next no lock is taken.
//! - Lock order: a peer's engine state, queue registers, an engine's state, the CMP's table, displays, interrupt records, an engine's wake-up
//!   token.
//!
//! Modules: `device` the parts together; `registers`; `engine`, `queue`, `ring`, `active` the choice of the next command; `execute`
//! (`fences`, and `run` for signals behind each other; `entry` of a log), `bulk` the commands' effects; `mmu`, `bus`, `window` where memory is; `order` its barriers; `cmp`, `interrupt`, `peers` waits and
//! signals; `threads`, `ticking`, `clock`, `timing`, `wires` the two kinds of time; `display` scan-out; `config`, `counters`.

mod active;
mod bells;
mod bulk;
mod bus;
mod clock;
mod cmp;
mod config;
mod counters;
mod device;
mod display;
mod engine;
mod execute;
mod interrupt;
mod mmu;
mod order;
mod peers;
mod queue;
mod ranges;
mod reads;
mod registers;
mod ring;
mod scheduling_log;
mod sharing;
mod threads;
mod ticking;
mod timing;
mod window;
mod wires;

pub use config::{Config, DataMode, DisplayConfig};
pub use device::SoftGpu;
pub use threads::Running;
pub use timing::Timing;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock. A panic under it is a fault of ours that its thread has reported; the words behind it are whole, because
/// each change of them is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
