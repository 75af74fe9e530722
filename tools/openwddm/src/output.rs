//! Files that a run writes: judged before the run, written whole or not at all, and existing files are not lost.
//!
//! `whole_file` has the table of what stands at a path and what becomes of it.
//!
//! `run_command` makes one [`Output`] per file before it begins, `present` one per picture; `console` writes them, beside what is printed.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

pub use whole_file::abandon;
use whole_file::{Identity, Place, Unfit};

use crate::error::RunError;

/// A place for a file, found good.
#[derive(Debug)]
pub struct Output {
    role: &'static str,
    path: PathBuf,
    identity: Option<Identity>,
    is_standard_output: bool,
}

impl Output {
    /// Judges the place.
    ///
    /// # Errors
    /// [`RunError::File`]: a path that the table of `whole_file` refuses, or a folder that does not exist or takes no file.
    pub fn check(role: &'static str, path: &Path) -> Result<Output, RunError> {
        let judged = Place::of(path).and_then(|place| place.probe().map(|()| place));
        let place = judged.map_err(|Unfit { problem, remedy }| RunError::File {
            role: role.to_owned(),
            path: path.to_path_buf(),
            problem,
            remedy: remedy.to_owned(),
        })?;
        let is_standard_output = matches!(place, Place::StandardOutput);
        Ok(Output { role, path: path.to_path_buf(), identity: place.identity(), is_standard_output })
    }

    /// Its purpose, such as `--trace`.
    pub fn role(&self) -> &'static str {
        self.role
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it goes where commands print.
    pub fn is_standard_output(&self) -> bool {
        self.is_standard_output
    }

    /// Whether it is the same file, whatever its name. A device, which takes bytes without an end, can be several outputs.
    pub fn is(&self, path: &Path) -> bool {
        let other = Place::of(path).ok().and_then(|place| place.identity());
        self.identity.is_some() && self.identity == other
    }

    /// Writes the whole file. It is no error when the reader of a pipe has closed it.
    ///
    /// # Errors
    /// [`RunError::Unwritten`]; then no partial file is left, and an existing file is unchanged.
    pub fn write(&self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), RunError> {
        let written = match Place::of(&self.path) {
            Ok(place) => place.write(content),
            Err(unfit) => Err(io::Error::other(unfit.problem)),
        };
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                let (role, path, problem) = (self.role.to_owned(), self.path.clone(), error.to_string());
                Err(RunError::Unwritten { role, path, problem })
            }
            _ => Ok(()),
        }
    }
}

/// Makes a folder for files of this purpose, if it is not there.
///
/// # Errors
/// [`RunError::File`]: the path leads through a file or to one, or the operating system makes no folder there.
pub fn make_folder(role: &str, path: &Path) -> Result<(), RunError> {
    std::fs::create_dir_all(path).map_err(|error| {
        let file = path.ancestors().find(|part| std::fs::metadata(part).is_ok_and(|found| !found.is_dir()));
        let (problem, remedy) = match file {
            Some(file) if file == path => (
                "a file stands there, and a folder is needed".to_owned(),
                "name a folder, or move the file away".to_owned(),
            ),
            Some(file) => {
                let file = terminal_text::printable::path(file);
                (format!("{file} is a file, and no folder"), "name a folder below another one".to_owned())
            }
            None => (format!("the folder cannot be made: {error}"), "name a folder that you may write to".to_owned()),
        };
        RunError::File { role: role.to_owned(), path: path.to_owned(), problem, remedy }
    })
}

#[cfg(test)]
mod tests;
