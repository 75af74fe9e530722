//! A file that is being written beside the place that it will have. It goes away with its value, unless it has got that place; where this
//! program ends without dropping values, [`abandon`] takes all of them away. Called by `place`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The temporary files that exist.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Names to try: programs with the same process number may have left files behind.
const NAMES_MAX: u32 = 100;

/// A file without its place.
pub(super) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Creates an empty file in a folder, with a short name whatever the name of its target.
    pub fn within(folder: &Path, mode: u32) -> io::Result<(Temporary, File)> {
        let mut number = 0;
        loop {
            let path = folder.join(format!(".openwddm-{}-{number}.part", std::process::id()));
            // Noted first: this thread may be stopped behind the next line.
            let temporary = Temporary { path };
            unfinished().push(temporary.path.clone());
            match OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&temporary.path) {
                Ok(file) => return Ok((temporary, file)),
                Err(error) => {
                    // It is not ours.
                    temporary.forget();
                    number += 1;
                    if error.kind() != ErrorKind::AlreadyExists || number == NAMES_MAX {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Renames it to its target, which replaces an existing file at once.
    pub fn take_place(self, target: &Path) -> io::Result<()> {
        // One that fails goes away when it is dropped.
        fs::rename(&self.path, target)?;
        self.forget();
        Ok(())
    }

    fn forget(self) {
        unfinished().retain(|path| *path != self.path);
        std::mem::forget(self);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that cannot be removed stays.
        let _ = fs::remove_file(&self.path);
        unfinished().retain(|path| *path != self.path);
    }
}

/// Removes all temporary files: this program ends at once, without dropping values.
pub fn abandon() {
    for path in unfinished().drain(..) {
        // A file that cannot be removed stays.
        let _ = fs::remove_file(path);
    }
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}
