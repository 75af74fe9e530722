//! Command buffers: what a process has the GPU do with its surfaces, in order behind everything that must come first.
//!
//! Order is kept on the GPU wherever it can be: a buffer waits for the paging fence and for the progress of the queues
//! that used its surfaces before, so the CPU runs far ahead of it. Every buffer checks what it finds.

use softgpu_spec::Command;

use crate::process::issue::{Issue, Op, Point};
use crate::process::model::{Content, Fence, Owner};
use crate::process::plan::REPORT_SUMS;
use crate::process::{Phase, Process};
use shared_words::Word;

/// More bytes than any one buffer of these has.
const BUFFER_BYTES_MAX: u64 = 1024;
/// Checksums that can be under way.
const SUMS_MAX: u64 = 256;

/// GPU work that no process is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wild {
    /// Write where nothing is mapped.
    Address,
    /// A word that is no command.
    Command,
    /// A privileged command.
    Privileged,
    /// Write the MonitoredValue of its own fence.
    ReadOnly,
}

/// One submission.
#[derive(Clone, Debug)]
pub struct Job {
    pub queue: usize,
    pub slots: Vec<usize>,
    /// A fence of this queue to be signalled.
    pub signal: Option<usize>,
    /// A fence to be waited for, and whether by a packet where the queue has packets.
    pub wait: Option<usize>,
    pub wild: Option<Wild>,
}

impl Process {
    /// Writes a buffer and rings, or plans the calls that submit it.
    pub(super) fn submit(&mut self, job: &Job) -> Issue {
        let queue = job.queue;
        if self.queues[queue].progress.is_none() {
            return Issue::Done;
        }
        if let Some(oldest) = self.make_room(queue) {
            self.plan.push_front(Op::Submit(job.clone()));
            self.plan.push_front(Op::AwaitQueue { queue, value: oldest });
            return Issue::Done;
        }
        let slots: Vec<usize> = job.slots.iter().copied().filter(|slot| self.is_usable(*slot)).collect();
        let value = self.queues[queue].last_value + 1;
        let waits = self.waits(queue, &slots, job.wait, value);
        let mut words = Vec::new();
        if let Some(wild) = job.wild {
            self.wild(wild, &mut words);
        } else {
            self.wait_for_words(job.wait, queue, value, &mut words);
            self.work(queue, value, &slots, &mut words);
            self.signal_words(job.signal, queue, value, &mut words);
        }
        self.queues[queue].last_value = value;
        let signal = job.signal.and_then(|fence| self.signalled(queue, fence, value));
        if self.queues[queue].user {
            self.append(queue, value, &waits, words, signal);
            if job.wild.is_some() {
                self.condemn(queue, value);
            }
            self.ring_bell(queue);
        } else {
            self.plan_packets(queue, value, waits, words, signal, job.wild.is_some());
        }
        Issue::Done
    }

    /// Surfaces that the GPU may be told to use: on the list, mapped, not locked.
    pub(super) fn is_usable(&self, slot: usize) -> bool {
        self.surfaces[slot]
            .as_ref()
            .is_some_and(|surface| surface.count > 0 && surface.va.is_some() && surface.lock.is_none())
    }

    /// `None`: a buffer fits. Else the value to be awaited first.
    fn make_room(&mut self, queue: usize) -> Option<u64> {
        let reached = self.queues[queue].progress.map_or(0, |progress| self.read(progress.made.current));
        let size = self.surface(self.queues[queue].memory).wish.bytes;
        let queue = &mut self.queues[queue];
        while let Some((value, end)) = queue.in_flight.front().copied().filter(|(value, _)| *value <= reached) {
            queue.in_flight.pop_front();
            queue.freed = end;
            debug_assert!(value <= queue.last_value);
        }
        let full = queue.written + 2 * BUFFER_BYTES_MAX - queue.freed > size;
        queue.in_flight.front().map(|(value, _)| *value).filter(|_| full)
    }

