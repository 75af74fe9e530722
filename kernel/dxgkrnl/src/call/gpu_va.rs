//! Calls about GPU virtual addresses (memory §4.8).

use kmt_calls::{GpuVaCall, Refusal, Reply, UpdateGpuVaFlags, UpdateGpuVaOperation};
use wddm_types::{AdapterIndex, RawHandle};

use crate::adapter::update::UpdateRequest;
use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::gpu_va::{MapCall, ReserveCall};
use crate::number::{DeviceNumber, UpdateContext};
use crate::object::Object;
use crate::refusal::invalid;
use crate::sync::PointUse;

impl Turn<'_> {
    pub(super) fn on_gpu_va(&mut self, cx: &mut Cx<'_>, call: GpuVaCall) -> Result<Answer, Refusal> {
        match call {
            GpuVaCall::MapGpuVirtualAddress {
                paging_queue,
                allocation,
                base,
                minimum,
                maximum,
                offset_in_pages,
                size_in_pages,
                protection,
                driver_protection,
            } => {
                let (index, queue) = self.paging_queue(paging_queue)?;
                let device = self.adapters[index].device_of_paging_queue(queue);
                self.alive(index, device)?;
                let allocation = match allocation {
                    RawHandle::NONE => None,
                    named => Some(self.allocation_of(index, device, named)?),
                };
                let map = MapCall {
                    allocation,
                    base,
                    minimum,
                    maximum,
                    offset_in_pages,
                    size_in_pages,
                    protection,
                    driver_protection,
                };
                let (va, paging_fence_value) = self.adapters[index].map_gpu_va(cx, queue, map)?;
                done(Reply::MappedVa { va, paging_fence_value })
            }
            GpuVaCall::ReserveGpuVirtualAddress {
                device,
                base,
                minimum,
                maximum,
                size_bytes,
                reservation_type,
                driver_protection,
            } => {
                let (index, device) = self.space_owner(device)?;
                let reserve = ReserveCall { base, minimum, maximum, size_bytes, reservation_type, driver_protection };
                self.adapters[index].reserve_gpu_va(cx, self.token, device, reserve)
            }
            GpuVaCall::UpdateGpuVirtualAddress { device, context, fence, fence_value, operations, flags } => {
                self.update_gpu_va(cx, (device, context), (fence, fence_value), (&operations, flags))
            }
            GpuVaCall::FreeGpuVirtualAddress { device, base, size_bytes } => {
                let (index, device) = self.space_owner(device)?;
                self.adapters[index].free_gpu_va(cx, device, base, size_bytes)?;
                done(Reply::Done)
            }
        }
    }

    fn update_gpu_va(
        &mut self,
        cx: &mut Cx<'_>,
        (device, context): (RawHandle, RawHandle),
        (fence, fence_value): (RawHandle, u64),
        (operations, flags): (&[UpdateGpuVaOperation], UpdateGpuVaFlags),
    ) -> Result<Answer, Refusal> {
        let (index, device) = self.live_device(device)?;
        let context = self.update_context(index, device, context)?;
        let handle = fence;
        let fence = self.usable_fence(index, handle, PointUse::GpuSignal)?;
        if !flags.contains(UpdateGpuVaFlags::DO_NOT_WAIT) {
            self.usable_fence(index, handle, PointUse::GpuWait)?;
        }
        let mut allocations = Vec::new();
        for operation in operations {
            if let UpdateGpuVaOperation::Map { allocation, .. } = operation {
                allocations.push(self.allocation_of(index, device, *allocation)?);
            }
        }
        let request = UpdateRequest { device, context, fence, fence_value, operations, allocations, flags };
        self.adapters[index].update_gpu_va(cx, self.token, request)
    }

    /// Finds the device that stands for the process's address space on an adapter: a named device; the device of a named paging queue
    /// (the older form); for an adapter any device of the process there. A process without a device has no space there.
    // spec: memory §4.8 (hAdapter∪hPagingQueue)
    fn space_owner(&mut self, handle: RawHandle) -> Result<(AdapterIndex, DeviceNumber), Refusal> {
        let (index, device) = match self.process.handles.get(handle) {
            Some(&Object::Adapter(index)) => {
                let device = self.adapters[index].any_device_of(self.from);
                let device = device.ok_or_else(|| invalid("the process has no device on the adapter"))?;
                (index, device)
            }
            Some(&Object::PagingQueue(index, queue)) => (index, self.adapters[index].device_of_paging_queue(queue)),
            _ => return self.live_device(handle),
        };
        self.alive(index, device)?;
        Ok((index, device))
    }

    /// A context whose updates are queued: of this device, and one that has GPU virtual addresses.
    // spec: memory §4.8
    fn update_context(
        &self,
        index: AdapterIndex,
        device: DeviceNumber,
        handle: RawHandle,
    ) -> Result<UpdateContext, Refusal> {
        let (on, context) = match self.process.handles.get(handle) {
            Some(Object::PacketContext(on, number)) => (*on, UpdateContext::Packets(*number)),
            _ => {
                let (on, number) = self.context(handle)?;
                (on, UpdateContext::Hardware(number))
            }
        };
        let owner = self.adapters[on].device_of_updates(context)?;
        if on != index || owner != device {
            return Err(invalid("a context of another device"));
        }
        Ok(context)
    }
}
