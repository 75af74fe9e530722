//! Counts of one adapter in a run, and how several become one summary. Filled by `recorder`.

use std::collections::BTreeMap;

use dxgk_host::HostAdapter;
use dxgkrnl::AdapterCounters;
use events::{Cause, Event, Move};
use softgpu_spec::engine;
use softgpu_spec::register::counter;

use crate::outcome::{AdapterSummary, PlanSummary, StepSummary, Summary};

/// Sums of the kernel's events.
#[derive(Clone, Default)]
pub struct Sums {
    moved: BTreeMap<Move, u64>,
    by_cause: BTreeMap<(Move, &'static str), u64>,
    converted: BTreeMap<String, u64>,
    quiesced: BTreeMap<String, u64>,
    preempted: BTreeMap<String, u64>,
    recovered: BTreeMap<String, u64>,
    log_faults: BTreeMap<String, u64>,
}

/// Readings of the device's counters.
#[derive(Clone, Copy, Default)]
pub struct Device {
    signals: u64,
    waits: u64,
    raised: u64,
    suppressed: u64,
    busy_ns: u64,
    /// Time in which the compute queue waited.
    pub wait_ns: u64,
}

/// Counts of a run.
pub struct Numbers {
    /// Of the kernel's events.
    pub sums: Sums,
    /// Of the device.
    pub device: Device,
    /// How long packets waited.
    pub packet_waits_ns: u64,
    /// Of the kernel.
    pub kernel: AdapterCounters,
    /// Of each step.
    pub per_step: Vec<StepSummary>,
    /// Planned against actual, of each segment whose evictions are planned.
    pub plans: Vec<PlanSummary>,
}

impl Sums {
    /// Hears an event.
    pub fn event(&mut self, event: &Event) {
        // A destruction in video memory is no move out of it.
        if let Event::Moved { bytes, how, why, .. } = event
            && *why != Cause::Destroy
        {
            *self.moved.entry(*how).or_default() += bytes;
            *self.by_cause.entry((*how, why.name())).or_default() += bytes;
        }
        match event {
            Event::LeafTableConverted { why, .. } => {
                *self.converted.entry(why.name().to_owned()).or_default() += 1;
            }
            Event::ProcessStandsStill { why, .. } => {
                *self.quiesced.entry(why.name().to_owned()).or_default() += 1;
            }
            Event::PreemptionRequested { why, .. } => {
                *self.preempted.entry(why.name().to_owned()).or_default() += 1;
            }
            _ => {}
        }
        // spec: sync §3.14
        let fault = match event {
            Event::FenceLogOverrun { lost, .. } => Some(("entries of fence logs were lost", *lost)),
            Event::SubmissionLogOverrun { lost, .. } => Some(("entries of submission logs were lost", *lost)),
            Event::SchedulingLogOverrun { lost, .. } => Some(("entries of scheduling logs were lost", *lost)),
            Event::FenceLogEntryIgnored { .. } => Some(("entries of fence logs made no sense", 1)),
            Event::FenceLogTimeReversed { .. } => Some(("times of fence logs went back", 1)),
            _ => None,
        };
        if let Some((fault, times)) = fault {
            let sum = self.log_faults.entry(fault.to_owned()).or_default();
            *sum = sum.saturating_add(times);
        }
        let recovery = match event {
            Event::EngineReset { .. } => Some("an engine was reset"),
            Event::EngineGroupAsked { .. } => Some("engines were asked that are reset together"),
            Event::DriverCallLate { .. } => Some("a driver call took too long"),
            Event::AdapterReset { .. } => Some("the adapter was reset"),
            Event::AdapterStopped { .. } => Some("the adapter was stopped"),
            Event::ProcessBlocked { .. } => Some("a process was kept away"),
            _ => None,
        };
        if let Some(recovery) = recovery {
            *self.recovered.entry(recovery.to_owned()).or_default() += 1;
        }
    }

    /// Bytes that moved in this way.
    pub fn bytes(&self, how: Move) -> u64 {
        self.moved.get(&how).copied().unwrap_or(0)
    }

    fn causes(&self, how: Move) -> BTreeMap<String, u64> {
        let of = self.by_cause.iter().filter(|((kind, _), _)| *kind == how);
        of.map(|((_, cause), bytes)| ((*cause).to_owned(), *bytes)).collect()
    }
}

impl Device {
    /// Reads the counters of the device.
    pub fn read(adapter: HostAdapter<'_>) -> Device {
        let compute = 8 * engine::COMPUTE;
        Device {
            signals: adapter.device_register(counter::SIGNALS),
            waits: adapter.device_register(counter::WAITS),
            raised: adapter.device_register(counter::INTERRUPTS_RAISED)
                + adapter.device_register(counter::PUBLISH_RAISED),
            suppressed: adapter.device_register(counter::INTERRUPTS_SUPPRESSED),
            busy_ns: adapter.device_register(counter::ENGINE_BUSY_NS + compute),
            wait_ns: adapter.device_register(counter::ENGINE_WAIT_NS + compute),
        }
    }

    /// The differences from an earlier reading.
    pub fn since(self, before: Device) -> Device {
        Device {
            signals: self.signals - before.signals,
            waits: self.waits - before.waits,
            raised: self.raised - before.raised,
            suppressed: self.suppressed - before.suppressed,
            busy_ns: self.busy_ns - before.busy_ns,
            wait_ns: self.wait_ns - before.wait_ns,
        }
    }
}

impl Numbers {
    /// Interrupts in which the driver found something.
    pub fn interrupts(&self) -> u64 {
        self.kernel.interrupts
    }

