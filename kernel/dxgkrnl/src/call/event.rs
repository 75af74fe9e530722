//! The operating system's calls on events of the process (sync §2.4).

use kmt_calls::{EventCall, Refusal, Reply};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::event::Event;
use crate::object::Object;
use crate::store::ObjectNumber;

impl Turn<'_> {
    pub(super) fn on_event(&mut self, cx: &mut Cx<'_>, call: EventCall) -> Result<Answer, Refusal> {
        match call {
            EventCall::Create { manual_reset } => {
                let number = self.process.events.insert(Event::new(manual_reset));
                done(Reply::Handle(self.name(Object::Event(number))?))
            }
            EventCall::CreateTold => {
                let number = self.process.events.insert(Event::new(false));
                let handle = self.name(Object::Event(number))?;
                self.process.events[number].tell(self.from, handle);
                done(Reply::Handle(handle))
            }
            EventCall::Wait { event, block } => {
                let number = self.process.event(event)?;
                self.process.events[number].wait(self.token, block)
            }
            EventCall::Set { event } => {
                let number = self.process.event(event)?;
                cx.emit_of_all(events::Event::EventSet { process: self.from.0, event: number.raw() });
                self.process.events[number].set(cx);
                done(Reply::Done)
            }
            EventCall::Reset { event } => {
                let number = self.process.event(event)?;
                self.process.events[number].reset();
                done(Reply::Done)
            }
            EventCall::Close { event } => {
                let number = self.process.event(event)?;
                self.process.system_handles.remove(event);
                self.process.events.remove(number).expect("it was named").close(cx);
                done(Reply::Done)
            }
        }
    }
}
