//! Calls on priorities (sync §4.2): which process may change which object's. `scheduling` gives priorities their meaning.

use kmt_calls::{PriorityCall, Refusal, Reply};
use wddm_types::{AdapterIndex, Blame, NtStatus, RawHandle};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::object::Object;
use crate::process::CLASS_MAX;
use crate::refusal::{invalid, refuse};
use crate::scheduling::{
    AnyContext, Band, ContextPriority, priority_of, rank_of_class, with_in_process, with_priority,
};

impl Turn<'_> {
    pub(super) fn on_priorities(&mut self, cx: &mut Cx<'_>, call: PriorityCall) -> Result<Answer, Refusal> {
        match call {
            PriorityCall::SetContextSchedulingPriority { context, priority } => {
                let (index, context) = self.any_context(context)?;
                let known = self.adapters[index].context_priority(context);
                let wanted = with_priority(known, priority)?;
                // spec: sync §4.2
                if priority > 1 {
                    self.privileged("a priority above 1")?;
                }
                self.adapters[index].set_context_priority(cx, context, wanted);
                done(Reply::Done)
            }
            PriorityCall::SetContextInProcessSchedulingPriority { context, priority } => {
                let (index, context) = self.any_context(context)?;
                let wanted = with_in_process(self.adapters[index].context_priority(context), priority)?;
                self.adapters[index].set_context_priority(cx, context, wanted);
                done(Reply::Done)
            }
            PriorityCall::GetContextSchedulingPriority { context } => {
                let known = self.priority_of(context)?;
                done(Reply::ContextPriority(priority_of(known)))
            }
            PriorityCall::GetContextInProcessSchedulingPriority { context } => {
                let known = self.priority_of(context)?;
                done(Reply::ContextPriority(known.in_process()))
            }
            PriorityCall::SetProcessSchedulingPriorityClass { adapter, class } => {
                let index = self.adapter(adapter)?;
                if class > CLASS_MAX {
                    return Err(invalid(format!("priority class {class}: 0 IDLE to {CLASS_MAX} REALTIME")));
                }
                if rank_of_class(0, class).band > Band::Normal {
                    self.privileged("classes HIGH and REALTIME")?;
                }
                self.process.terms.class = class;
                let terms = self.process.terms;
                for adapter in self.adapters.iter_mut() {
                    adapter.apply_terms(cx, self.from, terms);
                }
                self.about = Some(index);
                done(Reply::Done)
            }
            PriorityCall::GetProcessSchedulingPriorityClass { adapter } => {
                self.adapter(adapter)?;
                done(Reply::PriorityClass(self.process.terms.class))
            }
        }
    }

    fn priority_of(&mut self, context: RawHandle) -> Result<ContextPriority, Refusal> {
        let (index, context) = self.any_context(context)?;
        Ok(self.adapters[index].context_priority(context))
    }

    /// A context of either kind, of a device that is not lost.
    fn any_context(&mut self, handle: RawHandle) -> Result<(AdapterIndex, AnyContext), Refusal> {
        let (index, context) = match self.process.handles.get(handle) {
            Some(Object::Context(index, number)) => (*index, AnyContext::Hardware(*number)),
            Some(Object::PacketContext(index, number)) => (*index, AnyContext::Packets(*number)),
            _ => return Err(invalid(format!("{handle} is no context of this process"))),
        };
        self.alive(index, self.adapters[index].device_of_context(context))?;
        Ok((index, context))
    }

    /// The focus and realtime bands need `SE_INC_BASE_PRIORITY_NAME`.
    // spec: sync §4.2
    fn privileged(&self, what: &str) -> Result<(), Refusal> {
        if self.process.may_raise_priority {
            return Ok(());
        }
        Err(refuse(NtStatus::PRIVILEGE_NOT_HELD, Blame::Caller, format!("{what}: the process has not the privilege")))
    }
}
