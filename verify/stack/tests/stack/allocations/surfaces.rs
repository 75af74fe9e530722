//! Surfaces of displays and windows: the kernel asks the driver for them, for the process that is the window system.

use kmt_calls::AllocationCall;
use std::sync::Mutex;

use ddi::{
    DriverStatus, GdiSurfaceKind as Gdi, Miniport, RefreshRate, StandardAllocation as Standard,
    StandardAllocationDriverData, Surface, SurfaceFormat,
};
use dxgk_host::{CreatedSurface, HostConfig, PROFILES};
use wddm_types::{Blame, ProcessId};

use super::*;

const SURFACE: Surface = Surface { width: 100, height: 7, format: SurfaceFormat::X8R8G8B8 };
const ALPHA: Surface = Surface { format: SurfaceFormat::A8, ..SURFACE };

fn primary(surface: Surface) -> Standard {
    Standard::SharedPrimary { surface, refresh_rate: RefreshRate { numerator: 60, denominator: 1 }, video_source: 3 }
}

fn gdi(surface: Surface, kind: Gdi) -> Standard {
    Standard::Gdi { surface, kind }
}

/// The window system: a process with a device.
struct WindowSystem {
    host: Arc<Host>,
    process: ProcessId,
    gpu: Gpu,
}

impl WindowSystem {
    fn new(host: &Arc<Host>) -> WindowSystem {
        let link = ProcessLink::new(Arc::clone(host));
        WindowSystem { host: Arc::clone(host), process: link.process(), gpu: Gpu::open(link).expect("it opens") }
    }

    fn create(&self, wanted: Standard) -> Result<CreatedSurface, Refusal> {
        self.host.create_standard_allocation(self.process, self.gpu.device().handle(), wanted)
    }
}

/// A query of the driver: the surface it is for, and whether it has buffers.
type Asked = (Standard, bool);

type Data<'a, 'b> = &'a mut StandardAllocationDriverData<'b>;

/// A host whose driver answers about standard allocations by `answer`, the queries that it got, and the kernel's other calls.
fn answering(
    answer: impl Fn(&mut dyn Miniport, Data<'_, '_>) -> Result<(), DriverStatus> + Send + 'static,
) -> (Arc<Host>, Shared<Asked>, Shared<Step>) {
    let (asked, steps): (Shared<Asked>, Shared<Step>) = Default::default();
    let (asks, hears) = (Arc::clone(&asked), Arc::clone(&steps));
    let standard = Box::new(move |driver: &mut dyn Miniport, query: Data<'_, '_>| {
        asks.lock().expect("a test").push((query.wanted, query.buffers.is_some()));
        answer(driver, query)
    });
    let hear = Box::new(move |step| hears.lock().expect("a test").push(step));
    (host_with(8 * MIB, Whims { standard, hear, ..Whims::default() }), asked, steps)
}

#[test]
fn the_window_system_gets_every_surface_and_others_open_it() {
    // spec: memory §2.7
    let (host, asked, _) = answering(|driver, query| driver.standard_allocation_driver_data(query));
    let (windows, other) = (WindowSystem::new(&host), gpu(&host));
    for (wanted, pitch_bytes) in [
        (primary(SURFACE), None),
        (Standard::Shadow(SURFACE), Some(448)),
        (Standard::Shadow(Surface { format: SurfaceFormat::R5G6B5, ..SURFACE }), Some(256)),
        (gdi(SURFACE, Gdi::Texture), None),
        (gdi(ALPHA, Gdi::StagingCpuVisible), Some(128)),
        (gdi(ALPHA, Gdi::Staging), None),
        (gdi(ALPHA, Gdi::LookupTable), None),
    ] {
        asked.lock().unwrap().clear();
        let made = windows.create(wanted).unwrap_or_else(|refusal| panic!("{wanted:?}: {refusal}"));
        assert_eq!(*asked.lock().unwrap(), [(wanted, false), (wanted, true)], "first the sizes, then the bytes");
        assert_eq!(made.pitch_bytes, pitch_bytes, "{wanted:?}");
        let [allocation] = &made.created.allocations[..] else { panic!("one allocation") };
        assert!(allocation.private_data.is_some(), "the caller has not seen them");
        let flags = SHARED | CreateAllocationFlags::ZEROED;
        assert_eq!(made.created.flags, flags, "{wanted:?}");
        let opened = Resource::open(other.device(), ShareName::Global(made.created.global_share)).unwrap();
        assert_eq!(opened.allocations().len(), 1);
        // It is an allocation like others of the process: only that frees it.
        let target = AllocationTarget { resource: made.created.resource, allocations: Vec::new() };
        let device = windows.gpu.device().handle();
        let destroy =
            Call::Allocation(AllocationCall::DestroyAllocation { device, target, flags: DestroyFlags::empty() });
        assert_eq!(host.call(windows.process, destroy.clone()), Ok(Reply::Done), "{wanted:?}");
        assert_eq!(status(host.call(windows.process, destroy)), NtStatus::INVALID_PARAMETER, "once");
    }
    assert_eq!(host.check_invariants(), Ok(()));
}

