//! The devices that the kernel quiesces while page tables change, and for how long.

use d3dkmt::{Device, VirtualContext};
use kmt_calls::{Call, ContextFlags, DeviceCall, PacketCall, QueueCall, QueueFlags, Reply};
use kmt_link::Link;
use softgpu_umd::Commands;
use wddm_types::RawHandle;

use super::*;

const COMPUTE: NodeId = NodeId(0);
const COPY: NodeId = NodeId(1);

/// A client on hardware that wants idle address spaces: a reservation, memory to map there, and a packet that runs for long.
struct Bench {
    host: Arc<Host>,
    log: Log,
    client: Client,
    context: VirtualContext,
    /// The commands of packets.
    buffer: Surface,
    local: Surface,
    busy: Surface,
    out: Surface,
}

impl Bench {
    fn new() -> Bench {
        let (host, log) = traced(VIRTUAL, |driver| KmdConfig { idle_spaces: true, ..driver });
        let mut client = client(&host);
        let context = VirtualContext::create(client.gpu.device(), COMPUTE, Vec::new()).expect("a context");
        let local = client.pinned(SurfaceKind::Local, 4 * CHUNK);
        let [busy, buffer, out] =
            [4 * MIB, 2 * PAGE_BYTES, PAGE_BYTES].map(|bytes| client.pinned(SurfaceKind::System, bytes));
        let reservation = GpuVaReservation { base: BASE, size_bytes: COVERAGE, ..GpuVaReservation::default() };
        client.gpu.device().reserve_gpu_va(reservation).expect("room");
        // The process has resumed when these commands have run.
        let out_va = out.va();
        client.run(|commands| {
            commands.fill(out_va, PAGE_BYTES, 0);
        });
        log.take();
        Bench { host, log, client, context, buffer, local, busy, out }
    }

    /// Puts commands where a packet runs them; answers with their address and bytes.
    fn commands(&self, at: u64, commands: &Commands) -> (GpuVa, u32) {
        self.buffer.lock().expect("system memory").write_words(at, commands.words());
        (self.buffer.va().offset(at), commands.words().len() as u32 * 8)
    }

    /// Starts a command that takes long, and that no preemption ends early.
    fn keep_busy(&self) {
        let mut commands = Commands::new();
        commands.touch(self.busy.va(), 4 * MIB, true);
        let (va, bytes) = self.commands(0, &commands);
        self.context.submit(va, bytes, Vec::new()).expect("a submission");
        // A call takes its time, in which the engine begins.
        self.client.gpu.device().state().expect("a device");
    }

    /// Asks for a change of the page tables and waits for nothing.
    fn begin_map(&self, at: u64) -> u64 {
        let mapping = GpuVaMapping {
            base: BASE.offset(at),
            size_in_pages: 16,
            protection: GpuVaProtection::WRITE,
            ..GpuVaMapping::default()
        };
        self.client.gpu.paging().map_gpu_va(Some(self.local.allocation()), mapping).expect("reserved").1
    }

    fn has_reached(&self, value: u64) -> bool {
        self.client.gpu.paging().fence().current() >= value
    }

    /// Everything that happens by itself.
    fn settle(&self) -> Vec<Step> {
        while self.host.step() {}
        self.log.take()
    }
}

/// Whether the driver was asked to change something.
fn changes(step: &Step) -> bool {
    matches!(step, Step::Leaf { .. } | Step::Link { .. } | Step::Flush { .. })
}

#[test]
fn nothing_changes_before_what_runs_has_stopped() {
    // spec: memory §4.2, bit 5, memory §8.6
    let bench = Bench::new();
    bench.keep_busy();
    let value = bench.begin_map(0);
    let steps = bench.log.take();
    assert_eq!(steps, [Step::Still(Stillness::Hardware), Step::Suspended], "asked to stop, and waited for");
    let steps = bench.settle();
    assert!(bench.has_reached(value) && steps.iter().any(changes), "{steps:?}");
    assert_eq!(steps.last(), Some(&Step::Resumed), "{steps:?}");
    assert_eq!(bench.busy.lock().unwrap().read_word(0), 1, "the running command has run once");
}

#[test]
fn a_process_goes_on_when_nothing_needs_it_still_any_more() {
    // spec: memory §4.2, bit 5
    let bench = Bench::new();
    bench.keep_busy();
    let values = [0, CHUNK].map(|at| bench.begin_map(at));
    let steps = bench.settle();
    assert!(values.iter().all(|value| bench.has_reached(*value)));
    let order: Vec<&Step> = steps.iter().filter(|step| !changes(step)).collect();
    let still = Step::Still(Stillness::Hardware);
    assert_eq!(order, [&still, &Step::Suspended, &still, &Step::Done, &Step::Done, &Step::Resumed], "once for both");
}

/// A device's handle before the kernel returns it: the same calls have the same handles.
fn next_device() -> RawHandle {
    let bench = Bench::new();
    bench.keep_busy();
    bench.begin_map(0);
    Device::create(bench.client.gpu.adapter()).expect("another device").handle()
}

#[test]
fn a_device_that_comes_meanwhile_is_quiesced_too() {
    // spec: memory §4.2, bit 5, memory §8.6
    let device = next_device();
    for packets in [true, false] {
        let bench = Bench::new();
        let mut commands = Commands::new();
        commands.fill(bench.out.va(), 8, 1);
        let (va, command_bytes) = bench.commands(PAGE_BYTES, &commands);
        bench.keep_busy();
        let value = bench.begin_map(0);
        let call = |call| bench.client.link.call(call);
        let create = Call::Device(DeviceCall::CreateDevice { adapter: bench.client.gpu.adapter().handle() });
        let pending = bench.host.begin_call(bench.client.link.process(), create);
        assert!(pending.is_err(), "it is told when the ring has got past all this; its process uses it at once");
        if packets {
            let (node, flags, private_data) = (COPY, ContextFlags::empty(), Vec::new());
            let create = PacketCall::CreateContextVirtual { device, node, engine_affinity: 1, flags, private_data };
            let Ok(Reply::Handle(context)) = call(Call::Packet(create)) else { panic!("a context") };
            let written_primaries = Vec::new();
            let submit = PacketCall::SubmitCommand {
                context,
                commands: va,
                command_bytes,
                written_primaries,
                private_data: Vec::new(),
            };
            call(Call::Packet(submit)).expect("it is kept");
        } else {
            let create = QueueCall::CreateHwContext { device, node: COPY, private_data: Vec::new() };
            let Ok(Reply::Handle(context)) = call(Call::Queue(create)) else { panic!("a context") };
            let create = QueueCall::CreateHwQueue { context, flags: QueueFlags::empty(), private_data: Vec::new() };
            let Ok(Reply::HwQueue(created)) = call(Call::Queue(create)) else { panic!("a queue") };
            let submit = QueueCall::SubmitCommandToHwQueue {
                queue: created.queue,
                progress_value: 1,
                buffer: va,
                buffer_bytes: command_bytes,
                written_primaries: Vec::new(),
                private_data: Vec::new(),
            };
            call(Call::Queue(submit)).expect("it is kept");
        }
        assert!(!bench.has_reached(value), "packets {packets}: it comes in between");
        let lock = bench.out.lock().unwrap();
        while lock.read_word(0) == 0 {
            assert!(bench.host.step(), "packets {packets}: it goes on with the others");
        }
        assert!(bench.has_reached(value), "packets {packets}: not before");
    }
}
