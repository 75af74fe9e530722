//! Doorbells of processes: created, assigned, taken away.

use ddi::{HwQueueFlags, KmdContext, Miniport};
use device_port::DevicePort;
use softgpu_spec::register::queue_state;
use wddm_types::GpuVa;

use super::*;
use crate::config::KmdConfig;
use crate::fake_port::{DOORBELLS, FakeHost, FakePort, context, started, stopped};
use crate::queues::tests::{create, set_root, submit};

/// A kernel that takes doorbells away, and notes which.
#[derive(Default)]
struct Taken(Vec<(u64, u64)>);

impl DoorbellHost for Taken {
    fn disconnect_doorbell(
        &mut self,
        queue: OsQueue,
        doorbell: OsDoorbell,
        reason: Disconnected,
    ) -> Result<(), DriverStatus> {
        assert_eq!(reason, Disconnected::Retry);
        self.0.push((queue.0, doorbell.0));
        Ok(())
    }
}

fn make(kmd: &mut SoftGpuKmd, queue: KmdQueue, number: u64, ring: (u64, u64)) -> Result<KmdDoorbell, DriverStatus> {
    kmd.doorbells().unwrap().create_doorbell(CreateDoorbell {
        queue,
        os_queue: OsQueue(number),
        doorbell: OsDoorbell(10 + number),
        ring: GpuVa(ring.0),
        ring_bytes: ring.1,
        private_data: &mut [0; 8],
    })
}

/// The physical doorbell.
fn connect(kmd: &mut SoftGpuKmd, taken: &mut Taken, doorbell: KmdDoorbell) -> u32 {
    let connected = kmd.doorbells().unwrap().connect_doorbell(taken, doorbell).unwrap();
    softgpu_spec::doorbell::of_page(connected.offset).expect("a page of its own")
}

/// The writes that bind queues to doorbells: queue, doorbell.
fn told(port: &FakePort) -> Vec<(u64, u64)> {
    let (mut selected, mut told) = (0, Vec::new());
    for (register, value) in port.writes() {
        match register {
            register::QUEUE_SELECT => selected = value,
            register::QUEUE_DOORBELL => told.push((selected, value)),
            _ => {}
        }
    }
    told
}

fn user_queue(kmd: &mut SoftGpuKmd, host: &mut FakeHost, context: KmdContext) -> KmdQueue {
    create(kmd, host, context, HwQueueFlags::USER_MODE_SUBMISSION).unwrap()
}

const PAGE: [u32; 2] = [QUEUE_COUNT, QUEUE_COUNT + 1];

#[test]
fn a_doorbell_enables_at_its_first_connect_and_disables_when_destroyed() {
    // spec: sync §3.17, sync §2.9
    let (mut kmd, port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 0, false);
    set_root(&mut kmd, context, 0x5000);
    let queue = user_queue(&mut kmd, &mut host, context);
    assert!(host.lent.is_empty(), "the ring is the process's");
    assert!(
        matches!(submit(&mut kmd, queue, 1, 64), Err(DriverStatus::InvalidParameter(_))),
        "no work from the kernel"
    );
    for ring in [(0, 4096), (0x4008, 4096), (0x4000, 2048), (0x4000, 5000)] {
        assert!(make(&mut kmd, queue, 1, ring).is_err());
    }
    port.writes();
    let doorbell = make(&mut kmd, queue, 1, (0x4000, 8192)).unwrap();
    assert!(make(&mut kmd, queue, 1, (0x4000, 8192)).is_err(), "one doorbell a queue");
    assert_eq!((port.writes(), port.queue(0)), (vec![], queue_state::DISABLED), "data only, no physical doorbell");
    let mut taken = Taken::default();
    let connected = kmd.doorbells().unwrap().connect_doorbell(&mut taken, doorbell).unwrap();
    assert_eq!((connected.offset, port.queue(0)), (softgpu_spec::doorbell::OWN_BYTES, queue_state::READY));
    let writes = port.writes();
    assert!(writes.contains(&(register::QUEUE_RING, 0x4000)) && writes.contains(&(register::QUEUE_FLAGS, 0)));
    let enabled = writes.iter().position(|write| *write == (register::QUEUE_CONTROL, 1));
    let listens = writes.iter().position(|write| *write == (register::QUEUE_DOORBELL, u64::from(PAGE[0])));
    assert!(enabled.is_some() && enabled < listens, "{writes:?}");
    kmd.doorbells().unwrap().notify_work_submission(queue);
    assert_eq!(port.rung(), [PAGE[0]]);

    kmd.doorbells().unwrap().disconnect_doorbell(doorbell);
    assert_eq!((port.queue(0), told(&port)), (queue_state::READY, vec![(0, 0)]), "what was rung still runs");
    kmd.doorbells().unwrap().notify_work_submission(queue);
    assert_eq!(port.rung(), [0]);
    connect(&mut kmd, &mut taken, doorbell);
    assert_eq!(port.writes().len(), 2, "it was never disabled: nothing runs twice");
    connect(&mut kmd, &mut taken, doorbell);
    assert_eq!((port.writes(), &taken.0[..]), (vec![], &[][..]), "it has one");
    kmd.doorbells().unwrap().destroy_doorbell(doorbell);
    assert_eq!(port.queue(0), queue_state::DISABLED);
    kmd.hardware_queues().unwrap().destroy_hw_queue(&mut host, queue);
}

