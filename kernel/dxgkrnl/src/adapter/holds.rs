//! The rule "holds": each thing that this adapter holds names its end, and that end is queued (`crate::hold`). The parts name the ends of what
//! they hold themselves; here are the holds that stand between parts, and the look for each end.
//!
//! | held | until |
//! |---|---|
//! | the next paging buffer, a slot of the scratch area | progress that the hardware was given a buffer for, or the buffer under construction |
//! | the work at the ring's head | the ring's progress, which is watched; around locked content the answer of the outside |
//! | the next work that has not started | the registered wait of the wait packet, or of the suspensions, before it |
//! | a paging buffer that is a packet | its node, which has something to give back |
//! | awaited actions, values that the kernel signals, devices that content or page tables move under | a work that is queued |
//! | a device that lost its place, its promised values, its buffers with lists | its turn: it stands in line, and the next decision has its time |
//! | a suspension | the contexts that have not left the hardware |
//! | a hardware queue, a packet context | its registered wait, an object, a display |
//! | a packet that is next | the ring, a display, a turn, or its node |
//! | an update of tiles, a legacy lock, a destruction that a call waits for, an eviction that stands aside | its registered wait |
//!
//! An adapter without power holds everything until it wakes, and one that has stopped holds nothing: neither is looked at.

use std::collections::BTreeSet;

use vidsch::{QueueState, SuspendReasons};

use crate::adapter::Adapter;
use crate::due::Waiter;
use crate::hold::{Hold, Until};
use crate::invariant::{Checked, ensure};
use crate::number::{DeviceNumber, PacketContextNumber, PagingWorkNumber, QueueNumber};
use crate::paging::RingNeed;
use crate::queue::Queue;
use crate::scheduling::{Leaving, Suspendable};
use crate::store::ObjectNumber;

impl Adapter {
    /// That each hold ends.
    pub(super) fn check_holds(&self) -> Checked {
        if self.life.has_stopped() || self.life.is_off() {
            return Ok(());
        }
        let waits: BTreeSet<&Waiter> = self.sync.waiters().collect();
        let endless = self.holds().into_iter().find(|hold| !self.comes(&hold.until, &waits));
        ensure(endless.is_none(), "holds", || {
            endless.map_or_else(String::new, |hold| {
                let Hold { what, which, until } = hold;
                format!("{what} {which} is held until {until:?}, which nothing that is queued brings")
            })
        })
    }

    fn holds(&self) -> Vec<Hold> {
        let mut holds = self.ring_holds();
        holds.extend(self.promise_holds());
        holds.extend(self.suspension_holds());
        holds.extend(self.queues.iter().filter_map(|(number, queue)| self.queue_hold(number, queue)));
        let contexts = self.packets.contexts().filter_map(|(context, _)| self.context_hold(context));
        holds.extend(contexts);
        holds.extend(self.memory.updates.holds());
        holds.extend(self.memory.waiting_locks.holds());
        holds.extend(self.memory.allocations.holds());
        holds.extend(self.eviction_holds());
        let renders = self.packets.devices_of_waiting();
        holds.extend(
            renders.map(|device| Hold::new("a buffer with a list of device", device.raw(), Until::Turn(device))),
        );
        holds
    }

    /// Whether what ends a hold is queued.
    fn comes(&self, until: &Until, waits: &BTreeSet<&Waiter>) -> bool {
        let ring = &self.memory.ring;
        match until {
            Until::Progress(value) => ring.will_reach(*value),
            Until::Buffer | Until::Answer | Until::Object => true,
            Until::Work(number) => ring.will_pass(PagingWorkNumber::from_raw(*number)),
            Until::Serial(serial) => ring.will_pass_serial(*serial),
            Until::Wait(waiter) => waits.contains(waiter),
            Until::Node(node) => {
                let paging = *node == self.driver.paging_node() && ring.waits_for_node();
                self.vidsch.nodes.owes(*node)
                    || self.vidsch.timeouts.is_preparing(*node)
                    || self.vidsch.nodes.deadline_ns().is_some()
                    || paging
            }
            Until::Reset => self.vidsch.timeouts.is_any_preparing(),
            Until::Turn(device) => self.has_turn_coming(*device),
            Until::Leaves(Leaving::Ring) => ring.kmd_queue().is_some(),
            Until::Leaves(Leaving::Hardware(context)) => self.queues.context(*context).is_some(),
            Until::Leaves(Leaving::Packets(context)) => {
                self.packets.get(*context).is_some_and(|known| self.vidsch.nodes.holder(known.node) == Some(*context))
            }
            Until::Display => self.displays.are_there(),
            Until::Nothing => false,
        }
    }

    /// Whether a device stands in line, and the next turn is under way or has its time; or its own turn is decided.
    fn has_turn_coming(&self, device: DeviceNumber) -> bool {
        let waits = |device| self.brings_nothing_in(device);
        let in_line = self.owners.facts_of(device).is_some_and(|facts| waits(facts.vidmm));
        let decides = self.memory.ring.turn_outstanding() || self.memory.turns.decides() || !self.life.is_awake();
        in_line && decides || self.memory.ring.turn_of(device).is_some()
    }

