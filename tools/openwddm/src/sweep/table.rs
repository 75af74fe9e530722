//! The table of a sweep on the terminal: a line for each memory size, a column for each policy, the bound beside them. Called by the
//! command line.

use std::fmt::Write;

use terminal_text::printable::line;
use terminal_text::units::{bytes, bytes_exact, grouped, percent};

use crate::sweep::row::Row;
use crate::sweep::{Knee, Swept};

/// The tables of all workloads and numbers of processes, and a sentence for each knee. Lines are ended.
pub fn table(swept: &Swept, knees: &[Knee]) -> String {
    let mut text = String::new();
    for rows in swept.rows.chunk_by(Row::is_in_table_of) {
        text += &one(rows);
        text.push('\n');
    }
    for knee in knees {
        writeln!(text, "{}", knee.sentence).expect("a string takes everything");
    }
    text
}

/// The table of one workload in so many processes.
fn one(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let curves: Vec<&[Row]> = rows.chunk_by(Row::is_on_curve_of).collect();
    let mut sizes: Vec<&Row> = rows.iter().collect();
    sizes.sort_by_key(|row| row.asked_bytes);
    sizes.dedup_by_key(|row| row.asked_bytes);
    let policies = || curves.iter().map(|curve| curve[0].policy.clone());
    let mut lines = vec![["memory".to_owned(), "of peak".to_owned(), "at best".to_owned()].to_vec()];
    lines[0].extend(policies());
    lines[0].push("fewest bytes".to_owned());
    lines[0].extend(policies().map(|policy| format!("{policy} moves")));
    for size in sizes {
        // Rows of one size have one bound, unless its solver had less time for one of them.
        let same = || rows.iter().filter(|row| row.asked_bytes == size.asked_bytes);
        let of = |curve: &&[Row]| curve.iter().find(|row| row.asked_bytes == size.asked_bytes).cloned();
        let known = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let mut cells = vec![bytes(size.vram_bytes), percent(size.vram_bytes, size.peak_bytes)];
        cells.push(known(same().find_map(|row| row.share_at_best_millionths).map(share)));
        cells.extend(curves.iter().map(|curve| known(of(curve).map(|row| share(row.share_millionths)))));
        let fewest = same().find_map(|row| row.fewest_bytes);
        cells.push(known(fewest.map(bytes)));
        cells.extend(curves.iter().map(|curve| known(of(curve).map(|row| moved(&row, fewest)))));
        lines.push(cells);
    }
    let what = match first.last_step_ideal_ns {
        Some(_) => "shares of the ideal speed are those of the last step, bytes those of all steps",
        None => "shares of the ideal speed and bytes are those of the whole run",
    };
    format!("{}  {what}\n{}", head(first), aligned(&lines))
}

fn head(row: &Row) -> String {
    let steps = if row.steps == 1 { "step" } else { "steps" };
    let processes = match row.processes {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    let link = row.link_bytes_per_us.map_or(String::new(), |rate| format!(", link {} MB/s each way", grouped(rate)));
    let (name, adapter, peak) = (line(&row.workload), line(&row.adapter), bytes_exact(row.peak_bytes));
    format!("{name}: {} {steps}, {processes} on {adapter}{link}; one has a peak of {peak}\n", row.steps)
}

fn share(millionths: u64) -> String {
    percent(millionths, 1_000_000)
}

/// Bytes, and how many times the fewest they are.
fn moved(row: &Row, fewest: Option<u64>) -> String {
    let moved = row.moved_bytes();
    match fewest {
        Some(fewest) if fewest > 0 => format!("{} {:.2}×", bytes(moved), moved as f64 / fewest as f64),
        _ => bytes(moved),
    }
}

/// Columns to the right, two blanks between them.
fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for cells in lines {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("  {cell:>width$}"));
        writeln!(text, "{}", cells.collect::<String>()).expect("a string takes everything");
    }
    text
}
