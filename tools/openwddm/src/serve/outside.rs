//! The outside process of the daemon (`dxgkd::Outside`): this program again, by a command that the help does not list. Called by `serve`, and
//! by `entry` in the process itself.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use dxgkd::{Outside, keep_folders, look};

use crate::console;
use crate::error::RunError;

/// The command's name.
const COMMAND: &str = "serve-outside";

/// Arguments of the outside process.
#[derive(Debug, Args)]
pub struct OutsideArguments {
    /// The file that the daemon may ask for
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the daemon has records of crashes written
    #[arg(long, value_name = "FOLDER")]
    pub records: Option<PathBuf>,
}

/// Starts the process; `None`, and a line in the log, where there can be none: the daemon serves without names of programs, and its
/// configuration stays as it is.
pub fn start(config: Option<&Path>, records: Option<&Path>) -> Option<Outside> {
    let started = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command.arg(COMMAND);
        for (name, path) in [("--config", config), ("--records", records)] {
            if let Some(path) = path {
                command.arg(name).arg(std::path::absolute(path)?);
            }
        }
        // The service manager's descriptor is the daemon's.
        command.env_remove("LISTEN_FDS").env_remove("LISTEN_PID").env_remove("LISTEN_FDNAMES");
        Outside::start(command)
    });
    let told = |error: &io::Error| {
        tracing::warn!(
            "no outside process starts, so processes have no names, and the configuration is not read again: {error}"
        );
    };
    started.inspect_err(told).ok()
}

/// The process itself, until the daemon goes.
///
/// # Errors
/// [`RunError::Kernel`] when it cannot give up what it does not need.
pub fn outside(arguments: &OutsideArguments) -> Result<u8, RunError> {
    let config = arguments.config.as_deref();
    // The file at the path may be another one, in another folder, by the time that it is read: a link that a package manager moves.
    let linked = config.and_then(|path| path.canonicalize().ok());
    let folders = [config, linked.as_deref()].into_iter().flatten().filter_map(Path::parent);
    let folders: Vec<&Path> = folders.chain([Path::new("/proc")]).collect();
    let records = arguments.records.as_deref();
    keep_folders(&folders, records).map_err(|error| RunError::Kernel {
        problem: format!("the outside process: {error}"),
        remedy: "run the daemon where Landlock can be used, or on a kernel without it".to_owned(),
    })?;
    // An answer that cannot be written: the daemon has gone.
    let _ = look(config, records, io::stdin().lock(), console::pipe());
    Ok(0)
}
