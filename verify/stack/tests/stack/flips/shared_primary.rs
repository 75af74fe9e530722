//! The shared primary of a display (`D3DKMTGetSharedPrimaryHandle`): a process that knows neither its maker nor its name finds it.

use d3dkmt::Resource;
use ddi::{RefreshRate, StandardAllocation, Surface as Texels, SurfaceFormat};
use kmt_calls::{
    AdapterCall, AllocationCall, AllocationInfoFlags, AllocationRequest, AllocationTarget, Call, CreateAllocationFlags,
    DestroyFlags, DisplayCall, MakeResidentFlags, Reply, ResourceRequest, ShareName,
};
use softgpu_spec::private_data::{AllocationRequest as PrivateData, Details, Kind as Place};
use wddm_types::{NtStatus, RawHandle};

use super::*;

/// A process that looks for the shared primary, with an adapter and a device.
struct Finder {
    gpu: Gpu,
    adapter: RawHandle,
}

impl Finder {
    fn new(host: &Arc<Host>) -> Finder {
        let gpu = Gpu::open(ProcessLink::new(Arc::clone(host))).unwrap();
        let adapter = gpu.adapter().handle();
        Finder { gpu, adapter }
    }

    fn found_on(&self, source: VidPnSourceId) -> Result<RawHandle, NtStatus> {
        let call = DisplayCall::GetSharedPrimaryHandle { adapter: self.adapter, source };
        match self.gpu.device().link().call(Call::Display(call)) {
            Ok(Reply::Handle(handle)) => Ok(handle),
            Ok(reply) => panic!("{reply:?}"),
            Err(refusal) => Err(refusal.status),
        }
    }

    fn found(&self) -> RawHandle {
        self.found_on(SOURCE).expect("the source is there")
    }
}

/// A primary of the games' mode that goes by a global handle, on its device's list: the allocation, the resource, the global handle.
fn shared_primary(game: &Game) -> (RawHandle, RawHandle, RawHandle) {
    let device = game.gpu.device();
    let data = PrivateData {
        kind: Place::Local,
        cpu_visible: false,
        cached: false,
        accessed_physically: true,
        size_bytes: u64::from(WIDTH) * 4 * u64::from(HEIGHT),
    };
    let details = Details { display_width: WIDTH, display_height: HEIGHT, ..Details::default() };
    let request = AllocationRequest {
        private_data: data.encode_with(&details).to_vec(),
        flags: AllocationInfoFlags::PRIMARY,
        video_source: SOURCE.0,
        ..AllocationRequest::default()
    };
    let flags = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED;
    let call = AllocationCall::CreateAllocation {
        device: device.handle(),
        allocations: vec![request],
        resource: ResourceRequest { flags, ..ResourceRequest::default() },
    };
    let made = match device.link().call(Call::Allocation(call)) {
        Ok(Reply::Allocations(made)) => made,
        other => panic!("{other:?}"),
    };
    let allocation = made.allocations[0].handle;
    let paging = device.create_paging_queue().unwrap();
    paging.make_resident(vec![allocation], MakeResidentFlags::empty()).unwrap();
    (allocation, made.resource, made.global_share)
}

fn show(game: &Game, primary: RawHandle) {
    let device = game.gpu.device();
    let call = DisplayCall::SetDisplayMode { device: device.handle(), primary };
    assert_eq!(device.link().call(Call::Display(call)), Ok(Reply::Done));
}

fn destroy(host: &Host, link: &ProcessLink, device: RawHandle, resource: RawHandle) {
    let target = AllocationTarget { resource, allocations: Vec::new() };
    let call = AllocationCall::DestroyAllocation { device, target, flags: DestroyFlags::empty() };
    assert_eq!(host.call(link.process(), Call::Allocation(call)), Ok(Reply::Done));
    while host.step() {}
}

