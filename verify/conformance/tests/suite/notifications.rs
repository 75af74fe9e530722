//! Notifications reach the process that registered for them, and no other.

use std::time::{Duration, Instant};

use conformance::{MIB, World, over_every_link};
use d3dkmt::{NotificationKind, TrimFlags};
use softgpu_umd::SurfaceKind;

over_every_link!(who_is_over_his_budget_is_told_and_asked_to_trim, who_does_not_ask_is_not_told);

// spec: memory §5.4, memory §5.5
fn who_is_over_his_budget_is_told_and_asked_to_trim(world: &World) {
    let hears = world.client();
    let budget = hears.gpu.device().register_budget_change().expect("a registration");
    let trim = hears.gpu.device().register_trim().expect("a registration");
    let _surfaces: Vec<_> = (0..6).map(|_| hears.pinned(SurfaceKind::Local, MIB)).collect();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| [(); 2].map(|()| hears.link.wait_notification().expect("the kernel is there")));
        world.set_budget(&hears, Some(4 * MIB));
        let [first, second] = waits.join().expect("no panic");
        assert_eq!(first.registration, budget.handle());
        assert_eq!(first.kind, NotificationKind::BudgetChanged { local: true, budget_bytes: 4 * MIB });
        assert_eq!(second.registration, trim.handle());
        let NotificationKind::Trim { flags, bytes_to_trim } = second.kind else { panic!("{second:?}") };
        assert!(flags.contains(TrimFlags::TRIM_TO_BUDGET) && bytes_to_trim >= 2 * MIB, "{second:?}");
    });
}

fn who_does_not_ask_is_not_told(world: &World) {
    let (deaf, hears) = (world.client(), world.client());
    drop(deaf.gpu.device().register_budget_change().expect("a registration"));
    let _registration = hears.gpu.device().register_budget_change().expect("a registration");
    world.set_budget(&deaf, Some(4 * MIB));
    world.set_budget(&hears, Some(4 * MIB));
    hears.link.wait_notification().expect("the kernel is there");
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(50) {
        assert_eq!(deaf.link.take_notification(), None);
        std::thread::yield_now();
    }
}
