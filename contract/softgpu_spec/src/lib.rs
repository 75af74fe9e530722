//! The software GPU's data sheet: its registers, page tables, rings, commands and faults.
//!
//! Both sides of the bus read this and nothing else: the device implements it, drivers program it. It describes a
//! machine, not a driver model: there is no allocation here, no residency, no process.
//!
//! # The machine in short
//! One **copy engine** and one **compute engine** execute **hardware queues**. A queue is a ring of commands at a virtual
//! address, an address space (the root of a page table) and a doorbell. A **context management processor**
//! (CMP) parks queues that wait for a value and unparks them when it comes, and decides about interrupts.
//!
//! # Bus addresses
//! Physical commands and page tables name memory by **bus address** ([`bus`]): local memory from 0, the **aperture** (a
//! range of addresses that a table redirects page by page to system memory), and system memory itself.
//!
//! # Rings and doorbells
//! The ring holds [`command`]s as 64-bit words. The doorbell's value is the write pointer in bytes: it only rises, the
//! ring's size is a power of two, and the place in the ring is the pointer modulo the size. A command may wrap over the
//! ring's end. A [`doorbell`] is two words: the value, then the one by which the engine says that it sleeps.
//!
//! # Displays
//! A device may have outputs that show what lies in its memory ([`display`]).
//!
//! # Faults
//! A virtual address without a valid entry, a write to a read-only entry, a privileged command in a queue that is not
//! privileged, an undecodable word: the queue stops, a fault record is raised, every other queue goes on.

pub mod bus;
pub mod command;
pub mod context_data;
pub mod display;
pub mod doorbell;
pub mod layout;
pub mod page_table;
pub mod pattern;
pub mod private_call;
pub mod private_data;
pub mod queue_data;
pub mod register;
pub mod submission_data;
pub mod tile;

pub use command::{Command, DecodeError, FenceCommand, LogSlot};

/// The engines, by number: a queue is bound to one.
pub mod engine {
    /// Executes compute queues.
    pub const COMPUTE: u32 = 0;
    /// Executes copy queues.
    pub const COPY: u32 = 1;
    /// How many there are.
    pub const COUNT: u32 = 2;
}

/// How many hardware queues the device holds.
pub const QUEUE_COUNT: u32 = 256;
