//! Pages that come from one process to another: neither sees anything of the other.

use super::*;

#[test]
fn pages_that_come_to_another_process_show_neither_of_the_two_the_other() {
    let host = host("discrete-4k", VIRTUAL);
    let (a, b) = (Apart::new(&host), Apart::new(&host));
    let (mut first, second) = (client(&a), client(&b));
    let surface = first.pinned(SurfaceKind::System, BYTES);
    first.run(|commands| _ = commands.pattern(surface.va(), BYTES, 1));
    drop(surface.lock().expect("always"));
    let (file, pages) = (file_of(&a), a.files.lock().unwrap().last().unwrap().clone());
    let kept = Memory::from_file(file.as_fd().try_clone_to_owned().unwrap(), file.bytes()).unwrap();
    assert_eq!(kept.word(8).load(Ordering::Relaxed), pattern::word(1, 8));
    drop((surface, first));
    host.process_died(a.inner.process());
    while host.step() {}
    assert!(host.system_memory().lent_at(pages.offset).is_none(), "free pages are no client's");

    // All that there is, so that the pages are among them.
    let theirs: Vec<_> = std::iter::from_fn(|| second.gpu.create_surface(SurfaceKind::System, MIB).ok()).collect();
    let locks: Vec<_> = theirs.iter().map(|surface| surface.lock().expect("it has its pages")).collect();
    for lock in &locks {
        assert!((0..MIB).step_by(8).all(|at| lock.read_word(at) == 0), "and nothing of the first is there");
        lock.fill_words(0, MIB / 8, |_| 0x5ec2_e75e_c2e7);
    }
    kept.fill(0, kept.bytes(), 0x6666_6666);
    let first_s = (pages.offset..pages.offset + pages.bytes).step_by(8);
    let found: Vec<u64> = first_s.map(|at| host.system_memory().word(at).load(Ordering::Relaxed)).collect();
    assert!(found.contains(&0x5ec2_e75e_c2e7), "the pages have another owner");
    assert!(!found.contains(&0x6666_6666_6666_6666), "a kept file reaches no other process");
    assert_eq!(kept.scan_words(0, BYTES / 8, |_, word| word == 0x6666_6666_6666_6666), None);
    assert!(a.seen().is_disjoint(&b.seen()));
}

#[test]
fn pages_that_change_hands_within_one_call_are_the_second_process_s_alone() {
    // spec: memory §5.9: the creation that lacks pages takes those of an offer
    let host = host("discrete-4k", VIRTUAL);
    let (a, b) = (Apart::new(&host), Apart::new(&host));
    let (first, second) = (gpu(&a), gpu(&b));
    let offered = first.create_surface(SurfaceKind::System, 40 * MIB).expect("a surface");
    offered.lock().expect("always").write_words(0, &[1]);
    let before = a.files.lock().unwrap().last().unwrap().clone();
    let kept = Memory::from_file(before.file.as_fd().try_clone_to_owned().unwrap(), before.file.bytes()).unwrap();
    let list = vec![offered.allocation().handle()];
    first.device().offer(list, 1, OfferFlags::ALLOW_DECOMMIT).expect("no work uses it");

    let theirs = second.create_surface(SurfaceKind::System, 40 * MIB).expect("the offer gives its pages up");
    let lock = theirs.lock().expect("always");
    lock.fill_words(0, 40 * MIB / 8, |_| 2);
    let file = file_of(&b);
    let of_second = |at: &u64| host.system_memory().lent_at(*at).is_some_and(|lent| Arc::ptr_eq(&lent.file, &file));
    let pages = (before.offset..before.offset + before.bytes).step_by(PAGE_BYTES as usize);
    let changed: Vec<u64> = pages.filter(of_second).collect();
    assert!(!changed.is_empty(), "the second has some of the first's pages");
    kept.fill(before.file_offset, before.bytes, 0x6666_6666);
    for at in changed {
        let word = host.system_memory().word(at).load(Ordering::Relaxed);
        assert_eq!(word, 2, "a kept file reaches no other process: page {at:#x}");
    }
}

#[test]
fn content_that_was_given_up_comes_back_in_pages_that_are_lent() {
    // spec: memory §5.9: offered content loses its backing store when others need pages
    let host = host("discrete-4k", VIRTUAL);
    let (a, b) = (Apart::new(&host), Apart::new(&host));
    let (first, second) = (gpu(&a), gpu(&b));
    let offered = first.create_surface(SurfaceKind::System, 40 * MIB).expect("a surface");
    offered.lock().expect("always").write_words(0, &[1]);
    let before = a.files.lock().unwrap().last().unwrap().clone();
    let list = |surface: &softgpu_umd::Surface| vec![surface.allocation().handle()];
    first.device().offer(list(&offered), 1, OfferFlags::ALLOW_DECOMMIT).expect("no work uses it");
    let large = second.create_surface(SurfaceKind::System, 40 * MIB).expect("others give theirs up");
    large.lock().expect("always").write_words(0, &[2]);
    drop((large, second));
    host.process_died(b.inner.process());
    while host.step() {}
    // The first call may find the pages still on their way back.
    for _ in 0..2 {
        if offered.lock().is_err() {
            first.device().reclaim(list(&offered), true).expect("it is offered");
        }
    }
    let lock = offered.lock().expect("always");
    let now = a.files.lock().unwrap().last().unwrap().clone();
    assert!(!Arc::ptr_eq(&now.file, &before.file), "the pages are others");
    assert_eq!(lock.read_word(0), 0, "no process's content is there");
}
