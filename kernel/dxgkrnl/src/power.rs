//! An adapter sleeps and wakes (memory §1.10, §8.4). Going down: all devices are suspended, what would be lost is saved by
//! the paging ring, then the driver switches its device off. Coming back: the driver switches it on, page tables are
//! written anew, devices come back by their turns. What must be saved is `vidmm`'s business.
//!
//! ```text
//!      power_down               the ring has saved everything
//! on ─────────────▶ going down ──────────────────────────────▶ asleep
//! ▲                                                              │
//! └────────────────────────── power_up ◄─────────────────────────┘
//! ```
//! Calls of devices are refused meanwhile, with a status that says that a retry is meaningful; deaths are remembered.

use ddi::PowerState;
use events::Event;
use kmt_calls::{Refusal, Reply};
use vidmm::Sleep;
use wddm_types::{Blame, NtStatus, ProcessId};

use crate::adapter::Adapter;
use crate::driver_host::DriverHost;
use crate::machine::{Answer, Cx, Effect, Token};
use crate::refusal::{invalid, refuse};

/// Where an adapter stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    On,
    GoingDown,
    Asleep,
}

/// The power of one adapter.
#[derive(Default)]
pub struct Power {
    stage: Stage,
    /// Who died meanwhile.
    died: Vec<ProcessId>,
}

impl Adapter {
    /// Saves what the sleep would lose and switches the device off; answers when that is done.
    // spec: memory §1.10, memory §8.4
    pub fn power_down(&mut self, cx: &mut Cx<'_>, token: Token, state: PowerState) -> Answer {
        let sleep = match state {
            PowerState::Standby => Sleep::Standby,
            PowerState::Hibernate => Sleep::Hibernate,
            PowerState::On => return Answer::Done(self.power_up(cx).map(|()| Reply::Done)),
        };
        if let Err(refusal) = self.awake() {
            return Answer::Done(Err(refusal));
        }
        self.power.stage = Stage::GoingDown;
        cx.emit(Event::PowerChanged { adapter: self.index.0, on: false });
        if let Some(work) = self.vidmm.power_down(sleep) {
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        }
        self.defer_power_down(token, state);
        Answer::Later(token)
    }

    /// The ring has saved everything: nothing executes, so the device may go.
    pub fn switch_off(&mut self, cx: &mut Cx<'_>, token: Token, state: PowerState) {
        if let Err(refusal) = self.running() {
            cx.effects.push(Effect::Answer { token, result: Err(refusal) });
            return;
        }
        let mut host = DriverHost { context: None, features: &self.features, pages: &mut self.pages };
        let result = self.miniport.set_power_state(&mut host, state);
        let result = match result {
            Ok(()) => {
                self.power.stage = Stage::Asleep;
                Ok(Reply::Done)
            }
            Err(status) => {
                self.stop(cx, format!("SetPowerState failed: {status}"));
                self.running().map(|()| Reply::Done)
            }
        };
        cx.effects.push(Effect::Answer { token, result });
    }

    /// Switches the device on and gives it its page tables.
    ///
    /// # Errors
    /// It is not asleep, or the driver fails, which stops the adapter.
    // spec: memory §1.10, memory §4.7
    pub fn power_up(&mut self, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        self.running()?;
        if self.power.stage != Stage::Asleep {
            return Err(invalid("the adapter does not sleep"));
        }
        let mut host = DriverHost { context: None, features: &self.features, pages: &mut self.pages };
        if let Err(status) = self.miniport.set_power_state(&mut host, PowerState::On) {
            self.stop(cx, format!("SetPowerState failed: {status}"));
            return self.running();
        }
        let up = self.vidmm.power_up();
        let tables = up.paging_process.map(|work| work.operations).unwrap_or_default();
        if self.execute_now(tables).is_err() || self.show_buffers_again().is_err() {
            self.stop(cx, "the page tables of the paging process could not be written".into());
            return self.running();
        }
        self.power.stage = Stage::On;
        cx.emit(Event::PowerChanged { adapter: self.index.0, on: true });
        if let Some(work) = up.processes {
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        }
        for process in std::mem::take(&mut self.power.died) {
            self.process_died(cx, process);
        }
        Ok(())
    }

    /// Whether the adapter works. Only then does anything move by itself.
    pub fn is_awake(&self) -> bool {
        self.power.stage == Stage::On
    }

    /// Refuses what a sleeping adapter cannot do.
    ///
    /// # Errors
    /// `RETRY`, or why the adapter has stopped.
    pub fn awake(&self) -> Result<(), Refusal> {
        self.running()?;
        if self.is_awake() {
            return Ok(());
        }
        Err(refuse(NtStatus::RETRY, Blame::Scarcity, "the adapter sleeps"))
    }

    /// Remembers a death until the adapter wakes. False when it is awake.
    pub fn died_asleep(&mut self, process: ProcessId) -> bool {
        if self.is_awake() {
            return false;
        }
        self.power.died.push(process);
        true
    }
}
