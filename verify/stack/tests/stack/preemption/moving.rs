//! The kernel moves an allocation of a packet while the preempted packet is back in its queue.

use d3dkmt::Residency;
use events::Move;
use softgpu_umd::{DmaBuffers, context_data};

use super::*;

/// How often the buffer changes each word.
const TIMES: u32 = 4;

/// Events of packets and of moves.
fn of_moves(event: &Event) -> bool {
    matches!(event, Event::Moved { how: Move::Relocate, .. }) || of_packets(event)
}

impl Client {
    /// In memory, in one piece.
    fn contiguous(&self, bytes: u64) -> Arc<Allocation> {
        let allocation = self.unlisted(SurfaceKind::Local, bytes);
        self.bring_in(&allocation);
        allocation
    }

    fn bring_in(&self, allocation: &Allocation) {
        let paging = self.gpu.paging();
        let made = paging.make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).expect("room");
        if let Residency::Pending { paging_fence_value, .. } = made {
            self.gpu.device().wait(&[(paging.fence(), paging_fence_value)]).expect("it comes");
        }
    }
}

/// [`short`] with `m` where content moves.
fn steps(events: &[(u64, Event)]) -> Vec<String> {
    let step = |event: &(u64, Event)| match &event.1 {
        Event::Moved { .. } => vec!["m".to_owned()],
        _ => short(std::slice::from_ref(event), &[(1, 'c')]),
    };
    events.iter().flat_map(step).collect()
}

#[test]
fn a_packet_that_comes_back_is_patched_again_when_its_memory_has_moved() {
    // spec: memory §7.4, memory §8.1, memory §8.2, sync §4.3
    for mode in [VIRTUAL, Mode::Real] {
        for buffers in [DmaBuffers::Contiguous, DmaBuffers::Aperture] {
            let (host, heard) = heard_on("discrete-4k", mode, 4 * MIB, of_moves);
            let client = client(&host);
            let context = Context::create(client.gpu.device(), COMPUTE, context_data(buffers).to_vec()).unwrap();
            // Two megabytes are free, not in a row.
            let [one, two, three, four] = [MIB; 4].map(|bytes| client.contiguous(bytes));
            client.gpu.device().evict(vec![two.handle(), four.handle()], EvictFlags::empty()).unwrap();
            let out = client.memory(SurfaceKind::System, 8 * 4096);
            changes(&out, 8, 1).render(&context).unwrap();
            client.drain(&context);
            heard.take_timed();
            let mut commands = ListedCommands::new();
            for _ in 0..TIMES {
                commands.touch(&one, MIB, true).touch(&three, MIB, true);
            }
            commands.render(&context).unwrap();
            // One of the two has to make way, so the kernel preempts the running packet, too.
            let large = client.contiguous(2 * MIB);
            let mut overwrite = ListedCommands::new();
            overwrite.fill((&large, 0), 2 * MIB, 99).render(&context).unwrap();
            let mut read = ListedCommands::new();
            for (part, from) in (0..).zip([&one, &three]) {
                read.copy((from, 0), (&out, part * 8192), 4096);
                read.copy((from, (1 << 20) - 4096), (&out, part * 8192 + 4096), 4096);
            }
            read.render(&context).unwrap();
            client.drain(&context);
            let lock = out.lock().unwrap();
            let seen: Vec<u64> = (0..4).map(|page| lock.read_word(page * 4096 + 8)).collect();
            assert_eq!(seen, [u64::from(TIMES); 4], "{mode:?} {buffers:?}: once each, where they are by then");
            drop(lock);
            if mode == VIRTUAL {
                // It was in the midst of its commands; afterwards nothing else has changed its place.
                let expected = ["c2=2", "m", "?c", "!1", "c2<", "c2=3*", "c3=4", "c4=5", "c2.", "c3.", "c4."];
                assert_eq!(steps(&heard.take_timed()), expected, "{buffers:?}");
            }
            host.check_invariants().expect("all rules hold");
        }
    }
}
