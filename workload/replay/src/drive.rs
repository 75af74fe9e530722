//! Drives a client with a workload: storages become allocations, operations become command buffers.
//!
//! For each operation, in order, this driver makes its storages resident, submits a command buffer that waits *on the GPU* for
//! the paging fence and reads and writes the operation's storages, and evicts these again, lazily
//! and naming the unwritten ones. The CPU runs ahead as far as the stream lets it, and as far as dead storages that the GPU still uses
//! hold no more bytes than [`DriveOptions::ahead_bytes`]; else it waits only at the end of each step.
//!
//! With content, an operation writes words that are a function of (storage, generation, offset), and the GPU itself compares
//! every word that it reads with that function: it finds a page that comes back wrong from any number of evictions at the
//! operation that reads it.
//!
//! Operations run on the adapters that they are placed on. Content that one reads and another adapter wrote crosses first (`crossing`);
//! adapters run beside each other as far as that allows.
//!
//! It depends on no kernel and no host: its caller passes a link.

mod ahead;
mod constants;
mod content;
mod copies;
mod crossing;
mod error;
mod round_trip;
mod site;
mod storages;

pub use content::Mismatch;
pub use d3dkmt::DeviceState;
pub use error::DriveError;
pub use round_trip::round_trip_ns;
pub use site::{DrivenOn, Submission, Work};
pub use softgpu_umd::{Renamed, Stage};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kmt_link::Link;
use softgpu_umd::UmdError;

use crate::drive::content::Content;
use crate::drive::copies::Copies;
use crate::drive::crossing::Crossing;
use crate::drive::site::{At, Order, Site};
use crate::steps::{StepEvent, StorageId};
use crate::workload::{Event, Lifetime, Workload};

/// How a workload is driven.
#[derive(Clone, Copy, Debug)]
pub struct DriveOptions {
    /// Steps to replay, at least 1.
    pub steps: u32,
    /// Whether content exists, and whether it is checked.
    pub content: ContentMode,
    /// Changes the content, so that two runs do not share it.
    pub seed: u64,
    /// Which storages stay on the residency list between operations.
    pub residency: ResidencyPolicy,
    /// Whether the process registers for changes of its budget.
    pub hears_budget: bool,
    /// The path by which work reaches the engine; `None`: the latest stage that each adapter has.
    pub stage: Option<Stage>,
    /// Keep the work of each submission for the outcome.
    pub keeps_submissions: bool,
    /// Most bytes that dead storages may hold on an adapter while submitted work still uses them; `None`: as many as its process may have
    /// resident there.
    pub ahead_bytes: Option<u64>,
    /// So many bytes the CPU writes before each operation, which reads them: as programs set the constants of a draw. `None`: none. A
    /// multiple of 8.
    pub constant_bytes: Option<u64>,
    /// Operations whose times are recorded ([`Workload::op_ns`]) take these in virtual time, and not those of the device's cost model. In
    /// real time operations take what they take.
    pub recorded_times: bool,
    /// Storages support system memory beside video memory: the kernel may let operations read them there.
    pub in_place: bool,
}

/// Which storages stay on the residency list between operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResidencyPolicy {
    /// None: an operation's storages leave the list behind it, lazily. The kernel alone decides what goes.
    #[default]
    PerOperation,
    /// All used ones, until the kernel refuses or asks for them back (TrimResidency): as most drivers do.
    Kept,
}

/// Whether bytes are real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentMode {
    /// No content: operations touch memory.
    Timed,
    /// Operations write content and do not check what they read.
    Written,
    /// Operations write content and check what they read.
    Verified,
}

