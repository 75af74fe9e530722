//! The recorders of a run: one for each adapter, because numbers of queues and allocations are an adapter's own, and one
//! hash over the events of all adapters.

use std::sync::{Arc, Mutex, PoisonError};

use dxgk_host::Host;
use events::{Event, Move, TraceHash, Tracer};
use wddm_types::AdapterIndex;

use crate::outcome::{Displaced, INCOMPLETE, Recording};
use crate::run::numbers::Numbers;
use crate::run::play::Played;
use crate::run::recorder::Recorder;
use crate::run::setup::Setup;
use crate::run::share::Terms;

/// The recorders of a run.
pub struct Recorders {
    each: Vec<Arc<Recorder>>,
    hash: Mutex<TraceHash>,
}

/// The kernel's way to the recorders.
pub struct Listener(pub Arc<Recorders>);

impl Recorders {
    /// Nothing heard yet of so many adapters; whether the records, and the moves of memory one by one, are kept.
    pub fn new(adapters: usize, keeps_records: bool, keeps_demotions: bool) -> Arc<Recorders> {
        let each = (0..adapters).map(|number| Recorder::new(number, keeps_records, keeps_demotions)).collect();
        Arc::new(Recorders { each, hash: Mutex::new(TraceHash::default()) })
    }

    /// An adapter's recorder.
    pub fn of(&self, adapter: usize) -> Arc<Recorder> {
        Arc::clone(&self.each[adapter])
    }

    /// The run begins: notes the counters, whose values so far do not belong to it.
    pub fn begin(&self, host: &Host) {
        self.each.iter().for_each(|recorder| recorder.begin(host));
    }

    /// A step has ended at `now_ns`.
    pub fn end_step(&self, host: &Host, now_ns: u64) {
        self.each.iter().for_each(|recorder| recorder.end_step(host, now_ns));
    }

    /// The counts so far, adapter by adapter, and the hash of all events.
    pub fn numbers(&self, host: &Host, started_ns: u64) -> (Vec<Numbers>, u64) {
        let numbers = self.each.iter().map(|recorder| recorder.numbers(host, started_ns)).collect();
        (numbers, self.hash.lock().unwrap_or_else(PoisonError::into_inner).value())
    }

    /// The records of each adapter, with what is needed to read them.
    pub fn take(&self, workloads: &[(replay::Workload, Terms)], played: &[Played], setup: &Setup) -> Vec<Recording> {
        let numbered = self.each.iter().zip(&setup.adapters);
        let mut taken: Vec<Recording> =
            numbered.map(|(recorder, planned)| recorder.take(workloads, played, planned)).collect();
        if taken.len() > 1 {
            for (number, recording) in taken.iter_mut().enumerate() {
                // CAST: adapters are counted in ones.
                recording.demotions.iter_mut().for_each(|demotion| demotion.adapter = Some(number as u32));
            }
        }
        taken
    }

    /// Bytes of a process's own memory that moved in this way.
    pub fn moved_bytes(&self, process: u32, how: Move) -> u64 {
        self.each.iter().map(|recorder| recorder.moved_bytes(process, how)).sum()
    }

    /// Compares the lists of moves, if there are any, with what the kernel has.
    pub fn compare_residence(&self, host: &Host) {
        self.each.iter().for_each(|recorder| recorder.compare_residence(host));
    }

    /// The result of the comparisons: `ok`, `off`, or the first mismatch; a wrong list goes before one that had no room for all moves.
    pub fn demotion_verdict(&self) -> String {
        let verdicts: Vec<String> = self.each.iter().map(|recorder| recorder.demotion_verdict()).collect();
        let is_fine = |verdict: &&String| matches!(verdict.as_str(), "ok" | "off");
        let bad = || verdicts.iter().filter(|verdict| !is_fine(verdict));
        let worst = bad().find(|verdict| !verdict.starts_with(INCOMPLETE)).or_else(|| bad().next());
        worst.unwrap_or(&verdicts[0]).clone()
    }

    /// Displaced bytes by victim and requester, largest first.
    pub fn displaced(&self) -> Vec<Displaced> {
        let mut sums = std::collections::BTreeMap::<(u32, u32), u64>::new();
        for Displaced { victim, requester, bytes } in self.each.iter().flat_map(|recorder| recorder.displaced()) {
            *sums.entry((victim, requester)).or_default() += bytes;
        }
        let displaced = |((victim, requester), bytes)| Displaced { victim, requester, bytes };
        let mut all: Vec<Displaced> = sums.into_iter().map(displaced).collect();
        all.sort_by_key(|displaced| (std::cmp::Reverse(displaced.bytes), displaced.victim, displaced.requester));
        all
    }

    fn hash(&self, now_ns: u64, event: &Event) {
        self.hash.lock().unwrap_or_else(PoisonError::into_inner).event(now_ns, event);
    }
}

impl Tracer for Listener {
    fn event(&mut self, now_ns: u64, event: &Event) {
        self.0.hash(now_ns, event);
        self.0.each.iter().for_each(|recorder| recorder.event(now_ns, event));
    }

    fn event_of(&mut self, adapter: AdapterIndex, now_ns: u64, event: &Event) {
        self.0.hash(now_ns, event);
        self.0.each[adapter.0 as usize].event(now_ns, event);
    }
}
