//! Contiguous requests for which enough pages are free, but no hole: the kernel moves content within its segment, through the whole stack,
//! and processes notice only the time.

use std::sync::Arc;

use d3dkmt::{Allocation, Context, EvictFlags, MakeResidentFlags, Refusal, Residency};
use dxgk_host::{Host, Mode};
use events::{Event, Move};
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{DmaBuffers, ListedCommands, SurfaceKind, context_data};
use stack::heard::{Heard, heard_on};
use stack::world::{Client, MIB, VIRTUAL, client};
use wddm_types::{NodeId, NtStatus};

const COPY: NodeId = NodeId(1);
/// Of a megabyte.
const LAST_PAGE: u32 = (1 << 20) - 4096;

/// The moves and their reasons, in bytes.
fn moved(events: &[Event]) -> Vec<(Move, &'static str, u64)> {
    let step = |event: &Event| match event {
        Event::Moved { how, why, bytes, .. } => Some((*how, why.name(), *bytes)),
        _ => None,
    };
    events.iter().filter_map(step).collect()
}

/// A host, and its events of moves, packets and quiesced devices.
fn traced(mode: Mode, profile: &str, vram_bytes: u64) -> (Arc<Host>, Heard) {
    heard_on(profile, mode, vram_bytes, |event| {
        matches!(
            event,
            Event::Moved { .. }
                | Event::PacketStarted { .. }
                | Event::DeviceSuspended { .. }
                | Event::DeviceResumed { .. }
        )
    })
}

fn contiguous(client: &Client, bytes: u64, cpu_visible: bool) -> Arc<Allocation> {
    let kind = SurfaceKind::Local;
    let request = AllocationRequest { kind, cpu_visible, cached: false, accessed_physically: true, size_bytes: bytes };
    client.gpu.device().create_allocation(request.encode().to_vec()).unwrap()
}

fn bring_in(client: &Client, allocation: &Allocation) -> Result<(), Refusal> {
    let paging = client.gpu.paging();
    match paging.make_resident(vec![allocation.handle()], MakeResidentFlags::empty())? {
        Residency::Pending { paging_fence_value, .. } => {
            client.gpu.device().wait(&[(paging.fence(), paging_fence_value)])
        }
        Residency::Resident => Ok(()),
    }
}

/// Four megabytes of four allocations, the second and the fourth of which leave: two megabytes are free, not in a row.
fn fragmented(client: &Client, cpu_visible: bool) -> Vec<Arc<Allocation>> {
    let parts: Vec<_> = (0..4).map(|_| contiguous(client, MIB, cpu_visible)).collect();
    parts.iter().for_each(|part| bring_in(client, part).unwrap());
    client.gpu.device().evict(vec![parts[1].handle(), parts[3].handle()], EvictFlags::empty()).unwrap();
    parts
}

fn drain(client: &Client, context: &Context) {
    let done = client.gpu.device().create_native_fence(Default::default()).unwrap();
    context.signal(&done, 1).unwrap();
    client.gpu.device().wait(&[(&done, 1)]).unwrap();
}

fn fill(allocation: &Arc<Allocation>, pattern: u32, context: &Context) {
    let mut commands = ListedCommands::new();
    commands.fill((allocation, 0), MIB, pattern);
    commands.render(context).unwrap();
}

