//! A process that behaves: whatever others do, its GPU work is done and its bytes are right. It stands above the hostile
//! ones, so that its memory stays where it is when it says nothing else.

use std::sync::Arc;

use dxgk_host::{Host, ProcessLink};
use kmt_calls::EvictFlags;
use kmt_link::Link;
use softgpu_spec::pattern;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind, UmdError};
use wddm_types::{NodeId, NtStatus, ProcessId};

use crate::dice::Dice;

const BYTES: u64 = 5 * 4096;
/// HIGH: in the foreground.
const CLASS: u32 = 4;

/// The process.
pub struct Witness {
    // Dropped in this order: what it uses goes after it.
    stream: Stream,
    local: Surface,
    staging: Surface,
    gpu: Gpu,
    process: ProcessId,
    /// What the local surface holds.
    seed: u64,
    written: bool,
    listed: bool,
    coherent: bool,
}

impl Witness {
    /// With everything that it will ever need.
    ///
    /// # Errors
    /// What was refused.
    pub fn new(host: &Arc<Host>) -> Result<Witness, UmdError> {
        let link = ProcessLink::new(Arc::clone(host));
        let process = link.process();
        host.set_process_priority(process, CLASS);
        let gpu = Gpu::open(link as Arc<dyn Link>)?;
        let stream = Stream::create(
            &gpu,
            NodeId(0),
            StreamConfig { ring_bytes: 4096, command_bytes: 4096, ..StreamConfig::default() },
        )?;
        let local = gpu.create_surface(SurfaceKind::Local, BYTES)?;
        let staging = gpu.create_surface(SurfaceKind::System, BYTES)?;
        gpu.pin(&local)?;
        gpu.pin(&staging)?;
        let coherent = gpu.adapter().info()?.io_coherent;
        Ok(Witness { stream, local, staging, gpu, process, seed: 1, written: false, listed: true, coherent })
    }

    /// Its number in the kernel.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// One round: what was written in the round before is still there, something new is written and read back. `moves`:
    /// its memory leaves the list and comes back in between.
    ///
    /// # Errors
    /// What is not as it must be.
    pub fn round(&mut self, dice: &mut Dice, moves: bool) -> Result<(), String> {
        if moves && dice.chance(40) {
            self.leave_and_return(dice)?;
        }
        if !self.listed {
            return Ok(());
        }
        if self.written {
            self.read_back()?;
        }
        self.seed += 1;
        let (seed, va) = (self.seed, self.local.va());
        self.work(|commands| {
            commands.pattern(va, BYTES, seed);
        })?;
        self.written = true;
        self.read_back()
    }

    fn work(&mut self, build: impl FnOnce(&mut Commands)) -> Result<(), String> {
        let mut commands = Commands::new();
        build(&mut commands);
        let value = self.stream.submit(&self.gpu, &[], &commands).map_err(|error| format!("a submission: {error}"))?;
        self.stream.wait(&self.gpu, value).map_err(|error| format!("its wait: {error}"))
    }

    fn read_back(&mut self) -> Result<(), String> {
        let (from, to, seed) = (self.local.va(), self.staging.va(), self.seed);
        self.work(|commands| {
            commands.copy(from, to, BYTES);
        })?;
        let lock = self.staging.lock().map_err(|error| format!("a lock: {error}"))?;
        if !self.coherent {
            self.staging.allocation().invalidate_cache(0, BYTES).map_err(|error| format!("its cache: {error}"))?;
        }
        for offset in (0..BYTES).step_by(8 * 37) {
            let (found, expected) = (lock.read_word(offset), pattern::word(seed, offset));
            if found != expected {
                return Err(format!("at {offset:#x} it reads {found:#x}, written was {expected:#x}"));
            }
        }
        Ok(())
    }

    fn leave_and_return(&mut self, dice: &mut Dice) -> Result<(), String> {
        let list = vec![self.local.allocation().handle()];
        if self.listed {
            let flags = if dice.chance(50) { EvictFlags::EVICT_ONLY_IF_NECESSARY } else { EvictFlags::empty() };
            let evicted = self.gpu.device().evict(list, flags);
            evicted.map_err(|error| format!("an evict: {error}"))?;
            self.listed = false;
            return Ok(());
        }
        match self.gpu.pin(&self.local) {
            Ok(()) => self.listed = true,
            // Others may have pinned what it needs; then it comes back later.
            Err(UmdError::Refused(refusal)) if refusal.status == NtStatus::NO_MEMORY => {}
            Err(error) => return Err(format!("its return: {error}")),
        }
        Ok(())
    }
}
