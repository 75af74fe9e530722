//! Doorbells while the whole adapter sleeps: they are taken away before anything is saved, connecting one wakes the adapter, and
//! nothing that was rung is lost (sync §3.17).

use std::sync::atomic::{AtomicU32, Ordering};

use ddi::PowerState;
use dxgk_host::{HostConfig, Mode, Profile};
use events::{DoorbellTaken, Event};

use super::*;
use crate::falling_asleep;
use stack::heard::heard_on;

const STATES: [PowerState; 2] = [PowerState::Standby, PowerState::Hibernate];

fn told(event: &Event) -> bool {
    matches!(
        event,
        Event::PowerChanged { .. }
            | Event::DeviceSuspended { .. }
            | Event::DeviceResumed { .. }
            | Event::DoorbellConnected { .. }
            | Event::DoorbellDisconnected { .. }
    )
}

impl Party {
    fn notify(&self, bell: usize) -> Result<Reply, kmt_calls::Refusal> {
        let doorbell = self.bells[bell].doorbell;
        self.client.link.call(Call::Queue(QueueCall::NotifyWorkSubmission { doorbell }))
    }

    /// Fills one of its own surfaces by its stream.
    fn fills(&mut self, surface: &Surface, number: u32) -> u64 {
        let mut commands = Commands::new();
        commands.fill(surface.va(), 4096, number);
        self.client.stream.submit(&self.client.gpu, &[], &commands).expect("a submission")
    }
}

#[test]
fn a_sleep_takes_every_doorbell_and_connecting_one_ends_it() {
    // spec: sync §3.17, sync §2.9
    for state in STATES {
        let (host, heard) = heard_on("discrete-4k", VIRTUAL, 8 * MIB, told);
        let (mut party, other) = (Party::new(&host), Party::new(&host));
        let surface = party.client.pinned(SurfaceKind::Local, 4096);
        let done = party.fills(&surface, 7);
        party.client.stream.wait(&party.client.gpu, done).expect("it runs");
        drain(&host);
        heard.take();
        host.power_transition(state).expect("it falls asleep");
        assert_eq!([party.statuses(), other.statuses()], [[RETRY; 2]; 2]);
        let going = heard.take();
        assert!(matches!(going[0], Event::PowerChanged { on: false, .. }));
        let suspended = |event: &&Event| matches!(event, Event::DeviceSuspended { .. });
        let taken = |event: &&Event| matches!(event, Event::DoorbellDisconnected { why: DoorbellTaken::Power, .. });
        assert_eq!(going[1..].iter().take_while(suspended).count(), 2, "contexts first: {going:?}");
        // Each party has one connected, and the stream's.
        assert_eq!(going[3..].iter().take_while(taken).count(), 4, "then doorbells: {going:?}");
        assert_eq!(going.len(), 7);
        // There is nothing to be notified of, and nothing that a refusal would change.
        let digest = host.state_digest();
        assert_eq!(party.notify(0).expect_err("it sleeps").status, NtStatus::RETRY);
        assert_eq!(host.state_digest(), digest);
        // A store to the disconnected doorbell reaches no engine.
        party.client.link.doorbell(party.bells[0].address).expect("its own").ring(1 << 40);
        other.connect(0).expect("that wakes it");
        let coming = heard.take();
        assert!(
            matches!(coming[..2], [Event::PowerChanged { on: true, .. }, Event::DoorbellConnected { .. }]),
            "{coming:?}"
        );
        assert_eq!([party.statuses(), other.statuses()], [[RETRY; 2], [CONNECTED, RETRY]], "one, and no other");
        let awake = host.power_transition(PowerState::On).expect_err("it does not sleep any more");
        assert_eq!(awake.status, NtStatus::INVALID_PARAMETER);
        // The next ring connects its doorbell by itself, and the memory is as it was.
        let report = party.client.pinned(SurfaceKind::System, 4096);
        let mut commands = Commands::new();
        commands.copy(surface.va(), report.va(), 4096);
        let last = party.client.stream.submit(&party.client.gpu, &[], &commands).expect("a submission");
        party.client.stream.wait(&party.client.gpu, last).expect("it runs");
        assert_eq!(report.lock().expect("system memory").read_word(0), 7 << 32 | 7);
        let resumed = heard.take().iter().filter(|event| matches!(event, Event::DeviceResumed { .. })).count();
        assert!(resumed >= 1, "contexts come last");
        host.check_invariants().unwrap();
        assert_eq!(host.stopped(), None);
    }
}

#[test]
fn what_was_rung_before_a_sleep_runs_after_it() {
    // spec: sync §3.17, sync §3.19
    for state in STATES {
        let (host, _, _) = timeouts::host(impatient());
        let mut party = Party::new(&host);
        let surface = party.client.pinned(SurfaceKind::Local, MIB);
        drain(&host);
        let value = works(&mut party.client, &surface, 20);
        assert!(party.client.stream.progress().current() < value, "it is under way");
        host.power_transition(state).expect("it falls asleep");
        assert!(party.client.stream.progress().current() < value, "it was interrupted");
        host.power_transition(PowerState::On).expect("it wakes");
        assert_eq!(party.statuses(), [RETRY; 2], "no process has connected");
        let asleep = awaits(&host, &party.client, party.client.stream.progress(), value);
        drain(&host);
        host.take_answer(asleep).expect("it is over").expect("the work ends without another ring");
        host.check_invariants().unwrap();
    }
}

