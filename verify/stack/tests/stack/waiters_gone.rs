//! A thread that waits and is not there any more, while the fence lives on for others: by its process's death, by its device's end or loss,
//! by a close, by another fence that its wait was for as well. MonitoredValue follows the remaining waiters, of each fence that it waited for.

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
    AnotherFenceClosed,
}

const NO_WAITER: u64 = u64::MAX;

struct World {
    host: Arc<Host>,
    heard: Heard,
    told: Shared<FenceStep>,
    /// The driver's handles of both fences.
    globals: [KmdGlobalFence; 2],
}

impl World {
    /// Each fence's MonitoredValue, as the kernel told the driver last since the last call.
    fn monitored(&self) -> [Option<u64>; 2] {
        let steps = std::mem::take(&mut *self.told.lock().unwrap());
        let of_fence = |step: FenceStep| match step {
            FenceStep::Monitored(values) => values,
            _ => Vec::new(),
        };
        let values: Vec<_> = steps.into_iter().flat_map(of_fence).collect();
        self.globals.map(|global| values.iter().rev().find(|(fence, _)| *fence == global).map(|(_, value)| *value))
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

/// One waits for 5 and 6 of two fences, another process for 9 of each; then the first is gone.
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
    let request = || NativeFenceRequest { flags, ..Default::default() };
    let theirs = [0; 2].map(|_| second.gpu.device().create_native_fence(request()).unwrap());
    let created = |step: &FenceStep| if let FenceStep::Create(fence) = step { Some(*fence) } else { None };
    let globals: Vec<_> = told.lock().unwrap().iter().filter_map(created).collect();
    let globals = globals.try_into().expect("both were created");
    let world = World { host: Arc::clone(&host), heard, told, globals };
    let mine = theirs.each_ref().map(|fence| {
        let name = fence.share(SyncObjectAccess::ALL_ACCESS).unwrap();
        let by = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
        first.gpu.device().open_native_fence(by).unwrap()
    });
    let other = first.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    let later = theirs.each_ref().map(|fence| begin_wait(&host, &second, fence, 9));
    let earlier = match cause {
        Cause::AnotherFence | Cause::AnotherFenceClosed => {
            let points = vec![(mine[0].handle(), 5), (other.handle(), 1), (mine[1].handle(), 6)];
            vec![begin_any(&host, &first, points)]
        }
        _ => [(&mine[0], 5), (&mine[1], 6)].map(|(fence, value)| begin_wait(&host, &first, fence, value)).to_vec(),
    };
    let over = |waits: &[Pending]| waits.iter().all(|wait| host.take_answer(*wait).is_some());
    world.drain();
    assert_eq!(world.monitored(), [Some(4), Some(5)], "{cause:?}: the earliest waits for 5, and for 6");
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
            assert!(over(&earlier), "its call is over");
            drop(link);
        }
        Cause::DeviceLost => {
            let mut commands = Commands::new();
            commands.fill(GpuVa(1 << 40), 8, 1);
            let mut first = first;
            // Fences that the device may signal count as signalled then, but not fences that it only waits for.
            first.stream.submit(&first.gpu, &[], &commands).expect("a submission");
            world.drain();
            assert!(over(&earlier), "its call is over");
            std::mem::forget((mine, other, first));
        }
        Cause::Closed => {
            drop(mine);
            world.drain();
            assert!(over(&earlier), "its wait is over");
        }
        Cause::AnotherFence => {
            first.gpu.device().signal(&other, 1).unwrap();
            world.drain();
            assert!(over(&earlier), "one of them is enough");
            std::mem::forget((mine, other, first));
        }
        Cause::AnotherFenceClosed => {
            drop(other);
            world.drain();
            assert!(over(&earlier), "it ends with the first that is closed");
            std::mem::forget((mine, first));
        }
    }
    world.drain();
    // A close ends all waits, unless a flag says otherwise; when a device is lost, the fences that it may signal count as signalled.
    let all_over = matches!(cause, Cause::Closed | Cause::DeviceLost);
    let expected = if all_over { NO_WAITER } else { 8 };
    assert_eq!(world.monitored(), [Some(expected); 2], "{cause:?}: the waiters that are left");
    for (fence, wait) in theirs.iter().zip(later) {
        assert_eq!(host.take_answer(wait).is_some(), all_over, "{cause:?}");
        if !all_over {
            assert_eq!(world.interrupts_of_signal(&mut second, fence, 8), 0, "{cause:?}: no waiter needs 8 or less");
            assert_eq!(world.interrupts_of_signal(&mut second, fence, 9), 1, "{cause:?}");
            assert!(host.take_answer(wait).is_some(), "{cause:?}");
        }
    }
    host.check_invariants().unwrap();
}

#[test]
fn a_waiter_that_is_gone_is_a_cause_of_an_update() {
    // spec: sync §1.3, sync §3.4, sync §3.9 step 1
    // seed: N123 (two)
    for cause in [
        Cause::Death,
        Cause::DeviceDestroyed,
        Cause::DeviceLost,
        Cause::Closed,
        Cause::AnotherFence,
        Cause::AnotherFenceClosed,
    ] {
        goes(cause);
    }
}
