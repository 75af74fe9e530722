//! The signals of the daemon: SIGINT and SIGTERM stop it, and SIGHUP has it read its configuration again; a daemon without a configuration
//! file logs that it has none, and goes on. A handler writes one byte to a pipe, for which the daemon keeps the right when it gives up system calls. Called by `serve`.

use std::io::{self, PipeReader, Read};
use std::sync::mpsc::{self, Receiver, Sender};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// News for the main thread, from signals and from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A signal asks the daemon to stop.
    Stop,
    /// A signal asks it to read its configuration again.
    Reload,
    /// An adapter has stopped for good.
    AdapterStopped {
        /// Its number.
        adapter: u32,
        /// The rule that its driver or hardware broke.
        reason: String,
    },
}

/// Installs the handlers, and hears them from now on. Answers with both ends of what the main thread is told.
///
/// # Errors
/// When the operating system gives no pipe, no thread or no handler.
pub fn listen() -> io::Result<(Sender<Told>, Receiver<Told>)> {
    let (tell, told) = mpsc::channel();
    for (signals, meaning) in [(&[SIGINT, SIGTERM][..], Told::Stop), (&[SIGHUP], Told::Reload)] {
        let (heard, written) = io::pipe()?;
        for signal in signals {
            pipe::register(*signal, written.try_clone()?)?;
        }
        let tell = tell.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || hear(heard, &meaning, &tell))?;
    }
    Ok((tell, told))
}

fn hear(mut pipe: PipeReader, meaning: &Told, tell: &Sender<Told>) {
    // Signals that come together are one.
    while pipe.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {
        if tell.send(meaning.clone()).is_err() {
            return;
        }
    }
}
