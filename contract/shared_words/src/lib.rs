//! The protocols on memory that several parties share without a lock.
//!
//! The kernel, its clients, the drivers and the device meet on a few 64-bit words: fence values, doorbells, log headers.
//! Control goes through calls and registers; these words are touched directly. This crate holds the memory they lie
//! in ([`Memory`]) and the order in which each side stores and loads them ([`fence`], [`doorbell`], [`log`], [`peer`], [`scheduling_log`]).
//!
//! The law of this room: every shared word names its owner, each field is fetched once per decision, and where one side
//! stores A and loads B while the other stores B and loads A, both put a full barrier between (sync §3.9), or one the frequent and
//! the other the rare half of one ([`FrequentBarrier`], [`RareBarrier`]). The protocols are generic over [`Word`] and are given the
//! barrier that their caller brings, so that the same lines run on mapped memory, in a device's units and under a model checker.
//!
//! This crate is no transport, and its protocols park and wake no thread: their functions tell *whether* a sleeper must be woken. Only a
//! change of a program's pages has threads sleep ([`ProgramPages`], [`own_threads`]).

pub mod across;
mod address_range;
mod asymmetric;
pub mod doorbell;
mod faults;
pub mod fence;
mod lineage;
pub mod log;
mod memory;
pub mod own_threads;
pub mod peer;
mod program_file;
mod program_map;
mod program_pages;
#[cfg(test)]
mod racers;
pub mod scheduling_log;
#[cfg(test)]
#[path = "../tests/supervised/mod.rs"]
mod supervised;
mod word;

pub use address_range::AddressRange;
pub use asymmetric::{FrequentBarrier, RareBarrier};
pub use faults::{HOLDING_REQUESTS, StoresElsewhere};
pub use lineage::Lineage;
pub use memory::{
    ClientAccess, ClientPage, DetachedPages, GivenError, GivenFile, LentFile, LentPages, Memory, MemoryError,
    ReadOnlyMemory, ReadOnlyWord,
};
pub use program_file::ProgramFile;
pub use program_map::{ProgramError, mappings_max};
pub use program_pages::{ProgramPages, SectionPages};
pub use word::{Barrier, HardwareBarrier, Word};
