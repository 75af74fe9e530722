//! Content that may go: kept while there is room, discarded when another claim needs it, and reported so.

use conformance::{Client, MIB, VRAM_BYTES, World, over_every_link};
use d3dkmt::{EvictFlags, OfferFlags, ReclaimResult};
use softgpu_umd::{Stage, Surface, SurfaceKind, pattern};
use wddm_types::NtStatus;

use super::status;

over_every_link!(
    an_offer_whose_room_is_not_needed_is_kept,
    an_offer_whose_room_was_needed_is_gone,
    what_is_offered_is_not_used
);

fn offer(client: &Client, surface: &Surface) -> Result<(), d3dkmt::Refusal> {
    client.gpu.device().offer(vec![surface.allocation().handle()], 1, OfferFlags::empty())
}

fn reclaim(client: &Client, surface: &Surface) -> Result<ReclaimResult, d3dkmt::Refusal> {
    let paging = client.gpu.paging();
    let (results, value) = paging.reclaim(vec![surface.allocation().handle()])?;
    client.gpu.device().wait(&[(paging.fence(), value)]).expect("it is reached");
    Ok(results[0])
}

// spec: memory §5.9
fn an_offer_whose_room_is_not_needed_is_kept(world: &World) {
    let client = world.client();
    let (surface, report) = (client.pinned(SurfaceKind::Local, MIB), client.pinned(SurfaceKind::System, 4096));
    let mut lane = client.lane(Stage::Hardware);
    lane.pattern(&surface, 7);
    client.run(&mut lane);
    offer(&client, &surface).expect("not offered");
    assert_eq!(reclaim(&client, &surface), Ok(ReclaimResult::Ok));
    lane.check(&surface, 7, &report, 1);
    client.run(&mut lane);
    assert_eq!(report.lock().expect("system memory").read_word(pattern::report::TAG * 8), 0);
}

// spec: memory §5.9, memory §9.2
fn an_offer_whose_room_was_needed_is_gone(world: &World) {
    let (client, other) = (world.client(), world.client());
    let surface = client.pinned(SurfaceKind::Local, VRAM_BYTES / 2);
    offer(&client, &surface).expect("not offered");
    let room = other.pinned(SurfaceKind::Local, 3 * VRAM_BYTES / 4);
    other.gpu.device().evict(vec![room.allocation().handle()], EvictFlags::empty()).expect("it is listed");
    assert_eq!(reclaim(&client, &surface), Ok(ReclaimResult::Discarded));
    let mut lane = client.lane(Stage::Packet);
    lane.pattern(&surface, 1);
    client.run(&mut lane);
}

fn what_is_offered_is_not_used(world: &World) {
    let client = world.client();
    let surface = client.lockable(MIB);
    assert_eq!(status(reclaim(&client, &surface)), NtStatus::INVALID_PARAMETER, "it is not offered");
    offer(&client, &surface).expect("not offered");
    assert_eq!(status(offer(&client, &surface)), NtStatus::INVALID_PARAMETER, "twice");
    assert!(surface.lock().is_err(), "nothing of it is seen");
    assert_eq!(reclaim(&client, &surface), Ok(ReclaimResult::Ok));
    let lock = surface.lock().expect("it is used again");
    assert!(offer(&client, &surface).is_err(), "it is locked");
    drop(lock);
    offer(&client, &surface).expect("not any more");
}
