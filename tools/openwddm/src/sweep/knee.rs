//! The knee of a curve: the memory from which on a policy has a share of the ideal. Only sizes that were run count; nothing is guessed
//! between them. Called by the command line.

use serde::Serialize;
use terminal_text::printable::line;
use terminal_text::units::{bytes, percent};

use crate::sweep::row::Row;

/// The knee of one workload under one policy in so many processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Knee {
    /// Name of the workload.
    pub workload: String,
    /// How many processes.
    pub processes: u64,
    /// How victims are chosen.
    pub policy: String,
    /// The share that was asked for.
    pub target_millionths: u64,
    /// The smallest memory with this share, and with more memory always; `None`: the largest that was run is too small.
    pub needed_bytes: Option<u64>,
    /// The largest memory that was run and is too small; `None`: all do.
    pub too_small_bytes: Option<u64>,
    /// The share there.
    pub too_small_share_millionths: Option<u64>,
    /// The smallest memory that was run in which the bound allows this share, and with more memory always; `None`: it is not known.
    pub at_best_bytes: Option<u64>,
    /// All of it in words.
    pub sentence: String,
}

/// The knee of each curve, in the order of the rows.
pub fn knees(rows: &[Row], target_millionths: u64) -> Vec<Knee> {
    rows.chunk_by(Row::is_on_curve_of).filter_map(|curve| knee(curve, target_millionths)).collect()
}

fn knee(curve: &[Row], target: u64) -> Option<Knee> {
    let (first, last) = (curve.first()?, curve.last()?);
    let too_small = curve.iter().rposition(|row| row.share_millionths < target);
    let needed = curve.get(too_small.map_or(0, |at| at + 1));
    let too_small = too_small.map(|at| &curve[at]);
    let allows = |row: &Row| row.share_at_best_millionths.is_some_and(|share| share >= target);
    let at_best = curve.iter().rev().take_while(|row| allows(row)).last();
    let share = percent(target, 1_000_000);
    let of_peak = |row: &Row| {
        let (size, share) = (bytes(row.vram_bytes), percent(row.vram_bytes, row.peak_bytes));
        format!("{size} ({share} of the peak)")
    };
    let what = match first.last_step_ideal_ns {
        Some(_) => "of the ideal speed in a further step",
        None => "of the ideal speed over the whole run",
    };
    let found = match (needed, too_small) {
        (Some(needed), None) => format!("has {share} {what} in {}, the smallest that was run", of_peak(needed)),
        (Some(needed), Some(below)) => format!(
            "needs {} for {share} {what}; in {} it has {}",
            of_peak(needed),
            bytes(below.vram_bytes),
            percent(below.share_millionths, 1_000_000)
        ),
        (None, _) => format!(
            "has less than {share} {what} even in {}: {}",
            of_peak(last),
            percent(last.share_millionths, 1_000_000)
        ),
    };
    let by_bound = match at_best {
        Some(best) if needed.is_none_or(|needed| best.vram_bytes < needed.vram_bytes) => {
            format!("; the bound allows it from {} on", bytes(best.vram_bytes))
        }
        _ => String::new(),
    };
    let in_processes = match first.processes {
        1 => String::new(),
        count => format!(" in {count} processes"),
    };
    Some(Knee {
        sentence: format!("{}{in_processes} under {} {found}{by_bound}", line(&first.workload), first.policy),
        workload: first.workload.clone(),
        processes: first.processes,
        policy: first.policy.clone(),
        target_millionths: target,
        needed_bytes: needed.map(|row| row.vram_bytes),
        too_small_bytes: too_small.map(|row| row.vram_bytes),
        too_small_share_millionths: too_small.map(|row| row.share_millionths),
        at_best_bytes: at_best.map(|row| row.vram_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &str, gib: u64, share: u64, best: Option<u64>) -> Row {
        Row {
            workload: "net".to_owned(),
            policy: policy.to_owned(),
            processes: 1,
            asked_bytes: gib << 30,
            vram_bytes: gib << 30,
            peak_bytes: 10 << 30,
            share_millionths: share * 10_000,
            share_at_best_millionths: best.map(|share| share * 10_000),
            last_step_ideal_ns: Some(1),
            ..Row::default()
        }
    }

    #[test]
    fn the_knee_is_the_smallest_memory_from_which_on_the_share_holds() {
        let rows = [
            row("lru", 4, 40, Some(90)),
            row("lru", 5, 96, Some(95)),
            row("lru", 6, 60, Some(100)),
            row("lru", 7, 95, Some(100)),
            row("lru", 8, 100, Some(100)),
            row("kept", 4, 99, None),
            row("kept", 5, 99, None),
            row("slow", 4, 10, Some(20)),
            row("slow", 5, 20, Some(96)),
        ];
        let [lru, kept, slow] = &knees(&rows, 950_000)[..] else { panic!("three curves") };
        assert_eq!(lru.needed_bytes, Some(7 << 30));
        assert_eq!((lru.too_small_bytes, lru.too_small_share_millionths), (Some(6 << 30), Some(600_000)));
        assert_eq!(lru.at_best_bytes, Some(5 << 30));
        assert_eq!(
            lru.sentence,
            "net under lru needs 7.00 GiB (70.0 % of the peak) for 95.0 % of the ideal speed in a further step; in 6.00 GiB it has \
             60.0 %; the bound allows it from 5.00 GiB on"
        );
        assert_eq!((kept.needed_bytes, kept.too_small_bytes, kept.at_best_bytes), (Some(4 << 30), None, None));
        assert!(kept.sentence.ends_with("in 4.00 GiB (40.0 % of the peak), the smallest that was run"), "{kept:?}");
        assert_eq!((slow.needed_bytes, slow.too_small_bytes), (None, Some(5 << 30)));
        assert!(slow.sentence.contains("less than 95.0 %") && slow.sentence.contains("20.0 %; the bound allows it"));
    }
}
