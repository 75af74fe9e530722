//! Buffers that name what a lock still keeps out of local memory: they wait for the unlock, and cost nobody his device.

use super::*;

#[test]
fn a_buffer_waits_for_what_waits_for_an_unlock() {
    // spec: memory §10.1 row 23, memory §5.2, memory §5.8
    for mode in [VIRTUAL, Mode::Real] {
        let (host, packets) = traced(mode, 4 * MIB);
        let client = client(&host);
        let context = context(&client, DmaBuffers::Contiguous);
        let to = physical(&client, SurfaceKind::System, 8192);
        let kept = unlisted(&client, SurfaceKind::Local, 8192);
        drain(&client, &context).unwrap();
        let lock = kept.lock().expect("not resident");
        lock.write_words(0, &(0..1024).map(|n| n * 5).collect::<Vec<u64>>());
        let paging = client.gpu.paging();
        let made = paging.make_resident(vec![kept.handle()], MakeResidentFlags::empty()).unwrap();
        let Residency::Pending { paging_fence_value } = made else { panic!("{mode:?}: it may not be there yet") };
        let mut commands = ListedCommands::new();
        commands.copy((&kept, 0), (&to, 0), 8192);
        commands.render(&context).expect("its list names it already");
        assert_eq!(client.gpu.device().state(), Ok(DeviceState::Active), "{mode:?}");
        assert_eq!(packets.count(|e| matches!(e, Event::PacketStarted { .. })), 0, "{mode:?}: and it waits");
        assert!(paging.fence().current() < paging_fence_value, "{mode:?}");
        drop(lock);
        client.gpu.device().wait(&[(paging.fence(), paging_fence_value)]).expect("after the unlock");
        drain(&client, &context).unwrap();
        assert_eq!([0, 8, 8184].map(|at| word(&to, at)), [0, 5, 5115], "{mode:?}");
        assert_eq!(
            packets.count(|e| matches!(e, Event::DeviceSuspended { .. })),
            1,
            "{mode:?}: it stood still for that"
        );
    }
}
