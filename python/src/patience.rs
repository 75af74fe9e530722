//! Waits for a sweep as Python waits: the interpreter's other threads go on, and Ctrl-C ends it.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use openwddm::progress::Progress;
use openwddm::sweep::{SweepOptions, Swept, sweep as run};
use pyo3::prelude::*;

use crate::error::exception;

/// How often the interpreter is asked whether a signal has come.
const ASK: Duration = Duration::from_millis(50);

/// Makes the runs on another thread.
///
/// # Errors
/// Those of the sweep; the exception of a signal's handler, after the runs have ended early.
pub fn sweep(py: Python<'_>, options: &SweepOptions) -> PyResult<Swept> {
    let cancel = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        let worker = scope.spawn(|| {
            let swept = run(options, &Progress::silent(), &cancel);
            drop(done);
            swept
        });
        let ended = std::sync::Mutex::new(ended);
        let wait = || ended.lock().expect("one thread waits").recv_timeout(ASK);
        let mut signal = Ok(());
        while signal.is_ok() && py.detach(&wait) == Err(RecvTimeoutError::Timeout) {
            signal = py.check_signals();
        }
        cancel.store(signal.is_err(), Ordering::Relaxed);
        let swept = py.detach(|| worker.join()).unwrap_or_else(|panic| resume_unwind(panic));
        signal?;
        swept.map_err(|error| exception(&error))
    })
}
