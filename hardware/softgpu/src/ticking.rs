//! Virtual time: the device does what is due when it is told the time. A command's effects come at its end.

use std::sync::atomic::Ordering;

use device_port::{Clocked, Observation};
use softgpu_spec::Command;

use crate::bus::Site;
use crate::device::SoftGpu;
use crate::engine::{EngineFace, EngineState, Step};
use crate::lock;
use crate::mmu::{Access, Flush, Space};
use crate::timing::Path;
use crate::wires::{Lane, Range};

/// An engine that does nothing by itself, and the end of a command that takes longer than there is time.
const NEVER: u64 = u64::MAX;
/// So many commands in a row may take no time. Work that branches over 32 bits of them would else never let the clock reach the time at
/// which its driver looks for work that does not end.
const TIMELESS_MAX: u32 = 65_535;

impl Clocked for SoftGpu {
    fn next_event(&self) -> Option<u64> {
        let engines = self.engines.iter().map(|face| face.due.load(Ordering::Acquire));
        engines.chain([self.displays.due(), self.order.due()]).min().filter(|due| *due != NEVER)
    }

    fn next_event_recurs(&self) -> bool {
        self.next_event().is_some()
            && self.order.due() > self.displays.due()
            && self.engines.iter().all(|face| face.due.load(Ordering::Acquire) > self.displays.due())
    }

    fn tick(&self, now: u64) {
        loop {
            // The earliest engine first; equal times in the order of their numbers, displays behind them all: a word that is written at
            // the time of a blank was there before it.
            let due = |number: &usize| self.engines[*number].due.load(Ordering::Acquire);
            let is_due = |then: u64| then <= now && then != NEVER;
            let next = (0..self.engines.len())
                .min_by_key(|number| (due(number), *number))
                .filter(|number| is_due(due(number)));
            let shown = self.displays.due();
            if is_due(shown) && next.is_none_or(|engine| shown < due(&engine)) {
                self.clock.set(shown);
                self.displays.advance(self);
                continue;
            }
            let Some(engine) = next else { break };
            self.clock.set(due(&engine));
            if let Some(flush) = self.advance(engine) {
                self.flush(flush);
            }
        }
        if self.order.due() <= now {
            self.stores_arrive();
        }
        self.clock.set(now);
    }
}

impl SoftGpu {
    /// Ends the command that is due on an engine, and begins its next one.
    fn advance(&self, engine: usize) -> Option<Flush> {
        let face = &self.engines[engine];
        let mut state = lock(&face.state);
        let mut flush = None;
        if let Some(flight) = &state.flight {
            let (queue, spent) = (flight.queue, flight.end - flight.begun);
            while state.flight.is_some() {
                if let Step::Flush(wanted) = state.perform(self, engine) {
                    flush = Some(wanted);
                }
            }
            face.counters.busy_ns.add(spent);
            self.queues[queue].busy_ns.add(spent);
        }
        // A flush is to be seen by the next command: it begins when that is done, at the same time.
        let due = match flush {
            Some(_) => self.now(),
            None if state.begin(self, engine) => state.flight.as_ref().map_or(NEVER, |flight| flight.end),
            None => state.idle_due(self, engine).unwrap_or(NEVER),
        };
        // The engine looks once more at news that came while it looked; busy, it looks when its command ends.
        let missed_news = due == NEVER && state.flight.is_none() && face.has_news();
        face.due.store(if missed_news { self.now() } else { due }, Ordering::Release);
        flush
    }

    /// Time spent in a queue's commands. In virtual time nothing of the one under way is done before its end, but its time passes.
    pub(crate) fn queue_busy_ns(&self, queue: u32) -> u64 {
        let face = &self.queues[queue as usize];
        let engine = &self.engines[face.engine.load(Ordering::Acquire) as usize];
        let under_way = || engine.ask(|state| state.under_way_ns(self, queue as usize));
        face.busy_ns.get() + if self.is_virtual() { under_way() } else { 0 }
    }

    /// An idle engine has something to do `delay_ns` from now; a busy one looks when its command ends.
    pub(crate) fn due_after(&self, face: &EngineFace, delay_ns: u64) {
        if self.is_virtual() {
            let then = self.now().saturating_add(delay_ns);
            // Relaxed update is enough: virtual time has one thread.
            if face.due.load(Ordering::Acquire) > then && !face.ask(|state| state.flight.is_some()) {
                face.due.store(then, Ordering::Release);
            }
        }
    }
}

impl EngineState {
    /// Virtual time: how long a command of the queue has been under way.
    pub(crate) fn under_way_ns(&self, gpu: &SoftGpu, queue: usize) -> u64 {
        let flight = self.flight.as_ref().filter(|flight| flight.queue == queue && gpu.is_virtual());
        flight.map_or(0, |flight| gpu.now().min(flight.end).saturating_sub(flight.begun))
    }

