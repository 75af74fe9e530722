//! A filter between the kernel and the watched driver: it is late with faults of hardware queues, and until the kernel has heard of one, it
//! refuses what processes have for the node that has faulted. A driver may do both, and only the process whose work faulted pays for it.
//!
//! It tells of a fault when the kernel hears it the next time: by an interrupt of something else, because of a refusal, or because the kernel
//! looks for hung work.

use std::collections::BTreeMap;

use ddi::*;
use miniport_filter::*;
use wddm_types::NodeId;

use crate::check::{Shared, shared};

const REFUSED: DriverStatus = DriverStatus::Unsuccessful("a fault of the node is not handled");

/// The filter.
pub struct Hesitant {
    ledger: Shared,
    contexts: BTreeMap<KmdContext, NodeId>,
    queues: BTreeMap<KmdQueue, NodeId>,
    /// Faults of which the kernel has not heard.
    kept: Vec<PageFault>,
    /// The kernel has heard it to the end since it keeps them.
    heard: bool,
}

impl Hesitant {
    /// In front of this driver.
    pub fn before(driver: Box<dyn Miniport>, ledger: Shared) -> Box<dyn Miniport> {
        let (contexts, queues) = (BTreeMap::new(), BTreeMap::new());
        Box::new(Filtered::new(driver, Hesitant { ledger, contexts, queues, kept: Vec::new(), heard: false }))
    }

    fn refuses_at(&self, node: Option<&NodeId>, what: &str) -> Result<(), DriverStatus> {
        match node.is_some_and(|node| self.kept.iter().any(|fault| fault.node == *node)) {
            true => {
                shared(&self.ledger).count(&format!("refused for a fault: {what}"));
                Err(REFUSED)
            }
            false => Ok(()),
        }
    }
}

passes_on!(
    Hesitant: GpuVirtualAddressingFilter, NativeFencesFilter, NativeFenceLogsFilter, PeerDoorbellsFilter, PacketSchedulingFilter,
    DoorbellsFilter, HostApertureFilter, SwizzlingFilter, DisplayFilter, FlipQueueFilter
);

impl Filter for Hesitant {
    fn reset_from_timeout(&mut self, next: &mut dyn Miniport, host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.kept.clear();
        next.reset_from_timeout(host)
    }

    fn interrupt_routine(&mut self, next: &mut dyn Miniport, notify: &mut dyn Notify) -> bool {
        let tells = std::mem::take(&mut self.heard) && !self.kept.is_empty();
        if tells {
            self.kept.drain(..).for_each(|fault| notify.interrupt(Interrupt::HwQueuePageFaulted(fault)));
        }
        let found = next.interrupt_routine(&mut Keeps { kept: &mut self.kept, notify });
        self.heard = !found && !tells;
        found || tells
    }
}

impl HardwareQueuesFilter for Hesitant {
    fn create_hw_context(
        &mut self,
        next: &mut dyn HardwareQueues,
        host: &mut dyn Host,
        create: CreateHwContext<'_>,
    ) -> Result<KmdContext, DriverStatus> {
        let (node, system) = (create.node, create.system);
        let context = next.create_hw_context(host, create)?;
        // Paging is the kernel's own: a driver that refuses that has failed.
        if !system {
            self.contexts.insert(context, node);
        }
        Ok(context)
    }

    fn create_hw_queue(
        &mut self,
        next: &mut dyn HardwareQueues,
        host: &mut dyn Host,
        create: CreateHwQueue<'_>,
    ) -> Result<KmdQueue, DriverStatus> {
        let node = self.contexts.get(&create.context).copied();
        let queue = next.create_hw_queue(host, create)?;
        if let Some(node) = node {
            self.queues.insert(queue, node);
        }
        Ok(queue)
    }

    fn destroy_hw_queue(&mut self, next: &mut dyn HardwareQueues, host: &mut dyn Host, queue: KmdQueue) {
        self.kept.retain(|fault| fault.queue != queue);
        self.queues.remove(&queue);
        next.destroy_hw_queue(host, queue);
    }

    fn destroy_hw_context(&mut self, next: &mut dyn HardwareQueues, context: KmdContext) {
        self.contexts.remove(&context);
        next.destroy_hw_context(context);
    }

    fn submit_command_to_hw_queue(
        &mut self,
        next: &mut dyn HardwareQueues,
        submit: SubmitCommandToHwQueue,
    ) -> Result<(), DriverStatus> {
        self.refuses_at(self.queues.get(&submit.queue), "a command")?;
        next.submit_command_to_hw_queue(submit)
    }

    fn suspend_context(
        &mut self,
        next: &mut dyn HardwareQueues,
        context: KmdContext,
        suspend_fence: u64,
    ) -> Result<SuspendStatus, DriverStatus> {
        self.refuses_at(self.contexts.get(&context), "a suspension")?;
        next.suspend_context(context, suspend_fence)
    }
}

struct Keeps<'a> {
    kept: &'a mut Vec<PageFault>,
    notify: &'a mut dyn Notify,
}

impl Notify for Keeps<'_> {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        match interrupt {
            Interrupt::HwQueuePageFaulted(fault) => self.kept.push(fault),
            other => self.notify.interrupt(other),
        }
    }
}
