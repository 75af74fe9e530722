//! A driver of WDDM 2 with an engine that has GPU virtual addresses and one that has none: patching is decided for each
//! context, and lists say nothing of residency.

use std::sync::{Arc, Mutex};

use d3dkmt::{Context, DeviceState, EvictFlags, MakeResidentFlags, ResidencyStatus, VirtualContext};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use events::Event;
use softgpu_umd::{Commands, KernelFedStream, ListedCommands, StreamConfig, SurfaceKind};
use wddm_types::{NodeId, NtStatus};

use super::{COPY, Packets, word};
use crate::stubborn::{PacketStep, Whims, wrapped};
use stack::world::{MIB, VIRTUAL};

const COMPUTE: NodeId = NodeId(0);

/// The lengths of the lists that came to the driver with Render, and with Patch.
#[derive(Clone, Default)]
struct Lists {
    rendered: Arc<Mutex<Vec<usize>>>,
    patched: Arc<Mutex<Vec<usize>>>,
}

fn mixed(mode: Mode, lists: &Lists) -> (Arc<Host>, Packets) {
    let packets = Packets::default();
    let (rendered, patched) = (Arc::clone(&lists.rendered), Arc::clone(&lists.patched));
    let whims = Whims {
        packets: true,
        render: Box::new(move |driver, context, render| {
            rendered.lock().expect("a test").push(render.allocation_list.len());
            driver.render(context, render)
        }),
        hand_over: Box::new(move |step: PacketStep| {
            // A paging buffer has none.
            if step.patch && !step.flags.contains(ddi::SubmitFlags::PAGING) {
                patched.lock().expect("a test").push(step.listed);
            }
        }),
        ..Whims::default()
    };
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(packets.clone()),
        wrap_miniport: Some(wrapped(whims)),
        ..HostConfig::new(Profile::named("mixed-engines").expect("a built-in profile"), mode)
    };
    (Host::start(config).expect("the host starts"), packets)
}

/// A process of that adapter: its device, and an allocation by physical address on the list.
struct Client {
    gpu: softgpu_umd::Gpu,
}

impl Client {
    fn new(host: &Arc<Host>) -> Client {
        let link = dxgk_host::ProcessLink::new(Arc::clone(host));
        Client { gpu: softgpu_umd::Gpu::open(link as Arc<dyn kmt_link::Link>).expect("the adapter opens") }
    }

    fn allocation(&self, kind: SurfaceKind, bytes: u64) -> Arc<d3dkmt::Allocation> {
        let request = softgpu_spec::private_data::AllocationRequest {
            kind,
            cpu_visible: kind != SurfaceKind::Local,
            cached: false,
            accessed_physically: true,
            size_bytes: bytes,
        };
        self.gpu.device().create_allocation(request.encode().to_vec()).expect("an allocation")
    }

    fn listed(&self, kind: SurfaceKind, bytes: u64) -> Arc<d3dkmt::Allocation> {
        let allocation = self.allocation(kind, bytes);
        self.gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).expect("room");
        allocation
    }

    fn drain(&self, context: &Context) {
        let done = self.gpu.device().create_monitored_fence(Default::default(), 0).expect("a fence");
        context.signal(&done, 1).expect("a signal");
        self.gpu.device().wait(&[(&done, 1)]).expect("it completes");
    }
}

/// One device, both engines: one copies by list the content that the other has written by address.
#[test]
fn patching_is_decided_for_each_engine_of_one_driver() {
    // spec: memory §5.6, memory §7.1, memory §7.4
    // seed: R13, R21, R24
    for mode in [VIRTUAL, Mode::Real] {
        let lists = Lists::default();
        let (host, packets) = mixed(mode, &lists);
        let client = Client::new(&host);
        let device = client.gpu.device();
        let refused = VirtualContext::create(device, COPY, Vec::new()).err().expect("an engine without addresses");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER);
        assert!(refused.reason.contains("no GPU virtual addresses"), "{refused}");
        // Row 1: both lists, of full size. They serve patching, so a context that has addresses has none.
        let context = Context::create(device, COPY, Vec::new()).expect("a context that is patched");
        let sizes = context.sizes();
        assert_eq!((sizes.allocation_list_entries, sizes.patch_location_list_entries), (256, 256));
        VirtualContext::create(device, COMPUTE, Vec::new()).expect("an engine with addresses");
        let mut stream = KernelFedStream::packets(&client.gpu, COMPUTE, StreamConfig::default()).expect("a stream");
        let source = client.gpu.create_lockable_surface(SurfaceKind::System, 4096, false).expect("a surface");
        client.gpu.pin(&source).expect("room");
        let mut commands = Commands::new();
        commands.fill(source.va(), 4096, 6);
        let value = stream.submit(&client.gpu, None, &commands).expect("by address");
        device.wait(&[(stream.progress(), value)]).expect("it completes");
        assert_eq!(source.lock().expect("a lock").read_word(0), 6 << 32 | 6);
        let rendered = lists.rendered.lock().unwrap().len();
        assert_eq!(rendered, 0, "its driver is not asked to translate that");
        let (from, local, to) = (
            client.listed(SurfaceKind::System, 4096),
            client.listed(SurfaceKind::Local, 4096),
            client.listed(SurfaceKind::System, 4096),
        );
        from.lock().expect("a lock").write_words(0, &[21, 22]);
        let mut commands = ListedCommands::new();
        commands.copy((&from, 0), (&local, 0), 4096).copy((&local, 0), (&to, 0), 4096);
        commands.render(&context).expect("by list");
        client.drain(&context);
        assert_eq!([0, 8].map(|at| word(&to, at)), [21, 22], "{mode:?}");
        // Element 0 is NULL; the lists came to Render, and the driver patched nothing again, for nothing had moved.
        let rendered = lists.rendered.lock().unwrap().clone();
        assert_eq!(rendered, [4], "{mode:?}");
        let made = packets.count(|e| matches!(e, Event::DmaBufferCreated { segment: 0, .. }));
        assert!(made >= 1, "{mode:?}: contiguous, as the device says");
        host.check_invariants().expect("in order");
    }
}

