//! Calls on registrations for notifications about memory (memory §5).

use kmt_calls::{NotificationCall, Refusal, Reply};
use wddm_types::RawHandle;

use crate::call::{Turn, done};
use crate::effect::Answer;
use crate::notification::RegistrationKind;
use crate::object::Object;
use crate::refusal::invalid;

impl Turn<'_> {
    pub(super) fn on_notification(&mut self, call: NotificationCall) -> Result<Answer, Refusal> {
        match call {
            NotificationCall::RegisterTrim { adapter, device } => {
                let (index, _) = self.live_device(device)?;
                let is = self.adapters[index].luid();
                if let Some(other) = adapter.filter(|adapter| *adapter != is) {
                    return Err(invalid(format!("the device is on the adapter {is:?}, not on {other:?}")));
                }
                self.register(device, RegistrationKind::Trim)
            }
            NotificationCall::RegisterBudgetChange { device } => self.register(device, RegistrationKind::Budget),
            NotificationCall::Unregister { registration } => {
                let (index, number) = self.registration(registration)?;
                self.adapters[index].unregister(number);
                self.process.handles.remove(registration);
                done(Reply::Done)
            }
        }
    }

    fn register(&mut self, device: RawHandle, kind: RegistrationKind) -> Result<Answer, Refusal> {
        let (index, device) = self.live_device(device)?;
        let number = self.adapters[index].next_registration();
        let handle = self.name(Object::Registration(index, number))?;
        self.adapters[index].register(device, kind, handle);
        done(Reply::Handle(handle))
    }
}
