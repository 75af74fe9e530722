//! The first generation on the whole stack: lists are residency, and a buffer that names more than fits runs in portions.

mod answers;

use std::sync::Arc;

use d3dkmt::{AllocationListFlags, AllocationListItem, Context, DeviceState, FenceFlags, MakeResidentFlags};
use dxgk_host::{Host, Mode, ProcessLink};
use events::{Event, Move};
use kmt_link::Link;
use softgpu_spec::Command;
use softgpu_umd::{Gpu, ListedCommands, PatchedStream, Surface, SurfaceKind};
use wddm_types::{NodeId, NtStatus};

use stack::heard::{Heard, heard_on};
use stack::world::{MIB, VIRTUAL};

const COMPUTE: NodeId = NodeId(0);

fn host(mode: Mode) -> (Arc<Host>, Heard) {
    heard_on("wddm1-banks", mode, 4 * MIB, |event| {
        matches!(
            event,
            Event::PacketSplit { .. }
                | Event::PortionStarted { .. }
                | Event::Moved { .. }
                | Event::PacketCompleted { .. }
        )
    })
}

fn open(host: &Arc<Host>) -> Gpu {
    Gpu::open(ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>).expect("the adapter opens")
}

fn surfaces(gpu: &Gpu, count: u64, bytes: u64) -> Vec<Surface> {
    (0..count).map(|_| gpu.create_surface(SurfaceKind::Local, bytes).expect("a surface")).collect()
}

fn moved(events: &[Event], wanted: Move) -> u64 {
    let bytes = |event: &Event| match event {
        Event::Moved { how, bytes, .. } if *how == wanted => *bytes,
        _ => 0,
    };
    events.iter().map(bytes).sum()
}

/// One buffer names twice as much as there is: no residency list has any of it, and the test checks every byte.
#[test]
fn a_buffer_that_names_more_than_fits_runs_in_portions() {
    // spec: memory §6.1, memory §7.3, memory §7.4, memory §8.1
    // seed: R01, R03
    for mode in [VIRTUAL, Mode::Real] {
        let (host, heard) = host(mode);
        let gpu = open(&host);
        let mut stream = PatchedStream::create(&gpu, COMPUTE).unwrap();
        let surfaces = surfaces(&gpu, 8, MIB);
        let report = gpu.create_surface(SurfaceKind::System, 4096).unwrap();
        for (seed, surface) in (1..).zip(&surfaces) {
            stream.pattern(surface, seed);
        }
        for (seed, surface) in (1..).zip(&surfaces) {
            stream.check(surface, seed, &report, seed);
        }
        assert_eq!(stream.parts(), 1, "one buffer");
        let value = stream.submit(&gpu).unwrap();
        stream.wait(&gpu, value).unwrap();
        assert_eq!(report.lock().unwrap().read_word(0), 0, "{mode:?}: content was lost");
        let events = heard.take();
        let ranges: Vec<(u32, u32)> = events
            .iter()
            .filter_map(|event| match event {
                Event::PortionStarted { start_offset, end_offset, .. } => Some((*start_offset, *end_offset)),
                _ => None,
            })
            .collect();
        // A pattern has four words, a check six: four of a kind to a portion, because four surfaces fit.
        assert_eq!(ranges, [(0, 128), (128, 256), (256, 448), (448, 640)], "{mode:?}");
        assert!(events.iter().any(|event| matches!(event, Event::PacketSplit { portions: 4, .. })));
        let done = events.iter().filter(|event| matches!(event, Event::PacketCompleted { .. })).count();
        assert_eq!(done, 1, "the packet is done with its last portion");
        // A list has one write flag for the whole buffer: so content that the last portion only reads counts as written when it leaves.
        let hows = [Move::Fill, Move::PageOut, Move::PageIn, Move::Discard];
        assert_eq!(hows.map(|how| moved(&events, how) / MIB), [8, 12, 8, 0], "{mode:?}");
        for (seed, surface) in (1..).zip(&surfaces) {
            stream.check(surface, seed, &report, seed);
        }
        let value = stream.submit(&gpu).unwrap();
        stream.wait(&gpu, value).unwrap();
        assert_eq!(report.lock().unwrap().read_word(0), 0, "{mode:?}: content was lost");
        // The first four come for the others, which were written; then those go uncopied, because they were only read.
        let events = heard.take();
        assert_eq!(hows.map(|how| moved(&events, how) / MIB), [0, 4, 8, 4], "{mode:?}");
    }
}

/// Two processes and two engines, each with more than all memory, one after the other and at once.
#[test]
fn processes_share_memory_by_their_lists() {
    // spec: memory §6.1, memory §8.2
    for mode in [VIRTUAL, Mode::Real] {
        let (host, _) = host(mode);
        let clients = [NodeId(0), NodeId(1)].map(|node| {
            let gpu = open(&host);
            let stream = PatchedStream::create(&gpu, node).unwrap();
            let (surfaces, report) = (surfaces(&gpu, 6, MIB), gpu.create_surface(SurfaceKind::System, 4096).unwrap());
            (stream, surfaces, report, gpu)
        });
        let mut clients = clients;
        for round in 0..6u64 {
            for (stream, surfaces, report, gpu) in &mut clients {
                for (index, surface) in (0..).zip(surfaces.iter()) {
                    if round > 0 {
                        stream.check(surface, round * 8 + index - 8, report, index + 1);
                    }
                    stream.pattern(surface, round * 8 + index);
                }
                stream.submit(gpu).expect("a submission");
            }
        }
        for (stream, _, report, gpu) in &mut clients {
            let last = stream.last_value();
            stream.wait(gpu, last).expect("it completes");
            assert_eq!(report.lock().unwrap().read_word(0), 0, "{mode:?}: content was lost");
        }
    }
}

