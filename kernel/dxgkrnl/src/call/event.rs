//! The operating system's calls on events of the process (sync §2.4).

use kmt_calls::{Call, EventCall, Refusal, Reply};

use crate::call::{Turn, done};
use crate::event::Event;
use crate::machine::{Answer, Cx};
use crate::object::Object;

impl Turn<'_> {
    pub(super) fn on_event(&mut self, cx: &mut Cx<'_>, call: &Call) -> Option<Result<Answer, Refusal>> {
        Some(match *call {
            Call::Event(EventCall::Create { manual_reset }) => {
                let number = self.process.events.insert(Event::new(manual_reset));
                self.name(Object::Event(number)).and_then(|handle| done(Reply::Handle(handle)))
            }
            Call::Event(EventCall::CreateTold) => {
                let number = self.process.events.insert(Event::new(false));
                self.name(Object::Event(number)).and_then(|handle| {
                    self.process.events[number].tell(self.from, handle);
                    done(Reply::Handle(handle))
                })
            }
            Call::Event(EventCall::Wait { event, block }) => {
                let token = self.token;
                self.process.event(event).and_then(|number| self.process.events[number].wait(token, block))
            }
            Call::Event(EventCall::Set { event }) => self.process.event(event).and_then(|number| {
                cx.emit_of_all(events::Event::EventSet { process: self.from.0, event: number });
                self.process.events[number].set(cx);
                done(Reply::Done)
            }),
            Call::Event(EventCall::Reset { event }) => self.process.event(event).and_then(|number| {
                self.process.events[number].reset();
                done(Reply::Done)
            }),
            Call::Event(EventCall::Close { event }) => self.process.event(event).and_then(|number| {
                self.process.system_handles.remove(event);
                self.process.events.remove(number).expect("it was named").close(cx);
                done(Reply::Done)
            }),
            _ => return None,
        })
    }
}
