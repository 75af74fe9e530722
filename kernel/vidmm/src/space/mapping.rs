//! What addresses show and by what right they are taken, as values (memory §4.8).

use crate::slab::AllocationId;

/// The accesses that a mapping allows (`D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE`, memory §4.8), besides reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Bit Write.
    pub write: bool,
    /// Bit Execute.
    pub execute: bool,
    /// DriverProtection: for the driver, not read here but for its top bit (memory §4.11).
    pub driver: u64,
}

impl Protection {
    /// Reading and writing, nothing for the driver.
    pub const READ_WRITE: Protection = Protection { write: true, execute: false, driver: 0 };
}

/// The behaviour of a reservation's page as long as nothing is mapped there (memory §4.8, §4.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Every access faults.
    NoAccess,
    /// Reads return 0, writes are dropped.
    Zero,
}

/// The target of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Pages of an allocation from this one on.
    Allocation(AllocationId, u64),
    /// System pages from this one on.
    System(u64),
    /// System pages with words of native fences in them, from this one on.
    Words(u64),
    /// Zeros only.
    Zero,
}

impl Shown {
    /// The target `pages` further on.
    pub fn advanced(self, pages: u64) -> Shown {
        match self {
            Shown::Allocation(allocation, page) => Shown::Allocation(allocation, page + pages),
            Shown::System(page) => Shown::System(page + pages),
            Shown::Words(page) => Shown::Words(page + pages),
            Shown::Zero => Shown::Zero,
        }
    }
}

/// Pages that show something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub pages: u64,
    pub shown: Shown,
    pub protection: Protection,
}

/// By what right addresses are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Map: they are free again when nothing is shown there any more.
    Map,
    /// Map of the kernel's own pages: only the kernel touches them.
    Kernel,
    /// The driver's, from the process's creation to its end: it maps there, and user mode if it may.
    Driver {
        /// User mode may map there (AllowUserModeMapping).
        user_maps: bool,
    },
    /// Reserved by ReserveGpuVirtualAddress until they are freed. With the behaviour of unmapped pages, and the
    /// driver's part of a tile's protection.
    Reservation(Reserved, u64),
}

/// Addresses taken by one call, or what is left of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub end: u64,
    pub origin: Origin,
}