/// Receives the progress of a run.
pub trait Observer {
    /// `done` of `total` operations are submitted.
    fn progress(&mut self, done: u64, total: u64);
    /// A step is complete on the GPU; the kernel's clock says `now_ns`.
    fn step_done(&mut self, step: u32, now_ns: u64);
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Driven {
    /// Operations completed.
    pub ops: u64,
    /// Steps completed.
    pub steps: u32,
    /// Kernel time from the first operation to the end of the last.
    pub elapsed_ns: u64,
    /// Kernel time at the first operation.
    pub started_ns: u64,
    /// The first content mismatch.
    pub mismatch: Option<Mismatch>,
    /// The run was cut short by its caller.
    pub interrupted: bool,
    /// The state of a lost device, which cut the run short. Operations are those submitted until then.
    pub lost: Option<DeviceState>,
    /// The outcome on each adapter, in the order of adapters.
    pub sites: Vec<DrivenOn>,
}

/// Replays a workload through a link, on as many of its adapters as the operations name, in the order in which they are
/// enumerated; on the first if they name none. `cancel` ends it after the operation at hand.
///
/// # Errors
/// See [`DriveError`]: an operation that does not fit, a refused call, a lost device.
pub fn drive(
    workload: &Workload,
    link: Arc<dyn Link>,
    options: DriveOptions,
    observer: &mut dyn Observer,
    cancel: &AtomicBool,
) -> Result<Driven, DriveError> {
    let luids: Vec<_> = d3dkmt::enum_adapters(link.as_ref())?.into_iter().map(|(luid, _)| luid).collect();
    let wanted = workload.adapters_named().max(1) as usize;
    let Some(luids) = luids.get(..wanted) else {
        return Err(UmdError::Lacks("adapter of the number that an operation names").into());
    };
    let sites = luids.iter().map(|luid| Site::create(workload, &link, *luid, options));
    let mut driver = Driver {
        workload,
        sites: sites.collect::<Result<_, _>>()?,
        link,
        options,
        crossings: BTreeMap::new(),
        homes: homes(workload),
        content: Content::new(options),
        copies: Copies::default(),
        ops: 0,
    };
    driver.run(observer, cancel)
}

struct Driver<'a> {
    workload: &'a Workload,
    link: Arc<dyn Link>,
    options: DriveOptions,
    /// From which to which; they go before the devices that they belong to.
    crossings: BTreeMap<(usize, usize), Crossing>,
    sites: Vec<Site>,
    /// The adapter that each storage's first content comes to.
    homes: Vec<u32>,
    content: Content,
    copies: Copies,
    ops: u64,
}

/// How far a run has come.
#[derive(Default)]
struct Reached {
    steps: u32,
    interrupted: bool,
}

