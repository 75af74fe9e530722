//! The devices of one adapter: each with its residency requirement list (memory §5.1), what it owns, and whether it runs or stands in the
//! line of those that wait for their turn (memory §8.6). Called by whatever lists, suspends, resumes or asks how long a device has run.
//!
//! It owns the lists and the line. It knows allocations by their ids alone and reads no placement: whether a list is resident, and which
//! device gives way, is decided above (`plan`, `suspend`). Times and ticks are told.
//!
//! What holds between its fields, at every call (`check`, and assertions):
//! - the line holds exactly the suspended devices, each at the tick of its suspension, so the longest waiting stands first;
//! - only a suspended device, or one that withholds content, has postponed steps, because another device's calls take effect at once;
//! - a list names no allocation 0 times.
//!
//! ```text
//!            suspend (stands in line)                    its turn, or its end
//!  runs ───────────────────────────────▶ suspended ───────────────────────────▶ runs
//!   busy ⇄ idle                            busy ⇄ idle: an idle one has no turn
//! ```

mod check;
mod postponed;
mod turn;
mod withheld;

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::FencePoint;

use crate::paging::merge_points;
use crate::slab::{AllocationId, DeviceId, Slab, SpaceId};
pub use postponed::EvictFlags;
pub(crate) use postponed::Postponed;
pub use turn::NextResume;
use turn::{Holder, KnownTurn};
use withheld::Withheld;
pub use withheld::WithheldPlace;

/// A suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Suspension {
    /// Place in the line.
    tick: u64,
    /// Not to be resumed before, because content was taken lately.
    not_before_ns: Option<u64>,
}

/// One device.
#[derive(Debug)]
pub(crate) struct Device<F> {
    space: SpaceId,
    /// Its place among all devices that its process has had.
    nth: u64,
    /// Counts above 0.
    counts: BTreeMap<AllocationId, u64>,
    /// Allocations that it owns.
    owned: BTreeSet<AllocationId>,
    suspended: Option<Suspension>,
    /// When its present turn began.
    active_since_ns: u64,
    /// Since which tick it has nothing to run.
    idle_since: Option<u64>,
    /// The time at which that began.
    idle_since_ns: u64,
    /// Pages that its list named when its present turn was decided.
    turn_pages: u64,
    /// Its next periodic trim is a restart.
    restart_trim: bool,
    /// The last uses that its calls named: what it does not list any more may be in use up to these.
    last_uses: Vec<FencePoint<F>>,
    /// Steps that it asked for while suspended and that wait for its next turn.
    postponed: Vec<Postponed<F>>,
    /// Content that its process has made resident, and that waits until earlier content is not in use.
    withheld: Option<Withheld>,
}

impl<F> Device<F> {
    /// The space of its process.
    pub fn space(&self) -> SpaceId {
        self.space
    }

    /// Its place among all devices that its process has had.
    pub fn nth(&self) -> u64 {
        self.nth
    }

    /// The allocations on its list.
    pub fn list(&self) -> impl DoubleEndedIterator<Item = AllocationId> + '_ {
        self.counts.keys().copied()
    }

    /// Whether its list names anything.
    pub fn lists_any(&self) -> bool {
        !self.counts.is_empty()
    }

    /// Whether its list names an allocation.
    pub fn lists(&self, id: AllocationId) -> bool {
        self.counts.contains_key(&id)
    }

    /// How often its list names an allocation; postponed evicts count still.
    pub fn times_listed(&self, id: AllocationId) -> u64 {
        self.counts.get(&id).copied().unwrap_or(0)
    }

    /// What it lists or owns.
    pub fn touched(&self) -> impl Iterator<Item = AllocationId> + '_ {
        self.counts.keys().chain(&self.owned).copied()
    }

    /// Whether it waits for its turn.
    pub fn is_suspended(&self) -> bool {
        self.suspended.is_some()
    }

    /// Pages that its list named when its present turn was decided.
    pub fn turn_pages(&self) -> u64 {
        self.turn_pages
    }

    /// Its place in the line.
    pub fn suspended_at(&self) -> Option<u64> {
        self.suspended.map(|suspension| suspension.tick)
    }

    /// It does not come back before this time, because content was taken lately.
    pub fn not_before_ns(&self) -> u64 {
        self.suspended.and_then(|suspension| suspension.not_before_ns).unwrap_or(0)
    }

    /// Since which tick it has nothing to run.
    pub fn idle_since(&self) -> Option<u64> {
        self.idle_since
    }

    /// Whether it has nothing to run.
    pub fn is_idle(&self) -> bool {
        self.idle_since.is_some()
    }

    /// When its present turn began.
    pub fn active_since_ns(&self) -> u64 {
        self.active_since_ns
    }
}

/// The devices of one adapter.
#[derive(Debug)]
pub(crate) struct Devices<F> {
    devices: Slab<DeviceId, Device<F>>,
    /// Suspended devices by the time of their suspension.
    line: BTreeMap<u64, DeviceId>,
    /// The last answer about the next turn, valid while only time passes.
    known_turn: Option<KnownTurn>,
    /// The process that has its turn, where processes take turns although every list fits.
    holder: Option<Holder>,
    /// The devices that withhold content.
    withholding: BTreeSet<DeviceId>,
    /// How many calls have brought content that their devices withhold from the start.
    withheld_calls: u64,
}

