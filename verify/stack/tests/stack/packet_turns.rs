//! Buffers with lists where memory is short: they are queued while their device loses its place and comes back elsewhere. And
//! an adapter whose driver has no packets at all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::stubborn::{Whims, host_with};
use d3dkmt::{Allocation, Context, EvictFlags, MakeResidentFlags, Residency};
use dxgk_host::{Conductor, Host, HostConfig, ProcessLink, Profile};
use events::{Cause, Event, Move, Tracer};
use kmt_link::Link;
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{Gpu, ListedCommands, SurfaceKind};
use stack::world::{MIB, VIRTUAL, client};
use wddm_types::{NodeId, NtStatus};

/// Enough for several turns.
const ROUNDS: u32 = 4_000;

/// Counts suspensions, packets, packets that were patched again, and packets that came back from the hardware.
#[derive(Clone, Default)]
struct Counts(Arc<[AtomicU64; 4]>);

impl Tracer for Counts {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        let which: &[usize] = match event {
            Event::DeviceSuspended { .. } => &[0],
            Event::PacketStarted { patched: false, .. } => &[1],
            Event::PacketStarted { patched: true, .. } => &[1, 2],
            Event::PacketPreempted { .. } => &[3],
            _ => &[],
        };
        for which in which {
            self.0[*which].fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn physical(gpu: &Gpu, kind: SurfaceKind, bytes: u64) -> Arc<Allocation> {
    let cpu_visible = kind == SurfaceKind::System;
    let request = AllocationRequest { kind, cpu_visible, cached: false, accessed_physically: true, size_bytes: bytes };
    let allocation = gpu.device().create_allocation(request.encode().to_vec()).expect("backing store");
    let flags = MakeResidentFlags::CANT_TRIM_FURTHER;
    let made = gpu.paging().make_resident(vec![allocation.handle()], flags).expect("its turn will come");
    assert!(matches!(made, Residency::Resident | Residency::Pending { .. }));
    allocation
}

/// A process whose list takes most of the memory, and whose buffers are queued several at once.
fn greedy(link: Arc<dyn Link>, sizes: &[u64], rounds: u32) {
    let gpu = Gpu::open(link).expect("the adapter opens");
    let context = Context::create(gpu.device(), NodeId(1), Vec::new()).expect("a context");
    let report = physical(&gpu, SurfaceKind::System, 4096);
    let memory: Vec<_> = sizes.iter().map(|bytes| physical(&gpu, SurfaceKind::Local, *bytes)).collect();
    let done = gpu.device().create_native_fence(Default::default()).expect("a fence");
    for round in 1..=rounds {
        for step in 0..4u32 {
            let mut commands = ListedCommands::new();
            for (index, part) in memory.iter().enumerate() {
                // The end of each part as the buffer before left it, then new content.
                // CAST: parts are a few MiB.
                let end = (sizes[index] - 8) as u32;
                commands.copy((part, end), (&report, index as u32 * 64 + step * 8), 8);
                commands.fill((part, end - 4088), 4096, round * 8 + step);
            }
            commands.render(&context).expect("room for four");
        }
        context.signal(&done, u64::from(round)).unwrap();
        gpu.device().wait(&[(&done, u64::from(round))]).expect("its turn comes");
        let lock = report.lock().expect("system memory");
        for index in 0..sizes.len() as u64 {
            for step in 1..4u32 {
                let before = u64::from(round * 8 + step - 1);
                let seen = lock.read_word(index * 64 + u64::from(step) * 8);
                assert_eq!(seen, before << 32 | before, "round {round}, step {step}, part {index}");
            }
        }
    }
}

/// Two lists that do not fit beside each other, named by physical addresses: each buffer finds its memory where it is.
#[test]
fn buffers_follow_their_memory_through_turns() {
    // spec: memory §7.4, memory §8.6, memory §10.1
    // seed: R03, R20
    let counts = Counts::default();
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(counts.clone()),
        ..HostConfig::new(Profile::named("discrete-4k").unwrap(), VIRTUAL)
    };
    let host = Host::start(config).unwrap();
    let links: Vec<_> = (0..2).map(|_| ProcessLink::new(Arc::clone(&host))).collect();
    let conductor = Conductor::new(Arc::clone(&host), links.len());
    let sizes: [&[u64]; 2] = [&[MIB, 2 * MIB], &[2 * MIB + 65536]];
    let failed = Mutex::new(0);
    std::thread::scope(|scope| {
        for (player, link) in links.into_iter().enumerate() {
            let (conductor, failed) = (Arc::clone(&conductor), &failed);
            scope.spawn(move || {
                let _seat = conductor.enter(player);
                let run = std::panic::AssertUnwindSafe(|| greedy(conductor.link(player, link), sizes[player], ROUNDS));
                if std::panic::catch_unwind(run).is_err() {
                    *failed.lock().unwrap() += 1;
                }
            });
        }
    });
    assert_eq!(*failed.lock().unwrap(), 0);
    let [suspensions, packets, patched, back] = [0, 1, 2, 3].map(|which| counts.0[which].load(Ordering::Relaxed));
    assert_eq!(packets - back, 2 * 4 * u64::from(ROUNDS), "a preempted packet starts again, once");
    assert!(suspensions >= 2, "the kernel quiesced both at some time");
    assert!(patched > 0, "some buffer was queued while its memory moved");
    host.check_invariants().expect("devices that had turns leave nothing");
}

/// The kernel takes a decided turn back before it has come: work that was queued meanwhile runs with the next one.
#[test]
fn a_turn_that_never_comes_holds_no_process() {
    // spec: memory §8.6, memory §7.4
    let heard = Heard::default();
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(heard.clone()),
        ..HostConfig::new(Profile::named("discrete-4k").unwrap(), VIRTUAL)
    };
    let host = Host::start(config).unwrap();
    let links = [(); 2].map(|()| ProcessLink::new(Arc::clone(&host)));
    let open = |link: &Arc<ProcessLink>| Gpu::open(Arc::clone(link) as Arc<dyn Link>).expect("the adapter opens");
    let [humble, proud] = links.each_ref().map(open);
    host.set_process_priority(links[1].process(), 4);
    let context = Context::create(humble.device(), NodeId(1), Vec::new()).expect("a context");
    let done = humble.device().create_native_fence(Default::default()).expect("a fence");
    let one = physical(&humble, SurfaceKind::Local, 3 * MIB);
    let fill = |pattern| {
        let mut commands = ListedCommands::new();
        commands.fill((&one, 0), 3 * MIB, pattern).render(&context).expect("room for it");
        context.signal(&done, u64::from(pattern)).unwrap();
    };
    fill(1);
    humble.device().wait(&[(&done, 1)]).unwrap();
    // The process of higher rank takes the room, and the other's queued work waits for it.
    let other = physical(&proud, SurfaceKind::Local, 3 * MIB);
    fill(2);
    // For longer than a quantum: then content that was taken may come back.
    let busy = Context::create(proud.device(), NodeId(0), Vec::new()).expect("a context");
    let (word, idle) =
        (physical(&proud, SurfaceKind::System, MIB), proud.device().create_native_fence(Default::default()));
    let idle = idle.expect("a fence");
    for _ in 0..3 {
        let mut commands = ListedCommands::new();
        (0..200).for_each(|_| _ = commands.touch(&word, MIB, false));
        commands.render(&busy).expect("room for it");
    }
    busy.signal(&idle, 1).unwrap();
    proud.device().wait(&[(&idle, 1)]).unwrap();
    // The turn is decided as soon as there is room, and the room is taken back while the content is on its way.
    let evict = || proud.device().evict(vec![other.handle()], EvictFlags::empty()).unwrap();
    evict();
    assert_eq!(heard.returns(), 1, "it gets its turn");
    proud.paging().make_resident(vec![other.handle()], MakeResidentFlags::empty()).unwrap();
    fill(3);
    evict();
    humble.device().wait(&[(&done, 3)]).expect("another turn comes");
    assert_eq!((heard.returns(), heard.resumed()), (2, 1), "the first one was taken back");
    humble.device().evict(vec![one.handle()], EvictFlags::empty()).unwrap();
}

/// Hears of decisions that content returns, and of devices that go on.
#[derive(Clone, Default)]
struct Heard(Arc<[AtomicU64; 2]>);

impl Heard {
    fn returns(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    fn resumed(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }
}

impl Tracer for Heard {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        match event {
            Event::Moved { how: Move::PageIn, why: Cause::Resume, .. } => &self.0[0],
            Event::DeviceResumed { .. } => &self.0[1],
            _ => return,
        }
        .fetch_add(1, Ordering::Relaxed);
    }
}

/// Patching is a part of its own: an adapter without it has no such contexts and does everything else.
#[test]
fn a_driver_without_packets_lacks_nothing_else() {
    // spec: memory §5.6, memory §10.1
    // seed: R15
    let host = host_with(4 * MIB, Whims::default());
    let mut client = client(&host);
    let refused = Context::create(client.gpu.device(), NodeId(1), Vec::new()).err().expect("there are none");
    assert_eq!(refused.status, NtStatus::NOT_SUPPORTED);
    let surface = client.pinned(SurfaceKind::Local, MIB);
    let va = surface.va();
    client.run(|commands| {
        commands.fill(va, MIB, 1);
    });
}
