//! The dialogue between the kernel and a driver over paging buffers: drivers that are short of room, that find
//! allocations busy, that break the rules. `forms` has the operations, `notices` what a driver hears of evictions, `private_data` the private bytes, `table_addresses` the tables that
//! copies by address name.

mod forms;
mod notices;
mod private_data;
mod table_addresses;

use std::sync::Arc;

use d3dkmt::{EvictFlags, MakeResidentFlags, Residency};
use ddi::{
    AdapterCaps, Adl, AllocNotice, AllocationFlags, AllocationFlags2, AllocationInfo, BuildPagingBuffer, KmdAllocation,
    Miniport, PagingOp, PagingStatus, TransferEnd, TransferFlags, VirtualDirection,
};
use dxgk_host::{Host, Mode, ProcessLink};
use kmt_calls::Refusal;
use kmt_link::Link;
use softgpu_spec::{Command, bus};
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind, UmdError, pattern};
use wddm_types::{NodeId, NtStatus, SegmentId, SegmentSet};

use crate::stubborn::{Shared, Whims, host_in, host_with};
use stack::world::{Client, MIB, client};

const LOCAL: SegmentId = SegmentId(1);
const APERTURE: SegmentId = SegmentId(2);

/// Moves three surfaces in and out of room for two, and compares their content each time.
fn exercise(host: &Arc<Host>, kind: SurfaceKind, bytes: u64) -> Result<(), UmdError> {
    let mut client = open(host)?;
    let report = client.gpu.create_surface(SurfaceKind::System, 4096)?;
    client.gpu.pin(&report)?;
    let surfaces = (0..3).map(|_| client.gpu.create_surface(kind, bytes)).collect::<Result<Vec<_>, _>>()?;
    for round in 0..3u64 {
        for (index, surface) in surfaces.iter().enumerate() {
            let seed = |round| pattern::seed(index as u64, round);
            arrive(&client, surface)?;
            let mut commands = Commands::new();
            if round > 0 {
                commands.check(surface.va(), bytes, seed(round - 1), report.va(), round << 8 | index as u64);
            }
            commands.pattern(surface.va(), bytes, seed(round));
            let value = client.stream.submit(&client.gpu, &[], &commands)?;
            client.stream.wait(&client.gpu, value)?;
            leave(&client, surface, EvictFlags::EVICT_ONLY_IF_NECESSARY)?;
        }
    }
    assert_eq!(report.lock().expect("system memory").read_word(0), 0, "content was lost");
    Ok(())
}

fn open(host: &Arc<Host>) -> Result<Client, UmdError> {
    let link = ProcessLink::new(Arc::clone(host));
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>)?;
    let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default())?;
    Ok(Client { stream, gpu, link })
}

/// Makes a surface resident and waits for it.
fn arrive(client: &Client, surface: &Surface) -> Result<(), UmdError> {
    let handle = vec![surface.allocation().handle()];
    let pending = client.gpu.paging().make_resident(handle, MakeResidentFlags::empty())?;
    if let Residency::Pending { paging_fence_value, .. } = pending {
        client.gpu.device().wait(&[(client.gpu.paging().fence(), paging_fence_value)])?;
    }
    Ok(())
}

fn leave(client: &Client, surface: &Surface, flags: EvictFlags) -> Result<(), Refusal> {
    client.gpu.device().evict(vec![surface.allocation().handle()], flags).map(drop)
}

/// A host whose driver gets each operation through `build`.
fn whimsical(
    vram_bytes: u64,
    build: impl FnMut(&mut dyn Miniport, &mut BuildPagingBuffer<'_>) -> Result<(), PagingStatus> + Send + 'static,
) -> Arc<Host> {
    host_with(vram_bytes, Whims { build: Box::new(build), ..Whims::default() })
}

fn assert_stopped(result: Result<(), UmdError>, reason: &str) {
    match result {
        Err(UmdError::Refused(refusal)) => {
            assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED);
            assert!(refusal.to_string().contains(reason) || format!("{refusal:?}").contains(reason), "{refusal:?}");
        }
        other => panic!("the adapter should have stopped: {other:?}"),
    }
}

