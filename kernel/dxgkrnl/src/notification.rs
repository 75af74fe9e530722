//! Registrations for notifications, and sending these (memory §5.4, §5.5). `vidmm` decides when there is something to tell, and `turns`
//! carries it here.

use std::collections::{BTreeMap, BTreeSet};

use kmt_calls::{Notification, NotificationKind};
use wddm_types::RawHandle;

use crate::adapter::Adapter;
use crate::machine::{Cx, Effect};
pub use crate::number::RegistrationNumber;
use crate::object::DeviceNumber;
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
    pub handle: wddm_types::RawHandle,
}

/// All registrations, by number, by device and by kind.
#[derive(Default)]
pub struct Registrations {
    known: Store<RegistrationNumber, Registration>,
    of_devices: BTreeSet<(DeviceNumber, RegistrationNumber)>,
    of_kinds: BTreeMap<RegistrationKind, u64>,
}

impl Registrations {
    fn insert(&mut self, registration: Registration) {
        let (device, kind) = (registration.device, registration.kind);
        self.of_devices.insert((device, self.known.insert(registration)));
        *self.of_kinds.entry(kind).or_default() += 1;
    }

    /// A registration ends.
    pub fn remove(&mut self, number: RegistrationNumber) {
        let gone = self.known.remove(number).expect("a registration ends once");
        self.of_devices.remove(&(gone.device, number));
        *self.of_kinds.get_mut(&gone.kind).expect("it was counted") -= 1;
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

    /// Whether there is one of this kind.
    pub fn any(&self, kind: RegistrationKind) -> bool {
        self.of_kinds.get(&kind).is_some_and(|count| *count > 0)
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (RegistrationNumber, &Registration)> {
        self.known.iter()
    }
}

impl Adapter {
    /// A process wants to be told.
    pub fn register(&mut self, device: DeviceNumber, kind: RegistrationKind, handle: RawHandle) {
        self.registrations.insert(Registration { device, kind, handle });
    }

    /// Drops the registrations of a device that goes.
    pub fn unregister_all(&mut self, device: DeviceNumber) {
        let gone: Vec<_> = self.registrations.of_device(device).collect();
        for number in gone {
            self.registrations.remove(number);
        }
    }

    /// Notifies every registration of this kind on a device.
    pub fn notify(&self, cx: &mut Cx<'_>, device: DeviceNumber, kind: RegistrationKind, what: NotificationKind) {
        let process = self.owners.process_of(device);
        let known = self.registrations.of_device(device).filter_map(|number| self.registrations.get(number));
        for known in known.filter(|known| known.kind == kind) {
            let notification = Notification { registration: known.handle, kind: what };
            cx.effects.push(Effect::Notify { process, notification });
        }
    }
}
