//! Content that a device has made resident and that waits for queued work of the device itself: what this work uses needs the room. For the
//! process its list names the content; for the memory manager it does not, until the device's list has room for it.
//!
//! What one MakeResident has brought waits together, in the order of the calls: later content comes no earlier, because work that uses earlier
//! content may have to end first.

use std::collections::{BTreeMap, VecDeque};

use super::{Devices, Postponed};
use crate::slab::{AllocationId, DeviceId};

/// The place of a MakeResident among those that a device withholds: the serial of its work, if it had one before the device gave way; then
/// the order of the calls. Places rise although a device lists everything again meanwhile, because values of its paging queues keep theirs until the
/// turn that brings the content is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WithheldPlace(u64, u64);

impl WithheldPlace {
    /// The place of what the work with this serial brings.
    pub fn of(serial: u64) -> WithheldPlace {
        WithheldPlace(serial, 0)
    }

    /// The place behind everything that works up to this serial bring.
    pub fn behind(serial: u64) -> WithheldPlace {
        WithheldPlace(serial, u64::MAX)
    }
}

/// What one MakeResident has brought: how often its device's list names each allocation for it.
type Counts = BTreeMap<AllocationId, u64>;

/// The content of one device that waits, in the order in which it comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Withheld {
    calls: VecDeque<(WithheldPlace, Counts)>,
}

impl<F: Copy + Eq> Devices<F> {
    /// A list names an allocation no more, for the content that the work with this serial brings waits. Answers how often it did.
    pub fn withhold(&mut self, device: DeviceId, id: AllocationId, serial: u64) -> u64 {
        let count = self.unlist(device, id).expect("only what is listed is withheld");
        self.withhold_in(device, WithheldPlace::of(serial), id, count);
        count
    }

    /// The content of an allocation waits once more, as that of the work with this serial: an evict of the content waits as well.
    pub fn withhold_once(&mut self, device: DeviceId, id: AllocationId, serial: u64) {
        self.withhold_in(device, WithheldPlace::of(serial), id, 1);
    }

    fn withhold_in(&mut self, device: DeviceId, place: WithheldPlace, id: AllocationId, count: u64) {
        let calls = &mut self.withheld_anew(device).calls;
        let at = calls.partition_point(|(known, _)| *known < place);
        if calls.get(at).is_none_or(|(known, _)| *known != place) {
            calls.insert(at, (place, Counts::new()));
        }
        *calls[at].1.entry(id).or_insert(0) += count;
    }

    /// A device that withholds content makes more resident, which waits as well.
    pub fn withhold_more(&mut self, device: DeviceId, list: &[AllocationId]) {
        self.withheld_calls += 1;
        let place = WithheldPlace(u64::MAX, self.withheld_calls);
        let mut counts = Counts::new();
        list.iter().for_each(|id| *counts.entry(*id).or_insert(0) += 1);
        self.withheld_anew(device).calls.push_back((place, counts));
    }

    fn withheld_anew(&mut self, device: DeviceId) -> &mut Withheld {
        self.withholding.insert(device);
        self.devices[device].withheld.get_or_insert_default()
    }

    /// Whether a device withholds content.
    pub fn withholds(&self, device: DeviceId) -> bool {
        self.withholding.contains(&device)
    }

    /// Whether any device withholds content.
    pub fn any_withholds(&self) -> bool {
        !self.withholding.is_empty()
    }

    /// The devices that withhold content.
    pub fn withholding(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.withholding.iter().copied()
    }

    /// The first and the last place of what a device withholds.
    pub fn withheld_places(&self, device: DeviceId) -> Option<[WithheldPlace; 2]> {
        let calls = &self[device].withheld.as_ref()?.calls;
        Some([calls.front()?.0, calls.back()?.0])
    }

    /// The first place at which a device withholds an allocation; `None`: it does not.
    pub fn withheld_place(&self, device: DeviceId, id: AllocationId) -> Option<WithheldPlace> {
        let calls = self[device].withheld.iter().flat_map(|withheld| &withheld.calls);
        calls.into_iter().find(|(_, counts)| counts.contains_key(&id)).map(|(place, _)| *place)
    }

    /// How often a device's process has made an allocation resident whose content is withheld.
    pub fn times_withheld(&self, device: DeviceId, id: AllocationId) -> u64 {
        let calls = self[device].withheld.iter().flat_map(|withheld| &withheld.calls);
        calls.filter_map(|(_, counts)| counts.get(&id)).sum()
    }

    /// What a device withholds; an allocation for each call that named it.
    pub fn withheld_by(&self, device: DeviceId) -> impl Iterator<Item = AllocationId> + '_ {
        let calls = self[device].withheld.iter().flat_map(|withheld| &withheld.calls);
        calls.flat_map(|(_, counts)| counts.keys().copied())
    }

    /// An allocation is withheld once less. False: it is not.
    pub fn withhold_less(&mut self, device: DeviceId, id: AllocationId) -> bool {
        let calls = self.devices[device].withheld.iter_mut().flat_map(|withheld| &mut withheld.calls);
        let Some((_, counts)) = calls.into_iter().find(|(_, counts)| counts.contains_key(&id)) else { return false };
        let count = counts.get_mut(&id).expect("it was found there");
        *count -= 1;
        if *count == 0 {
            counts.remove(&id);
        }
        true
    }

    /// A device withholds an allocation no more. Answers how often it did.
    pub fn forget_withheld(&mut self, device: DeviceId, id: AllocationId) -> u64 {
        let calls = self.devices[device].withheld.iter_mut().flat_map(|withheld| &mut withheld.calls);
        calls.filter_map(|(_, counts)| counts.remove(&id)).sum()
    }

    /// What comes first of what a device withholds.
    pub fn first_withheld(&self, device: DeviceId) -> Vec<AllocationId> {
        let first = self[device].withheld.as_ref().and_then(|withheld| withheld.calls.front());
        first.map(|(_, counts)| counts.keys().copied().collect()).unwrap_or_default()
    }

    /// A device withholds this no more. Answers with the counts.
    pub fn take_first_withheld(&mut self, device: DeviceId) -> BTreeMap<AllocationId, u64> {
        let withheld = self.devices[device].withheld.as_mut().expect("a device that withholds content has some");
        let (_, counts) = withheld.calls.pop_front().expect("a device that withholds content has some");
        if withheld.calls.is_empty() {
            self.forget_all_withheld(device);
        }
        counts
    }

    /// A device withholds nothing any more.
    pub fn forget_all_withheld(&mut self, device: DeviceId) {
        self.withholding.remove(&device);
        self.devices[device].withheld = None;
    }

    /// Takes the postponed steps that a device's turn allows, to be done. None, if the device withholds content: then a step waits for its own
    /// last uses, so that the list says what they leave of the room.
    pub fn take_postponed(&mut self, device: DeviceId) -> Vec<Postponed<F>> {
        match self.withholds(device) {
            true => Vec::new(),
            false => std::mem::take(&mut self.devices[device].postponed),
        }
    }
}
