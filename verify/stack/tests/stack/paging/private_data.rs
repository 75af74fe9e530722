//! Beside the commands of a paging buffer: its private bytes, and the Patch that comes before each submission.

use std::sync::Mutex;

use ddi::SubmitFlags;
use dxgk_host::{HostConfig, Profile};
use softgpu_umd::ListedCommands;

use super::*;
use crate::stubborn::{PacketStep, wrapped};

/// Private bytes beside the real driver's: one for each operation of a buffer.
const EXTRA: usize = 2;

/// The bytes that the driver has written into one buffer.
type Groups = Arc<Mutex<Vec<Vec<u8>>>>;

/// A driver that numbers its operations in the private data: the first byte that is left is the next operation's. It
/// wants a new buffer when there is none.
fn numbered(groups: &Groups) -> Whims {
    let groups = Arc::clone(groups);
    let mut operations = 0u8;
    let build = move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        if build.immediate {
            assert!(build.private_data.is_empty(), "there is no buffer");
            return driver.build_paging_buffer(build);
        }
        let left = build.private_data.len().checked_sub(4).expect("the real driver's bytes are behind");
        let mut groups = groups.lock().expect("a test");
        assert!(operations > 0 || build.private_data.iter().all(|byte| *byte == 0), "they begin as zeros");
        if left == EXTRA {
            groups.push(Vec::new());
        }
        if left == 0 {
            return Err(PagingStatus::InsufficientDmaBuffer);
        }
        let result = driver.build_paging_buffer(build);
        assert_eq!(build.private_written, 0, "the real driver leaves the pointer alone");
        operations = operations.wrapping_add(1);
        build.private_data[0] = operations;
        build.private_written = 1;
        groups.last_mut().expect("pushed above").push(operations);
        result
    };
    Whims { build: Box::new(build), paging_data_bytes: EXTRA as u32, packets: true, ..Whims::default() }
}

fn host_of(whims: Whims) -> Result<Arc<Host>, dxgk_host::HostError> {
    Host::start(HostConfig {
        vram_bytes: 4 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(wrapped(whims)),
        ..HostConfig::new(Profile::named("wddm1-banks").expect("a built-in profile"), stack::world::VIRTUAL)
    })
}

/// Names more surfaces than fit, one after the other, so that they come and go.
fn come_and_go(host: &Arc<Host>) {
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>).expect("the adapter opens");
    let context = d3dkmt::Context::create(gpu.device(), NodeId(0), Vec::new()).expect("a context");
    let surfaces: Vec<Surface> =
        (0..6).map(|_| gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface")).collect();
    for surface in surfaces.iter().chain(&surfaces) {
        let mut commands = ListedCommands::new();
        commands.fill((surface.allocation(), 0), 4096, 7);
        commands.render(&context).expect("it is taken");
    }
    let done = gpu.device().create_monitored_fence(Default::default(), 0).expect("a fence");
    context.signal(&done, 1).expect("queued");
    gpu.device().wait(&[(&done, 1)]).expect("it runs");
    assert_eq!(host.stopped(), None);
}

#[test]
fn each_buffer_has_private_bytes_of_its_own_and_is_patched_before_it_runs() {
    // spec: memory §1.4, memory §1.11, memory §3.1, memory §7.4
    let (groups, steps): (Groups, Shared<PacketStep>) = Default::default();
    let heard = Arc::clone(&steps);
    let hand_over = Box::new(move |step| heard.lock().expect("a test").push(step));
    let host = host_of(Whims { hand_over, ..numbered(&groups) }).expect("the host starts");
    come_and_go(&host);
    let steps: Vec<PacketStep> =
        steps.lock().unwrap().iter().filter(|step| step.flags.contains(SubmitFlags::PAGING)).cloned().collect();
    let (pairs, rest) = steps.as_chunks::<2>();
    assert!(rest.is_empty() && pairs.len() > 12);
    for [patch, submit] in pairs {
        assert_eq!((patch.patch, patch.listed), (true, 0), "without lists, but before the submission: {patch:?}");
        assert_eq!(*submit, PacketStep { patch: false, ..patch.clone() });
        assert_eq!(submit.private_data.len(), EXTRA + 4);
    }
    let groups = groups.lock().unwrap();
    assert!(groups.iter().any(|group| group.len() > 1), "operations of one buffer share its bytes");
    assert!(groups.iter().any(|group| group.len() == EXTRA), "one was full");
    let mut submitted = pairs.iter().map(|[_, submit]| &submit.private_data);
    for group in groups.iter() {
        assert!(submitted.any(|data| data.starts_with(group)), "the bytes come back with their buffer");
    }
    // The kernel does not touch them: the tail of a buffer that was used before is unchanged.
    assert!(pairs.iter().any(|[_, submit]| submit.end_offset > 0 && submit.private_data[EXTRA - 1] != 0));
}

#[test]
fn a_driver_keeps_to_the_private_bytes_that_it_asked_for() {
    // spec: memory §3.1
    let build = |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| {
        let result = driver.build_paging_buffer(build);
        build.private_written = build.private_data.len() + usize::from(!build.immediate);
        result
    };
    let host = host_with(4 * MIB, Whims { build: Box::new(build), ..Whims::default() });
    let refused = exercise(&host, SurfaceKind::Local, MIB).expect_err("the adapter stops");
    drop(refused);
    assert_eq!(host.stopped().as_deref(), Some("the driver wrote past the private data of its paging buffer"));
}

#[test]
fn a_system_context_has_the_private_bytes_of_paging_buffers() {
    // spec: memory §1.11
    let context = Box::new(|info: &mut ddi::ContextInfo| info.dma_buffer_private_data_bytes += 4);
    let error = host_of(Whims { context, packets: true, ..Whims::default() }).err().expect("it does not start");
    let rule = "PagingBufferPrivateDataSize is DmaBufferPrivateDataSize of the system context";
    assert!(format!("{error:?} {error}").contains(rule), "{error}");
}
