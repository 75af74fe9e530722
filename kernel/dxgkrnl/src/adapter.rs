//! One adapter: its driver, its memory manager, its scheduler, its fences, its objects.
//!
//! # The law of this room
//! - Files of this room alone add methods to [`Adapter`] and borrow two of its parts at once; its fields are private. Whatever a part decides
//!   by its own state alone is the part's, in a module beside this one, which imports neither `adapter` nor `machine`.
//! - A call and the machine ask an adapter by methods that say what for. An adapter knows no other one and calls neither of them: what it has
//!   for them are answers, effects in `Cx`, and news that the machine takes (`sync`, `due`).
//!
//! An adapter settles after each turn: it carries out the waits that were released during the turn (answers, queues that go
//! on, paging work), which may release more, until nothing is due. `due` has the news and the order.

mod allocation;
mod client_memory;
mod coherency;
mod context_allocation;
mod deferred;
pub mod description;
mod destroy;
mod device;
mod display;
mod doorbell;
mod engine_power;
mod fence;
mod fence_log;
mod flip;
mod gpu_va;
mod holds;
pub mod interrupt;
mod invariant;
mod io_mmu;
mod lock;
mod lost;
mod mapping;
mod memory;
mod metering;
mod mode;
pub mod moves;
mod named;
mod objects;
mod packets;
mod paging_buffer;
mod paging_queue;
mod power;
pub mod process;
mod property;
mod queue;
mod rank;
mod recovery;
mod residency;
mod resource;
mod ring;
mod rotation;
mod scarcity;
mod scheduling_log;
mod scratch;
mod section;
mod start;
mod statistics;
mod stillness;
mod suspension;
mod swizzling;
mod sync;
mod timeout;
mod turns;
pub mod update;
mod waking;
mod work;

use events::Event;
use gpu_fence::FenceId;
use kmt_calls::{DeviceState, Refusal, Reply, Wddm31Caps};
use vidmm::VidMm;
use vidsch::VidSch;
use wddm_types::{AdapterIndex, Luid, PageRun, Pages, PciFunction, ProcessId};

use crate::breach::Breach;
use crate::driver::Driver;
use crate::due::{Due, SettleStep, Settles, Waiter, settle_in_order};
use crate::effect::{Cx, Effect};
use crate::features::FeaturePolicy;
use crate::life::RecoveryPolicy;
use crate::memory::AdapterMemory;
use crate::memory_policy::MemoryPolicy;
use crate::owners::Owners;
use crate::packet::{Packets, Software};
use crate::platform::Shown;
use crate::queue::HardwareQueues;
use crate::store::ObjectNumber;
use crate::sync::Synchronization;
use crate::tally::Tally;

pub use doorbell::NewDoorbell;
pub use fence::Opened;
pub use fence_log::{LogNews, Names};
pub use flip::Behind;

/// How an adapter is set up. Sizes are in the units that their types say.
#[derive(Clone, Debug)]
pub struct AdapterConfig {
    /// Its name for a reader of logs and listings.
    pub name: String,
    /// Its id.
    pub luid: Luid,
    /// What the bus says of its device.
    pub pci: PciFunction,
    /// System pages for the kernel's own use on this adapter.
    pub kernel_pages: PageRun,
    /// System pages for backing stores.
    pub system_pages: PageRun,
    /// Memory kept for page tables in the segment of leaf tables, beside what allocations can have.
    pub page_table_reserve: Pages,
    /// The same in each segment that only tables above the leaf live in (memory §4.3).
    pub directory_reserve: Pages,
    /// Paging buffers in flight at most.
    pub paging_buffers: u32,
    /// Clear system pages before an owner sees them. Off only where no bytes are stored.
    pub clear_pages: bool,
    /// The choices of the memory manager.
    pub memory_policy: MemoryPolicy,
    /// The platform is coherent although it has caches that the kernel knows of ([`Platform::cpu_cache`](crate::Platform::cpu_cache)): GPUs
    /// snoop them where page-table entries and aperture mappings say so.
    pub snoops: bool,
    /// The configuration of features.
    pub features: FeaturePolicy,
    /// The policy for hung work: what the kernel resets, and how often before it stops the adapter.
    pub recovery: RecoveryPolicy,
    /// The choices of the scheduler.
    pub scheduling: engine_time::Policy,
}

