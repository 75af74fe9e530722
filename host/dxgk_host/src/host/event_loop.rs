//! How time passes for a host: the next event of virtual time, and the dispatcher thread of real time. In virtual time no device gets ahead
//! of another: the host tells all devices, in the order of their numbers, the time of each event.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use device_port::Clocked;
use shared_words::own_threads;
use wddm_types::AdapterIndex;

use super::{Host, Threads, lock};
use crate::config::Mode;
use crate::host::state::HostState;
use crate::line::Line;

/// Timers in a row without effect after which virtual time stands still, unless the kernel still looks for work that hangs.
const IDLE_TIMERS_MAX: u32 = 500;
/// The same for events of displays: some minutes of blanks.
const IDLE_BLANKS_MAX: u32 = 50_000;

/// The next event in virtual time. Events of one time happen in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// An engine's next step.
    Engine,
    /// A display's next blank; these go on for ever.
    Display,
    /// The kernel's timer.
    Timer,
}

impl Host {
    /// Lets the devices run up to a time, and the kernel see its interrupts when they come.
    pub(super) fn run_until(&self, state: &mut HostState, until_ns: u64) {
        self.dispatch(state);
        while let Some((next, what)) = self.next_event(state).filter(|(next, _)| *next <= until_ns) {
            self.happen(state, next, what);
        }
        self.advance(state, until_ns);
    }

    pub(super) fn step_locked(&self, state: &mut HostState) -> bool {
        if self.dispatch(state) {
            return true;
        }
        // The kernel's timer and displays can go on for ever: after so many turns without an engine's step, virtual time stands still. A
        // reset of an engine leads to such a step, so the kernel has the time to find the work that hangs.
        let (mut timers, mut blanks, began_ns) = (0, 0, state.clock.now_ns());
        while let Some((next, what)) = self.next_event(state) {
            let patience_ns = state.machine.finds_hangs_within_ns().unwrap_or(0);
            let looks_on = state.clock.now_ns() < began_ns.saturating_add(patience_ns);
            let is_over = timers >= IDLE_TIMERS_MAX && !looks_on || blanks >= IDLE_BLANKS_MAX;
            if is_over && what != Next::Engine {
                return false;
            }
            let told = state.answers.len() + state.notifications.values().map(VecDeque::len).sum::<usize>();
            self.happen(state, next, what);
            let now_told = state.answers.len() + state.notifications.values().map(VecDeque::len).sum::<usize>();
            match what {
                _ if told != now_told => return true,
                Next::Engine => return true,
                Next::Display => blanks += 1,
                Next::Timer => timers += 1,
            }
        }
        false
    }

    pub(super) fn step_until_locked(&self, state: &mut HostState, until_ns: u64) -> bool {
        if self.dispatch(state) {
            return true;
        }
        match self.next_event(state).filter(|(next, _)| *next <= until_ns) {
            Some((next, by_device)) => self.happen(state, next, by_device),
            None if until_ns < u64::MAX => {
                self.advance(state, until_ns);
                return false;
            }
            None => return false,
        }
        true
    }

    /// The next event of virtual time.
    fn next_event(&self, state: &HostState) -> Option<(u64, Next)> {
        let next_of = |device: &Arc<softgpu::SoftGpu>| {
            let what = if device.next_event_recurs() { Next::Display } else { Next::Engine };
            device.next_event().map(|next| (next, what))
        };
        let timer = state.timer_ns.map(|next| (next, Next::Timer));
        self.devices.iter().filter_map(next_of).chain(timer).min()
    }

    fn happen(&self, state: &mut HostState, next: u64, what: Next) {
        self.advance(state, next);
        if what == Next::Timer {
            state.timer_ns = None;
            state.turn(|machine, cx| machine.timer(cx));
        }
        self.dispatch(state);
    }

    /// Moves the clock, and tells all devices the time: a device begins work that it gets now at this time, not at the time of its last work.
    fn advance(&self, state: &mut HostState, to_ns: u64) {
        state.clock.advance_to(to_ns.max(state.clock.now_ns()));
        if matches!(self.mode, Mode::Virtual { .. }) {
            for device in &self.devices {
                device.tick(state.clock.now_ns());
            }
        }
    }

    /// Carries interrupts to the kernel, if lines are up: lower adapters first.
    fn dispatch(&self, state: &mut HostState) -> bool {
        let mut any = false;
        loop {
            let mut raised = self.line.take();
            if raised == 0 {
                return any;
            }
            any = true;
            while raised != 0 {
                let adapter = AdapterIndex(raised.trailing_zeros());
                state.turn(|machine, cx| machine.interrupt_raised(cx, adapter));
                raised &= raised - 1;
            }
        }
    }

    /// Real time: calls the kernel's timer if its time has come. How long it is to the next one.
    fn run_timer(&self, state: &mut HostState) -> Option<Duration> {
        while let Some(at_ns) = state.timer_ns {
            let left = at_ns.saturating_sub(state.clock.now_ns());
            if left > 0 {
                return Some(Duration::from_nanos(left));
            }
            state.timer_ns = None;
            state.turn(|machine, cx| machine.timer(cx));
        }
        None
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let threads = lock(&self.threads).take();
        if let Some(Threads { running, dispatcher }) = threads {
            self.line.close();
            drop(running);
            // The dispatcher itself may be the one that drops the host last: it then ends by itself.
            if dispatcher.thread().id() != std::thread::current().id() {
                // A dispatcher that panicked has said so on standard error already.
                let _ = dispatcher.join();
            }
        }
    }
}

/// The thread that carries interrupts and the timer to the kernel.
pub(super) fn spawn_dispatcher(host: Weak<Host>, line: Arc<Line>) -> JoinHandle<()> {
    let run = move || {
        let mut longest = None;
        while line.wait(longest) {
            let Some(host) = host.upgrade() else { return };
            // A kernel that has failed takes no call.
            let Ok(mut state) = host.hold_sound() else { return };
            host.dispatch(&mut state);
            longest = host.run_timer(&mut state);
        }
    };
    own_threads::spawn("dxgk dispatcher", run).expect("the system gives a thread")
}