    /// The points that the buffer waits for: paging, other queues' uses of the same surfaces, a fence.
    fn waits(&mut self, queue: usize, slots: &[usize], fence: Option<usize>, value: u64) -> Vec<(Point, u64)> {
        let mut waits = Vec::new();
        let paging = self.paging.expect("set up").fence;
        let ready = slots.iter().map(|slot| self.ready_at(*slot)).max().unwrap_or(0);
        if ready > 0 && (self.read(paging.made.current) < ready || self.random.chance(20)) {
            let point = Point { handle: paging.made.fence, number: paging.number, value: ready };
            waits.push((point, paging.made.current_va.0));
        }
        for other in (0..self.queues.len()).filter(|other| *other != queue) {
            let Some(progress) = self.queues[other].progress else { continue };
            let used = slots.iter().map(|slot| self.surface(*slot).uses[other]).max().unwrap_or(0);
            if used > 0 && self.read(progress.made.current) < used {
                let point = Point { handle: progress.made.fence, number: progress.number, value: used };
                waits.push((point, progress.made.current_va.0));
            }
        }
        let fence = fence.and_then(|slot| self.fences[slot].as_mut()).filter(|fence| fence.local.is_none());
        if let Some(fence) = fence {
            let wanted = match fence.owner {
                Owner::Cpu => {
                    fence.promised += 1;
                    fence.promised
                }
                Owner::Queue(_) => fence.signalled,
            };
            fence.uses[queue] = value;
            waits.push((
                Point { handle: fence.made.fence, number: fence.number, value: wanted },
                fence.made.current_va.0,
            ));
        }
        waits
    }

    /// Checks what the surfaces hold and gives some of them something new.
    fn work(&mut self, queue: usize, value: u64, slots: &[usize], words: &mut Vec<u64>) {
        for (index, slot) in slots.iter().copied().enumerate() {
            let second = self.surface(slot).second.filter(|_| self.random.chance(50));
            let va = second.or(self.surface(slot).va).expect("usable").va.0;
            let va = self.tile_of(slot).unwrap_or(va);
            self.check(queue, value, slot, va, words);
            let from = slots[..index].last().copied().filter(|_| self.random.chance(30));
            let roll = self.random.below(100);
            self.next_seed += 1;
            let seed = self.next_seed;
            let bytes = self.surface(slot).wish.bytes;
            let content = match from
                .map(|from| (self.surface(from).content, self.surface(from).wish.bytes, self.surface(from).va))
            {
                Some((content, from_bytes, Some(source))) if from_bytes >= bytes && content != Content::Unknown => {
                    Command::Copy { source_va: source.va.0, target_va: va, bytes }.encode(words);
                    content
                }
                _ if roll < 45 || self.surface(slot).content == Content::Unknown => {
                    Command::Pattern { va, bytes, seed }.encode(words);
                    Content::Seed(seed)
                }
                _ if roll < 60 => {
                    // CAST: any 32 bits will do.
                    Command::Fill { va, bytes, pattern: seed as u32 }.encode(words);
                    Content::Filled(seed as u32)
                }
                _ => {
                    Command::Touch { va, bytes, write: false, within: false }.encode(words);
                    self.used(slot, queue, value);
                    continue;
                }
            };
            self.used(slot, queue, value);
            let surface = self.surface_mut(slot);
            surface.content = content;
            surface.written = true;
            if self.random.chance(30) {
                self.check(queue, value, slot, va, words);
            }
        }
    }

    fn used(&mut self, slot: usize, queue: usize, value: u64) {
        self.tiles_used(slot, queue, value);
        let surface = self.surface_mut(slot);
        surface.uses[queue] = value;
        for mapping in [&mut surface.va, &mut surface.second].into_iter().flatten() {
            mapping.uses[queue] = value;
        }
    }

    fn check(&mut self, queue: usize, value: u64, slot: usize, va: u64, words: &mut Vec<u64>) {
        let surface = self.surface(slot);
        let (bytes, content) = (surface.wish.bytes, surface.content);
        if let Content::Seed(seed) = content {
            let report_va = self.report_va();
            let tag = (slot as u64) << 32 | (queue as u64) << 28 | value;
            Command::Check { va, bytes, seed, report_va, tag }.encode(words);
        } else if let Some(expected) = content.checksum(bytes) {
            self.sum((va, bytes), expected, ("surface", slot), (queue, value), words);
        }
    }

