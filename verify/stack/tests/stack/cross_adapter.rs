//! Fences of two adapters: an iGPU that waits or signals, a dGPU that does the other. Each cell of the tables of sync §3.12 is one
//! call of `cell`; the drivers are listened to.
//!
//! | scenario | iGPU | dGPU |
//! |---|---|---|
//! | 1 | native fences | native fences |
//! | 2a, 2b | monitored fences: it takes packets | native fences |

mod doorbells;
mod handovers;
mod kinds;
mod life;
mod scenarios;
mod sections;

use std::sync::Arc;

use d3dkmt::{
    Device, Fence, FenceFlags, HwContext, KernelQueue, MonitoredFenceSignal, NativeFenceRequest, NtHandle,
    OpenSyncObjectRequest, SyncObjectAccess, VirtualContext,
};
use dxgk_host::{AdapterSetup, Host, HostConfig, Mode, Pending, ProcessLink, Profile};
use events::Event;
use kmt_calls::{Call, SignalFlags, SyncCall, WaitFlags};
use softgpu_kmd::PeerMode;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig};
use wddm_types::{NodeId, ProcessId, RawHandle};

use crate::monitored::Buffer;
use crate::stubborn::{FenceStep, Shared, Whims, wrapped};
use stack::heard::Heard;
use stack::world::{MIB, gpu_on};

const NODE: NodeId = NodeId(0);
const CROSS: FenceFlags = FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING).union(FenceFlags::CROSS_ADAPTER);

/// A host with an adapter of each profile, in video memory of a few megabytes; what each driver is told about fences, and what the
/// kernel says of news.
struct World {
    host: Arc<Host>,
    told: Vec<Shared<FenceStep>>,
    news: Heard,
}

impl World {
    fn new(mode: Mode, profiles: &[&str]) -> World {
        World::with(mode, profiles, |_, _| ())
    }

    /// The same with drivers that do something otherwise.
    fn with(mode: Mode, profiles: &[&str], change: impl Fn(usize, &mut Whims)) -> World {
        World::build(mode, profiles, change, |_| PeerMode::None)
    }

    /// The same with doorbells from GPU to GPU.
    fn ringing(mode: Mode, profiles: &[&str], peers: impl Fn(usize) -> PeerMode) -> World {
        World::build(mode, profiles, |_, _| (), peers)
    }

    fn build(
        mode: Mode,
        profiles: &[&str],
        change: impl Fn(usize, &mut Whims),
        peers: impl Fn(usize) -> PeerMode,
    ) -> World {
        let news =
            Heard::of(|event| matches!(event, Event::CrossAdapterValueArrived { .. } | Event::FenceInterrupt { .. }));
        let told: Vec<Shared<FenceStep>> = profiles.iter().map(|_| Shared::default()).collect();
        let setup = |index: usize, name: &&str| {
            let mut profile = *Profile::named(name).expect("a built-in profile");
            profile.driver.peers = peers(index);
            let into = Arc::clone(&told[index]);
            let packets = ["packets", "atomics", "basic", "wddm1"].iter().any(|what| name.contains(what));
            let hear_fence = Box::new(move |step| into.lock().unwrap().push(step));
            let mut whims = Whims { hear_fence, packets, ..Whims::default() };
            change(index, &mut whims);
            AdapterSetup {
                vram_bytes: 4 * MIB,
                page_table_bytes: 16 * MIB,
                system_bytes: 64 * MIB,
                wrap_miniport: Some(wrapped(whims)),
                ..AdapterSetup::new(&profile, mode)
            }
        };
        let mut setups = profiles.iter().enumerate().map(|(index, name)| setup(index, name));
        let first = setups.next().expect("one at least");
        let config = HostConfig {
            vram_bytes: first.vram_bytes,
            page_table_bytes: first.page_table_bytes,
            system_bytes: first.system_bytes,
            wrap_miniport: first.wrap_miniport,
            tracer: Box::new(news.clone()),
            others: setups.collect(),
            ..HostConfig::new(&first.profile, mode)
        };
        World { host: Host::start(config).expect("the host starts"), told, news }
    }

    /// A process's device on an adapter.
    fn gpu(&self, adapter: usize) -> Gpu {
        gpu_on(&self.host, &ProcessLink::new(Arc::clone(&self.host)), adapter)
    }

    /// A driver's calls about CurrentValues and MonitoredValues since the last look.
    fn updates(&self, adapter: usize) -> Vec<FenceStep> {
        let steps = std::mem::take(&mut *self.told[adapter].lock().unwrap());
        steps.into_iter().filter(|step| matches!(step, FenceStep::Current(..) | FenceStep::Monitored(_))).collect()
    }

    fn drain(&self) {
        while self.host.step() {}
    }
}

fn native(device: &Device, flags: FenceFlags) -> Fence {
    let request = NativeFenceRequest { flags: CROSS | flags, ..NativeFenceRequest::default() };
    device.create_native_fence(request).expect("a cross-adapter fence")
}

fn named(fence: &Fence) -> NtHandle {
    fence.share(SyncObjectAccess::ALL_ACCESS).expect("a name")
}

fn by(name: &NtHandle) -> OpenSyncObjectRequest {
    OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() }
}

/// The fence of a name, by the call that an adapter has for it.
fn opened(gpu: &Gpu, name: &NtHandle) -> Fence {
    let opened = match gpu.has_user_queues() {
        true => gpu.device().open_native_fence(by(name)),
        false => gpu.device().open_sync_object(by(name)),
    };
    opened.expect("it opens")
}

