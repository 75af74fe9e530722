//! The whole stack in one process: client, kernel, driver, device, in both kinds of time.

mod addresses;
mod allocations;
mod away;
mod blame;
mod coherency;
mod congestion;
mod context_allocations;
mod cpu_access;
mod cpu_refusals;
mod fences;
mod layouts;
mod leaf_tables;
mod levels;
mod packet_turns;
mod packets;
mod paging;
mod physical;
mod pitch;
mod power;
mod relocation;
mod renaming;
mod residency;
mod stubborn;
mod submission;
mod system_copies;
mod world;