    /// The summary of one of several adapters.
    pub fn of_adapter(&self) -> AdapterSummary {
        AdapterSummary {
            paged_in_bytes: self.sums.bytes(Move::PageIn),
            paged_out_bytes: self.sums.bytes(Move::PageOut),
            discarded_bytes: self.sums.bytes(Move::Discard),
            busy_ns: self.device.busy_ns,
            wait_ns: self.device.wait_ns + self.packet_waits_ns,
            interrupts_raised: self.device.raised,
            interrupts_suppressed: self.device.suppressed,
            ..AdapterSummary::default()
        }
    }

    /// The fields of a summary that were counted, of all adapters together; the others are left empty.
    pub fn into_summary(all: Vec<Numbers>) -> Summary {
        let mut summary = Summary::default();
        all.into_iter().for_each(|numbers| numbers.add_to(&mut summary));
        summary
    }

    fn add_to(self, to: &mut Summary) {
        let bytes = |how| self.sums.bytes(how);
        to.paged_in_bytes += bytes(Move::PageIn);
        to.paged_out_bytes += bytes(Move::PageOut);
        to.discarded_bytes += bytes(Move::Discard);
        to.filled_bytes += bytes(Move::Fill);
        to.relocated_bytes += bytes(Move::Relocate);
        to.mapped_bytes += bytes(Move::Map);
        to.unmapped_bytes += bytes(Move::Unmap);
        add_counts(&mut to.page_in_by_cause, self.sums.causes(Move::PageIn));
        add_counts(&mut to.page_out_by_cause, self.sums.causes(Move::PageOut));
        add_counts(&mut to.tables_converted_by_cause, self.sums.converted);
        add_counts(&mut to.stood_still_by_cause, self.sums.quiesced);
        add_counts(&mut to.preemptions_by_cause, self.sums.preempted);
        add_counts(&mut to.recoveries, self.sums.recovered);
        add_counts(&mut to.log_faults, self.sums.log_faults);
        add_steps(&mut to.per_step, self.per_step);
        to.ideal_ns += self.device.busy_ns;
        to.stall_ns += self.device.wait_ns + self.packet_waits_ns;
        to.fence_signals += self.device.signals + self.kernel.cpu_signals;
        to.gpu_waits += self.device.waits;
        to.cpu_waits += self.kernel.cpu_waits;
        to.interrupts_raised += self.device.raised;
        to.interrupts_suppressed += self.device.suppressed;
        to.interrupt_dispatches_releasing += self.kernel.dispatches_releasing;
        to.doorbells_passed_on += self.kernel.doorbells_passed_on;
        to.creations_waited += self.kernel.creations_waited;
        let in_place: u64 = self.plans.iter().map(PlanSummary::in_place_bytes).sum();
        if in_place > 0 {
            to.in_place_bytes = Some(to.in_place_bytes.unwrap_or(0) + in_place);
        }
        to.plans.extend(self.plans);
    }
}

fn add_counts(to: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    more.into_iter().for_each(|(name, count)| *to.entry(name).or_default() += count);
}

/// Adapters end a step together: this sums their moves and waits, and keeps one elapsed time.
fn add_steps(to: &mut Vec<StepSummary>, more: Vec<StepSummary>) {
    if to.is_empty() {
        *to = more;
        return;
    }
    for (to, more) in to.iter_mut().zip(more) {
        to.paged_in_bytes += more.paged_in_bytes;
        to.paged_out_bytes += more.paged_out_bytes;
        to.discarded_bytes += more.discarded_bytes;
        to.stall_ns += more.stall_ns;
        to.lru_bytes = to.lru_bytes.zip(more.lru_bytes).map(|(one, other)| one + other);
        to.in_place_bytes =
            [to.in_place_bytes, more.in_place_bytes].into_iter().flatten().reduce(|one, other| one + other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two adapters, of whose logs something is missing.
    #[test]
    fn what_is_missing_of_the_logs_is_counted_and_stands_in_the_json() {
        // spec: sync §3.14 (overrun)
        // seed: N106, N108, N128
        let numbers = |events: &[Event]| {
            let mut sums = Sums::default();
            events.iter().for_each(|event| sums.event(event));
            let (device, kernel) = (Device::default(), AdapterCounters::default());
            Numbers { sums, device, packet_waits_ns: 0, kernel, per_step: Vec::new(), plans: Vec::new() }
        };
        let first = numbers(&[
            Event::FenceLogOverrun { queue: 2, waits: false, lost: 40 },
            Event::FenceLogOverrun { queue: 3, waits: true, lost: 2 },
            Event::SubmissionLogOverrun { queue: 2, lost: 3 },
            Event::SchedulingLogOverrun { node: 1, lost: 5 },
        ]);
        let second = numbers(&[
            Event::FenceLogOverrun { queue: 2, waits: false, lost: 100 },
            Event::FenceLogTimeReversed { queue: 2, waits: false, before: 9, end: 8 },
            Event::FenceLogEntryIgnored { queue: 2, waits: false, position: 8 },
        ]);
        let summary = Numbers::into_summary(vec![first, second]);
        let json = serde_json::to_value(&summary).expect("numbers are always JSON");
        let expected = serde_json::json!({
            "entries of fence logs were lost": 142,
            "entries of submission logs were lost": 3,
            "entries of scheduling logs were lost": 5,
            "entries of fence logs made no sense": 1,
            "times of fence logs went back": 1,
        });
        assert_eq!(json["log_faults"], expected);
        let whole = Numbers::into_summary(vec![numbers(&[])]);
        assert_eq!(serde_json::to_value(&whole).expect("JSON")["log_faults"], serde_json::json!({}));
    }
}