#[test]
fn what_the_cpu_draws_into_a_shadow_is_there_for_a_process_that_opens_it() {
    // spec: memory §2.7
    let host = host(VIRTUAL, 8 * MIB);
    let windows = WindowSystem::new(&host);
    let made = windows.create(Standard::Shadow(SURFACE)).unwrap();
    let pitch = u64::from(made.pitch_bytes.expect("the CPU draws there"));
    let share = ShareName::Global(made.created.global_share);
    let [drawn, shown] = [0; 2].map(|_| Resource::open(windows.gpu.device(), share).unwrap());
    let last_texel = 6 * pitch + 396;
    drawn.allocations()[0].lock().unwrap().write(last_texel, &0xFF_12_34_56u32.to_le_bytes());
    let mut texel = [0; 4];
    shown.allocations()[0].lock().unwrap().read(last_texel, &mut texel);
    assert_eq!(u32::from_le_bytes(texel), 0xFF_12_34_56);
}

#[test]
fn what_is_no_surface_is_refused_before_the_driver_is_asked() {
    // spec: memory §2.7
    let (host, asked, steps) = answering(|driver, query| driver.standard_allocation_driver_data(query));
    let windows = WindowSystem::new(&host);
    let (wrong, unbuilt) = (NtStatus::INVALID_PARAMETER, NtStatus::NOT_SUPPORTED);
    let sized = |width, height| Surface { width, height, ..SURFACE };
    let of = |format| Surface { format: SurfaceFormat(format), ..SURFACE };
    let (hertz, source) = (RefreshRate { numerator: 60, denominator: 1 }, 0);
    let shown = |refresh_rate, video_source| Standard::SharedPrimary { surface: SURFACE, refresh_rate, video_source };
    steps.lock().unwrap().clear();
    for (wanted, expected) in [
        (Standard::VirtualGpu, unbuilt),
        (gdi(SURFACE, Gdi::ExistingSysMem), unbuilt),
        (gdi(SURFACE, Gdi::TextureCpuVisible), unbuilt),
        (gdi(SURFACE, Gdi::TextureCrossAdapter), unbuilt),
        (gdi(SURFACE, Gdi::TextureCrossAdapterCpuVisible), unbuilt),
        (Standard::Staging { size_bytes: 4096 }, wrong),
        (Standard::Shadow(sized(0, 7)), wrong),
        (Standard::Shadow(sized(100, 0)), wrong),
        (Standard::Shadow(sized(1 << 30, 1)), wrong),
        (Standard::Shadow(of(0)), wrong),
        (Standard::Shadow(ALPHA), wrong),
        (primary(ALPHA), wrong),
        (gdi(ALPHA, Gdi::Texture), wrong),
        (gdi(of(23), Gdi::Texture), wrong),
        (gdi(of(23), Gdi::Staging), wrong),
        (gdi(SURFACE, Gdi::LookupTable), wrong),
        (shown(hertz, 16), wrong),
        (shown(RefreshRate { denominator: 0, ..hertz }, source), wrong),
    ] {
        assert_eq!(status(windows.create(wanted)), expected, "{wanted:?}");
    }
    let vgpu = windows.create(Standard::VirtualGpu).unwrap_err();
    assert!(vgpu.reason.contains("VGPU"), "it is refused by its name: {vgpu}");
    assert!(asked.lock().unwrap().is_empty() && steps.lock().unwrap().is_empty(), "the kernel asks no driver");
    windows.create(shown(hertz, 15)).expect("the last source");
}

