//! GPU virtual addresses: reserved, mapped whole and in part, updated at their turn, freed; and updates that wait for ever.

use d3dkmt::{
    Fence, GpuVaMapping, GpuVaProtection, GpuVaReservation, HwContext, UpdateGpuVaFlags, UpdateGpuVaOperation,
};
use softgpu_umd::{Gpu, Surface, UmdError};
use wddm_types::{GpuVa, NodeId, RawHandle};

/// The least that is reserved at once.
const TILE: u64 = 64 << 10;

/// What stays until the life ends: a context with updates that wait, and the fence of those that do not.
pub struct Addresses {
    _context: HwContext,
    _turn: Fence,
}

pub fn live(gpu: &Gpu, surface: &Surface, never: &Fence) -> Result<Addresses, UmdError> {
    let (device, paging) = (gpu.device(), gpu.paging());
    let reserve =
        |size_bytes| device.reserve_gpu_va(GpuVaReservation { size_bytes, zero: true, ..GpuVaReservation::default() });
    let (base, freed) = (reserve(4 * TILE)?, reserve(TILE)?);
    device.free_gpu_va(freed, TILE)?;
    // A part of the allocation at an address of the kernel's choice, and one at an address that was free just now.
    let (part, _) = paging.map_at(surface.allocation(), GpuVa::NULL, 4, 8, false)?;
    paging.map_at(surface.allocation(), freed, 8, 4, true)?;
    let (base_of_last, protection) = (base.offset(3 * TILE), GpuVaProtection::NO_ACCESS);
    paging
        .map_gpu_va(None, GpuVaMapping { base: base_of_last, size_in_pages: 16, protection, ..Default::default() })?;
    device.free_gpu_va(part, 8 << 12)?;
    let context = device.create_context(NodeId(0))?;
    let turn = device.create_native_fence(Default::default())?;
    let map = |tile| map_tile(surface.allocation().handle(), base.offset(tile * TILE));
    let copy = UpdateGpuVaOperation::Copy { source: base, size_bytes: TILE, destination: base.offset(2 * TILE) };
    let unmap = UpdateGpuVaOperation::Unmap { base: base.offset(TILE), size_bytes: TILE, protection };
    device.update_gpu_va(&context, (&turn, 0), vec![map(0), map(1), copy], UpdateGpuVaFlags::empty())?;
    device.wait(&[(&turn, 1)])?;
    device.update_gpu_va(&context, (&turn, 5), vec![unmap], UpdateGpuVaFlags::DO_NOT_WAIT)?;
    device.update_gpu_va(&context, (never, 1), vec![copy, map(3)], UpdateGpuVaFlags::empty())?;
    Ok(Addresses { _context: context, _turn: turn })
}

fn map_tile(allocation: RawHandle, base: GpuVa) -> UpdateGpuVaOperation {
    UpdateGpuVaOperation::Map {
        base,
        size_bytes: TILE,
        allocation,
        offset_bytes: 0,
        allocation_size_bytes: 0,
        protection: None,
    }
}
