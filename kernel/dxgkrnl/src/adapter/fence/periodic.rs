//! Periodic monitored fences (sync §1.1, §2.2): the type 6. A display signals them, some time before each of its vertical blanks: each
//! time the value is one more. Only the display does, so GPUs see them read-only, on a page of their own.
//!
//! A display of the creator signals one of several adapters, and the kernel carries the signal to the others like every signal of the
//! processor's; they do not signal it, either. The creator keeps it for as long as any adapter has it (`cross_adapter`).
//!
//! The kernel has the driver notify it as long as the fence is there, and signals itself. A display that is off has no blanks, and its
//! fences keep their values.

use ddi::{DdiVersion, FenceType, NotificationId};
use kmt_calls::{FenceFlags, FencePrivateData, Refusal, SyncObjectAccess};
use wddm_types::VidPnTargetId;

use super::lifetime::{NewFence, NewMonitored};
use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::effect::Cx;
use crate::number::{CrossFenceNumber, DeviceNumber, FenceNumber, FenceOpenNumber};
use crate::refusal::{from_driver, invalid, not_supported};
use crate::store::ObjectNumber;
use crate::sync::{CommonWord, FenceWord, ObjectType, Periodic, check_affinity, check_flags};

impl Adapter {
    /// The type 6 of `D3DKMTCreateSynchronizationObject2`: the creator's open.
    // spec: sync §1.1, sync §2.2
    pub fn create_periodic_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        flags: FenceFlags,
        (target, time_100ns): (VidPnTargetId, u64),
        engine_affinity: u32,
        common: Option<CommonWord>,
    ) -> Result<FenceOpenNumber, Refusal> {
        // spec: sync §1.1, sync §2.2
        let version = self.driver.ddi_version();
        if version < DdiVersion::WDDM_2_2 {
            return Err(invalid(format!(
                "periodic monitored fences need a driver of WDDM 2.2; this one is of {version}"
            )));
        }
        check_flags(ObjectType::PeriodicMonitoredFence, flags)?;
        check_affinity(engine_affinity, flags)?;
        if flags.contains(FenceFlags::NO_WAIT) {
            return Err(invalid(
                "only a display signals a periodic fence, so NoWait leaves no use for it: create it without",
            ));
        }
        let refresh_ns = self.displays.refresh_ns(target).ok_or_else(|| match self.displays.are_there() {
            false => not_supported("the adapter only renders: it has no VidPn targets"),
            true => invalid(format!("there is no VidPn target {}", target.0)),
        })?;
        // spec: sync §2.2, at most one interval
        if time_100ns.checked_mul(100).is_none_or(|before_ns| before_ns > refresh_ns) {
            return Err(invalid(format!(
                "{time_100ns} units of 100 ns; a blank is {refresh_ns} ns behind the one before"
            )));
        }
        // CAST: objects are counted far below 2^32, and the name is only asked back.
        let id = NotificationId(self.sync.next_fence().raw() as u32);
        let display = crate::display::display(self.driver.call(cx))?;
        let notification = display.create_periodic_frame_notification(target, time_100ns, id).map_err(from_driver)?;
        let mapped = self.engines_reach_words();
        let periodic = Some(Periodic { target, notification });
        let new = NewFence {
            device: Some(device),
            owner: self.owners.process_of(device),
            initial: 0,
            fence_type: FenceType::Default,
            monitored: Some(NewMonitored { mapped, word: FenceWord::Whole, periodic }),
            by_engines: false,
            common,
            flags,
            access: SyncObjectAccess::ALL_ACCESS,
            private_data: FencePrivateData::default(),
        };
        match self.make_fence(cx, new) {
            Ok((_, open, _)) => {
                self.sync.list_fence_open(open);
                Ok(open)
            }
            Err(refusal) => {
                self.end_notification(cx, periodic);
                Err(refusal)
            }
        }
    }

    /// No other adapter has it, and no name keeps it: it goes, unless it is open here.
    pub fn drop_kept_fence(&mut self, cx: &mut Cx<'_>, cross: CrossFenceNumber) {
        let Some(number) = self.sync.member(cross) else { return };
        if self.sync.fence(number).opens.is_empty() {
            self.unname_fence(cx, number);
        }
    }

    /// A periodic fence is no more.
    pub(super) fn end_notification(&mut self, cx: &Cx<'_>, periodic: Option<Periodic>) {
        if let (Some(Periodic { notification, .. }), Some(display)) = (periodic, self.driver.call(cx).display()) {
            display.destroy_periodic_frame_notification(notification);
        }
    }

    /// Interrupt 14: a notification's time has come.
    // spec: sync §2.8
    pub(in crate::adapter) fn periodic_fence_signaled(
        &mut self,
        cx: &mut Cx<'_>,
        target: VidPnTargetId,
        NotificationId(id): NotificationId,
    ) -> Result<(), Breach> {
        let number = FenceNumber::from_raw(id.into());
        match self.sync.fence_if_there(number).and_then(|fence| fence.periodic) {
            Some(periodic) if periodic.target == target => {
                let next = self.sync.current_value(cx.memory, number).saturating_add(1);
                self.set_fence(cx, number, next, false);
            }
            // It was destroyed while the interrupt was on its way.
            _ if number < self.sync.next_fence() => {}
            _ => {
                let what = format!("notification {id} of target {} was reported and never asked for", target.0);
                return Err(Breach(what));
            }
        }
        Ok(())
    }
}
