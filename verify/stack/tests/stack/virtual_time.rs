//! All devices share one virtual time.

use d3dkmt::{MakeResidentFlags, Residency};
use softgpu_umd::SurfaceKind;

use stack::world::{MIB, VIRTUAL, client, host};

/// A device begins new work at the time that it gets it, however long it was idle before.
#[test]
fn work_behind_an_idle_time_takes_as_long_as_any() {
    let host = host(VIRTUAL, 8 * MIB);
    let client = client(&host);
    let mut took = [0, 0];
    for (idles, took) in [0, 1000].into_iter().zip(&mut took) {
        let surface = client.gpu.create_surface(SurfaceKind::Local, 3 * MIB).expect("a surface");
        // Each call takes time; the device has nothing to do meanwhile.
        for _ in 0..idles {
            client.gpu.device().state().expect("it may always be asked");
        }
        let before = host.now_ns();
        let list = vec![surface.allocation().handle()];
        let made = client.gpu.paging().make_resident(list, MakeResidentFlags::empty()).expect("room");
        let Residency::Pending { paging_fence_value, .. } = made else { panic!("it has to be filled") };
        client.gpu.device().wait(&[(client.gpu.paging().fence(), paging_fence_value)]).expect("it comes");
        *took = host.now_ns() - before;
    }
    // A fill of local memory goes at the profile's 400,000 bytes in a microsecond.
    let fill_ns = 3 * MIB * 1000 / 400_000;
    assert!(took.iter().all(|took| *took >= fill_ns), "{took:?} ns, the fill alone takes {fill_ns}");
}
