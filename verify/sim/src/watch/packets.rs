//! The packets' part of the filter: every submission and every interrupt passes here. A sabotaged kernel has gone wrong
//! before the checkers look, a sabotaged driver behind them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ddi::{
    ContextInfo, CreateContext, DriverStatus, Host, Interrupt, KmdContext, Miniport, Notify, PacketCaps,
    PacketScheduling, Patch, PreemptCommand, SubmitCommand, SubmitCommandVirtual, SubmitFlags,
};
use miniport_filter::PacketSchedulingFilter;
use wddm_types::{NodeId, SegmentId};

use super::folds::{Folding, Folds};
use super::{CONTRACT, Watched};
use crate::check::packets::Handed;
use crate::check::{Shared, shared};
use crate::sabotage::Sabotage;

const PACKETS: &str = "packets";

/// The tampering of a sabotaged world with packets.
#[derive(Default)]
pub struct Tampering {
    /// Ids that a paging buffer was given instead of its own.
    renamed: BTreeMap<u32, u32>,
    /// A packet that is handed over behind the next one.
    late: Option<Late>,
    nodes: BTreeMap<u16, Reports>,
    /// In worlds where it is late with interrupts of fences.
    pub(super) folds: Option<Arc<Folds>>,
}

/// The reports of a node's driver, and those withheld from the kernel.
#[derive(Default)]
struct Reports {
    asked: bool,
    told: u32,
    withheld: VecDeque<u32>,
}

/// A submission of its own.
struct Late {
    context: KmdContext,
    segment: SegmentId,
    address: u64,
    bytes: (u32, u32),
    private_data: Vec<u8>,
    fence_id: u32,
    flags: SubmitFlags,
}

impl Late {
    fn of(submit: &SubmitCommand<'_>) -> Late {
        Late {
            context: submit.context,
            segment: submit.dma_buffer_segment,
            address: submit.dma_buffer_physical_address,
            bytes: (submit.start_offset, submit.end_offset),
            private_data: submit.private_data.to_vec(),
            fence_id: submit.fence_id,
            flags: submit.flags,
        }
    }

    fn submission(&self) -> SubmitCommand<'_> {
        SubmitCommand {
            context: self.context,
            dma_buffer_segment: self.segment,
            dma_buffer_physical_address: self.address,
            start_offset: self.bytes.0,
            end_offset: self.bytes.1,
            private_data: &self.private_data,
            fence_id: self.fence_id,
            flags: self.flags,
        }
    }
}

impl Watched {
    fn hand_over(&mut self, next: &mut dyn PacketScheduling, submit: SubmitCommand<'_>) -> Result<(), DriverStatus> {
        self.see(PACKETS, |ledger| ledger.packets.handed_over(Handed::of(&submit)));
        next.submit_command(submit)
    }

    /// Of two packets that came back the second goes first, with the first one's id.
    fn hand_over_swapped(
        &mut self,
        next: &mut dyn PacketScheduling,
        mut submit: SubmitCommand<'_>,
    ) -> Result<(), DriverStatus> {
        if let Some(mut late) = self.tampering.late.take_if(|late| late.context == submit.context) {
            (late.fence_id, submit.fence_id) = (submit.fence_id, late.fence_id);
            self.hand_over(next, submit)?;
            return self.hand_over(next, late.submission());
        }
        let again = submit.flags.contains(SubmitFlags::RESUBMISSION) && !submit.flags.contains(SubmitFlags::PAGING);
        if again && shared(&self.ledger).packets.returned(submit.context) > 1 {
            self.tampering.late = Some(Late::of(&submit));
            return Ok(());
        }
        self.hand_over(next, submit)
    }

    /// The interrupts of a driver, seen by the checkers and then, perhaps not as they were, by the kernel.
    pub(super) fn interrupts(&mut self, next: &mut dyn Miniport, notify: &mut dyn Notify) -> bool {
        let Watched { ledger, sabotage, tampering, .. } = self;
        let folds = tampering.folds.clone();
        let mut heard = Heard { notify, ledger, sabotage: *sabotage, tampering };
        match folds {
            Some(folds) => next.interrupt_routine(&mut Folding { folds: &folds, notify: &mut heard }),
            None => next.interrupt_routine(&mut heard),
        }
    }
}

impl PacketSchedulingFilter for Watched {
    fn packet_caps(&self, honest: PacketCaps) -> PacketCaps {
        shared(&self.ledger).packets.in_flight_max(honest.hw_queue_packets);
        honest
    }

    fn create_context(
        &mut self,
        next: &mut dyn PacketScheduling,
        host: &mut dyn Host,
        create: CreateContext<'_>,
    ) -> Result<(KmdContext, ContextInfo), DriverStatus> {
        let (device, node) = (create.device, create.node);
        self.reluctantly()?;
        let made = next.create_context(host, create)?;
        self.see(CONTRACT, |ledger| {
            ledger.packets.created(made.0, node.0);
            ledger.contract.create_context(made.0, device, node)
        });
        Ok(made)
    }

