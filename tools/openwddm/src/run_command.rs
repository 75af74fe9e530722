//! The command `run`: judges the outputs, runs the workload, writes and prints the outcome.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use crate::console::{self, Out};
use crate::error::RunError;
use crate::interruption::INTERRUPTED;
use crate::outcome::{INCOMPLETE, Outcome};
use crate::output::{Output, make_folder};
use crate::progress::Progress;
use crate::run::{self, RunOptions, Workload};
use crate::timeline::Timeline;
use crate::{perfetto, report, table};

/// The folder that the default run writes into, below the current one.
const DEFAULT_FOLDER: &str = "out";

/// Makes the folder of the default run.
///
/// # Errors
/// [`RunError::File`].
pub fn prepare_default_folder() -> Result<(), RunError> {
    make_folder("output folder", Path::new(DEFAULT_FOLDER)).map_err(|error| match error {
        RunError::File { role, path, problem, .. } => {
            let remedy = "start it in another folder, or name the files: openwddm run --trace FILE".to_owned();
            RunError::File { role, path, problem, remedy }
        }
        other => other,
    })
}

/// Runs and writes; returns the exit code.
///
/// # Errors
/// [`RunError`]: input, places for files, and the run itself.
pub fn run(options: &RunOptions, progress: &Progress, cancel: &AtomicBool, out: &mut Out) -> Result<u8, RunError> {
    let outputs = Outputs::check(options)?;
    let outcome = run::execute(options, progress, cancel);
    progress.finish();
    let outcome = outcome?;
    let written = outputs.write(&outcome, out);
    outputs.tell(&table::table(&outcome, &written), out);
    Ok(exit_code(&outcome))
}

fn exit_code(outcome: &Outcome) -> u8 {
    let log = outcome.summary.demotion_log.as_str();
    let log_is_wrong = !matches!(log, "ok" | "off") && !log.starts_with(INCOMPLETE);
    match outcome.summary.verify.as_str() {
        _ if log_is_wrong || outcome.summary.lost.is_some() => 1,
        "ok" | "off" if outcome.interrupted => INTERRUPTED,
        "ok" | "off" => 0,
        _ => 1,
    }
}

/// The files that a run writes.
pub(crate) struct Outputs {
    trace: Option<Output>,
    report: Option<Output>,
    json: Option<Output>,
    demotions: Option<Output>,
}

impl Outputs {
    /// Looks whether all can be written, before anything runs.
    ///
    /// # Errors
    /// [`RunError::File`]: one cannot, or two are the same file.
    pub(crate) fn check(options: &RunOptions) -> Result<Outputs, RunError> {
        let [trace, report, json, demotions] = [
            ("--trace", &options.trace),
            ("--report", &options.report),
            ("--json", &options.json),
            ("--demotions", &options.demotions),
        ]
        .map(|(role, path)| path.as_ref().map(|path| Output::check(role, path)).transpose());
        let outputs = Outputs { trace: trace?, report: report?, json: json?, demotions: demotions? };
        let read = || std::iter::once(&options.workload).chain(options.others.iter().map(|other| &other.workload));
        for (at, output) in outputs.all().enumerate() {
            if outputs.all().take(at).any(|other| other.is(output.path())) {
                return Err(clash(output, "another output is the same file", "give each output a name of its own"));
            }
            if read().any(|read| matches!(read, Workload::File(workload) if output.is(workload))) {
                return Err(clash(output, "this is the workload itself", "name another file"));
            }
        }
        Ok(outputs)
    }

    fn all(&self) -> impl Iterator<Item = &Output> {
        [&self.trace, &self.report, &self.json, &self.demotions].into_iter().flatten()
    }

    /// Writes all that are wanted; returns those that are written.
    fn write(&self, outcome: &Outcome, out: &mut Out) -> Vec<(&'static str, &Path)> {
        let numbers = self.write_numbers(&outcome.summary, out);
        self.write_recordings(outcome, out).into_iter().chain(numbers).collect()
    }

    /// Prints the text beside the files: elsewhere if one of them has standard output, whose reader wants nothing between.
    pub(crate) fn tell(&self, text: &str, out: &mut Out) {
        match self.all().any(Output::is_standard_output) {
            true => console::complain(text),
            false => out.print(text),
        }
    }

