//! Bus addresses: one 64-bit space for local memory, the aperture and system memory, as engines use it; and where the CPU finds local
//! memory, which is elsewhere.

/// First bus address of local memory.
pub const LOCAL_BASE: u64 = 0;
/// First bus address of the aperture.
pub const APERTURE_BASE: u64 = 1 << 44;
/// First bus address at which the CPU finds its window onto local memory, where the window does not cover all of it.
/// Engines do not use it.
pub const CPU_WINDOW_BASE: u64 = 1 << 45;
/// First bus address at which the CPU finds local memory as it lies, byte for byte: the resized BAR. Engines do not use it, and the CPU
/// finds nothing where engines have local memory ([`LOCAL_BASE`]).
pub const CPU_BAR_BASE: u64 = 3 << 44;
/// First bus address at which the CPU finds the aperture, page by page as its table redirects it. Engines do not use it.
pub const CPU_APERTURE_BASE: u64 = 1 << 50;
/// First bus address of system memory: system physical address 0.
pub const SYSTEM_BASE: u64 = 1 << 46;
/// Bytes of a page of the aperture and of the page tables.
pub const PAGE_BYTES: u64 = 4096;

/// The place that a bus address names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Byte of local memory.
    Local(u64),
    /// Byte of the aperture: page `n` is redirected by entry `n` of the aperture table.
    Aperture(u64),
    /// System physical address.
    System(u64),
}

/// Splits a bus address.
pub const fn place(bus: u64) -> Place {
    if bus >= SYSTEM_BASE {
        Place::System(bus - SYSTEM_BASE)
    } else if bus >= APERTURE_BASE {
        Place::Aperture(bus - APERTURE_BASE)
    } else {
        Place::Local(bus)
    }
}

/// The aperture table: one 64-bit entry a page, in local memory at `register::APERTURE_TABLE`.
pub mod aperture_entry {
    /// The entry redirects; without it an access faults.
    pub const VALID: u64 = 1;

    /// Accesses through the page snoop the CPU's caches.
    pub const COHERENT: u64 = 1 << 2;

    /// The entry that redirects to the system page at `system_address` (a multiple of 4096, and [`COHERENT`] or not).
    pub const fn to(system_address: u64) -> u64 {
        system_address | VALID
    }
}

/// Entries of the CPU's window, one a page of 4096 bytes (`register::CPU_WINDOW_ENTRY`).
pub mod window_entry {
    /// The page shows local memory.
    pub const VALID: u64 = 1;

    /// The entry that shows the page of local memory at this byte (a multiple of 4096).
    pub const fn to(local_offset: u64) -> u64 {
        local_offset | VALID
    }
}
