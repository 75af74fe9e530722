//! Carries out the kernel's decisions about locked allocations: makes, protects, moves and ends their mappings (memory §6.3). This module
//! decides nothing. The host calls it for each effect, under the machine's lock. `remote_view` has the mappings of processes elsewhere.

mod mover;
mod remote_view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use device_port::DevicePort;
use dxgkrnl::{BusMemory, Heard, MappingChange, adapter_of_mapping};
use kmt_calls::MappingId;
use kmt_link::{CpuMapping, NoAddresses, PassTime, Piece};
use shared_words::{AddressRange, Memory};
use softgpu::SoftGpu;
use wddm_types::{AdapterIndex, CpuPlace, CpuRun, PAGE_BYTES, ProcessId};

use crate::arenas::ProcessArenas;
use crate::cpu_cache::StaleCache;
use crate::remote_process::RemoteProcess;
use mover::{Mover, Orders};
pub(crate) use remote_view::Moved;
use remote_view::{Outcome, RemoteView, files};

/// How stores into locked memory wait while its content moves (memory §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoresWait {
    /// The operating system blocks a thread that stores into a write-protected page (`userfaultfd`): locks have addresses of their own.
    InTheOperatingSystem,
    /// Each access passes a gate: a lock has no pointer.
    AtTheGate,
}

impl StoresWait {
    /// The way of a host with memory files on this computer; a host without them always has the gate.
    pub fn here() -> StoresWait {
        match AddressRange::reserve(PAGE_BYTES) {
            Ok(_) => StoresWait::InTheOperatingSystem,
            Err(_) => StoresWait::AtTheGate,
        }
    }
}

impl std::fmt::Display for StoresWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            StoresWait::InTheOperatingSystem => {
                "in the operating system (userfaultfd) over memory files, else at a gate"
            }
            StoresWait::AtTheGate => "at a gate",
        })
    }
}

/// The kernel's own way to the device's memory.
pub(crate) struct DeviceBus(pub Arc<SoftGpu>);

impl std::fmt::Debug for DeviceBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceBus")
    }
}

impl BusMemory for DeviceBus {
    // spec: memory §1.7
    fn word(&self, address: u64) -> Option<&AtomicU64> {
        let (offset, _) = self.0.cpu_window(address)?;
        Some(self.0.local_memory().word(offset))
    }
}

/// A process's view of a locked allocation.
enum View {
    Here(Arc<CpuMapping>),
    Remote(RemoteView),
    /// The process has unmapped it; the kernel still has changes for it.
    Ended,
}

/// A process that is not in this program.
struct Elsewhere {
    speaks: Arc<dyn RemoteProcess>,
    arenas: Arc<ProcessArenas>,
}

