//! Who wants to be told of what, and telling them (memory §5.4, §5.5). What there is to tell is decided in `vidmm`, and
//! carried here by `turns`.

use kmt_calls::{Notification, NotificationKind};
use wddm_types::RawHandle;

use crate::adapter::Adapter;
use crate::machine::{Cx, Effect};
use crate::object::{Registration, RegistrationKind};

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
}
