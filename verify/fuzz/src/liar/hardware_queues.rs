//! Hardware queues as a lying driver shows them.

use wddm_types::EngineId;

use super::*;

impl HardwareQueues for Liar {
    fn create_hw_context(
        &mut self,
        host: &mut dyn Host,
        create: CreateHwContext<'_>,
    ) -> Result<KmdContext, DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        self.queues().create_hw_context(host, create)
    }

    fn destroy_hw_context(&mut self, context: KmdContext) {
        self.queues().destroy_hw_context(context);
    }

    fn create_hw_queue(&mut self, host: &mut dyn Host, create: CreateHwQueue<'_>) -> Result<KmdQueue, DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        self.queues().create_hw_queue(host, create)
    }

    fn destroy_hw_queue(&mut self, host: &mut dyn Host, queue: KmdQueue) {
        self.queues().destroy_hw_queue(host, queue);
    }

    fn submission_data_bytes(&mut self) -> u32 {
        self.queues().submission_data_bytes()
    }

    fn submit_command_to_hw_queue(&mut self, submit: SubmitCommandToHwQueue) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Submit)?;
        self.queues().submit_command_to_hw_queue(submit)
    }

    fn suspend_context(&mut self, context: KmdContext, suspend_fence: u64) -> Result<SuspendStatus, DriverStatus> {
        match self.lies.tells(Lie::Suspend).map(|mut dice| dice.below(3)) {
            Some(0) => Err(DriverStatus::Unsuccessful("a lie")),
            // It never says that it is done.
            Some(1) => Ok(SuspendStatus::Pending),
            Some(_) => Ok(SuspendStatus::Suspended),
            None => self.queues().suspend_context(context, suspend_fence),
        }
    }

    fn resume_context(&mut self, context: KmdContext) {
        self.queues().resume_context(context);
    }

    fn set_engine_f_state(&mut self, node: NodeId, engine: EngineId, state: FState) {
        self.queues().set_engine_f_state(node, engine, state);
    }

    fn stop_hw_queue(&mut self, queue: KmdQueue) {
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

    fn reset_hw_engine(&mut self, node: NodeId, engine: u32) -> Result<Vec<KmdContext>, DriverStatus> {
        let mut honest = self.queues().reset_hw_engine(node, engine)?;
        match self.lies.tells(Lie::Resets).map(|mut dice| (dice.below(3), dice)) {
            None => {}
            Some((0, _)) => return Err(DriverStatus::Unsuccessful("a lie")),
            Some((1, _)) => honest.clear(),
            Some((_, mut dice)) => honest.push(KmdContext(dice.number(9))),
        }
        Ok(honest)
    }

    fn resume_hw_engine(&mut self, node: NodeId, engine: u32) -> Result<(), DriverStatus> {
        self.queues().resume_hw_engine(node, engine)
    }
}
