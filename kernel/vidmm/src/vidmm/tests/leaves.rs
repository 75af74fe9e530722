//! Processes whose mappings have a leaf table each, for tests of where tables are.

use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use super::world::*;
use crate::{DeviceId, MapError, MapRequest, Protection, SpaceId, SpaceKind, Target, Work};

/// Index bits of the levels, leaf first.
pub const LEAF_BITS: [u32; 3] = [5, 5, 6];

/// A process with one device, its tables written.
pub fn process(mm: &mut Mm, machine: &mut Machine) -> (SpaceId, DeviceId) {
    let (space, made) = mm.create_space(SpaceKind::Process).expect("tables");
    machine.carry_out(&made);
    (space, mm.create_device(space))
}

/// A mapping at the beginning of a leaf table of its own: 32 pages of the kernel's.
pub fn map(mm: &mut Mm, space: SpaceId, leaf: u64) -> Result<Option<Work<u8>>, MapError> {
    let request = MapRequest {
        target: Target::SystemPages(PageRun { first: 50_000 + leaf * 32, count: Pages(32) }),
        size_pages: Pages(32),
        base: Some(GpuVa((1024 + leaf * 32) * PAGE_BYTES)),
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: Protection::READ_WRITE,
    };
    mm.map_gpu_va(space, request).map(|(_, work)| work)
}

/// The page that the last page of such a mapping leads to on the hardware.
pub fn seen(machine: &Machine, mm: &Mm, space: SpaceId, leaf: u64) -> Option<u64> {
    let va = GpuVa((1024 + leaf * 32 + 31) * PAGE_BYTES);
    machine.walk(mm.root(space), &LEAF_BITS, va).map(|entry| entry.address.offset / PAGE_BYTES)
}
