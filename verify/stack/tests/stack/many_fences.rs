//! Fences are limited by memory and by quotas alone: more of one process than it once could have, and more pages of words than are set
//! aside for the kernel at the start.

use std::sync::Arc;
use std::time::Instant;

use d3dkmt::{Fence, FenceFlags, NativeFenceRequest};
use dxgk_host::{Host, HostConfig, KERNEL_BYTES, Profile};
use softgpu_spec::page_table::Shape;
use softgpu_umd::Commands;
use wddm_types::NtStatus;

use stack::world::{Client, MIB, VIRTUAL, client};

fn roomy(system_bytes: u64) -> Arc<Host> {
    shaped(Shape::FOUR_LEVELS, system_bytes)
}

fn shaped(shape: Shape, system_bytes: u64) -> Arc<Host> {
    let profile = Profile { shape, ..*Profile::named("discrete-4k").expect("a built-in profile") };
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 64 * MIB,
        system_bytes,
        ..HostConfig::new(&profile, VIRTUAL)
    };
    Host::start(config).expect("the host starts")
}

fn make(client: &Client, count: usize) -> Vec<Fence> {
    let make = || client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("there is memory");
    (0..count).map(|_| make()).collect()
}

/// An engine signals the last of them, and a thread waits for it.
fn reaches_the_last(client: &mut Client, fences: &[Fence]) {
    let last = fences.last().expect("some");
    let mut commands = Commands::new();
    commands.signal(last, 7);
    client.stream.submit(&client.gpu, &[], &commands).expect("a command");
    client.gpu.device().wait(&[(last, 7)]).expect("the engine signals it");
}

#[test]
fn a_process_has_as_many_fences_as_it_asks_for() {
    // spec: sync §1.5
    let host = roomy(64 * MIB);
    let mut client = client(&host);
    for count in [1_000, 10_000, 100_000] {
        let began = Instant::now();
        let fences = make(&client, count);
        let made = began.elapsed();
        let pages: std::collections::BTreeSet<_> = fences.iter().map(|fence| fence.address().0 / 4096).collect();
        assert!(pages.len() <= count / 64 + 2, "{count} fences at a stride of 64 bytes lie on {} pages", pages.len());
        // An engine reaches the last of them, and the thread that waits for it on the CPU is woken.
        reaches_the_last(&mut client, &fences);
        let began = Instant::now();
        fences.iter().step_by(count / 1_000).for_each(|fence| client.gpu.device().signal(fence, 1).unwrap_or(()));
        let signalled = began.elapsed();
        let began = Instant::now();
        drop(fences);
        let each = |time: std::time::Duration, of: usize| time.as_nanos() / of as u128;
        let (made, signalled) = (each(made, count), each(signalled, 1_000));
        println!(
            "{count} fences: create {made} ns, signal {signalled} ns, destroy {} ns",
            each(began.elapsed(), count)
        );
    }
    host.check_invariants().expect("all is in order");
}

/// Each takes a page of its own: more than the kernel has at the start. They come from system memory, and go back there.
#[test]
fn shareable_fences_take_pages_of_system_memory_and_give_them_back() {
    // spec: sync §1.5
    let host = roomy(32 * MIB);
    let client = client(&host);
    let shareable = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING | FenceFlags::NO_GPU_ACCESS;
    let most = (KERNEL_BYTES / 4096) as usize;
    let shared = || client.gpu.device().create_monitored_fence(shareable, 0);
    let make = |count: usize| (0..count).map(|_| shared().expect("there is memory")).collect::<Vec<_>>();
    for _ in 0..2 {
        // More than fits at the start, twice: the second time only because the first time's pages have come back.
        let fences = make(most + most / 4);
        assert!(fences.iter().any(|fence| fence.address().0 >= KERNEL_BYTES), "the kernel's pages have grown");
        host.check_invariants().expect("all is in order");
        drop(fences);
        while host.step() {}
        host.check_invariants().expect("all is in order");
    }
    // Until there is no memory: the refusal says so, and those that are there work on.
    let mut fences = make(most);
    let refused = loop {
        match shared() {
            Ok(fence) => fences.push(fence),
            Err(refused) => break refused,
        }
    };
    assert!(fences.len() > most + most / 4, "{} fences, and what is left is less than they had", fences.len());
    assert_eq!(refused.status, NtStatus::NO_MEMORY, "{}", refused.reason);
    assert!(refused.reason.contains("no system memory left for fence words"), "{}", refused.reason);
    host.check_invariants().expect("all is in order");
    let last = fences.last().expect("some");
    client.gpu.device().signal(last, 3).expect("it works");
    assert_eq!(last.current(), 3);
}

/// Two pages of the paging process's addresses each, where the driver wants all fences: neither its addresses nor its tables end first.
#[test]
fn shareable_native_fences_are_limited_by_memory() {
    // spec: sync §1.5, memory §4.7
    // Where a leaf table has 16 entries, the paging process's tables are more than are set aside for it otherwise.
    for (shape, counts) in [(Shape::FOUR_LEVELS, [2_000, 20_000]), (Shape::new(&[4, 14, 9, 9]), [1_000, 8_000])] {
        let host = shaped(shape, 256 * MIB);
        let mut client = client(&host);
        for count in counts {
            let (made, destroyed) = made_and_destroyed(&mut client, count);
            println!("{count} shareable fences: create {made} ns, destroy {destroyed} ns");
            while host.step() {}
            host.check_invariants().expect("all is in order");
        }
    }
}

/// Nanoseconds of a creation and of a destruction beside the others. An engine signals the last of them.
fn made_and_destroyed(client: &mut Client, count: u64) -> (u128, u128) {
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
    let began = Instant::now();
    let make = || client.gpu.device().create_native_fence(request).expect("there is memory");
    let fences: Vec<Fence> = (0..count).map(|_| make()).collect();
    let made = began.elapsed();
    reaches_the_last(client, &fences);
    let began = Instant::now();
    drop(fences);
    let each = |time: std::time::Duration| time.as_nanos() / u128::from(count);
    (each(made), each(began.elapsed()))
}
