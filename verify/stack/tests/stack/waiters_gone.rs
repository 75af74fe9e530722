//! A thread that waits and is not there any more, while the fence lives on for others: by its process's death, by its device's end or loss,
//! by a close, by another fence that its wait was for as well. MonitoredValue follows the remaining waiters.

use std::sync::{Arc, Mutex};

use d3dkmt::{FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess};
use ddi::KmdGlobalFence;
use dxgk_host::{Host, Pending};
use events::Event;
use kmt_calls::{Call, SyncCall, WaitFlags};
use softgpu_umd::{Commands, FenceName};
use wddm_types::{GpuVa, RawHandle};

use crate::fence_interrupts::begin_wait;
use crate::fence_logs::read::logging_host;
use crate::stubborn::{FenceStep, Shared, Whims};
use stack::heard::Heard;
use stack::world::{Client, client};

/// The event that ends the first wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Death,
    DeviceDestroyed,
    DeviceLost,
    Closed,
    AnotherFence,
}

const NO_WAITER: u64 = u64::MAX;

struct World {
    host: Arc<Host>,
    heard: Heard,
    told: Shared<FenceStep>,
    /// The driver's handle of the fence.
    global: KmdGlobalFence,
}

impl World {
    /// The fence's MonitoredValues that the kernel told the driver since the last call.
    fn monitored(&self) -> Vec<u64> {
        let steps = std::mem::take(&mut *self.told.lock().unwrap());
        let of_fence = |step: FenceStep| match step {
            FenceStep::Monitored(values) => values,
            _ => Vec::new(),
        };
        let values = steps.into_iter().flat_map(of_fence);
        values.filter(|(fence, _)| *fence == self.global).map(|(_, value)| value).collect()
    }

    fn drain(&self) {
        while self.host.step() {}
    }

    /// How many interrupts the kernel makes of one signal of an engine.
    fn interrupts_of_signal(&self, client: &mut Client, fence: impl Into<FenceName>, value: u64) -> usize {
        self.heard.take();
        let mut commands = Commands::new();
        commands.signal(fence, value);
        client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
        self.drain();
        self.heard.take().iter().filter(|event| matches!(event, Event::FenceInterrupt { .. })).count()
    }
}

/// A wait for any of these.
fn begin_any(host: &Arc<Host>, of: &Client, points: Vec<(RawHandle, u64)>) -> Pending {
    let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
        device: of.gpu.device().handle(),
        points,
        async_event: RawHandle::NONE,
        flags: WaitFlags::WAIT_ANY,
    });
    host.begin_call(of.link.process(), call).expect_err("no value has come")
}

/// One waits for 5, another process for 9; then the first is gone.
fn goes(cause: Cause) {
    let told: Shared<FenceStep> = Arc::new(Mutex::default());
    let hears = Arc::clone(&told);
    let hear_fence = Box::new(move |step| hears.lock().unwrap().push(step));
    let (host, heard) = logging_host("discrete-4k", Whims { hear_fence, ..Whims::default() });
    let (first, mut second) = (client(&host), client(&host));
    told.lock().unwrap().clear();
    let shared = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let flags = match cause {
        Cause::Closed => shared,
        // Else the first of its opens that goes would end the waits of all (sync §2.3).
        _ => shared | FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY,
    };
    let theirs = second.gpu.device().create_native_fence(NativeFenceRequest { flags, ..Default::default() }).unwrap();
    let created = |step: &FenceStep| if let FenceStep::Create(fence) = step { Some(*fence) } else { None };
    let global = told.lock().unwrap().iter().find_map(created).expect("it was created");
    let world = World { host: Arc::clone(&host), heard, told, global };
    let name = theirs.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let by = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
    let mine = first.gpu.device().open_native_fence(by).unwrap();
    let other = first.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    let later = begin_wait(&host, &second, &theirs, 9);
    let earlier = match cause {
        Cause::AnotherFence => begin_any(&host, &first, vec![(mine.handle(), 5), (other.handle(), 1)]),
        _ => begin_wait(&host, &first, &mine, 5),
    };
    world.drain();
    assert_eq!(world.monitored().last(), Some(&4), "{cause:?}: the earliest waits for 5");
    match cause {
        Cause::Death => {
            host.process_died(first.link.process());
            // The kernel has reaped these objects with the process.
            std::mem::forget((mine, other, first));
        }
        Cause::DeviceDestroyed => {
            // The process lives on: this test holds its link.
            let link = Arc::clone(&first.link);
            drop((mine, other, first));
            world.drain();
            assert!(host.take_answer(earlier).is_some(), "its call is over");
            drop(link);
        }
        Cause::DeviceLost => {
            let mut commands = Commands::new();
            commands.fill(GpuVa(1 << 40), 8, 1);
            let mut first = first;
            // Fences that the device may signal count as signalled then, but not fences that it only waits for.
            first.stream.submit(&first.gpu, &[], &commands).expect("a submission");
            world.drain();
            assert!(host.take_answer(earlier).is_some(), "its call is over");
            std::mem::forget((mine, other, first));
        }
        Cause::Closed => {
            drop(mine);
            world.drain();
            assert!(host.take_answer(earlier).is_some(), "its wait is over");
        }
        Cause::AnotherFence => {
            first.gpu.device().signal(&other, 1).unwrap();
            world.drain();
            assert!(host.take_answer(earlier).is_some(), "one of both is enough");
            std::mem::forget((mine, other, first));
        }
    }
    world.drain();
    // A close ends all waits, unless a flag says otherwise; when a device is lost, the fences that it may signal count as signalled.
    let all_over = matches!(cause, Cause::Closed | Cause::DeviceLost);
    let expected = if all_over { NO_WAITER } else { 8 };
    assert_eq!(world.monitored().last(), Some(&expected), "{cause:?}: the waiters that are left");
    assert_eq!(host.take_answer(later).is_some(), all_over, "{cause:?}");
    if !all_over {
        assert_eq!(world.interrupts_of_signal(&mut second, &theirs, 8), 0, "{cause:?}: no waiter needs 8 or less");
        assert_eq!(world.interrupts_of_signal(&mut second, &theirs, 9), 1, "{cause:?}");
        assert!(host.take_answer(later).is_some(), "{cause:?}");
    }
    host.check_invariants().unwrap();
}

#[test]
fn a_waiter_that_is_gone_is_a_cause_of_an_update() {
    // spec: sync §1.3, sync §3.4, sync §3.9 step 1
    // seed: N123
    for cause in [Cause::Death, Cause::DeviceDestroyed, Cause::DeviceLost, Cause::Closed, Cause::AnotherFence] {
        goes(cause);
    }
}
