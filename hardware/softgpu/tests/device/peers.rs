//! Two devices with a lane between them, each unit with a store buffer: a device that is rung finds the other one's signal (sync §3.18).

use std::sync::Weak;

use device_port::{Observation, PeerBell};
use softgpu_spec::doorbell;

use super::*;

/// Bytes of system memory: the fence, its MonitoredValues, what the woken queue signals, each device's inbox and ring.
const CURRENT: u64 = 0x1_0000;
const MONITORED: u64 = CURRENT + 64;
const ANSWER: u64 = CURRENT + 128;
const INBOXES: [u64; 2] = [0x2_0000, 0x2_1000];
const RINGS: [u64; 2] = [0x8000, 0x9000];
const FENCE: u64 = 77;

struct Buffers;

impl Probe for Buffers {
    fn observe(&self, _at_ns: u64, _what: Observation) {}

    fn buffers_stores(&self) -> bool {
        true
    }
}

fn va(offset: u64) -> u64 {
    SYSTEM + offset - CURRENT
}

/// Both know the fence, and each the other.
fn pair() -> [Rig; 2] {
    let system = Memory::reserve(1 << 20).unwrap();
    [MONITORED, ANSWER + 64].iter().for_each(|at| Word::store(system.word(*at), u64::MAX));
    let rigs = [0, 1].map(|own| {
        let probe = Some(Arc::new(Buffers) as Arc<dyn Probe>);
        let rig = Rig::probed(CONFIG, Arc::clone(&system), Arc::new(Pin::default()), false, probe);
        rig.map_pages();
        rig.enable(1, engine_of(false), RINGS[own], false);
        rig
    });
    for (own, peer) in [(0, 1), (1, 0)] {
        let gpu = &rigs[own].gpu;
        gpu.connect_peer(peer as u32, Arc::downgrade(&rigs[peer].gpu) as Weak<dyn PeerBell>);
        for (register, value) in [
            (PEER_SELF, own as u64),
            (PEER_INBOX, SYSTEM_BASE + INBOXES[own]),
            (PEER_SELECT, peer as u64),
            (PEER_ADDRESS, SYSTEM_BASE + INBOXES[peer]),
            (CMP_ROOT, ROOT),
            (CMP_ARGUMENT_0, va(CURRENT)),
            (CMP_ARGUMENT_1, FENCE),
            (CMP_ARGUMENT_2, 1 << peer),
            (CMP_COMMAND, cmp::SHARE),
        ] {
            gpu.write_register(register, value);
        }
        assert_eq!(gpu.read_register(CMP_RESULT), cmp_result::DONE);
        // The devices' shares are settled before any engine runs.
        rigs[own].drain();
    }
    rigs
}

/// Commands into the ring of queue 1, given once.
fn give(rig: &Rig, ring: u64, commands: &[Command<'_>]) {
    let mut words = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut words));
    (ring..).step_by(8).zip(&words).for_each(|(at, word)| Word::store(rig.system.word(at), *word));
    Word::store(rig.gpu.doorbell_page().word(doorbell::offset(1)), words.len() as u64 * 8);
    rig.gpu.doorbell_rung(1);
    let end = rig.gpu.now() + 100_000;
    while let Some(next) = rig.gpu.next_event().filter(|next| *next < end) {
        rig.gpu.tick(next);
    }
}

#[test]
fn who_is_rung_finds_what_was_signalled() {
    // spec: sync §3.18
    // seed: N86, N87
    let [one, other] = pair();
    let answer = Command::Signal { current_va: va(ANSWER), monitored_va: va(ANSWER) + 64, value: 1, log: None };
    give(&other, RINGS[1], &[Command::Wait { va: va(CURRENT), value: 5, log: None }, answer]);
    assert_eq!(other.state(1), queue_state::PARKED);
    let signal = Command::Signal { current_va: va(CURRENT), monitored_va: va(MONITORED), value: 5, log: None };
    give(&one, RINGS[0], &[signal]);
    assert_eq!(one.gpu.read_register(counter::PEERS_RUNG), 1);
    other.drain();
    assert_eq!((other.word(ANSWER), other.state(1)), (1, queue_state::READY));
}
