//! A host with a client process or two, for the tests of this folder.

use std::sync::Arc;

use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::NodeId;

pub const MIB: u64 = 1 << 20;
pub const VIRTUAL: Mode = Mode::Virtual { stored: true };

/// A host with this much video memory.
pub fn host(mode: Mode, vram_bytes: u64) -> Arc<Host> {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let config =
        HostConfig { vram_bytes, page_table_bytes: 16 * MIB, system_bytes: 64 * MIB, ..HostConfig::new(profile, mode) };
    Host::start(config).expect("the host starts")
}

/// A client process with an opened GPU and a compute stream.
pub struct Client {
    pub stream: Stream,
    pub gpu: Gpu,
    pub link: Arc<ProcessLink>,
}

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
