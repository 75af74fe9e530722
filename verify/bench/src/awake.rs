//! Processors that never fall idle, for measures in which threads wait for each other all the time: on a virtual machine it takes long and
//! scatters widely until a processor that was idle does something again, and the operating system leaves threads waiting behind others
//! meanwhile. A thread of the lowest class runs on each, and gives way to every other thread.
#![allow(unsafe_code)]

use std::hint::spin_loop;
use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::machine::{allowed, pin_here};

/// No processor is idle as long as this lives.
pub(crate) struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps every processor that this process may use awake; or says why it cannot.
    pub fn keep() -> Result<Awake, String> {
        let mut awake = Awake { over: Arc::default(), threads: Vec::new() };
        for processor in allowed() {
            let over = Arc::clone(&awake.over);
            let (says, hears) = std::sync::mpsc::channel();
            let run = move || {
                pin_here(processor);
                let gave_way = give_way_to_all();
                let runs = gave_way.is_ok();
                // The starting thread waits for this.
                let _ = says.send(gave_way);
                while runs && !over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            };
            let thread = std::thread::Builder::new().name(format!("awake {processor}")).spawn(run);
            awake.threads.push(thread.map_err(|error| error.to_string())?);
            let gave_way =
                hears.recv().map_err(|_| "a thread that was to keep a processor awake has died".to_owned())?;
            gave_way.map_err(|error| format!("no thread of the lowest class: {error}"))?;
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It does nothing over which it could fall.
            let _ = thread.join();
        }
    }
}

/// The calling thread runs when no other would (`SCHED_IDLE`).
fn give_way_to_all() -> Result<(), Error> {
    let lowest = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is whole and outlives the call, which keeps nothing of it; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const lowest) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Runnable or running, of the lowest class, and pinned: what the operating system says of the threads of this process by their names.
    fn classes() -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").expect("this process has threads").flatten();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        let of = |stat: String| {
            let (name, rest) = stat.split_once(" (")?.1.rsplit_once(") ")?;
            let fields: Vec<&str> = rest.split(' ').collect();
            // The third field is the first behind the name; the 41st is the policy.
            name.starts_with("awake ").then(|| format!("{} {} {}", name, fields[0], fields[41 - 3]))
        };
        let mut classes: Vec<String> = stats.filter_map(of).collect();
        classes.sort();
        classes
    }

    #[test]
    fn a_thread_of_the_lowest_class_runs_on_each_processor_and_ends() {
        let mut processors = allowed();
        processors.sort_unstable_by_key(usize::to_string);
        let expected: Vec<String> = processors.iter().map(|processor| format!("awake {processor} R 5")).collect();
        let awake = Awake::keep().expect("anybody may give way");
        assert_eq!(classes(), expected);
        drop(awake);
        // A thread that was joined is on the list for a moment longer.
        let began = Instant::now();
        while !classes().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", classes());
            std::thread::yield_now();
        }
    }
}
