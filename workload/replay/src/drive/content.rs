//! The content of storages: a function of (run, storage, generation, offset). A generation begins with each write.

use std::collections::BTreeMap;

use d3dkmt::Lock;
use softgpu_umd::{Commands, Gpu, Lane, Surface, SurfaceKind, pattern};
use wddm_types::GpuVa;

use crate::drive::error::DriveError;
use crate::drive::{ContentMode, DriveOptions};
use crate::steps::StorageId;
use crate::workload::Workload;

/// Bits of a check's tag for the storage; the operation has the bits above.
const STORAGE_BITS: u32 = 32;

/// Stands for an operation's constants where a check names a storage: a workload has fewer.
const CONSTANTS: u32 = u32::MAX;

/// A word that was not what it should have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The operation that read it: its number over all steps.
    pub op: u64,
    /// Index of the storage in the workload.
    pub storage: u32,
    /// Byte offset in the storage.
    pub offset: u64,
    /// The word found.
    pub found: u64,
    /// The word expected.
    pub expected: u64,
    /// Bytes of the storage, for people.
    pub storage_bytes: u64,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.storage == CONSTANTS {
            return write!(
                f,
                "operation {} read {:#018x} instead of {:#018x} at byte {} of its constants",
                self.op, self.found, self.expected, self.offset
            );
        }
        write!(
            f,
            "operation {} read {:#018x} instead of {:#018x} at byte {} of storage {} ({} bytes)",
            self.op, self.found, self.expected, self.offset, self.storage, self.storage_bytes
        )
    }
}

/// The generations of all storages that have content.
pub struct Content {
    mode: ContentMode,
    seed: u64,
    generations: BTreeMap<StorageId, u64>,
}

impl Content {
    /// Nothing has content yet.
    pub fn new(options: DriveOptions) -> Content {
        Content { mode: options.content, seed: options.seed, generations: BTreeMap::new() }
    }

    /// First content, from the CPU. Without content only the lock itself counts: the kernel takes the allocation as written.
    pub fn write_by_cpu(&mut self, id: StorageId, lock: &Lock, bytes: u64) {
        if self.mode != ContentMode::Timed {
            let seed = self.next_generation(id);
            lock.fill_words(0, bytes.div_ceil(8), |index| pattern::word(seed, index * 8));
        }
    }

    /// Commands of an operation that reads.
    pub fn read(&self, lane: &mut Lane, id: StorageId, surface: &Surface, report: &Report, op: u64) {
        match self.generations.get(&id) {
            Some(generation) if self.mode == ContentMode::Verified => {
                let tag = op << STORAGE_BITS | u64::from(id.storage);
                lane.check(surface, self.seed_of(id, *generation), &report.surface, tag);
            }
            // A storage that no operation has written has no content to compare with.
            _ => lane.touch(surface, false),
        }
    }

    /// Commands of an operation that writes.
    pub fn write(&mut self, lane: &mut Lane, id: StorageId, surface: &Surface) {
        if self.mode == ContentMode::Timed {
            lane.touch(surface, true);
            return;
        }
        let seed = self.next_generation(id);
        lane.pattern(surface, seed);
    }

    /// The constants of an operation, from the CPU.
    pub fn write_constants(&self, lock: &Lock, offset: u64, bytes: u64, op: u64) {
        if self.mode != ContentMode::Timed {
            let seed = self.constants_of(op);
            lock.fill_words(offset, bytes / 8, |index| pattern::word(seed, index * 8));
        }
    }

    /// Commands of the operation that reads them.
    pub fn read_constants(&self, commands: &mut Commands, va: GpuVa, bytes: u64, report: &Report, op: u64) {
        if self.mode == ContentMode::Verified {
            let tag = op << STORAGE_BITS | u64::from(CONSTANTS);
            commands.check(va, bytes, self.constants_of(op), report.surface.va(), tag);
        } else {
            commands.touch(va, bytes, false);
        }
    }

    fn constants_of(&self, op: u64) -> u64 {
        pattern::seed(self.seed << 40 ^ u64::from(CONSTANTS), op)
    }

    fn next_generation(&mut self, id: StorageId) -> u64 {
        let generation = self.generations.entry(id).or_default();
        *generation += 1;
        let generation = *generation;
        self.seed_of(id, generation)
    }

    fn seed_of(&self, id: StorageId, generation: u64) -> u64 {
        pattern::seed(self.seed << 40 ^ u64::from(id.step) << STORAGE_BITS | u64::from(id.storage), generation)
    }
}

/// The memory in which the GPU reports the first mismatch.
pub struct Report {
    lock: Lock,
    surface: Surface,
}

impl Report {
    /// An empty report.
    pub fn create(gpu: &Gpu) -> Result<Report, DriveError> {
        let surface = gpu.create_surface(SurfaceKind::System, pattern::report::WORDS * 8)?;
        gpu.pin(&surface)?;
        let lock = surface.lock()?;
        Ok(Report { lock, surface })
    }

    /// Whether a mismatch has been reported.
    pub fn found(&self) -> bool {
        self.lock.read_word(pattern::report::TAG * 8) != 0
    }

    /// The mismatch, once the GPU has finished.
    pub fn read(&self, workload: &Workload) -> Option<Mismatch> {
        let word = |index: u64| self.lock.read_word(index * 8);
        let tag = word(pattern::report::TAG).checked_sub(1)?;
        // CAST: the low half of the tag is the storage's index.
        let storage = tag as u32;
        Some(Mismatch {
            op: tag >> STORAGE_BITS,
            storage,
            offset: word(pattern::report::OFFSET),
            found: word(pattern::report::FOUND),
            expected: word(pattern::report::EXPECTED),
            storage_bytes: workload.storages().get(storage as usize).map_or(0, |storage| storage.bytes),
        })
    }
}