#[test]
fn a_driver_that_is_short_of_room_is_asked_again_with_its_own_offset() {
    // spec: memory §3.2, memory §10.4
    let said: Shared<u64> = Arc::default();
    let offsets = Arc::clone(&said);
    let mut expected = 0;
    let host = whimsical(2 * MIB, move |driver, build| {
        // The driver owns the offset: the kernel does not change it between two calls.
        assert_eq!(build.multipass_offset, expected);
        if build.immediate || build.buffer.len() < 12 {
            let result = driver.build_paging_buffer(build);
            expected = if result.is_ok() { 0 } else { build.multipass_offset };
            return result;
        }
        // Room for a dozen words in each call, however large the buffer is.
        let whole = std::mem::take(&mut build.buffer);
        build.buffer = &mut whole[..12];
        let result = driver.build_paging_buffer(build);
        expected = if result.is_ok() { 0 } else { build.multipass_offset };
        if result.is_err() {
            offsets.lock().unwrap().push(build.multipass_offset);
        }
        result
    });
    // Holes of one page everywhere: each transfer is many commands.
    let holes = client(&host);
    let pages = std::iter::from_fn(|| holes.gpu.create_surface(SurfaceKind::System, 4096).ok());
    let (gone, kept): (Vec<_>, Vec<_>) = pages.enumerate().partition(|(index, _)| index % 2 == 0);
    drop(gone);
    exercise(&host, SurfaceKind::Local, MIB).expect("it works");
    assert!(said.lock().unwrap().len() > 100, "{} calls were cut", said.lock().unwrap().len());
    drop(kept);
}

#[test]
fn a_driver_that_asks_for_room_on_an_empty_buffer_stops_the_adapter() {
    // spec: memory §3.2
    let host = whimsical(2 * MIB, |driver, build| match build.operation {
        PagingOp::Transfer { .. } => {
            build.multipass_offset += 1;
            Err(PagingStatus::InsufficientDmaBuffer)
        }
        _ => driver.build_paging_buffer(build),
    });
    assert_stopped(exercise(&host, SurfaceKind::Local, MIB), "on an empty one");
}

#[test]
fn a_busy_allocation_is_waited_for_and_asked_for_again_as_idle() {
    // spec: memory §3.2, memory §10.4
    let said: Shared<(u32, bool)> = Arc::default();
    let calls = Arc::clone(&said);
    let host = whimsical(2 * MIB, move |driver, build| match build.operation.may_be_busy() {
        Some(idle) => {
            calls.lock().unwrap().push((build.operation.number(), idle));
            if idle { driver.build_paging_buffer(build) } else { Err(PagingStatus::AllocationBusy) }
        }
        None => driver.build_paging_buffer(build),
    });
    exercise(&host, SurfaceKind::Local, MIB).expect("it works");
    let calls = said.lock().unwrap();
    assert!(calls.len() > 10);
    let pairs = calls.chunks(2).all(|pair| pair[0].0 == pair[1].0 && (pair[0].1, pair[1].1) == (false, true));
    assert!(pairs, "each is asked for twice, the second time idle: {calls:?}");
}

#[test]
fn a_driver_that_finds_the_idle_busy_stops_the_adapter() {
    // spec: memory §3.2
    let busy = |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| match build.operation.may_be_busy() {
        Some(_) => Err(PagingStatus::AllocationBusy),
        None => driver.build_paging_buffer(build),
    };
    let host = whimsical(2 * MIB, busy);
    assert_stopped(exercise(&host, SurfaceKind::Local, MIB), "for an allocation that is idle");
    let host = whimsical(2 * MIB, |driver, build| match build.operation {
        PagingOp::Fill { .. } => Err(PagingStatus::AllocationBusy),
        _ => driver.build_paging_buffer(build),
    });
    assert_stopped(exercise(&host, SurfaceKind::Local, MIB), "does not allow");
}

#[test]
fn any_other_failure_stops_the_adapter_and_nothing_else() {
    // spec: memory §3.2
    let host = whimsical(2 * MIB, |driver, build| match build.operation {
        PagingOp::Transfer { .. } => Err(PagingStatus::Fatal("out of ideas")),
        _ => driver.build_paging_buffer(build),
    });
    assert_stopped(exercise(&host, SurfaceKind::Local, MIB), "out of ideas");
    // Pending and later calls still get an answer.
    assert_stopped(exercise(&host, SurfaceKind::Local, MIB), "out of ideas");
}
