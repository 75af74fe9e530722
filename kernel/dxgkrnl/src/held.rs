//! MakeResident that waits for an unlock: a list with an allocation that may not enter a memory segment while it is locked
//! (memory §6.3) is pending until nobody has it locked (memory §10.1 row 23). Its value is promised at once; the paging
//! queue signals nothing from there on before the list is resident, so that its values keep their order.
//!
//! The counts of a list that waits are raised when it goes through. Until then an Evict takes from the waiting lists what
//! the device's own list does not have. A client that never unlocks waits for itself; the event says so.

use std::collections::BTreeMap;

use events::Event;
use kmt_calls::{DeviceState, Refusal};
use vidmm::{MakeResidentError, MakeResidentFlags};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::refusal::invalid;

/// A MakeResident that waits.
#[derive(Debug)]
pub struct Held {
    /// The allocations, once per occurrence.
    list: Vec<u64>,
    flags: MakeResidentFlags,
}

impl Adapter {
    /// Keeps a MakeResident until `locked` is not locked any more; answers with its value.
    // spec: memory §10.1 row 23
    pub fn hold_make_resident(
        &mut self,
        cx: &mut Cx<'_>,
        paging_queue: u64,
        list: &[u64],
        flags: MakeResidentFlags,
        locked: vidmm::AllocationId,
    ) -> u64 {
        let allocation = self.allocation_numbers.get(&locked).copied().unwrap_or(0);
        let queue = &mut self.paging_queues[paging_queue];
        queue.last_value += 1;
        queue.held.push_back(Held { list: list.to_vec(), flags });
        let (device, paging_fence_value) = (queue.device, queue.last_value);
        cx.emit(Event::MakeResidentHeld { device, allocation, paging_fence_value });
        paging_fence_value
    }

    /// Something was unlocked: what waited for it goes through.
    pub fn retry_held(&mut self, cx: &mut Cx<'_>) {
        let waiting = self.paging_queues.iter().filter(|(_, queue)| !queue.held.is_empty() && !queue.doomed);
        let queues: Vec<(u64, u64)> = waiting.map(|(number, queue)| (number, queue.device)).collect();
        for (queue, device) in queues {
            while self.devices[device].state == DeviceState::Active
                && self.paging_queues[queue].held.front().is_some()
                && self.retry_first(cx, device, queue)
            {}
        }
    }

    /// Takes from the lists that wait what an Evict names beyond the device's own counts; answers with the rest.
    ///
    /// # Errors
    /// A count would go below zero; nothing has changed.
    // spec: memory §5.3
    pub fn evict_held(&mut self, cx: &mut Cx<'_>, device: u64, list: &[u64]) -> Result<Vec<u64>, Refusal> {
        let queues = &self.devices[device].paging_queues;
        if queues.iter().all(|queue| self.paging_queues[*queue].held.is_empty()) {
            return Ok(list.to_vec());
        }
        let queues: Vec<u64> = queues.iter().copied().collect();
        let owner = self.devices[device].vidmm;
        let mut waiting: BTreeMap<u64, u64> = BTreeMap::new();
        for held in queues.iter().flat_map(|queue| &self.paging_queues[*queue].held) {
            held.list.iter().for_each(|number| *waiting.entry(*number).or_default() += 1);
        }
        let (mut used, mut rest, mut taken): (BTreeMap<u64, u64>, _, _) = (BTreeMap::new(), Vec::new(), Vec::new());
        for &number in list {
            let used = used.entry(number).or_default();
            if *used < self.vidmm.count(owner, self.allocations[number].vidmm) {
                *used += 1;
                rest.push(number);
                continue;
            }
            match waiting.get_mut(&number) {
                Some(left) if *left > 0 => *left -= 1,
                _ => return Err(invalid("an allocation is evicted more often than it was made resident")),
            }
            taken.push(number);
        }
        for number in taken {
            self.take_from_held(&queues, number);
        }
        self.retry_held(cx);
        Ok(rest)
    }

    /// An allocation is destroyed: no list waits with it any more.
    pub fn forget_held(&mut self, device: u64, number: u64) {
        for queue in self.devices[device].paging_queues.clone() {
            for held in &mut self.paging_queues[queue].held {
                held.list.retain(|known| *known != number);
            }
        }
    }

    fn take_from_held(&mut self, queues: &[u64], number: u64) {
        for &queue in queues {
            for held in &mut self.paging_queues[queue].held {
                if let Some(at) = held.list.iter().position(|known| *known == number) {
                    held.list.remove(at);
                    return;
                }
            }
        }
        unreachable!("it was counted")
    }

    /// Lets the first list of a queue through; false: it waits still.
    fn retry_first(&mut self, cx: &mut Cx<'_>, device: u64, queue: u64) -> bool {
        let first = self.paging_queues[queue].held.front().expect("there is one");
        let ids: Vec<_> = first.list.iter().map(|number| self.allocations[*number].vidmm).collect();
        let (owner, process) = (self.devices[device].vidmm, self.devices[device].process);
        let made = if ids.is_empty() { Ok(None) } else { self.vidmm.make_resident_with(owner, &ids, first.flags) };
        let work = match made {
            Ok(work) => work,
            Err(MakeResidentError::Locked { .. }) => return false,
            Err(error) => {
                // It was promised and cannot be kept: the only way to say so is the device.
                let reason = format!("a MakeResident that had waited for an unlock failed: {error}");
                self.fail_device(cx, device, DeviceState::ErrorOutOfMemory, reason);
                return false;
            }
        };
        self.paging_queues[queue].held.pop_front();
        if self.paging_queues[queue].held.is_empty() {
            // The last value promised says that everything before it is there.
            self.paging_queues[queue].last_value -= 1;
            self.queue_work(cx, process, Some(queue), work, Vec::new());
        } else if work.is_some() {
            self.queue_work(cx, process, None, work, Vec::new());
        }
        true
    }
}
