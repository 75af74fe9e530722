//! Large pages under demand: what the kernel maps by one entry, takes apart and makes again.

use super::*;

/// Three surfaces of two large pages and a bit, in room for two: a surface that loses a part of its content loses its large page
/// there, and nothing else.
#[test]
fn large_pages_are_walked_taken_apart_and_made_again() {
    // spec: memory §4.4, memory §4.5
    for mode in [VIRTUAL, Mode::Real] {
        let large = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let seen = Arc::clone(&large);
        let build = move |driver: &mut dyn ddi::Miniport, build: &mut ddi::BuildPagingBuffer<'_>| {
            if let ddi::PagingOp::UpdatePageTable { level: 1, first, .. } = &build.operation
                && first.flags.contains(ddi::PteFlags::LARGE_PAGE)
            {
                seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            driver.build_paging_buffer(build)
        };
        let whims = Whims { build: Box::new(build), ..Whims::default() };
        let config = HostConfig {
            vram_bytes: 12 * MIB,
            page_table_bytes: 4 * MIB,
            system_bytes: 64 * MIB,
            wrap_miniport: Some(wrapped(whims)),
            ..HostConfig::new(Profile::named("discrete-64k").expect("a built-in profile"), mode)
        };
        let host = Host::start(config).expect("the host starts");
        let mut client = client(&host);
        let report = client.pinned(SurfaceKind::System, 4096);
        let bytes = 4 * MIB + TILE;
        let surfaces: Vec<_> = (0..3).map(|_| client.gpu.create_surface(SurfaceKind::Local, bytes).unwrap()).collect();
        assert!(surfaces.iter().all(|surface| surface.va().0.is_multiple_of(2 * MIB)));
        for round in 0..4u64 {
            for (index, surface) in surfaces.iter().enumerate() {
                let handle = vec![surface.allocation().handle()];
                let residency = client.gpu.paging().make_resident(handle.clone(), Default::default()).unwrap();
                if let d3dkmt::Residency::Pending { paging_fence_value, .. } = residency {
                    client.gpu.device().wait(&[(client.gpu.paging().fence(), paging_fence_value)]).unwrap();
                }
                let (va, report_va, seed) = (surface.va(), report.va(), pattern::seed(index as u64, round));
                client.run(|commands| {
                    if round > 0 {
                        commands.check(va, bytes, pattern::seed(index as u64, round - 1), report_va, round);
                    }
                    commands.pattern(va, bytes, seed);
                });
                client.gpu.device().evict(handle, d3dkmt::EvictFlags::EVICT_ONLY_IF_NECESSARY).unwrap();
            }
        }
        assert_eq!(report.lock().unwrap().read_word(0), 0, "{mode:?}: a check failed");
        assert!(large.load(std::sync::atomic::Ordering::Relaxed) > 0, "{mode:?}: no large page was used");
    }
}
