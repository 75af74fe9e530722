//! The paging ring when the hardware has lost everything that it was given (memory §8.4, sync §4.4): the kernel does its own part of the
//! works that `paging` gives up, and the ring goes on under a new context, queue and fence of the driver.

use vidmm::{HeldRange, Operation, PowerUp, WindowPages, Work};
use wddm_types::ProcessId;

use crate::adapter::Adapter;
use crate::adapter::start::create_paging_context;
use crate::allocations::Gone;
use crate::effect::{Cx, MappingChange};
use crate::paging::{Awaited, GivenUp, PacketRing, RingQueue, Unanswered};
use crate::store::ObjectNumber;
use crate::sync::{LocalPlace, WaitsOf};

/// The destroys of works that are over.
pub struct OverWorks {
    destroys: Vec<Gone>,
}

impl Adapter {
    /// Nothing of the ring is with the hardware any more, and nothing will be. The kernel does its own part of the works: the platform's
    /// entries, the books of roots and of fence words.
    pub(super) fn abandon_works(&mut self, cx: &mut Cx<'_>) -> OverWorks {
        let mut destroys = Vec::new();
        let GivenUp { built: mut over, unbuilt } = self.memory.ring.give_up();
        for work in unbuilt {
            over.push((work.number, work.serial));
            for operation in work.operations {
                match operation {
                    Operation::SwitchRoot { space, root, entries } => self.vidmm.root_switched(space, root, entries),
                    Operation::NotifyFenceResidency { storage, address } => {
                        self.sync.local_page_moved(storage, LocalPlace { address, there_after: work.number.raw() });
                    }
                    other => {
                        let _ = self.memory.pasids.carry_out(cx.platform(self.index).io_mmu(), &other);
                    }
                }
            }
            work.turns.into_iter().for_each(|turn| self.abandon_places(cx, turn.left()));
            // A device that was to quiesce for it goes on with the others, as if it had.
            let devices = work.relocation.devices.iter().filter(|device| self.owners.facts_of(**device).is_some());
            devices.for_each(|device| self.memory.ring.relocates(*device));
            destroys.extend(work.destroys);
        }
        for (number, serial) in over {
            self.memory.ring.is_past(number);
            if serial != 0 {
                self.vidmm.completed(serial);
            }
            cx.emit(self.index, events::Event::PagingCompleted { work: number.raw() });
        }
        // The content is lost anyway.
        for mapping in self.memory.cpu_view.take_leaving() {
            self.memory.cpu_view.tell(cx, mapping, MappingChange::Gone);
        }
        for places in self.memory.ring.lose_stage() {
            self.abandon_places(cx, places);
        }
        OverWorks { destroys }
    }

    /// Nothing is in these windows and ranges any more. The kernel releases ranges now (memory §3.5), windows when no
    /// access reaches them.
    fn abandon_places(&mut self, cx: &mut Cx<'_>, (windows, ranges): (Vec<WindowPages>, Vec<HeldRange>)) {
        self.memory.ring.windows_left(windows);
        self.release_ranges(cx, &ranges);
        self.vidmm.ranges_released(&ranges);
    }

    /// The driver forgets what works were to destroy, and the kernel ends the waits of the old ring.
    pub(super) fn end_works(&mut self, cx: &mut Cx<'_>, over: OverWorks) {
        for gone in over.destroys {
            self.destroy_in_driver(cx, &gone.allocations, gone.resource, gone.with_resource);
        }
        self.end_idle_waits(cx, WaitsOf::Ring);
        self.due.forget_ring();
        self.due.forget_refusals();
        self.memory.ring.is_watched(false);
    }

