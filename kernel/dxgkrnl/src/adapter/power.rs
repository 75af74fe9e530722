//! An adapter sleeps and wakes (memory §1.10, §8.4, sync §3.17). Going down: all devices are suspended, their doorbells taken away, what
//! would be lost is saved by the paging ring, then the driver switches its device off. Coming back, when the computer wakes or a process
//! connects a doorbell: the driver switches it on, page tables are written anew, devices come back by their turns. `vidmm` decides which
//! content must be saved, `life` where the adapter stands on its way; `waking` handles doorbells.
//!
//! PnP stops it in the same way, for good: nothing is kept anywhere, and a start is the start of another adapter.
//!
//! Calls of devices are refused meanwhile, with a status that says that a retry is meaningful; all but the one that wakes. Ends are not
//! refused: objects are destroyed and processes die whenever they like. On the way down the ring may wait for that, so their paging work
//! is still carried out, and the device goes behind it; once the device has no power it stands in the ring until the wake.

use ddi::PowerState;
use events::Event;
use kmt_calls::{DeviceState, Refusal, Reply};
use vidmm::{PowerUp, Sleep, Work};
use wddm_types::ProcessId;

use crate::adapter::Adapter;
use crate::effect::{Answer, Cx, Effect, Token};
use crate::scheduling_log::SchedulingLogs;

impl Adapter {
    /// Saves what the sleep would lose and switches the device off; answers when that is done.
    // spec: memory §1.10, memory §8.4
    pub fn power_down(&mut self, cx: &mut Cx<'_>, token: Token, state: PowerState) -> Answer {
        let sleep = match state {
            PowerState::Standby => Sleep::Standby,
            PowerState::Hibernate => Sleep::Hibernate,
            PowerState::On => return Answer::Done(self.power_up(cx).map(|()| Reply::Done)),
        };
        if let Err(refusal) = self.life.awake() {
            return Answer::Done(Err(refusal));
        }
        self.displays_sleep(cx);
        self.life.goes_down(self.memory.ring.queued() + 1);
        cx.emit(self.index, Event::PowerChanged { adapter: self.index.0, on: false });
        if let Some(work) = self.vidmm.power_down(sleep) {
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        }
        self.defer_power_down(token, state);
        Answer::Later(token)
    }

    /// The ring has saved everything: nothing executes, so the device may go.
    pub fn switch_off(&mut self, cx: &mut Cx<'_>, token: Token, state: PowerState) {
        if let Err(refusal) = self.life.running() {
            cx.effects.push(Effect::Answer { token, result: Err(refusal) });
            return;
        }
        debug_assert!(self.memory.ring.is_idle(), "the ring has saved all before the device goes");
        self.take_doorbells_for_sleep(cx);
        self.lend_logs(cx, SchedulingLogs::take);
        let (mut driver, mut host) = self.driver.with_host(cx);
        let result = driver.set_power_state(&mut host, state);
        let result = match result {
            Ok(()) => {
                self.life.switched_off();
                Ok(Reply::Done)
            }
            Err(status) => {
                self.stop(cx, format!("SetPowerState failed: {status}"));
                self.life.running().map(|()| Reply::Done)
            }
        };
        cx.effects.push(Effect::Answer { token, result });
    }

    /// PnP stops the adapter: all content leaves its memory, pinned content too, then the device goes; answers when that is done.
    // spec: memory §8.4
    pub fn pnp_stop(&mut self, cx: &mut Cx<'_>, token: Token) -> Answer {
        if let Err(refusal) = self.life.awake() {
            return Answer::Done(Err(refusal));
        }
        self.displays_sleep(cx);
        self.life.goes_down(u64::MAX);
        if let Some(work) = self.vidmm.power_down(Sleep::Stop) {
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        }
        self.defer_stop(token);
        Answer::Later(token)
    }

    /// The ring has emptied the device's memory: devices are told, addresses of the CPU are gone. The objects of processes
    /// stay until they are destroyed or their processes die; behind the last one the driver stops.
    // spec: memory §8.4, memory §8.6
    pub fn memory_left(&mut self, cx: &mut Cx<'_>, token: Token) {
        if let Err(refusal) = self.life.running() {
            cx.effects.push(Effect::Answer { token, result: Err(refusal) });
            return;
        }
        debug_assert!(self.memory.ring.is_idle(), "the ring has emptied the memory before the adapter stops");
        let devices: Vec<_> = self.owners.devices().map(|(number, _)| number).collect();
        for device in devices {
            self.fail_device(cx, device, DeviceState::Stopped, "the adapter was stopped".into());
        }
        let locked: Vec<_> =
            self.memory.allocations.bodies().map(|(id, _)| id).filter(|id| self.vidmm.is_locked(*id)).collect();
        for id in locked {
            self.unmap_for_cpu(cx, ProcessId::SYSTEM, id);
        }
        self.stop(cx, "PnP stop".into());
        self.life.stopped_by_pnp();
        cx.effects.push(Effect::Answer { token, result: Ok(Reply::Done) });
    }

    /// Stops the driver of an adapter that PnP has stopped, once no process has anything there.
    // spec: memory §8.4
    pub fn stop_driver_behind_last(&mut self, cx: &Cx<'_>) {
        if self.life.owes_driver_stop()
            && self.owners.devices().next().is_none()
            && self.memory.allocations.none_wait()
            && self.memory.allocations.resource_bodies().next().is_none()
        {
            self.life.driver_stopped();
            let (mut driver, mut host) = self.driver.with_host(cx);
            driver.stop_device(&mut host);
        }
    }

    /// Switches the device on and gives it its page tables.
    ///
    /// # Errors
    /// It is not asleep, or the driver fails, which stops the adapter.
    // spec: memory §1.10, memory §4.7
    pub fn power_up(&mut self, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        self.life.asleep()?;
        let (mut driver, mut host) = self.driver.with_host(cx);
        if let Err(status) = driver.set_power_state(&mut host, PowerState::On) {
            self.stop(cx, format!("SetPowerState failed: {status}"));
            return self.life.running();
        }
        self.vidsch.engine_power.all_have_power();
        let PowerUp { paging_process, mut processes } = self.vidmm.power_up();
        // From here on a driver that fails, or panics, takes them along: nothing translates by these tables any more.
        processes.iter_mut().for_each(Work::accept);
        let tables = paging_process.map(Work::into_operations).unwrap_or_default();
        if self.execute_now(cx, tables).is_err() || self.show_buffers_again(cx).is_err() {
            self.stop(cx, "the page tables of the paging process could not be written".into());
            return self.life.running();
        }
        self.life.woke();
        self.begin_scheduling_logs(cx);
        self.tell_slept_through(cx);
        cx.emit(self.index, Event::PowerChanged { adapter: self.index.0, on: true });
        self.show_dma_buffers_again(cx);
        if let Some(work) = processes {
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        }
        self.upload_late(cx);
        Ok(())
    }
}
