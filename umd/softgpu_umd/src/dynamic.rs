//! A resource that the CPU writes while the GPU still uses the content before: several instances under one name. The
//! kernel does not know of them; since WDDM 2 the user-mode driver alone knows what the GPU still uses, so it alone can
//! wait or rename (memory §6.1). It decides nothing about residency: its instances stay on the device's list.
//!
//! | map | action |
//! |---|---|
//! | NO_OVERWRITE | nothing: the current instance |
//! | DISCARD | the current instance if it is idle; else an idle one; else a new one; else the one that is idle soonest |
//! | READ | flush; the last write has to be over |
//! | WRITE, READ_WRITE | flush; the last read and the last write have to be over |
//!
//! Where the hardware does not keep the CPU's caches coherent, this module also maintains them (memory §6.7): before the CPU
//! reads what the GPU wrote, and when an unmap ends the CPU's writes.
//!
//! A map waits for the uses that have to be over in one blocking call on the contexts' progress fences, or returns
//! WasStillDrawing. An instance stays mapped from its first map on, for its whole life (memory §6.3). The fences are native ones or
//! monitored ones, as the contexts have them.
//!
//! At the kernel's TrimResidency callback it destroys unused instances (memory §5.4).

use std::sync::Arc;

use d3dkmt::{Lock, MakeResidentFlags, Notification, NotificationKind, Registration, Residency, TrimFlags};
use softgpu_spec::private_data::Kind;
use wddm_types::{GpuVa, NtStatus};

use crate::contexts::{ContextId, Contexts, Uses};
use crate::gpu::{Gpu, Surface, UmdError};
use crate::map::{MapError, MapKind};

/// The choices of renaming.
#[derive(Clone, Copy, Debug)]
pub struct RenamePolicy {
    /// Most instances of one resource; from there on DISCARD waits.
    pub instances_max: usize,
    /// The CPU's caches hold its memory: for what the CPU reads. Such memory is never local while it is mapped.
    pub cached: bool,
}

impl Default for RenamePolicy {
    fn default() -> Self {
        RenamePolicy { instances_max: 8, cached: false }
    }
}

/// A resource with a rename list.
pub struct DynamicResource {
    /// The current instance is at `current`.
    instances: Vec<Instance>,
    current: usize,
    /// Outstanding maps, the last one last.
    maps: Vec<Map>,
    /// This driver maintains the caches: the memory is cached, and no hardware keeps them coherent.
    maintains: bool,
    next_id: u64,
    kind: Kind,
    bytes: u64,
    policy: RenamePolicy,
    /// While it lives the kernel sends the process TrimResidency notifications.
    registration: Registration,
    done: Renamed,
}

/// Counts of the maps of a resource, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renamed {
    /// Maps that were answered.
    pub maps: u64,
    /// Those that threw the content away and found it in another instance.
    pub renames: u64,
    /// Those that returned WasStillDrawing.
    pub still_drawing: u64,
    /// Those that waited for the GPU.
    pub waits: u64,
    /// Bytes given back because the kernel asked.
    pub trimmed_bytes: u64,
}

/// An outstanding map.
#[derive(Clone, Copy)]
struct Map {
    /// The id of the instance.
    id: u64,
    writes: bool,
}

struct Instance {
    id: u64,
    /// The GPU writes it, or has written it since the CPU's lines were invalidated.
    old_lines: bool,
    // The lock goes before the surface.
    lock: Option<Arc<Lock>>,
    surface: Surface,
    /// Paging-fence value from which the GPU reaches it.
    reachable_at: u64,
    uses: Uses,
}

impl DynamicResource {
    /// Creates one instance and puts it on the device's residency list. This call does not wait for it to be resident: a submission
    /// that uses it waits on the GPU.
    ///
    /// # Errors
    /// When memory is short, or the kind can only be where the CPU does not reach.
    pub fn create(gpu: &Gpu, kind: Kind, bytes: u64, policy: RenamePolicy) -> Result<DynamicResource, UmdError> {
        if !gpu.has_addresses() {
            return Err(UmdError::Lacks("GPU virtual addresses, by which commands find a renamed resource"));
        }
        // Mandatory: a driver that keeps memory on the device's list hears when the kernel asks for it.
        // spec: memory §5.4
        let registration = gpu.device().register_trim()?;
        let first = Instance::create(gpu, kind, bytes, policy, 0)?;
        let maintains = policy.cached && !gpu.is_io_coherent();
        Ok(DynamicResource {
            instances: vec![first],
            current: 0,
            maps: Vec::new(),
            maintains,
            next_id: 1,
            kind,
            bytes,
            policy,
            registration,
            done: Renamed::default(),
        })
    }

