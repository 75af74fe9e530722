//! The memory manager's wishes carried to processes and devices: notifications, time (memory §5.4, §5.5). What to wish is
//! decided in `vidmm`.

use kmt_calls::{Notification, NotificationKind};
use wddm_types::{ProcessId, RawHandle};

use crate::adapter::Adapter;
use crate::machine::{Cx, Effect};
use crate::object::{Registration, RegistrationKind, Terms};

impl Adapter {
    /// A process wants to be told.
    pub fn register(&mut self, device: u64, kind: RegistrationKind, handle: RawHandle) {
        self.registrations.insert(Registration { device, kind, handle });
    }

    /// A device goes: nobody is told of it any more.
    pub fn unregister_all(&mut self, device: u64) {
        let gone: Vec<u64> =
            self.registrations.iter().filter(|(_, known)| known.device == device).map(|(number, _)| number).collect();
        for number in gone {
            self.registrations.remove(number);
        }
    }

    /// Tells whoever registered for this kind on a device.
    pub fn notify(&self, cx: &mut Cx<'_>, device: u64, kind: RegistrationKind, what: NotificationKind) {
        let process = self.devices[device].process;
        for (_, known) in self.registrations.iter().filter(|(_, known)| known.device == device && known.kind == kind) {
            let notification = Notification { registration: known.handle, kind: what };
            cx.effects.push(Effect::Notify { process, notification });
        }
    }

    /// A process shares memory on these terms.
    pub fn apply_terms(&mut self, process: ProcessId, terms: Terms) {
        let _ = (process, terms);
    }

    /// When [`Adapter::timer`] is to be called next.
    pub fn deadline_ns(&self) -> Option<u64> {
        None
    }

    /// Time has come for what is done by the clock.
    pub fn timer(&mut self, _cx: &mut Cx<'_>) {}
}