/// The views of all processes.
pub(crate) struct Views {
    system: Arc<Memory>,
    devices: Vec<Arc<SoftGpu>>,
    /// The CPU reads this page where no device answers, because a driver is wrong about its memory: ones, or its own earlier stores.
    unanswered: Arc<Memory>,
    /// Only where the device does not snoop.
    cache: Option<Arc<StaleCache>>,
    /// Memory is made of files: views get addresses.
    files: bool,
    views: BTreeMap<MappingId, (ProcessId, View)>,
    /// Each process that is not in this program.
    elsewhere: BTreeMap<ProcessId, Elsewhere>,
    /// Lends processes elsewhere the pages of the devices' memory that they see.
    mover: Mover,
    /// How a writer in virtual time waits; set when there is a host to let time pass.
    pass_time: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Views {
    pub fn new(system: Arc<Memory>, devices: Vec<Arc<SoftGpu>>, cache: Option<Arc<StaleCache>>, files: bool) -> Views {
        // The played caches show memory that lies in no file.
        let files = files && cache.is_none();
        // PANIC: a host without addresses for one page cannot run.
        let unanswered = Memory::reserve(PAGE_BYTES).expect("a page of addresses");
        unanswered.fill(0, PAGE_BYTES, u32::MAX);
        Views {
            system,
            devices,
            unanswered,
            cache,
            files,
            views: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            mover: Mover::AtOnce,
            pass_time: None,
        }
    }

    /// Time is virtual: a blocked store lets it pass by this function.
    pub fn pass_time_by(&mut self, pass: Arc<dyn Fn() -> bool + Send + Sync>) {
        self.pass_time = Some(pass);
    }

    /// From now on a thread lends: it carries these orders out, and reports the outcome of each.
    pub fn lend_by_thread(&mut self) -> Orders {
        let (mover, orders) = Mover::thread();
        self.mover = mover;
        orders
    }

    /// A view of a process.
    pub fn of(&self, process: ProcessId, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        match self.views.get(&mapping) {
            Some((owner, View::Here(view))) if *owner == process => Some(Arc::clone(view)),
            _ => None,
        }
    }

    /// A process is not in this program.
    pub fn process_elsewhere(
        &mut self,
        process: ProcessId,
        speaks: Arc<dyn RemoteProcess>,
        arenas: Arc<ProcessArenas>,
    ) {
        self.elsewhere.insert(process, Elsewhere { speaks, arenas });
    }

    /// The speaker of a process.
    pub fn elsewhere(&self, process: ProcessId) -> Option<&Arc<dyn RemoteProcess>> {
        self.elsewhere.get(&process).map(|elsewhere| &elsewhere.speaks)
    }

    /// The speakers of all processes that are not in this program.
    pub fn all_elsewhere(&self) -> impl Iterator<Item = &Arc<dyn RemoteProcess>> {
        self.elsewhere.values().map(|elsewhere| &elsewhere.speaks)
    }

    /// A process has gone, and its views before it: forgets its speaker.
    pub fn process_gone(&mut self, process: ProcessId) {
        self.elsewhere.remove(&process);
    }

    /// This process has answered for the oldest change of a mapping: returns its number. `None`: no answer was due.
    pub fn hear(&mut self, process: ProcessId, mapping: MappingId) -> Option<u64> {
        match self.views.get_mut(&mapping) {
            Some((owner, View::Remote(remote))) if *owner == process => remote.hear(),
            _ => None,
        }
    }

    /// Performs the change of this number. Returns what the kernel must hear, up to which change. `None`: [`Views::moved`] or the process
    /// reports the change later.
    pub fn change(&mut self, mapping: MappingId, number: u64, change: MappingChange) -> Option<(u64, Heard)> {
        match change {
            MappingChange::Made { process, size_bytes, runs } => {
                let view = match self.elsewhere.get(&process) {
                    None => View::Here(Arc::new(self.make(adapter_of_mapping(mapping), size_bytes, &runs))),
                    Some(Elsewhere { speaks, arenas }) => {
                        View::Remote(RemoteView::new(Arc::clone(speaks), Arc::clone(arenas), size_bytes))
                    }
                };
                let shows = !runs.is_empty() && matches!(view, View::Remote(_));
                self.views.insert(mapping, (process, view));
                if shows {
                    // The kernel does not wait for the first content of a mapping.
                    self.show(mapping, number, &runs);
                }
                None
            }
            MappingChange::Protected => match &mut self.views.get_mut(&mapping).expect("it was made").1 {
                View::Here(view) => {
                    view.protect();
                    Some((number, Heard::Seen))
                }
                View::Remote(remote) => remote.protect(mapping, number),
                View::Ended => Some((number, Heard::Seen)),
            },
            MappingChange::Shown(runs) => self.show(mapping, number, &runs),
            MappingChange::Passed(runs) => self.pass(mapping, number, &runs),
            MappingChange::Gone => {
                match self.views.remove(&mapping) {
                    Some((_, View::Here(view))) => view.end(),
                    Some((_, View::Remote(remote))) => {
                        // The kernel may give the pages to another process at once: no order may still move them.
                        self.mover.finish();
                        remote.end(mapping);
                    }
                    Some((_, View::Ended)) | None => {}
                }
                None
            }
            MappingChange::Unmapped => match &mut self.views.get_mut(&mapping).expect("it was made").1 {
                View::Remote(remote) => remote.close(mapping, number),
                View::Ended => Some((number, Heard::Seen)),
                here @ View::Here(_) => {
                    if let View::Here(view) = std::mem::replace(here, View::Ended) {
                        view.end();
                    }
                    Some((number, Heard::Seen))
                }
            },
            MappingChange::Left => match self.views.get_mut(&mapping) {
                Some((_, View::Remote(remote))) => {
                    let order = remote.leave(mapping, number);
                    self.mover.give(order).and_then(|moved| self.moved(moved))
                }
                _ => {
                    self.views.remove(&mapping);
                    Some((number, Heard::Seen))
                }
            },
        }
    }

    /// Pages were lent, or taken back. Returns what the kernel must hear, up to which change.
    pub fn moved(&mut self, moved: Moved) -> Option<(u64, Heard)> {
        let Moved { mapping, number, outcome } = moved;
        // The kernel does not wait for a mapping that is gone meanwhile.
        let Some((_, View::Remote(remote))) = self.views.get_mut(&mapping) else { return None };
        match outcome {
            Outcome::Shows(shows, old) => Some(remote.tell(mapping, number, shows, old)),
            Outcome::Passed(old) => Some(remote.passed(number, old)),
            Outcome::Left(kept) => {
                if let Err(reason) = kept {
                    remote.process.lost(&reason);
                }
                self.views.remove(&mapping);
                Some((number, Heard::Seen))
            }
        }
    }

    fn show(&mut self, mapping: MappingId, number: u64, runs: &[CpuRun]) -> Option<(u64, Heard)> {
        let pieces = self.pieces(adapter_of_mapping(mapping), runs);
        match &mut self.views.get_mut(&mapping).expect("it was made").1 {
            View::Here(view) => {
                view.show(pieces);
                Some((number, Heard::Seen))
            }
            View::Remote(remote) => match remote.show(mapping, number, pieces.clone(), &self.system) {
                Some(order) => self.mover.give(order).and_then(|moved| self.moved(moved)),
                None => {
                    let shows = files(&pieces, &remote.arenas);
                    Some(remote.tell(mapping, number, shows, Vec::new()))
                }
            },
            View::Ended => Some((number, Heard::Seen)),
        }
    }

    /// Shows content at a place through which it passes: another change follows when it has reached the place where it stays.
    fn pass(&mut self, mapping: MappingId, number: u64, runs: &[CpuRun]) -> Option<(u64, Heard)> {
        let pieces = self.pieces(adapter_of_mapping(mapping), runs);
        match &mut self.views.get_mut(&mapping).expect("it was made").1 {
            View::Here(view) => {
                view.show(pieces);
                // A store may have got through between the two calls: it went to the content's present place.
                view.protect();
                Some((number, Heard::Seen))
            }
            View::Remote(remote) => match remote.pass(mapping, number, &pieces, &self.system) {
                Some(order) => self.mover.give(order).and_then(|moved| self.moved(moved)),
                None => Some(remote.passed(number, Vec::new())),
            },
            View::Ended => Some((number, Heard::Seen)),
        }
    }

    fn make(&self, adapter: AdapterIndex, size_bytes: u64, runs: &[CpuRun]) -> CpuMapping {
        let pieces = self.pieces(adapter, runs);
        // Rows of a swizzled surface are smaller than pages, and only pages have addresses.
        let pages = pieces.iter().all(|piece| (piece.offset | piece.bytes).is_multiple_of(PAGE_BYTES));
        let parts = || pieces.iter().map(|piece| (&*piece.memory, piece.offset, piece.bytes));
        let range = match (self.files, pages) {
            (false, _) if self.cache.is_some() => Err(NoAddresses::SoftwareCaches),
            (false, _) => Err(NoAddresses::NoFiles),
            (true, false) => Err(NoAddresses::RowsBelowPages),
            (true, true) => AddressRange::reserve(size_bytes)
                .and_then(|range| {
                    // The kernel shows an empty view some pieces before its process can look.
                    if !pieces.is_empty() {
                        range.show(parts())?;
                    }
                    Ok(range)
                })
                .map_err(|error| NoAddresses::System(error.to_string())),
        };
        match range {
            Ok(range) => CpuMapping::at_addresses(size_bytes, range),
            Err(why) => {
                let pass_time = self.pass_time.clone().map(|pass| Box::new(move || pass()) as PassTime);
                CpuMapping::new(size_bytes, pieces, pass_time, why)
            }
        }
    }

    /// The memory behind runs, neighbours joined.
    fn pieces(&self, adapter: AdapterIndex, runs: &[CpuRun]) -> Vec<Piece> {
        let device = &self.devices[adapter.0 as usize];
        let mut pieces: Vec<Piece> = Vec::new();
        for run in runs {
            match run.place {
                CpuPlace::System => push(&mut pieces, &self.system, run.run.first * PAGE_BYTES, run.run.count.bytes()),
                CpuPlace::CachedSystem => {
                    let cache = self.cache.as_ref().expect("the kernel knows of caches that this host has");
                    cache.prefetch(&[run.run]);
                    push(&mut pieces, cache.view(), run.run.first * PAGE_BYTES, run.run.count.bytes());
                }
                CpuPlace::Bar | CpuPlace::HostAperture => {
                    let (mut bus, end) = (run.run.first * PAGE_BYTES, run.run.end() * PAGE_BYTES);
                    while bus < end {
                        let local = device.cpu_window(bus).map(|seen| (device.local_memory(), seen));
                        let seen = local.or_else(|| device.cpu_aperture(bus).map(|seen| (&self.system, seen)));
                        let unanswered = (&self.unanswered, (0, PAGE_BYTES - bus % PAGE_BYTES));
                        let (memory, (offset, bytes)) = seen.unwrap_or(unanswered);
                        let bytes = bytes.min(end - bus);
                        push(&mut pieces, memory, offset, bytes);
                        bus += bytes;
                    }
                }
            }
        }
        pieces
    }
}

fn push(pieces: &mut Vec<Piece>, memory: &Arc<Memory>, offset: u64, bytes: u64) {
    match pieces.last_mut() {
        Some(last) if Arc::ptr_eq(&last.memory, memory) && last.offset + last.bytes == offset => last.bytes += bytes,
        _ => pieces.push(Piece { memory: Arc::clone(memory), offset, bytes }),
    }
}

#[cfg(test)]
impl Views {
    /// Orders memory to be taken back that was never lent: the thread that carries this out panics if the memory lends no content.
    pub fn order_to_take_back(&mut self, memory: &Arc<Memory>) {
        assert!(self.mover.give(remote_view::Order::to_take_back(memory)).is_none(), "a thread lends");
    }

    /// Whether the thread has taken every order.
    pub fn orders_are_begun(&self) -> bool {
        self.mover.has_begun()
    }

    /// Waits as the end of a mapping does.
    pub fn wait_for_orders(&self) {
        self.mover.finish();
    }
}

#[cfg(test)]
mod tests;