    /// Where commands that are recorded now find it.
    pub fn va(&self) -> GpuVa {
        self.instances[self.current].surface.va()
    }

    /// Bytes of it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts of the maps so far, by outcome.
    pub fn done(&self) -> Renamed {
        self.done
    }

    /// How many instances there are.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// The commands of a context that read it: the address for them, and the use noted.
    pub fn record_read(&mut self, contexts: &mut Contexts, context: ContextId) -> GpuVa {
        let instance = &mut self.instances[self.current];
        contexts.note_read(&mut instance.uses, context, instance.reachable_at);
        instance.surface.va()
    }

    /// The commands of a context that write it: the address for them, and the use noted.
    pub fn record_write(&mut self, contexts: &mut Contexts, context: ContextId) -> GpuVa {
        let instance = &mut self.instances[self.current];
        contexts.note_write(&mut instance.uses, context, instance.reachable_at);
        instance.old_lines = true;
        instance.surface.va()
    }

    /// Maps it for the CPU. The bytes are valid until the matching unmap; maps may nest.
    ///
    /// # Errors
    /// `WasStillDrawing` with `do_not_wait`; else what the kernel refuses. Nothing is mapped then.
    // spec: memory §6.1, memory §6.4
    pub fn map(
        &mut self,
        gpu: &Gpu,
        contexts: &mut Contexts,
        kind: MapKind,
        do_not_wait: bool,
    ) -> Result<Arc<Lock>, MapError> {
        let found = match kind {
            MapKind::WriteNoOverwrite => Ok(self.current),
            MapKind::WriteDiscard => self.renamed(gpu, contexts, do_not_wait),
            MapKind::Read => self.finished(gpu, contexts, self.current, false, do_not_wait),
            MapKind::Write | MapKind::ReadWrite => self.finished(gpu, contexts, self.current, true, do_not_wait),
        };
        self.done.still_drawing += u64::from(matches!(found, Err(MapError::WasStillDrawing)));
        let at = found?;
        let instance = &mut self.instances[at];
        let lock = match &instance.lock {
            Some(lock) => Arc::clone(lock),
            None => Arc::clone(instance.lock.insert(Arc::new(instance.surface.lock()?))),
        };
        // spec: memory §6.7: the GPU has written, the CPU is about to look
        if self.maintains && instance.old_lines {
            // With no-overwrite it may still be writing. A write that ends while the call is under way counts as running: the CPU may have
            // fetched lines before it.
            let still_writes = !contexts.reached(&instance.uses.points(false));
            instance.surface.allocation().invalidate_cache(0, self.bytes).map_err(UmdError::from)?;
            instance.old_lines = still_writes;
        }
        self.maps.push(Map { id: instance.id, writes: kind != MapKind::Read });
        self.done.maps += 1;
        self.done.renames += u64::from(at != self.current);
        self.current = at;
        Ok(lock)
    }

    /// Ends the last map; when it returns the GPU sees what the CPU wrote.
    ///
    /// # Errors
    /// `InvalidArgument`: it is not mapped.
    // spec: memory §6.4, memory §6.7
    pub fn unmap(&mut self) -> Result<(), MapError> {
        let map = self.maps.pop().ok_or(MapError::InvalidArgument)?;
        if self.maintains && map.writes {
            let instance = self.instances.iter().find(|instance| instance.id == map.id).expect("what is mapped stays");
            instance.surface.allocation().invalidate_cache(0, self.bytes).map_err(UmdError::from)?;
        }
        Ok(())
    }

    /// Trims idle instances if the notification is a TrimResidency of this resource's registration.
    // spec: memory §5.4, memory §6.4
    pub fn hear(&mut self, contexts: &Contexts, told: &Notification) {
        let NotificationKind::Trim { flags, .. } = told.kind else { return };
        if told.registration == self.registration.handle()
            && flags.intersects(TrimFlags::TRIM_TO_BUDGET | TrimFlags::PERIODIC_TRIM)
        {
            self.done.trimmed_bytes += self.trim(contexts);
        }
    }

