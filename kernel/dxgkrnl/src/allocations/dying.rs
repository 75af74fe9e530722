//! Allocations that calls have destroyed and queued work may still use, arranged so that the kernel looks at few of them after a turn of
//! the machine: each stands under one point that it waits for, and the kernel looks only at the first of those that wait for one fence.
//! When that point is reached it stands under the next. `destroy` ends them.

use std::collections::{BTreeMap, BTreeSet};

use gpu_fence::FenceId;
use wddm_types::{FencePoint, ProcessId};

use super::Allocation;
use crate::due::Waiter;
use crate::hold::{Hold, Until};
use crate::number::{DeviceNumber, ResourceBodyNumber, Token};
use crate::store::{ObjectNumber, object_number};

object_number! {
    /// A destruction that waits for its last use; numbers rise.
    DestructionNumber
}

/// Allocations that one call destroyed and that queued work may still use.
#[derive(Debug)]
pub struct Dying {
    pub device: DeviceNumber,
    pub process: ProcessId,
    pub bindings: Vec<Allocation>,
    /// The resource that went with them.
    pub resource_body: Option<ResourceBodyNumber>,
    /// Their last use.
    pub after: Vec<FencePoint<FenceId>>,
    /// The call that waits for it.
    pub answer: Option<Token>,
}

/// All that waits for its last use.
#[derive(Debug, Default)]
pub struct DyingGroups {
    /// By number; numbers rise.
    groups: BTreeMap<DestructionNumber, Dying>,
    next: u64,
    /// The kernel hears when those before this number are over.
    watched: u64,
    /// By a fence that they wait for: its values and the groups that wait for them.
    awaited: BTreeMap<FenceId, BTreeSet<(u64, DestructionNumber)>>,
    /// By device.
    of_devices: BTreeSet<(DeviceNumber, DestructionNumber)>,
}

impl DyingGroups {
    /// One more, with a last use.
    pub fn add(&mut self, dying: Dying) {
        let first = *dying.after.first().expect("what nothing uses is buried at once");
        let number = DestructionNumber::from_raw(self.next);
        self.next += 1;
        self.of_devices.insert((dying.device, number));
        self.stand(first, number);
        let before = self.groups.insert(number, dying);
        debug_assert!(before.is_none(), "numbers rise: {number:?} is there already");
        debug_assert_eq!(self.of_devices.len(), self.groups.len(), "each group is of one device");
    }

    /// The calls that wait for groups wait no more; the groups stay.
    #[must_use = "the calls are answered"]
    pub fn take_answers(&mut self) -> Vec<Token> {
        self.groups.values_mut().filter_map(|dying| dying.answer.take()).collect()
    }

    /// Takes one out.
    pub fn take(&mut self, number: DestructionNumber) -> Dying {
        let dying = self.groups.remove(&number).expect("a group is buried once");
        let listed = self.of_devices.remove(&(dying.device, number));
        debug_assert!(listed, "a group is listed for its device: {number:?}");
        debug_assert_eq!(self.of_devices.len(), self.groups.len(), "each group is of one device");
        // It stands under one of these; under none, if that was reached.
        for point in &dying.after {
            if let Some(values) = self.awaited.get_mut(&point.fence) {
                values.remove(&(point.value, number));
                if values.is_empty() {
                    self.awaited.remove(&point.fence);
                }
            }
        }
        dying
    }

    /// The numbers of those whose last use is over, in the order in which they were destroyed; each has to be taken.
    pub fn over(&mut self, is_past: impl Fn(&FencePoint<FenceId>) -> bool) -> Vec<DestructionNumber> {
        let first = |values: &BTreeSet<(u64, DestructionNumber)>| values.first().map_or(u64::MAX, |(value, _)| *value);
        let reached = self.awaited.iter().filter(|(fence, values)| is_past(&point_of(**fence, first(values))));
        let reached: Vec<FenceId> = reached.map(|(fence, _)| *fence).collect();
        let (mut over, mut moved) = (Vec::new(), Vec::new());
        for fence in reached {
            let values = self.awaited.get_mut(&fence).expect("just seen");
            while let Some(&(value, number)) = values.first().filter(|(value, _)| is_past(&point_of(fence, *value))) {
                values.remove(&(value, number));
                match self.groups[&number].after.iter().find(|point| !is_past(point)) {
                    Some(next) => moved.push((*next, number)),
                    None => over.push(number),
                }
            }
            if values.is_empty() {
                self.awaited.remove(&fence);
            }
        }
        moved.into_iter().for_each(|(point, number)| self.stand(point, number));
        over.sort_unstable();
        debug_assert!(over.windows(2).all(|pair| pair[0] < pair[1]), "a group stands under one point: {over:?}");
        over
    }

    /// The numbers of a device's, in the order in which they were destroyed.
    pub fn of_device(&self, device: DeviceNumber) -> Vec<DestructionNumber> {
        let [first, last] = [0, u64::MAX].map(DestructionNumber::from_raw);
        self.of_devices.range((device, first)..=(device, last)).map(|(_, number)| *number).collect()
    }