#[test]
fn a_queue_without_a_free_doorbell_takes_one_from_who_needs_it_least() {
    // spec: sync §3.17
    assert_eq!(DOORBELLS, 2);
    // The first queue has something to do, the second has not; either was connected before the third.
    for (victims, loser) in [(VictimPolicy::Idle, 1), (VictimPolicy::Oldest, 0)] {
        let (mut kmd, port) = stopped(KmdConfig { victims, ..KmdConfig::default() });
        let mut host = FakeHost::default();
        kmd.start_device(&mut host).unwrap();
        let (_, _, context) = context(&mut kmd, 0, false);
        set_root(&mut kmd, context, 0x5000);
        let bells = [0, 1, 2].map(|number| {
            let queue = user_queue(&mut kmd, &mut host, context);
            make(&mut kmd, queue, number, (0x4000, 8192)).unwrap()
        });
        let mut taken = Taken::default();
        let given = [0, 1].map(|bell| connect(&mut kmd, &mut taken, bells[bell]));
        assert_eq!((given, taken.0.len()), (PAGE, 0), "no queue loses its doorbell while free ones are left");
        let rung = softgpu_spec::doorbell::offset(given[0]) + VALUE_OFFSET;
        Word::store(port.doorbell_page().word(rung), 64);
        port.writes();
        let third = connect(&mut kmd, &mut taken, bells[2]);
        assert_eq!((third, &taken.0[..]), (PAGE[loser], &[(loser as u64, 10 + loser as u64)][..]), "{victims:?}");
        // The loser goes back to its own doorbell before the other queue takes the physical one.
        assert_eq!(told(&port), [(loser as u64, loser as u64), (2, u64::from(third))], "{victims:?}");
        // A freed doorbell is given without taking one from another queue.
        kmd.doorbells().unwrap().disconnect_doorbell(bells[2]);
        assert_eq!((connect(&mut kmd, &mut taken, bells[loser]), taken.0.len()), (third, 1));
    }
}

#[test]
fn a_device_without_doorbells_for_processes_connects_none() {
    // spec: sync §3.17
    let (mut kmd, port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 0, false);
    set_root(&mut kmd, context, 0x5000);
    let queue = user_queue(&mut kmd, &mut host, context);
    let doorbell = make(&mut kmd, queue, 1, (0x4000, 8192)).unwrap();
    port.set(register::DOORBELLS, 0);
    let refused = kmd.doorbells().unwrap().connect_doorbell(&mut Taken::default(), doorbell);
    assert!(matches!(refused, Err(DriverStatus::Unsuccessful(_))), "{refused:?}");
}
