//! A process that behaves: whatever others do, its GPU work is done and its bytes are right. It stands above the hostile
//! ones, so that its memory stays where it is when it says nothing else.

use std::sync::Arc;

use d3dkmt::{Context, Fence, FenceFlags};
use dxgk_host::{Host, ProcessLink};
use kmt_calls::EvictFlags;
use kmt_link::Link;
use softgpu_spec::pattern;
use softgpu_umd::{
    Commands, Gpu, KernelFedStream, ListedCommands, Stream, StreamConfig, Surface, SurfaceKind, UmdError,
};
use wddm_types::{NodeId, NtStatus, ProcessId};

use crate::dice::Dice;

const BYTES: u64 = 5 * 4096;
/// HIGH: in the foreground.
const CLASS: u32 = 4;

/// How its work gets to an engine.
enum Lane {
    /// Through a ring of its own, with GPU virtual addresses.
    Ring(Box<Stream>),
    /// Through the kernel, packet by packet, with GPU virtual addresses.
    Addressed(Box<KernelFedStream>),
    /// Through the kernel, packet by packet, with lists.
    Packets { context: Context, done: Box<Fence>, value: u64 },
}

/// The process.
pub struct Witness {
    // Dropped in this order: what it uses goes after it.
    lane: Lane,
    local: Surface,
    staging: Surface,
    gpu: Gpu,
    process: ProcessId,
    /// The seed of the local surface's content.
    seed: u64,
    written: bool,
    listed: bool,
    coherent: bool,
}

impl Witness {
    /// With everything that it will ever need.
    ///
    /// # Errors
    /// The refused call.
    pub fn new(host: &Arc<Host>) -> Result<Witness, UmdError> {
        let link = ProcessLink::new(Arc::clone(host));
        let process = link.process();
        host.set_process_priority(process, CLASS);
        let gpu = Gpu::open(link as Arc<dyn Link>)?;
        let sizes = StreamConfig { ring_bytes: 4096, command_bytes: 4096, ..StreamConfig::default() };
        let lane = if gpu.has_addresses() && !gpu.has_user_queues() {
            Lane::Addressed(Box::new(KernelFedStream::packets(&gpu, NodeId(0), sizes)?))
        } else if gpu.has_addresses() {
            Lane::Ring(Box::new(Stream::create(&gpu, NodeId(0), sizes)?))
        } else {
            let context = Context::create(gpu.device(), NodeId(0), Vec::new())?;
            let done = Box::new(gpu.device().create_monitored_fence(FenceFlags::NO_GPU_ACCESS, 0)?);
            Lane::Packets { context, done, value: 0 }
        };
        let local = gpu.create_surface(SurfaceKind::Local, BYTES)?;
        let staging = gpu.create_surface(SurfaceKind::System, BYTES)?;
        gpu.pin(&local)?;
        gpu.pin(&staging)?;
        let coherent = gpu.adapter().info()?.io_coherent;
        Ok(Witness { lane, local, staging, gpu, process, seed: 1, written: false, listed: true, coherent })
    }

    /// Its number in the kernel.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// One round: what was written in the round before is still there, something new is written and read back. `moves`:
    /// its memory leaves the list and comes back in between.
    ///
    /// # Errors
    /// The rule that did not hold.
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
        let seed = self.seed;
        self.work(
            |commands, local, _| {
                commands.pattern(local.va(), BYTES, seed);
            },
            |commands, local, _| {
                commands.pattern(local.allocation(), BYTES, seed);
            },
        )?;
        self.written = true;
        self.read_back()
    }

    /// Does the same work in either way, and waits for it.
    fn work(
        &mut self,
        with_addresses: impl FnOnce(&mut Commands, &Surface, &Surface),
        with_lists: impl FnOnce(&mut ListedCommands, &Surface, &Surface),
    ) -> Result<(), String> {
        match &mut self.lane {
            Lane::Ring(stream) => {
                let mut commands = Commands::new();
                with_addresses(&mut commands, &self.local, &self.staging);
                let submitted = stream.submit(&self.gpu, &[], &commands);
                let value = submitted.map_err(|error| format!("a submission: {error}"))?;
                stream.wait(&self.gpu, value).map_err(|error| format!("its wait: {error}"))
            }
            Lane::Addressed(stream) => {
                let mut commands = Commands::new();
                with_addresses(&mut commands, &self.local, &self.staging);
                let submitted = stream.submit(&self.gpu, None, &commands);
                let value = submitted.map_err(|error| format!("a submission: {error}"))?;
                stream.wait(&self.gpu, value).map_err(|error| format!("its wait: {error}"))
            }
            Lane::Packets { context, done, value } => {
                let mut commands = ListedCommands::new();
                with_lists(&mut commands, &self.local, &self.staging);
                commands.render(context).map_err(|error| format!("a buffer: {error}"))?;
                *value += 1;
                context.signal(done, *value).map_err(|error| format!("its signal: {error}"))?;
                self.gpu.device().wait(&[(done, *value)]).map_err(|error| format!("its wait: {error}"))
            }
        }
    }

    fn read_back(&mut self) -> Result<(), String> {
        let seed = self.seed;
        self.work(
            |commands, from, to| {
                commands.copy(from.va(), to.va(), BYTES);
            },
            |commands, from, to| {
                commands.copy((from.allocation(), 0), (to.allocation(), 0), BYTES);
            },
        )?;
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