/// One adapter.
pub struct Adapter {
    index: AdapterIndex,
    luid: Luid,
    config: AdapterConfig,
    driver: Driver,
    vidmm: VidMm<FenceId>,
    /// What of memory the kernel keeps beside the memory manager.
    memory: AdapterMemory,
    vidsch: VidSch<crate::scheduling::Scheduled>,
    sync: Synchronization,
    software: Software,
    owners: Owners,
    queues: HardwareQueues,
    packets: Packets,
    displays: crate::display::Displays,
    doorbells: crate::queue::Doorbells,
    life: crate::life::Life,
    scheduling_logs: crate::scheduling_log::SchedulingLogs,
    /// News that the loop of [`Adapter::settle`] or the machine carries out.
    due: Due,
    /// What has happened, counted.
    tally: Tally,
}

impl Adapter {
    /// `D3DKMT_WDDM_3_1_CAPS`.
    // spec: sync §3.1 step 8
    pub fn wddm_3_1_caps(&self) -> Wddm31Caps {
        let mut caps = Wddm31Caps::empty();
        let on = self.driver.has_native_fences();
        caps.set(Wddm31Caps::NATIVE_GPU_FENCE_SUPPORTED, on);
        caps
    }

    /// Carries out what is due until nothing is, in the order of [`settle_in_order`].
    pub fn settle(&mut self, cx: &mut Cx<'_>) {
        self.due.settles();
        settle_in_order(&mut Settling { adapter: self, cx });
    }

    /// Carries a step out. Its answer is the one that the step asks for; `false` where it asks for none.
    // Each place in the order names its step, so that the compiler leaves the match out there.
    #[inline(always)]
    fn carry_out(&mut self, cx: &mut Cx<'_>, step: SettleStep) -> bool {
        match step {
            SettleStep::ReapPaging | SettleStep::ReapAfterNews => self.reap_paging(cx),
            SettleStep::BuryDead => {
                self.bury_dead(cx);
                self.carry_out_evictions(cx);
            }
            SettleStep::PumpPaging
            | SettleStep::PagingForDisplays
            | SettleStep::PagingAfterNews
            | SettleStep::PagingAfterTurns => {
                self.pump_paging(cx);
            }
            SettleStep::PumpPackets
            | SettleStep::PacketsAfterFlip
            | SettleStep::PacketsForDisplays
            | SettleStep::PacketsAfterNews => {
                self.pump_packets(cx);
            }
            SettleStep::ReadAwaitedFlips => return self.read_awaited_flips(cx),
            SettleStep::BeginModes => self.modes_due(cx),
            SettleStep::PumpDisplays => {
                self.pump_displays(cx);
                return self.displays.are_there();
            }
            SettleStep::WatchForDisplays => {
                // Every turn comes here, most find the ring so, and the ring's look costs less than the displays'.
                if !self.memory.ring.owes_no_progress() && self.display_need().is_some() {
                    self.watch_progress(cx);
                }
            }
            SettleStep::CarryNews => {
                let Some(waiter) = self.due.next_waiter() else { return false };
                self.end_wait(cx, waiter);
                return true;
            }
            SettleStep::AskForTurns => return !self.memory.ring.turn_outstanding() && self.vidmm.any_suspended(),
            SettleStep::TakeTurns => {
                self.take_turns(cx);
                return self.memory.ring.turn_outstanding();
            }
            SettleStep::BeginRenders => self.renders_due(cx),
            SettleStep::AskForAwaitedFlips => self.ask_for_awaited_flips(cx),
            SettleStep::Reset => return self.group_resets_due(cx) || self.reset_if_due(cx) || self.answer_connects(cx),
            SettleStep::LendRanks => self.lend_ranks(cx),
            SettleStep::ArmTimeouts => self.arm_timeouts(cx),
            SettleStep::StopDriver => self.stop_driver_behind_last(cx),
            SettleStep::ShrinkKernelPages => self.shrink_kernel_pages(),
            SettleStep::MeterNodes => self.meter_nodes(cx),
            SettleStep::TellMoves => self.emit_untold(cx, ProcessId::SYSTEM, u64::MAX),
        }
        false
    }