impl Driver<'_> {
    fn run(&mut self, observer: &mut dyn Observer, cancel: &AtomicBool) -> Result<Driven, DriveError> {
        let total = self.workload.ops() as u64 * u64::from(self.options.steps);
        let created = self.bring(0, |life| life != Lifetime::Unused);
        let started_ns = self.link.now_ns();
        let mut reached = Reached::default();
        let lost = match created.and_then(|()| self.operate(total, &mut reached, observer, cancel)) {
            // A run can end without an error although a device was lost: the kernel ends the waits for it.
            Ok(()) if !self.sites.iter().any(Site::is_lost) => None,
            ended => match self.sites.iter().find_map(Site::lost_state) {
                None => ended.map(|()| None)?,
                lost => lost,
            },
        };
        Ok(Driven {
            ops: self.ops,
            steps: reached.steps,
            elapsed_ns: self.link.now_ns() - started_ns,
            started_ns,
            mismatch: match lost {
                None => self.sites.iter().find_map(|site| site.report.read(self.workload)),
                Some(_) => None,
            },
            interrupted: reached.interrupted,
            lost,
            sites: self.sites.iter_mut().map(Site::driven).collect(),
        })
    }

    /// All operations, or those before the run is cut short.
    fn operate(
        &mut self,
        total: u64,
        reached: &mut Reached,
        observer: &mut dyn Observer,
        cancel: &AtomicBool,
    ) -> Result<(), DriveError> {
        let workload = self.workload;
        for event in workload.steps(self.options.steps) {
            if workload.begins_step(&event, reached.steps) {
                self.finish_step(reached.steps, observer)?;
                reached.steps += 1;
                self.bring(reached.steps, |life| life == Lifetime::Brought)?;
            }
            if cancel.load(Ordering::Relaxed) || self.sites.iter().any(|site| site.report.found()) {
                reached.interrupted = cancel.load(Ordering::Relaxed);
                break;
            }
            match event {
                StepEvent::Op { step, op_index, adapter, name, reads, writes } => {
                    let at = At { workload, step, op_index, name };
                    self.op(at, adapter as usize, &reads, &writes)?;
                    observer.progress(self.ops, total);
                }
                StepEvent::Death(storage) => {
                    self.sites.iter_mut().for_each(|site| site.drop_storage(storage));
                    self.copies.forget(storage);
                }
            }
        }
        self.finish()?;
        if self.ops == total && !self.sites.iter().any(Site::is_lost) {
            observer.step_done(reached.steps, self.link.now_ns());
            reached.steps += 1;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), DriveError> {
        self.sites.iter_mut().try_for_each(Site::finish)
    }

    fn finish_step(&mut self, step: u32, observer: &mut dyn Observer) -> Result<(), DriveError> {
        self.finish()?;
        observer.step_done(step, self.link.now_ns());
        Ok(())
    }

    /// The storages that are alive before a step, of these lifetimes: their content comes from the CPU, to the adapter that uses
    /// them first.
    fn bring(&mut self, step: u32, comes: impl Fn(Lifetime) -> bool) -> Result<(), DriveError> {
        let lives = self.workload.storages().iter().zip(self.workload.lifetimes());
        for (index, (storage, life)) in lives.enumerate() {
            if storage.persistent && comes(*life) {
                // CAST: a workload has fewer than 2^32 storages.
                let id = StorageId { step, storage: index as u32 };
                let home = self.homes[index] as usize;
                let Site { storages, gpu, .. } = &mut self.sites[home];
                let lock = storages.get_or_create(gpu, id)?.lock()?;
                self.content.write_by_cpu(id, &lock, storage.bytes);
                self.copies.written(id, home);
            }
        }
        Ok(())
    }

    fn op(&mut self, at: At<'_>, here: usize, reads: &[StorageId], writes: &[StorageId]) -> Result<(), DriveError> {
        while let Some(told) = self.link.take_notification() {
            self.sites.iter_mut().try_for_each(|site| site.hear(&told))?;
        }
        for id in reads {
            if let Some(from) = self.copies.source_for(*id, here) {
                self.cross(*id, from, here, at)?;
            }
        }
        let set = union(reads, writes);
        let site = &mut self.sites[here];
        let wait = site.make_resident(at, &set, writes)?;
        if let Some(ns) = self.workload.op_ns(at.op_index).filter(|_| self.options.recorded_times) {
            site.queues.lane_mut(site.compute).work(ns);
        }
        site.hand_constants(&self.content, self.ops)?;
        for id in reads {
            let surface = site.storages.get(*id);
            self.content.read(site.queues.lane_mut(site.compute), *id, surface, &site.report, self.ops);
        }
        for id in writes {
            let surface = site.storages.get(*id);
            self.content.write(site.queues.lane_mut(site.compute), *id, surface);
        }
        site.submit(wait, Order::default(), Submission { step: at.step, work: Work::Op(at.name) })?;
        site.evict(&set, writes)?;
        for id in writes {
            self.copies.written(*id, here);
            // Submitted work may still read an older copy: its memory goes behind that work.
            let others = self.sites.iter_mut().enumerate().filter(|(other, _)| *other != here);
            others.for_each(|(_, site)| site.drop_storage(*id));
        }
        self.ops += 1;
        Ok(())
    }

    /// Brings a storage's content from one adapter to another.
    fn cross(&mut self, id: StorageId, from: usize, to: usize, at: At<'_>) -> Result<(), DriveError> {
        // PANIC: the adapter that has the content is another than the one that lacks it.
        let [source, target] = self.sites.get_disjoint_mut([from, to]).expect("two adapters");
        let crossing = match self.crossings.entry((from, to)) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => new.insert(Crossing::create(source, target)?),
        };
        crossing.send(source, target, id, at)?;
        self.copies.arrived(id, to);
        Ok(())
    }
}

/// The adapter that uses each storage first; the first adapter for storages that no operation uses.
fn homes(workload: &Workload) -> Vec<u32> {
    let mut homes = vec![None; workload.storages().len()];
    for event in workload.events() {
        let Event::Op { adapter, reads, writes, .. } = event else { continue };
        for storage in reads.iter().chain(writes) {
            homes[*storage as usize].get_or_insert(adapter.unwrap_or(0));
        }
    }
    homes.into_iter().map(Option::unwrap_or_default).collect()
}

/// Both lists in one, ascending, each once.
fn union(reads: &[StorageId], writes: &[StorageId]) -> Vec<StorageId> {
    let mut set: Vec<StorageId> = reads.iter().chain(writes).copied().collect();
    set.sort_unstable();
    set.dedup();
    set
}
