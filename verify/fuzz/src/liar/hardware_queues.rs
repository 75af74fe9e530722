//! Hardware queues as a lying driver shows them.

use super::*;

impl HardwareQueuesFilter for Liar {
    fn create_hw_context(
        &mut self,
        next: &mut dyn HardwareQueues,
        host: &mut dyn Host,
        create: CreateHwContext<'_>,
    ) -> Result<KmdContext, DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.create_hw_context(host, create)
    }

    fn create_hw_queue(
        &mut self,
        next: &mut dyn HardwareQueues,
        host: &mut dyn Host,
        create: CreateHwQueue<'_>,
    ) -> Result<KmdQueue, DriverStatus> {
        self.lies.refusal(Lie::Refusals)?;
        next.create_hw_queue(host, create)
    }

    fn submit_command_to_hw_queue(
        &mut self,
        next: &mut dyn HardwareQueues,
        submit: SubmitCommandToHwQueue,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Submit)?;
        next.submit_command_to_hw_queue(submit)
    }

    fn suspend_context(
        &mut self,
        next: &mut dyn HardwareQueues,
        context: KmdContext,
        suspend_fence: u64,
    ) -> Result<SuspendStatus, DriverStatus> {
        match self.lies.tells(Lie::Suspend).map(|mut dice| dice.below(3)) {
            Some(0) => Err(DriverStatus::Unsuccessful("a lie")),
            // It never says that it is done.
            Some(1) => Ok(SuspendStatus::Pending),
            Some(_) => Ok(SuspendStatus::Suspended),
            None => next.suspend_context(context, suspend_fence),
        }
    }

    fn reset_hw_engine(
        &mut self,
        next: &mut dyn HardwareQueues,
        node: NodeId,
        engine: u32,
    ) -> Result<Vec<KmdContext>, DriverStatus> {
        let mut honest = next.reset_hw_engine(node, engine)?;
        match self.lies.tells(Lie::Resets).map(|mut dice| (dice.below(3), dice)) {
            None => {}
            Some((0, _)) => return Err(DriverStatus::Unsuccessful("a lie")),
            Some((1, _)) => honest.clear(),
            Some((_, mut dice)) => honest.push(KmdContext(dice.number(9))),
        }
        Ok(honest)
    }
}