    fn report_va(&self) -> u64 {
        self.surface(self.report.expect("set up")).va.expect("mapped").va.0
    }

    /// Has the GPU sum up what it finds.
    fn sum(
        &mut self,
        (va, bytes): (u64, u64),
        expected: u64,
        what: (&'static str, usize),
        (queue, value): (usize, u64),
        words: &mut Vec<u64>,
    ) {
        let taken = |place: &u64| !self.sums.iter().any(|sum| sum.place == *place);
        let Some(place) = (0..SUMS_MAX).find(taken) else { return };
        let report = self.report.expect("set up");
        let lock = self.surface(report).lock.as_ref().expect("locked");
        lock.write_words(REPORT_SUMS + place * 8, &[!expected]);
        let result_va = self.report_va() + REPORT_SUMS + place * 8;
        Command::Checksum { va, bytes, result_va }.encode(words);
        self.sums.push(crate::process::model::Sum { place, queue, value, expected, what });
    }

    fn wild(&mut self, wild: Wild, words: &mut Vec<u64>) {
        match wild {
            Wild::Address => Command::Fill { va: 0x7fff_0000_0000, bytes: 4096, pattern: 1 }.encode(words),
            Wild::Command => words.push(0x7f | 1 << 8),
            Wild::Privileged => Command::FillPhysical { target_bus: 0, bytes: 4096, pattern: 1 }.encode(words),
            Wild::ReadOnly => {
                let va = self.paging.expect("set up").fence.made.monitored_va.0;
                Command::Fill { va, bytes: 8, pattern: 1 }.encode(words);
            }
        }
    }

    fn signalled(&mut self, queue: usize, slot: usize, value: u64) -> Option<(Point, u64, u64)> {
        let wanted = |fence: &&mut Fence| fence.owner == Owner::Queue(queue) && fence.local.is_none();
        let fence = self.fences[slot].as_mut().filter(wanted)?;
        fence.signalled += 1;
        fence.uses[queue] = value;
        let point = Point { handle: fence.made.fence, number: fence.number, value: fence.signalled };
        Some((point, fence.made.current_va.0, fence.made.monitored_va.0))
    }

    /// Words in memory of the GPU are waited for by its commands alone.
    // spec: sync §1.4
    fn wait_for_words(&mut self, slot: Option<usize>, queue: usize, value: u64, words: &mut Vec<u64>) {
        let fence = slot.and_then(|slot| self.fences[slot].as_mut());
        let Some(fence) = fence.filter(|fence| fence.local.is_some() && fence.signalled > 0) else { return };
        fence.uses[queue] = value;
        Command::Wait { va: fence.made.current_va.0, value: fence.signalled, log: None }.encode(words);
    }

    /// And signalled; before that they are what the queue has left there, wherever they have been meanwhile.
    // spec: sync §1.4, sync §1.5
    fn signal_words(&mut self, slot: Option<usize>, queue: usize, value: u64, words: &mut Vec<u64>) {
        let Some((slot, mut fence)) = slot.and_then(|slot| self.fences[slot].map(|fence| (slot, fence))) else {
            return;
        };
        let Some(begun) = fence.local.filter(|_| fence.owner == Owner::Queue(queue)) else { return };
        let (current_va, monitored_va) = (fence.made.current_va.0, fence.made.monitored_va.0);
        if begun {
            self.sum((current_va, 8), fence.signalled, ("CurrentValue of fence", slot), (queue, value), words);
            self.sum((monitored_va, 8), u64::MAX, ("MonitoredValue of fence", slot), (queue, value), words);
        } else {
            Command::Fill { va: current_va, bytes: 8, pattern: 0 }.encode(words);
        }
        fence.signalled += 1;
        fence.local = Some(true);
        fence.uses[queue] = value;
        Command::Signal { current_va, monitored_va, value: fence.signalled, log: None }.encode(words);
        self.fences[slot] = Some(fence);
    }

    fn append(
        &mut self,
        queue: usize,
        value: u64,
        waits: &[(Point, u64)],
        body: Vec<u64>,
        signal: Option<(Point, u64, u64)>,
    ) {
        let mut words = Vec::new();
        for (point, va) in waits {
            Command::Wait { va: *va, value: point.value, log: None }.encode(&mut words);
        }
        words.extend(body);
        if let Some((point, current_va, monitored_va)) = signal {
            Command::Signal { current_va, monitored_va, value: point.value, log: None }.encode(&mut words);
        }
        let progress = self.queues[queue].progress.expect("checked").made;
        let (current_va, monitored_va) = (progress.current_va.0, progress.monitored_va.0);
        Command::Signal { current_va, monitored_va, value, log: None }.encode(&mut words);
        let bytes = words.len() as u64 * 8;
        assert!(bytes <= BUFFER_BYTES_MAX, "a buffer of {bytes} bytes");
        let memory = self.queues[queue].memory;
        let size = self.surface(memory).wish.bytes;
        let at = self.queues[queue].written % size;
        let before_end = ((size - at) / 8) as usize;
        let (head, tail) = words.split_at(before_end.min(words.len()));
        let lock = self.surface(memory).lock.as_ref().expect("a ring is locked");
        lock.write_words(at, head);
        lock.write_words(0, tail);
        let queue = &mut self.queues[queue];
        queue.written += bytes;
        queue.in_flight.push_back((value, queue.written));
    }

    fn plan_packets(
        &mut self,
        queue: usize,
        value: u64,
        waits: Vec<(Point, u64)>,
        mut words: Vec<u64>,
        signal: Option<(Point, u64, u64)>,
        wild: bool,
    ) {
        let mut packet = None;
        if let Some((point, current_va, monitored_va)) = signal {
            if self.random.chance(50) {
                packet = Some(point);
            } else {
                Command::Signal { current_va, monitored_va, value: point.value, log: None }.encode(&mut words);
            }
        }
        if words.is_empty() {
            Command::Nop.encode(&mut words);
        }
        let memory = self.queues[queue].memory;
        let size = self.surface(memory).wish.bytes;
        let bytes = words.len() as u64 * 8;
        assert!(bytes <= BUFFER_BYTES_MAX, "a buffer of {bytes} bytes");
        let mut start = self.queues[queue].written;
        if start % size + bytes > size {
            start = start.next_multiple_of(size);
        }
        let surface = self.surface(memory);
        surface.lock.as_ref().expect("command memory is locked").write_words(start % size, &words);
        let buffer = surface.va.expect("mapped").va.offset(start % size);
        let made = &mut self.queues[queue];
        made.written = start + bytes;
        made.in_flight.push_back((value, made.written));
        // Planned in reverse: each goes to the front.
        if wild {
            self.condemn(queue, value);
        }
        if let Some(point) = packet.filter(|_| !wild) {
            self.plan.push_front(Op::KernelSignal { queue, points: vec![point] });
        }
        // CAST: a buffer is at most BUFFER_BYTES_MAX.
        self.plan.push_front(Op::KernelCommand { queue, value, buffer, bytes: bytes as u32 });
        if !waits.is_empty() {
            self.plan.push_front(Op::KernelWait { queue, points: waits.into_iter().map(|(point, _)| point).collect() });
        }
    }

    /// The GPU was given something that it may not be given: the device will be lost, and nothing else.
    fn condemn(&mut self, queue: usize, value: u64) {
        self.guilty = true;
        self.phase = Phase::Ending;
        self.plan.clear();
        let doomed = Box::new(self.harmless_call());
        self.plan.extend([Op::AwaitQueue { queue, value }, Op::State, Op::Doomed { call: doomed }]);
        self.plan.push_back(if self.random.chance(60) { Op::DestroyDevice } else { Op::Die });
    }

    /// The value of a fence that the process made, as it is now.
    pub(super) fn fence_value(&self, slot: usize) -> u64 {
        self.fences[slot].map_or(0, |fence| Word::load(self.system_memory().word(fence.made.current.0)))
    }

    fn system_memory(&self) -> &std::sync::Arc<shared_words::Memory> {
        self.link().system_memory()
    }
}
