//! The checkers: they listen to the kernel's events and to what it asks of its driver, and say when a rule is broken.
//! They call nothing. [`Ledger`] holds them together; tracer and miniport decorator feed it, the world reads it.

pub mod bystander;
pub mod contract;
pub mod displays;
pub mod fences;
pub mod frames;
pub mod ledger;
pub mod packets;
pub mod paging;

pub use ledger::{Ledger, Shared, shared};
