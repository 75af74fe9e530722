//! Performs what the kernel decides about locked allocations: their mappings are made, protected, shown elsewhere, ended
//! (memory §6.3). It decides nothing. Called by the host for each effect, under the machine's lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use device_port::DevicePort;
use dxgkrnl::MappingChange;
use kmt_calls::MappingId;
use kmt_link::{CpuMapping, PassTime, Piece};
use shared_words::{AddressRange, Memory};
use softgpu::SoftGpu;
use wddm_types::{CpuPlace, CpuRun, PAGE_BYTES, ProcessId};

use crate::cpu_cache::StaleCache;

/// How stores into locked memory wait while its content moves (memory §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoresWait {
    /// In the operating system, which holds whoever stores into a write-protected page (`userfaultfd`): locks have
    /// addresses of their own.
    InTheOperatingSystem,
    /// At a gate in each access: no pointer.
    AtTheGate,
}

impl StoresWait {
    /// What a host with memory files does on this computer; one without has the gate.
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

/// The views of all processes.
pub(crate) struct Views {
    system: Arc<Memory>,
    device: Arc<SoftGpu>,
    /// Only where the device does not snoop.
    cache: Option<Arc<StaleCache>>,
    /// Memory is made of files: views get addresses.
    files: bool,
    views: BTreeMap<MappingId, (ProcessId, Arc<CpuMapping>)>,
    /// How a writer in virtual time waits; set when there is a host to let time pass.
    pass_time: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Views {
    pub fn new(system: Arc<Memory>, device: Arc<SoftGpu>, cache: Option<Arc<StaleCache>>, files: bool) -> Views {
        // What the caches show is no file.
        let files = files && cache.is_none();
        Views { system, device, cache, files, views: BTreeMap::new(), pass_time: None }
    }

    /// Time is virtual: who waits lets it pass like this.
    pub fn pass_time_by(&mut self, pass: Arc<dyn Fn() -> bool + Send + Sync>) {
        self.pass_time = Some(pass);
    }

    /// A view of a process.
    pub fn of(&self, process: ProcessId, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        self.views.get(&mapping).filter(|(owner, _)| *owner == process).map(|(_, view)| Arc::clone(view))
    }

    /// Performs a change. True: the kernel waits to be told that it holds.
    pub fn change(&mut self, mapping: MappingId, change: MappingChange) -> bool {
        match change {
            MappingChange::Made { process, size_bytes, runs } => {
                let view = self.make(size_bytes, &runs);
                self.views.insert(mapping, (process, Arc::new(view)));
                false
            }
            MappingChange::Protected => {
                self.views[&mapping].1.protect();
                true
            }
            MappingChange::Shown(runs) => {
                self.views[&mapping].1.show(self.pieces(&runs));
                true
            }
            MappingChange::Gone => {
                if let Some((_, view)) = self.views.remove(&mapping) {
                    view.end();
                }
                false
            }
        }
    }

    fn make(&self, size_bytes: u64, runs: &[CpuRun]) -> CpuMapping {
        let pieces = self.pieces(runs);
        // Rows of a swizzled surface are smaller than pages, and only pages have addresses.
        let pages = pieces.iter().all(|piece| (piece.offset | piece.bytes).is_multiple_of(PAGE_BYTES));
        if self.files
            && pages
            && let Ok(range) = AddressRange::reserve(size_bytes)
            && range.show(pieces.iter().map(|piece| (&*piece.memory, piece.offset, piece.bytes))).is_ok()
        {
            return CpuMapping::at_addresses(size_bytes, range);
        }
        let pass_time = self.pass_time.clone().map(|pass| Box::new(move || pass()) as PassTime);
        CpuMapping::new(size_bytes, pieces, pass_time)
    }

    /// The memory behind runs, neighbours joined.
    fn pieces(&self, runs: &[CpuRun]) -> Vec<Piece> {
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
                        // PANIC: the driver said that the bus leads there, and the kernel had it set up.
                        let (offset, bytes) = self.device.cpu_window(bus).expect("a bus address that the CPU reaches");
                        let bytes = bytes.min(end - bus);
                        push(&mut pieces, self.device.local_memory(), offset, bytes);
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
