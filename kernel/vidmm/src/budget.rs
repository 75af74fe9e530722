//! The processes of one adapter, and how many bytes each may keep on its lists, per group of segments (memory §5.5). The size formula is
//! policy: no document gives one (memory §10.3). Asked by `plan`, `trim` and the kernel's calls.
//!
//! The formula. A process's *need* is what the lists of its devices require, each allocation once. Its budget is what it
//! could have if it wanted everything and all others wanted what they need now: processes of a higher protection are
//! served first; among equals the room is divided evenly, and what one does not need goes to the others; those below do
//! not count. Every process gets at least its reservation. A process alone gets everything, and if all processes keep to their budgets, all
//! of their lists fit at once.
//!
//! It owns which processes there are, their protection, devices, caps, reservations and needs. It is told of needs (`count_need`) and knows
//! neither allocations nor segments: it has the bytes of each group from the start, because no group ever grows or shrinks.
//!
//! What holds between its fields, at every call (`check`, and assertions):
//! - a process is among the claims of a group exactly when it needs or has reserved some of it, so a division looks at those alone;
//! - the reservations of a group are no more than the group;
//! - the watch is still only while no budget can have changed by a step since all processes were told.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::PAGE_BYTES;

use self::division::{Division, Share, level};
use self::watch::BudgetWatch;
use crate::policy::Policy;
use crate::slab::{DeviceId, SpaceId};

mod check;
mod division;
mod group;
mod over;
mod watch;

pub use group::{SegmentGroup, VideoMemoryInfo};

/// Protection of a process's memory: while a lower one holds a byte, a higher one loses none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessPriority {
    /// Gives way to processes of any other priority.
    Background,
    /// The usual.
    #[default]
    Normal,
    /// In the foreground.
    Foreground,
}

/// A budget that is not what its process was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetChange {
    /// The process.
    pub space: SpaceId,
    /// The group of segments.
    pub group: SegmentGroup,
    /// The new budget in bytes.
    pub budget_bytes: u64,
}

/// A reservation above what is left to reserve (`STATUS_INVALID_PARAMETER`); nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{available_bytes} bytes are available for reservation")]
pub struct ReservationError {
    /// `AvailableForReservation`.
    pub available_bytes: u64,
}

/// One process on this adapter.
#[derive(Debug, Default)]
struct Process {
    priority: ProcessPriority,
    /// Devices that it has, by the order in which they were made.
    devices: BTreeMap<u64, DeviceId>,
    /// How many it has had.
    made: u64,
    groups: [Group; 2],
    /// When it was asked to trim last.
    asked_ns: Option<u64>,
}

/// One process in one group; bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    cap: Option<u64>,
    reservation: u64,
    need: u64,
    told: Option<u64>,
}

impl Group {
    /// What the others leave to it: no more than its cap.
    fn capped_need(&self, more: u64) -> u64 {
        (self.need + more).min(self.cap.unwrap_or(u64::MAX))
    }

    fn claims(&self) -> bool {
        self.need > 0 || self.reservation > 0
    }
}

/// The processes of one adapter.
#[derive(Debug)]
pub(crate) struct Processes {
    /// What each group can hold.
    group_bytes: [u64; 2],
    processes: BTreeMap<SpaceId, Process>,
    /// By group: the processes that need something of it, or have reserved some.
    claims: [BTreeSet<SpaceId>; 2],
    /// By group: the needs of all processes together.
    needs: [u64; 2],
    /// How many budgets are capped.
    caps: usize,
    watch: BudgetWatch,
}

impl Processes {
    /// No process yet, on an adapter whose groups hold so many bytes.
    pub fn new(group_bytes: [u64; 2]) -> Self {
        let (processes, claims, watch) = (BTreeMap::new(), Default::default(), BudgetWatch::default());
        Processes { group_bytes, processes, claims, needs: [0; 2], caps: 0, watch }
    }

    /// A process comes to the adapter.
    pub fn begin(&mut self, space: SpaceId) {
        let before = self.processes.insert(space, Process::default());
        assert!(before.is_none(), "a space is of one process");
        debug_assert!(!self.claims.iter().any(|claims| claims.contains(&space)), "{space:?} is new, and has a claim");
        self.watch.look_again();
    }

    /// A process leaves, and takes nothing any more.
    pub fn end(&mut self, space: SpaceId) {
        let gone = self.processes.remove(&space).expect("a process's space");
        assert!(gone.devices.is_empty(), "devices go before their space");
        let needs = gone.groups.map(|group| group.need);
        debug_assert_eq!(needs, [0; 2], "{space:?} has no device, and they need something");
        self.claims.iter_mut().for_each(|claims| _ = claims.remove(&space));
        self.caps -= gone.groups.iter().filter(|group| group.cap.is_some()).count();
        self.watch.look_again();
    }

    /// Whether a space is a process's.
    pub fn knows(&self, space: SpaceId) -> bool {
        self.processes.contains_key(&space)
    }

