//! What the kernel has answered to a deed.

use kmt_calls::{Refusal, Reply, Residency};
use kmt_link::MappedBytes;
use wddm_types::RawHandle;

use super::{Book, Caller, Deed, Lane, Outcome, Surface, Tiles, Way, Wish};

/// Bytes of a region of tiles.
pub(super) const TILE_BYTES: u64 = 64 << 10;

impl Tiles {
    /// Where a surface is seen beside its own address.
    pub(super) fn addresses_of(&self, slot: usize) -> impl Iterator<Item = u64> + '_ {
        let at = move |region: usize| self.base.offset(region as u64 * TILE_BYTES).0;
        (0..2).filter(move |region| self.shown[*region] == Some(slot)).map(at)
    }
}

impl Caller {
    pub(super) fn answered(&mut self, deed: Deed, result: Result<Reply, Refusal>) -> Result<Outcome, String> {
        let reply = match result {
            Ok(reply) => reply,
            Err(refusal) => {
                self.plan.clear();
                return Ok(Outcome::Refused(deed, refusal));
            }
        };
        match (deed, reply) {
            (Deed::Open, Reply::Handle(adapter)) => self.adapter = adapter,
            (Deed::Device, Reply::Handle(device)) => self.book = Book { device, ..Book::default() },
            (Deed::PagingQueue, Reply::PagingQueue(made)) => self.book.paging = Some((made.queue, made.fence)),
            (Deed::DestroyDevice, Reply::Done) => self.book = Book::default(),
            (
                Deed::AwaitPaging
                | Deed::AwaitTiles
                | Deed::Await { .. }
                | Deed::Unlock { .. }
                | Deed::Close { .. }
                | Deed::Signal { .. }
                | Deed::DestroyMany,
                Reply::Done,
            )
            | (Deed::EvictMany, Reply::BytesToTrim(_))
            | (Deed::Register, Reply::Handle(_))
            | (Deed::QueryMemory, Reply::VideoMemoryInfo(_))
            | (Deed::State, Reply::DeviceState(_)) => {}
            (deed, reply) => {
                let left = self.lane_answered(deed, reply);
                let left = left.and_then(|(deed, reply)| self.surface_answered(deed, reply));
                let left = left.and_then(|(deed, reply)| self.tiles_answered(deed, reply));
                if let Some((deed, reply)) = left {
                    return Err(format!("{deed:?} answered {reply:?}"));
                }
            }
        }
        Ok(Outcome::Fine)
    }

    /// Gives an answer back that is none to a deed of lanes.
    fn lane_answered(&mut self, deed: Deed, reply: Reply) -> Option<(Deed, Reply)> {
        match (deed, reply) {
            (Deed::Context { way, .. }, Reply::Handle(context)) => self.add_lane(way, context),
            (Deed::Context { way, .. }, Reply::Context(made)) => self.add_lane(way, made.context),
            (Deed::Progress { lane }, Reply::HwQueue(made)) => {
                let lane = &mut self.book.lanes[lane];
                (lane.queue, lane.progress) = (made.queue, Some((made.progress.fence, made.progress.current)));
            }
            (Deed::Progress { lane }, Reply::MonitoredFence(made)) => {
                self.book.lanes[lane].progress = Some((made.fence, made.value));
            }
            (Deed::Gate { lane }, Reply::Fence(made)) => self.book.lanes[lane].gate = Some((made.fence, 0)),
            (Deed::Gate { lane }, Reply::MonitoredFence(made)) => self.book.lanes[lane].gate = Some((made.fence, 0)),
            (Deed::Submit { lane, .. }, Reply::Queued(_)) => {
                self.book.lanes[lane].last += 1;
                self.plan.push_front(Deed::Signal { lane });
            }
            (Deed::Submit { lane, .. }, Reply::Done) => self.book.lanes[lane].last += 1,
            other => return Some(other),
        }
        None
    }

