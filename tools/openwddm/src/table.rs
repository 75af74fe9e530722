//! The table on the terminal after a run: every number that answers "what moved, why, who waited".

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::outcome::{Constants, INCOMPLETE, Outcome, Summary};
use terminal_text::printable::{line, path as shown};
use terminal_text::units::{bytes, bytes_exact, duration, grouped, percent};

/// The whole table, lines ended.
pub fn table(outcome: &Outcome, files: &[(&str, &Path)]) -> String {
    let summary = &outcome.summary;
    let mut rows = Rows::default();
    import_rows(&mut rows, summary);
    memory_rows(&mut rows, summary);
    plan_rows(&mut rows, summary);
    time_rows(&mut rows, summary);
    fence_rows(&mut rows, summary);
    process_rows(&mut rows, summary);
    adapter_rows(&mut rows, summary);
    stage_rows(&mut rows, summary);
    recovery_rows(&mut rows, summary);
    log_rows(&mut rows, summary);
    rows.gap();
    rows.add("contents", verify_words(&summary.verify));
    if summary.demotion_log != "off" {
        rows.add(
            "demotion log",
            match summary.demotion_log.as_str() {
                "ok" => "adds up to what is resident, page by page".to_string(),
                short if short.starts_with(INCOMPLETE) => short.to_string(),
                wrong => format!("WRONG: {}", line(wrong)),
            },
        );
    }
    rows.add("trace hash", summary.trace_hash.clone());
    let dropped: u64 = outcome.recordings.iter().map(|recording| recording.dropped).sum();
    if dropped > 0 {
        rows.add("recording", format!("{} records left out: its limit was reached", grouped(dropped)));
    }
    for (name, path) in files {
        rows.add(name, shown(path));
    }
    let ended = match (outcome.interrupted, summary.lost) {
        (_, Some(lost)) => format!(" (the device was lost, {lost}: what was reached until then)"),
        (true, None) => " (interrupted: what was reached until then)".to_owned(),
        (false, None) => String::new(),
    };
    format!("{}{ended}\n{}", head(outcome), rows.text())
}

/// One line: the workload, the adapter, and the options.
fn head(outcome: &Outcome) -> String {
    let summary = &outcome.summary;
    let adapter = match outcome.profile.as_str() {
        profile if profile == summary.adapter => profile.to_owned(),
        profile => format!("{} ({profile})", line(&summary.adapter)),
    };
    format!(
        "{}: {} operations in {} {} on {adapter}, {} time, policy {}, seed {}",
        line(&summary.workload),
        grouped(summary.ops),
        summary.steps,
        if summary.steps == 1 { "step" } else { "steps" },
        summary.time,
        summary.policy,
        summary.seed
    )
}

/// The imports of recordings: how much of each became operations, and the work left out.
fn import_rows(rows: &mut Rows, summary: &Summary) {
    for imported in &summary.imports {
        let whose = match summary.imports.len() {
            1 => String::new(),
            _ => format!("{}: ", line(&imported.workload)),
        };
        for (at, sentence) in imported.sentences().iter().enumerate() {
            rows.add(if at == 0 { "recording" } else { "" }, format!("{whose}{}", line(sentence)));
        }
    }
}

