//! A run that never was: an outcome of the right shape for tests and for drawing, from a little machine of its own.
//!
//! A program of `ops` operations a step walks over storages larger than the memory; a least-recently-used set decides
//! what moves, a clock adds up times. It shares no code with the kernel and proves nothing about it.

use std::collections::BTreeSet;

use device_port::Observation;
use events::{Cause, Event, Move};
use openwddm::outcome::{OpTrack, Outcome, QueueLabel, Recording, StepSummary, Summary};
use softgpu_spec::bus::SYSTEM_BASE;
use wddm_types::{PageRun, Pages};

const COMPUTE: u32 = 3;
const PAGING: u32 = 1;
const PROGRESS: u64 = SYSTEM_BASE + 0x1000;
const PAGING_WORD: u64 = SYSTEM_BASE + 0x1040;
const PAGING_FENCE: u64 = 7;
const PROGRESS_FENCE: u64 = 8;

/// A run of `steps` steps of `ops` operations with memory for a part of what they use.
pub fn outcome(steps: u32, ops: u32) -> Outcome {
    let mut world = World::new(ops);
    world.begin();
    for step in 0..steps {
        world.step(step, ops);
    }
    world.outcome(steps)
}

struct World {
    now: u64,
    sizes: Vec<u64>,
    limit: u64,
    resident: Vec<u64>,
    dirty: BTreeSet<u64>,
    known: BTreeSet<u64>,
    used: u64,
    work: u64,
    progress: u64,
    random: u64,
    recording: Recording,
    summary: Summary,
    step: StepSummary,
}

impl World {
    fn new(ops: u32) -> World {
        let mut random = 42;
        let storages = u64::from(ops / 3).max(4);
        let sizes: Vec<u64> = (0..storages).map(|_| (1 + next(&mut random) % 48) * 65_536).collect();
        let peak: u64 = sizes.iter().sum();
        World {
            now: 1_000,
            limit: peak * 6 / 10,
            sizes,
            resident: Vec::new(),
            dirty: BTreeSet::new(),
            known: BTreeSet::new(),
            used: 0,
            work: 0,
            progress: 0,
            random,
            recording: Recording { ops: vec![OpTrack::default()], ..Recording::default() },
            summary: Summary { peak_bytes: peak, ..Summary::default() },
            step: StepSummary::default(),
        }
    }

    fn begin(&mut self) {
        self.event(Event::AdapterStarted { adapter: 1, name: "softgpu".to_string(), segments: 2 });
        let (limit, page) = (self.limit, 4096);
        self.event(Event::SegmentAdded {
            adapter: 1,
            segment: 1,
            aperture: false,
            capacity_bytes: limit,
            page_bytes: page,
        });
        self.event(Event::ProcessCreated { process: 1 });
        self.event(Event::DeviceCreated { process: 1, device: 1 });
        for (fence, current) in [(PAGING_FENCE, 0x1040), (PROGRESS_FENCE, 0x1000)] {
            self.event(Event::FenceCreated { process: 1, fence, initial: 0, current });
        }
        for (index, size) in self.sizes.clone().into_iter().enumerate() {
            let allocation = 100 + index as u64;
            self.event(Event::AllocationCreated { device: 1, allocation, size_bytes: size });
        }
    }

    fn step(&mut self, step: u32, ops: u32) {
        let (began, stalled) = (self.now, self.summary.stall_ns);
        self.step = StepSummary { step: u64::from(step), ..StepSummary::default() };
        for op in 0..ops {
            self.operation(step, op, ops);
        }
        let wait = u64::from(step) + 1;
        self.event(Event::CpuWaitBegan { process: 1, wait, fence: PROGRESS_FENCE, value: self.progress });
        self.now += 9_000;
        self.event(Event::FenceInterrupt { adapter: 1, named: 1, looked_at: 1, released: 1 });
        self.event(Event::CpuWaitEnded { process: 1, wait });
        self.step.elapsed_ns = self.now - began;
        self.step.stall_ns = self.summary.stall_ns - stalled;
        self.summary.per_step.push(self.step.clone());
    }

    fn operation(&mut self, step: u32, op: u32, ops: u32) {
        let name = ["aten.mm.default", "aten.add.Tensor", "aten.gelu.default", "aten.bmm.default", "<b>&\"'"];
        self.recording.ops[0].names.push(name[op as usize % name.len()].to_string());
        self.recording.ops[0].steps.push(step);
        // There and back again, like a forward and a backward pass.
        let count = self.sizes.len() as u64;
        let place = u64::from(op.min(ops - 1 - op)) * count * 2 / u64::from(ops);
        let needs = BTreeSet::from([100 + place % count, 100 + (place + 1) % count, 100 + next(&mut self.random) % 4]);
        let missing: Vec<u64> = needs.iter().copied().filter(|need| !self.resident.contains(need)).collect();
        self.resident.retain(|held| !needs.contains(held));
        if !missing.is_empty() {
            self.page(&needs, &missing);
        }
        self.used += missing.iter().map(|missing| self.size(*missing)).sum::<u64>();
        self.resident.extend(&needs);
        let bytes = needs.iter().map(|need| self.size(*need)).sum();
        self.observe(Observation::Begin { engine: 0, queue: COMPUTE, kind: "touch", bytes });
        self.now += 20_000 + bytes / 40;
        self.summary.ideal_ns += 20_000 + bytes / 40;
        self.observe(Observation::End { engine: 0, queue: COMPUTE });
        self.dirty.extend(needs.iter().filter(|need| **need % 3 == 0));
        self.progress += 1;
        let last = op + 1 == ops;
        self.observe(Observation::Signal { queue: COMPUTE, bus: PROGRESS, value: self.progress, interrupt: last });
        self.now += 400;
    }

