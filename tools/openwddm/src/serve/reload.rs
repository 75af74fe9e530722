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

/// Waits until a signal stops the daemon; `reload` is called at each signal that asks for it. The log has each adapter that stops.
///
/// # Errors
/// When the kernel has failed: it serves no process any more, and the daemon has to be started anew.
pub fn until_stopped(told: &Receiver<Told>, host: &Host, mut reload: impl FnMut()) -> Result<(), RunError> {
    loop {
        // A kernel that fails while the daemon is being stopped has failed.
        let stops = match told.recv_timeout(LOOKS_EVERY) {
            Ok(Told::Reload) => {
                reload();
                false
            }
            Ok(Told::AdapterStopped { adapter, reason }) => {
                log_stop(adapter, &reason);
                false
            }
            // The threads that hear signals live as long as the program.
            Ok(Told::Stop) | Err(RecvTimeoutError::Disconnected) => true,
            Err(RecvTimeoutError::Timeout) => false,
        };
        if host.has_failed() {
            // The cause may be among what the kernel said last.
            for news in told.try_iter() {
                if let Told::AdapterStopped { adapter, reason } = news {
                    log_stop(adapter, &reason);
                }
            }
            tracing::error!("the kernel has failed, and every process is disconnected; a line above has the reason");
            return Err(RunError::Kernel {
                problem: "the kernel has failed; the log above has the cause".to_owned(),
                remedy: "start it again; the daemon has disconnected all processes".to_owned(),
            });
        }
        if stops {
            return Ok(());
        }
    }
}

fn log_stop(adapter: u32, reason: &str) {
    tracing::error!(
        adapter,
        "an adapter has stopped for good, and its processes can only destroy what they have: {reason}"
    );
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
    /// What holds from the start to the end, as the daemon was started with it.
    pub fixed: Vec<(&'static str, String)>,
}

impl Reload<'_> {
    /// Reads the file again. Its limits hold from now on, for processes that connect and for those that are connected; a wrong file changes
    /// nothing.
    pub fn reload(&mut self, daemon: &Daemon) {
        if self.arguments.config.is_none() {
            tracing::warn!("there is no configuration to read again: the daemon was started without --config");
            return;
        }
        match self.read() {
            Ok((limits, unchangeable)) => {
                let heeded = if limits == self.limits {
                    "no limit has changed"
                } else {
                    daemon.limit(limits.clone());
                    self.limits = limits;
                    "its limits hold, for processes that are connected, too"
                };
                if unchangeable.is_empty() {
                    tracing::info!("the configuration was read again: {heeded}");
                } else {
                    let names = unchangeable.join(", ");
                    tracing::warn!(
                        "the configuration was read again: {heeded}; other than at the start, and without effect until the next one: {names}"
                    );
                }
            }
            Err(error) => {
                tracing::error!("the configuration was read again in vain, so nothing has changed: {error}")
            }
        }
    }

    /// The limits of the file, and the names of what it changes that a running daemon cannot change.
    fn read(&self) -> Result<(Limits, Vec<&'static str>), RunError> {
        let path = self.arguments.config.as_deref().unwrap_or_else(|| "".as_ref());
        let unread = |problem: String| Config::wrong(path, problem);
        let outside =
            self.outside.as_ref().ok_or_else(|| unread("no outside process runs that could read it".to_owned()))?;
        let text = outside.file().map_err(|error| unread(error.to_string()))?;
        let config = said_over(self.arguments, Config::parse(path, &text)?)?;
        let now = config.fixed().into_iter();
        let unchangeable = now.zip(&self.fixed).filter(|(now, before)| now != *before).map(|(now, _)| now.0).collect();
        Ok((met(&config, self.given)?.told(), unchangeable))
    }
}
