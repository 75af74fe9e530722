//! Refusals of the driver that the kernel has not judged yet.
//!
//! A driver learns of a fault before the kernel does. Between the fault's interrupt and its handling the driver refuses the work of what has
//! faulted, and keeps the contract. So the kernel puts a refusal aside, hears the driver's interrupts, and judges then:
//!
//! ```text
//! refused ─▶ put aside: the work stands where it stood, the driver gets nothing more for its device
//!              └▶ heard: the driver's interrupts are carried out
//!                   ├▶ the device is lost by its own fault ─▶ its work goes with it
//!                   ├▶ a fault on the node cost another device ─▶ the driver is asked again
//!                   └▶ no fault explains the refusal ─▶ the verdict
//! ```
//! Each fault that explains a refusal costs a device, so asking again comes to an end. A driver that lies is found in the same turn of the
//! machine. A refusal that a part has put aside while the kernel hears waits for the next hearing.

use vidsch::{PreemptionNumber, SuspensionNumber};
use wddm_types::NodeId;

use super::Due;
use crate::number::{ContextNumber, DeviceNumber, QueueNumber};

/// The request that the driver refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedWork {
    /// A packet, which stands in front of its context's queue again.
    Packet,
    /// A command buffer, which stands in front of this queue again.
    Command(QueueNumber),
    /// The suspension of a hardware context, under this number.
    Suspension(ContextNumber, SuspensionNumber),
    /// The rank of a hardware context.
    Rank(ContextNumber),
    /// The request for what this node has, under this number.
    Preemption(NodeId, PreemptionNumber),
    /// A paging buffer that is a packet, or work of the ring that has a hardware queue.
    Paging,
    /// The entries of queues' logs.
    Logs,
}

/// The consequence of a refusal that no fault explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The driver has broken the contract.
    Stop(String),
    /// The device is lost.
    Lose(String),
    /// The hardware has failed, and the adapter is to be reset.
    Reset(String),
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverRefusal {
    /// The request.
    pub work: RefusedWork,
    /// The device that it was for; `None`: it was for the kernel's own work, or for that of several devices.
    pub device: Option<DeviceNumber>,
    /// The consequence, unless a fault explains it.
    pub verdict: Verdict,
    /// A fault on one of these nodes explains it.
    nodes: u64,
    /// Such a fault has cost a device since.
    explained: bool,
    /// The kernel hears the driver for its sake.
    heard: bool,
}

impl DriverRefusal {
    /// A refusal that a fault on one of these nodes explains. Without nodes only the reset of the adapter makes it moot.
    pub fn new(
        work: RefusedWork,
        device: Option<DeviceNumber>,
        nodes: impl IntoIterator<Item = NodeId>,
        verdict: Verdict,
    ) -> DriverRefusal {
        let nodes = nodes.into_iter().fold(0, |nodes, node| nodes | 1 << node.0);
        DriverRefusal { work, device, verdict, nodes, explained: false, heard: false }
    }

    /// Whether a fault explains it.
    pub fn is_explained(&self) -> bool {
        self.explained
    }
}

impl Due {
    /// The driver has refused something, and the refusal is to be judged.
    pub fn refused(&mut self, refusal: DriverRefusal) {
        self.refusals.push(refusal);
    }

    /// Whether a refusal for this device is not judged yet: the driver gets nothing more for the device.
    pub fn awaits_judgement(&self, device: DeviceNumber) -> bool {
        self.refusals.iter().any(|refusal| refusal.device == Some(device))
    }

    /// Whether a refusal of paging work is not judged yet: the driver gets no more of that.
    pub fn paging_awaits_judgement(&self) -> bool {
        self.refusals.iter().any(|refusal| refusal.work == RefusedWork::Paging)
    }

    /// A device is about to be lost by a fault on this node.
    pub fn fault_heard(&mut self, NodeId(node): NodeId) {
        let here = |refusal: &&mut DriverRefusal| refusal.nodes >> node & 1 == 1;
        self.refusals.iter_mut().filter(here).for_each(|refusal| refusal.explained = true);
    }

    /// The kernel is about to hear the driver. Whether there are refusals to judge then.
    pub fn hears_refusals(&mut self) -> bool {
        self.refusals.iter_mut().for_each(|refusal| refusal.heard = true);
        !self.refusals.is_empty()
    }

    /// The refusals for whose sake the kernel has heard the driver, oldest first.
    #[must_use]
    pub fn take_heard(&mut self) -> Vec<DriverRefusal> {
        let (heard, others) = std::mem::take(&mut self.refusals).into_iter().partition(|refusal| refusal.heard);
        self.refusals = others;
        heard
    }

    /// The adapter was reset or has stopped: no refusal of before means anything.
    pub fn forget_refusals(&mut self) {
        self.refusals.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ObjectNumber;

    fn packet(device: u64, node: u16) -> DriverRefusal {
        let verdict = Verdict::Stop("refused".into());
        DriverRefusal::new(RefusedWork::Packet, Some(DeviceNumber::from_raw(device)), [NodeId(node)], verdict)
    }

    #[test]
    fn a_fault_explains_the_refusals_of_its_node_that_came_before_it() {
        let mut due = Due::default();
        due.refused(packet(1, 0));
        due.refused(packet(2, 1));
        due.fault_heard(NodeId(1));
        due.refused(packet(3, 1));
        assert!(due.hears_refusals());
        let explained: Vec<_> = due.take_heard().iter().map(DriverRefusal::is_explained).collect();
        assert_eq!(explained, [false, true, false]);
    }

    #[test]
    fn a_refusal_of_a_hearing_waits_for_the_next_and_holds_its_device_until_then() {
        let mut due = Due::default();
        assert!(!due.hears_refusals());
        due.refused(packet(1, 0));
        assert!(due.hears_refusals());
        due.refused(packet(2, 0));
        assert_eq!(due.take_heard().len(), 1);
        let awaits = |due: &Due, device| due.awaits_judgement(DeviceNumber::from_raw(device));
        assert_eq!((awaits(&due, 1), awaits(&due, 2), due.paging_awaits_judgement()), (false, true, false));
        assert_eq!(due.left_over(), Some("refusals to judge"));
        due.refused(DriverRefusal::new(RefusedWork::Paging, None, [], Verdict::Reset("refused".into())));
        assert!(due.paging_awaits_judgement());
        due.fault_heard(NodeId(63));
        assert!(due.hears_refusals());
        assert!(due.take_heard().iter().all(|refusal| !refusal.is_explained()), "no fault of a context explains it");
        due.refused(packet(3, 0));
        due.forget_refusals();
        assert_eq!((due.hears_refusals(), due.left_over()), (false, None));
    }
}
