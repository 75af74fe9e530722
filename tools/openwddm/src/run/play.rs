//! Plays workloads: one on this thread, several as threads, each in a process of the kernel of its own. In virtual time the
//! threads take turns (`conductor`), so that a run repeats exactly; in real time they run as they like.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dxgk_host::{Conductor, Host, ProcessLink};
use kmt_link::Link;
use replay::{DriveError, DriveOptions, Driven, Observer, drive};
use wddm_types::ProcessId;

use crate::run::share::Terms;

/// A workload that was played.
pub struct Played {
    /// The process that did it.
    pub process: ProcessId,
    /// What it did.
    pub driven: Driven,
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
        let driven = drive(workload, Arc::clone(link) as Arc<dyn Link>, options, &mut { observer }, cancel)?;
        return Ok(vec![Played { process: link.process(), driven }]);
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
                    let driven = match &conductor {
                        None => drive(workload, link as Arc<dyn Link>, options, &mut { observer }, cancel),
                        Some(conductor) => {
                            conductor.enter(player);
                            let link = conductor.link(player, link);
                            let driven = drive(workload, link, options, &mut { observer }, cancel);
                            conductor.leave(player);
                            driven
                        }
                    };
                    driven.map(|driven| Played { process, driven })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a player does not panic")).collect()
    })
}
