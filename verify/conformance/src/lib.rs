//! Kernels for tests that do not care how they are reached: in this program, or over a socket of a daemon (`served`). The suite itself is in
//! `tests`.
//!
//! # The law of this crate
//! A test body sees a [`World`] and what [`World::connect`] gives, nothing else: no host, no daemon, no thread of theirs. So what it finds is
//! promised to every client, wherever its kernel is. A World plays the operator for it ([`World::set_budget`]).

mod served;

use std::sync::{Arc, Mutex, PoisonError};

use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use softgpu_umd::{Gpu, Lane, Stage, Surface, SurfaceKind};
use wddm_types::{NodeId, ProcessId};

use served::Served;
pub use served::daemon;

/// A mebibyte.
pub const MIB: u64 = 1 << 20;
/// Video memory of the adapter.
pub const VRAM_BYTES: u64 = 8 * MIB;

/// How a kernel is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In this program.
    InProcess,
    /// Over a socket of a daemon that is a process of its own, with no more rights than it needs.
    Socket,
}

impl Way {
    /// Whether an adapter of a profile is reached so: where the host plays the CPU's caches or an IOMMU, its processes are in this program.
    pub fn leads_to(self, profile: &Profile) -> bool {
        let played = !profile.io_coherent || profile.plays_caches || profile.uses_cpu_addresses();
        self == Way::InProcess || !played
    }
}

/// The profile of a world for which a test names none.
const PROFILE: &str = "discrete-4k";
/// Memory of an adapter whose profile a test names: of each kind enough for work on every profile. No byte of it exists before it is used.
const SIZED: HostSizes = HostSizes { vram_bytes: 64 * MIB, page_table_bytes: 64 * MIB, system_bytes: 256 * MIB };

struct HostSizes {
    vram_bytes: u64,
    page_table_bytes: u64,
    system_bytes: u64,
}

/// A kernel with one adapter.
pub struct World {
    kernel: Kernel,
    coming: Mutex<()>,
}

enum Kernel {
    Here(Arc<Host>),
    Served(Served),
}

/// The kernel of a world that is reached so.
fn config(way: Way, profile: &str) -> HostConfig {
    let small = HostSizes { vram_bytes: VRAM_BYTES, page_table_bytes: 16 * MIB, system_bytes: 64 * MIB };
    let HostSizes { vram_bytes, page_table_bytes, system_bytes } = if profile == PROFILE { small } else { SIZED };
    let profile = Profile::named(profile).expect("a built-in profile");
    HostConfig {
        vram_bytes,
        page_table_bytes,
        system_bytes,
        memory_files: !profile.plays_caches && profile.io_coherent,
        isolates_processes: way == Way::Socket,
        ..HostConfig::new(profile, Mode::Real)
    }
}

impl World {
    /// A kernel that is reached so, whose adapter is a `discrete-4k`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(way: Way) -> World {
        World::of(way, PROFILE)
    }

    /// A kernel that is reached so, with an adapter of this profile.
    ///
    /// # Panics
    /// When there is no such profile, or the kernel does not start.
    pub fn of(way: Way, profile: &str) -> World {
        let kernel = match way {
            Way::InProcess => Kernel::Here(Host::start(config(way, profile)).expect("the adapter starts")),
            Way::Socket => Kernel::Served(Served::start(profile)),
        };
        World { kernel, coming: Mutex::default() }
    }

    /// A process of its own.
    ///
    /// # Panics
    /// When the kernel refuses it.
    pub fn connect(&self) -> Arc<dyn Link> {
        match &self.kernel {
            Kernel::Served(served) => SocketLink::connect(served.path()).expect("it listens"),
            Kernel::Here(host) => ProcessLink::new(Arc::clone(host)),
        }
    }

    /// A process with a device.
    ///
    /// # Panics
    /// When the kernel refuses it one.
    pub fn client(&self) -> Client {
        // One client at a time, so that the new device is this client's.
        let _alone = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        let link = self.connect();
        let before = self.processes(&*link);
        let gpu = Gpu::open(Arc::clone(&link)).expect("a device");
        let new = self.processes(&*link).into_iter().find(|process| !before.contains(process));
        Client { gpu, link, process: new.expect("it has a device now") }
    }

    /// The operator gives a process a budget of its own.
    pub fn set_budget(&self, client: &Client, bytes: Option<u64>) {
        match &self.kernel {
            Kernel::Served(served) => served.set_budget(client.process, bytes),
            Kernel::Here(host) => host.set_process_budget(client.process, bytes),
        }
    }

    fn processes(&self, link: &dyn Link) -> Vec<ProcessId> {
        let adapter = d3dkmt::enum_adapters(link).expect("a kernel")[0].0;
        d3dkmt::enum_processes(link, adapter).expect("an adapter")
    }
}

impl Drop for World {
    /// Whatever a test has done, what always holds in a kernel holds.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        match &self.kernel {
            Kernel::Served(served) => assert_eq!(served.end(), "in order"),
            Kernel::Here(host) => host.check_invariants().expect("what always holds"),
        }
    }
}

/// A process with a device.
pub struct Client {
    /// Its device.
    pub gpu: Gpu,
    /// Its way to the kernel.
    pub link: Arc<dyn Link>,
    process: ProcessId,
}

impl Client {
    /// A surface that is resident.
    ///
    /// # Panics
    /// When there is no room.
    pub fn pinned(&self, kind: SurfaceKind, bytes: u64) -> Surface {
        let surface = self.gpu.create_surface(kind, bytes).expect("a surface");
        self.gpu.pin(&surface).expect("room for it");
        surface
    }

    /// The same for one that the CPU locks where it lies.
    ///
    /// # Panics
    /// When there is no room.
    pub fn lockable(&self, bytes: u64) -> Surface {
        let surface = self.gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, bytes, false).expect("a surface");
        self.gpu.pin(&surface).expect("room for it");
        surface
    }

    /// A lane on the first node.
    ///
    /// # Panics
    /// When memory is short.
    pub fn lane(&self, stage: Stage) -> Lane {
        Lane::create_at(&self.gpu, NodeId(0), stage).expect("a lane")
    }

    /// Submits what a lane has recorded and waits until it is done.
    ///
    /// # Panics
    /// When the device is lost.
    pub fn run(&self, lane: &mut Lane) {
        let value = lane.submit(&self.gpu, None).expect("a submission");
        lane.wait(&self.gpu, value).expect("it completes");
    }
}

/// Makes a test of each of these functions for each way to a kernel.
#[macro_export]
macro_rules! over_every_link {
    ($($body:ident),* $(,)?) => {
        mod in_process {
            $(#[test]
            fn $body() {
                super::$body(&$crate::World::start($crate::Way::InProcess));
            })*
        }
        mod over_a_socket {
            $(#[test]
            fn $body() {
                super::$body(&$crate::World::start($crate::Way::Socket));
            })*
        }
    };
}