    fn destroy_context(&mut self, next: &mut dyn PacketScheduling, host: &mut dyn Host, context: KmdContext) {
        next.destroy_context(host, context);
        self.see(CONTRACT, |ledger| {
            ledger.packets.destroyed(context);
            ledger.contract.destroy_context(context)
        });
    }

    fn patch(&mut self, next: &mut dyn PacketScheduling, patch: &mut Patch<'_>) -> Result<(), DriverStatus> {
        shared(&self.ledger).count("packet patched");
        next.patch(patch)
    }

    fn submit_command(
        &mut self,
        next: &mut dyn PacketScheduling,
        mut submit: SubmitCommand<'_>,
    ) -> Result<(), DriverStatus> {
        if submit.flags.contains(SubmitFlags::RESUBMISSION) {
            shared(&self.ledger).count("packet again");
        }
        match self.sabotage {
            Sabotage::KernelForgetsResubmission => submit.flags.remove(SubmitFlags::RESUBMISSION),
            Sabotage::KernelSwapsPackets => return self.hand_over_swapped(next, submit),
            Sabotage::KernelChangesPagingId
                if submit.flags.contains(SubmitFlags::PAGING)
                    && shared(&self.ledger).packets.paging_came_back(submit.context) =>
            {
                let other = submit.fence_id.wrapping_add(1 << 20);
                self.tampering.renamed.insert(other, submit.fence_id);
                submit.fence_id = other;
            }
            _ => {}
        }
        self.hand_over(next, submit)
    }

    fn submit_command_virtual(
        &mut self,
        next: &mut dyn PacketScheduling,
        mut submit: SubmitCommandVirtual<'_>,
    ) -> Result<(), DriverStatus> {
        if submit.flags.contains(SubmitFlags::RESUBMISSION) {
            shared(&self.ledger).count("packet again");
            if self.sabotage == Sabotage::KernelForgetsResubmission {
                submit.flags.remove(SubmitFlags::RESUBMISSION);
            }
        }
        self.see(PACKETS, |ledger| ledger.packets.handed_over(Handed::of_virtual(&submit)));
        next.submit_command_virtual(submit)
    }

    fn preempt_command(
        &mut self,
        next: &mut dyn PacketScheduling,
        preempt: PreemptCommand,
    ) -> Result<(), DriverStatus> {
        self.see(PACKETS, |ledger| ledger.packets.preempt(&preempt));
        self.tampering.nodes.entry(preempt.node.0).or_default().asked = true;
        next.preempt_command(preempt)
    }

    fn stop_context(&mut self, next: &mut dyn PacketScheduling, context: KmdContext) {
        next.stop_context(context);
        shared(&self.ledger).packets.stopped(context);
    }
}

struct Heard<'a> {
    notify: &'a mut dyn Notify,
    ledger: &'a Shared,
    sabotage: Sabotage,
    tampering: &'a mut Tampering,
}

impl Notify for Heard<'_> {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        let mut ledger = shared(self.ledger);
        let outcome = match interrupt {
            Interrupt::DmaCompleted { node, fence_id } => ledger.packets.completed(node.0, fence_id),
            Interrupt::DmaPreempted { node, preemption_fence_id, last_completed_fence_id, .. } => {
                ledger.packets.preempted(node.0, preemption_fence_id, last_completed_fence_id)
            }
            _ => Ok(()),
        };
        ledger.check(PACKETS, outcome);
        drop(ledger);
        let told = match (self.sabotage, interrupt) {
            (Sabotage::DriverForgetsCompletion, Interrupt::DmaCompleted { node, fence_id }) => {
                self.completed(node, fence_id)
            }
            (Sabotage::DriverForgetsCompletion, preempted @ Interrupt::DmaPreempted { node, .. }) => {
                Some(self.preempted(node, preempted))
            }
            (_, Interrupt::DmaCompleted { node, fence_id }) => {
                let fence_id = self.tampering.renamed.get(&fence_id).copied().unwrap_or(fence_id);
                Some(Interrupt::DmaCompleted { node, fence_id })
            }
            (_, other) => Some(other),
        };
        if let Some(told) = told {
            self.notify.interrupt(told);
        }
    }
}

impl Heard<'_> {
    /// While a preemption is under way nothing is said of packets that are done.
    fn completed<'a>(&mut self, node: NodeId, fence_id: u32) -> Option<Interrupt<'a>> {
        let known = self.tampering.nodes.entry(node.0).or_default();
        if known.asked {
            known.withheld.push_back(fence_id);
            return None;
        }
        known.told = fence_id;
        Some(Interrupt::DmaCompleted { node, fence_id })
    }

    /// And its answer makes them undone.
    fn preempted<'a>(&mut self, node: NodeId, mut answer: Interrupt<'a>) -> Interrupt<'a> {
        let known = self.tampering.nodes.entry(node.0).or_default();
        known.asked = false;
        if let Interrupt::DmaPreempted { last_completed_fence_id, .. } = &mut answer
            && !known.withheld.is_empty()
        {
            known.withheld.clear();
            *last_completed_fence_id = known.told;
        }
        answer
    }
}
