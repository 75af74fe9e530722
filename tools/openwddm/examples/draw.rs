//! Draws a run that never was: writes its trace and its report into the folder named, to be looked at.
//!
//! `cargo run -p openwddm --example draw -- FOLDER [STEPS] [OPERATIONS]`

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::path::PathBuf;

use openwddm::output::Output;
use openwddm::timeline::Timeline;
use openwddm::{perfetto, report, table};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().ok_or("which folder? usage: draw FOLDER [STEPS] [OPERATIONS]")?);
    let steps = words.next().map_or(Ok(2), |word| word.parse())?;
    let operations = words.next().map_or(Ok(360), |word| word.parse())?;
    let outcome = synthetic::outcome(steps, operations);
    let timelines = Timeline::of_all(&outcome);
    let (trace, page) = (folder.join("draw.perfetto-trace"), folder.join("draw.html"));
    Output::check("trace", &trace)?.write(|sink| perfetto::write(&timelines, sink))?;
    Output::check("report", &page)?.write(|sink| sink.write_all(report::page(&outcome, &timelines).as_bytes()))?;
    print!("{}", table::table(&outcome, &[("trace", &trace), ("report", &page)]));
    Ok(())
}
