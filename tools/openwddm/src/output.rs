//! Files that a run writes: judged before the run, written whole or not at all.
//!
//! A file is first written beside its place under another name and then renamed, so that nobody ever sees half of one.
//! `run_command` makes one [`Output`] per file before it begins.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::RunError;

/// A place for a file, found good.
#[derive(Debug)]
pub struct Output {
    role: &'static str,
    path: PathBuf,
    temporary: PathBuf,
}

impl Output {
    /// Judges the place: its folder exists and can be written to, and no folder stands there.
    ///
    /// # Errors
    /// [`RunError::File`].
    pub fn check(role: &'static str, path: &Path) -> Result<Output, RunError> {
        let fault = |problem: String, remedy: &str| {
            let (role, path, remedy) = (role.to_string(), path.to_path_buf(), remedy.to_string());
            Err(RunError::File { role, path, problem, remedy })
        };
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return fault("this names a folder".to_string(), "name a file");
        };
        let folder = folder_of(path);
        if !folder.is_dir() {
            let problem = format!("the folder {} does not exist", folder.display());
            return fault(problem, "create it, or name a file in a folder that exists");
        }
        let mut temporary_name = name.to_os_string();
        temporary_name.push(format!(".{}.part", std::process::id()));
        let temporary = folder.join(temporary_name);
        // Creating is the only question that gets a true answer: permissions alone say nothing of a full or read-only disk.
        let created = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary);
        if let Err(error) = created.and_then(|_| fs::remove_file(&temporary)) {
            let problem = format!("the folder {} cannot be written to: {error}", folder.display());
            return fault(problem, "choose a folder that you may write to");
        }
        Ok(Output { role, path: path.to_path_buf(), temporary })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// [`RunError::File`]; then nothing is left behind and a file that stood there still stands.
    pub fn write(&self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), RunError> {
        self.write_beside(content).and_then(|()| fs::rename(&self.temporary, &self.path)).map_err(|error| {
            // The first error is the one to tell; a leftover that cannot be removed changes nothing about it.
            let _ = fs::remove_file(&self.temporary);
            RunError::File {
                role: self.role.to_string(),
                path: self.path.clone(),
                problem: format!("could not be written: {error}"),
                remedy: "make room there or choose another place, and run again".to_string(),
            }
        })
    }

    fn write_beside(&self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(&self.temporary)?);
        content(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_whole_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let output = Output::check("--trace", &path).unwrap();
        assert!(!path.exists(), "the check leaves nothing");
        output.write(|file| file.write_all(b"whole")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_keeps_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        fs::write(&path, "old").unwrap();
        let output = Output::check("--trace", &path).unwrap();
        let failed = output.write(|file| {
            file.write_all(b"half")?;
            Err(io::Error::other("disk full"))
        });
        let message = failed.unwrap_err().to_string();
        assert!(
            message.contains("--trace") && message.contains("disk full") && message.contains("what to do"),
            "{message}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_folder_and_a_folder_in_place_of_a_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Output::check("--json", &folder.path().join("no/such.json")).unwrap_err().to_string();
        assert!(
            missing.contains("--json") && missing.contains("does not exist") && missing.contains("create it"),
            "{missing}"
        );
        let taken = Output::check("--json", folder.path()).unwrap_err();
        assert!(taken.to_string().contains("name a file"));
        assert_eq!(taken.exit_code(), 2);
        assert!(Output::check("--json", Path::new("")).is_err());
    }
}
