//! Hardware queues and their doorbells, as the decorator shows them.

use super::*;

impl HardwareQueues for Watched {
    fn create_hw_context(
        &mut self,
        host: &mut dyn Host,
        create: CreateHwContext<'_>,
    ) -> Result<KmdContext, DriverStatus> {
        let (device, node) = (create.device, create.node);
        let context = self.queues().create_hw_context(host, create)?;
        self.see(CONTRACT, |ledger| ledger.contract.create_context(context, device, node));
        Ok(context)
    }

    fn destroy_hw_context(&mut self, context: KmdContext) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_context(context));
        self.queues().destroy_hw_context(context);
    }

    fn create_hw_queue(&mut self, host: &mut dyn Host, create: CreateHwQueue<'_>) -> Result<KmdQueue, DriverStatus> {
        let (context, fence) = (create.context, create.progress.fence);
        let queue = self.queues().create_hw_queue(host, create)?;
        self.see(CONTRACT, |ledger| ledger.contract.create_queue(queue, context, fence));
        Ok(queue)
    }

    fn destroy_hw_queue(&mut self, host: &mut dyn Host, queue: KmdQueue) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_queue(queue));
        self.queues().destroy_hw_queue(host, queue);
    }

    fn submission_data_bytes(&mut self) -> u32 {
        self.queues().submission_data_bytes()
    }

    fn submit_command_to_hw_queue(&mut self, submit: SubmitCommandToHwQueue) -> Result<(), DriverStatus> {
        self.see(CONTRACT, |ledger| ledger.contract.submit(submit.queue, submit.progress_value));
        self.queues().submit_command_to_hw_queue(submit)
    }

    fn suspend_context(&mut self, context: KmdContext, suspend_fence: u64) -> Result<SuspendStatus, DriverStatus> {
        let status = self.queues().suspend_context(context, suspend_fence)?;
        if self.sabotage != Sabotage::KernelRunsOn {
            shared(&self.ledger).contract.suspended(context, true);
        }
        Ok(status)
    }

    fn resume_context(&mut self, context: KmdContext) {
        shared(&self.ledger).contract.suspended(context, false);
        self.queues().resume_context(context);
    }

    fn set_engine_f_state(&mut self, node: NodeId, engine: EngineId, state: FState) {
        self.see(CONTRACT, |ledger| ledger.contract.engine_power(node, state == FState::F1));
        self.queues().set_engine_f_state(node, engine, state);
    }

    fn stop_hw_queue(&mut self, queue: KmdQueue) {
        self.see(CONTRACT, |ledger| ledger.contract.stop_queue(queue));
        self.queues().stop_hw_queue(queue);
    }

    fn setup_priority_bands(&mut self, setup: SetupPriorityBands) -> Result<(), DriverStatus> {
        self.queues().setup_priority_bands(setup)
    }

    fn set_context_scheduling_properties(
        &mut self,
        properties: SetContextSchedulingProperties,
    ) -> Result<(), DriverStatus> {
        self.queues().set_context_scheduling_properties(properties)
    }

    fn set_scheduling_log_buffer(&mut self, set: SetSchedulingLogBuffer<'_>) -> Result<(), DriverStatus> {
        self.queues().set_scheduling_log_buffer(set)
    }

    fn hw_queue_running_ns(&mut self, queue: KmdQueue) -> Result<u64, DriverStatus> {
        self.queues().hw_queue_running_ns(queue)
    }
}

impl Doorbells for Watched {
    fn create_doorbell(&mut self, create: CreateDoorbell<'_>) -> Result<KmdDoorbell, DriverStatus> {
        let (queue, os) = (create.queue, create.doorbell);
        let doorbell = self.bells().create_doorbell(create)?;
        self.see(CONTRACT, |ledger| ledger.contract.create_doorbell(doorbell, os, queue));
        Ok(doorbell)
    }

    fn connect_doorbell(
        &mut self,
        host: &mut dyn DoorbellHost,
        doorbell: KmdDoorbell,
    ) -> Result<ConnectedDoorbell, DriverStatus> {
        let silent = self.sabotage == Sabotage::DriverTakesSilently;
        let mut heard = HeardHost { host, taken: Vec::new(), silent };
        let connected = self.bells().connect_doorbell(&mut heard, doorbell);
        for os in heard.taken {
            self.see(CONTRACT, |ledger| ledger.contract.taken(os));
        }
        let connected = connected?;
        self.see(CONTRACT, |ledger| ledger.contract.connect(doorbell, true));
        Ok(connected)
    }

    fn disconnect_doorbell(&mut self, doorbell: KmdDoorbell) {
        self.see(CONTRACT, |ledger| ledger.contract.connect(doorbell, false));
        self.bells().disconnect_doorbell(doorbell);
    }

    fn destroy_doorbell(&mut self, doorbell: KmdDoorbell) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_doorbell(doorbell));
        self.bells().destroy_doorbell(doorbell);
    }

    fn notify_work_submission(&mut self, queue: KmdQueue) {
        self.see(CONTRACT, |ledger| ledger.contract.notify(queue));
        self.bells().notify_work_submission(queue);
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
