//! The current allocation of each storage.

use std::collections::BTreeMap;

use softgpu_umd::{Gpu, Surface, SurfaceKind};

use crate::drive::error::DriveError;
use crate::steps::StorageId;
use crate::workload::Storage;

/// The allocations of the storages that are alive.
pub struct Storages {
    sizes: Vec<u64>,
    /// Where they may lie.
    kind: SurfaceKind,
    alive: BTreeMap<StorageId, Surface>,
}

impl Storages {
    /// No storage has an allocation yet. `in_place`: they may lie in system memory, too.
    pub fn new(storages: &[Storage], in_place: bool) -> Storages {
        let kind = if in_place { SurfaceKind::LocalThenSystem } else { SurfaceKind::Local };
        Storages { sizes: storages.iter().map(|storage| storage.bytes).collect(), kind, alive: BTreeMap::new() }
    }

    /// The storage's allocation, made at its first use.
    pub fn get_or_create(&mut self, gpu: &Gpu, id: StorageId) -> Result<&Surface, DriveError> {
        if !self.alive.contains_key(&id) {
            let surface = gpu.create_surface(self.kind, self.bytes(id))?;
            self.alive.insert(id, surface);
        }
        Ok(self.get(id))
    }

    /// The allocation of a storage that an operation uses.
    ///
    /// # Panics
    /// When it has none: operations make theirs first.
    pub fn get(&self, id: StorageId) -> &Surface {
        self.alive.get(&id).expect("an operation's storages have allocations")
    }

    /// The allocation of a storage, if it has one.
    pub fn find(&self, id: StorageId) -> Option<&Surface> {
        self.alive.get(&id)
    }

    /// The storage died: its allocation goes behind the work that may still use it.
    pub fn drop_storage(&mut self, id: StorageId) {
        self.alive.remove(&id);
    }

    /// Its size.
    pub fn bytes(&self, id: StorageId) -> u64 {
        self.sizes[id.storage as usize]
    }
}