    /// Destroys the idle instances except the current one, because the kernel asks for memory; returns their bytes.
    // spec: memory §6.4
    pub fn trim(&mut self, contexts: &Contexts) -> u64 {
        let (before, current) = (self.instances.len(), self.instances[self.current].id);
        let maps = &self.maps;
        self.instances.retain(|instance| instance.id == current || !instance.is_idle(contexts, maps));
        let kept = self.instances.iter().position(|instance| instance.id == current);
        self.current = kept.expect("the current instance stays");
        (before - self.instances.len()) as u64 * self.bytes
    }

    /// The instance whose content may be thrown away now.
    fn renamed(&mut self, gpu: &Gpu, contexts: &mut Contexts, do_not_wait: bool) -> Result<usize, MapError> {
        let idle = |instance: &Instance| instance.is_idle(contexts, &self.maps);
        if idle(&self.instances[self.current]) {
            return Ok(self.current);
        }
        if let Some(at) = self.instances.iter().position(idle) {
            return Ok(at);
        }
        if self.instances.len() < self.policy.instances_max {
            match Instance::create(gpu, self.kind, self.bytes, self.policy, self.next_id) {
                Ok(fresh) => {
                    self.next_id += 1;
                    self.instances.push(fresh);
                    return Ok(self.instances.len() - 1);
                }
                // No memory for one more instance: the map waits for an existing one, as when there are `instances_max`.
                Err(UmdError::Refused(refusal)) if lacks_memory(refusal.status) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // An instance that was given up earlier is idle earlier.
        let unmapped = |at: &usize| !is_mapped(&self.maps, self.instances[*at].id);
        let last_use = |at: &usize| self.instances[*at].uses.points(true).into_iter().map(|(_, value)| value).max();
        let soonest = (0..self.instances.len()).filter(unmapped).min_by_key(last_use).unwrap_or(self.current);
        self.finished(gpu, contexts, soonest, true, do_not_wait)
    }

    /// An instance whose writes are over, and if asked for its reads.
    fn finished(
        &mut self,
        gpu: &Gpu,
        contexts: &mut Contexts,
        at: usize,
        reads_too: bool,
        do_not_wait: bool,
    ) -> Result<usize, MapError> {
        let uses = &self.instances[at].uses;
        let needed = uses.points(reads_too);
        let reached = contexts.reached(&needed);
        contexts.flush_uses(gpu, &uses.points(true))?;
        if reached {
            return Ok(at);
        }
        if do_not_wait {
            return Err(MapError::WasStillDrawing);
        }
        contexts.wait(gpu, &needed)?;
        self.done.waits += 1;
        Ok(at)
    }
}

impl Instance {
    fn create(gpu: &Gpu, kind: Kind, bytes: u64, policy: RenamePolicy, id: u64) -> Result<Instance, UmdError> {
        let surface = gpu.create_lockable_surface(kind, bytes, policy.cached)?;
        let list = vec![surface.allocation().handle()];
        let reachable_at = match gpu.paging().make_resident(list, MakeResidentFlags::empty()).map_err(UmdError::from)? {
            Residency::Resident => surface.mapped_at(),
            Residency::Pending { paging_fence_value, .. } => paging_fence_value.max(surface.mapped_at()),
        };
        Ok(Instance { id, old_lines: false, lock: None, surface, reachable_at, uses: Uses::default() })
    }

    /// Whether the GPU is past all its uses and the CPU has it not mapped.
    fn is_idle(&self, contexts: &Contexts, maps: &[Map]) -> bool {
        !is_mapped(maps, self.id) && contexts.reached(&self.uses.points(true))
    }
}

fn is_mapped(maps: &[Map], instance: u64) -> bool {
    maps.iter().any(|map| map.id == instance)
}

/// Whether a creation was refused because there is no memory: none at all, or none until other allocations are destroyed.
// spec: memory §9.2
fn lacks_memory(status: NtStatus) -> bool {
    matches!(status, NtStatus::NO_MEMORY | NtStatus::GRAPHICS_NO_VIDEO_MEMORY)
}
