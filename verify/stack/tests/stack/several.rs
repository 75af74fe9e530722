//! Several adapters under one kernel, behind one system memory: each works for itself.

use std::sync::Arc;

use dxgk_host::{Mode, ProcessLink};
use kmt_link::Link;
use softgpu_spec::register::counter;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, SurfaceKind};
use wddm_types::{NodeId, NtStatus};

use crate::stubborn::{FenceStep, Whims, wrapped};
use stack::world::{MIB, VIRTUAL, gpu_on, host_of_several};

fn fill(gpu: &Gpu, value: u32) {
    let mut stream = Stream::create(gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let surface = gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, MIB, false).expect("a surface");
    gpu.pin(&surface).expect("room for it");
    let mut commands = Commands::new();
    commands.fill(surface.va(), MIB, value);
    let done = stream.submit(gpu, &[], &commands).expect("a submission");
    stream.wait(gpu, done).expect("it completes");
    let lock = surface.lock().expect("a lock");
    let word = u64::from(value) << 32 | u64::from(value);
    assert_eq!([0, MIB - 8].map(|offset| lock.read_word(offset)), [word; 2]);
}

#[test]
fn a_process_uses_each_adapter_of_a_host() {
    for mode in [VIRTUAL, Mode::Real] {
        let host = host_of_several(mode, &["discrete-4k", "integrated", "discrete-64k"], |_, _| ());
        let link = ProcessLink::new(Arc::clone(&host));
        let listed = d3dkmt::enum_adapters(link.as_ref() as &dyn Link).expect("a list");
        let expected: Vec<_> = (0..3).map(|index| host.adapter(index).luid()).collect();
        assert_eq!(listed.iter().map(|(luid, _)| *luid).collect::<Vec<_>>(), expected);
        let gpus: Vec<Gpu> = (0..host.adapters()).map(|index| gpu_on(&host, &link, index)).collect();
        for (gpu, value) in gpus.iter().zip(7..) {
            fill(gpu, value);
        }
        let signals = (0..3).map(|index| host.adapter(index).device_register(counter::SIGNALS));
        assert!(signals.into_iter().all(|signals| signals > 0), "each device has worked");
        host.check_invariants().unwrap();
    }
}

#[test]
fn one_that_its_driver_breaks_takes_no_other_along() {
    // spec: sync §3.10
    let host = host_of_several(VIRTUAL, &["discrete-4k", "discrete-4k"], |index, setup| {
        if index == 1 {
            let fail_fence_update = Box::new(|step: &FenceStep| matches!(step, FenceStep::Current(..)));
            setup.wrap_miniport = Some(wrapped(Whims { fail_fence_update, ..Whims::default() }));
        }
    });
    let link = ProcessLink::new(Arc::clone(&host));
    let [first, second] = [0, 1].map(|index| gpu_on(&host, &link, index));
    let fence = second.device().create_native_fence(Default::default()).expect("a fence");
    let _ = second.device().signal(&fence, 1);
    assert!(host.adapter(1).stopped().is_some_and(|reason| reason.contains("0x13")));
    assert_eq!(second.device().create_native_fence(Default::default()).err().unwrap().status, NtStatus::DEVICE_REMOVED);
    assert_eq!(host.adapter(0).stopped(), None);
    fill(&first, 9);
    host.check_invariants().unwrap();
}
