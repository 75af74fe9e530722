//! Two processes beside each other: one gives the GPU an address without memory, the other does ordinary work.

use std::sync::Arc;

use d3dkmt::{DeviceState, HwContext, KernelQueue, VirtualContext};
use dxgk_host::{Host, HostConfig, Profile, RecoveryPolicy};
use miniport_filter::{Filtered, Function};
use softgpu_umd::{Commands, Surface, SurfaceKind};
use wddm_types::{GpuVa, NodeId};

use super::late::{Late, Tells};
use stack::world::{Client, MIB, VIRTUAL, client};

pub(super) const COMPUTE: NodeId = NodeId(0);
pub(super) const COPY: NodeId = NodeId(1);
/// Work without progress for so long is suspended.
const DELAY_NS: u64 = 100_000_000;
/// Where no process has anything.
pub(super) const WILD: u64 = 0x7fff_0000_0000;

/// Two processes, and the driver.
pub(super) struct World {
    pub(super) guilty: Client,
    pub(super) bystander: Client,
    pub(super) late: Late,
    pub(super) host: Arc<Host>,
}

pub(super) fn world(tells: Tells) -> World {
    world_of("discrete-4k", tells)
}

pub(super) fn world_of(profile: &str, tells: Tells) -> World {
    let late = Late::default();
    late.0.lock().unwrap().tells = tells;
    let filter = late.clone();
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(Box::new(|driver| Box::new(Filtered::new(driver, filter)))),
        recovery: RecoveryPolicy { delay_ns: Some(DELAY_NS), ..RecoveryPolicy::default() },
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), VIRTUAL)
    };
    let host = Host::start(config).expect("the host starts");
    World { guilty: client(&host), bystander: client(&host), late, host }
}

impl World {
    /// Runs until the driver knows of a fault.
    pub(super) fn run_to_fault(&self) {
        while self.late.0.lock().unwrap().kept.is_empty() {
            assert!(self.host.step(), "the work faults");
        }
    }

    pub(super) fn refuse(&self, function: Function, lies: bool) {
        let mut known = self.late.0.lock().unwrap();
        (known.refuses, known.lies) = (Some(function), lies);
    }

    /// How often the driver was asked again for what it has refused.
    pub(super) fn asked_again(&self, function: Function) -> usize {
        self.late.0.lock().unwrap().asked.iter().filter(|asked| **asked == function).count()
    }

    /// The guilty process has lost its device, in the fault's own words; everything else goes on.
    pub(super) fn only_the_guilty_is_lost(&mut self, what: &str) {
        assert_eq!(self.host.stopped(), None, "{what}");
        let known = self.late.0.lock().unwrap();
        assert!(known.refuses.is_none() && known.kept.is_empty(), "{what}: refused, and told of the fault");
        drop(known);
        let device = self.guilty.gpu.device();
        assert_eq!(device.state().unwrap(), DeviceState::ErrorDmaPageFault, "{what}");
        let reason = device.create_paging_queue().err().expect("it is lost").reason;
        assert!(reason.contains(&format!("without memory at {WILD:#x}")), "{what}: {reason}");
        assert_eq!(self.bystander.gpu.device().state().unwrap(), DeviceState::Active, "{what}");
        let surface = self.bystander.pinned(SurfaceKind::System, 4096);
        self.bystander.run(|commands| _ = commands.fill(surface.va(), 4096, 9));
        assert_eq!(surface.lock().unwrap().read_word(8), 9 << 32 | 9, "{what}");
        self.host.check_invariants().expect("the kernel's invariants hold");
    }
}

/// A buffer of commands, as a packet or a command of a queue names it.
pub(super) fn buffer(client: &Client, va: GpuVa, pattern: u32) -> (Surface, u32) {
    let buffer = client.pinned(SurfaceKind::System, 4096);
    let mut commands = Commands::new();
    commands.fill(va, 4096, pattern);
    buffer.lock().unwrap().write_words(0, commands.words());
    (buffer, commands.words().len() as u32 * 8)
}

pub(super) fn packets(client: &Client, node: NodeId) -> VirtualContext {
    VirtualContext::create(client.gpu.device(), node, vec![]).expect("a context")
}

pub(super) fn queue(client: &Client, node: NodeId) -> (KernelQueue, HwContext) {
    let context = client.gpu.device().create_context(node).expect("a context");
    (context.create_kernel_queue().expect("a queue"), context)
}