    /// Tells the command that begins: how long it takes in virtual time, and a trace of it.
    pub(crate) fn announce(&mut self, gpu: &SoftGpu, engine: usize) {
        let Some(flight) = &self.flight else { return };
        let (at, words) = (flight.queue, flight.words);
        let Ok((command, _)) = Command::decode(&self.command_words()[..words]) else {
            let now = gpu.now();
            if let Some(flight) = &mut self.flight {
                (flight.begun, flight.end) = (now, now);
            }
            return;
        };
        let (mut kind, bytes, operands) = shape(&command);
        let now = gpu.now();
        let end = if gpu.is_virtual() {
            let space = self.queues[at].as_ref().map_or(Space::Bus, |queue| queue.space());
            let on_bus = |bus: u64| gpu.bus.site(bus).is_ok_and(Site::is_system);
            let local = |operand: &Operand| match (*operand, space) {
                (Operand::None, _) => true,
                (Operand::Virtual(va), Space::Virtual(root)) => {
                    !self.mmu_site(gpu, root, va).is_some_and(Site::is_system)
                }
                (Operand::Virtual(bus), Space::Bus) | (Operand::Bus(bus), _) => !on_bus(bus),
            };
            let is_local = operands.map(|operand| local(&operand));
            if matches!(on_wires(&command, is_local), OnWires::Behind) && self.wires.empty_at() > now {
                kind = kind.or(Some("transfers"));
            }
            let end = self.end_of(gpu, at, words, is_local);
            self.timeless = if end == now { self.timeless.saturating_add(1) } else { 0 };
            if self.timeless > TIMELESS_MAX { now.saturating_add(gpu.config.timing.least_ns()) } else { end }
        } else {
            now
        };
        if let Some(flight) = &mut self.flight {
            (flight.begun, flight.end, flight.traced) = (now, end, kind.is_some());
        }
        if let Some(kind) = kind {
            // CAST: engines and queues are counted in ones.
            gpu.trace(|| Observation::Begin { engine: engine as u32, queue: at as u32, kind, bytes });
        }
    }

    /// When the command that begins ends, by the cost model and the wires. `is_local`: for each operand, whether it begins in local memory.
    fn end_of(&mut self, gpu: &SoftGpu, queue: usize, words: usize, is_local: [bool; 2]) -> u64 {
        let (now, timing) = (gpu.now(), &gpu.config.timing);
        let path = if is_local == [true, true] { Path::Local } else { Path::Bus };
        let ns = self.decoded_again(words).map_or(0, |command| timing.duration(&command, path));
        match self.decoded_again(words).map(|command| on_wires(&command, is_local)) {
            Some(OnWires::Issued(lane, memory)) if timing.duplex => {
                let (issue, wire) = (timing.issue_ns(), ns.saturating_sub(timing.issue_ns()));
                let shares = timing.shares_bus && lane == Lane::In;
                if shares {
                    self.wires.hold(lane, gpu.inward.free_at());
                }
                let end = self.wires.issue(now, issue, lane, memory, wire);
                if shares {
                    gpu.inward.is_held_until(self.wires.lane_empty_at(lane));
                }
                end
            }
            Some(OnWires::Behind) if self.wires.empty_at() > now => self.wires.empty_at().saturating_add(ns),
            _ if timing.shares_bus => self.on_shared_bus(gpu, queue, words, (path, ns)),
            _ => now.saturating_add(ns),
        }
    }

    /// When a command ends that takes `ns` by itself, on a bus that all engines share.
    fn on_shared_bus(&mut self, gpu: &SoftGpu, queue: usize, words: usize, (path, ns): (Path, u64)) -> u64 {
        let now = gpu.now();
        let within = match self.decoded_again(words) {
            Some(Command::Work { .. }) => {
                self.reads.begin(queue, now);
                None
            }
            Some(Command::Touch { bytes, within: true, .. }) => Some(bytes),
            _ => None,
        };
        if path == Path::Local {
            return now.saturating_add(ns);
        }
        let free_at = gpu.inward.free_at();
        let end = match within {
            Some(bytes) => self.reads.read(queue, now, free_at, gpu.config.timing.bus_ns(bytes)),
            None => free_at.max(now).saturating_add(ns),
        };
        gpu.inward.is_held_until(end);
        end.max(now)
    }

    fn decoded_again(&self, words: usize) -> Option<Command<'_>> {
        Command::decode(&self.command_words()[..words]).ok().map(|(command, _)| command)
    }

    /// Where an operand begins; nothing if that faults, which the command itself will find.
    fn mmu_site(&self, gpu: &SoftGpu, root: u64, va: u64) -> Option<Site> {
        crate::mmu::translate(&gpu.bus, root, va, Access::Read).ok()
    }
}

