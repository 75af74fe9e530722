//! The status words of a process's doorbells when its device is lost, in every way to lose it (sync §3.17).

mod asleep;
mod passed_on;
mod rings;

use std::sync::Arc;

use d3dkmt::DeviceState;
use dxgk_host::{Host, RecoveryPolicy};
use kmt_calls::{Call, CreatedDoorbell, DoorbellAddress, QueueCall, QueueFlags, Reply};
use kmt_link::Link;
use shared_words::ReadOnlyWord;
use softgpu_umd::{Commands, Surface, SurfaceKind, UmdError};
use wddm_types::{GpuVa, NodeId, NtStatus, RawHandle};

use crate::resets::{Breakage, Worker, break_hardware};
use crate::timeouts::{self, Fault, Hold, awaits, drain, impatient, works};
use stack::world::{Client, MIB, VIRTUAL, client};

/// `D3DDDI_DOORBELLSTATUS`.
const CONNECTED: u64 = 0;
const RETRY: u64 = 2;
const ABORT: u64 = 3;

/// A process with two doorbells of its own, one connected and one that never was.
struct Party {
    client: Client,
    bells: [Bell; 2],
    ring: Surface,
}

struct Bell {
    status: ReadOnlyWord,
    doorbell: RawHandle,
    address: DoorbellAddress,
}

impl Party {
    fn new(host: &Arc<Host>) -> Party {
        Party::of(client(host))
    }

    fn of(client: Client) -> Party {
        let ring = client.pinned(SurfaceKind::System, 4096);
        let bells = [(); 2].map(|()| bell(&client, &ring));
        let party = Party { client, bells, ring };
        party.connect(0).expect("it connects");
        assert_eq!(party.statuses(), [CONNECTED, RETRY]);
        party
    }

    fn connect(&self, bell: usize) -> Result<Reply, kmt_calls::Refusal> {
        let doorbell = self.bells[bell].doorbell;
        self.client.link.call(Call::Queue(QueueCall::ConnectDoorbell { doorbell }))
    }

    fn statuses(&self) -> [u64; 2] {
        [0, 1].map(|bell| self.bells[bell].status.load())
    }

    /// Nothing can be done with its doorbells but to destroy them.
    fn has_lost_them(self, state: DeviceState) {
        assert_eq!(self.client.gpu.device().state().expect("a state"), state);
        for bell in 0..2 {
            assert_eq!(self.statuses()[bell], ABORT, "{state:?}, doorbell {bell}");
            let refused = self.connect(bell).expect_err("it is lost");
            assert_eq!(refused.status, NtStatus::DEVICE_REMOVED, "{state:?}: {}", refused.reason);
            assert_eq!(self.statuses()[bell], ABORT, "the refusal changes nothing");
        }
        for Bell { doorbell, .. } in &self.bells {
            let destroy = QueueCall::DestroyDoorbell { doorbell: *doorbell };
            self.client.link.call(Call::Queue(destroy)).expect("it is destroyed");
        }
        drop((self.ring, self.client));
    }
}

fn bell(client: &Client, ring: &Surface) -> Bell {
    let made = made_by_hand(client, ring);
    Bell { status: client.link.read_only(made.status), doorbell: made.doorbell, address: made.address }
}

/// A doorbell of a queue that takes this for its ring, made call by call: it is not connected.
pub fn made_by_hand(client: &Client, ring: &Surface) -> CreatedDoorbell {
    let call = |call| client.link.call(Call::Queue(call)).expect("it is made");
    let device = client.gpu.device().handle();
    let made = call(QueueCall::CreateHwContext { device, node: NodeId(0), private_data: Vec::new() });
    let Reply::Handle(context) = made else { panic!("no context: {made:?}") };
    let made =
        call(QueueCall::CreateHwQueue { context, flags: QueueFlags::USER_MODE_SUBMISSION, private_data: Vec::new() });
    let Reply::HwQueue(queue) = made else { panic!("no queue: {made:?}") };
    let (ring_va, ring) = (ring.va(), ring.allocation().handle());
    let made = call(QueueCall::CreateDoorbell { queue: queue.queue, ring, ring_va, private_data: Vec::new() });
    let Reply::Doorbell(made) = made else { panic!("no doorbell: {made:?}") };
    made
}

#[test]
fn a_fault_takes_the_doorbells_of_its_device_and_no_other_s() {
    // spec: sync §3.16, sync §3.17
    let host = stack::world::host(VIRTUAL, 4 * MIB);
    let (mut guilty, innocent) = (Party::new(&host), Party::new(&host));
    let mut wild = Commands::new();
    wild.fill(GpuVa(0x7fff_0000_0000), 4096, 1);
    let of = &mut guilty.client;
    let value = of.stream.submit(&of.gpu, &[], &wild).expect("a submission");
    of.stream.wait(&of.gpu, value).expect_err("the device is lost");
    let next = of.stream.submit(&of.gpu, &[], &Commands::new());
    assert!(matches!(next, Err(UmdError::Lost(DeviceState::ErrorDmaPageFault))), "nothing is rung any more: {next:?}");
    guilty.has_lost_them(DeviceState::ErrorDmaPageFault);
    assert_eq!(innocent.statuses(), [CONNECTED, RETRY]);
    innocent.connect(1).expect("it connects");
    assert_eq!(innocent.statuses(), [CONNECTED, CONNECTED]);
    host.check_invariants().unwrap();
}

/// A queue that stays on its engine, and another process beside it.
fn hang(how: Hold) -> (Arc<Host>, Party, Party) {
    let (host, _, fault): (Arc<Host>, _, Arc<Fault>) = timeouts::host(impatient());
    let other = Party::new(&host);
    let hung = client(&host);
    fault.hold(how);
    let mut hung = Party::of(hung);
    let surface = hung.client.pinned(SurfaceKind::Local, MIB);
    drain(&host);
    let never = works(&mut hung.client, &surface, 1_000);
    let asleep = awaits(&host, &hung.client, hung.client.stream.progress(), never);
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect_err("the device is lost");
    std::mem::forget(surface);
    (host, hung, other)
}

#[test]
fn an_engine_reset_takes_the_doorbells_of_who_is_hung() {
    // spec: sync §3.17, sync §4.4
    let (host, hung, other) = hang(Hold::Runs);
    hung.has_lost_them(DeviceState::Hung);
    assert_eq!(other.statuses(), [CONNECTED, RETRY]);
    host.check_invariants().unwrap();
}

#[test]
fn an_adapter_reset_takes_every_doorbell() {
    // spec: sync §3.17, sync §4.4
    let (host, hung, other) = hang(Hold::Sticks);
    hung.has_lost_them(DeviceState::Reset);
    other.has_lost_them(DeviceState::Reset);
    // A new client connects as after a start.
    Party::new(&host);
    host.check_invariants().unwrap();
}

#[test]
fn an_adapter_that_stops_takes_every_doorbell() {
    // spec: sync §3.17, memory §8.4
    let breakage = Breakage::default();
    *breakage.refusal.lock().unwrap() = Some("reset it may not");
    let (host, _) = breakage.host("discrete-4k", VIRTUAL, RecoveryPolicy::default());
    let party = Party::new(&host);
    let mut worker = Worker::new(&host);
    break_hardware(&breakage, &mut worker);
    assert!(host.stopped().is_some());
    party.has_lost_them(DeviceState::Stopped);
    // And so does PnP.
    let host = stack::world::host(VIRTUAL, 4 * MIB);
    let party = Party::new(&host);
    host.stop_adapter().expect("it stops");
    party.has_lost_them(DeviceState::Stopped);
}
