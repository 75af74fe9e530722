//! The calls of a whole life: one of each kind of object, and one of each call that changes the kernel's state. Each `Drop` is a call, too.
//! The calls are the same in each life but for polls of fences, which may have been reached before.

mod addresses;
mod first_generation;
pub mod memory;
mod objects;
mod screen;
mod shared;
mod work;

use std::sync::Arc;

use d3dkmt::{Adapter, Device, Event, OpenSyncObjectRequest};
use kmt_calls::{AdapterCall, Call, DeviceCall, ProcessAccess, Reply, StatisticsCall};
use kmt_link::Link;
use softgpu_umd::{Gpu, StreamConfig, SurfaceKind, UmdError};
use wddm_types::VidPnSourceId;

use super::bystander::Offers;
use super::death::Life;

const BYTES: u64 = 64 << 10;
const CONFIG: StreamConfig = StreamConfig { ring_bytes: 4096, command_bytes: 4096, in_flight_max: 8 };
/// The display's source.
const SOURCE: VidPnSourceId = VidPnSourceId(0);

/// How a life ends that no cut ends before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client gives everything back.
    InOrder,
    /// The client ends while it waits for a fence.
    Fence,
    /// For an event.
    Event,
    /// For a keyed mutex that another process has.
    KeyedMutex,
    /// For its own work, which waits for a fence.
    Idle,
    /// For the next vertical blank.
    Blank,
    /// For room in the queue of flips.
    Flip,
    /// For the GPU, which uses an allocation that the client locks.
    Lock,
    /// For the memory of an allocation that queued work uses.
    Destruction,
}

impl Ending {
    /// Those in which a call waits for ever.
    pub const WAITS: [Ending; 8] = [
        Ending::Fence,
        Ending::Event,
        Ending::KeyedMutex,
        Ending::Idle,
        Ending::Blank,
        Ending::Flip,
        Ending::Lock,
        Ending::Destruction,
    ];
}

/// A client lives until `life` or `ending` ends it.
pub fn live(life: &Life, offers: Offers, ending: Ending) -> Result<(), UmdError> {
    let link = life.link();
    let gpu = Gpu::open(Arc::clone(link))?;
    let old = Gpu::on(second_adapter(link)?)?;
    of_the_process(link, &gpu)?;
    let surface = gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, BYTES, false)?;
    gpu.pin(&surface)?;
    let lock = surface.lock()?;
    lock.fill_words(0, 8, |word| word);
    let _memory = memory::live(&gpu, &surface)?;
    let never = gpu.device().open_native_fence(OpenSyncObjectRequest { handle: offers.never, ..Default::default() })?;
    let _addresses = addresses::live(&gpu, &surface, &never)?;
    let second = Device::create(gpu.adapter())?;
    let shared = shared::live(link, &gpu, &second, offers)?;
    let _objects = objects::live(link, &gpu, &old, offers)?;
    let event = Event::create(link, true)?;
    event.set()?;
    event.reset()?;
    gpu.device().wait_async(&[(&never, 1)], &event, Default::default())?;
    let _told = (gpu.device().register_trim()?, gpu.device().register_budget_change()?);
    let work = work::live(&gpu, &surface, &never)?;
    let screen = screen::live(&gpu, &never)?;
    let old_work = first_generation::live(&old)?;
    link.call(Call::Device(DeviceCall::MarkDeviceAsError { device: second.handle(), by_driver: true }))?;
    second.state()?;
    drop(lock);
    if ending == Ending::InOrder {
        return Ok(());
    }
    life.ends_now();
    match ending {
        Ending::InOrder => unreachable!("it has returned"),
        Ending::Fence => gpu.device().wait(&[(&never, 1)])?,
        Ending::Event => event.wait()?,
        Ending::KeyedMutex => link.call(Offers::acquisition(shared.theirs)).map(drop)?,
        Ending::Idle => link.call(Call::Device(DeviceCall::WaitForIdle { device: gpu.device().handle() })).map(drop)?,
        Ending::Blank => gpu.device().wait_for_vertical_blank(SOURCE)?,
        Ending::Flip => screen.flip_beyond_the_limit()?,
        Ending::Lock => old_work.lock_what_is_used()?,
        Ending::Destruction => work.destroy_what_is_used()?,
    }
    Ok(())
}

/// The adapter of the first generation.
fn second_adapter(link: &Arc<dyn Link>) -> Result<Adapter, UmdError> {
    let adapters = d3dkmt::enum_adapters(link.as_ref())?;
    Ok(Adapter::open(Arc::clone(link), adapters[1].0)?)
}

/// What is the process's own at an adapter: its reservation, its class, the power that it wants, a handle of itself.
fn of_the_process(link: &Arc<dyn Link>, gpu: &Gpu) -> Result<(), UmdError> {
    let adapter = gpu.adapter();
    adapter.change_reservation(true, BYTES)?;
    adapter.set_priority_class(1)?;
    link.call(Call::Adapter(AdapterCall::SetStablePowerState { adapter: adapter.handle(), enabled: true }))?;
    gpu.hardware()?;
    let Reply::Processes(own) = link.call(Call::Statistics(StatisticsCall::GetProcessId { process: 0 }))? else {
        unreachable!("a process has a number")
    };
    let access = ProcessAccess::QUERY_INFORMATION;
    // It is never closed: a handle of a process that has died is one of those that its own death closes.
    link.call(Call::Statistics(StatisticsCall::OpenProcess { process: own[0], access }))?;
    Ok(())
}
