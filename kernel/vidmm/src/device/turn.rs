//! The line of suspended devices, and the last answer about whose turn it is (memory §8.6).

use super::{Devices, Suspension};
use crate::slab::{DeviceId, SpaceId};

/// The device to be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextResume {
    /// This one, now: call [`VidMm::resume`](crate::VidMm::resume).
    Resume(DeviceId),
    /// This one's own content lies in its own way: call [`VidMm::withdraw_suspended`](crate::VidMm::withdraw_suspended), then ask again.
    Withdraw(DeviceId),
    /// No device yet; ask again at this time, and whenever memory comes free.
    At(u64),
    /// No device waits, or each that waits needs memory that only its holders can give up, or an unlock. Ask again after those.
    NoDevice,
}

/// The last answer about the next turn, and the stamp of the state that it holds for.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownTurn {
    turn: NextResume,
    stamp: [u64; 3],
}

/// The process that has its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    space: SpaceId,
    /// When its turn ends, whatever its devices do.
    end_ns: u64,
    /// Its content is on its way: the turn counts from when the first of its devices runs.
    awaits_content: bool,
}

impl<F: Copy + Eq> Devices<F> {
    /// A running device stands at the end of the line.
    pub fn stand_in_line(&mut self, device: DeviceId, tick: u64) {
        assert!(!self[device].is_suspended(), "a device is suspended once");
        let postponed = self.postponed(device);
        debug_assert!(postponed == 0 || self.withholds(device), "{device:?} has run with postponed steps");
        let last = self.line.last_key_value();
        debug_assert!(last.is_none_or(|(last, _)| *last < tick), "{device:?} comes at {tick}, behind {last:?}");
        self.devices[device].suspended = Some(Suspension { tick, not_before_ns: None });
        let before = self.line.insert(tick, device);
        assert!(before.is_none(), "each suspension has a tick of its own");
    }

    /// A device's turn has come: it leaves the line, and its turn begins now.
    pub fn take_turn(&mut self, device: DeviceId, now_ns: u64) {
        let known = &mut self.devices[device];
        let suspension = known.suspended.take().expect("only a suspended device is resumed");
        known.active_since_ns = now_ns;
        known.restart_trim = true;
        let stood = self.line.remove(&suspension.tick);
        debug_assert_eq!(stood, Some(device), "the place of {device:?} in the line is another's");
    }

    /// The process that has its turn.
    pub fn holder(&self) -> Option<SpaceId> {
        self.holder.map(|holder| holder.space)
    }

    /// When its turn ends; 0: no process has one.
    pub fn turn_end_ns(&self) -> u64 {
        self.holder.map_or(0, |holder| holder.end_ns)
    }

    /// A device's turn was decided: its list names so many pages.
    pub fn count_turn_pages(&mut self, device: DeviceId, pages: u64) {
        self.devices[device].turn_pages = pages;
    }

    /// A process has its turn from now on, until this time. `awaits_content`: the first of its devices that runs says when it ends.
    pub fn hold(&mut self, space: SpaceId, end_ns: u64, awaits_content: bool) {
        self.holder = Some(Holder { space, end_ns, awaits_content });
    }

    /// A device of this process runs, and its turn lasts until this time. That counts once a turn: a later device prolongs nothing.
    pub fn count_turn_until(&mut self, space: SpaceId, end_ns: u64) {
        if let Some(holder) = self.holder.as_mut().filter(|holder| holder.space == space && holder.awaits_content) {
            (holder.end_ns, holder.awaits_content) = (end_ns, false);
        }
    }

    /// The devices of a process that run and had something to run at this time or later.
    pub fn busy_of(&self, space: SpaceId, then_ns: u64) -> impl Iterator<Item = (DeviceId, &super::Device<F>)> {
        let busy = move |known: &super::Device<F>| !known.is_idle() || known.idle_since_ns >= then_ns;
        self.iter().filter(move |(_, known)| known.space() == space && !known.is_suspended() && busy(known))
    }

    /// The waiting devices, the longest waiting first.
    pub fn line(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.line.values().copied()
    }

    /// Whether any device waits.
    pub fn any_waits(&self) -> bool {
        !self.line.is_empty()
    }

    /// Whether a device with something to run waits.
    pub fn any_busy_waits(&self) -> bool {
        self.line().any(|device| !self[device].is_idle())
    }

    /// What left a suspended device does not come back before this time.
    pub fn keep_away(&mut self, device: DeviceId, not_before_ns: u64) {
        if let Some(suspension) = &mut self.devices[device].suspended {
            suspension.not_before_ns = Some(not_before_ns);
        }
    }

    /// Every waiting device may come back at once.
    pub fn forgive_losses(&mut self) {
        for device in self.line.values() {
            let known = &mut self.devices[*device];
            debug_assert!(known.is_suspended(), "{device:?} stands in line, and runs");
            if let Some(suspension) = &mut known.suspended {
                suspension.not_before_ns = None;
            }
        }
    }

    /// The last answer about the next turn, if it still holds: no work was made or completed since, no device fell idle or woke, and no
    /// time has come.
    // spec: memory §8.6
    pub fn known_turn(&self, stamp: [u64; 3], now_ns: u64) -> Option<NextResume> {
        let turn = self.known_turn.filter(|known| known.stamp == stamp)?.turn;
        let holds = match turn {
            NextResume::NoDevice => true,
            NextResume::At(then) => now_ns < then,
            NextResume::Resume(_) | NextResume::Withdraw(_) => false,
        };
        holds.then_some(turn)
    }

    /// Keeps an answer for the next time.
    pub fn know_turn(&mut self, turn: NextResume, stamp: [u64; 3]) {
        self.known_turn = Some(KnownTurn { turn, stamp });
    }

    /// Drops the known answer, because an event may have given the next turn to another device.
    pub fn forget_turn(&mut self) {
        self.known_turn = None;
    }
}
