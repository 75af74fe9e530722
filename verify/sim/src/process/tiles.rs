//! Tiled addresses: a reservation in regions, each of which shows the beginning of a surface because it was mapped there, or
//! because another region's entries were copied there. The GPU uses such an address like any other of the surface.

use kmt_calls::{Call, GpuVaCall, NativeFenceRequest, SyncCall, UpdateGpuVaFlags, UpdateGpuVaOperation};
use wddm_types::{GpuVa, Pages};

use crate::process::Process;
use crate::process::issue::{Issue, Op, Point};
use crate::process::model::{Known, QUEUES_MAX};
use crate::process::plan::PAGES_MAX;

/// Regions of the reservation.
const REGIONS: usize = 6;
/// Bytes of one: the largest surface fits.
const REGION_BYTES: u64 = PAGES_MAX * 4096;

/// The reservation, once there is one.
#[derive(Debug)]
pub struct Tiles {
    base: GpuVa,
    fence: Option<Known>,
    /// The last update's value of the fence.
    value: u64,
    regions: [Option<Region>; REGIONS],
}

/// The mapping of a region.
#[derive(Clone, Copy, Debug)]
struct Region {
    slot: usize,
    bytes: u64,
    /// The surface has gone; what was submitted before may still use it here.
    gone: bool,
    /// Submissions that may use it.
    uses: [u64; QUEUES_MAX],
}

impl Region {
    fn shows(&self) -> bool {
        !self.gone
    }
}

/// One change.
#[derive(Clone, Copy, Debug)]
pub enum Tile {
    /// A region shows a surface.
    Map { region: usize, slot: usize },
    /// A region shows what another one shows.
    Copy { from: usize, to: usize },
    /// A region shows nothing.
    Unmap { region: usize },
}

