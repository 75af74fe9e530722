//! A daemon for tests: started, waited for, and ended with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::served::{NEVER, listens, openwddm};

/// A daemon that is ended with the test.
pub struct Daemon {
    /// Its process.
    pub child: Child,
    /// Where it listens.
    pub socket: PathBuf,
}

impl Daemon {
    /// Starts it and waits until it serves.
    pub fn start(socket: &Path, arguments: &[&str]) -> Daemon {
        let mut command = openwddm(&["serve", "--socket", socket.to_str().expect("a path in UTF-8")]);
        let child = command.args(arguments).stderr(Stdio::null()).spawn().expect("the binary starts");
        let daemon = Daemon { child, socket: socket.to_owned() };
        let began = Instant::now();
        while !listens(socket) {
            assert!(began.elapsed() < NEVER, "it does not serve");
            std::thread::sleep(Duration::from_millis(5));
        }
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended already needs no signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
