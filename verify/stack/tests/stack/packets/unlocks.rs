//! Buffers that name an allocation which a lock still keeps out of local memory: they wait for the unlock, and no device is lost.

use super::*;
use stack::heard::heard_on;

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
        let Residency::Pending { paging_fence_value, .. } = made else { panic!("{mode:?}: it may not be there yet") };
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
            "{mode:?}: the kernel quiesced it for that"
        );
    }
}

#[test]
fn what_is_promised_for_a_turn_comes_by_the_priorities_of_the_queues() {
    // spec: memory §4.9
    let queued = |event: &Event| matches!(event, Event::PagingQueued { .. });
    let (host, heard) = heard_on("discrete-4k", VIRTUAL, 4 * MIB, queued);
    let client = client(&host);
    let device = client.gpu.device();
    for priority in [-2, 2, i32::MIN] {
        let refusal = device.create_paging_queue_of(priority).err().expect("there is no such priority");
        assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER, "{refusal}");
    }
    let kept = unlisted(&client, SurfaceKind::Local, 8192);
    let lock = kept.lock().expect("not resident");
    let queues = [0, -1, 1, 0].map(|priority| device.create_paging_queue_of(priority).expect("a queue"));
    let promised = queues.each_ref().map(|queue| {
        let made = queue.make_resident(vec![kept.handle()], MakeResidentFlags::empty()).expect("it fits");
        let Residency::Pending { paging_fence_value, .. } = made else { panic!("it may not be there yet") };
        (queue.fence(), paging_fence_value)
    });
    heard.take();
    drop(lock);
    device.wait(&promised).expect("after the unlock");
    let kept = heard.take().into_iter().filter_map(|event| match event {
        Event::PagingQueued { paging_queue, value: 1.., .. } => Some(paging_queue),
        _ => None,
    });
    let kept: Vec<_> = kept.collect();
    let mut made = kept.clone();
    made.sort_unstable();
    assert_eq!(kept, [made[2], made[0], made[3], made[1]], "their numbers rise in the order of creation");
}
