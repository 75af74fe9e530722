//! An opened adapter.

use std::sync::Arc;

use kmt_calls::{
    AdapterCall, AdapterInfo, Call, ESCAPE_DRIVER_PRIVATE, EscapeCall, EscapeFlags, FeatureResult, Refusal, Reply,
    ResidencyCall, VideoMemoryInfo, Wddm30Caps, Wddm31Caps,
};
use kmt_link::Link;
use wddm_types::{Luid, RawHandle};

use crate::fence::NtHandle;
use crate::{Device, Owned, expect_reply};

/// An opened adapter (`D3DKMTOpenAdapterFromLuid`).
pub struct Adapter {
    owned: Owned,
    luid: Luid,
}

impl Adapter {
    /// Opens the adapter with this LUID.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(link: Arc<dyn Link>, luid: Luid) -> Result<Adapter, Refusal> {
        let handle = expect_reply!(link.call(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid }))?, Reply::Handle(handle) => handle);
        let owned = Owned { link, handle, destroy: |adapter| Call::Adapter(AdapterCall::CloseAdapter { adapter }) };
        Ok(Adapter { owned, luid })
    }

    /// Opens the kernel's first adapter.
    ///
    /// # Errors
    /// When there is none.
    pub fn open_first(link: Arc<dyn Link>) -> Result<Adapter, Refusal> {
        let adapters = crate::enum_adapters(link.as_ref())?;
        let luid = adapters.first().map_or(Luid(0), |(luid, _)| *luid);
        Adapter::open(link, luid)
    }

    /// Segments, nodes, capabilities (`D3DKMTQueryAdapterInfo`).
    ///
    /// # Errors
    /// When the adapter has gone.
    pub fn info(&self) -> Result<AdapterInfo, Refusal> {
        let call = Call::Adapter(AdapterCall::QueryAdapterInfo { adapter: self.handle() });
        Ok(expect_reply!(self.link().call(call)?, Reply::AdapterInfo(info) => info))
    }

    /// `KMTQAITYPE_WDDM_3_0_CAPS` of `D3DKMTQueryAdapterInfo` (sync §2.1).
    ///
    /// # Errors
    /// When the adapter has gone.
    pub fn wddm_3_0_caps(&self) -> Result<Wddm30Caps, Refusal> {
        self.info().map(|info| info.wddm_3_0_caps)
    }

    /// `KMTQAITYPE_WDDM_3_1_CAPS` of `D3DKMTQueryAdapterInfo` (sync §2.1).
    ///
    /// # Errors
    /// When the adapter has gone.
    pub fn wddm_3_1_caps(&self) -> Result<Wddm31Caps, Refusal> {
        self.info().map(|info| info.wddm_3_1_caps)
    }

    /// `D3DKMTIsFeatureEnabled` of this adapter, by `DXGK_FEATURE_ID` (sync §2.10). One that the kernel does not know is off
    /// with version 0 and not `known`.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for a feature of the whole machine; [`crate::is_global_feature_enabled`] answers for those.
    pub fn is_feature_enabled(&self, feature: u32) -> Result<FeatureResult, Refusal> {
        let call = Call::Adapter(AdapterCall::IsFeatureEnabled { adapter: self.handle(), feature });
        Ok(expect_reply!(self.link().call(call)?, Reply::Feature(result) => result))
    }

    /// Budget and usage of a budget group (`D3DKMTQueryVideoMemoryInfo`).
    ///
    /// # Errors
    /// When the adapter has gone.
    pub fn video_memory_info(&self, local: bool) -> Result<VideoMemoryInfo, Refusal> {
        self.video_memory_info_by(0, local)
    }

    /// The same of another process, which the handle allows to query.
    ///
    /// # Errors
    /// `ACCESS_DENIED` without the right; `INVALID_PARAMETER` when the process has ended.
    pub fn video_memory_info_of(&self, process: &NtHandle, local: bool) -> Result<VideoMemoryInfo, Refusal> {
        self.video_memory_info_by(process.token(), local)
    }

    fn video_memory_info_by(&self, process: u64, local: bool) -> Result<VideoMemoryInfo, Refusal> {
        let call = Call::Adapter(AdapterCall::QueryVideoMemoryInfo { process, adapter: self.handle(), local });
        Ok(expect_reply!(self.link().call(call)?, Reply::VideoMemoryInfo(info) => info))
    }

    /// `D3DKMTChangeVideoMemoryReservation`: the least that this process wants to keep of a budget group.
    ///
    /// # Errors
    /// When it is more than is available for reservation, or the process has no device here.
    pub fn change_reservation(&self, local: bool, reservation_bytes: u64) -> Result<(), Refusal> {
        self.change_reservation_by(0, local, reservation_bytes)
    }

    /// The same of another process, which the handle allows to change.
    ///
    /// # Errors
    /// As of [`Adapter::change_reservation`]; `ACCESS_DENIED` without the right.
    pub fn change_reservation_of(
        &self,
        process: &NtHandle,
        local: bool,
        reservation_bytes: u64,
    ) -> Result<(), Refusal> {
        self.change_reservation_by(process.token(), local, reservation_bytes)
    }

    fn change_reservation_by(&self, process: u64, local: bool, reservation_bytes: u64) -> Result<(), Refusal> {
        let adapter = self.handle();
        self.link()
            .call(Call::Residency(ResidencyCall::ChangeVideoMemoryReservation {
                process,
                adapter,
                local,
                reservation_bytes,
            }))
            .map(drop)
    }

    /// `D3DKMTEscape` of type DRIVERPRIVATE: returns the data as the driver leaves them in a copy. The call may be about a device of this
    /// adapter, and a context of that device.
    ///
    /// # Errors
    /// The driver's status when it refuses; `NOT_SUPPORTED` when it has no private calls.
    pub fn escape(
        &self,
        device: Option<&Device>,
        context: RawHandle,
        flags: EscapeFlags,
        private_data: Vec<u8>,
    ) -> Result<Vec<u8>, Refusal> {
        let device = device.map_or(RawHandle::NONE, Device::handle);
        let (adapter, kind) = (self.handle(), ESCAPE_DRIVER_PRIVATE);
        let call = EscapeCall { adapter, device, context, kind, flags, private_data };
        Ok(expect_reply!(self.link().call(Call::Escape(call))?, Reply::Escaped(answer) => answer))
    }

    /// Its LUID.
    pub fn luid(&self) -> Luid {
        self.luid
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }

    /// The way to the kernel.
    pub fn link(&self) -> &Arc<dyn Link> {
        &self.owned.link
    }
}