    fn ring_holds(&self) -> Vec<Hold> {
        let Some(queue) = self.memory.ring.queue_id() else { return Vec::new() };
        let mut holds = self.memory.ring.all_holds(self.vidsch.queues.state(queue), &self.ring_needs());
        if let Some(ready) = self.memory.ring.next_ready() {
            let node = self.driver.paging_node();
            let until = match self.vidsch.nodes.owes(node) || self.vidsch.timeouts.is_preparing(node) {
                true => Until::Node(node),
                false => Until::Nothing,
            };
            holds.push(Hold::new("a paging buffer that waits for its node and completes", ready.value(), until));
        }
        holds
    }

    /// Values that paging queues have promised and the kernel signals.
    fn promise_holds(&self) -> Vec<Hold> {
        let mut holds = Vec::new();
        for (device, work) in self.memory.paging_queues.first_kept_of_each() {
            let process = self.owners.facts_of(device).map(|facts| facts.process);
            let until = match process {
                _ if work.raw() > self.memory.ring.done() => Until::Work(work.raw()),
                Some(process) if !self.memory.cpu_view.sees_up_to(process, work) => Until::Answer,
                _ => Until::Nothing,
            };
            holds.push(Hold::new("a value of a paging queue behind work", work.raw(), until));
        }
        for device in self.memory.paging_queues.devices_that_await_turns() {
            if self.owners.is_active(device) {
                holds.push(Hold::new("a paging queue of device", device.raw(), Until::Turn(device)));
            }
        }
        holds
    }

    /// Devices off the hardware, one hold for each reason; and suspensions that are not acknowledged.
    fn suspension_holds(&self) -> Vec<Hold> {
        let mut holds = Vec::new();
        let suspensions = &self.vidsch.suspensions;
        for (suspended, reasons) in suspensions.suspended() {
            let Some(device) = suspended.device().filter(|device| self.owners.is_active(*device)) else { continue };
            let ring = &self.memory.ring;
            let behind = |work: Option<u64>| work.map_or(Until::Nothing, Until::Work);
            for reason in reasons.iter() {
                let until = match () {
                    () if reason == SuspendReasons::RESIDENCY => Until::Turn(device),
                    () if reason == SuspendReasons::PAGE_TABLES => behind(ring.stillness_of(device)),
                    () if reason == SuspendReasons::RELOCATION => behind(ring.relocation_of(device)),
                    // Its contexts have not left the hardware: that is a hold of its own.
                    () if reason == SuspendReasons::TIMEOUT && suspensions.awaits(suspended) => continue,
                    () => Until::Reset,
                };
                holds.push(Hold::new("off the hardware: device", device.raw(), until));
            }
        }
        if suspensions.awaits(Suspendable::Ring) {
            holds.push(Hold::new("the ring's suspension", 0, Until::Leaves(Leaving::Ring)));
        }
        let waiting = suspensions.waiting();
        holds.extend(
            waiting.map(|leaving| Hold::new("a suspension", suspensions.last_number().raw(), Until::Leaves(leaving))),
        );
        holds
    }

    /// A hardware queue that holds packets, or waits.
    fn queue_hold(&self, number: QueueNumber, queue: &Queue) -> Option<Hold> {
        let vidsch = queue.vidsch;
        let state = self.vidsch.queues.state(vidsch);
        let wait = |packet| Until::Wait(Waiter::Queue { queue: number, packet });
        let until = match state {
            QueueState::Waiting | QueueState::SuspendedWaiting if self.displays.holds(number) => Until::Display,
            QueueState::Waiting | QueueState::SuspendedWaiting => wait(true),
            QueueState::Ready if self.vidsch.queues.held(vidsch) > 0 => wait(false),
            QueueState::Ready | QueueState::Suspended | QueueState::Failed => return None,
        };
        Some(Hold::new("hardware queue", number.raw(), until))
    }

    /// A packet context that holds packets, or waits.
    fn context_hold(&self, context: PacketContextNumber) -> Option<Hold> {
        let known = &self.packets[context];
        if !self.owners.is_active(known.device) {
            return None;
        }
        let queues = &self.vidsch.queues;
        let until = if queues.state(known.vidsch).is_waiting() {
            match self.software.is_waiting(context) {
                true => Until::Object,
                false => Until::Wait(Waiter::Packets { context }),
            }
        } else if queues.held(known.vidsch) == 0 || self.is_suspended(known.device) {
            return None;
        } else {
            self.next_packet_end(context)
        };
        Some(Hold::new("packet context", context.raw(), until))
    }

    /// What ends the hold of a context's next packet, whose device runs.
    fn next_packet_end(&self, context: PacketContextNumber) -> Until {
        let known = &self.packets[context];
        if !self.vidsch.queues.next_is_work(known.vidsch) {
            return Until::Node(known.node);
        }
        match self.need_of(context) {
            Some(RingNeed::Number(number)) => Until::Work(number),
            Some(RingNeed::Serial(serial)) => Until::Serial(serial),
            None if !self.primaries_are_free(context) => Until::Display,
            None if self.awaits_turn(context) => Until::Turn(known.device),
            None => Until::Node(known.node),
        }
    }
}
