//! The rules of `D3DKMT_LOCK`'s flags (memory §6.5): among each other, and against the allocation.

use ddi::AllocationFlags;
use kmt_calls::{LockFlags, Refusal};

use crate::refusal::invalid;

/// The rules of the flags among each other. `first`: of a WDDM 1 driver.
///
/// # Errors
/// The rule that the caller breaks.
// spec: memory §6.5
pub fn check_flags(flags: LockFlags, pages: &[u32], first: bool) -> Result<(), Refusal> {
    let old = LockFlags::DISCARD
        | LockFlags::NO_EXISTING_REFERENCE
        | LockFlags::ACQUIRE_APERTURE
        | LockFlags::USE_ALTERNATE_VA;
    let kept = LockFlags::READ_ONLY
        | LockFlags::WRITE_ONLY
        | LockFlags::LOCK_ENTIRE
        | LockFlags::DONOT_EVICT
        | LockFlags::DONOT_WAIT
        | LockFlags::IGNORE_SYNC
        | LockFlags::IGNORE_READ_SYNC;
    if !first && flags.intersects(old) {
        return Err(invalid(format!("Lock flags {:#x} do not exist for a WDDM 2 driver", (flags & old).bits())));
    }
    if !(kept | old).contains(flags) {
        return Err(invalid(format!("Lock flags {:#x} are reserved", flags.difference(kept | old).bits())));
    }
    let has = |flag| flags.contains(flag);
    let rules = [
        (has(LockFlags::READ_ONLY | LockFlags::WRITE_ONLY), "ReadOnly and WriteOnly exclude each other"),
        (has(LockFlags::LOCK_ENTIRE) != pages.is_empty(), "a lock names its pages, or has LockEntire and names none"),
        (
            flags.intersects(LockFlags::IGNORE_SYNC | LockFlags::IGNORE_READ_SYNC) && has(LockFlags::ACQUIRE_APERTURE),
            "IgnoreSync and AcquireAperture exclude each other",
        ),
        (has(LockFlags::NO_EXISTING_REFERENCE) && !has(LockFlags::DISCARD), "NoExistingReference is about Discard"),
        (has(LockFlags::USE_ALTERNATE_VA) && !has(LockFlags::ACQUIRE_APERTURE), "UseAlternateVA needs AcquireAperture"),
    ];
    keeps(&rules)
}

/// What of an allocation the rules ask for.
#[derive(Clone, Copy, Debug)]
pub struct Lockable {
    /// The flags that it was created with.
    pub flags: AllocationFlags,
    /// It can be in an aperture.
    pub in_aperture: bool,
    /// It can be in a memory segment.
    pub in_memory: bool,
    /// The GPU snoops the CPU's caches.
    pub io_coherent: bool,
    /// Other devices can have it.
    pub shared: bool,
    /// It is locked already.
    pub locked: bool,
}

impl Lockable {
    /// Checks the caller's flags against an allocation.
    ///
    /// # Errors
    /// The rule that the caller breaks.
    // spec: memory §6.5
    pub fn check(&self, flags: LockFlags) -> Result<(), Refusal> {
        let has = |flag| self.flags.contains(flag);
        let cached_apart = has(AllocationFlags::CACHED) && !self.io_coherent;
        let alternate = flags.contains(LockFlags::USE_ALTERNATE_VA);
        keeps(&[
            (
                flags.intersects(LockFlags::IGNORE_SYNC | LockFlags::IGNORE_READ_SYNC)
                    && (!self.in_aperture || has(AllocationFlags::SWIZZLED) || cached_apart),
                "IgnoreSync is for what can be in an aperture, is not swizzled, and not cached where the GPU does not snoop",
            ),
            (
                flags.contains(LockFlags::ACQUIRE_APERTURE) && !self.in_memory,
                "AcquireAperture is for what can be in a memory segment",
            ),
            (
                alternate != has(AllocationFlags::USE_ALTERNATE_VA),
                "UseAlternateVA is for the primaries that were created so, and they are locked in no other way",
            ),
            (
                alternate && (self.shared || self.locked),
                "UseAlternateVA is neither for shared allocations nor for locked ones",
            ),
        ])
    }
}

fn keeps(rules: &[(bool, &'static str)]) -> Result<(), Refusal> {
    match rules.iter().find(|(broken, _)| *broken) {
        Some((_, rule)) => Err(invalid(*rule)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: memory §6.5
    #[test]
    fn an_allocation_allows_the_flags_that_fit_it() {
        let plain = Lockable {
            flags: AllocationFlags::empty(),
            in_aperture: true,
            in_memory: true,
            io_coherent: true,
            shared: false,
            locked: false,
        };
        let cached = Lockable { flags: AllocationFlags::CACHED, ..plain };
        let alternate = Lockable { flags: AllocationFlags::USE_ALTERNATE_VA, ..plain };
        let rows = [
            (plain, LockFlags::IGNORE_SYNC, true),
            (Lockable { in_aperture: false, ..plain }, LockFlags::IGNORE_SYNC, false),
            (Lockable { flags: AllocationFlags::SWIZZLED, ..plain }, LockFlags::IGNORE_READ_SYNC, false),
            (cached, LockFlags::IGNORE_SYNC, true),
            (Lockable { io_coherent: false, ..cached }, LockFlags::IGNORE_SYNC, false),
            (plain, LockFlags::ACQUIRE_APERTURE, true),
            (Lockable { in_memory: false, ..plain }, LockFlags::ACQUIRE_APERTURE, false),
            (plain, LockFlags::USE_ALTERNATE_VA, false),
            (alternate, LockFlags::empty(), false),
            (alternate, LockFlags::USE_ALTERNATE_VA, true),
            (Lockable { shared: true, ..alternate }, LockFlags::USE_ALTERNATE_VA, false),
            (Lockable { locked: true, ..alternate }, LockFlags::USE_ALTERNATE_VA, false),
        ];
        for (allocation, flags, allowed) in rows {
            assert_eq!(allocation.check(flags).is_ok(), allowed, "{allocation:?} {flags:?}");
        }
    }
}
