//! Calls that make, end, wait for and signal synchronization objects (sync §3.2–§3.6).

use kmt_calls::{Call, Refusal, Reply};

use crate::call::{Turn, done};
use crate::fence::PointUse;
use crate::machine::{Answer, Cx};
use crate::object::Object;
use crate::refusal::invalid;

impl Turn<'_> {
    /// Calls on fences.
    pub(super) fn on_fence(
        &mut self,
        cx: &mut Cx<'_>,
        call: Call,
        touched: &mut Option<u32>,
    ) -> Result<Answer, Refusal> {
        match call {
            Call::CreateNativeFence { device, request } => {
                let (index, device) = self.live_device(device, touched)?;
                let (open, private_data) = self.adapters[index as usize].create_native_fence(cx, device, request)?;
                let handle = self.name(Object::Fence(index, open))?;
                let created = self.adapters[index as usize].created_fence(open, handle, private_data);
                self.when_mapped(cx, index, Reply::Fence(created))
            }
            Call::CreateSynchronizationObject2 { device, request } => {
                let (index, device) = self.live_device(device, touched)?;
                self.create_sync_object(cx, index, device, request)
            }
            Call::DestroySynchronizationObject { fence } => {
                if let Some(&Object::Legacy(index, number)) = self.process.handles.get(fence) {
                    *touched = Some(index);
                    self.adapters[index as usize].destroy_sync_object(cx, number);
                    self.process.handles.remove(fence);
                    return done(Reply::Done);
                }
                let (index, open) = self.fence(fence)?;
                *touched = Some(index);
                let adapter = &mut self.adapters[index as usize];
                let device = adapter.fence_opens[open].device;
                if !device.is_some_and(|device| adapter.devices[device].fences.contains(&open)) {
                    return Err(invalid("the fence belongs to a queue and goes with it"));
                }
                adapter.close_fence(cx, open);
                self.process.handles.remove(fence);
                done(Reply::Done)
            }
            Call::WaitForSynchronizationObjectFromCpu { device, points, async_event, flags } => {
                let (index, device) = self.live_device(device, touched)?;
                let points = self.points(index, &points, PointUse::CpuWait)?;
                let event = self.some_event(async_event)?;
                self.adapters[index as usize].wait_from_cpu(cx, self.token, device, &points, event, flags)
            }
            Call::SignalSynchronizationObjectFromCpu { device, points, flags } => {
                let (index, _) = self.live_device(device, touched)?;
                let points = self.points(index, &points, PointUse::CpuSignal)?;
                self.adapters[index as usize].signal_from_cpu(cx, &points, flags)?;
                done(Reply::Done)
            }
            call => self.on_context_sync(cx, call, touched),
        }
    }
}
