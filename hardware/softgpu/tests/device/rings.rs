//! Rings that lie anywhere: commands over the end of a page and over the end of the ring.

use super::*;

#[test]
fn a_ring_need_not_begin_with_a_page() {
    for shift in [0, 8, 2048, PAGE - 8] {
        let mut rig = mapped(DataMode::Stored, true);
        let ring = 0x4_0000 + shift;
        rig.enable(0, engine_of(true), ring, true);
        // Words that no length of a ring is a multiple of, so that they end everywhere.
        let commands = 4 * RING_BYTES / 56;
        for number in 1..=commands {
            let mut words = Vec::new();
            Command::Store { va: SYSTEM, words: &[number, number + 1, number + 2, number + 3, !number] }
                .encode(&mut words);
            for word in words {
                Word::store(rig.system.word(ring + rig.written % RING_BYTES), word);
                rig.written += 8;
            }
            Word::store(rig.gpu.doorbell_page().word(0), rig.written);
            rig.gpu.doorbell_rung(0);
            rig.drain();
            let stored = [0, 8, 16, 24, 32].map(|offset| rig.word(0x1_0000 + offset));
            assert_eq!(stored, [number, number + 1, number + 2, number + 3, !number], "{shift}");
        }
        assert_eq!(rig.pop().0, record::NONE);
    }
}
