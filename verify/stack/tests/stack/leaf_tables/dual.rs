//! Dual entries on the whole stack.

use super::*;

#[test]
fn with_dual_entries_64_kb_go_to_4_kb_and_back_while_contexts_run() {
    // spec: memory §4.5
    let write = GpuVaProtection::WRITE;
    for mode in [VIRTUAL, Mode::Real] {
        let (host, log) = traced_profile("dual-entries", mode, |driver| KmdConfig { large_pages: false, ..driver });
        let mut client = client(&host);
        let local = client.pinned(SurfaceKind::Local, 4 * CHUNK);
        let small = client.pinned(SurfaceKind::System, CHUNK);
        let out = client.pinned(SurfaceKind::System, PAGE_BYTES);
        let (local_va, small_va) = (local.va(), small.va());
        client.run(|commands| {
            commands.pattern(local_va, 4 * CHUNK, 5);
            commands.pattern(small_va, CHUNK, 9);
        });
        let reservation = GpuVaReservation { base: BASE, size_bytes: COVERAGE, ..GpuVaReservation::default() };
        client.gpu.device().reserve_gpu_va(reservation).expect("room");
        let leaf = |va: u64, count, coarse| Step::Leaf { va: BASE.0 + va, count, valid: true, coarse };
        log.take();
        map(&client, Some(&local), BASE, 64, write);
        assert!(about(&log.take()).contains(&leaf(0, 64, true)));
        for _ in 0..2 {
            // The second of them shows system memory, then local memory again.
            map(&client, Some(&small), BASE.offset(CHUNK), 16, write);
            let steps = about(&log.take());
            assert!(steps.contains(&leaf(CHUNK, 16, false)) && !steps.contains(&Step::Suspended), "{steps:?}");
            for (at, word) in [(0, (5, 0)), (CHUNK, (9, 0)), (2 * CHUNK, (5, 2 * CHUNK))] {
                assert_eq!(word_at(&mut client, &out, BASE.offset(at)), pattern::word(word.0, word.1), "{mode:?}");
            }
            log.take();
            let mapping = GpuVaMapping {
                base: BASE.offset(CHUNK),
                offset_in_pages: 16,
                size_in_pages: 16,
                protection: write,
                ..GpuVaMapping::default()
            };
            let (_, value) = client.gpu.paging().map_gpu_va(Some(local.allocation()), mapping).expect("reserved");
            client.gpu.device().wait(&[(client.gpu.paging().fence(), value)]).expect("mapped");
            let steps = about(&log.take());
            assert!(steps.contains(&leaf(CHUNK, 16, true)) && !steps.contains(&Step::Suspended), "{steps:?}");
            let out_va = out.va();
            client.run(|commands| {
                commands.fill(out_va, PAGE_BYTES, 0);
                commands.check(BASE, 4 * CHUNK, 5, out_va, 77);
            });
            assert_eq!(out.lock().expect("system memory").read_word(0), 0, "all of it is as it was");
            log.take();
        }
        // A page within them: the rest of its 64 KB keeps its content while the process is quiesced.
        map(&client, Some(&small), BASE.offset(CHUNK + PAGE_BYTES), 1, write);
        for (at, word) in [(CHUNK, (5, CHUNK)), (CHUNK + PAGE_BYTES, (9, 0)), (2 * CHUNK - 8192, (5, 2 * CHUNK - 8192))]
        {
            assert_eq!(word_at(&mut client, &out, BASE.offset(at)), pattern::word(word.0, word.1), "{mode:?}");
        }
        let steps = about(&log.take());
        assert!(steps.contains(&Step::Suspended) && steps.contains(&leaf(CHUNK, 16, false)), "{steps:?}");
    }
}
