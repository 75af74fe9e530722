//! Context allocations (memory §7.5) around the driver's call: the adapter lends the memory manager to it, queues the work that was decided
//! meanwhile, and keeps for the device what all its contexts share. `context_allocation` answers the driver.

use gpu_fence::FenceId;
use vidmm::{DeviceId, Work};
use wddm_types::ProcessId;

use crate::adapter::Adapter;
use crate::context_allocation::{ContextAllocation, ContextHost};
use crate::driver::Driver;
use crate::effect::Cx;
use crate::number::DeviceNumber;

impl Adapter {
    /// The host for a driver's requests while it creates a device, or a context of it.
    pub(super) fn context_host(&mut self, device: DeviceId, process: ProcessId) -> (ContextHost<'_>, &mut Driver) {
        let (space, by_address) = (self.owners.space_of(process), self.memory.ring.has_addresses());
        (ContextHost::new(&mut self.vidmm, device, space, by_address), &mut self.driver)
    }

    /// Queues works that were decided together, in their order.
    pub(super) fn queue_works(&mut self, cx: &mut Cx<'_>, process: ProcessId, mut works: Vec<Work<FenceId>>) {
        // A driver that panics at one of them takes the others along: their loss is no second bug.
        works.iter_mut().for_each(Work::accept);
        for work in works {
            self.queue_work(cx, process, None, Some(work), Vec::new());
        }
    }

    /// A context is there: allocations shared across contexts stay with its device; answers with the others.
    pub(super) fn keep_context_allocations(
        &mut self,
        device: DeviceNumber,
        made: Vec<ContextAllocation>,
    ) -> Vec<ContextAllocation> {
        let (of_device, of_context): (Vec<_>, Vec<_>) = made.into_iter().partition(ContextAllocation::is_of_device);
        self.memory.allocations.keep_for_contexts(device, of_device);
        of_context
    }

    /// Ends context allocations whose context or device touches nothing any more.
    pub(super) fn destroy_context_allocations(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        gone: Vec<ContextAllocation>,
    ) {
        for allocation in gone {
            let work = self.vidmm.destroy_allocation(allocation.vidmm, &[]);
            self.queue_any(cx, process, work);
        }
    }
}
