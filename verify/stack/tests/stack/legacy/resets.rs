//! The lock of WDDM 1 when the hardware is reset under it.

use std::sync::Arc;

use ddi::AllocationFlags;
use dxgk_host::Mode;

use super::{PITCH, RANGE, old, rows};
use crate::resets::{Breakage, Worker, break_hardware, patient};
use stack::world::VIRTUAL;

#[test]
fn a_reset_takes_the_ranges_back_and_leaves_the_locks_their_addresses() {
    // spec: memory §3.5, memory §6.5, memory §8.4
    for mode in [VIRTUAL, Mode::Real] {
        let breakage = Breakage::default();
        let (host, _) = breakage.host("wddm1-banks", mode, patient());
        let client = old(&host);
        let forms = [(0, 0), (PITCH, 0), (PITCH, AllocationFlags::SWIZZLED.bits())];
        let surfaces = forms.map(|(pitch, flags)| client.surface(pitch, flags));
        let locks = [1, 2, 3].map(|seed: u64| {
            let surface = &surfaces[seed as usize - 1];
            client.list(surface);
            client.write(surface, RANGE, seed * 10_000);
            surface.lock_legacy(Vec::new(), RANGE).expect("a range")
        });
        break_hardware(&breakage, &mut Worker::new(&host));
        host.check_invariants().expect("in order");
        for lock in &locks {
            lock.fill_words(8, 1, |_| 7);
        }
        // Another client takes all ranges.
        let fresh = old(&host);
        let others: Vec<Arc<_>> = (0..softgpu_spec::tile::RANGE_COUNT).map(|_| fresh.surface(PITCH, 0)).collect();
        for (other, seed) in others.iter().zip(20_000..) {
            fresh.list(other);
            fresh.write(other, RANGE, seed);
        }
        for (other, seed) in others.iter().zip(20_000..) {
            assert_eq!(fresh.read(other, RANGE), rows(seed), "{mode:?}");
        }
        assert!(locks.iter().all(|lock| lock.read_word(8) == 7), "{mode:?}: writes there stay its own");
        drop((locks, surfaces, client));
        assert_eq!(host.stopped(), None, "{mode:?}");
        host.check_invariants().expect("in order");
    }
}
