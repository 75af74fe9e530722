//! The command `run`: judges the outputs, runs the workload, writes and prints the outcome.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::console;
use crate::error::RunError;
use crate::interruption::INTERRUPTED;
use crate::outcome::{INCOMPLETE, Outcome};
use crate::output::Output;
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
    std::fs::create_dir_all(DEFAULT_FOLDER).map_err(|error| RunError::File {
        role: "output folder".to_string(),
        path: DEFAULT_FOLDER.into(),
        problem: format!("cannot be created: {error}"),
        remedy: "start it in a folder that you may write to, or name the files: openwddm run --trace FILE".to_string(),
    })
}

/// Runs and writes; returns the exit code.
///
/// # Errors
/// [`RunError`]: input, output and the run itself.
pub fn run(
    options: &RunOptions,
    progress: &Progress,
    cancel: &AtomicBool,
    sink: &mut dyn Write,
) -> Result<u8, RunError> {
    let outputs = Outputs::check(options)?;
    let outcome = run::execute(options, progress, cancel);
    progress.finish();
    let outcome = outcome?;
    outputs.write(&outcome)?;
    let table = table::table(&outcome, &outputs.files());
    if outputs.take_standard_output() {
        // The reader of the numbers wants nothing between them.
        console::complain(&table);
    } else {
        let told = sink.write_all(table.as_bytes()).and_then(|()| sink.flush());
        told.map_err(|error| console::unwritten(&error))?;
    }
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

    fn write(&self, outcome: &Outcome) -> Result<(), RunError> {
        self.write_numbers(&outcome.summary)?;
        self.write_recordings(outcome)
    }

    /// Whether a reader of standard output wants nothing between what one of the files has.
    pub(crate) fn take_standard_output(&self) -> bool {
        self.all().any(Output::is_standard_output)
    }

    /// Writes the numbers, if they are wanted.
    ///
    /// # Errors
    /// [`RunError::File`]: they cannot be written.
    pub(crate) fn write_numbers(&self, numbers: &impl serde::Serialize) -> Result<(), RunError> {
        let Some(json) = &self.json else { return Ok(()) };
        json.write(|sink| {
            serde_json::to_writer_pretty(&mut *sink, numbers)?;
            sink.write_all(b"\n")
        })
    }

    /// Writes the list of moves, the trace and the report: those that are wanted.
    ///
    /// # Errors
    /// [`RunError::File`]: one cannot be written.
    pub(crate) fn write_recordings(&self, outcome: &Outcome) -> Result<(), RunError> {
        if let Some(demotions) = &self.demotions {
            demotions.write(|sink| {
                for demotion in outcome.recordings.iter().flat_map(|recording| &recording.demotions) {
                    serde_json::to_writer(&mut *sink, demotion)?;
                    sink.write_all(b"\n")?;
                }
                Ok(())
            })?;
        }
        if self.trace.is_none() && self.report.is_none() {
            return Ok(());
        }
        let timelines = Timeline::of_all(outcome);
        if let Some(trace) = &self.trace {
            trace.write(|sink| perfetto::write(&timelines, sink))?;
        }
        if let Some(report) = &self.report {
            report.write(|sink| sink.write_all(report::page(outcome, &timelines).as_bytes()))?;
        }
        Ok(())
    }

    fn files(&self) -> Vec<(&'static str, &Path)> {
        let named =
            [("trace", &self.trace), ("report", &self.report), ("numbers", &self.json), ("demotions", &self.demotions)];
        named.into_iter().filter_map(|(name, output)| output.as_ref().map(|output| (name, output.path()))).collect()
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
        outputs.write(&outcome).unwrap();
        assert_eq!(outputs.files().len(), 3);
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
