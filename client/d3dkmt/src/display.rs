//! Displays: the ownership and content of their sources. Flips are [`crate::VirtualContext::flip`] and [`crate::Context::flip`].

use std::sync::Arc;

use kmt_calls::{
    AllocationCall, AllocationInfoFlags, AllocationRequest, Call, DisplayCall, Refusal, Reply, ResourceRequest,
    SourceOwnerType,
};
use wddm_types::VidPnSourceId;

use crate::allocation::Allocation;
use crate::device::Device;
use crate::expect_reply;

impl Device {
    /// `D3DKMTCreateAllocation2` for a primary, which a source can show.
    ///
    /// # Errors
    /// As of [`Device::create_allocation`].
    pub fn create_primary(&self, private_data: Vec<u8>, source: VidPnSourceId) -> Result<Arc<Allocation>, Refusal> {
        let (flags, video_source) = (AllocationInfoFlags::PRIMARY, source.0);
        let call = Call::Allocation(AllocationCall::CreateAllocation {
            device: self.handle(),
            allocations: vec![AllocationRequest { private_data, flags, video_source, ..AllocationRequest::default() }],
            resource: ResourceRequest::default(),
        });
        let created = expect_reply!(self.link().call(call)?, Reply::Allocations(created) => created);
        Ok(Arc::new(Allocation::new(Arc::clone(self.link()), self.handle(), &created.allocations[0])))
    }

    /// `D3DKMTSetVidPnSourceOwner`: these sources are the device's from now on, and no others.
    ///
    /// # Errors
    /// `ACCESS_DENIED` when one is another device's: nothing has changed.
    pub fn own_sources(&self, sources: &[VidPnSourceId]) -> Result<(), Refusal> {
        self.ask(DisplayCall::SetVidPnSourceOwner {
            device: self.handle(),
            sources: sources.iter().map(|source| (*source, SourceOwnerType::Exclusive)).collect(),
        })
    }

    /// `D3DKMTSetDisplayMode`: the primary's source shows it, in its mode.
    ///
    /// # Errors
    /// `ACCESS_DENIED` when the source is not the device's; `RETRY` while the primary is on its way into memory.
    pub fn set_display_mode(&self, primary: &Allocation) -> Result<(), Refusal> {
        self.ask(DisplayCall::SetDisplayMode { device: self.handle(), primary: primary.handle() })
    }

    /// `D3DKMTSetQueuedLimit`: how many flips may be queued when one that is asked for returns; 3 at first.
    ///
    /// # Errors
    /// When it is none of 1 to 16.
    pub fn set_queued_limit(&self, limit: u32) -> Result<(), Refusal> {
        self.ask(DisplayCall::SetQueuedLimit { device: self.handle(), limit })
    }

    /// `D3DKMTWaitForVerticalBlankEvent`: blocks until the next vertical blank of a source.
    ///
    /// # Errors
    /// When the display is off, or is switched off meanwhile.
    pub fn wait_for_vertical_blank(&self, source: VidPnSourceId) -> Result<(), Refusal> {
        self.ask(DisplayCall::WaitForVerticalBlankEvent { device: self.handle(), source })
    }

    fn ask(&self, call: DisplayCall) -> Result<(), Refusal> {
        self.link().call(Call::Display(call)).map(drop)
    }
}