    /// Does what a wait that is over was registered for.
    fn end_wait(&mut self, cx: &mut Cx<'_>, waiter: Waiter) {
        match waiter {
            Waiter::Answer { token, device } => {
                let lost = self.life.has_stopped() || !self.owners.is_active(device);
                let result = if lost { Err(self.lost_meanwhile(device)) } else { Ok(Reply::Done) };
                cx.effects.push(Effect::Answer { token, result });
            }
            Waiter::Event { event, .. } => self.due.set_event(event),
            Waiter::Burial => self.bury_dead(cx),
            Waiter::Evictions { device } => self.eviction_due(cx, device),
            Waiter::Render { done } => self.render_done(cx, done),
            Waiter::Lock { waiting } => self.lock_waited(cx, waiting),
            Waiter::Queue { queue, packet } => self.queue_released(cx, queue, packet),
            Waiter::Packets { context } => self.packets_released(cx, context),
            Waiter::Ring(wait) => self.ring_released(cx, wait),
            Waiter::Update { context } => self.update_released(cx, context),
        }
    }

    /// Stops the adapter: its driver or hardware broke the contract. Every waiter is answered, every later call refused.
    pub fn stop(&mut self, cx: &mut Cx<'_>, reason: String) {
        if self.life.has_stopped() {
            return;
        }
        cx.emit(self.index, Event::AdapterStopped { adapter: self.index.0, reason: reason.clone() });
        // spec: memory §8.6: the query of a device's state has the same answer as every other call
        for device in self.owners.devices().map(|(number, _)| number).collect::<Vec<_>>() {
            if !self.owners.lose(device, DeviceState::Stopped, "") {
                continue;
            }
            self.tally.device_lost();
            cx.emit(self.index, Event::DeviceInError { device: device.raw(), state: 4, reason: reason.clone() });
        }
        self.doorbells.abort_all(Shown { memory: cx.memory, pages: cx.platform(self.index).doorbells() });
        self.sync.lose_common_fences(cx.memory);
        self.displays_stopped(cx);
        self.life.stop(reason);
        self.due.waits_ended(self.sync.end_all_waits());
        self.due.forget_refusals();
        // The fences of these uses may come no more. What the hardware may still use stays until its device ends.
        for token in self.memory.allocations.take_answers() {
            cx.effects.push(Effect::Answer { token, result: Err(self.life.refusal()) });
        }
        self.release_mappings(cx);
        self.memory.ring.abandon();
    }

    /// Stops the adapter for a break of the contract by its driver or hardware. The answer, where there is none.
    pub fn heed<T>(&mut self, cx: &mut Cx<'_>, told: Result<T, Breach>) -> Option<T> {
        told.map_err(|Breach(reason)| self.stop(cx, reason)).ok()
    }

    /// The same for a call, which the stopped adapter refuses.
    ///
    /// # Errors
    /// `DEVICE_REMOVED` with the reason of the stop.
    pub fn heed_for_call<T>(&mut self, cx: &mut Cx<'_>, told: Result<T, Breach>) -> Result<T, Refusal> {
        self.heed(cx, told).ok_or_else(|| self.life.refusal())
    }

    /// The bytes resident in each segment, for traces.
    pub fn emit_resident(&mut self, cx: &mut Cx<'_>, segment: wddm_types::SegmentId) {
        let bytes = self.vidmm.resident_bytes(segment);
        cx.emit(self.index, Event::ResidentBytes { segment: segment.0, bytes });
    }
}

/// An adapter that settles, with the context of the turn.
struct Settling<'a, 'cx> {
    adapter: &'a mut Adapter,
    cx: &'a mut Cx<'cx>,
}

impl Settles for Settling<'_, '_> {
    #[inline(always)]
    fn carry_out(&mut self, step: SettleStep) -> bool {
        self.adapter.carry_out(self.cx, step)
    }
}
