//! The daemon as a process of the operating system: which rights it gives up before it reads from a client, and how many descriptors it has.

pub mod descriptors;
pub mod sandbox;
