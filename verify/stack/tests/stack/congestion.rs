//! A process that asks for memory faster than memory moves.

use d3dkmt::{EvictFlags, MakeResidentFlags, NativeFenceRequest, Residency};
use kmt_calls::{Call, GpuVaCall, Reply};
use softgpu_umd::{Commands, GpuWait, SurfaceKind};
use stack::world::{MIB, VIRTUAL, client, host};
use wddm_types::GpuVa;

/// The paging ring stands behind a queue that waits; maps pile up until the caller waits too, and all of them come true
/// once the queue goes on.
#[test]
fn who_asks_faster_than_memory_moves_waits() {
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let held = client.pinned(SurfaceKind::Local, 4096);
    let shown = client.pinned(SurfaceKind::Local, 4096);
    let gate = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    let mut commands = Commands::new();
    commands.touch(held.va(), 4096, true);
    let waits = [GpuWait { fence: (&gate).into(), value: 1 }];
    client.stream.submit(&client.gpu, &waits, &commands).unwrap();
    // What needs the last room stands behind the submission, and everything else stands behind that.
    client.gpu.device().evict(vec![held.allocation().handle()], EvictFlags::empty()).unwrap();
    let all = client.gpu.create_surface(SurfaceKind::Local, 4 * MIB - 4096).unwrap();
    let made = client.gpu.paging().make_resident(vec![all.allocation().handle()], MakeResidentFlags::empty()).unwrap();
    assert!(matches!(made, Residency::Pending { .. }), "the content of the submission has to leave for it");

    let map = |at: u64| {
        Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
            paging_queue: client.gpu.paging().handle(),
            allocation: shown.allocation().handle(),
            base: GpuVa((1 << 40) + at * 4096),
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            offset_in_pages: 0,
            size_in_pages: 1,
            protection: kmt_calls::GpuVaProtection::WRITE,
            driver_protection: 0,
        })
    };
    let mut accepted = 0;
    let pending = loop {
        match host.begin_call(client.link.process(), map(accepted)) {
            Ok(Ok(Reply::MappedVa { .. })) => accepted += 1,
            Ok(other) => panic!("{other:?}"),
            Err(pending) => break pending,
        }
        assert!(accepted < 1 << 17, "the kernel holds back a process that runs ahead");
    };
    assert!(accepted > 1000, "only after {accepted} maps");
    assert!(!host.step() && host.take_answer(pending).is_none(), "nothing moves while the queue waits");
    client.gpu.device().signal(&gate, 1).unwrap();
    let answer = loop {
        if let Some(answer) = host.take_answer(pending) {
            break answer;
        }
        assert!(host.step(), "the held call is answered");
    };
    assert!(matches!(answer, Ok(Reply::MappedVa { .. })), "{answer:?}");
}
