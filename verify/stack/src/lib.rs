//! The worlds of the stack tests: a host with its devices, client processes, the kernel's events, counted calls.
//!
//! The tests themselves stand in `tests/stack`, one program for all of them: client, kernel, driver and device run together in one
//! process, in real and in virtual time. Both ways to a kernel (in process, over a socket) are `conformance`'s; random worlds are `sim`'s.

pub mod counting;
pub mod heard;
pub mod world;