    /// The device has started again: the paging process gets a context, its tables, a queue.
    ///
    /// # Errors
    /// The step that failed.
    // spec: memory §4.7, memory §8.4, sync §4.4
    pub(super) fn restart_ring(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let node = self.driver.paging_node();
        self.charge_ring(cx);
        let (Some(old_vidsch), Some(old_progress)) = (self.memory.ring.queue_id(), self.memory.ring.progress_fence())
        else {
            return Err("there was no paging queue".into());
        };
        let old_kmd = self.memory.ring.kmd_queue();
        let (device, gone) = (self.memory.ring.device(), self.memory.ring.context());
        let (buffer, addresses) = (self.driver.paging_buffer(), self.memory.ring.has_addresses());
        let (mut driver, mut host) = self.driver.with_host(cx);
        let made = if PacketRing::is_used(driver.facets()) {
            let packets = driver.again().packet_scheduling().expect("checked at adapter start");
            packets.destroy_context(&mut host, gone);
            PacketRing::create_context(&mut driver, &mut host, device, node, buffer, addresses)
        } else {
            let hardware = driver.again().hardware_queues().expect("else the paging ring takes packets");
            if let Some(queue) = old_kmd {
                hardware.destroy_hw_queue(&mut host, queue);
            }
            hardware.destroy_hw_context(gone);
            create_paging_context(&mut driver, &mut host, device, node)
        };
        self.memory.ring.begins_anew(made.map_err(|error| error.to_string())?);
        let space = self.owners.space_of(ProcessId::SYSTEM);
        if let Some(addressing) = self.driver.call(cx).gpu_va().filter(|_| self.memory.ring.has_addresses()) {
            let (root, entries) = self.vidmm.root_table(space);
            addressing.set_root_page_table(self.memory.ring.context(), root, entries);
        }
        let PowerUp { paging_process, mut processes } = self.vidmm.power_up();
        // From here on a driver that fails, or panics, takes them along: nothing translates by these tables any more.
        processes.iter_mut().for_each(Work::accept);
        let tables = paging_process.map(Work::into_operations).unwrap_or_default();
        self.begin_queue(cx, tables)?;
        // The packets of the old queue are over: their works were given up with the ring.
        self.vidsch.queues.destroy_queue(old_vidsch).abandon();
        self.defer_fence(old_progress);
        self.show_dma_buffers_again(cx);
        if let Some(work) = processes {
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        }
        Ok(())
    }

    /// The paging process gets its tables, and the ring a fence and a queue.
    ///
    /// # Errors
    /// The step that failed.
    fn begin_queue(&mut self, cx: &mut Cx<'_>, tables: Vec<Operation>) -> Result<(), String> {
        if self.execute_now(cx, tables).is_err() || self.show_buffers_again(cx).is_err() {
            return Err("the page tables of the paging process could not be written".into());
        }
        self.memory.ring.scratch_lost();
        let progress = self
            .create_fence(cx, None, ProcessId::SYSTEM, self.memory.ring.progress_value())
            .map_err(|refusal| format!("no fence for the paging ring: {}", refusal.reason))?;
        let kmd = self.create_ring_queue(cx, progress).map_err(|error| error.to_string())?;
        let vidsch = self.vidsch.queues.create_queue(self.driver.paging_node(), vidsch::QueueKind::System, 0);
        let counted_ns = kmd.and_then(|kmd| self.hardware_count(cx, kmd));
        self.memory.ring.begins(RingQueue { kmd, vidsch, progress, counted_ns });
        Ok(())
    }

    /// Locked content is shown where it is now, and its former windows go; nothing is brought into memory before that.
    // spec: memory §6.3, memory §8.4
    pub(super) fn show_what_is_left(&mut self, cx: &mut Cx<'_>) {
        let locked: Vec<_> =
            self.memory.allocations.bodies().map(|(id, _)| id).filter(|id| self.vidmm.is_locked(*id)).collect();
        let mut unanswered = Unanswered::new();
        for id in locked {
            if let Some(mapping) = self.memory.cpu_view.of(id) {
                let runs = self.through_caches(cx, id, self.vidmm.seen_runs(id).to_vec());
                // Nothing is promised behind it that is not reached: no device outlives this.
                let number = self.memory.cpu_view.tell(cx, mapping, MappingChange::Shown(runs));
                unanswered.insert(mapping, Awaited::seen(number));
            }
        }
        self.memory.ring.shows_what_is_left(unanswered);
        self.advance_rotation(cx);
    }
}
