//! Fences of an adapter that sleeps: the device has no power and its page tables are away, so the kernel tells it at the wake which waits
//! are over, and which fences satisfy every wait.

use d3dkmt::{FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess};
use ddi::PowerState;
use kmt_calls::{Call, QueueCall, QueueFlags, Reply, SyncCall, WaitFlags};
use kmt_link::Link;
use softgpu_spec::register::counter::INTERRUPTS_RAISED;
use softgpu_umd::Commands;
use wddm_types::{GpuVa, NodeId, RawHandle};

use stack::world::{MIB, VIRTUAL, client, host, unnamed};

#[test]
fn a_device_that_slept_is_told_who_waits_no_more_and_what_is_always_signalled() {
    // spec: sync §3.9, sync §3.16, memory §1.10
    for state in [PowerState::Standby, PowerState::Hibernate] {
        let host = host(VIRTUAL, 4 * MIB);
        let mut client = client(&host);
        let new = || client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
        let (gone, stays) = (new(), new());
        let device = client.gpu.device().handle();
        let made = client.link.call(Call::Queue(QueueCall::CreateHwContext {
            device,
            node: NodeId(0),
            private_data: Vec::new(),
        }));
        let Ok(Reply::Handle(context)) = made else { panic!("no context: {made:?}") };
        let made = client.link.call(Call::Queue(QueueCall::CreateHwQueue {
            context,
            flags: QueueFlags::empty(),
            private_data: Vec::new(),
        }));
        assert!(matches!(made, Ok(Reply::HwQueue(_))), "{made:?}");
        let (async_event, flags) = (RawHandle::NONE, WaitFlags::empty());
        let points = vec![(gone.handle(), 1), (stays.handle(), 1)];
        let wait = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu { device, points, async_event, flags });
        let waits = host.begin_call(client.link.process(), wait).expect_err("the values have not come");
        while host.step() {}
        host.power_transition(state).expect("it falls asleep");
        // The wait ends with one of its fences: the other has no waiter any more.
        drop(gone);
        host.take_answer(waits).expect("the wait is over").expect("and well");
        // With the queue its progress fence is satisfied for ever.
        client.link.call(Call::Queue(QueueCall::DestroyHwContext { context })).expect("it goes, asleep or not");
        host.power_transition(PowerState::On).expect("it wakes");
        while host.step() {}
        let raised = host.device_register(INTERRUPTS_RAISED);
        let mut commands = Commands::new();
        commands.signal(&stays, 1);
        client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
        while host.step() {}
        assert_eq!(stays.current(), 1);
        assert_eq!(
            host.device_register(INTERRUPTS_RAISED),
            raised,
            "the device knows that no CPU waiter is registered"
        );
    }
}

#[test]
fn a_fence_that_was_always_signalled_before_the_sleep_is_destroyed_in_it_or_stays_so() {
    // spec: sync §3.16, sync §6 B13, memory §1.10
    for state in [PowerState::Standby, PowerState::Hibernate] {
        let host = host(VIRTUAL, 4 * MIB);
        let (mut client, mut lost) = (client(&host), client(&host));
        let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
        let new = || {
            let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
            let fence = client.gpu.device().create_native_fence(request).expect("a fence");
            let name = fence.share(SyncObjectAccess::ALL_ACCESS).expect("a name");
            let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
            (fence, lost.gpu.device().open_native_fence(request).expect("the other process has it, too"))
        };
        let ((gone, of_lost), (stays, too)) = (new(), new());
        // An address without a reservation: the device that might have signalled both is lost.
        let mut wild = Commands::new();
        wild.signal(unnamed(GpuVa(0x7fff_0000_0000), GpuVa(0x7fff_0000_0008)), 1);
        lost.stream.submit(&lost.gpu, &[], &wild).expect("a submission");
        while host.step() {}
        assert_eq!((gone.current(), stays.current()), (u64::MAX, u64::MAX));
        host.power_transition(state).expect("it falls asleep");
        drop((gone, of_lost));
        host.power_transition(PowerState::On).expect("it wakes");
        let (current, monitored) = (stays.current_va(), stays.monitored_va());
        client.run(|commands| {
            commands.signal(unnamed(current, monitored), 4).wait(unnamed(current, monitored), 50);
        });
        assert_eq!(stays.current(), u64::MAX, "its engines leave it alone still");
        drop(too);
    }
}
