//! Registrations for notifications of an adapter (memory §5.4, §5.5). `vidmm` decides when there is something to tell, and `adapter::turns`
//! sends it to the registrations that are found here. This part asks no other.
//!
//! Every registration stands in `known`, once in `of_devices` under its device, and counts once in `of_kinds` under its kind.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::RawHandle;

use crate::number::{DeviceNumber, RegistrationNumber};
use crate::store::{ObjectNumber, Store};

/// The subject of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegistrationKind {
    /// Trims of the device.
    Trim,
    /// Changes of the process's budgets.
    Budget,
}

/// A registration for notifications (memory §5.4, §5.5).
#[derive(Debug)]
pub struct Registration {
    pub device: DeviceNumber,
    pub kind: RegistrationKind,
    /// The name that its process knows it by.
    pub handle: RawHandle,
}

/// All registrations, by number, by device and by kind.
#[derive(Default)]
pub struct Registrations {
    known: Store<RegistrationNumber, Registration>,
    of_devices: BTreeSet<(DeviceNumber, RegistrationNumber)>,
    of_kinds: BTreeMap<RegistrationKind, u64>,
}

impl Registrations {
    /// A process wants to be told.
    pub fn enter(&mut self, device: DeviceNumber, kind: RegistrationKind, handle: RawHandle) {
        let number = self.known.insert(Registration { device, kind, handle });
        let fresh = self.of_devices.insert((device, number));
        debug_assert!(fresh, "a registration is listed for its device once: {number:?}");
        *self.of_kinds.entry(kind).or_default() += 1;
    }

    /// A registration ends.
    pub fn remove(&mut self, number: RegistrationNumber) {
        let gone = self.known.remove(number).expect("a registration ends once");
        let listed = self.of_devices.remove(&(gone.device, number));
        debug_assert!(listed, "a registration is listed for its device: {gone:?}");
        let count = self.of_kinds.get_mut(&gone.kind).expect("it was counted");
        debug_assert!(*count > 0, "registrations are counted by their kinds: {gone:?}");
        *count -= 1;
    }

    /// A device goes, and its registrations with it.
    pub fn device_goes(&mut self, device: DeviceNumber) {
        let gone: Vec<_> = self.of_device(device).collect();
        for number in gone {
            self.remove(number);
        }
    }

    /// One by its number.
    pub fn get(&self, number: RegistrationNumber) -> Option<&Registration> {
        self.known.get(number)
    }

    /// The number that the next one gets.
    pub fn next_number(&self) -> RegistrationNumber {
        self.known.next_number()
    }

    /// Those of a device.
    pub fn of_device(&self, device: DeviceNumber) -> impl Iterator<Item = RegistrationNumber> + '_ {
        let all = (device, RegistrationNumber::from_raw(0))..=(device, RegistrationNumber::from_raw(u64::MAX));
        self.of_devices.range(all).map(|(_, number)| *number)
    }

    /// The names by which the process of a device knows its registrations of this kind.
    pub fn handles_of(&self, device: DeviceNumber, kind: RegistrationKind) -> impl Iterator<Item = RawHandle> + '_ {
        let of_device = self.of_device(device).filter_map(|number| self.known.get(number));
        of_device.filter(move |known| known.kind == kind).map(|known| known.handle)
    }

    /// Whether there is one of this kind.
    pub fn any(&self, kind: RegistrationKind) -> bool {
        self.of_kinds.get(&kind).is_some_and(|count| *count > 0)
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (RegistrationNumber, &Registration)> {
        self.known.iter()
    }
}
