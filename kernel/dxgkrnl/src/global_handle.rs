//! Global handles: the kernel's own names of shared objects, the same in every process (memory §2.7, sync §2.2). A process that was told
//! one may open what it names, and so may one that guesses it: objects created with NtSecuritySharing have NT handles instead. A global
//! handle keeps nothing alive; it goes with the last open of its object.
//!
//! They are numbered as a process's own handles are. The low six bits are 2 in every one, as in those of Windows, and 0 in a process's own,
//! so that a user-mode driver which is handed either kind knows which it is.

use wddm_types::{AdapterIndex, RawHandle};

use crate::handle::{HandleTable, LOW_BITS};
use crate::number::{KeyedMutexNumber, ResourceBodyNumber, SyncObjectNumber};

/// Most global handles of one machine.
pub const GLOBAL_HANDLES_MAX: usize = (1 << 19) - 1;

/// The low bits of every global handle.
const LOW: u32 = 2;

/// The object that a global handle names, on the adapter of this index if it is an adapter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Global {
    /// The body of a resource.
    Resource { adapter: AdapterIndex, body: ResourceBodyNumber },
    /// A synchronization object without a word in memory.
    SyncObject { adapter: AdapterIndex, object: SyncObjectNumber },
    /// A keyed mutex, of no adapter.
    KeyedMutex { mutex: KeyedMutexNumber },
}

/// All of a machine.
#[derive(Default)]
pub struct GlobalHandles {
    names: HandleTable<Global>,
    named: usize,
}

impl GlobalHandles {
    /// Whether another object can be named.
    pub fn has_room(&self) -> bool {
        self.named < GLOBAL_HANDLES_MAX
    }

    /// Names an object, for which there is room.
    pub fn name(&mut self, object: Global) -> RawHandle {
        assert!(self.has_room(), "asked before the object was made");
        self.named += 1;
        let name = self.names.insert(object).expect("a process may have more");
        debug_assert_eq!(name.0 & ((1 << LOW_BITS) - 1), 0, "a name of a table has no low bits");
        debug_assert_eq!(self.named, self.names.len(), "names are counted");
        RawHandle(name.0 | LOW)
    }

    /// The object that a handle names; `None` for a handle that is none, or stale.
    pub fn get(&self, handle: RawHandle) -> Option<Global> {
        self.names.get(local(handle)?).copied()
    }

    /// Forgets a name that has gone with what it named.
    pub fn forget(&mut self, gone: RawHandle) {
        let named = local(gone).and_then(|name| self.names.remove(name));
        assert!(named.is_some(), "an object goes once");
        self.named -= 1;
        debug_assert_eq!(self.named, self.names.len(), "names are counted");
    }

    /// All, with what they name.
    pub fn iter(&self) -> impl Iterator<Item = (RawHandle, Global)> + '_ {
        self.names.iter().map(|(name, object)| (RawHandle(name.0 | LOW), *object))
    }
}

/// The name in the table; `None` for one that is not global.
fn local(handle: RawHandle) -> Option<RawHandle> {
    (handle.0 & ((1 << LOW_BITS) - 1) == LOW).then_some(RawHandle(handle.0 & !LOW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ObjectNumber;

    #[test]
    fn a_global_handle_is_told_from_a_processs_own() {
        // spec: sync §2.2
        let (mut globals, mut own) = (GlobalHandles::default(), HandleTable::default());
        for number in 0..200_u64 {
            let object = Global::SyncObject { adapter: AdapterIndex(1), object: SyncObjectNumber::from_raw(number) };
            let (global, local) = (globals.name(object), own.insert(number).unwrap());
            assert_eq!((global.0 & 0x3f, global.0 >> 30), (2, 1), "{global}");
            assert_eq!((globals.get(global), globals.get(local), own.get(global)), (Some(object), None, None));
            for wrong in [global.0 ^ 1, global.0 ^ 1 << 31, global.0 ^ 1 << 30, global.0 ^ 1 << 28] {
                assert_eq!(globals.get(RawHandle(wrong)), None);
            }
        }
        assert_eq!(globals.iter().count(), 200);
    }
}