    /// All of them.
    pub fn spaces(&self) -> impl Iterator<Item = SpaceId> + '_ {
        self.processes.keys().copied()
    }

    /// Gives a new device its place among all that its process has had: `device` makes it.
    pub fn add_device(&mut self, space: SpaceId, device: impl FnOnce(u64) -> DeviceId) -> DeviceId {
        let process = self.process_mut(space);
        process.made += 1;
        let device = device(process.made);
        let before = process.devices.insert(process.made, device);
        debug_assert!(before.is_none(), "{device:?} and {before:?} have one place in {space:?}");
        device
    }

    /// A device of a process ends.
    pub fn remove_device(&mut self, space: SpaceId, nth: u64) {
        let gone = self.process_mut(space).devices.remove(&nth);
        assert!(gone.is_some(), "a device is of its process");
    }

    /// The devices of a process, in the order in which they were made.
    pub fn devices(&self, space: SpaceId) -> impl DoubleEndedIterator<Item = DeviceId> + '_ {
        self.processes[&space].devices.values().copied()
    }

    /// The device that a process made at this place, if it has it.
    pub fn device_at(&self, space: SpaceId, nth: u64) -> Option<DeviceId> {
        self.processes.get(&space)?.devices.get(&nth).copied()
    }

    /// How well a process's memory is protected.
    pub fn priority(&self, space: SpaceId) -> ProcessPriority {
        self.processes[&space].priority
    }

    /// Says how well, and whether that is new.
    #[must_use = "what its devices list or own has another protection now"]
    pub fn set_priority(&mut self, space: SpaceId, priority: ProcessPriority) -> bool {
        let changed = std::mem::replace(&mut self.process_mut(space).priority, priority) != priority;
        if changed {
            self.watch.look_again();
        }
        changed
    }

    /// Caps a process's budget; `None` lifts the cap.
    pub fn set_cap(&mut self, space: SpaceId, group: SegmentGroup, cap: Option<u64>) {
        let before = std::mem::replace(&mut self.process_mut(space).groups[group as usize].cap, cap);
        self.caps = self.caps + usize::from(cap.is_some()) - usize::from(before.is_some());
        self.watch.look_again();
    }

    /// Changes a reservation.
    pub fn reserve(
        &mut self,
        space: SpaceId,
        group: SegmentGroup,
        bytes: u64,
        policy: &Policy,
    ) -> Result<(), ReservationError> {
        let available_bytes = self.available_for_reservation(space, group, policy);
        if bytes > available_bytes {
            return Err(ReservationError { available_bytes });
        }
        self.process_mut(space).groups[group as usize].reservation = bytes;
        self.watch.look_again();
        self.note_claim(space, group);
        let (reserved, whole) = (self.reserved(group), self.group_bytes(group));
        debug_assert!(reserved <= whole, "{reserved} of {whole} bytes {group:?} are reserved");
        Ok(())
    }

    /// A process needs so many bytes more, or fewer.
    // spec: memory §10.1 row 7
    pub fn count_need(&mut self, space: SpaceId, group: SegmentGroup, bytes: u64, add: bool) {
        let need = &mut self.process_mut(space).groups[group as usize].need;
        let before = *need;
        assert!(add || bytes <= before, "{bytes} bytes leave the lists of {space:?}, which need {before}");
        let now = if add { before + bytes } else { before - bytes };
        *need = now;
        let needs = &mut self.needs[group as usize];
        *needs = *needs - before + now;
        self.watch.moved(bytes);
        if before == 0 || now == 0 {
            self.note_claim(space, group);
        }
        let claims = || self.claims[group as usize].contains(&space);
        debug_assert!(now == 0 || claims(), "{space:?} needs {now} bytes {group:?}, and is not looked at");
    }

    /// The budgets that changed since the last call, by more than the policy's step.
    pub fn budget_changes(&mut self, policy: &Policy) -> Vec<BudgetChange> {
        if self.is_still() {
            return Vec::new();
        }
        let mut slack = u64::MAX;
        let spaces: Vec<SpaceId> = self.spaces().collect();
        let groups = SegmentGroup::ALL.map(|group| (group, self.division(group)));
        let mut changes = Vec::new();
        for space in spaces {
            for (group, division) in &groups {
                let group = *group;
                let budget_bytes = self.budget_in(division, space, group);
                let step = self.group_bytes(group) >> policy.budget_step_shift;
                let told = &mut self.process_mut(space).groups[group as usize].told;
                // The process asks for its first budget itself; only a later change is reported.
                let before = told.unwrap_or(budget_bytes);
                if before.abs_diff(budget_bytes) > step {
                    changes.push(BudgetChange { space, group, budget_bytes });
                    *told = Some(budget_bytes);
                    slack = slack.min(step);
                } else {
                    *told = Some(before);
                    slack = slack.min(step - before.abs_diff(budget_bytes));
                }
            }
        }
        self.watch.looked(slack);
        changes
    }

    /// Whether no budget can have changed by a step since all were told.
    pub fn is_still(&self) -> bool {
        self.watch.is_still()
    }

    /// Bytes that a group can hold.
    pub fn group_bytes(&self, group: SegmentGroup) -> u64 {
        self.group_bytes[group as usize]
    }

    /// Usage and budget of a process.
    // spec: memory §5.5
    pub fn info(&self, space: SpaceId, group: SegmentGroup, policy: &Policy) -> VideoMemoryInfo {
        VideoMemoryInfo {
            budget_bytes: self.budget_bytes(space, group),
            current_usage_bytes: self.need(space, group),
            current_reservation_bytes: self.processes[&space].groups[group as usize].reservation,
            available_for_reservation_bytes: self.available_for_reservation(space, group, policy),
        }
    }

    /// The bytes that a process may keep on its lists now.
    pub fn budget_bytes(&self, space: SpaceId, group: SegmentGroup) -> u64 {
        self.budget_beside(space, group, None)
    }

    /// The same, if another process needed so many bytes more.
    // spec: memory §5.5
    pub fn budget_beside(&self, space: SpaceId, group: SegmentGroup, more: Option<(SpaceId, u64)>) -> u64 {
        let me = &self.processes[&space];
        let mine = me.groups[group as usize];
        let mut left = self.group_bytes(group);
        let mut equals = Vec::new();
        // A process that asks for more has a claim by that; one without a claim takes nothing from the others.
        let asking = more.map(|(asking, _)| asking).filter(|asking| !self.claims[group as usize].contains(asking));
        let claims = self.claims[group as usize].iter().copied().chain(asking);
        for (other, process) in claims.filter(|other| *other != space).map(|other| (other, &self.processes[&other])) {
            let theirs = process.groups[group as usize];
            let extra = more.filter(|(asking, _)| *asking == other).map_or(0, |(_, bytes)| bytes);
            let need = theirs.capped_need(extra);
            match process.priority.cmp(&me.priority) {
                std::cmp::Ordering::Greater => left = left.saturating_sub(need),
                std::cmp::Ordering::Equal => equals.push(Share { need, sure: need.min(theirs.reservation) }),
                std::cmp::Ordering::Less => {}
            }
        }
        let share = level(left, equals) / PAGE_BYTES * PAGE_BYTES;
        share.max(mine.reservation).min(self.budget_max_bytes(space, group))
    }

    /// The needs of all processes in a group, from which the group is divided for one process after the other.
    fn division(&self, group: SegmentGroup) -> Division {
        let claims = self.claims[group as usize].iter().map(|space| {
            let process = &self.processes[space];
            let theirs = process.groups[group as usize];
            let need = theirs.capped_need(0);
            (Share { need, sure: need.min(theirs.reservation) }, process.priority, *space)
        });
        Division::of(self.group_bytes(group), claims.collect())
    }

    /// A process's budget, as [`budget_beside`](Self::budget_beside) has it.
    fn budget_in(&self, division: &Division, space: SpaceId, group: SegmentGroup) -> u64 {
        let me = &self.processes[&space];
        let share = division.beside(space, me.priority) / PAGE_BYTES * PAGE_BYTES;
        share.max(me.groups[group as usize].reservation).min(self.budget_max_bytes(space, group))
    }

    /// The limit that holds even with CantTrimFurther.
    pub fn budget_max_bytes(&self, space: SpaceId, group: SegmentGroup) -> u64 {
        let cap = self.processes[&space].groups[group as usize].cap;
        self.group_bytes(group).min(cap.unwrap_or(u64::MAX))
    }

    /// Bytes of a process's lists in a group.
    pub fn need(&self, space: SpaceId, group: SegmentGroup) -> u64 {
        self.processes[&space].groups[group as usize].need
    }

    /// The bytes that a process may reserve: the policy's part of the group, less the other processes' reservations.
    fn available_for_reservation(&self, space: SpaceId, group: SegmentGroup, policy: &Policy) -> u64 {
        let others = self.claims[group as usize].iter().filter(|other| **other != space);
        let taken: u64 = others.map(|other| self.processes[other].groups[group as usize].reservation).sum();
        // Divided first: a capacity in bytes times 100 could leave 64 bits.
        let part = self.group_bytes(group) / 100 * policy.reservable_percent;
        (part / PAGE_BYTES * PAGE_BYTES).saturating_sub(taken)
    }

    fn process_mut(&mut self, space: SpaceId) -> &mut Process {
        self.processes.get_mut(&space).expect("a space of a process")
    }

    /// Whether a process takes anything of a group from the others: those alone are looked at when it is divided.
    fn note_claim(&mut self, space: SpaceId, group: SegmentGroup) {
        let theirs = self.processes[&space].groups[group as usize];
        match theirs.claims() {
            true => self.claims[group as usize].insert(space),
            false => self.claims[group as usize].remove(&space),
        };
    }
}
