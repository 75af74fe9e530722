//! A holder: a process that leaves undone what others might wait for.

use std::sync::Arc;

use dxgk_host::Host;
use kmt_calls::Call;
use softgpu_spec::private_data::Kind;
use wddm_types::{Blame, NtStatus};

use crate::caller::{Caller, Deed, Ground, Job, Outcome, Way, Wish};
use crate::random::Random;
use crate::world::Broken;

/// Contexts of a holder at most.
const LANES_MAX: u64 = 3;
/// Entries of a long list at most.
const MANY_MAX: u64 = 3_000;
/// Bytes of a surface that tiles show.
const TILED_BYTES_MAX: u64 = 64 << 10;

/// The process.
pub struct Holder {
    caller: Caller,
    random: Random,
    vram_bytes: u64,
    /// It signals what its queues wait for in the end.
    releases: bool,
    /// It has given the GPU what it may not be given, at some time.
    guilty: bool,
}

impl Holder {
    /// A holder on a host.
    pub fn new(host: &Arc<Host>, mut random: Random, ground: Ground, vram_bytes: u64) -> Holder {
        let releases = random.chance(50);
        Holder { caller: Caller::new(host, ground), random, vram_bytes, releases, guilty: false }
    }

    /// Whether this is its number, and its device may not be lost.
    pub fn is_innocent(&self, id: u32) -> bool {
        self.caller.id.0 == id && !self.guilty
    }

    /// The calls that it has made.
    pub fn calls(&self) -> u64 {
        self.caller.calls
    }

    /// What it waits in, and what its queues wait for, for people.
    pub fn describe(&self) -> String {
        let (id, waits, gates) = (self.caller.id.0, self.caller.waits_in(), self.caller.opening().len());
        format!("holder {id} waits in {waits:?}, {gates} gates, signals: {}, guilty: {}", self.releases, self.guilty)
    }

    /// It dies in the middle of everything.
    pub fn leave(&mut self) {
        self.caller.die();
    }

    /// Opens its gates, ends its locks, and carries out what it has planned. False: nothing of that is left.
    ///
    /// # Errors
    /// As of [`Holder::turn`].
    pub fn wind_up(&mut self, host: &Host) -> Result<bool, Broken> {
        self.release(host)?;
        let unlocking = self.caller.unlocking();
        self.beside(host, unlocking)?;
        let goes_on = !self.caller.is_free();
        let outcome = self.caller.turn(host).map_err(|place| ("answers", place))?;
        self.take(outcome).map(|()| goes_on)
    }

    /// Work of it that should be done, and is not. A process that has given the GPU what it may not be given has no claim.
    pub fn undone(&self) -> Option<String> {
        self.caller.undone().filter(|_| !self.guilty)
    }

    /// Does one thing, if it can.
    ///
    /// # Errors
    /// An answer that no kernel gives.
    pub fn turn(&mut self, host: &Host) -> Result<(), Broken> {
        if self.releases && self.random.chance(10) {
            return self.release(host);
        }
        if self.caller.is_free() {
            self.choose();
        }
        let outcome = self.caller.turn(host).map_err(|place| ("answers", place))?;
        self.take(outcome)
    }

    /// Takes its answer, if that has come, and looks at what the GPU has found.
    ///
    /// # Errors
    /// As of [`Holder::turn`]; content that is not what was written.
    pub fn look(&mut self, host: &Host) -> Result<(), Broken> {
        let outcome = self.caller.take_answer(host).map_err(|place| ("answers", place))?;
        self.take(outcome)?;
        self.caller.look().map_err(|place| ("content", place))
    }

