//! What a host provides to the kernel for one adapter, beside memory and time: the CPU's caches, the IOMMU, the bus, the pages of
//! doorbells, the memory of clients and of those who hand memory over, and a clock for the driver's calls. The host keeps these objects
//! and lends them with each turn ([`Cx::platforms`](crate::Cx)); the kernel stores none of them. Each file here is one seam: a trait that
//! the host implements and the kernel asks. No file here knows an adapter.
//!
//! # The law of this boundary
//! - **The same from an adapter's start on.** The kernel decides by what is there when the adapter starts (which model of memory the
//!   adapter has, which pages a process may map), so a later turn finds the same objects.
//! - **Asked within a turn, and never the other way round**: the kernel calls each under the lock of the machine, and none calls the kernel.
//! - **Nothing fails that the seam does not name**: where the host cannot do what it is asked, its answer says so.

mod bus;
mod clients;
mod clock;
mod cpu_cache;
mod doorbells;
mod given;
mod io_mmu;

pub use self::bus::BusMemory;
pub use self::clients::{ClientMemory, Viewers};
pub use self::clock::DriverClock;
pub use self::cpu_cache::CpuCache;
pub use self::doorbells::{DoorbellPages, Shown};
pub use self::given::GivenMemory;
pub use self::io_mmu::IoMmu;

/// The objects that a host provides for one adapter. A host has those that it says; a host that says nothing has none.
pub trait Platform: Send + Sync + std::fmt::Debug {
    /// The CPU's caches, where the kernel has to know of them (memory §6.7); `None`: the hardware keeps coherency, whatever is said to it.
    fn cpu_cache(&self) -> Option<&dyn CpuCache> {
        None
    }

    /// The IOMMU that the adapter stands behind; adapters of the IoMmu model need one (memory §4.1).
    fn io_mmu(&self) -> Option<&dyn IoMmu> {
        None
    }

    /// The CPU's way to the device's memory; `None`: the kernel has none, and no word of its own lies there (sync §1.5).
    fn bus(&self) -> Option<&dyn BusMemory> {
        None
    }

    /// Shows processes the pages at the addresses of their doorbells; `None`: no process sees a doorbell (sync §3.17).
    fn doorbells(&self) -> Option<&dyn DoorbellPages> {
        None
    }

    /// Lends pages to clients that are processes of their own; `None`: every client is in this program.
    fn clients(&self) -> Option<&dyn ClientMemory> {
        None
    }

    /// The files that processes hand over; `None`: they can hand over none (memory §2.7).
    fn given(&self) -> Option<&dyn GivenMemory> {
        None
    }

    /// Measures the driver's calls, where the kernel watches work; `None`: the kernel measures none (sync §4.4).
    fn driver_clock(&self) -> Option<&dyn DriverClock> {
        None
    }
}
