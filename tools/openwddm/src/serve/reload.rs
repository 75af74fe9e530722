//! The daemon while it serves: it waits for the signals that stop it or have it read its configuration again, and sees when the kernel has
//! failed. Called by `serve`.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use dxgk_host::Host;
use dxgkd::{Daemon, Limits, Outside};

use super::signals::Told;
use super::{ServeArguments, met, said_over};
use crate::error::RunError;
use crate::serve::config::Config;

/// How often the main thread looks whether the kernel has failed. The daemon disconnects clients at once; this ends the program, so that
/// a service manager can start it again.
const LOOKS_EVERY: Duration = Duration::from_millis(500);

/// Waits until a signal stops the daemon; `reload` is called at each signal that asks for it.
///
/// # Errors
/// When the kernel has failed: it serves no process any more, and the daemon has to be started anew.
pub fn until_stopped(told: &Receiver<Told>, host: &Host, mut reload: impl FnMut()) -> Result<(), RunError> {
    loop {
        match told.recv_timeout(LOOKS_EVERY) {
            Ok(Told::Reload) => reload(),
            // The threads that hear signals live as long as the program.
            Ok(Told::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if host.has_failed() {
            return Err(RunError::Kernel {
                problem: "the kernel has failed; the log above has the cause".to_owned(),
                remedy: "start it again; the daemon has disconnected all processes".to_owned(),
            });
        }
    }
}

/// The limits as the configuration has them now.
pub struct Reload<'a> {
    /// What the command line says: it takes precedence.
    pub arguments: &'a ServeArguments,
    /// Reads the file.
    pub outside: Option<Arc<Outside>>,
    /// Descriptors that the operating system gave at the start; the daemon cannot ask any more.
    pub given: u64,
    /// The limits that hold.
    pub limits: Limits,
}

impl Reload<'_> {
    /// Reads the file again. Its limits hold from now on, for processes that connect and for those that are connected; a wrong file changes
    /// nothing.
    pub fn reload(&mut self, daemon: &Daemon) {
        match self.read() {
            Ok(limits) if limits == self.limits => {
                tracing::info!("the configuration was read again: no limit has changed")
            }
            Ok(limits) => {
                daemon.limit(limits.clone());
                self.limits = limits;
                tracing::info!(
                    "the configuration was read again: its limits hold, for processes that are connected, too; all else holds from the next start on"
                );
            }
            Err(error) => {
                tracing::error!("the configuration was read again, and is wrong, so nothing has changed: {error}")
            }
        }
    }

    fn read(&self) -> Result<Limits, RunError> {
        let path = self.arguments.config.as_deref().unwrap_or_else(|| "".as_ref());
        let unread = |problem: String| Config::wrong(path, problem);
        let outside =
            self.outside.as_ref().ok_or_else(|| unread("no outside process runs that could read it".to_owned()))?;
        let text = outside.file().map_err(|error| unread(error.to_string()))?;
        let config = said_over(self.arguments, Config::parse(path, &text)?)?;
        Ok(met(&config, self.given)?.told())
    }
}
