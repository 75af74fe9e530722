//! Calls on displays (memory §5.7, sync §4.6).

use kmt_calls::{DisplayCall, Refusal, Reply};
use wddm_types::RawHandle;

use crate::adapter::Behind;
use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::object::Object;
use crate::refusal::invalid;

impl Turn<'_> {
    pub(super) fn on_display(&mut self, cx: &mut Cx<'_>, call: DisplayCall) -> Result<Answer, Refusal> {
        match call {
            DisplayCall::SetVidPnSourceOwner { device, sources } => {
                let (index, device) = self.live_device(device)?;
                self.adapters[index].set_source_owner(cx, device, &sources)?;
                done(Reply::Done)
            }
            DisplayCall::ReleaseProcessVidPnSourceOwners => {
                for adapter in self.adapters.iter_mut() {
                    adapter.release_sources_of(cx, self.from);
                }
                done(Reply::Done)
            }
            DisplayCall::CheckVidPnExclusiveOwnership { adapter, source } => {
                let index = self.adapter(adapter)?;
                self.adapters[index].check_exclusive_ownership(source)?;
                done(Reply::Done)
            }
            DisplayCall::GetSharedPrimaryHandle { adapter, source } => {
                let index = self.adapter(adapter)?;
                let primaries = self.adapters[index].shared_primaries(source)?;
                // One whose last device has destroyed it may still be shown, and has no name any more.
                let named = primaries.into_iter().find(|primary| self.globals.get(*primary).is_some());
                done(Reply::Handle(named.unwrap_or(RawHandle::NONE)))
            }
            DisplayCall::GetPresentState { device, source } => {
                let (index, device) = self.live_device(device)?;
                done(Reply::PresentState(self.adapters[index].present_state(device, source)))
            }
            DisplayCall::SetDisplayMode { device, primary } => {
                let (index, device) = self.live_device(device)?;
                let number = self.allocation_of(index, device, primary)?;
                self.adapters[index].set_display_mode(cx, self.token, device, number)
            }
            DisplayCall::Flip { context, primary, interval } => {
                if matches!(self.process.handles.get(context), Some(Object::Context(..))) {
                    return Err(invalid("a hardware context: its queues take presents (SubmitPresentToHwQueue)"));
                }
                let (index, number, device) = self.live_packet_context(context)?;
                let primary = self.listed_allocation(index, device, primary)?;
                self.adapters[index].present_flip(cx, self.token, Behind::Context(number), primary, interval)
            }
            DisplayCall::FlipOnHwQueue { queue, primary, interval } => {
                let (index, number) = self.live_queue(queue)?;
                let device = self.adapters[index].device_of_queue(number);
                let primary = self.listed_allocation(index, device, primary)?;
                self.adapters[index].present_flip(cx, self.token, Behind::Queue(number), primary, interval)
            }
            DisplayCall::SetQueuedLimit { device, limit } => {
                let (index, device) = self.live_device(device)?;
                self.adapters[index].set_queued_limit(cx, device, limit)?;
                done(Reply::Done)
            }
            DisplayCall::GetQueuedLimit { device } => {
                let (index, device) = self.live_device(device)?;
                done(Reply::QueuedLimit(self.adapters[index].queued_limit(device)))
            }
            DisplayCall::WaitForVerticalBlankEvent { device, source } => {
                let (index, device) = self.live_device(device)?;
                self.adapters[index].wait_for_blank(cx, self.token, device, source)
            }
        }
    }
}
