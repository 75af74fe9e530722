//! Maps over the lock of WDDM 1 (memory §6.4, §6.5): the kernel knows what the GPU uses, so it waits, refuses to wait, or
//! renames; this driver only translates its caller's map into lock flags. Since WDDM 2 `dynamic` does all of that.
//!
//! | map | lock flags |
//! |---|---|
//! | READ | ReadOnly, IgnoreReadSync where the allocation can be in an aperture |
//! | WRITE, READ_WRITE | WriteOnly, none |
//! | WRITE_DISCARD | WriteOnly, Discard; NoExistingReference if nothing is recorded |
//! | WRITE_NO_OVERWRITE | WriteOnly, IgnoreSync; not for swizzled content |
//! | DO_NOT_WAIT | DonotWait besides |

use std::sync::Arc;

use d3dkmt::{Allocation, Context, Lock, LockFlags, Refusal};
use wddm_types::NtStatus;

use crate::gpu::UmdError;
use crate::listed::ListedCommands;
use crate::map::{MapError, MapKind};

/// An allocation that a driver of the first generation maps.
#[derive(Clone)]
pub struct LegacyResource {
    /// The allocation, its only one for as long as it lives: instances are the kernel's, and its handle is the current one's.
    pub allocation: Arc<Allocation>,
    /// Its content lies in tiles: locks go through a range.
    pub swizzled: bool,
    /// It can be in an aperture.
    pub aperture: bool,
}

impl LegacyResource {
    /// Maps it. `pending`: recorded commands, which this call submits if the kernel needs them for the map.
    ///
    /// # Errors
    /// `WasStillDrawing` with `do_not_wait`; `InvalidArgument` for a no-overwrite map of swizzled content.
    // spec: memory §6.4, memory §6.5
    pub fn map(
        &self,
        kind: MapKind,
        do_not_wait: bool,
        pending: Option<(&Context, &mut ListedCommands)>,
    ) -> Result<Lock, MapError> {
        let flags = self.flags(kind, do_not_wait)?;
        let lock = |flags| self.allocation.lock_legacy(Vec::new(), flags);
        // Recorded commands use the allocation, too; a lock waits only for submitted ones.
        if kind != MapKind::WriteDiscard && kind != MapKind::WriteNoOverwrite {
            submit(pending)?;
            return lock(flags).map_err(from_lock);
        }
        // Recorded commands keep the instances that they name; without such commands the kernel may take any.
        let recorded = pending.as_ref().is_some_and(|(_, commands)| !commands.words.is_empty());
        let unnamed = kind == MapKind::WriteDiscard && !recorded;
        match lock(if unnamed { flags | LockFlags::NO_EXISTING_REFERENCE } else { flags }) {
            // spec: memory §6.5, rename protocol: flush, and let any instance be taken
            Err(refusal) if kind == MapKind::WriteDiscard && refusal.status == NtStatus::NO_MEMORY => {
                submit(pending)?;
                lock(flags | LockFlags::NO_EXISTING_REFERENCE).map_err(from_lock)
            }
            other => other.map_err(from_lock),
        }
    }

    /// The flags of a map.
    fn flags(&self, kind: MapKind, do_not_wait: bool) -> Result<LockFlags, MapError> {
        // spec: memory §6.5: CPU and GPU access to swizzled content exclude each other
        if self.swizzled && kind == MapKind::WriteNoOverwrite {
            return Err(MapError::InvalidArgument);
        }
        let mut flags = LockFlags::LOCK_ENTIRE
            | match kind {
                MapKind::Read => LockFlags::READ_ONLY,
                MapKind::Write => LockFlags::WRITE_ONLY,
                MapKind::ReadWrite => LockFlags::empty(),
                MapKind::WriteDiscard => LockFlags::WRITE_ONLY | LockFlags::DISCARD,
                MapKind::WriteNoOverwrite => LockFlags::WRITE_ONLY | LockFlags::IGNORE_SYNC,
            };
        flags.set(LockFlags::IGNORE_READ_SYNC, kind == MapKind::Read && self.aperture && !self.swizzled);
        flags.set(LockFlags::ACQUIRE_APERTURE, self.swizzled);
        flags.set(LockFlags::DONOT_WAIT, do_not_wait);
        Ok(flags)
    }
}

fn submit(pending: Option<(&Context, &mut ListedCommands)>) -> Result<(), MapError> {
    let Some((context, commands)) = pending else { return Ok(()) };
    if !commands.words.is_empty() {
        commands.render(context).map_err(UmdError::from)?;
        *commands = ListedCommands::new();
    }
    Ok(())
}

fn from_lock(refusal: Refusal) -> MapError {
    match refusal.status {
        NtStatus::GRAPHICS_ALLOCATION_BUSY => MapError::WasStillDrawing,
        _ => MapError::Driver(UmdError::from(refusal)),
    }
}