    fn take(&mut self, outcome: Outcome) -> Result<(), Broken> {
        self.guilty |= self.caller.is_guilty();
        match outcome {
            Outcome::Refused(deed, refusal) if refusal.blame == Blame::Driver && !self.guilty => {
                Err(("answers", format!("{deed:?} of process {} was refused: {refusal}", self.caller.id.0)))
            }
            Outcome::Refused(_, refusal) if refusal.status == NtStatus::DEVICE_REMOVED => {
                self.caller.plan([Deed::DestroyDevice]);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Another of its threads signals what its queues wait for.
    fn release(&mut self, host: &Host) -> Result<(), Broken> {
        self.beside(host, self.caller.opening())
    }

    /// Another of its threads makes these calls. A device that is lost refuses them.
    fn beside(&mut self, host: &Host, calls: Vec<Call>) -> Result<(), Broken> {
        for call in calls {
            self.caller.calls += 1;
            let name = call.name();
            if host.begin_call(self.caller.id, call).is_err() {
                return Err(("answers", format!("{name} of another thread waits")));
            }
        }
        Ok(())
    }

    fn choose(&mut self) {
        if !self.caller.is_set_up() || !self.caller.has_buffers() {
            if self.caller.has_device() {
                self.caller.plan([Deed::DestroyDevice]);
            }
            let lanes: Vec<(Way, u16)> =
                (0..1 + self.random.below(LANES_MAX)).map(|_| *self.random.pick(&self.caller.ground().ways)).collect();
            return self.caller.plan_device(&lanes);
        }
        match self.random.below(100) {
            0..15 if self.caller.ground().first_generation => self.plan_again(),
            0..25 => self.plan_gate(),
            25..38 => self.plan_faults(),
            38..53 => self.plan_tiles(),
            53..65 => self.plan_notice(),
            65..73 => self.plan_lock(),
            73..85 => self.plan_work(),
            85..87 => self.plan_many(),
            87..90 => self.caller.plan([Deed::Register]),
            90..93 => self.caller.plan([Deed::DestroyDevice]),
            _ => {
                let lane = self.lane();
                self.caller.plan([Deed::Await { lane }]);
            }
        }
    }

    fn lane(&mut self) -> usize {
        self.random.index(self.caller.lanes())
    }

    /// A slot for another surface: one that is free, or becomes free.
    fn slot(&mut self) -> usize {
        if let Some(slot) = self.caller.free_slots().next() {
            return slot;
        }
        let slot = *self.random.pick(&self.caller.slots(|_, _| true));
        self.caller.plan([Deed::Unlock { slot }, Deed::Destroy { slot }]);
        slot
    }

    /// A surface of so many bytes at most, made resident.
    fn plan_surface(&mut self, bytes_max: u64, notify: bool) -> usize {
        let slot = self.plan_new(bytes_max, notify);
        self.caller.plan([Deed::Resident { slots: vec![slot] }]);
        slot
    }

    /// A surface of so many bytes at most, on no list.
    fn plan_new(&mut self, bytes_max: u64, notify: bool) -> usize {
        let slot = self.slot();
        self.plan_create(slot, bytes_max, notify);
        slot
    }

    fn plan_create(&mut self, slot: usize, bytes_max: u64, notify: bool) {
        let kind = *self.random.pick(&[Kind::Local, Kind::LocalThenSystem, Kind::System]);
        let bytes = 4096 * (1 + self.random.below(bytes_max / 4096));
        let physical = notify || self.caller.ground().first_generation || self.random.chance(20);
        let wish = Wish { kind, bytes, visible: self.random.chance(50), physical, notify };
        self.caller.plan([Deed::Create { slot, wish }, Deed::Map { slot }]);
    }

    fn plan_write(&mut self, lane: usize, slot: usize) {
        let seed = self.random.draw();
        self.caller.plan([Deed::Submit { lane, job: Job::Write { slot, seed } }]);
    }

    /// A surface leaves in one of several ways, or stays.
    fn plan_end(&mut self, slot: usize) {
        let lazily = self.random.chance(30);
        match self.random.below(10) {
            0..5 => self.caller.plan([Deed::Evict { slots: vec![slot], lazily }]),
            5..7 => self.caller.plan([Deed::Destroy { slot }]),
            7 => self.caller.plan([Deed::Evict { slots: vec![slot], lazily }, Deed::Destroy { slot }]),
            8 => self.caller.plan([Deed::DestroyDevice]),
            _ => {}
        }
    }

    /// A queue waits for what its client alone signals, and what it uses then is evicted.
    fn plan_gate(&mut self) {
        let (lane, bytes) = (self.lane(), self.vram_bytes / 4);
        let slot = self.plan_surface(bytes, false);
        self.caller.plan([Deed::AwaitPaging, Deed::Gate { lane }, Deed::Close { lane }]);
        self.plan_write(lane, slot);
        self.plan_end(slot);
    }

    /// Behind a gate each buffer brings all that there is, again and again: the memory may have room for a part at a time.
    fn plan_again(&mut self) {
        let (lane, bytes) = (self.lane(), self.vram_bytes / 2);
        for slot in self.caller.free_slots().collect::<Vec<_>>() {
            self.plan_create(slot, bytes, false);
        }
        self.caller.plan([Deed::Gate { lane }, Deed::Close { lane }]);
        for _ in 0..3 + self.random.below(4) {
            let seed = self.random.draw();
            self.caller.plan([Deed::Submit { lane, job: Job::WriteAll { seed } }]);
        }
    }

    /// A buffer faults while others are submitted from all contexts.
    fn plan_faults(&mut self) {
        let (wild, lanes) = (self.lane(), self.caller.lanes());
        let word = self.random.chance(50);
        for _ in 0..2 + self.random.below(5) {
            let lane = self.random.index(lanes);
            self.caller.plan([Deed::Submit { lane, job: Job::Nop }]);
        }
        let job = if word { Job::WildWord } else { Job::WildAddress };
        self.caller.plan([Deed::Submit { lane: wild, job }]);
        for _ in 0..4 + self.random.below(20) {
            let lane = if self.random.chance(60) { wild } else { self.random.index(lanes) };
            self.caller.plan([Deed::Submit { lane, job: Job::Nop }]);
        }
    }

    /// A region of tiles shows a surface, and another one the same; the surface is written and checked through both.
    fn plan_tiles(&mut self) {
        let (lane, with) = (self.lane(), self.lane());
        if self.caller.has_tiles() {
            // What is under way may still use them.
            return self.plan_work();
        }
        let slot = self.plan_surface(TILED_BYTES_MAX, false);
        self.caller.plan([Deed::AwaitPaging, Deed::Reserve, Deed::TileFence { lane: with }]);
        self.caller.plan([Deed::TileMap { lane: with, slot }, Deed::TileCopy { lane: with }, Deed::AwaitTiles]);
        self.plan_write(lane, slot);
        self.plan_end(slot);
    }

    /// The driver wants to hear of the evictions of a large allocation with bus addresses.
    fn plan_notice(&mut self) {
        let slot = self.plan_surface(self.vram_bytes / 2, true);
        if self.random.chance(50) {
            self.caller.plan([Deed::AwaitPaging]);
        }
        self.plan_end(slot);
    }

    /// The CPU keeps a lock of what leaves, or for a while one of what comes.
    fn plan_lock(&mut self) {
        if self.random.chance(40) {
            let (lane, bytes) = (self.lane(), self.vram_bytes / 2);
            let slot = self.plan_new(bytes, false);
            self.caller.plan([Deed::Lock { slot }, Deed::Resident { slots: vec![slot] }, Deed::Unlock { slot }]);
            self.caller.plan([Deed::AwaitPaging]);
            return self.plan_write(lane, slot);
        }
        let slot = self.plan_surface(self.vram_bytes / 8, false);
        self.caller.plan([Deed::Lock { slot }]);
        if self.random.chance(40) {
            self.plan_end(slot);
        }
    }

    /// Ordinary work on much memory.
    fn plan_work(&mut self) {
        let (lane, bytes) = (self.lane(), self.vram_bytes / 2);
        let slot = self.plan_surface(bytes, false);
        self.caller.plan([Deed::AwaitPaging]);
        self.plan_write(lane, slot);
        if self.random.chance(60) {
            self.plan_end(slot);
        }
    }

    /// One call for very many allocations.
    fn plan_many(&mut self) {
        let count = (MANY_MAX / 3 + self.random.below(MANY_MAX * 2 / 3)) as usize;
        self.caller.plan([Deed::DestroyMany, Deed::CreateMany { count }, Deed::ResidentMany, Deed::EvictMany]);
        if self.random.chance(70) {
            self.caller.plan([Deed::DestroyMany]);
        }
    }
}
