//! A surface that the GPU has in tiles and the CPU in rows, as two allocations (memory §6.5): one create call makes both, told
//! apart by their private data alone, and the kernel knows nothing of formats. A lock copies tiles to rows on the GPU and
//! then locks the rows without DonotWait: the kernel waits for the copy. An unlock copies written rows back.
//!
//! For drivers of the first generation, where the kernel knows what the GPU uses.

use std::sync::Arc;

use d3dkmt::{
    Allocation, AllocationRequest as Requested, Context, CreateAllocationFlags, Device, Lock, LockFlags,
    MakeResidentFlags, PagingQueue, Refusal, Resource, ResourceRequest,
};
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use softgpu_spec::tile::Tiling;

use crate::listed::{ListedCommands, SurfacePart};

/// A surface in both forms.
pub struct TwoForms {
    resource: Resource,
    tiling: Tiling,
    bytes: u64,
}

impl TwoForms {
    /// Makes both with one call, on the device's list. `bytes` are whole bands.
    ///
    /// # Errors
    /// When the driver refuses the size, or memory is short.
    // spec: memory §6.5, step 1
    pub fn create(device: &Device, paging: &PagingQueue, tiling: Tiling, bytes: u64) -> Result<TwoForms, Refusal> {
        let request = |kind, cpu_visible| AllocationRequest {
            kind,
            cpu_visible,
            cached: false,
            accessed_physically: true,
            size_bytes: bytes,
        };
        // CAST: a pitch is at most a mebibyte.
        let tiles = Details { tile_pitch: tiling.pitch() as u32, ..Details::default() };
        let private_data =
            [request(Kind::Local, false).encode_with(&tiles).to_vec(), request(Kind::System, true).encode().to_vec()];
        let allocations = private_data.map(|private_data| Requested { private_data, ..Requested::default() });
        let call = ResourceRequest { flags: CreateAllocationFlags::CREATE_RESOURCE, ..ResourceRequest::default() };
        let resource = Resource::create(device, allocations.to_vec(), call)?;
        let handles = resource.allocations().iter().map(|allocation| allocation.handle()).collect();
        paging.make_resident(handles, MakeResidentFlags::empty())?;
        Ok(TwoForms { resource, tiling, bytes })
    }

    /// The GPU's form: tiles.
    pub fn swizzled(&self) -> &Arc<Allocation> {
        &self.resource.allocations()[0]
    }

    /// The CPU's form: rows.
    pub fn linear(&self) -> &Arc<Allocation> {
        &self.resource.allocations()[1]
    }

    /// Shows the rows: a copy on `context`, and a lock that waits for it.
    ///
    /// # Errors
    /// The kernel's refusals of the copy or the lock.
    // spec: memory §6.5, steps 2 to 6
    pub fn lock(&self, context: &Context) -> Result<Lock, Refusal> {
        let mut commands = ListedCommands::new();
        commands.unswizzle(self.swizzled(), (self.linear(), 0), self.whole());
        commands.render(context)?;
        self.linear().lock_legacy(Vec::new(), LockFlags::LOCK_ENTIRE)
    }

    /// Ends a lock; if the CPU has written, copies the rows back to the tiles before the GPU uses them again.
    ///
    /// # Errors
    /// The kernel's refusals of the copy.
    // spec: memory §6.5, step 7
    pub fn unlock(&self, context: &Context, lock: Lock, written: bool) -> Result<(), Refusal> {
        drop(lock);
        if written {
            let mut commands = ListedCommands::new();
            commands.swizzle((self.linear(), 0), self.swizzled(), self.whole());
            commands.render(context)?;
        }
        Ok(())
    }

    fn whole(&self) -> SurfacePart {
        SurfacePart { tiling: self.tiling, offset: 0, bytes: self.bytes }
    }
}