fn memory_rows(rows: &mut Rows, summary: &Summary) {
    rows.add("peak of the workload", bytes_exact(summary.peak_bytes));
    let share = percent(summary.vram_bytes, summary.peak_bytes);
    let says = match &summary.vram_files[..] {
        [] => String::new(),
        files => format!(", as {} says; --vram gives another amount", line(&files.join(" and "))),
    };
    rows.add("video memory", format!("{}, {share} of the peak{says}", bytes_exact(summary.vram_bytes)));
    if let Some(rate) = summary.link_bytes_per_us {
        rows.add("link", format!("{} MB/s each way, both ways at once", grouped(rate)));
    }
    rows.gap();
    rows.add("paged in", bytes_exact(summary.paged_in_bytes));
    rows.causes(&summary.page_in_by_cause);
    rows.add("paged out", bytes_exact(summary.paged_out_bytes));
    rows.causes(&summary.page_out_by_cause);
    if let Some(in_place) = summary.in_place_bytes {
        rows.add("used in place", format!("{}, which the link carried like copies", bytes_exact(in_place)));
    }
    if let Some(fewest) = summary.fewest_bytes {
        let moved = summary.carried_bytes();
        let times = match fewest {
            0 => String::new(),
            _ => format!("; the run moved {:.2} times as much", moved as f64 / fewest as f64),
        };
        rows.add("fewest possible", format!("{} in and out{times}", bytes_exact(fewest)));
    }
    rows.add("discarded", format!("{}, nothing to copy", bytes_exact(summary.discarded_bytes)));
    rows.add("filled", format!("{}, first commit", bytes_exact(summary.filled_bytes)));
    if summary.mapped_bytes + summary.unmapped_bytes > 0 {
        let (mapped, unmapped) = (bytes_exact(summary.mapped_bytes), bytes_exact(summary.unmapped_bytes));
        rows.add("mapped in system memory", format!("{mapped}, unmapped {unmapped}; nothing to copy"));
    }
    if summary.relocated_bytes > 0 {
        rows.add("relocated", format!("{}, within their segment", bytes_exact(summary.relocated_bytes)));
    }
    if let Some(constants) = summary.constants {
        let Constants { maps, renames, waits, .. } = constants;
        let (maps, renames, waits) = (grouped(maps), grouped(renames), grouped(waits));
        rows.add("constants", format!("{maps} maps by the CPU, {renames} renamed, {waits} waited for the GPU"));
    }
    rows.times("leaf tables converted", "from 64-KB to 4-KB entries", &summary.tables_converted_by_cause);
    rows.times("nodes preempted", "packets came back", &summary.preemptions_by_cause);
    rows.times("processes suspended", "for their page tables", &summary.stood_still_by_cause);
    rows.gap();
}

/// Where evictions are planned: planned against actual.
fn plan_rows(rows: &mut Rows, summary: &Summary) {
    for plan in &summary.plans {
        if summary.plans.len() > 1 {
            rows.add("segment", format!("{} of adapter {}", plan.segment, plan.adapter));
        }
        plan.rows().into_iter().for_each(|(name, value)| rows.add(name, line(&value).to_string()));
    }
    // The first step also brings what is there before: the last one is what a further step takes.
    if let [_, .., last] = &summary.per_step[..]
        && let Some(lru_bytes) = last.lru_bytes
    {
        let (moved, lru) = (bytes(last.carried_bytes()), bytes(lru_bytes));
        rows.add("  last step", format!("{moved} moved, LRU would have moved {lru}"));
    }
    if !summary.plans.is_empty() {
        rows.gap();
    }
}

fn time_rows(rows: &mut Rows, summary: &Summary) {
    rows.add("elapsed", duration(summary.elapsed_ns));
    if !summary.adapters.is_empty() {
        // They work beside each other: their busy times and waits do not add up to the elapsed time.
        rows.gap();
        return;
    }
    let share = percent(summary.stall_ns, summary.elapsed_ns);
    rows.add("stalled on paging", format!("{}, {share} of the time", duration(summary.stall_ns)));
    let share = percent(summary.ideal_ns, summary.elapsed_ns);
    rows.add("without paging", format!("{}, so it ran at {share} of the ideal", duration(summary.ideal_ns)));
    // The first step also brings what is there before: the last one is what a further step takes.
    if let [_, .., last] = &summary.per_step[..]
        && let Some(ideal_ns) = last.ideal_ns
    {
        let share = percent(ideal_ns, last.elapsed_ns);
        rows.add("last step", format!("{}, {share} of its ideal {}", duration(last.elapsed_ns), duration(ideal_ns)));
    }
    rows.gap();
}

