//! SynchronousPaging on an adapter of the first generation: while such content is moved no buffer of a client runs, though
//! it names none of it.

use std::sync::{Arc, Mutex};

use d3dkmt::{MakeResidentFlags, Residency};
use dxgk_host::{Host, HostConfig, ProcessLink, Profile};
use events::{Event, Tracer};
use kmt_link::Link;
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use softgpu_umd::{Gpu, PatchedStream, SurfaceKind};
use wddm_types::NodeId;

use stack::world::{MIB, VIRTUAL};

/// Hears when paging work is done and when buffers start.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Event>>>);

impl Tracer for Heard {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        if matches!(event, Event::PacketStarted { .. } | Event::PagingCompleted { .. }) {
            self.0.lock().unwrap().push(event.clone());
        }
    }
}

/// Whether a buffer that names something else starts before paging of an allocation with these flags is done.
fn overtakes(flags: u32) -> bool {
    let heard = Heard::default();
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(heard.clone()),
        ..HostConfig::new(Profile::named("wddm1-banks").expect("a built-in profile"), VIRTUAL)
    };
    let host = Host::start(config).expect("the host starts");
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).expect("the adapter opens");
    let mut stream = PatchedStream::create(&gpu, NodeId(0)).expect("a stream");
    let target = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
    gpu.pin(&target).expect("room");
    stream.pattern(&target, 1);
    let value = stream.submit(&gpu).expect("a submission");
    stream.wait(&gpu, value).expect("it completes");
    let request = AllocationRequest {
        kind: Kind::Local,
        cpu_visible: false,
        cached: false,
        accessed_physically: true,
        size_bytes: 4 * MIB,
    };
    let data = request.encode_with(&Details { flags, ..Details::default() }).to_vec();
    let large = gpu.device().create_allocation(data).expect("it fits");
    heard.0.lock().unwrap().clear();
    let made = gpu.paging().make_resident(vec![large.handle()], MakeResidentFlags::empty()).expect("room");
    assert!(matches!(made, Residency::Pending { .. }), "4 MiB take their time");
    stream.pattern(&target, 2);
    let value = stream.submit(&gpu).expect("a submission");
    stream.wait(&gpu, value).expect("it completes");
    let heard = heard.0.lock().unwrap();
    let started = heard.iter().position(|event| matches!(event, Event::PacketStarted { .. })).expect("it ran");
    !heard[..started].iter().any(|event| matches!(event, Event::PagingCompleted { .. }))
}

#[test]
fn no_buffer_overtakes_paging_that_is_synchronous() {
    // spec: memory §2.2
    assert!(overtakes(0), "a buffer that names other memory does not wait");
    // 1 << 11: SynchronousPaging.
    assert!(!overtakes(1 << 11), "now it does");
}
