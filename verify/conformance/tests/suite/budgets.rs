//! Budgets and reservations: what a process may have, and that others' come out of the same memory.

use conformance::{Client, MIB, World, over_every_link};
use d3dkmt::VideoMemoryInfo;

over_every_link!(budgets_are_shared_and_reservations_kept, what_cannot_be_reserved_is_refused);

fn info(client: &Client) -> VideoMemoryInfo {
    client.gpu.adapter().video_memory_info(true).expect("an adapter")
}

// spec: memory §5.5
fn budgets_are_shared_and_reservations_kept(world: &World) {
    let first = world.client();
    let alone = info(&first);
    assert!(alone.budget_bytes > 0 && alone.current_usage_bytes <= alone.budget_bytes, "{alone:?}");
    first.gpu.adapter().change_reservation(true, 2 * MIB).expect("there is as much");
    assert_eq!(info(&first).current_reservation_bytes, 2 * MIB);
    let second = world.client();
    let beside = info(&second);
    assert!(beside.available_for_reservation_bytes <= alone.available_for_reservation_bytes, "{beside:?}");
    assert!(info(&first).budget_bytes >= 2 * MIB, "what is reserved is kept");
    first.gpu.adapter().change_reservation(true, 0).expect("it is given back");
    assert_eq!(info(&first).current_reservation_bytes, 0);
    drop(first);
    // The kernel learns of a death a little later than the dead.
    let began = std::time::Instant::now();
    while info(&second).budget_bytes < alone.budget_bytes {
        assert!(began.elapsed() < std::time::Duration::from_secs(120), "{:?}", info(&second));
        std::thread::yield_now();
    }
}

// spec: memory §5.5
fn what_cannot_be_reserved_is_refused(world: &World) {
    let client = world.client();
    let before = info(&client);
    let wanted = before.available_for_reservation_bytes + 1;
    assert!(client.gpu.adapter().change_reservation(true, wanted).is_err());
    assert_eq!(info(&client), before);
    client.gpu.adapter().change_reservation(true, before.available_for_reservation_bytes).expect("and not more");
}