    /// Gives an answer back that is none to a deed of surfaces.
    fn surface_answered(&mut self, deed: Deed, reply: Reply) -> Option<(Deed, Reply)> {
        match (deed, reply) {
            (Deed::Create { slot, wish }, Reply::Allocations(created)) if created.allocations.len() == 1 => {
                let made = &created.allocations[0];
                let (handle, va) = (made.handle, made.address.for_gpu());
                let Wish { bytes, physical, .. } = wish;
                self.book.slots[slot] = Some(Surface { handle, bytes, va, physical, listed: 0, lock: None });
            }
            (Deed::CreateMany { .. }, Reply::Allocations(created)) => {
                self.book.many = created.allocations.iter().map(|made| made.handle).collect();
            }
            (Deed::Map { slot }, Reply::MappedVa { va, paging_fence_value }) => {
                self.due(paging_fence_value);
                self.change(slot, |surface| surface.va = va);
            }
            (Deed::Resident { slots }, Reply::Residency(residency)) => {
                self.resident(residency);
                slots.iter().for_each(|slot| self.change(*slot, |surface| surface.listed += 1));
            }
            (Deed::ResidentMany, Reply::Residency(residency)) => self.resident(residency),
            (Deed::Evict { slots, .. }, Reply::BytesToTrim(_)) => {
                let evicted = |surface: &mut Surface| surface.listed = surface.listed.saturating_sub(1);
                slots.iter().for_each(|slot| self.change(*slot, evicted));
            }
            (Deed::Destroy { slot }, Reply::Done) => {
                self.book.slots[slot] = None;
                self.book.tiles.iter_mut().flat_map(|tiles| &mut tiles.shown).for_each(|shown| {
                    shown.take_if(|shown| *shown == slot);
                });
            }
            (Deed::Lock { slot }, Reply::Mapped(mapped)) => {
                let lock = MappedBytes::new(&**self.link(), mapped);
                self.change(slot, |surface| surface.lock = Some(lock));
            }
            other => return Some(other),
        }
        None
    }

    /// Gives an answer back that is none to a deed of tiles.
    fn tiles_answered(&mut self, deed: Deed, reply: Reply) -> Option<(Deed, Reply)> {
        match (deed, reply) {
            (Deed::Reserve, Reply::MappedVa { va: base, .. }) => {
                self.book.tiles = Some(Tiles { base, fence: None, shown: [None; 2] });
            }
            (Deed::TileFence { .. }, Reply::Fence(made)) => self.tile_fence(made.fence),
            (Deed::TileFence { .. }, Reply::MonitoredFence(made)) => self.tile_fence(made.fence),
            (Deed::TileMap { slot, .. }, Reply::Done) => self.tile_changed(|shown| shown[0] = Some(slot)),
            (Deed::TileCopy { .. }, Reply::Done) => self.tile_changed(|shown| shown[1] = shown[0]),
            other => return Some(other),
        }
        None
    }

    fn add_lane(&mut self, way: Way, context: RawHandle) {
        let (queue, progress, last, gate) = (RawHandle::NONE, None, 0, None);
        self.book.lanes.push(Lane { way, context, queue, progress, last, gate });
    }

    fn change(&mut self, slot: usize, change: impl FnOnce(&mut Surface)) {
        if let Some(surface) = &mut self.book.slots[slot] {
            change(surface);
        }
    }

    fn due(&mut self, value: u64) {
        self.book.due = self.book.due.max(value);
    }

    fn resident(&mut self, residency: Residency) {
        if let Residency::Pending { paging_fence_value, .. } = residency {
            self.due(paging_fence_value);
        }
    }

    fn tile_fence(&mut self, fence: RawHandle) {
        self.book.tiles.iter_mut().for_each(|tiles| tiles.fence = Some((fence, 0)));
    }

    /// An update was accepted: the fence gets the next value when it is done.
    fn tile_changed(&mut self, change: impl FnOnce(&mut [Option<usize>; 2])) {
        if let Some(tiles) = &mut self.book.tiles {
            change(&mut tiles.shown);
            tiles.fence.iter_mut().for_each(|(_, value)| *value += 1);
        }
    }
}
