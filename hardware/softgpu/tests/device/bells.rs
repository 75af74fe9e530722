//! Doorbells with pages of their own: a queue that listens there, and what becomes of what was rung when it listens elsewhere.

use softgpu_spec::register::{DOORBELLS, QUEUE_DOORBELL, queue_control};
use softgpu_spec::{QUEUE_COUNT, doorbell};

use super::*;

const PAGES: [u32; 2] = [QUEUE_COUNT, QUEUE_COUNT + 1];

fn listen(rig: &Rig, queue: u64, number: u32) -> u64 {
    rig.gpu.write_register(QUEUE_SELECT, queue);
    rig.gpu.write_register(QUEUE_DOORBELL, u64::from(number));
    rig.gpu.read_register(QUEUE_DOORBELL)
}

fn word(rig: &Rig, number: u32) -> &AtomicU64 {
    rig.gpu.doorbell_page().word(doorbell::offset(number))
}

fn asleep(rig: &Rig, number: u32) -> u64 {
    Word::load(rig.gpu.doorbell_page().word(doorbell::offset(number) + shared_words::doorbell::ASLEEP_OFFSET))
}

/// Puts commands into the ring of queue 0 and stores at a doorbell, without a word to the engine.
fn store(rig: &mut Rig, number: u32, commands: &[Command<'_>]) {
    let mut words = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut words));
    for value in words {
        Word::store(rig.system.word(RING + rig.written % RING_BYTES), value);
        rig.written += 8;
    }
    Word::store(word(rig, number), rig.written);
}

fn fill(pattern: u32) -> [Command<'static>; 1] {
    [Command::FillPhysical { target_bus: SYSTEM_BASE + 0x1_0000, bytes: 4096, pattern }]
}

fn filled(rig: &Rig) -> u64 {
    // Both halves of it are the pattern.
    let word = rig.word(0x1_0000);
    assert_eq!(word >> 32, word & 0xffff_ffff);
    word & 0xffff_ffff
}

#[test]
fn what_was_rung_goes_with_the_queue_from_doorbell_to_doorbell() {
    // spec: sync §3.17, sync §3.19
    let mut rig = Rig::new(DataMode::Stored, true);
    assert_eq!(rig.gpu.read_register(DOORBELLS), 2);
    rig.run(&fill(1));
    assert_eq!((filled(&rig), asleep(&rig, 0)), (1, 1));
    assert_eq!(listen(&rig, 0, PAGES[0]), u64::from(PAGES[0]));
    rig.drain();
    assert_eq!(
        (Word::load(word(&rig, PAGES[0])), asleep(&rig, PAGES[0])),
        (rig.written, 1),
        "it sleeps there as before"
    );
    // Its own is nothing to it now.
    Word::store(word(&rig, 0), 4096);
    rig.gpu.doorbell_rung(0);
    rig.drain();
    assert_eq!(rig.state(0), queue_state::READY);
    store(&mut rig, PAGES[0], &fill(2));
    rig.gpu.doorbell_rung(PAGES[0]);
    rig.drain();
    assert_eq!(filled(&rig), 2);
    // Rung, and not heard: the producer looked at another page's sleeping flag. The ring is not lost.
    store(&mut rig, PAGES[0], &fill(3));
    assert_eq!(listen(&rig, 0, 0), 0);
    rig.drain();
    assert_eq!((filled(&rig), asleep(&rig, PAGES[0])), (3, 0));
    Word::store(word(&rig, PAGES[0]), 1 << 40);
    rig.gpu.doorbell_rung(PAGES[0]);
    rig.drain();
    assert_eq!(rig.state(0), queue_state::READY, "no queue listens there");
    rig.run(&fill(4));
    assert_eq!(filled(&rig), 4);
}

#[test]
fn a_queue_that_stands_takes_what_is_rung_with_it() {
    // spec: sync §3.17
    let mut rig = Rig::new(DataMode::Stored, true);
    listen(&rig, 0, PAGES[1]);
    rig.drain();
    rig.gpu.write_register(QUEUE_CONTROL, queue_control::SUSPEND);
    store(&mut rig, PAGES[1], &fill(7));
    rig.gpu.doorbell_rung(PAGES[1]);
    rig.drain();
    assert_eq!((listen(&rig, 0, PAGES[0]), filled(&rig)), (u64::from(PAGES[0]), 0));
    rig.gpu.write_register(QUEUE_CONTROL, queue_control::RESUME);
    rig.drain();
    assert_eq!(filled(&rig), 7);
}

#[test]
fn a_doorbell_has_one_queue() {
    // spec: sync §3.17
    let rig = Rig::new(DataMode::Stored, true);
    rig.enable(1, engine_of(true), RING + RING_BYTES, true);
    assert_eq!(listen(&rig, 0, PAGES[0]), u64::from(PAGES[0]));
    for wrong in [PAGES[0], 0, QUEUE_COUNT - 1, QUEUE_COUNT + 2, u32::MAX] {
        assert_eq!(listen(&rig, 1, wrong), 1, "{wrong}: it stays where it was");
    }
    assert_eq!(listen(&rig, 2, PAGES[1]), 2, "a queue that is not enabled listens to nothing");
    assert_eq!(listen(&rig, 1, PAGES[1]), u64::from(PAGES[1]));
    // It is free again when its queue listens elsewhere, and when its queue goes.
    listen(&rig, 0, 0);
    assert_eq!(listen(&rig, 1, PAGES[0]), u64::from(PAGES[0]));
    rig.gpu.write_register(QUEUE_CONTROL, queue_control::DISABLE);
    assert_eq!(rig.gpu.read_register(QUEUE_DOORBELL), 1);
    assert_eq!(listen(&rig, 0, PAGES[0]), u64::from(PAGES[0]));
    rig.enable(0, engine_of(true), RING, true);
    assert_eq!(rig.gpu.read_register(QUEUE_DOORBELL), 0, "an enabled queue listens to its own");
}