impl Process {
    /// Plans changes of regions that nothing uses any more, or the reservation itself.
    pub(super) fn plan_tiles(&mut self) {
        if self.tiles.is_none() {
            return self.plan.extend([Op::Reserve, Op::TileFence]);
        }
        let mut changes = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let to = self.random.index(REGIONS);
            let shown: Vec<usize> = (0..REGIONS).filter(|region| self.region(*region).is_some()).collect();
            let mapped: Vec<usize> = (0..self.surfaces.len()).filter(|slot| self.can_be_tiled(*slot)).collect();
            let change = match self.random.below(10) {
                0 => Tile::Unmap { region: to },
                1..5 if !mapped.is_empty() => Tile::Map { region: to, slot: *self.random.pick(&mapped) },
                _ if !shown.is_empty() => Tile::Copy { from: *self.random.pick(&shown), to },
                _ => continue,
            };
            if let Some(region) = self.tiles.as_ref().and_then(|tiles| tiles.regions[to]) {
                self.plan_idle(region.uses);
            }
            changes.push(change);
        }
        if !changes.is_empty() {
            let queue = self.random.index(self.queues.len());
            self.plan.extend([Op::Tiles { queue, changes }, Op::AwaitTiles]);
        }
    }

    fn can_be_tiled(&self, slot: usize) -> bool {
        self.surfaces[slot].as_ref().is_some_and(|surface| !surface.pinned && surface.va.is_some())
    }

    fn region(&self, region: usize) -> Option<Region> {
        self.tiles.as_ref().and_then(|tiles| tiles.regions[region]).filter(Region::shows)
    }

    /// The call of one of these operations.
    pub(super) fn tile_call(&self, op: &Op) -> Issue {
        let device = self.device;
        match (op, &self.tiles) {
            (Op::Reserve, _) => Issue::Call(Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress {
                device,
                base: GpuVa::NULL,
                minimum: GpuVa::NULL,
                maximum: GpuVa::NULL,
                size_bytes: REGIONS as u64 * REGION_BYTES,
                reservation_type: 0,
                driver_protection: 0,
            })),
            (Op::TileFence, Some(_)) => {
                Issue::Call(Call::Sync(SyncCall::CreateNativeFence { device, request: NativeFenceRequest::default() }))
            }
            (Op::AwaitTiles, Some(Tiles { fence: Some(fence), value, .. })) => {
                let point = Point { handle: fence.made.fence, number: fence.number, value: *value };
                self.wait(vec![point], false, false)
            }
            (Op::Tiles { queue, changes }, Some(Tiles { base, fence: Some(fence), value, .. })) => {
                let place = |region: usize| base.offset(region as u64 * REGION_BYTES);
                let mut regions = self.tiles.as_ref().expect("matched").regions;
                let mut operations = Vec::new();
                for change in changes {
                    operations.extend(match *change {
                        Tile::Map { region, slot } if self.can_be_tiled(slot) => Some(UpdateGpuVaOperation::Map {
                            base: place(region),
                            size_bytes: Pages::holding(self.surface(slot).wish.bytes).bytes(),
                            allocation: self.surface(slot).handle,
                            offset_bytes: 0,
                            allocation_size_bytes: 0,
                            protection: None,
                        }),
                        Tile::Copy { from, to } => {
                            regions[from].filter(Region::shows).map(|region| UpdateGpuVaOperation::Copy {
                                source: place(from),
                                size_bytes: region.bytes,
                                destination: place(to),
                            })
                        }
                        Tile::Unmap { region } => Some(UpdateGpuVaOperation::Unmap {
                            base: place(region),
                            size_bytes: REGION_BYTES,
                            protection: kmt_calls::GpuVaProtection::NO_ACCESS,
                        }),
                        Tile::Map { .. } => None,
                    });
                    self.apply(&mut regions, *change);
                }
                if operations.is_empty() {
                    return Issue::Done;
                }
                Issue::Call(Call::GpuVa(GpuVaCall::UpdateGpuVirtualAddress {
                    device,
                    context: self.queues[*queue].context,
                    fence: fence.made.fence,
                    fence_value: *value,
                    operations,
                    flags: UpdateGpuVaFlags::DO_NOT_WAIT,
                }))
            }
            _ => Issue::Done,
        }
    }

    fn apply(&self, regions: &mut [Option<Region>; REGIONS], change: Tile) {
        match change {
            Tile::Map { region, slot } if self.can_be_tiled(slot) => {
                let bytes = Pages::holding(self.surface(slot).wish.bytes).bytes();
                regions[region] = Some(Region { slot, bytes, gone: false, uses: [0; QUEUES_MAX] });
            }
            Tile::Copy { from, to } => {
                let copied = regions[from].filter(Region::shows);
                let copied = copied.map(|region| Region { uses: [0; QUEUES_MAX], ..region });
                // A region that shows itself goes on being used.
                if from != to && copied.is_some() {
                    regions[to] = copied;
                }
            }
            Tile::Unmap { region } => regions[region] = None,
            Tile::Map { .. } => {}
        }
    }

    /// The reservation is made.
    pub(super) fn reserved(&mut self, base: GpuVa) {
        self.tiles = Some(Tiles { base, fence: None, value: 0, regions: [None; REGIONS] });
    }

    /// Its fence is made.
    pub(super) fn tiles_ready(&mut self, fence: Known) {
        self.tiles.as_mut().expect("reserved before").fence = Some(fence);
    }

    /// An update was accepted: it is awaited next.
    pub(super) fn tiles_changed(&mut self, changes: &[Tile]) {
        let Some(mut tiles) = self.tiles.take() else { return };
        changes.iter().for_each(|change| self.apply(&mut tiles.regions, *change));
        tiles.value += 1;
        self.tiles = Some(tiles);
    }

    /// A surface has gone: its tiles show nothing, as soon as nothing uses them.
    pub(super) fn tiles_forget(&mut self, slot: usize) {
        for region in self.tiles.iter_mut().flat_map(|tiles| &mut tiles.regions).flatten() {
            region.gone |= region.slot == slot;
        }
    }

    /// Where a surface is seen beside its own address.
    pub(super) fn tile_of(&mut self, slot: usize) -> Option<u64> {
        let tiles = self.tiles.as_ref()?;
        let shows = |region: &usize| tiles.regions[*region].is_some_and(|known| known.shows() && known.slot == slot);
        let found: Vec<usize> = (0..REGIONS).filter(shows).collect();
        let base = tiles.base;
        (!found.is_empty() && self.random.chance(70))
            .then(|| base.offset(*self.random.pick(&found) as u64 * REGION_BYTES).0)
    }

    /// A submission may use all addresses of a surface.
    pub(super) fn tiles_used(&mut self, slot: usize, queue: usize, value: u64) {
        for region in self.tiles.iter_mut().flat_map(|tiles| &mut tiles.regions).flatten() {
            if region.shows() && region.slot == slot {
                region.uses[queue] = value;
            }
        }
    }

    /// A queue has gone, and its uses with it.
    pub(super) fn tiles_unused(&mut self, queue: usize) {
        for region in self.tiles.iter_mut().flat_map(|tiles| &mut tiles.regions).flatten() {
            region.uses[queue] = 0;
        }
    }
}
