//! Hardware queues and their doorbells, as the filter shows them.

use super::*;

impl HardwareQueuesFilter for Watched {
    fn create_hw_context(
        &mut self,
        next: &mut dyn HardwareQueues,
        host: &mut dyn Host,
        create: CreateHwContext<'_>,
    ) -> Result<KmdContext, DriverStatus> {
        let (device, node) = (create.device, create.node);
        self.reluctantly()?;
        let context = next.create_hw_context(host, create)?;
        self.see(CONTRACT, |ledger| ledger.contract.create_context(context, device, node));
        Ok(context)
    }

    fn destroy_hw_context(&mut self, next: &mut dyn HardwareQueues, context: KmdContext) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_context(context));
        next.destroy_hw_context(context);
    }

    fn create_hw_queue(
        &mut self,
        next: &mut dyn HardwareQueues,
        host: &mut dyn Host,
        create: CreateHwQueue<'_>,
    ) -> Result<KmdQueue, DriverStatus> {
        let (context, fence) = (create.context, create.progress.fence);
        let queue = next.create_hw_queue(host, create)?;
        self.see(CONTRACT, |ledger| ledger.contract.create_queue(queue, context, fence));
        Ok(queue)
    }

    fn destroy_hw_queue(&mut self, next: &mut dyn HardwareQueues, host: &mut dyn Host, queue: KmdQueue) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_queue(queue));
        next.destroy_hw_queue(host, queue);
    }

    fn submit_command_to_hw_queue(
        &mut self,
        next: &mut dyn HardwareQueues,
        submit: SubmitCommandToHwQueue,
    ) -> Result<(), DriverStatus> {
        self.see(CONTRACT, |ledger| ledger.contract.submit(submit.queue, submit.progress_value));
        next.submit_command_to_hw_queue(submit)
    }

    fn suspend_context(
        &mut self,
        next: &mut dyn HardwareQueues,
        context: KmdContext,
        suspend_fence: u64,
    ) -> Result<SuspendStatus, DriverStatus> {
        let status = next.suspend_context(context, suspend_fence)?;
        if self.sabotage != Sabotage::KernelRunsOn {
            shared(&self.ledger).contract.suspended(context, true);
        }
        Ok(status)
    }

    fn resume_context(&mut self, next: &mut dyn HardwareQueues, context: KmdContext) {
        shared(&self.ledger).contract.suspended(context, false);
        next.resume_context(context);
    }

    fn set_engine_f_state(&mut self, next: &mut dyn HardwareQueues, node: NodeId, engine: EngineId, state: FState) {
        self.see(CONTRACT, |ledger| ledger.contract.engine_power(node, state == FState::F1));
        next.set_engine_f_state(node, engine, state);
    }

    fn stop_hw_queue(&mut self, next: &mut dyn HardwareQueues, queue: KmdQueue) {
        self.see(CONTRACT, |ledger| ledger.contract.stop_queue(queue));
        next.stop_hw_queue(queue);
    }
}

impl DoorbellsFilter for Watched {
    fn create_doorbell(
        &mut self,
        next: &mut dyn Doorbells,
        create: CreateDoorbell<'_>,
    ) -> Result<KmdDoorbell, DriverStatus> {
        let (queue, os) = (create.queue, create.doorbell);
        let doorbell = next.create_doorbell(create)?;
        self.see(CONTRACT, |ledger| ledger.contract.create_doorbell(doorbell, os, queue));
        Ok(doorbell)
    }

    fn connect_doorbell(
        &mut self,
        next: &mut dyn Doorbells,
        host: &mut dyn DoorbellHost,
        doorbell: KmdDoorbell,
    ) -> Result<ConnectedDoorbell, DriverStatus> {
        let silent = self.sabotage == Sabotage::DriverTakesSilently;
        let mut heard = HeardHost { host, taken: Vec::new(), silent };
        let connected = next.connect_doorbell(&mut heard, doorbell);
        for os in heard.taken {
            self.see(CONTRACT, |ledger| ledger.contract.taken(os));
        }
        let connected = connected?;
        self.see(CONTRACT, |ledger| ledger.contract.connect(doorbell, true));
        Ok(connected)
    }

    fn disconnect_doorbell(&mut self, next: &mut dyn Doorbells, doorbell: KmdDoorbell) {
        self.see(CONTRACT, |ledger| ledger.contract.connect(doorbell, false));
        next.disconnect_doorbell(doorbell);
    }

    fn destroy_doorbell(&mut self, next: &mut dyn Doorbells, doorbell: KmdDoorbell) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_doorbell(doorbell));
        next.destroy_doorbell(doorbell);
    }

    fn notify_work_submission(&mut self, next: &mut dyn Doorbells, queue: KmdQueue) {
        self.see(CONTRACT, |ledger| ledger.contract.notify(queue));
        next.notify_work_submission(queue);
    }
}

/// The kernel's host for a driver that connects a doorbell, observed.
struct HeardHost<'a> {
    host: &'a mut dyn DoorbellHost,
    taken: Vec<OsDoorbell>,
    /// The kernel hears nothing of it.
    silent: bool,
}

impl DoorbellHost for HeardHost<'_> {
    fn disconnect_doorbell(
        &mut self,
        queue: OsQueue,
        doorbell: OsDoorbell,
        reason: Disconnected,
    ) -> Result<(), DriverStatus> {
        if self.silent {
            return Ok(());
        }
        self.host.disconnect_doorbell(queue, doorbell, reason)?;
        self.taken.push(doorbell);
        Ok(())
    }
}