/// The means of a wait or a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// An engine's own command, or a software packet of a context that has no such commands.
    Gpu,
    Cpu,
    /// A kernel-mode queue of an adapter with native fences.
    KernelQueue,
    /// A command of a context without native fences: the engine stores the value itself.
    Command,
}

/// One process on one adapter with the fence.
struct Side {
    work: Work,
    /// Signals when the work behind a wait of the GPU has gone on.
    done: Fence,
    fence: Fence,
    gpu: Gpu,
    process: ProcessId,
}

enum Work {
    /// A stream, and a queue that the kernel submits to; its context goes behind it.
    Queues {
        stream: Box<Stream>,
        kernel: Box<KernelQueue>,
        /// The stream signals this behind its waits: such a queue takes native fences.
        passed: Fence,
        _context: HwContext,
    },
    Packets(VirtualContext),
}

enum Waiting {
    Gpu,
    Cpu(Pending),
}

impl Side {
    /// A process of its own on an adapter, with `open` to get at the fence.
    fn new(world: &World, adapter: usize, open: impl FnOnce(&Gpu) -> Fence) -> Side {
        let link = ProcessLink::new(Arc::clone(&world.host));
        let gpu = gpu_on(&world.host, &link, adapter);
        let fence = open(&gpu);
        let done = gpu.device().create_monitored_fence(FenceFlags::empty(), 0).expect("a fence");
        let work = match gpu.has_user_queues() {
            true => {
                let stream = Stream::create(&gpu, NODE, StreamConfig::default()).expect("a stream");
                let context = gpu.device().create_context(NODE).expect("a context");
                let queue = context.create_kernel_queue().expect("a queue");
                let passed = gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
                Work::Queues { stream: Box::new(stream), kernel: Box::new(queue), passed, _context: context }
            }
            false => Work::Packets(VirtualContext::create(gpu.device(), NODE, Vec::new()).expect("a context")),
        };
        Side { work, done, fence, gpu, process: link.process() }
    }

    /// Begins a wait for a value; `has_gone_on` tells whether it is over.
    fn wait(&mut self, world: &World, how: By, value: u64) -> Waiting {
        match (how, &mut self.work) {
            (By::Cpu, _) => {
                let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
                    device: self.gpu.device().handle(),
                    points: vec![(self.fence.handle(), value)],
                    async_event: RawHandle::NONE,
                    flags: WaitFlags::empty(),
                });
                match world.host.begin_call(self.process, call) {
                    Err(pending) => return Waiting::Cpu(pending),
                    Ok(answer) => answer.expect("the value has come"),
                };
                self.gpu.device().signal(&self.done, value).unwrap();
            }
            (By::Gpu, Work::Queues { stream, passed, .. }) => {
                let mut commands = Commands::new();
                commands.wait(&self.fence, value).signal(&*passed, value);
                stream.submit(&self.gpu, &[], &commands).expect("a submission");
            }
            (By::KernelQueue, Work::Queues { kernel: queue, .. }) => {
                queue.submit_wait(&self.fence, value).unwrap();
                queue.submit_signal(&self.done, value).unwrap();
            }
            (By::Gpu, Work::Packets(context)) => {
                context.wait(&self.fence, value).unwrap();
                context.signal(&self.done, value).unwrap();
            }
            (By::KernelQueue | By::Command, _) => panic!("no test waits for a monitored fence like that"),
        }
        Waiting::Gpu
    }

    /// The value that the GPU has signalled behind its waits.
    fn done_value(&self) -> u64 {
        let by_stream = if let Work::Queues { passed, .. } = &self.work { passed.current() } else { 0 };
        self.done.current().max(by_stream)
    }

    fn has_gone_on(&self, world: &World, waiting: &mut Waiting, value: u64) -> bool {
        match waiting {
            Waiting::Gpu => self.done_value() == value,
            Waiting::Cpu(pending) => {
                let answer = world.host.take_answer(*pending);
                answer.is_some_and(|answer| answer.map(|_| *waiting = Waiting::Gpu).is_ok())
            }
        }
    }

    fn signal(&mut self, how: By, value: u64) {
        match (how, &mut self.work) {
            (By::Cpu, _) => self.gpu.device().signal(&self.fence, value).unwrap(),
            (By::Gpu, Work::Queues { stream, .. }) => {
                let mut commands = Commands::new();
                commands.signal(&self.fence, value);
                stream.submit(&self.gpu, &[], &commands).expect("a submission");
            }
            (By::KernelQueue, Work::Queues { kernel: queue, .. }) => {
                queue.submit_signals(&[], &[(&self.fence, value)], SignalFlags::empty()).unwrap();
            }
            (By::Gpu, Work::Packets(context)) => context.signal(&self.fence, value).unwrap(),
            (By::Command, Work::Packets(context)) => {
                let (node, va) = (NODE, self.fence.current_va());
                let mut commands = Commands::new();
                match self.gpu.monitored_fence_signal(node) {
                    MonitoredFenceSignal::Basic => commands.store(va, value),
                    _ => commands.signal_monitored(va, value),
                };
                Buffer::new(&self.gpu, &commands).run(context);
            }
            (By::KernelQueue | By::Command, _) => panic!("no test signals a monitored fence like that"),
        }
    }
}
