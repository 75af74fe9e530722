//! Rows in a folder: a file for each, which appears when it is whole, so that a sweep that is cut loses no finished row, and parts of a sweep
//! may write into one folder at the same time. Called by `sweep` and `pool`.
//!
//! Other programs read the folder as one data set; so whatever ends in `.parquet` there has to have the columns of a sweep, however many
//! rows it has.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::error::RunError;
use crate::output::{Output, make_folder};
use crate::sweep::attempt::{Ended, asked, attempt};
use crate::sweep::columns;
use crate::sweep::plan::{Plan, Point};
use crate::sweep::row::Row;

/// What the folder is called in messages.
const ROLE: &str = "rows";

/// A folder with rows.
pub(super) struct Kept {
    folder: PathBuf,
    found: Vec<Row>,
}

impl Kept {
    /// Opens a folder, or makes it, and reads the rows that it has.
    ///
    /// # Errors
    /// [`RunError::File`]: it cannot be made, or a file in it has no rows of a sweep.
    pub(super) fn open(folder: &Path) -> Result<Kept, RunError> {
        let faulty = |error: std::io::Error| RunError::File {
            role: ROLE.to_owned(),
            path: folder.to_owned(),
            problem: format!("the folder cannot be used: {error}"),
            remedy: "name a folder that you may write to".to_owned(),
        };
        make_folder(ROLE, folder)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(faulty)? {
            let path = entry.map_err(faulty)?.path();
            if path.extension() == Some(OsStr::new("parquet")) {
                files.push(path);
            }
        }
        files.sort();
        let mut found = Vec::new();
        for path in files {
            found.append(&mut read(&path)?);
        }
        Ok(Kept { folder: folder.to_owned(), found })
    }

    /// The row of a run, if the folder has it.
    pub(super) fn row(&self, plan: &Plan, point: &Point) -> Option<Row> {
        let wanted = asked(plan, point);
        self.found.iter().find(|row| row.is_of_same_run(&wanted)).cloned()
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a row.
    ///
    /// # Errors
    /// When the folder does not take it.
    pub(super) fn keep(&self, row: &Row) -> Result<(), RunError> {
        let bytes = columns::written(std::slice::from_ref(row));
        let output = Output::check(ROLE, &self.folder.join(file_name(row)))?;
        output.write(|sink| sink.write_all(&bytes))
    }
}

/// The name of a row's file: equal for equal runs alone.
fn file_name(row: &Row) -> String {
    let link = row.link_bytes_per_us.map_or_else(|| "own".to_owned(), |rate| rate.to_string());
    format!(
        "{}-{}-{}-{link}-{}steps-{}x-{}-{}.parquet",
        row.workload_hash, row.program, row.adapter, row.steps, row.processes, row.policy, row.asked_bytes
    )
}

fn read(path: &Path) -> Result<Vec<Row>, RunError> {
    let refused = |problem: String| RunError::File {
        role: ROLE.to_owned(),
        path: path.to_owned(),
        problem,
        remedy: "move it elsewhere, or name another folder: this one is for the rows of sweeps".to_owned(),
    };
    let unreadable = |error: std::io::Error| refused(format!("cannot be read: {error}"));
    // The opening of a pipe would wait for its writer.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(refused("is no regular file".to_owned()));
    }
    let file = fs::File::open(path).map_err(unreadable)?;
    columns::read(file).map_err(|fault| refused(fault.to_string()))
}

/// Makes one run of each policy again whose row was found, and compares: rows of a program that behaves otherwise are no rows of this sweep.
///
/// # Errors
/// [`RunError::Argument`] when one comes out otherwise; those of the run.
pub(super) fn verify(plan: &Plan, rows: &[Option<Row>], cancel: &AtomicBool) -> Result<(), RunError> {
    let mut seen = Vec::new();
    // The last of a curve has most memory, and is the quickest.
    for (point, row) in plan.points().iter().zip(rows).rev() {
        let Some(row) = row.as_ref().filter(|_| !seen.contains(&point.policy)) else { continue };
        seen.push(point.policy);
        let is_as_before = match attempt(plan, point, None, cancel)? {
            Ended::Done(again) => again.came_out_as(row),
            Ended::Unfit(_) => false,
            Ended::Interrupted => return Ok(()),
        };
        if !is_as_before {
            let folder = plan.options().rows.clone().unwrap_or_default();
            return Err(RunError::File {
                role: ROLE.to_owned(),
                path: folder,
                problem: format!(
                    "the run of {} in {} bytes with policy {} comes out otherwise than its row says, which another build has made",
                    row.workload, row.asked_bytes, row.policy
                ),
                remedy: "name another folder with --out, or remove this one".to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;
    use crate::sweep::{SweepOptions, sweep};

    fn options(rows: &Path) -> SweepOptions {
        SweepOptions {
            sizes: vec!["0.8..0.9/2".parse().unwrap()],
            policies: vec![crate::arguments::Policy::Lru],
            steps: 1,
            bound_seconds: 0,
            rows: Some(rows.to_owned()),
            ..SweepOptions::default()
        }
    }

    #[test]
    fn rows_of_a_program_that_behaves_otherwise_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (options, never) = (options(folder.path()), AtomicBool::new(false));
        let swept = sweep(&options, &Progress::silent(), &never).unwrap();
        assert_eq!((swept.made, swept.found, swept.rows.len()), (2, 0, 2));
        let kept = Kept::open(folder.path()).unwrap();
        // Nothing but the bound may differ.
        kept.keep(&Row { fewest_bytes: Some(7), ..swept.rows[1].clone() }).unwrap();
        let again = sweep(&options, &Progress::silent(), &never).unwrap();
        assert_eq!((again.made, again.found, again.rows[1].fewest_bytes), (0, 2, Some(7)));
        kept.keep(&Row { elapsed_ns: swept.rows[1].elapsed_ns + 1, ..swept.rows[1].clone() }).unwrap();
        let error = sweep(&options, &Progress::silent(), &never).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("another build") && error.to_string().contains("--out"), "{error}");
        // Rows of another version are no rows of this sweep.
        kept.keep(&Row { program: "0.0.0".to_owned(), ..swept.rows[0].clone() }).unwrap();
        kept.keep(&swept.rows[1]).unwrap();
        let again = sweep(&options, &Progress::silent(), &never).unwrap();
        assert_eq!((again.made, again.found, again.rows), (0, 2, swept.rows));
    }

    #[test]
    fn an_interrupted_sweep_gives_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let swept = sweep(&options(folder.path()), &Progress::silent(), &AtomicBool::new(true)).unwrap();
        assert!(swept.interrupted && swept.rows.is_empty());
        assert_eq!(swept.missing, 2);
    }
}