/// A list may name an allocation that no address of the buffer uses: the kernel does not bring it in.
#[test]
fn a_buffer_without_addresses_needs_nothing() {
    // spec: memory §7.3
    let (host, heard) = host(VIRTUAL);
    let gpu = open(&host);
    let context = Context::create(gpu.device(), COMPUTE, Vec::new()).unwrap();
    let surface = gpu.create_surface(SurfaceKind::Local, MIB).unwrap();
    let mut command = Vec::new();
    Command::Nop.encode(&mut command);
    let named = AllocationListItem { allocation: surface.allocation().handle(), flags: AllocationListFlags::empty() };
    for list in [vec![named], vec![]] {
        context.render(command.clone(), list, vec![]).unwrap();
        let done = gpu.device().create_monitored_fence(FenceFlags::NO_GPU_ACCESS, 0).unwrap();
        context.signal(&done, 1).unwrap();
        gpu.device().wait(&[(&done, 1)]).unwrap();
    }
    let events = heard.take();
    let done = events.iter().filter(|event| matches!(event, Event::PacketCompleted { .. })).count();
    assert_eq!((done, moved(&events, Move::Fill)), (2, 0));
    assert_eq!(gpu.device().state().unwrap(), DeviceState::Active);
}

#[test]
fn what_one_command_needs_must_fit_at_once() {
    // spec: memory §7.1, memory §9.2
    let (host, heard) = host(VIRTUAL);
    let gpu = open(&host);
    let context = Context::create(gpu.device(), COMPUTE, Vec::new()).unwrap();
    let (large, small) = (surfaces(&gpu, 2, 3 * MIB), surfaces(&gpu, 2, MIB));
    let mut commands = ListedCommands::new();
    commands.fill((small[0].allocation(), 0), 4096, 7);
    commands.copy((large[0].allocation(), 0), (large[1].allocation(), 0), 4096);
    let refused = commands.render(&context).expect_err("six of four");
    assert_eq!(refused.status, NtStatus::NO_MEMORY, "{refused}");
    assert!(refused.reason.contains("the command at 0x18"), "{refused}");
    assert_eq!(refused.bytes_to_trim, 6 * MIB);
    assert_eq!(gpu.device().state().unwrap(), DeviceState::Active);
    assert_eq!(moved(&heard.take(), Move::Fill), 0, "nothing of it was begun");
    let mut stream = PatchedStream::create(&gpu, COMPUTE).unwrap();
    stream.pattern(&small[1], 5);
    let value = stream.submit(&gpu).unwrap();
    stream.wait(&gpu, value).unwrap();
}

/// The content of a residency list stays beside the portions, and calls of a device that waits for its turn wait, too.
#[test]
fn residency_lists_and_lists_of_buffers_go_together() {
    // spec: memory §6.1, memory §8.6
    for mode in [VIRTUAL, Mode::Real] {
        let (host, heard) = host(mode);
        let clients = [open(&host), open(&host)];
        let mut streams = clients.each_ref().map(|gpu| PatchedStream::create(gpu, COMPUTE).unwrap());
        let listed = clients.each_ref().map(|gpu| gpu.create_surface(SurfaceKind::Local, 3 * MIB).unwrap());
        let others = clients.each_ref().map(|gpu| surfaces(gpu, 3, MIB));
        let reports = clients.each_ref().map(|gpu| gpu.create_surface(SurfaceKind::System, 4096).unwrap());
        for round in 0..4u64 {
            for at in [0, 1] {
                let (gpu, stream) = (&clients[at], &mut streams[at]);
                if round == 0 {
                    let flags = MakeResidentFlags::CANT_TRIM_FURTHER | MakeResidentFlags::MUST_SUCCEED;
                    let handles = vec![listed[at].allocation().handle()];
                    gpu.paging().make_resident(handles, flags).expect("at the other's cost");
                } else {
                    stream.check(&listed[at], round + 99, &reports[at], 100);
                }
                for (index, surface) in (0..).zip(&others[at]) {
                    if round > 0 {
                        stream.check(surface, round * 4 + index - 4, &reports[at], index + 1);
                    }
                    stream.pattern(surface, round * 4 + index);
                }
                stream.pattern(&listed[at], round + 100);
                stream.submit(gpu).expect("a submission, when its turn comes");
            }
        }
        for at in [0, 1] {
            let last = streams[at].last_value();
            streams[at].wait(&clients[at], last).expect("it completes");
            assert_eq!(reports[at].lock().unwrap().read_word(0), 0, "{mode:?}: content was lost");
        }
        assert!(heard.take().iter().any(|event| matches!(event, Event::PacketSplit { .. })), "{mode:?}");
        host.check_invariants().expect("it is in order");
    }
}

#[test]
fn a_context_that_goes_takes_its_portions_with_it() {
    // spec: memory §6.2, memory §8.6
    for mode in [VIRTUAL, Mode::Real] {
        let (host, _) = host(mode);
        let gpu = open(&host);
        let surfaces = surfaces(&gpu, 8, MIB);
        for _ in 0..4 {
            let context = Context::create(gpu.device(), COMPUTE, Vec::new()).unwrap();
            let mut commands = ListedCommands::new();
            for surface in &surfaces {
                commands.pattern(surface.allocation(), MIB, 3);
            }
            for _ in 0..3 {
                commands.render(&context).unwrap();
            }
        }
        let mut stream = PatchedStream::create(&gpu, COMPUTE).unwrap();
        surfaces.iter().for_each(|surface| stream.pattern(surface, 1));
        let value = stream.submit(&gpu).unwrap();
        stream.wait(&gpu, value).expect("whatever waited for the others goes on");
        host.check_invariants().expect("it is in order");
    }
}
