//! A host with a client process or two, for tests.

use std::sync::Arc;

use dxgk_host::{AdapterSetup, Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::{Commands, FenceName, Gpu, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::{GpuVa, NodeId, RawHandle};

/// Bytes of a mebibyte.
pub const MIB: u64 = 1 << 20;
/// Virtual time that stores content.
pub const VIRTUAL: Mode = Mode::Virtual { stored: true };

/// A host of the first discrete profile with this much video memory.
///
/// # Panics
/// Where it does not start.
pub fn host(mode: Mode, vram_bytes: u64) -> Arc<Host> {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let config =
        HostConfig { vram_bytes, page_table_bytes: 16 * MIB, system_bytes: 64 * MIB, ..HostConfig::new(profile, mode) };
    Host::start(config).expect("the host starts")
}

/// A host with an adapter of each of these profiles.
///
/// # Panics
/// Where a profile is unknown, none is named, or the host does not start.
pub fn host_of_several(mode: Mode, profiles: &[&str], change: impl Fn(usize, &mut AdapterSetup)) -> Arc<Host> {
    let named = |name: &&str| Profile::named(name).expect("a built-in profile");
    let setup = |(index, name): (usize, &&str)| {
        let (vram_bytes, page_table_bytes, system_bytes) = (8 * MIB, 16 * MIB, 64 * MIB);
        let mut setup =
            AdapterSetup { vram_bytes, page_table_bytes, system_bytes, ..AdapterSetup::new(named(name), mode) };
        change(index, &mut setup);
        setup
    };
    let mut setups = profiles.iter().enumerate().map(setup);
    let first = setups.next().expect("one at least");
    let config = HostConfig {
        vram_bytes: first.vram_bytes,
        page_table_bytes: first.page_table_bytes,
        system_bytes: first.system_bytes,
        features: first.features,
        wrap_miniport: first.wrap_miniport,
        wrap_port: first.wrap_port,
        others: setups.collect(),
        ..HostConfig::new(named(&profiles[0]), mode)
    };
    Host::start(config).expect("the host starts")
}

/// A device of a process on one of a host's adapters.
///
/// # Panics
/// Where the host has no such adapter, or refuses the device.
pub fn gpu_on(host: &Arc<Host>, link: &Arc<ProcessLink>, adapter: usize) -> Gpu {
    let link = Arc::clone(link) as Arc<dyn Link>;
    let adapter = d3dkmt::Adapter::open(link, host.adapter(adapter).luid()).expect("it is enumerated");
    Gpu::on(adapter).expect("a device")
}

/// Words that no handle names, as a hand-written command names them.
pub fn unnamed(current: GpuVa, monitored: GpuVa) -> FenceName {
    FenceName { handle: RawHandle::NONE, current, monitored }
}

/// A client process with an opened GPU and a compute stream.
pub struct Client {
    /// On node 0.
    pub stream: Stream,
    /// Its device on the host's first adapter.
    pub gpu: Gpu,
    /// Its way to the kernel.
    pub link: Arc<ProcessLink>,
}

/// A new process of this host, on its first adapter.
///
/// # Panics
/// Where the host refuses it.
pub fn client(host: &Arc<Host>) -> Client {
    let link = ProcessLink::new(Arc::clone(host));
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    Client { stream, gpu, link }
}

impl Client {
    /// A surface that stays resident.
    pub fn pinned(&self, kind: SurfaceKind, bytes: u64) -> Surface {
        let surface = self.gpu.create_surface(kind, bytes).expect("a surface");
        self.gpu.pin(&surface).expect("room for it");
        surface
    }

    /// Runs commands and waits for them.
    pub fn run(&mut self, build: impl FnOnce(&mut Commands)) {
        let mut commands = Commands::new();
        build(&mut commands);
        let value = self.stream.submit(&self.gpu, &[], &commands).expect("a submission");
        self.stream.wait(&self.gpu, value).expect("it completes");
    }
}