    fn page(&mut self, needs: &BTreeSet<u64>, missing: &[u64]) {
        self.work += 1;
        let began = self.now;
        let room: u64 = missing.iter().map(|missing| self.size(*missing)).sum();
        let (mut moved_in, mut moved_out) = (0, 0);
        while self.used + room > self.limit && !self.resident.is_empty() {
            let victim = self.resident.remove(0);
            self.used -= self.size(victim);
            let how = if self.dirty.remove(&victim) { Move::PageOut } else { Move::Discard };
            moved_out += if how == Move::PageOut { self.size(victim) } else { 0 };
            let asker = *needs.iter().next().expect("an operation needs something");
            self.moved(victim, how, Cause::Pressure { for_allocation: asker });
        }
        let held: u64 = self.used;
        self.event(Event::ResidentBytes { segment: 1, bytes: held });
        for allocation in missing {
            let how = if self.known.insert(*allocation) { Move::Fill } else { Move::PageIn };
            moved_in += if how == Move::PageIn { self.size(*allocation) } else { 0 };
            self.moved(*allocation, how, Cause::MakeResident);
        }
        self.event(Event::ResidentBytes { segment: 1, bytes: held + room });
        self.event(Event::PagingQueued {
            work: self.work,
            paging_queue: 5,
            fence: PAGING_FENCE,
            value: self.work,
            in_bytes: moved_in,
            out_bytes: moved_out,
            held_for: 0,
        });
        self.observe(Observation::WaitBegin { queue: COMPUTE, bus: PAGING_WORD, value: self.work });
        self.now += 1_500;
        self.observe(Observation::Begin { engine: 1, queue: PAGING, kind: "copy", bytes: moved_in + moved_out });
        self.now += 3_000 + (room + moved_out) / 12;
        self.observe(Observation::End { engine: 1, queue: PAGING });
        self.observe(Observation::Signal { queue: PAGING, bus: PAGING_WORD, value: self.work, interrupt: false });
        self.now += 300;
        self.observe(Observation::WaitEnd { queue: COMPUTE, bus: PAGING_WORD, value: self.work });
        self.event(Event::PagingCompleted { work: self.work });
        self.summary.stall_ns += self.now - began;
    }

    fn moved(&mut self, allocation: u64, how: Move, why: Cause) {
        let bytes = self.size(allocation);
        // Each storage has pages of its own, as if there were room for all: it is a picture, not a memory.
        let index = usize::try_from(allocation - 100).expect("storages are few");
        let first = self.sizes[..index].iter().sum::<u64>() / 4096;
        let runs = vec![PageRun { first, count: Pages(bytes / 4096) }];
        self.event(Event::Moved { work: self.work, process: 1, allocation, segment: 1, bytes, how, why, runs });
        let (summary, step) = (&mut self.summary, &mut self.step);
        let (sum, step_sum) = match how {
            Move::PageIn => (&mut summary.paged_in_bytes, Some(&mut step.paged_in_bytes)),
            Move::PageOut => (&mut summary.paged_out_bytes, Some(&mut step.paged_out_bytes)),
            Move::Discard => (&mut summary.discarded_bytes, Some(&mut step.discarded_bytes)),
            Move::Fill => (&mut summary.filled_bytes, None),
            Move::Relocate | Move::Map | Move::Unmap => unreachable!("this machine has scattered content only"),
        };
        *sum += bytes;
        if let Some(step_sum) = step_sum {
            *step_sum += bytes;
        }
        let causes = match how {
            Move::PageIn => &mut summary.page_in_by_cause,
            Move::PageOut => &mut summary.page_out_by_cause,
            Move::Discard | Move::Fill | Move::Relocate | Move::Map | Move::Unmap => return,
        };
        *causes.entry(why.name().to_string()).or_insert(0) += bytes;
    }

    fn outcome(mut self, steps: u32) -> Outcome {
        let count = self.recording.observations.iter();
        let (mut raised, mut signals, mut waits) = (0, 0, 0);
        for (_, observation) in count {
            match observation {
                Observation::Signal { interrupt, .. } => {
                    (signals, raised) = (signals + 1, raised + u64::from(*interrupt))
                }
                Observation::WaitEnd { .. } => waits += 1,
                _ => {}
            }
        }
        self.recording.queues = vec![
            QueueLabel { device_queue: COMPUTE, label: "compute".to_string(), engine: 0 },
            QueueLabel { device_queue: PAGING, label: "paging".to_string(), engine: 1 },
        ];
        let track = &mut self.recording.ops[0];
        (track.device_queue, track.progress_bus) = (COMPUTE, PROGRESS);
        self.recording.vram_bytes = self.limit;
        let summary = Summary {
            workload: "synthetic </script> gpt".to_string(),
            adapter: "softgpu".to_string(),
            ops: self.progress,
            steps: u64::from(steps),
            vram_bytes: self.limit,
            elapsed_ns: self.now - 1_000,
            fence_signals: signals,
            gpu_waits: waits,
            cpu_waits: u64::from(steps),
            interrupts_raised: raised,
            interrupts_suppressed: signals - raised,
            interrupt_dispatches_releasing: raised,
            verify: "ok".to_string(),
            demotion_log: "off".to_string(),
            time: "virtual".to_string(),
            policy: "lru".to_string(),
            trace_hash: "0123456789abcdef".to_string(),
            ..self.summary
        };
        Outcome { summary, recordings: vec![self.recording], profile: "discrete".to_string(), interrupted: false }
    }

    fn size(&self, allocation: u64) -> u64 {
        self.sizes[(allocation - 100) as usize]
    }

    fn event(&mut self, event: Event) {
        self.recording.events.push((self.now, event));
    }

    fn observe(&mut self, what: Observation) {
        self.recording.observations.push((self.now, what));
    }
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}
