//! Fewer doorbells than queues: the driver takes them from one process and gives them to another, whose address for them stays the same
//! (sync §2.9, §3.17).

use dxgk_host::Mode;
use events::{DoorbellTaken, Event};
use softgpu_umd::Stream;

use super::*;
use crate::timeouts::drain;
use stack::heard::{Heard, heard_on};
use stack::world::VIRTUAL;

/// A host with one doorbell for all, and its events of doorbells.
fn host(mode: Mode) -> (Arc<Host>, Heard) {
    let doorbells =
        |event: &Event| matches!(event, Event::DoorbellConnected { .. } | Event::DoorbellDisconnected { .. });
    heard_on("few-doorbells", mode, 8 * MIB, doorbells)
}

/// Submits a fill of the words of a surface with the number of the submission; the value that completes it.
fn fill(stream: &mut Stream, client: &Client, surface: &Surface, number: u32) -> u64 {
    let mut commands = Commands::new();
    commands.fill(surface.va(), 4096, number);
    stream.submit(&client.gpu, &[], &commands).expect("a submission")
}

fn filled(surface: &Surface) -> u64 {
    surface.lock().expect("system memory").read_word(0) & 0xffff_ffff
}

#[test]
fn the_address_stays_and_leads_nowhere_while_another_queue_has_the_doorbell() {
    // spec: sync §2.9, sync §3.17
    let (host, heard) = host(VIRTUAL);
    let client = client(&host);
    let ring = client.pinned(SurfaceKind::System, 4096);
    let party = Party { bells: [(); 2].map(|()| bell(&client, &ring)), client, ring };
    let page = |of: usize| party.client.link.doorbell(party.bells[of].address).expect("its own");
    let addresses = [0, 1].map(|of| page(of).range().map(shared_words::AddressRange::base));
    // A doorbell that was never connected leads nowhere, too: this would be a fault.
    page(1).ring(1 << 40);
    heard.take();
    for (connects, other) in [(0, 1), (1, 0), (0, 1)] {
        party.connect(connects).expect("it connects");
        let told = heard.take();
        assert!(
            matches!(
                told[..],
                [Event::DoorbellDisconnected { why: DoorbellTaken::Driver, .. }, Event::DoorbellConnected { .. }]
            ),
            "{told:?}"
        );
        let mut expected = [CONNECTED; 2];
        expected[other] = RETRY;
        assert_eq!(party.statuses(), expected);
        page(other).ring(1 << 40);
        drain(&host);
        if let Some(range) = page(connects).range() {
            assert_eq!(range.word(0).load(std::sync::atomic::Ordering::Relaxed), 0, "nothing was rung there");
        }
    }
    assert_eq!([0, 1].map(|of| page(of).range().map(shared_words::AddressRange::base)), addresses);
    assert_eq!(
        party.client.gpu.device().state().expect("a state"),
        DeviceState::Active,
        "no ring of the other one was heard"
    );
    // No other process has these doorbells, and after their destruction none has.
    let stranger = stack::world::client(&host);
    assert!(stranger.link.doorbell(party.bells[0].address).is_none());
    let held = page(0);
    for Bell { doorbell, address, .. } in &party.bells {
        let destroy = QueueCall::DestroyDoorbell { doorbell: *doorbell };
        party.client.link.call(Call::Queue(destroy)).expect("it is destroyed");
        assert!(party.client.link.doorbell(*address).is_none());
    }
    held.ring(1 << 40);
    drain(&host);
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

#[test]
fn queues_with_one_doorbell_among_them_lose_nothing() {
    // spec: sync §3.17, sync §3.19
    const ROUNDS: u32 = 20;
    let (host, heard) = host(VIRTUAL);
    let mut clients = [(); 3].map(|()| client(&host));
    let surfaces = clients.each_ref().map(|client| client.pinned(SurfaceKind::System, 4096));
    let before = host.counters();
    heard.take();
    for round in 1..=ROUNDS {
        for (of, client) in clients.iter_mut().enumerate() {
            let Client { stream, gpu, .. } = client;
            let mut commands = Commands::new();
            commands.fill(surfaces[of].va(), 4096, round);
            stream.submit(gpu, &[], &commands).expect("a submission");
        }
    }
    for client in &mut clients {
        let last = client.stream.last_value();
        client.stream.wait(&client.gpu, last).expect("everything ran");
        assert_eq!(client.stream.progress().current(), last, "and no more than that");
    }
    assert_eq!(surfaces.each_ref().map(filled), [u64::from(ROUNDS); 3]);
    let counters = host.counters();
    let passed_on = counters.doorbells_passed_on - before.doorbells_passed_on;
    assert_eq!(passed_on, 3 * u64::from(ROUNDS), "each ring took it from the one before");
    let connected = heard.take().into_iter().filter(|event| matches!(event, Event::DoorbellConnected { .. })).count();
    assert_eq!(connected as u64, passed_on);
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

/// Processes on threads of their own, which take the doorbell from each other in the middle of whatever they do.
#[test]
fn processes_that_ring_at_once_lose_nothing() {
    // spec: sync §3.17, sync §3.19
    const ROUNDS: u32 = 150;
    let (host, _) = host(Mode::Real);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut own = client(&host);
                let surface = own.pinned(SurfaceKind::System, 4096);
                let mut stream = Stream::create(&own.gpu, NodeId(1), Default::default()).expect("a second stream");
                for round in 1..=ROUNDS {
                    fill(&mut stream, &own, &surface, round);
                    let mut commands = Commands::new();
                    commands.touch(surface.va(), 4096, false);
                    own.stream.submit(&own.gpu, &[], &commands).expect("a submission");
                }
                let last = stream.last_value();
                stream.wait(&own.gpu, last).expect("everything ran");
                let last = own.stream.last_value();
                own.stream.wait(&own.gpu, last).expect("everything ran");
                assert_eq!(filled(&surface), u64::from(ROUNDS));
            });
        }
    });
    assert!(host.counters().doorbells_passed_on > 0, "there is one for six queues");
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

#[test]
fn private_data_of_a_doorbell_have_a_limit() {
    // spec: sync §2.9, sync §5
    let (host, _) = host(VIRTUAL);
    let client = client(&host);
    let ring = client.pinned(SurfaceKind::System, 4096);
    let call = |call| client.link.call(Call::Queue(call));
    let device = client.gpu.device().handle();
    let made = call(QueueCall::CreateHwContext { device, node: NodeId(0), private_data: Vec::new() });
    let Ok(Reply::Handle(context)) = made else { panic!("no context: {made:?}") };
    let made =
        call(QueueCall::CreateHwQueue { context, flags: QueueFlags::USER_MODE_SUBMISSION, private_data: Vec::new() });
    let Ok(Reply::HwQueue(queue)) = made else { panic!("no queue: {made:?}") };
    let (queue, ring_va, ring) = (queue.queue, ring.va(), ring.allocation().handle());
    let create = |bytes| call(QueueCall::CreateDoorbell { queue, ring, ring_va, private_data: vec![0xff; bytes] });
    let digest = host.state_digest();
    assert_eq!(create(17).expect_err("too many").status, NtStatus::INVALID_PARAMETER);
    assert_eq!(host.state_digest(), digest);
    let Ok(Reply::Doorbell(made)) = create(16) else { panic!("no doorbell") };
    assert_eq!((made.private_data.len(), &made.private_data[8..]), (16, &[0xff; 8][..]), "as many as there were");
    assert_ne!(made.private_data[..8], [0xff; 8], "its queue's number");
}
