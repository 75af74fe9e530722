//! The stubborn driver's answers about packet contexts, and the kernel's calls about their buffers.

use ddi::*;
use miniport_filter::PacketSchedulingFilter;

use super::{Stubborn, lent};

/// A packet as the driver was handed it: by Patch, or by SubmitCommand and SubmitCommandVirtual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketStep {
    pub patch: bool,
    pub fence_id: u32,
    pub flags: SubmitFlags,
    /// One past the last byte to run.
    pub end_offset: u32,
    /// Entries of its lists.
    pub listed: usize,
    pub private_data: Vec<u8>,
}

impl PacketSchedulingFilter for Stubborn {
    fn create_context(
        &mut self,
        next: &mut dyn PacketScheduling,
        host: &mut dyn ddi::Host,
        create: CreateContext<'_>,
    ) -> Result<(KmdContext, ContextInfo), DriverStatus> {
        (self.whims.refuse)("context")?;
        let mut host = lent::Lent { host, map: &*self.whims.map_context, ask: &*self.whims.ask };
        let (context, mut info) = next.create_context(&mut host, create)?;
        if create.flags.contains(CreateContextFlags::SYSTEM_CONTEXT) {
            info.dma_buffer_private_data_bytes += self.whims.paging_data_bytes;
        }
        (self.whims.context)(&mut info);
        Ok((context, info))
    }
    fn render(
        &mut self,
        next: &mut dyn PacketScheduling,
        context: KmdContext,
        render: &mut Render<'_>,
    ) -> Result<(), RenderStatus> {
        (self.whims.render)(next, context, render)
    }
    fn present(
        &mut self,
        next: &mut dyn PacketScheduling,
        context: KmdContext,
        present: &mut Present<'_>,
    ) -> Result<(), RenderStatus> {
        (self.whims.present)(next, context, present)
    }
    fn present_flip(
        &mut self,
        next: &mut dyn PacketScheduling,
        context: KmdContext,
        list: &[AllocationListEntry],
    ) -> Result<(), RenderStatus> {
        (self.whims.flip_queue.listed)(list)?;
        next.present_flip(context, list)
    }
    fn patch(&mut self, next: &mut dyn PacketScheduling, patch: &mut Patch<'_>) -> Result<(), DriverStatus> {
        (self.whims.hand_over)(PacketStep {
            patch: true,
            fence_id: patch.fence_id,
            flags: patch.flags,
            end_offset: patch.end_offset,
            listed: patch.allocation_list.len() + patch.patch_locations.len(),
            private_data: patch.private_data.to_vec(),
        });
        next.patch(patch)
    }
    fn submit_command(
        &mut self,
        next: &mut dyn PacketScheduling,
        submit: SubmitCommand<'_>,
    ) -> Result<(), DriverStatus> {
        (self.whims.hand_over)(PacketStep {
            patch: false,
            fence_id: submit.fence_id,
            flags: submit.flags,
            end_offset: submit.end_offset,
            listed: 0,
            private_data: submit.private_data.to_vec(),
        });
        next.submit_command(submit)
    }
    fn submit_command_virtual(
        &mut self,
        next: &mut dyn PacketScheduling,
        submit: SubmitCommandVirtual<'_>,
    ) -> Result<(), DriverStatus> {
        (self.whims.hand_over)(PacketStep {
            patch: false,
            fence_id: submit.fence_id,
            flags: submit.flags,
            end_offset: submit.dma_buffer_bytes,
            listed: 0,
            private_data: submit.private_data.to_vec(),
        });
        next.submit_command_virtual(submit)
    }
    fn reset_engine(
        &mut self,
        next: &mut dyn PacketScheduling,
        reset: ResetEngine,
        notify: &mut dyn Notify,
    ) -> Result<u32, DriverStatus> {
        (self.whims.reset_engine)(next, reset, notify)
    }
}