#[test]
fn buffers_that_name_what_moves_are_patched_again() {
    // spec: memory §8.1, memory §8.2, memory §7.4
    for mode in [VIRTUAL, Mode::Real] {
        let (host, heard) = traced(mode, "discrete-4k", 4 * MIB);
        let client = client(&host);
        let context = Context::create(client.gpu.device(), COPY, context_data(DmaBuffers::Aperture).to_vec()).unwrap();
        let parts = fragmented(&client, false);
        fill(&parts[0], 10, &context);
        fill(&parts[2], 12, &context);
        drain(&client, &context);
        let system = AllocationRequest {
            kind: SurfaceKind::System,
            cpu_visible: true,
            cached: false,
            accessed_physically: true,
            size_bytes: 8192,
        };
        let out = client.gpu.device().create_allocation(system.encode().to_vec()).unwrap();
        bring_in(&client, &out).unwrap();
        let go = client.gpu.device().create_native_fence(Default::default()).unwrap();
        context.wait(&go, 1).unwrap();
        let mut commands = ListedCommands::new();
        commands.copy((&parts[0], 0), (&out, 0), 4096).copy((&parts[2], LAST_PAGE), (&out, 4096), 4096);
        commands.render(&context).unwrap();
        heard.take();
        // It is queued, and one of the two has to make way.
        let large = contiguous(&client, 2 * MIB, false);
        bring_in(&client, &large).unwrap();
        let events = heard.take();
        let expected = [(Move::Relocate, "compaction", MIB), (Move::Fill, "make resident", 2 * MIB)];
        assert_eq!(moved(&events), expected, "{mode:?}: one moves, none leaves");
        client.gpu.device().signal(&go, 1).unwrap();
        drain(&client, &context);
        let seen = [0, 4096].map(|at| out.lock().unwrap().read_word(at));
        assert_eq!(seen, [10 << 32 | 10, 12 << 32 | 12], "{mode:?}: it was read where it is now");
        let all = [events, heard.take()].concat();
        let count = |which: fn(&Event) -> bool| all.iter().filter(|event| which(event)).count();
        assert_eq!(
            count(|e| matches!(e, Event::PacketStarted { patched: true, .. })),
            1,
            "{mode:?}: patched once more"
        );
        let stood = count(|e| matches!(e, Event::DeviceSuspended { .. }));
        let went_on = count(|e| matches!(e, Event::DeviceResumed { .. }));
        assert_eq!((stood, went_on), (1, 1), "{mode:?}: its device was quiesced meanwhile");
        // A write to the content in the hole harms no other content.
        let mut commands = ListedCommands::new();
        commands.fill((&large, 0), 2 * MIB, 99);
        commands.copy((&parts[2], 0), (&out, 0), 4096).copy((&parts[0], LAST_PAGE), (&out, 4096), 4096);
        commands.render(&context).unwrap();
        drain(&client, &context);
        let seen = [4088, 8184].map(|at| out.lock().unwrap().read_word(at));
        assert_eq!(seen, [12 << 32 | 12, 10 << 32 | 10], "{mode:?}");
    }
}

#[test]
fn addresses_lead_to_where_content_moved() {
    // spec: memory §8.1, memory §8.3, memory §4.10
    for (mode, profile) in [(VIRTUAL, "discrete-4k"), (Mode::Real, "discrete-4k"), (VIRTUAL, "by-address")] {
        let (host, heard) = traced(mode, profile, 4 * MIB);
        let mut client = client(&host);
        let parts = [0; 4].map(|_| client.pinned(SurfaceKind::Local, MIB));
        for (number, part) in (1u32..).zip(&parts) {
            let va = part.va();
            client.run(|commands| {
                commands.fill(va, MIB, number);
            });
        }
        let [one, two, three, four] = parts;
        drop((two, four));
        let wanted = contiguous(&client, 2 * MIB, false);
        client.run(|commands| {
            commands.fill(one.va(), 8, 1);
        });
        heard.take();
        bring_in(&client, &wanted).unwrap();
        let steps = moved(&heard.take());
        let relocated: Vec<_> = steps.iter().filter(|step| step.0 == Move::Relocate).collect();
        assert_eq!(relocated, [&(Move::Relocate, "compaction", MIB)], "{profile}");
        assert!(steps.iter().all(|step| step.0 != Move::PageOut), "{profile}: none leaves");
        // Everything is where its address says, and can be written there.
        let copy = client.pinned(SurfaceKind::System, 16384);
        let (out, from) = (copy.va(), [one.va(), three.va()]);
        client.run(|commands| {
            for (at, from) in (0u64..).zip(from) {
                commands.copy(from, out.offset(at * 8192), 4096);
                commands.copy(from.offset(MIB - 4096), out.offset(at * 8192 + 4096), 4096);
            }
        });
        let lock = copy.lock().unwrap();
        let seen: Vec<u64> = (0..4).map(|page| lock.read_word(page * 4096 + 8)).collect();
        assert_eq!(seen, [1 << 32 | 1, 1 << 32 | 1, 3 << 32 | 3, 3 << 32 | 3], "{mode:?} {profile}");
    }
}

#[test]
fn what_is_locked_stays_and_the_request_is_refused_before_anything_moves() {
    // spec: memory §8.1, memory §6.3, memory §9.2
    let (host, heard) = traced(VIRTUAL, "discrete-4k", 4 * MIB);
    let client = client(&host);
    let parts = fragmented(&client, true);
    let locks = [0, 2].map(|at| parts[at].lock().unwrap());
    heard.take();
    let large = contiguous(&client, 2 * MIB, true);
    let refused = bring_in(&client, &large).unwrap_err();
    assert_eq!(refused.status, NtStatus::NO_MEMORY);
    assert_eq!(moved(&heard.take()), [], "feasibility is decided first");
    locks[1].write_words(0, &[7]);
    drop(locks);
    bring_in(&client, &large).unwrap();
    assert_eq!(moved(&heard.take())[0], (Move::Relocate, "compaction", MIB));
    assert_eq!(parts[2].lock().unwrap().read_word(0), 7);
}
