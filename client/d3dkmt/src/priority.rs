//! Priorities of contexts, of either kind, and of the process (sync §4.2).

use kmt_calls::{Call, PriorityCall, Refusal, Reply};

use crate::adapter::Adapter;
use crate::context::{Context, VirtualContext};
use crate::queue::HwContext;
use crate::{Owned, expect_reply};

macro_rules! prioritized {
    ($($context:ty),*) => {$(
        impl $context {
            /// `D3DKMTSetContextSchedulingPriority`: how the context ranks as against all others, -7 to 7 and 0 at first, or a level of
            /// the realtime band with [`kmt_calls::PRIORITY_ABSOLUTE`]. A context that ranks lower is preempted, where the GPU can be.
            ///
            /// # Errors
            /// When there is no such priority, or the process may not ask for one above 0.
            pub fn set_priority(&self, priority: i32) -> Result<(), Refusal> {
                let context = self.owned.handle;
                set(&self.owned, PriorityCall::SetContextSchedulingPriority { context, priority })
            }

            /// `D3DKMTGetContextSchedulingPriority`.
            ///
            /// # Errors
            /// When the device is lost.
            pub fn priority(&self) -> Result<i32, Refusal> {
                get(&self.owned, PriorityCall::GetContextSchedulingPriority { context: self.owned.handle })
            }

            /// `D3DKMTSetContextInProcessSchedulingPriority`: how the context ranks among those of its process, -7 to 7, 0 at first.
            ///
            /// # Errors
            /// When there is no such priority.
            pub fn set_in_process_priority(&self, priority: i32) -> Result<(), Refusal> {
                let context = self.owned.handle;
                set(&self.owned, PriorityCall::SetContextInProcessSchedulingPriority { context, priority })
            }

            /// `D3DKMTGetContextInProcessSchedulingPriority`.
            ///
            /// # Errors
            /// When the device is lost.
            pub fn in_process_priority(&self) -> Result<i32, Refusal> {
                get(&self.owned, PriorityCall::GetContextInProcessSchedulingPriority { context: self.owned.handle })
            }
        }
    )*};
}

prioritized!(Context, VirtualContext, HwContext);

impl Adapter {
    /// `D3DKMTSetProcessSchedulingPriorityClass` of this process: 0 IDLE to 5 REALTIME.
    ///
    /// # Errors
    /// When there is no such class, or the process may not ask for it: HIGH and REALTIME need a privilege.
    pub fn set_priority_class(&self, class: u32) -> Result<(), Refusal> {
        let call = PriorityCall::SetProcessSchedulingPriorityClass { adapter: self.handle(), class };
        self.link().call(Call::Priority(call)).map(drop)
    }

    /// `D3DKMTGetProcessSchedulingPriorityClass` of this process.
    ///
    /// # Errors
    /// When the adapter is gone.
    pub fn priority_class(&self) -> Result<u32, Refusal> {
        let call = PriorityCall::GetProcessSchedulingPriorityClass { adapter: self.handle() };
        Ok(expect_reply!(self.link().call(Call::Priority(call))?, Reply::PriorityClass(class) => class))
    }
}

fn set(owned: &Owned, call: PriorityCall) -> Result<(), Refusal> {
    owned.link.call(Call::Priority(call)).map(drop)
}

fn get(owned: &Owned, call: PriorityCall) -> Result<i32, Refusal> {
    Ok(expect_reply!(owned.link.call(Call::Priority(call))?, Reply::ContextPriority(priority) => priority))
}
