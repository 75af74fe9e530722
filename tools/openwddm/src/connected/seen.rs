//! What a client of a served kernel sees of its own run: the replay tells of operations, times and bytes that did not match, and the kernel's
//! figures, asked as `openwddm top` asks them, tell of the memory of the client's process. A run with a trace, a report or a list of moves has the
//! kernel's events about the process, too. Called by `connected`.

use std::sync::Arc;

use d3dkmt::{PagingBytes, ProcessStatistics, query_statistics};
use kmt_calls::{Call, Reply, StatisticsCall};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use replay::{Driven, Observer, Workload};
use serde::Serialize;
use wddm_types::{Luid, ProcessId};

use crate::connected::own_events::Kept;
use crate::outcome::StepSummary;
use crate::run::{RunOptions, Terms, device_state};

/// Watches a run from the client's side: the figures of its process after each step, while it has devices.
pub struct Seen<O> {
    rest: O,
    link: Arc<SocketLink>,
    own: Option<ProcessId>,
    adapters: Vec<Luid>,
    began_ns: u64,
    before: PagingBytes,
    /// The figures after the last step; `None`: no step is done, or the kernel did not tell.
    last: Option<PagingBytes>,
    steps: Vec<StepSummary>,
    /// The events about the process, where a file is made of them.
    events: Option<Kept>,
}

impl<O: Observer> Seen<O> {
    /// Watches for a client; `rest` hears the same.
    pub fn new(link: &Arc<SocketLink>, rest: O, keeps_events: bool) -> Seen<O> {
        // Before the process has an object: events about objects that are there already would reach no process.
        let events = keeps_events.then(|| Kept::begin(link));
        let call = Call::Statistics(StatisticsCall::GetProcessId { process: 0 });
        let own = match link.call(call) {
            Ok(Reply::Processes(processes)) => processes.first().copied(),
            _ => None,
        };
        let adapters = d3dkmt::enum_adapters(&**link).unwrap_or_default().into_iter().map(|(luid, _)| luid).collect();
        let (before, last, steps) = (PagingBytes::default(), None, Vec::new());
        Seen { rest, link: Arc::clone(link), own, adapters, began_ns: link.now_ns(), before, last, steps, events }
    }

    /// The events that have come until the process gave its objects back; they are gone from here.
    pub fn take_events(&mut self) -> Option<Kept> {
        let mut events = self.events.take()?;
        events.drain();
        Some(events)
    }

    /// What the run has become.
    pub fn into_summary(self, workload: &Workload, terms: Terms, driven: &Driven, options: &RunOptions) -> ProcessSeen {
        let verify = match (&driven.mismatch, options.verify) {
            (Some(mismatch), _) => mismatch.to_string(),
            (None, true) => "ok".to_owned(),
            (None, false) => "off".to_owned(),
        };
        ProcessSeen {
            process: self.own.map(|process| process.0),
            workload: workload.name().to_owned(),
            priority: terms.priority.name(),
            ops: driven.ops,
            steps: u64::from(driven.steps),
            peak_bytes: workload.peak_bytes(options.steps),
            paged_in_bytes: self.last.map(|moved| moved.in_bytes),
            paged_out_bytes: self.last.map(|moved| moved.out_bytes),
            discarded_bytes: self.last.map(|moved| moved.discarded_bytes),
            filled_bytes: self.last.map(|moved| moved.filled_bytes),
            relocated_bytes: self.last.map(|moved| moved.relocated_bytes),
            elapsed_ns: driven.elapsed_ns,
            per_step: self.steps,
            verify,
            lost: driven.lost.map(device_state),
        }
    }

    /// The sums of all adapters.
    fn moved(&self) -> Option<PagingBytes> {
        let own = self.own?;
        let mut sum = None;
        for luid in &self.adapters {
            let known = query_statistics(&*self.link, *luid).ok()?;
            let theirs = known.processes.into_iter().find(|process| process.process == own);
            // It has devices on those adapters alone that its operations name.
            let Some(ProcessStatistics { paging, .. }) = theirs else { continue };
            let sum: &mut PagingBytes = sum.get_or_insert_default();
            sum.in_bytes += paging.in_bytes;
            sum.out_bytes += paging.out_bytes;
            sum.discarded_bytes += paging.discarded_bytes;
            sum.filled_bytes += paging.filled_bytes;
            sum.relocated_bytes += paging.relocated_bytes;
        }
        sum
    }
}

impl<O: Observer> Observer for Seen<O> {
    fn progress(&mut self, done: u64, total: u64) {
        self.rest.progress(done, total);
        if let Some(events) = &mut self.events {
            events.drain();
        }
    }

    fn step_done(&mut self, step: u32, now_ns: u64) {
        self.rest.step_done(step, now_ns);
        if let Some(now) = self.moved() {
            self.steps.push(StepSummary {
                step: u64::from(step),
                paged_in_bytes: now.in_bytes - self.before.in_bytes,
                paged_out_bytes: now.out_bytes - self.before.out_bytes,
                discarded_bytes: now.discarded_bytes - self.before.discarded_bytes,
                elapsed_ns: now_ns.saturating_sub(self.began_ns),
                ..StepSummary::default()
            });
            (self.before, self.last) = (now, Some(now));
        }
        self.began_ns = now_ns;
    }
}

/// The numbers of one process, by the names of a run in this program. Those that only the daemon's events tell are absent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProcessSeen {
    /// Its number in the served kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Name of its workload.
    pub workload: String,
    /// Its priority class.
    pub priority: &'static str,
    /// Operations submitted.
    pub ops: u64,
    /// Steps done.
    pub steps: u64,
    /// Most bytes alive at once.
    pub peak_bytes: u64,
    /// Of its own memory, copied into video memory until the end of the last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paged_in_bytes: Option<u64>,
    /// Copied out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paged_out_bytes: Option<u64>,
    /// Left without a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discarded_bytes: Option<u64>,
    /// Filled with zeros.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filled_bytes: Option<u64>,
    /// Copied within a segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relocated_bytes: Option<u64>,
    /// From its first submission to its last completion.
    pub elapsed_ns: u64,
    /// The same bytes per step.
    pub per_step: Vec<StepSummary>,
    /// `ok`, `off`, or what did not match.
    pub verify: String,
    /// The state of a lost device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<&'static str>,
}

/// A run at a served kernel.
#[derive(Clone, Debug, Serialize)]
pub struct RunSeen {
    /// Whose figures these are: `client`. The daemon has the others.
    pub seen_by: &'static str,
    /// Where the kernel is served.
    pub socket: String,
    /// The path by which work reached the engine.
    pub stage: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Each workload, in the order of the command line.
    pub processes: Vec<ProcessSeen>,
}
