//! The ring of a doorbell that lives stays where its engine finds it, whatever its owner asks.

use d3dkmt::{EvictFlags, MakeResidentFlags};
use kmt_calls::{AllocationTarget, DestroyFlags, OfferFlags};
use softgpu_spec::Command;

use super::*;

/// The calls by which an owner takes memory away, of the ring behind another allocation.
fn takes_away(client: &Client, ring: &Surface, other: &Surface) -> [(&'static str, Call); 4] {
    let device = client.gpu.device().handle();
    let both = vec![other.allocation().handle(), ring.allocation().handle()];
    let (flags, priority) = (OfferFlags::empty(), 1);
    let target = AllocationTarget { allocations: both.clone(), ..AllocationTarget::default() };
    [
        ("Evict", Call::Evict { device, allocations: both.clone(), flags: EvictFlags::empty() }),
        ("Offer", Call::OfferAllocations { device, list: both.into(), priority, flags }),
        ("Free", Call::FreeGpuVirtualAddress { device, base: ring.va(), size_bytes: 4096 }),
        ("Destroy", Call::DestroyAllocation { device, target, flags: DestroyFlags::empty() }),
    ]
}

#[test]
fn the_ring_of_a_doorbell_that_lives_is_not_taken_away() {
    // spec: sync §3.17, memory §5.3
    let host = crate::world::host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let [ring, other, target] = [(); 3].map(|()| client.pinned(SurfaceKind::System, 4096));
    let made = made_by_hand(&client, &ring);
    drain(&host);
    // Connected or not: it will be.
    for connected in [false, true] {
        if connected {
            let connect = QueueCall::ConnectDoorbell { doorbell: made.doorbell };
            client.link.call(Call::Queue(connect)).expect("it connects");
        }
        let before = host.state_digest();
        for (name, call) in takes_away(&client, &ring, &other) {
            let refusal = client.link.call(call).expect_err(name);
            assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER, "{name}");
            assert!(refusal.reason.contains("destroy the doorbell first"), "{name}: {}", refusal.reason);
        }
        assert!(before.differences(&host.state_digest()).is_empty(), "and nothing is changed");
    }
    // What was counted twice stays on the list by the other count.
    let handle = vec![ring.allocation().handle()];
    client.gpu.paging().make_resident(handle.clone(), MakeResidentFlags::empty()).expect("it is resident");
    let evict = || client.gpu.device().evict(handle.clone(), EvictFlags::empty());
    evict().expect("one of two");
    evict().expect_err("the last");
    let mut words = Vec::new();
    Command::Fill { va: target.va().0, bytes: 4096, pattern: 7 }.encode(&mut words);
    ring.lock().expect("a lock").write_words(0, &words);
    client.link.doorbell(made.address).expect("its own").ring(words.len() as u64 * 8);
    drain(&host);
    assert_eq!(client.gpu.device().state().expect("a state"), DeviceState::Active);
    assert_eq!(target.lock().expect("a lock").read_word(0), 7 | 7 << 32, "the engine has found what stands there");
    client.link.call(Call::Queue(QueueCall::DestroyDoorbell { doorbell: made.doorbell })).expect("it goes");
    for (name, call) in takes_away(&client, &ring, &other) {
        client.link.call(call).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    }
    drain(&host);
    assert_eq!(client.gpu.device().state().expect("a state"), DeviceState::Active);
    host.check_invariants().unwrap();
    std::mem::forget((ring, other));
}

#[test]
fn a_doorbell_that_is_lost_with_its_device_keeps_no_ring() {
    // spec: sync §3.17, sync §3.16
    let host = crate::world::host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let [ring, other] = [(); 2].map(|()| client.pinned(SurfaceKind::System, 4096));
    made_by_hand(&client, &ring);
    let mut wild = Commands::new();
    wild.fill(GpuVa(0x7fff_0000_0000), 4096, 1);
    let value = client.stream.submit(&client.gpu, &[], &wild).expect("a submission");
    client.stream.wait(&client.gpu, value).expect_err("the device is lost");
    let [.., (_, destroy)] = takes_away(&client, &ring, &other);
    client.link.call(destroy).expect("what is left can be cleared away");
    std::mem::forget((ring, other));
    host.check_invariants().unwrap();
}