#[test]
fn who_connects_while_content_is_saved_is_answered_after_the_wake_that_it_causes() {
    // spec: sync §3.17
    for destroyed in [false, true] {
        let never = RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() };
        let (host, _, fault) = timeouts::host(never);
        let party = Party::new(&host);
        let mut hung = client(&host);
        fault.hold(Hold::Runs);
        let surface = hung.pinned(SurfaceKind::Local, MIB);
        drain(&host);
        works(&mut hung, &surface, 5);
        let stays = host.power_transition(PowerState::Standby).expect_err("a context does not leave the hardware");
        assert_eq!(stays.status, NtStatus::TIMEOUT);
        assert_eq!(party.statuses(), [RETRY; 2], "and has lost its doorbell all the same");
        let doorbell = party.bells[0].doorbell;
        let connect = Call::Queue(QueueCall::ConnectDoorbell { doorbell });
        let pending = host.begin_call(party.client.link.process(), connect).expect_err("there is no power for it yet");
        drain(&host);
        assert!(host.take_answer(pending).is_none());
        if destroyed {
            party.client.link.call(Call::Queue(QueueCall::DestroyDoorbell { doorbell })).expect("it goes");
        }
        drop((surface, hung));
        drain(&host);
        let answer = host.take_answer(pending).expect("it has slept");
        let wakes = host.power_transition(PowerState::On);
        if destroyed {
            assert_eq!(answer.expect_err("what for?").status, NtStatus::INVALID_PARAMETER);
            wakes.expect("no other work had woken the adapter");
        } else {
            assert!(matches!(answer, Ok(Reply::DoorbellConnected { .. })), "{answer:?}");
            assert_eq!(wakes.expect_err("it is awake").status, NtStatus::INVALID_PARAMETER);
            assert_eq!(party.statuses(), [CONNECTED, RETRY]);
        }
        host.check_invariants().unwrap();
        assert_eq!(host.stopped(), None);
    }
}

/// The paging ring waits for work that is in the way of a sleep: until that work has ended the kernel quiesces no context, and a queue that
/// needs its doorbell has it.
#[test]
fn a_process_that_connects_before_any_device_is_quiesced_is_connected_at_once() {
    // spec: sync §3.17, memory §8.4
    let (host, fault) = falling_asleep::patient_host();
    let (party, busy) = (Party::new(&host), falling_asleep::busy_client(&host, &fault));
    host.power_transition(PowerState::Standby).expect_err("it waits for the work");
    assert_eq!(party.statuses(), [CONNECTED, RETRY], "not yet");
    party.connect(1).expect("there is power");
    assert_eq!(party.statuses(), [CONNECTED; 2]);
    drop(busy);
    drain(&host);
    assert_eq!(party.statuses(), [RETRY; 2], "now it sleeps");
    host.power_transition(PowerState::On).expect("no process has woken it");
    host.check_invariants().unwrap();
}

#[test]
fn a_doorbell_that_is_lost_wakes_no_adapter() {
    // spec: sync §3.17, sync §5
    let host = stack::world::host(VIRTUAL, 4 * MIB);
    let mut guilty = Party::new(&host);
    let mut wild = Commands::new();
    wild.fill(GpuVa(0x7fff_0000_0000), 4096, 1);
    let value = guilty.client.stream.submit(&guilty.client.gpu, &[], &wild).expect("a submission");
    guilty.client.stream.wait(&guilty.client.gpu, value).expect_err("the device is lost");
    host.power_transition(PowerState::Standby).expect("it falls asleep");
    assert_eq!(guilty.connect(0).expect_err("it is lost").status, NtStatus::DEVICE_REMOVED);
    host.power_transition(PowerState::On).expect("it slept on");
}

/// Rings, sleeps and wakes at once: a process that finds its doorbell gone wakes the adapter and rings again, and no ring is lost.
#[test]
fn rings_in_the_middle_of_a_sleep_lose_nothing() {
    // spec: sync §3.17, sync §3.19
    const ROUNDS: u32 = 40;
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        recovery: RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() },
        ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real)
    };
    let host = Host::start(config).expect("the host starts");
    let mut parties = [(); 2].map(|()| {
        let party = Party::new(&host);
        let surfaces = [SurfaceKind::Local, SurfaceKind::System].map(|kind| party.client.pinned(kind, 4096));
        (party, surfaces)
    });
    let (rounds, all) = (AtomicU32::new(0), 2 * ROUNDS);
    std::thread::scope(|scope| {
        for (party, [local, copy]) in &mut parties {
            let rounds = &rounds;
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    party.fills(local, round);
                    let Client { stream, gpu, .. } = &mut party.client;
                    let mut commands = Commands::new();
                    commands.copy(local.va(), copy.va(), 4096);
                    let last = stream.submit(gpu, &[], &commands).expect("a submission");
                    while let Err(error) = stream.wait(gpu, last) {
                        let asleep = matches!(&error, UmdError::Refused(refusal) if refusal.status == NtStatus::RETRY);
                        assert!(asleep, "{error}");
                        std::thread::yield_now();
                    }
                    assert_eq!(stream.progress().current(), last, "and no more than that");
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for state in STATES.into_iter().cycle() {
            host.power_transition(state).expect("it falls asleep");
            if let Err(refusal) = host.power_transition(PowerState::On) {
                assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER, "woken already: {refusal}");
            }
            // Sleeps and wakes without a pause would let no round complete.
            let known = rounds.load(Ordering::SeqCst);
            while known < all && rounds.load(Ordering::SeqCst) == known {
                std::thread::yield_now();
            }
            if rounds.load(Ordering::SeqCst) == all {
                break;
            }
        }
    });
    for (_, [_, copy]) in &parties {
        assert_eq!(copy.lock().expect("system memory").read_word(0) & 0xffff_ffff, u64::from(ROUNDS));
    }
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}
