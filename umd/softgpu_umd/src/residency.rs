//! A driver's residency list between submissions, and how the driver gives memory back: the bytes for
//! MakeResident's retries and the three trims (memory §5.2, §5.4). It places nothing and knows no content; the caller says which
//! surfaces a submission uses.
//!
//! The idea: a used surface stays resident until the kernel needs the room, because the next submission most often uses it
//! again. Each entry remembers the progress value of its last use, so the list in order of these values is the order in
//! which to give back. When the kernel refuses, the list evicts the bytes that the kernel names and calls again. When nothing is
//! left to evict, queued work may still use what it evicted: it waits for that work, then tells the kernel that there is nothing
//! more (CantTrimFurther), and at last that the device cannot go on otherwise (MustSucceed).

use std::collections::{BTreeMap, BTreeSet};

use d3dkmt::{EvictFlags, Notification, NotificationKind, Registration, Residency, TrimFlags};
use wddm_types::RawHandle;

use crate::gpu::{Gpu, Surface, UmdError};
use crate::lane::Lane;
use crate::retry::make_resident;

/// The residency list of one device as its driver keeps it.
pub struct ResidencyList {
    entries: BTreeMap<RawHandle, Entry>,
    /// By last use, oldest first.
    order: BTreeSet<(u64, RawHandle)>,
    /// Progress value at the last periodic trim.
    last_periodic: u64,
    registration: Registration,
    /// Bytes given back because the kernel asked.
    trimmed_bytes: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    last_use: u64,
    bytes: u64,
    /// The GPU may have written it since it was made resident.
    written: bool,
}

/// How a list came to be resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeResident {
    /// Paging-fence value that the GPU waits for; `None`: resident now.
    pub wait_for: Option<u64>,
}

impl ResidencyList {
    /// An empty list that hears the kernel's trims.
    ///
    /// # Errors
    /// When the device is in error.
    pub fn create(gpu: &Gpu) -> Result<ResidencyList, UmdError> {
        let registration = gpu.device().register_trim()?;
        Ok(ResidencyList {
            entries: BTreeMap::new(),
            order: BTreeSet::new(),
            last_periodic: 0,
            registration,
            trimmed_bytes: 0,
        })
    }

    /// Makes the surfaces of the lane's next submission resident; each comes with whether the submission writes it. A surface
    /// that is already on the list costs nothing.
    ///
    /// # Errors
    /// `NO_MEMORY` when it does not fit even alone.
    // spec: memory §5.2
    pub fn use_surfaces(
        &mut self,
        gpu: &Gpu,
        lane: &mut Lane,
        surfaces: &[(&Surface, bool)],
    ) -> Result<MadeResident, UmdError> {
        let value = lane.last_value() + 1;
        let handle = |surface: &Surface| surface.allocation().handle();
        let wanted: BTreeSet<RawHandle> = surfaces.iter().map(|(surface, _)| handle(surface)).collect();
        let missing: Vec<RawHandle> =
            wanted.iter().copied().filter(|handle| !self.entries.contains_key(handle)).collect();
        let mut wait_for = surfaces.iter().map(|(surface, _)| surface.mapped_at()).max().filter(|value| *value > 0);
        if !missing.is_empty()
            && let Some(value) = self.make_resident(gpu, lane, &missing, &wanted)?
        {
            wait_for = Some(wait_for.unwrap_or(0).max(value));
        }
        for (surface, written) in surfaces {
            let known = self.entries.get(&handle(surface)).copied();
            let before = known.is_some_and(|entry| entry.written);
            if let Some(entry) = known {
                self.order.remove(&(entry.last_use, handle(surface)));
            }
            let entry = Entry { last_use: value, bytes: surface.bytes(), written: before || *written };
            self.entries.insert(handle(surface), entry);
            self.order.insert((value, handle(surface)));
        }
        Ok(MadeResident { wait_for })
    }

