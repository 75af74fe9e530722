//! Listens to one adapter while a run goes on, to the kernel and to the device: sums always, the records themselves for a
//! recorded run. Fed by `recorders`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use device_port::{Observation, Probe};
use dxgk_host::Host;
use dxgkrnl::AdapterCounters;
use events::{Event, Move};
use replay::{Stage, Submission, Work};
use softgpu_spec::bus::SYSTEM_BASE;
use softgpu_spec::engine;
use wddm_types::PAGE_BYTES;

use crate::outcome::{Displaced, OpTrack, PlanSummary, QueueLabel, Recording, StepSummary};
use crate::run::displaced::Displacements;
use crate::run::numbers::{Device, Numbers, Sums};
use crate::run::packet_waits::PacketWaits;
use crate::run::plan;
use crate::run::play::Played;
use crate::run::setup::Planned;
use crate::run::share::Terms;

/// Most records of each kind that are kept; more are counted.
const RECORDS_MAX: usize = 4_000_000;
/// The device queue that the kernel makes first: its own, for paging.
const PAGING_QUEUE: u32 = 0;

/// The recorder of one adapter.
pub struct Recorder {
    /// The adapter's number.
    number: usize,
    keeps_records: bool,
    keeps_demotions: bool,
    state: Mutex<RecorderState>,
}

struct RecorderState {
    events: Vec<(u64, Event)>,
    observations: Vec<(u64, Observation)>,
    dropped: u64,
    sums: Sums,
    step_begin: Sums,
    step_began_ns: u64,
    stall_began_ns: u64,
    /// What LRU would have copied until the step began, where evictions are planned.
    lru_before: u64,
    /// What was used in place until then.
    in_place_before: u64,
    per_step: Vec<StepSummary>,
    before: Device,
    kernel_before: AdapterCounters,
    displacements: Displacements,
    packet_waits: PacketWaits,
}

impl Recorder {
    /// Nothing heard yet; whether the records, and the moves of memory one by one, are kept.
    pub fn new(number: usize, keeps_records: bool, keeps_demotions: bool) -> Arc<Recorder> {
        let state = RecorderState {
            events: Vec::new(),
            observations: Vec::new(),
            dropped: 0,
            sums: Sums::default(),
            step_begin: Sums::default(),
            step_began_ns: 0,
            stall_began_ns: 0,
            lru_before: 0,
            in_place_before: 0,
            per_step: Vec::new(),
            before: Device::default(),
            kernel_before: AdapterCounters::default(),
            displacements: Displacements::new(keeps_demotions),
            packet_waits: PacketWaits::default(),
        };
        Arc::new(Recorder { number, keeps_records, keeps_demotions, state: Mutex::new(state) })
    }

    /// The run begins: notes the counters, whose values so far do not belong to it.
    pub fn begin(&self, host: &Host) {
        // Reads the host before it takes the recorder's lock: the order is the host's lock, then the recorder's.
        let adapter = host.adapter(self.number);
        let (device, kernel) = (Device::read(adapter), adapter.counters());
        let mut state = self.state();
        state.before = device;
        state.kernel_before = kernel;
        state.stall_began_ns = state.before.wait_ns;
    }

    /// A step has ended at `now_ns`.
    pub fn end_step(&self, host: &Host, now_ns: u64) {
        let wait_ns = Device::read(host.adapter(self.number)).wait_ns;
        let plans = self.plans(host);
        let lru_bytes = (!plans.is_empty()).then(|| plans.iter().map(PlanSummary::lru_bytes).sum::<u64>());
        let in_place: u64 = plans.iter().map(PlanSummary::in_place_bytes).sum();
        let mut state = self.state();
        let wait_ns = wait_ns + state.packet_waits.total_ns();
        let bytes = |how: Move| state.sums.bytes(how) - state.step_begin.bytes(how);
        let step = StepSummary {
            step: state.per_step.len() as u64,
            paged_in_bytes: bytes(Move::PageIn),
            paged_out_bytes: bytes(Move::PageOut),
            discarded_bytes: bytes(Move::Discard),
            elapsed_ns: now_ns.saturating_sub(state.step_began_ns),
            ideal_ns: None,
            stall_ns: wait_ns - state.stall_began_ns,
            lru_bytes: lru_bytes.map(|bytes| bytes.saturating_sub(state.lru_before)),
            in_place_bytes: Some(in_place.saturating_sub(state.in_place_before)).filter(|bytes| *bytes > 0),
        };
        (state.lru_before, state.in_place_before) = (lru_bytes.unwrap_or(0), in_place);
        state.per_step.push(step);
        state.step_begin = state.sums.clone();
        state.step_began_ns = now_ns;
        state.stall_began_ns = wait_ns;
    }

    /// The counts so far of a run that began at `started_ns`.
    pub fn numbers(&self, host: &Host, started_ns: u64) -> Numbers {
        let adapter = host.adapter(self.number);
        let (now, kernel, plans) = (Device::read(adapter), adapter.counters(), self.plans(host));
        let state = self.state();
        let mut per_step = state.per_step.clone();
        if let Some(first) = per_step.first_mut() {
            // The first step's clock began before its first operation.
            first.elapsed_ns = first.elapsed_ns.saturating_sub(started_ns);
        }
        let before = state.kernel_before;
        Numbers {
            sums: state.sums.clone(),
            device: now.since(state.before),
            packet_waits_ns: state.packet_waits.total_ns(),
            kernel: AdapterCounters {
                cpu_waits: kernel.cpu_waits - before.cpu_waits,
                cpu_signals: kernel.cpu_signals - before.cpu_signals,
                interrupts: kernel.interrupts - before.interrupts,
                interrupt_dispatches: kernel.interrupt_dispatches - before.interrupt_dispatches,
                dispatches_releasing: kernel.dispatches_releasing - before.dispatches_releasing,
                doorbells_connected: kernel.doorbells_connected - before.doorbells_connected,
                doorbells_passed_on: kernel.doorbells_passed_on - before.doorbells_passed_on,
                engine_resets: kernel.engine_resets - before.engine_resets,
                adapter_resets: kernel.adapter_resets - before.adapter_resets,
                devices_lost: kernel.devices_lost - before.devices_lost,
                calls_refused: kernel.calls_refused - before.calls_refused,
                creations_waited: kernel.creations_waited - before.creations_waited,
                trims: kernel.trims - before.trims,
            },
            per_step,
            plans,
        }
    }

