//! The daemon as a process of the operating system: which rights it gives up before it reads from a client, the process that looks at files
//! for it then, and how many descriptors it has.

pub mod descriptors;
pub mod outside;
pub mod sandbox;
