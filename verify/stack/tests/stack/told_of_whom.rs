//! The adapter of an event: numbers of queues and allocations are an adapter's own, so a tracer of several adapters needs it.

use std::sync::{Arc, Mutex};

use dxgk_host::{AdapterSetup, Host, HostConfig, ProcessLink, Profile};
use events::{Event, Tracer};
use softgpu_umd::{Lane, SurfaceKind};
use wddm_types::{AdapterIndex, NodeId};

use stack::world::{MIB, VIRTUAL, gpu_on};

/// The name of an event, and the adapter that it is about.
type Named = (Option<AdapterIndex>, &'static str);

/// The events so far.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Named>>>);

impl Tracer for Told {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        self.0.lock().unwrap().push((None, event.name()));
    }

    fn event_of(&mut self, adapter: AdapterIndex, _now_ns: u64, event: &Event) {
        self.0.lock().unwrap().push((Some(adapter), event.name()));
    }
}

#[test]
fn what_is_told_names_its_adapter_unless_it_is_about_a_process() {
    let told = Told::default();
    let profile = Profile::named("discrete-64k").expect("it is built in");
    let small = || AdapterSetup {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..AdapterSetup::new(profile, VIRTUAL)
    };
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        others: vec![small()],
        // Through a listener that is itself made of two.
        tracer: Box::new((events::Silence, told.clone())),
        ..HostConfig::new(profile, VIRTUAL)
    };
    let host = Host::start(config).expect("the host starts");
    let link = ProcessLink::new(Arc::clone(&host));
    for adapter in 0..2 {
        drop(std::mem::take(&mut *told.0.lock().unwrap()));
        let gpu = gpu_on(&host, &link, adapter);
        let mut lane = Lane::create(&gpu, NodeId(0)).expect("a lane");
        let surface = gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
        gpu.pin(&surface).expect("there is room");
        lane.touch(&surface, true);
        let value = lane.submit(&gpu, None).expect("it is submitted");
        lane.wait(&gpu, value).expect("it is done");
        drop((lane, surface, gpu));
        let seen = std::mem::take(&mut *told.0.lock().unwrap());
        // CAST: there are two.
        let strangers: Vec<_> = seen.iter().filter(|(of, _)| *of != Some(AdapterIndex(adapter as u32))).collect();
        assert_eq!(strangers, Vec::<&Named>::new(), "nothing happened to the other, and all of it to this one");
        for name in ["DeviceCreated", "AllocationCreated", "Moved", "QueueCreated", "PagingCompleted", "QueueDestroyed"]
        {
            assert!(seen.iter().any(|(_, told)| *told == name), "{name} in {seen:?}");
        }
    }
    drop(link);
    assert_eq!(told.0.lock().unwrap().last(), Some(&(None, "ProcessDied")));
}
