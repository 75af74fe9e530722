//! DMA buffers as a driver writes them for Render and Present: taken from the context's pool, or given back to it (memory §7.1, §9.2).
//! Nothing is queued here.

use ddi::{AllocationListEntry, RenderStatus};
use kmt_calls::{DeviceState, Refusal};
use wddm_types::{Blame, NtStatus};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, PacketContextNumber};
use crate::packet::{Built, Source, Written};
use crate::refusal::{no_memory, refuse, removed};

impl Adapter {
    /// Has the driver write the DMA buffers for one call. They are in use from now on.
    ///
    /// # Errors
    /// There is no buffer, the driver refuses, or it breaks the contract, which stops the adapter. No buffer is in use then.
    // spec: memory §7.1, memory §9.2
    pub(super) fn write_dma_buffers(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        list: &[AllocationListEntry],
        source: &Source<'_>,
    ) -> Result<Vec<Built>, Refusal> {
        let mut built: Vec<Built> = Vec::new();
        let mut multipass = 0;
        loop {
            let Some(buffer) = self.take_dma_buffer(cx, context) else {
                self.release_built(cx, context, built);
                return Err(no_memory("the context's DMA buffers are all queued, or there is no memory for another"));
            };
            built.push(Built { buffer, written: 0, places: Vec::new() });
            let last = built.last_mut().expect("just pushed");
            let driver = self.driver.call(cx).packet_scheduling().expect("it made this context");
            match self.packets.write_buffer(driver, context, last, list, source, &mut multipass) {
                Ok(true) => {
                    debug_assert!(
                        built.iter().all(|built| built.written > 0),
                        "a buffer that is built holds something"
                    );
                    return Ok(built);
                }
                Ok(false) => {}
                Err(Written::Status(status)) => {
                    self.release_built(cx, context, built);
                    let device = self.packets[context].device;
                    return Err(self.refused_by_driver(cx, device, status));
                }
                Err(Written::Breach(rule)) => {
                    self.stop(cx, rule.into());
                    return Err(removed(format!("the adapter was stopped: {rule}")));
                }
            }
        }
    }

    pub(super) fn release_built(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber, built: Vec<Built>) {
        built.into_iter().for_each(|built| self.release_dma_buffer(cx, context, built.buffer));
    }

    /// The refusals of Render and Present by a driver, as statuses.
    // spec: memory §9.2
    pub(super) fn refused_by_driver(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, status: RenderStatus) -> Refusal {
        let (code, blame) = match status {
            RenderStatus::NoMemory(_) => (NtStatus::NO_MEMORY, Blame::Scarcity),
            RenderStatus::InsufficientDmaBuffer => unreachable!("another buffer, or a breach of the contract"),
            RenderStatus::PrivilegedInstruction => (NtStatus::PRIVILEGED_INSTRUCTION, Blame::Caller),
            RenderStatus::IllegalInstruction => (NtStatus::ILLEGAL_INSTRUCTION, Blame::Caller),
            RenderStatus::InvalidParameter(_) => (NtStatus::INVALID_PARAMETER, Blame::Caller),
            RenderStatus::InvalidUserBuffer(_) => (NtStatus::INVALID_USER_BUFFER, Blame::Caller),
            RenderStatus::InvalidHandle(_) => (NtStatus::INVALID_HANDLE, Blame::Caller),
            RenderStatus::DriverMismatch => (NtStatus::GRAPHICS_DRIVER_MISMATCH, Blame::Caller),
            RenderStatus::GpuException(_) => (NtStatus::GRAPHICS_GPU_EXCEPTION_ON_DEVICE, Blame::Driver),
        };
        if let RenderStatus::GpuException(reason) = status {
            let reason = format!("the driver gave the device up: {reason}");
            self.fail_device(cx, device, DeviceState::ErrorDmaFault, reason);
        }
        refuse(code, blame, status.to_string())
    }
}
