//! A lock that needs quiesced devices, behind paging that needs their work to go on.

use d3dkmt::{EvictFlags, MakeResidentFlags, Residency};
use dxgk_host::Mode;
use softgpu_umd::{Commands, SurfaceKind, pattern};

use crate::cpu_access::{BYTES, lockable};
use stack::world::{MIB, VIRTUAL, client, host};

/// Paging that was queued before waits for the device's queued work: the kernel quiesces the device behind that work, or both would wait for
/// ever.
#[test]
fn a_lock_stops_no_device_that_earlier_paging_waits_for() {
    // spec: memory §6.3, memory §5.3
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let cached = lockable(&client, SurfaceKind::LocalThenSystem, true);
        client.run(|commands| _ = commands.pattern(cached.va(), BYTES, 5));
        let used = client.pinned(SurfaceKind::Local, 2 * MIB);
        let wanted = client.gpu.create_surface(SurfaceKind::Local, 3 * MIB).expect("a surface");
        let mut commands = Commands::new();
        for seed in 0..8 {
            commands.pattern(used.va(), 2 * MIB, seed);
        }
        let value = client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
        let list = vec![used.allocation().handle()];
        client.gpu.device().evict(list, EvictFlags::EVICT_ONLY_IF_NECESSARY).expect("it is on the list");
        let list = vec![wanted.allocation().handle()];
        let made = client.gpu.paging().make_resident(list, MakeResidentFlags::empty()).expect("the other gives way");
        assert!(matches!(made, Residency::Pending { .. }), "{mode:?}: behind the last use of what gives way");
        let lock = cached.lock().expect("it supports an aperture");
        assert_eq!(lock.read_word(8), pattern::word(5, 8), "{mode:?}");
        client.stream.wait(&client.gpu, value).expect("its queued work has run");
    }
}