    /// A surface is about to be destroyed: it leaves the list with it.
    pub fn forget(&mut self, surface: &Surface) {
        let handle = surface.allocation().handle();
        if let Some(entry) = self.entries.remove(&handle) {
            self.order.remove(&(entry.last_use, handle));
        }
    }

    /// Carries out the trims that the kernel has asked for since the last call. `completed`: the progress value that the GPU has reached.
    ///
    /// # Errors
    /// When the device is lost.
    // spec: memory §5.4
    pub fn honour_trims(&mut self, gpu: &Gpu, completed: u64) -> Result<(), UmdError> {
        while let Some(told) = gpu.device().link().take_notification() {
            self.honour_trim(gpu, completed, &told)?;
        }
        Ok(())
    }

    /// Carries out one notification if it is for this list's registration: for processes with several lists.
    ///
    /// # Errors
    /// When the device is lost.
    // spec: memory §5.4
    pub fn honour_trim(&mut self, gpu: &Gpu, completed: u64, told: &Notification) -> Result<(), UmdError> {
        let NotificationKind::Trim { flags, bytes_to_trim } = told.kind else { return Ok(()) };
        if told.registration != self.registration.handle() {
            return Ok(());
        }
        if flags.contains(TrimFlags::PERIODIC_TRIM) {
            let unused: Vec<RawHandle> = self
                .order
                .iter()
                .take_while(|(last_use, _)| *last_use <= self.last_periodic)
                .map(|(_, handle)| *handle)
                .collect();
            self.evict(gpu, &unused)?;
        }
        if flags.intersects(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM) {
            self.last_periodic = completed;
        }
        if flags.contains(TrimFlags::TRIM_TO_BUDGET) {
            self.trim(gpu, bytes_to_trim, &BTreeSet::new())?;
        }
        Ok(())
    }

    /// Surfaces on the list.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes given back so far because the kernel asked or refused.
    pub fn trimmed_bytes(&self) -> u64 {
        self.trimmed_bytes
    }

    fn make_resident(
        &mut self,
        gpu: &Gpu,
        lane: &mut Lane,
        missing: &[RawHandle],
        wanted: &BTreeSet<RawHandle>,
    ) -> Result<Option<u64>, UmdError> {
        let made = make_resident(gpu, lane, missing, |bytes| self.trim(gpu, bytes, wanted))?;
        Ok(match made {
            Residency::Resident => None,
            Residency::Pending { paging_fence_value, .. } => Some(paging_fence_value),
        })
    }

    /// Evicts the longest unused surfaces, at least so many bytes if there are; returns the bytes.
    fn trim(&mut self, gpu: &Gpu, bytes: u64, keep: &BTreeSet<RawHandle>) -> Result<u64, UmdError> {
        let mut given = 0;
        let mut victims = Vec::new();
        for (_, handle) in self.order.iter().filter(|(_, handle)| !keep.contains(handle)) {
            if given >= bytes {
                break;
            }
            given += self.entries[handle].bytes;
            victims.push(*handle);
        }
        self.evict(gpu, &victims)?;
        Ok(given)
    }

    fn evict(&mut self, gpu: &Gpu, victims: &[RawHandle]) -> Result<(), UmdError> {
        let (written, clean): (Vec<RawHandle>, Vec<RawHandle>) =
            victims.iter().copied().partition(|handle| self.entries[handle].written);
        let lazily = EvictFlags::EVICT_ONLY_IF_NECESSARY;
        let lists = [(written, lazily), (clean, lazily | EvictFlags::NOT_WRITTEN_TO)];
        gpu.device().evict_lists(lists.into_iter().filter(|(list, _)| !list.is_empty()).collect())?;
        for handle in victims {
            let entry = self.entries.remove(handle).expect("it was on the list");
            self.order.remove(&(entry.last_use, *handle));
            self.trimmed_bytes += entry.bytes;
        }
        Ok(())
    }
}