    /// Writes the numbers, if they are wanted.
    pub(crate) fn write_numbers(&self, numbers: &impl Serialize, out: &mut Out) -> Option<(&'static str, &Path)> {
        let json = self.json.as_ref()?;
        let written = out.file(json, |sink| {
            serde_json::to_writer_pretty(&mut *sink, numbers)?;
            sink.write_all(b"\n")
        });
        written.then_some(("numbers", json.path()))
    }

    /// Writes the list of moves, the trace and the report: those that are wanted. Returns those that are written.
    pub(crate) fn write_recordings(&self, outcome: &Outcome, out: &mut Out) -> Vec<(&'static str, &Path)> {
        let mut files = Vec::new();
        if let Some(demotions) = &self.demotions {
            let written = out.file(demotions, |sink| {
                for demotion in outcome.recordings.iter().flat_map(|recording| &recording.demotions) {
                    serde_json::to_writer(&mut *sink, demotion)?;
                    sink.write_all(b"\n")?;
                }
                Ok(())
            });
            files.extend(written.then_some(("demotions", demotions.path())));
        }
        if self.trace.is_none() && self.report.is_none() {
            return files;
        }
        let timelines = Timeline::of_all(outcome);
        if let Some(trace) = &self.trace {
            let written = out.file(trace, |sink| perfetto::write(&timelines, sink));
            files.extend(written.then_some(("trace", trace.path())));
        }
        if let Some(report) = &self.report {
            let written = out.file(report, |sink| sink.write_all(report::page(outcome, &timelines).as_bytes()));
            files.extend(written.then_some(("report", report.path())));
        }
        files
    }
}

fn clash(output: &Output, problem: &str, remedy: &str) -> RunError {
    let (role, path) = (output.role().to_string(), output.path().to_path_buf());
    RunError::File { role, path, problem: problem.to_string(), remedy: remedy.to_string() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::arguments::default_run;

    #[test]
    fn all_files_are_written_and_parse() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Some(folder.path().join(name));
        let options = RunOptions { trace: at("t"), report: at("r.html"), json: at("j"), ..default_run() };
        let outputs = Outputs::check(&options).unwrap();
        let outcome = crate::synthetic::outcome(2, 30);
        let mut out = Out::new(Box::new(std::io::sink()), false);
        assert_eq!(outputs.write(&outcome, &mut out).len(), 3);
        assert!(out.end().is_empty());
        let json: serde_json::Value = serde_json::from_slice(&fs::read(folder.path().join("j")).unwrap()).unwrap();
        assert_eq!(json["ops"], 60);
        assert!(fs::read_to_string(folder.path().join("r.html")).unwrap().starts_with("<!doctype html>"));
        assert!(fs::metadata(folder.path().join("t")).unwrap().len() > 1000);
    }

    #[test]
    fn outputs_may_not_fall_together() {
        let folder = tempfile::tempdir().unwrap();
        let same = Some(folder.path().join("same"));
        let twice = RunOptions { trace: same.clone(), report: same.clone(), ..default_run() };
        assert!(Outputs::check(&twice).err().unwrap().to_string().contains("a name of its own"));
        let (link, one) = (folder.path().join("link"), folder.path().join("one"));
        std::os::unix::fs::symlink("one", &link).unwrap();
        for stands in [false, true] {
            let linked = RunOptions { trace: Some(link.clone()), report: Some(one.clone()), ..default_run() };
            assert!(Outputs::check(&linked).err().unwrap().to_string().contains("the same file"), "{stands}");
            fs::write(&one, "old").unwrap();
        }
        let null = Some("/dev/null".into());
        assert!(Outputs::check(&RunOptions { trace: null.clone(), report: null, ..default_run() }).is_ok());
        let workload = Workload::File(folder.path().join("same"));
        let onto = RunOptions { workload, trace: same, report: None, ..default_run() };
        assert!(Outputs::check(&onto).err().unwrap().to_string().contains("the workload itself"));
    }

    #[test]
    fn the_exit_code_tells_how_it_ended() {
        let mut outcome = crate::synthetic::outcome(1, 5);
        assert_eq!(exit_code(&outcome), 0);
        outcome.interrupted = true;
        assert_eq!(exit_code(&outcome), 130);
        outcome.summary.verify = "storage 7: byte 0 is 1, expected 2".to_string();
        assert_eq!(exit_code(&outcome), 1);
        let mut lost = crate::synthetic::outcome(1, 5);
        lost.summary.lost = Some("its work did not end");
        assert_eq!(exit_code(&lost), 1);
    }
}