#[derive(Clone, Copy)]
enum Operand {
    None,
    Virtual(u64),
    Bus(u64),
}

/// How a command stands to the transfers on a duplex bus.
enum OnWires {
    /// It is one, of this memory.
    Issued(Lane, [Range; 2]),
    /// It begins when all of them have ended.
    Behind,
    /// It goes on beside them: nothing in memory that they move is concerned, and nothing is told or asked.
    Beside,
}

/// `is_local`: for each operand, whether it begins in local memory.
fn on_wires(command: &Command<'_>, is_local: [bool; 2]) -> OnWires {
    match *command {
        Command::CopyPhysical { source_bus, target_bus, bytes } => {
            let lane = match is_local {
                [true, true] => Lane::Local,
                [false, true] => Lane::In,
                [true, false] => Lane::Out,
                [false, false] => return OnWires::Behind,
            };
            OnWires::Issued(lane, [source_bus, target_bus].map(|bus| Range { bus, bytes }))
        }
        Command::FillPhysical { target_bus, bytes, .. } => {
            let lane = if is_local[0] { Lane::Local } else { Lane::Out };
            OnWires::Issued(lane, [Range { bus: target_bus, bytes }; 2])
        }
        Command::Nop
        | Command::Branch { .. }
        | Command::BranchPhysical { .. }
        | Command::FlushTlb { .. }
        | Command::WriteEntries { .. }
        | Command::WriteEntryRun { .. } => OnWires::Beside,
        _ => OnWires::Behind,
    }
}

/// The name in a trace of a command that takes time, how many bytes it concerns, and where its operands begin.
fn shape(command: &Command<'_>) -> (Option<&'static str>, u64, [Operand; 2]) {
    use Operand::{Bus, None as Nothing, Virtual};
    match *command {
        Command::Copy { source_va, target_va, bytes } => {
            (Some("copy"), bytes, [Virtual(source_va), Virtual(target_va)])
        }
        Command::Fill { va, bytes, .. } => (Some("fill"), bytes, [Virtual(va), Nothing]),
        Command::Work { .. } => (Some("work"), 0, [Nothing, Nothing]),
        // Its time is that of the work around it.
        Command::Touch { va, within: true, .. } => (None, 0, [Virtual(va), Nothing]),
        Command::Touch { va, bytes, .. } => (Some("touch"), bytes, [Virtual(va), Nothing]),
        Command::Pattern { va, bytes, .. } => (Some("pattern"), bytes, [Virtual(va), Nothing]),
        Command::Check { va, bytes, .. } => (Some("check"), bytes, [Virtual(va), Nothing]),
        Command::Checksum { va, bytes, .. } => (Some("checksum"), bytes, [Virtual(va), Nothing]),
        Command::Saxpy { x_va, y_va, elements, .. } => {
            (Some("saxpy"), elements.saturating_mul(4), [Virtual(x_va), Virtual(y_va)])
        }
        Command::CopyPhysical { source_bus, target_bus, bytes } => {
            (Some("page copy"), bytes, [Bus(source_bus), Bus(target_bus)])
        }
        Command::CopyTiled { linear_bus, surface_bus, bytes, .. } => {
            (Some("tiled copy"), bytes, [Bus(linear_bus), Bus(surface_bus)])
        }
        Command::FillPhysical { target_bus, bytes, .. } => (Some("page fill"), bytes, [Bus(target_bus), Nothing]),
        Command::WriteEntries { entries, .. } => {
            (Some("page-table update"), entries.len() as u64 * 8, [Nothing, Nothing])
        }
        Command::WriteEntryRun { count, .. } => (Some("page-table update"), u64::from(count) * 8, [Nothing, Nothing]),
        Command::StoreRun { va, count, .. } => (Some("store"), u64::from(count) * 8, [Virtual(va), Nothing]),
        Command::CopyRun { source_va, target_va, count } => {
            (Some("entry copy"), u64::from(count) * 8, [Virtual(source_va), Virtual(target_va)])
        }
        Command::MapAperture { count, .. } => (Some("aperture update"), count.saturating_mul(8), [Nothing, Nothing]),
        Command::FlushTlb { .. } => (Some("TLB flush"), 0, [Nothing, Nothing]),
        Command::Nop
        | Command::Store { .. }
        | Command::TouchPhysical { .. }
        | Command::Wait { .. }
        | Command::Signal { .. }
        | Command::SignalAlways { .. }
        | Command::Log { .. }
        | Command::Branch { .. }
        | Command::BranchPhysical { .. }
        | Command::Complete { .. }
        | Command::Timestamp { .. } => (None, 0, [Nothing, Nothing]),
    }
}
