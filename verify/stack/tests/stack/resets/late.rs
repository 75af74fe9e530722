//! The driver does not report a fault of paging work: the kernel finds out when the driver refuses the next paging buffer.

use d3dkmt::MakeResidentFlags;
use ddi::{Interrupt, Notify};
use dxgk_host::RecoveryPolicy;
use events::Event;

use super::{Breakage, Worker};
use crate::stubborn::Whims;
use stack::world::{MIB, VIRTUAL};

#[test]
fn paging_that_is_refused_resets_the_adapter() {
    // spec: sync §4.4
    for profile in ["wddm2-packets", "packets-by-address", "wddm1-banks"] {
        let breakage = Breakage::default();
        let deaf = |interrupt: Interrupt<'_>, notify: &mut dyn Notify| match interrupt {
            Interrupt::DmaPageFaulted(_) => {}
            other => notify.interrupt(other),
        };
        let whims = Whims { say: Box::new(deaf), ..breakage.whims() };
        // Timeout detection is off.
        let policy = RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() };
        let (host, heard) = breakage.host_with(profile, VIRTUAL, policy, whims);
        let worker = Worker::new(&host);
        heard.take();
        breakage.next.store(true, std::sync::atomic::Ordering::SeqCst);
        let surfaces = [worker.local(MIB), worker.local(MIB)];
        for surface in &surfaces {
            let handles = vec![surface.allocation().handle()];
            // The first meets the fault, and whichever comes behind it the refusal.
            let _ = worker.gpu.paging().make_resident(handles, MakeResidentFlags::empty());
            while host.step() {}
        }
        let events = heard.take();
        let Some(Event::AdapterReset { reason, .. }) = events.first() else { panic!("{profile}: {events:?}") };
        assert!(reason.contains("of a paging buffer failed"), "{profile}: {reason}");
        assert_eq!(host.stopped(), None, "{profile}");
        drop((surfaces, worker));
        let mut next = Worker::new(&host);
        let surface = next.local(MIB);
        super::bring_in(&next.gpu, &surface).expect("room");
        next.write(&surface, 3).expect("it runs");
        assert!(next.holds(&surface, 3), "{profile}");
        host.check_invariants().unwrap();
    }
}