#[test]
fn a_process_finds_the_shared_primary_that_a_display_shows() {
    // spec: memory §2.7
    let (host, _) = host_of(&profile(), VIRTUAL);
    let link = ProcessLink::new(Arc::clone(&host));
    let (game, finder) = (Game::on(&link, 1), Finder::new(&host));
    let (allocation, resource, global) = shared_primary(&game);
    game.gpu.device().own_sources(&[SOURCE]).unwrap();
    assert_eq!(finder.found(), RawHandle::NONE, "the display is black");
    game.gpu.device().set_display_mode(game.primaries[0].allocation()).unwrap();
    assert_eq!(finder.found(), RawHandle::NONE, "what it shows has no global handle");
    show(&game, allocation);
    assert_eq!(finder.found(), global);
    let opened = Resource::open(finder.gpu.device(), ShareName::Global(finder.found())).expect("it is shared");
    assert_eq!(opened.allocations().len(), 1);
    assert_eq!(finder.found_on(VidPnSourceId(9)), Err(NtStatus::INVALID_PARAMETER), "there is no such source");
    drop(opened);
    while host.step() {}
    destroy(&host, &link, game.gpu.device().handle(), resource);
    assert_eq!(finder.found(), RawHandle::NONE, "it has gone, and the display is black");
    host.check_invariants().unwrap();
}

/// The embedding program's shared primaries stand behind the one that a display shows, the newest first.
#[test]
fn a_process_finds_the_shared_primary_that_the_embedding_program_made() {
    // spec: memory §2.7
    let (host, _) = host_of(&profile(), VIRTUAL);
    let (windows, link) = (ProcessLink::new(Arc::clone(&host)), ProcessLink::new(Arc::clone(&host)));
    let (system, game, finder) = (Game::on(&windows, 0), Game::on(&link, 1), Finder::new(&host));
    let device = system.gpu.device().handle();
    let make = |video_source| {
        let surface = Texels { width: WIDTH.into(), height: HEIGHT.into(), format: SurfaceFormat::X8R8G8B8 };
        let refresh_rate = RefreshRate { numerator: 60, denominator: 1 };
        let wanted = StandardAllocation::SharedPrimary { surface, refresh_rate, video_source };
        let made = host.create_standard_allocation(windows.process(), device, wanted).expect("a surface").created;
        (made.resource, made.global_share)
    };
    let _elsewhere = make(3);
    assert_eq!(finder.found(), RawHandle::NONE, "it was made for another source");
    let (first, first_global) = make(0);
    assert_eq!(finder.found(), first_global);
    let (second, second_global) = make(0);
    assert_eq!(finder.found(), second_global, "the newest");
    let (allocation, _, shown) = shared_primary(&game);
    game.gpu.device().own_sources(&[SOURCE]).unwrap();
    show(&game, allocation);
    assert_eq!(finder.found(), shown, "what the display shows stands first");
    game.gpu.device().own_sources(&[]).unwrap();
    assert_eq!(finder.found(), second_global);
    destroy(&host, &windows, device, second);
    assert_eq!(finder.found(), first_global);
    destroy(&host, &windows, device, first);
    assert_eq!(finder.found(), RawHandle::NONE);
    let (_, third_global) = make(0);
    assert_eq!(finder.found(), third_global);
    host.check_invariants().unwrap();
}

/// A stopped adapter's displays show nothing.
#[test]
fn a_stopped_adapter_has_no_shared_primary() {
    // spec: memory §9.3
    let (host, _) = host_of(&profile(), VIRTUAL);
    let finder = Finder::new(&host);
    let link = ProcessLink::new(Arc::clone(&host));
    let call = AdapterCall::OpenAdapterFromLuid { luid: host.luid() };
    assert!(matches!(host.call(link.process(), Call::Adapter(call)), Ok(Reply::Handle(_))));
    host.stop_adapter().expect("it runs");
    assert_eq!(finder.found_on(SOURCE), Err(NtStatus::DEVICE_REMOVED));
}