#[test]
fn a_surface_is_for_a_device_of_the_process_that_is_named() {
    // spec: memory §2.7, memory §9.3
    let (host, asked, _) = answering(|driver, query| driver.standard_allocation_driver_data(query));
    let (windows, other) = (WindowSystem::new(&host), WindowSystem::new(&host));
    let create = |process, device| host.create_standard_allocation(process, device, Standard::Shadow(SURFACE));
    for (process, device) in [
        (ProcessId(99), windows.gpu.device().handle()),
        (windows.process, RawHandle::NONE),
        (windows.process, windows.gpu.adapter().handle()),
        (host.process_created(), windows.gpu.device().handle()),
    ] {
        assert_eq!(status(create(process, device)), NtStatus::INVALID_PARAMETER, "{process:?}, {device:?}");
    }
    assert!(asked.lock().unwrap().is_empty());
    let share = ShareName::Global(windows.create(Standard::Shadow(SURFACE)).unwrap().created.global_share);
    Resource::open(other.gpu.device(), share).expect("it is there");
    drop(windows);
    assert_eq!(status(Resource::open(other.gpu.device(), share)), NtStatus::INVALID_PARAMETER, "and went with it");
    assert_eq!(host.check_invariants(), Ok(()));
}

/// A driver's answer to the second call, for a surface of `SURFACE`: a pitch, and an allocation.
fn lie(pitch: u32, size_bytes: u64, visible: bool, cached: bool) -> impl Fn(Data<'_, '_>) {
    move |query| {
        let request =
            private_data::AllocationRequest { cpu_visible: visible, cached, ..data(Kind::System, size_bytes) };
        match &mut query.buffers {
            None => (query.allocation_bytes, query.resource_bytes) = (private_data::BYTES as u32, 0),
            Some((allocation, _)) => allocation.copy_from_slice(&request.encode()),
        }
        query.pitch_bytes = pitch;
        // The driver may overwrite the query's own fields, which the kernel ignores.
        query.wanted = Standard::VirtualGpu;
    }
}

#[test]
fn a_driver_that_describes_another_surface_is_refused_and_nothing_is_left() {
    // spec: memory §2.1, memory §2.7
    let (shadow, shown) = (Standard::Shadow(SURFACE), primary(SURFACE));
    let texture = gdi(SURFACE, Gdi::Texture);
    let refused = Some(NtStatus::INVALID_PARAMETER);
    for (wanted, answer, expected) in [
        (shadow, lie(400, 2800, true, true), None),
        (shadow, lie(399, 2800, true, true), refused),
        (shadow, lie(0, 2800, true, true), refused),
        (shadow, lie(400, 2799, true, true), refused),
        (shadow, lie(448, 2800, true, true), refused),
        (shadow, lie(u32::MAX, 2800, true, true), refused),
        (shadow, lie(400, 2800, false, false), refused),
        (gdi(SURFACE, Gdi::StagingCpuVisible), lie(400, 2800, false, false), refused),
        (texture, lie(0, 2800, false, false), None),
        (texture, lie(0, 2799, false, false), refused),
        (shown, lie(0, 2800, true, false), None),
        (shown, lie(0, 2799, true, false), refused),
        // Of these the driver's own rules are VidMm's.
        (shown, lie(0, 2800, true, true), refused),
    ] {
        let (host, asked, steps) = answering(move |_, query| {
            answer(query);
            Ok(())
        });
        let windows = WindowSystem::new(&host);
        let before = host.state_digest();
        steps.lock().unwrap().clear();
        let made = windows.create(wanted);
        let asks = [(wanted, false), (wanted, true)];
        assert_eq!(*asked.lock().unwrap(), asks, "the kernel ignores the driver's changes of the query");
        assert_eq!(made.as_ref().map_err(|refusal| refusal.status).err(), expected, "{wanted:?}: {made:?}");
        if expected.is_some() {
            assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new());
            let steps = steps.lock().unwrap();
            let undone = match &steps[..] {
                [] => true,
                [Step::Create(made, _), Step::Destroy(gone, _)] => made == gone,
                _ => false,
            };
            assert!(undone, "{wanted:?}: {steps:?}");
        }
        assert_eq!(host.check_invariants(), Ok(()));
    }
}