    /// The points of the groups that no wait of the kernel watches yet. The kernel watches them from now on: calls wait for what they
    /// give back.
    pub fn watch(&mut self) -> Vec<Vec<FencePoint<FenceId>>> {
        debug_assert!(self.watched <= self.next, "{} are watched of {}", self.watched, self.next);
        let unwatched =
            self.groups.range(DestructionNumber::from_raw(self.watched)..).filter(|(_, dying)| dying.answer.is_none());
        let points = unwatched.map(|(_, dying)| dying.after.clone()).collect();
        self.watched = self.next;
        points
    }

    /// Whether the kernel watches the points of a group for what it gives back.
    pub fn is_watched(&self, number: DestructionNumber) -> bool {
        number.raw() < self.watched
    }

    /// What ends the wait of each group that a call waits for, or whose memory calls wait for.
    pub fn holds(&self) -> impl Iterator<Item = Hold> + '_ {
        let awaited =
            |(number, dying): &(&DestructionNumber, &Dying)| dying.answer.is_some() || self.is_watched(**number);
        let hold = |number: &DestructionNumber| Hold::new("a destruction", number.raw(), Until::Wait(Waiter::Burial));
        self.groups.iter().filter(awaited).map(move |(number, _)| hold(number))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// All, in the order in which they were destroyed.
    pub fn iter(&self) -> impl Iterator<Item = &Dying> {
        self.groups.values()
    }

    /// All with their numbers, which rise.
    pub fn numbered(&self) -> impl Iterator<Item = (DestructionNumber, &Dying)> {
        self.groups.iter().map(|(number, dying)| (*number, dying))
    }

    /// The bindings of all of them.
    pub fn bindings(&self) -> impl Iterator<Item = &Allocation> {
        self.iter().flat_map(|dying| &dying.bindings)
    }

    /// The one that was destroyed last.
    pub fn last(&self) -> Option<&Dying> {
        self.groups.values().next_back()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn stand(&mut self, point: FencePoint<FenceId>, number: DestructionNumber) {
        self.awaited.entry(point.fence).or_default().insert((point.value, number));
    }
}

fn point_of(fence: FenceId, value: u64) -> FencePoint<FenceId> {
    FencePoint { fence, value }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use wddm_types::ProcessId;

    use super::*;

    fn dying(device: DeviceNumber, after: &[(FenceId, u64)]) -> Dying {
        let after = after.iter().map(|&(fence, value)| FencePoint { fence, value }).collect();
        let (process, bindings) = (ProcessId(1), Vec::new());
        Dying { device, process, bindings, resource_body: None, after, answer: None }
    }

    fn fences() -> [FenceId; 2] {
        let mut known = gpu_fence::Fences::<()>::new();
        [(); 2].map(|()| known.create(gpu_fence::FenceKind::Native))
    }

    #[test]
    fn a_group_is_over_when_all_of_its_points_are_past_and_in_the_order_of_destruction() {
        let [a, b] = fences();
        let mut groups = DyingGroups::default();
        for (device, after) in [(1, vec![(a, 5), (b, 1)]), (2, vec![(b, 2)]), (1, vec![(a, 3)])] {
            groups.add(dying(DeviceNumber::from_raw(device), &after));
        }
        assert_eq!(groups.of_device(DeviceNumber::from_raw(1)), [0, 2].map(DestructionNumber::from_raw));
        let at = |reached_a: u64, reached_b: u64| {
            move |point: &FencePoint<FenceId>| point.value <= if point.fence == a { reached_a } else { reached_b }
        };
        assert!(groups.over(at(2, 0)).is_empty());
        assert!(groups.over(at(2, 1)).is_empty(), "one of two points");
        let all = [0, 1, 2].map(DestructionNumber::from_raw);
        assert_eq!(groups.over(at(5, 2)), all);
        for number in all {
            groups.take(number);
        }
        assert!(groups.is_empty() && groups.awaited.is_empty() && groups.of_devices.is_empty());
    }

    #[test]
    fn after_a_turn_one_of_each_fence_is_looked_at_however_many_wait() {
        let [a, b] = fences();
        let mut groups = DyingGroups::default();
        for value in 1..=50_000 {
            groups.add(dying(DeviceNumber::from_raw(value), &[(a, value), (b, 1)]));
        }
        let looked = Cell::new(0);
        let reached = |value: u64| {
            let looked = &looked;
            move |point: &FencePoint<FenceId>| {
                looked.set(looked.get() + 1);
                point.fence == b || point.value <= value
            }
        };
        assert!(groups.over(reached(0)).is_empty());
        assert_eq!(looked.take(), 1);
        assert_eq!(groups.over(reached(2)), [0, 1].map(DestructionNumber::from_raw));
        assert_eq!(looked.take(), 1 + 3 + 4, "the fence, the two, the next, and all points of the two");
    }
}
