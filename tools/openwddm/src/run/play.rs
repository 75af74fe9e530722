//! Plays workloads: one on this thread, several as threads, each in a process of the kernel of its own. In virtual time the
//! threads take turns (`conductor`), so that a run repeats exactly; in real time they run as they like.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dxgk_host::{Conductor, Host, ProcessLink};
use kmt_link::{Link, heard};
use replay::{DriveError, DriveOptions, Driven, Observer, drive};
use rustix::time::{ClockId, clock_gettime};
use wddm_types::ProcessId;

use crate::run::share::Terms;

/// A workload that was played.
pub struct Played {
    /// The process that did it.
    pub process: ProcessId,
    /// The outcome of its replay.
    pub driven: Driven,
    /// Calls that it made.
    pub calls: u64,
    /// Time of the processor that its thread spent.
    pub cpu_ns: u64,
}

/// Plays all of them at the same time; each process is there before the first begins.
///
/// # Errors
/// The first workload's failure, in the order in which they were given.
pub fn play<O>(
    host: &Arc<Host>,
    workloads: &[(replay::Workload, Terms)],
    options: DriveOptions,
    virtual_time: bool,
    observer: &O,
    cancel: &AtomicBool,
) -> Result<Vec<Played>, DriveError>
where
    O: Sync,
    for<'a> &'a O: Observer,
{
    let links: Vec<Arc<ProcessLink>> = workloads.iter().map(|_| ProcessLink::new(Arc::clone(host))).collect();
    for ((workload, terms), link) in workloads.iter().zip(&links) {
        host.set_process_priority(link.process(), terms.priority.class());
        let budget = terms.budget.map(|budget| budget.bytes(workload.peak_bytes(options.steps)));
        host.set_process_budget(link.process(), budget);
    }
    if let ([(workload, _)], [link]) = (workloads, &links[..]) {
        return Ok(vec![play_one(workload, link.process(), Arc::clone(link) as _, options, observer, cancel)?]);
    }
    let conductor = virtual_time.then(|| Conductor::new(Arc::clone(host), links.len()));
    std::thread::scope(|scope| {
        let threads: Vec<_> = workloads
            .iter()
            .zip(&links)
            .enumerate()
            .map(|(player, ((workload, _), link))| {
                let (conductor, link) = (conductor.clone(), Arc::clone(link));
                // Two processes never share content by accident.
                let options = DriveOptions { seed: options.seed.wrapping_add(player as u64), ..options };
                scope.spawn(move || {
                    let process = link.process();
                    match &conductor {
                        None => play_one(workload, process, link as _, options, observer, cancel),
                        Some(conductor) => {
                            let _seat = conductor.enter(player);
                            play_one(workload, process, conductor.link(player, link), options, observer, cancel)
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a player does not panic")).collect()
    })
}

/// Plays one on this thread.
fn play_one<O>(
    workload: &replay::Workload,
    process: ProcessId,
    link: Arc<dyn Link>,
    options: DriveOptions,
    observer: &O,
    cancel: &AtomicBool,
) -> Result<Played, DriveError>
where
    for<'a> &'a O: Observer,
{
    let calls = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&calls);
    let link = heard(link, move |_| _ = counts.fetch_add(1, Ordering::Relaxed));
    let begun = thread_cpu_ns();
    let driven = drive(workload, Arc::new(link), options, &mut { observer }, cancel)?;
    Ok(Played { process, driven, calls: calls.load(Ordering::Relaxed), cpu_ns: thread_cpu_ns().saturating_sub(begun) })
}

/// Time of the processor that this thread has spent, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // CAST: the time of a thread is neither negative nor longer than 584 years.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