#[test]
fn a_driver_that_asks_for_too_much_or_refuses_is_not_asked_to_create() {
    // spec: memory §2.7
    type Refuse = Arc<Mutex<Option<(bool, DriverStatus)>>>;
    let (bytes, refuse): (Arc<Mutex<[u32; 2]>>, Refuse) = Default::default();
    let (wants, refuses) = (Arc::clone(&bytes), Arc::clone(&refuse));
    let (host, asked, steps) = answering(move |driver, query| {
        let second = query.buffers.is_some();
        if let Some((_, status)) = refuses.lock().unwrap().filter(|(at, _)| *at == second) {
            return Err(status);
        }
        let answer = driver.standard_allocation_driver_data(query);
        let [allocation, resource] = *wants.lock().unwrap();
        (query.allocation_bytes, query.resource_bytes) =
            (query.allocation_bytes + allocation, query.resource_bytes + resource);
        answer
    });
    let windows = WindowSystem::new(&host);
    let create = || windows.create(Standard::Shadow(SURFACE)).expect_err("it is refused");
    let before = host.state_digest();
    steps.lock().unwrap().clear();
    for (extra, times) in [([65_536, 0], 1), ([0, 65_537], 1), ([u32::MAX - 24, 0], 1), ([1, 0], 2), ([0, 1], 2)] {
        *bytes.lock().unwrap() = extra;
        asked.lock().unwrap().clear();
        create();
        assert_eq!(asked.lock().unwrap().len(), times, "{extra:?}: more than the kernel keeps, or the driver's own no");
    }
    *bytes.lock().unwrap() = [0, 0];
    let mismatch = DriverStatus::NoMemory("as the test wants");
    for (at, times) in [(false, 1), (true, 2)] {
        *refuse.lock().unwrap() = Some((at, mismatch));
        asked.lock().unwrap().clear();
        let refusal = create();
        assert_eq!((refusal.status, refusal.blame), (NtStatus::NO_MEMORY, Blame::Scarcity));
        assert_eq!(asked.lock().unwrap().len(), times);
    }
    assert!(steps.lock().unwrap().is_empty(), "nothing was created");
    assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new());
    *refuse.lock().unwrap() = None;
    windows.create(Standard::Shadow(SURFACE)).expect("the next may");
}

#[test]
fn every_adapter_has_a_place_for_every_surface() {
    // spec: memory §2.7: a primary lies where the CPU reaches
    for profile in PROFILES {
        let config = HostConfig {
            vram_bytes: 16 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            ..HostConfig::new(profile, VIRTUAL)
        };
        let host = Host::start(config).unwrap_or_else(|error| panic!("{}: {error}", profile.name));
        let windows = WindowSystem::new(&host);
        for wanted in [
            primary(SURFACE),
            Standard::Shadow(SURFACE),
            gdi(SURFACE, Gdi::Texture),
            gdi(SURFACE, Gdi::StagingCpuVisible),
            gdi(ALPHA, Gdi::LookupTable),
        ] {
            let made = windows.create(wanted);
            assert!(made.is_ok(), "{}: {wanted:?}: {made:?}", profile.name);
        }
        assert_eq!(host.check_invariants(), Ok(()), "{}", profile.name);
    }
}