    fn plans(&self, host: &Host) -> Vec<PlanSummary> {
        plan::plans(host.adapter(self.number), self.number, PAGE_BYTES)
    }

    /// The records, with what is needed to read them.
    pub fn take(&self, workloads: &[(replay::Workload, Terms)], played: &[Played], planned: &Planned) -> Recording {
        let mut state = self.state();
        let queue = |device_queue, label: &str, engine| QueueLabel { device_queue, label: label.to_owned(), engine };
        let mut queues = vec![queue(PAGING_QUEUE, "paging", engine::COPY)];
        let mut ops = Vec::new();
        for ((workload, _), played) in workloads.iter().zip(played) {
            // One adapter may have nothing to do.
            let Some(driven) = played.driven.sites.get(self.number) else { continue };
            let label = match played.process.0 {
                _ if workloads.len() == 1 => "compute".to_owned(),
                process => format!("compute of process {process}, {}", workload.name()),
            };
            // Packets that the kernel hands over have no queue of the process's own; a hardware queue that it feeds is the one that
            // signals the progress fence.
            let progress = SYSTEM_BASE + driven.progress.0;
            let signals = |seen: &(u64, Observation)| match seen.1 {
                Observation::Signal { queue, bus, .. } if bus == progress => Some(queue),
                _ => None,
            };
            let fed = || state.observations.iter().find_map(signals).filter(|_| planned.stage == Stage::Hardware);
            if let Some(device_queue) = driven.device_queue.or_else(fed) {
                queues.push(queue(device_queue, &label, engine::COMPUTE));
                ops.push(op_track(workload, &driven.submissions, device_queue, progress));
            }
        }
        Recording {
            adapter: planned.profile.name.to_owned(),
            events: std::mem::take(&mut state.events),
            observations: std::mem::take(&mut state.observations),
            queues,
            ops,
            demotions: state.displacements.take_list(),
            vram_bytes: planned.vram_bytes,
            dropped: state.dropped + state.displacements.dropped,
        }
    }

    /// The counts and records of a listener that has no host beside it, and so nothing of the device: a client of a served kernel.
    pub fn take_heard(&self, adapter: String, vram_bytes: u64) -> (Numbers, Recording) {
        let mut state = self.state();
        let numbers = Numbers {
            sums: state.sums.clone(),
            device: Device::default(),
            packet_waits_ns: state.packet_waits.total_ns(),
            kernel: AdapterCounters::default(),
            per_step: Vec::new(),
            plans: Vec::new(),
        };
        let recording = Recording {
            adapter,
            events: std::mem::take(&mut state.events),
            demotions: state.displacements.take_list(),
            vram_bytes,
            dropped: state.dropped + state.displacements.dropped,
            ..Recording::default()
        };
        (numbers, recording)
    }

    /// Bytes of a process's own memory that moved in this way.
    pub fn moved_bytes(&self, process: u32, how: Move) -> u64 {
        self.state().displacements.moved_bytes(process, how)
    }

    /// Compares the list of moves, if there is one, with what the kernel has.
    pub fn compare_residence(&self, host: &Host) {
        if self.keeps_demotions {
            // Nothing moves meanwhile: the comparison runs under the kernel's lock, as events come under it.
            host.adapter(self.number).see_residences(|kernel| self.state().displacements.compare(kernel));
        }
    }

    /// The result of the comparisons: `ok`, `off`, or the mismatch.
    pub fn demotion_verdict(&self) -> String {
        self.state().displacements.verdict()
    }

    /// Displaced bytes by victim and requester.
    pub fn displaced(&self) -> Vec<Displaced> {
        self.state().displacements.displaced()
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn op_track(workload: &replay::Workload, submissions: &[Submission], device_queue: u32, progress_bus: u64) -> OpTrack {
    let name = |submission: &Submission| match submission.work {
        Work::Op(name) => workload.op_names()[name as usize].clone(),
        Work::Leaves(storage) => format!("storage {storage} leaves"),
        Work::Arrives(storage) => format!("storage {storage} arrives"),
    };
    let (names, steps) = submissions.iter().map(|submission| (name(submission), submission.step)).unzip();
    OpTrack { device_queue, progress_bus, names, steps }
}

impl Recorder {
    /// Takes an event of the kernel about this adapter, or about a process.
    pub fn event(&self, now_ns: u64, event: &Event) {
        let mut state = self.state();
        state.displacements.event(now_ns, event);
        state.packet_waits.event(now_ns, event);
        state.sums.event(event);
        if self.keeps_records {
            if state.events.len() < RECORDS_MAX {
                state.events.push((now_ns, event.clone()));
            } else {
                state.dropped += 1;
            }
        }
    }
}

impl Probe for Recorder {
    fn observe(&self, at_ns: u64, what: Observation) {
        // Whose commands they are is no matter of time.
        if matches!(what, Observation::Attached { .. } | Observation::Buffer { .. }) {
            return;
        }
        let mut state = self.state();
        if state.observations.len() < RECORDS_MAX {
            state.observations.push((at_ns, what));
        } else {
            state.dropped += 1;
        }
    }
}