fn fence_rows(rows: &mut Rows, summary: &Summary) {
    rows.add("fence signals", grouped(summary.fence_signals));
    rows.add("GPU waits", grouped(summary.gpu_waits));
    rows.add("CPU waits", grouped(summary.cpu_waits));
    let releasing = grouped(summary.interrupt_dispatches_releasing);
    rows.add(
        "interrupts raised",
        format!("{}, {releasing} dispatches released a wait", grouped(summary.interrupts_raised)),
    );
    rows.add("interrupts suppressed", format!("{}, no waiter needed them", grouped(summary.interrupts_suppressed)));
    if summary.doorbells_passed_on != 0 {
        let times = grouped(summary.doorbells_passed_on);
        rows.add("doorbells passed on", format!("{times} times from queue to queue: there are fewer"));
    }
    if summary.creations_waited != 0 {
        let times = grouped(summary.creations_waited);
        rows.add("creations that waited", format!("{times}, for system memory of what was being destroyed"));
    }
}

/// Recoveries of hardware that failed or hung, and the devices lost with it.
fn recovery_rows(rows: &mut Rows, summary: &Summary) {
    if summary.lost.is_none() && summary.recoveries.is_empty() {
        return;
    }
    rows.gap();
    for (what, times) in &summary.recoveries {
        rows.add(
            "recovery",
            format!("{what}{}", if *times == 1 { String::new() } else { format!(", {} times", grouped(*times)) }),
        );
    }
    for process in summary.processes.iter().filter(|process| process.lost.is_some()) {
        rows.add("recovery", format!("process {} has lost its device", process.process));
    }
}

/// Lost and wrong entries of the logs of a recorded run, whose timeline is not whole then.
// spec: sync §3.14
fn log_rows(rows: &mut Rows, summary: &Summary) {
    if summary.log_faults.is_empty() {
        return;
    }
    rows.gap();
    for (what, times) in &summary.log_faults {
        rows.add("logs", format!("{what}: {}", grouped(*times)));
    }
}

/// With `--stage`: the costs of the work at each stage.
fn stage_rows(rows: &mut Rows, summary: &Summary) {
    if summary.stages.is_empty() {
        return;
    }
    rows.gap();
    for stage in &summary.stages {
        rows.add(
            &format!("stage {}", stage.stage),
            format!(
                "{} submissions by {} calls, {} of CPU time, {} interrupts",
                grouped(stage.submissions),
                grouped(stage.calls),
                duration(stage.cpu_ns),
                grouped(stage.interrupts)
            ),
        );
        let (trip, elapsed) = (duration(stage.round_trip_ns), duration(stage.elapsed_ns));
        rows.add("", format!("elapsed {elapsed}; from a submission until the CPU knows that it is done {trip}"));
    }
}

/// With several adapters: the numbers of each.
fn adapter_rows(rows: &mut Rows, summary: &Summary) {
    if summary.adapters.is_empty() {
        return;
    }
    rows.gap();
    for adapter in &summary.adapters {
        let (profile, vram) = (line(&adapter.profile), bytes(adapter.vram_bytes));
        rows.add(
            &format!("adapter {}", adapter.adapter),
            format!(
                "{profile}, stage {}, {vram}: {} operations, {} came from others",
                adapter.stage,
                grouped(adapter.ops),
                bytes(adapter.arrived_bytes)
            ),
        );
        rows.add(
            "",
            format!(
                "worked {}, waited {}; paged in {}, out {}, discarded {}",
                duration(adapter.busy_ns),
                duration(adapter.wait_ns),
                bytes(adapter.paged_in_bytes),
                bytes(adapter.paged_out_bytes),
                bytes(adapter.discarded_bytes)
            ),
        );
    }
}

