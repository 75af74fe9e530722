//! A queue of each stage, which has done work, and has work behind a wait that no signal ends.

use d3dkmt::{DestroyFlags, Fence, HwContext, KernelQueue, SignalFlags, VirtualContext};
use kmt_calls::{Call, PacketCall};
use softgpu_umd::{Commands, FenceName, Gpu, GpuWait, KernelFedStream, Stream, Surface, SurfaceKind, UmdError};
use wddm_types::NodeId;

use super::{BYTES, CONFIG};

/// What stays until the life ends.
pub struct Work {
    _user: Stream,
    _fed: [KernelFedStream; 2],
    _queues: [KernelQueue; 2],
    _context: HwContext,
    _signalled: Fence,
    /// The commands that write it wait for ever.
    used: Surface,
}

pub fn live(gpu: &Gpu, surface: &Surface, never: &Fence) -> Result<Work, UmdError> {
    let (node, mut commands) = (NodeId(0), Commands::new());
    commands.fill(surface.va(), 4096, 0x5a);
    let used = gpu.create_surface(SurfaceKind::LocalThenSystem, BYTES)?;
    gpu.pin(&used)?;
    let mut later = Commands::new();
    later.fill(used.va(), BYTES, 1);
    let mut user = Stream::create(gpu, node, CONFIG)?;
    let value = user.submit(gpu, &[], &commands)?;
    user.wait(gpu, value)?;
    user.wait_on_gpu(GpuWait { fence: FenceName::from(never), value: 1 })?;
    user.submit(gpu, &[], &later)?;
    let mut hardware = KernelFedStream::hardware(gpu, node, CONFIG)?;
    let mut packets = KernelFedStream::packets(gpu, node, CONFIG)?;
    for stream in [&mut hardware, &mut packets] {
        let value = stream.submit(gpu, None, &commands)?;
        stream.wait(gpu, value)?;
        stream.wait_on_gpu(gpu, never, 1)?;
        stream.submit(gpu, None, &later)?;
    }
    let context = packets.context().expect("it takes packets");
    of_context(gpu, context)?;
    let context = gpu.device().create_context(node)?;
    context.set_in_process_priority(1)?;
    let queues = [context.create_kernel_queue()?, context.create_kernel_queue()?];
    let signalled = gpu.device().create_native_fence(Default::default())?;
    // Of both queues the first waits: the signal of both does, too.
    queues[0].submit_wait(never, 1)?;
    queues[0].submit_signals(&[&queues[1]], &[(&signalled, 1)], SignalFlags::empty())?;
    let _queues = queues;
    Ok(Work { _user: user, _fed: [hardware, packets], _queues, _context: context, _signalled: signalled, used })
}

/// The calls of a packet context that are neither a submission nor a wait.
fn of_context(gpu: &Gpu, context: &VirtualContext) -> Result<(), UmdError> {
    context.set_priority(-1)?;
    context.set_in_process_priority(2)?;
    let link = gpu.device().link();
    let null = PacketCall::SubmitNull { context: context.handle(), written_primaries: Vec::new() };
    link.call(Call::Packet(null))?;
    let spare = VirtualContext::create(gpu.device(), NodeId(1), Vec::new())?;
    link.call(Call::Packet(PacketCall::SubmitNull { context: spare.handle(), written_primaries: Vec::new() }))?;
    Ok(())
}

impl Work {
    /// Destroys what queued commands use, and waits for its memory.
    pub fn destroy_what_is_used(&self) -> Result<(), UmdError> {
        Ok(self.used.allocation().destroy(DestroyFlags::SYNCHRONOUS_DESTROY)?)
    }
}