impl<F: Copy + Eq> Devices<F> {
    /// None yet.
    pub fn new() -> Self {
        Devices {
            devices: Slab::new(),
            line: BTreeMap::new(),
            known_turn: None,
            holder: None,
            withholding: BTreeSet::new(),
            withheld_calls: 0,
        }
    }

    /// A device of a process begins to run, with an empty list.
    pub fn begin(&mut self, space: SpaceId, nth: u64, now_ns: u64) -> DeviceId {
        self.devices.insert(Device {
            space,
            nth,
            counts: BTreeMap::new(),
            owned: BTreeSet::new(),
            suspended: None,
            active_since_ns: now_ns,
            idle_since: None,
            idle_since_ns: 0,
            turn_pages: 0,
            restart_trim: false,
            last_uses: Vec::new(),
            postponed: Vec::new(),
            withheld: None,
        })
    }

    /// A device ends: it leaves the line first, and what it lists is answered with its counts.
    pub fn clear(&mut self, device: DeviceId) -> BTreeMap<AllocationId, u64> {
        assert!(self[device].owned.is_empty(), "allocations go before their device");
        if let Some(suspension) = self.devices[device].suspended.take() {
            let stood = self.line.remove(&suspension.tick);
            debug_assert_eq!(stood, Some(device), "the place of {device:?} in the line is another's");
        }
        self.forget_all_withheld(device);
        std::mem::take(&mut self.devices[device].counts)
    }

    /// A cleared device is gone. Answers with the space of its process and its place there.
    pub fn end(&mut self, device: DeviceId) -> (SpaceId, u64) {
        let gone = self.devices.remove(device);
        assert!(
            gone.counts.is_empty() && gone.suspended.is_none() && gone.withheld.is_none(),
            "a device is cleared before its end"
        );
        (gone.space, gone.nth)
    }

    /// A device, unless its id is stale.
    pub fn get(&self, device: DeviceId) -> Option<&Device<F>> {
        self.devices.get(device)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceId, &Device<F>)> {
        self.devices.iter()
    }

    /// The running devices of these.
    pub fn running<'a>(&'a self, among: impl IntoIterator<Item = &'a DeviceId> + 'a) -> impl Iterator<Item = DeviceId> {
        among.into_iter().copied().filter(|device| self[*device].suspended.is_none())
    }

    /// A list names an allocation once more. Answers whether for the first time.
    pub fn list_up(&mut self, device: DeviceId, id: AllocationId) -> bool {
        let count = self.devices[device].counts.entry(id).or_insert(0);
        *count += 1;
        *count == 1
    }

    /// A list names an allocation once less. Answers whether not at all any more.
    pub fn list_down(&mut self, device: DeviceId, id: AllocationId) -> bool {
        let counts = &mut self.devices[device].counts;
        let count = counts.get_mut(&id).expect("the counts were checked");
        debug_assert!(*count > 0, "{device:?} lists {id:?} 0 times");
        *count -= 1;
        let left = *count == 0;
        if left {
            counts.remove(&id);
        }
        left
    }

    /// A list names an allocation no more. Answers how often it did.
    pub fn unlist(&mut self, device: DeviceId, id: AllocationId) -> Option<u64> {
        let count = self.devices[device].counts.remove(&id);
        debug_assert!(count != Some(0), "{device:?} lists {id:?} 0 times");
        count
    }

    /// A device owns an allocation.
    pub fn own(&mut self, device: DeviceId, id: AllocationId) {
        let new = self.devices[device].owned.insert(id);
        assert!(new, "an allocation gets an owner once");
    }

    /// It does so no more.
    pub fn disown(&mut self, device: DeviceId, id: AllocationId) {
        let owned = self.devices[device].owned.remove(&id);
        assert!(owned, "an allocation leaves its own owner");
    }

    /// A device's call named these last uses.
    pub fn note_uses(&mut self, device: DeviceId, points: &[FencePoint<F>]) {
        merge_points(&mut self.devices[device].last_uses, points);
    }

    /// What a work that stops a device waits for first.
    #[must_use = "a device is stopped behind its last uses"]
    pub fn take_uses(&mut self, device: DeviceId) -> Vec<FencePoint<F>> {
        std::mem::take(&mut self.devices[device].last_uses)
    }

    /// A device has nothing to run since this tick, or has again, at this time.
    pub fn set_idle(&mut self, device: DeviceId, since: Option<u64>, now_ns: u64) {
        let known = &mut self.devices[device];
        (known.idle_since, known.idle_since_ns) = (since, now_ns);
    }

    /// The device's present turn counts from this time on.
    pub fn count_turn_from(&mut self, device: DeviceId, now_ns: u64) {
        self.devices[device].active_since_ns = now_ns;
    }

    /// Whether the next periodic trim of a device is a restart; it is none after that.
    pub fn take_restart_trim(&mut self, device: DeviceId) -> bool {
        std::mem::take(&mut self.devices[device].restart_trim)
    }
}

impl<F> std::ops::Index<DeviceId> for Devices<F> {
    type Output = Device<F>;
    fn index(&self, device: DeviceId) -> &Device<F> {
        &self.devices[device]
    }
}
