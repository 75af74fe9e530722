//! When an allocation's system pages are lent: with their first use, and never before.

use super::*;

/// Pages of allocations that are in files.
fn lent_pages(host: &Host) -> u64 {
    let all = (dxgk_host::KERNEL_BYTES..host.system_memory().bytes()).step_by(PAGE_BYTES as usize);
    all.filter(|page| host.lent_word(WordAddress(*page)).is_some()).count() as u64
}

#[test]
fn what_is_never_moved_out_or_locked_is_in_no_file() {
    // spec: memory §6.3, memory §8.3
    let host = host("discrete-4k", VIRTUAL);
    let link = Apart::new(&host);
    let mut client = client(&link);
    let report = client.pinned(SurfaceKind::System, 4096);
    let before = lent_pages(&host);
    let lent = |host: &Host| lent_pages(host) - before;
    let surfaces = [0, 1, 2]
        .map(|_| client.gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, BYTES, false).expect("a surface"));
    let [moved, locked, left] = &surfaces;
    for surface in [moved, left] {
        client.gpu.pin(surface).expect("room for it");
        client.run(|commands| _ = commands.pattern(surface.va(), BYTES, 7));
    }
    assert_eq!(lent(&host), 0, "all of it is in video memory");

    let list = vec![moved.allocation().handle()];
    client.gpu.device().evict(list, EvictFlags::empty()).expect("it was resident");
    while host.step() {}
    assert_eq!(lent(&host), BYTES / PAGE_BYTES, "it has moved out");
    let lock = moved.lock().expect("always");
    assert!((0..BYTES).step_by(8).all(|at| lock.read_word(at) == pattern::word(7, at)));
    drop(lock);

    let lock = locked.lock().expect("always");
    assert_eq!(lent(&host), 2 * BYTES / PAGE_BYTES, "the CPU sees it");
    assert!((0..BYTES).step_by(8).all(|at| lock.read_word(at) == 0), "no process's content is there");
    lock.fill_words(0, BYTES / 8, |index| pattern::word(9, index * 8));
    drop(lock);
    client.gpu.pin(locked).expect("room for it");
    client.run(|commands| _ = commands.check(locked.va(), BYTES, 9, report.va(), 1));
    let mismatch = report.lock().expect("system memory").read_word(pattern::report::TAG * 8);
    assert_eq!(mismatch, 0, "the GPU sees what the CPU wrote");
    host.check_invariants().expect("in order");

    drop(surfaces);
    while host.step() {}
    assert_eq!(lent(&host), 0, "free pages lie in no file");
}