/// A list of that engine brings nothing in, keeps nothing, and names nothing that the device's list does not.
#[test]
fn lists_of_an_engine_without_addresses_control_no_residency() {
    // spec: memory §5.1, memory §5.6, memory §5.8
    // seed: R10, R13, R14
    for mode in [VIRTUAL, Mode::Real] {
        let (host, _) = mixed(mode, &Lists::default());
        let client = Client::new(&host);
        let device = client.gpu.device();
        let context = Context::create(device, COPY, Vec::new()).expect("a context");
        let target = client.listed(SurfaceKind::Local, 4096);
        let mut commands = ListedCommands::new();
        commands.fill((&target, 0), 4096, 1);
        for _ in 0..3 {
            commands.render(&context).expect("a buffer");
        }
        client.drain(&context);
        // Three buffers named it: one Evict ends its residency all the same.
        device.evict(vec![target.handle()], EvictFlags::empty()).expect("counted once");
        assert_eq!(target.residency(), Ok(ResidencyStatus::NotResident), "{mode:?}");
        let innocent = Client::new(&host);
        let theirs = Context::create(innocent.gpu.device(), COPY, Vec::new()).expect("a context");
        let kept = innocent.listed(SurfaceKind::System, 4096);
        let refused = commands.render(&context).expect_err("it is not resident");
        assert_eq!(refused.status, NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE, "{refused}");
        assert_eq!(device.state(), Ok(DeviceState::ErrorDmaFault), "{mode:?}: the device is lost");
        let mut commands = ListedCommands::new();
        commands.fill((&kept, 0), 4096, 5).render(&theirs).expect("another device's");
        innocent.drain(&theirs);
        assert_eq!(word(&kept, 0), 5 << 32 | 5, "{mode:?}: the other device goes on");
        host.check_invariants().expect("in order");
    }
}

/// The kernel patches a buffer again, with its whole list, when its content moves between queueing and scheduling.
#[test]
fn buffers_of_that_engine_are_patched_again_when_content_moves() {
    // spec: memory §7.4
    // seed: R02, R13
    let lists = Lists::default();
    let (host, packets) = mixed(VIRTUAL, &lists);
    let client = Client::new(&host);
    let device = client.gpu.device();
    let context = Context::create(device, COPY, Vec::new()).expect("a context");
    let request = softgpu_spec::private_data::AllocationRequest {
        kind: SurfaceKind::LocalThenSystem,
        cpu_visible: true,
        // Cached content leaves local memory for a lock.
        cached: true,
        accessed_physically: true,
        size_bytes: 4096,
    };
    let source = device.create_allocation(request.encode().to_vec()).expect("an allocation");
    client.gpu.paging().make_resident(vec![source.handle()], MakeResidentFlags::empty()).expect("room");
    let target = client.listed(SurfaceKind::System, 4096);
    let mut commands = ListedCommands::new();
    commands.fill((&source, 0), 4096, 3).render(&context).expect("a buffer");
    client.drain(&context);
    let go = device.create_monitored_fence(Default::default(), 0).expect("a fence");
    context.wait(&go, 1).expect("a wait");
    let mut commands = ListedCommands::new();
    commands.copy((&source, 0), (&target, 0), 4096).render(&context).expect("a buffer");
    source.lock().expect("it moves").write_words(8, &[77]);
    device.signal(&go, 1).expect("the GPU goes on");
    client.drain(&context);
    assert_eq!([0, 8].map(|at| word(&target, at)), [3 << 32 | 3, 77]);
    assert_eq!(packets.patched(), [false, true]);
    let patched = lists.patched.lock().unwrap().clone();
    assert_eq!(patched, [3 + 2], "three entries and two places");
}
