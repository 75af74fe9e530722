//! A device's part of a fence: its open, on top of the driver's global handle, and the words as the process sees them (sync §3.3, §3.4).
//! `lifetime` keeps the object itself.

use ddi::{
    CreateNativeFence, DriverStatus, KmdGlobalFence, KmdLocalFence, OpenNativeFence, OsGlobalFence, OsLocalFence,
};
use events::Event;
use gpu_fence::FenceKind;
use kmt_calls::{FenceFlags, FencePrivateData, OpenSyncObjectRequest, Refusal, SyncObjectAccess};
use wddm_types::ProcessId;

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, FenceNumber, FenceOpenNumber};
use crate::refusal::from_driver;
use crate::store::ObjectNumber;
use crate::sync::{FenceOpen, News, check_open};

/// A device's open, and what the driver had to say.
pub type Opened = (FenceOpenNumber, FencePrivateData);

impl Adapter {
    /// `D3DKMTOpenNativeFenceFromNtHandle`, `D3DKMTOpenSyncObjectFromNtHandle2`: the fence of a name, for another device.
    // spec: sync §3.3, sync §6 A11
    pub fn open_shared_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        (fence, access): (FenceNumber, SyncObjectAccess),
        request: OpenSyncObjectRequest,
    ) -> Result<Opened, Refusal> {
        check_open(access, self.sync.fence(fence).flags, &request)?;
        let process = self.owners.process_of(device);
        let open = FenceOpen { fence, process, device: Some(device), kmd: None, flags: request.flags, access };
        let (open, private_data) = self.add_open(cx, open, request.private_data)?;
        self.sync.list_fence_open(open);
        cx.emit(self.index, Event::FenceOpened { process: process.0, fence: fence.raw(), open: open.raw() });
        Ok((open, private_data))
    }

    /// Adds an open: the process sees the words, the driver has the fence, the driver opens it.
    pub(super) fn add_open(
        &mut self,
        cx: &mut Cx<'_>,
        mut open: FenceOpen,
        mut private_data: FencePrivateData,
    ) -> Result<Opened, Refusal> {
        let number = self.sync.next_fence_open();
        if self.sync.fence(open.fence).by_display {
            open.flags |= FenceFlags::NO_SIGNAL;
        }
        let (fence, process) = (open.fence, open.process);
        let (slot, asleep) = (self.sync.fence(fence).slot, self.sync.fence(fence).kmd.is_none());
        if self.sync.fence(fence).is_shareable() && !self.sync.fence(fence).views.contains_key(&process) {
            let writable = !self.sync.fence(fence).by_display;
            let view = self.map_fence_view(cx, &slot, process, writable)?;
            self.sync.add_view(fence, process, view);
        }
        match self.open_fence_in_driver(cx, fence, number, &open, &mut private_data) {
            Ok(kmd) => {
                open.kmd = kmd;
                assert_eq!(self.sync.add_fence_open(open), number);
                let known = self.sync.fence(fence);
                debug_assert!(
                    !known.is_shareable() || known.views.get(&process).is_some_and(|view| view.opens > 0),
                    "a process sees a shareable fence that it has open: {known:?}"
                );
                // spec: sync §6 B13: for good, also where the driver has made it anew
                if asleep && self.sync.fence(fence).always_signaled {
                    let told = self.tell_always_signaled(cx, fence);
                    self.heed(cx, told);
                }
                Ok((number, private_data))
            }
            Err(status) => {
                self.drop_unused_view(cx, fence, process);
                Err(from_driver(status))
            }
        }
    }

    /// The driver's part of an open, with the create before it if no process has the fence open. `None`: the adapter has no fences of its
    /// own, the kernel signals them.
    // spec: sync §3.2 steps 4 and 5, sync §3.3
    fn open_fence_in_driver(
        &mut self,
        cx: &Cx<'_>,
        fence: FenceNumber,
        number: FenceOpenNumber,
        open: &FenceOpen,
        private_data: &mut FencePrivateData,
    ) -> Result<Option<KmdLocalFence>, DriverStatus> {
        let known = self.sync.fence(fence);
        if self.sync.kind_of(fence) == FenceKind::Monitored {
            return Ok(None);
        }
        let device = open.device.map_or(self.memory.ring.device(), |device| self.owners.kmd_of(device));
        let (current_va, monitored_va) = known.addresses(open.process);
        let global = match known.kmd {
            Some(global) => global,
            None => self.create_fence_in_driver(cx, fence, private_data)?,
        };
        let fences = self.driver.call(cx).native_fences().expect("native fences have their facet");
        let opened = fences.open(&mut OpenNativeFence {
            global,
            local: OsLocalFence(number.raw()),
            device,
            current_va,
            monitored_va,
            private_data: &mut private_data.0,
        });
        if opened.is_err() && self.sync.fence(fence).opens.is_empty() {
            // An open that failed is followed by destroy without close (sync §3.2).
            fences.destroy(global);
            self.sync.take_from_driver(fence);
        }
        opened.map(Some)
    }

    fn create_fence_in_driver(
        &mut self,
        cx: &Cx<'_>,
        fence: FenceNumber,
        private_data: &mut FencePrivateData,
    ) -> Result<KmdGlobalFence, DriverStatus> {
        let known = self.sync.fence(fence);
        debug_assert!(known.opens.is_empty(), "the driver has a fence for as long as it is open: {known:?}");
        let (slot, fence_type) = (known.slot, known.fence_type);
        // spec: sync §1.5: both are 0 without MapToGpuSystemProcess, whatever the kernel has mapped for itself
        let told = self.fence_caps().map_to_gpu_system_process;
        let (current_system_va, monitored_system_va) =
            if told { (slot.system_current_va, slot.system_monitored_va) } else { Default::default() };
        let fences = self.driver.call(cx).native_fences().expect("native fences have their facet");
        let global = fences.create(&mut CreateNativeFence {
            fence: OsGlobalFence(fence.raw()),
            fence_type,
            current_system_va,
            monitored_system_va,
            private_data: &mut private_data.0,
        })?;
        self.sync.made_in_driver(fence, global);
        Ok(global)
    }

    /// `D3DKMTDestroySynchronizationObject`: ends this device's open of a fence. With the last open the driver's global handle goes, and
    /// the object itself unless it has a name.
    // spec: sync §3.4
    pub fn close_fence(&mut self, cx: &mut Cx<'_>, number: FenceOpenNumber) {
        let (open, ended, last) = self.sync.end_fence_open(number);
        self.release(cx, ended.released);
        self.publish(cx, ended.updates);
        if let (Some(local), Some(fences)) = (open.kmd, self.driver.call(cx).native_fences()) {
            fences.close(local);
        }
        if !last {
            self.drop_unused_view(cx, open.fence, open.process);
            cx.emit(
                self.index,
                Event::FenceClosed { process: open.process.0, fence: open.fence.raw(), open: number.raw() },
            );
            return;
        }
        if let (Some(global), Some(fences)) =
            (self.sync.take_from_driver(open.fence), self.driver.call(cx).native_fences())
        {
            fences.destroy(global);
        }
        self.drop_unused_view(cx, open.fence, open.process);
        if self.sync.fence(open.fence).names == 0 {
            self.forget_fence(cx, open.fence);
            cx.emit(self.index, Event::FenceDestroyed { fence: open.fence.raw() });
        } else {
            // It is kept for those on other adapters, if there are any.
            self.sync.tell_others(open.fence, News::Left);
            cx.emit(
                self.index,
                Event::FenceClosed { process: open.process.0, fence: open.fence.raw(), open: number.raw() },
            );
        }
    }

    /// A process's queues do not reach a fence any more: the kernel looks for their last signals, for nothing that the process has open
    /// and no name in its logs tells of them.
    pub(in crate::adapter) fn look_at_unreached(&mut self, cx: &mut Cx<'_>, fence: FenceNumber) {
        if self.sync.fence_if_there(fence).is_some_and(|fence| !fence.opens.is_empty()) {
            self.sync.tell_others(fence, News::Signaled);
            self.sample_fences(cx, &[fence]);
        }
    }

    fn drop_unused_view(&mut self, cx: &mut Cx<'_>, fence: FenceNumber, process: ProcessId) {
        if let Some(view) = self.sync.take_unused_view(fence, process) {
            self.unmap_fence_view(cx, process, view);
            // Without the cap the driver names the fence itself.
            if self.driver.names_signaled_fences() && !self.sync.fence(fence).opens.is_empty() {
                self.look_behind_ring(fence);
            }
        }
    }
}