/// With several processes: the numbers of each, and which process displaced whose memory.
fn process_rows(rows: &mut Rows, summary: &Summary) {
    if summary.processes.is_empty() {
        return;
    }
    rows.gap();
    for process in &summary.processes {
        let budget = process.budget_bytes.map_or(String::new(), |budget| format!(", budget {}", bytes(budget)));
        let name = format!("process {}", process.process);
        rows.add(&name, format!("{}, priority {}{budget}", line(&process.workload), process.priority));
        rows.add(
            "",
            format!(
                "{} operations in {}; in {}, out {}, discarded {} of {}",
                grouped(process.ops),
                duration(process.elapsed_ns),
                bytes(process.paged_in_bytes),
                bytes(process.paged_out_bytes),
                bytes(process.discarded_bytes),
                bytes(process.peak_bytes)
            ),
        );
    }
    rows.gap();
    for displaced in &summary.displaced {
        let whom = if displaced.victim == displaced.requester {
            format!("process {} made room for itself", displaced.victim)
        } else {
            format!("process {} made room for process {}", displaced.victim, displaced.requester)
        };
        rows.add("displaced", format!("{}: {whom}", bytes(displaced.bytes)));
    }
}

fn verify_words(verify: &str) -> String {
    match verify {
        "ok" => "verified: every byte as it should be".to_string(),
        "off" => "not verified (--verify checks them)".to_string(),
        fault => format!("MISMATCH: {}", line(fault)),
    }
}

#[derive(Default)]
struct Rows {
    rows: Vec<(String, String)>,
}

impl Rows {
    fn add(&mut self, name: &str, value: String) {
        self.rows.push((name.to_string(), value));
    }

    fn gap(&mut self) {
        self.add("", String::new());
    }

    fn causes(&mut self, causes: &BTreeMap<String, u64>) {
        let mut causes: Vec<_> = causes.iter().filter(|(_, bytes)| **bytes > 0).collect();
        causes.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (cause, count) in causes {
            self.add(&format!("  {cause}"), bytes(*count));
        }
    }

    /// How often something happened, in all and by cause; nothing if it never did.
    fn times(&mut self, name: &str, what: &str, causes: &BTreeMap<String, u64>) {
        let total: u64 = causes.values().sum();
        if total > 0 {
            self.add(name, format!("{}, {what}", grouped(total)));
            causes.iter().for_each(|(cause, times)| self.add(&format!("  {cause}"), grouped(*times)));
        }
    }

    fn text(&self) -> String {
        let width = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (name, value) in &self.rows {
            let line = format!("  {name:width$}  {value}");
            writeln!(text, "{}", line.trim_end()).expect("a string takes everything");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_tells_everything() {
        let mut outcome = crate::synthetic::outcome(2, 40);
        outcome.summary.paged_in_bytes = 3 << 29;
        outcome.summary.workload = "evil\x1b[2J".to_string();
        outcome.recordings[0].dropped = 12_000;
        let left = crate::imported::Omission { reason: "no tensors", kernels: 17, storages: 0, bytes: 0 };
        let source = Some("a\x1b[2Jb".to_owned());
        let imported = crate::imported::Imported { kernels: 812, left_out: vec![left], source, ..Default::default() };
        outcome.summary.imports = vec![imported];
        let text = table(&outcome, &[("trace", Path::new("out/t"))]);
        for part in [
            "80 operations in 2 steps",
            "paged in               1.50 GiB (1,610,612,736 bytes)",
            "60.0 % of the peak",
            "make resident",
            "pressure",
            "interrupts suppressed",
            "12,000 records left out",
            "17 of 812 kernels left out: no tensors",
            "verified: every byte",
            "out/t",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains('\x1b'));
        assert!(text.lines().all(|line| line == line.trim_end()));
    }

    #[test]
    fn an_interrupted_or_wrong_run_says_so() {
        let mut outcome = crate::synthetic::outcome(1, 4);
        outcome.interrupted = true;
        outcome.summary.verify = "storage 3 differs".to_string();
        let text = table(&outcome, &[]);
        assert!(text.contains("interrupted") && text.contains("MISMATCH: storage 3 differs"));
    }
}
