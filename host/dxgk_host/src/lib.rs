//! Runs a kernel with its devices in this process: threads, time, memory.
//!
//! A [`Host`] is a machine (`dxgkrnl`), one or several software GPUs with their drivers, and the system memory that they share. In
//! **real time** the devices' engines are threads, a dispatcher thread carries interrupts to the kernel, and a call blocks its
//! caller. In **virtual time** there are no threads: a call that must wait lets the devices run by being told the time, so
//! the same kernel, drivers and devices give the same events for the same calls, every time.
//!
//! # The law of this room
//! - One lock: the machine's. A call takes it on its caller's thread; an interrupt on the dispatcher's. Nothing is called
//!   back under it but the driver and the tracer.
//! - The kernel's clock never runs backwards: it is read under the lock.
//! - Effects are performed before the lock is given up, in order.

mod amount;
mod arenas;
mod computer;
mod conductor;
mod config;
mod cpu_barrier;
mod cpu_cache;
mod cpu_mapping;
mod doorbells;
mod faults;
mod given;
mod host;
mod iommu;
mod lent;
mod line;
mod link;
mod own_commands;
mod own_events;
mod profile;
mod provided;
mod remote_process;
mod time;

pub use amount::{AmountError, parse_bytes, scaled, split as split_amount};
pub use conductor::{Conductor, Seat, Turns};
pub use config::{
    AdapterSetup, HostConfig, Mode, WrapMiniport, WrapPort, directory_table_bytes, page_table_bytes, system_bytes,
};
pub use cpu_mapping::StoresWait;
pub use dxgkrnl::{
    AccountId, Admission, BrokenInvariant, CreatedSurface, DriverClock, Eviction, FeatureOverride, FeaturePolicy,
    MemoryPolicy, OnTimeout, PlanReport, PlanStream, Quota, RecoveryPolicy, Residence, StateDigest,
};
pub use faults::{CALLS as FAULT_CALLS, FaultPlan, PlanError, statuses as fault_statuses};
pub use host::{Host, HostAdapter, HostError, KERNEL_BYTES, Pending};
pub use line::LINES_MAX as ADAPTERS_MAX;
pub use link::ProcessLink;
pub use profile::{FileError, PROFILES, Profile, ProfileError};
pub use remote_process::{FilePiece, RemoteProcess};
