//! A device for the tests: it records writes to its registers and holds real memory. It executes no queue and
//! translates no address; the test puts interrupt records in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use ddi::{
    CreateDevice, CreateHwContext, CreateProcess, DmaFault, DriverStatus, FeatureId, FeatureInterface, FeatureState,
    Host, Interrupt, InterruptFlags, KmdContext, KmdDevice, KmdProcess, Miniport, NativeFenceInterface1,
    NativeFenceOsCaps, Notify, OsContext, OsGlobalFence, OsProcess, PageFault, QueryFeatureInterface,
};
use device_port::DevicePort;
use shared_words::Memory;
use softgpu_spec::page_table::Shape;
use softgpu_spec::register::{self, queue_control, queue_state, record};
use wddm_types::{NodeId, PageRun, Pages};

use crate::config::KmdConfig;
use crate::driver::SoftGpuKmd;

pub(crate) const LOCAL_BYTES: u64 = 16 << 20;
pub(crate) const APERTURE_BYTES: u64 = 1 << 20;
pub(crate) const SYSTEM_BYTES: u64 = 16 << 20;
/// Doorbells with pages.
pub(crate) const DOORBELLS: u32 = 2;

#[derive(Default)]
struct Inside {
    registers: BTreeMap<u32, u64>,
    queues: BTreeMap<u64, u64>,
    records: VecDeque<[u64; 4]>,
    fields: [u64; 3],
    writes: Vec<(u32, u64)>,
    rung: Vec<u32>,
    read_pointer: u64,
    gone: bool,
}

pub(crate) struct FakePort {
    inside: Mutex<Inside>,
    local: Arc<Memory>,
    doorbells: Arc<Memory>,
}

impl FakePort {
    pub(crate) fn set(&self, offset: u32, value: u64) {
        self.inside.lock().unwrap().registers.insert(offset, value);
    }
    pub(crate) fn record(&self, kind: u64, fields: [u64; 3]) {
        self.inside.lock().unwrap().records.push_back([kind, fields[0], fields[1], fields[2]]);
    }
    /// Pulls the device out.
    pub(crate) fn pull(&self) {
        self.inside.lock().unwrap().gone = true;
    }
    /// The register writes since the last call.
    pub(crate) fn writes(&self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.inside.lock().unwrap().writes)
    }
    pub(crate) fn rung(&self) -> Vec<u32> {
        std::mem::take(&mut self.inside.lock().unwrap().rung)
    }
    pub(crate) fn set_queue(&self, index: u64, state: u64) {
        self.inside.lock().unwrap().queues.insert(index, state);
    }
    pub(crate) fn queue(&self, index: u64) -> u64 {
        *self.inside.lock().unwrap().queues.get(&index).unwrap_or(&queue_state::DISABLED)
    }
    /// The address of the aperture table that the driver has programmed.
    pub(crate) fn local_table(&self) -> u64 {
        self.inside.lock().unwrap().registers[&register::APERTURE_TABLE]
    }
    pub(crate) fn local_memory_word(&self, offset: u64) -> &AtomicU64 {
        self.local.word(offset)
    }
    pub(crate) fn set_read_pointer(&self, bytes: u64) {
        self.inside.lock().unwrap().read_pointer = bytes;
    }
}

impl DevicePort for FakePort {
    fn read_register(&self, offset: u32) -> u64 {
        let mut inside = self.inside.lock().unwrap();
        match offset {
            _ if inside.gone => register::ABSENT,
            register::INTERRUPT_POP => {
                let [kind, fields @ ..] = inside.records.pop_front().unwrap_or_default();
                inside.fields = fields;
                kind
            }
            register::RECORD_0 => inside.fields[0],
            register::RECORD_1 => inside.fields[1],
            register::RECORD_2 => inside.fields[2],
            register::QUEUE_CONTROL => {
                let selected = inside.registers[&register::QUEUE_SELECT];
                *inside.queues.get(&selected).unwrap_or(&queue_state::DISABLED)
            }
            register::QUEUE_READ_POINTER => inside.read_pointer,
            _ => *inside.registers.get(&offset).unwrap_or(&0),
        }
    }

    fn write_register(&self, offset: u32, value: u64) {
        let mut inside = self.inside.lock().unwrap();
        inside.writes.push((offset, value));
        if offset == register::QUEUE_CONTROL {
            let selected = inside.registers[&register::QUEUE_SELECT];
            let state = match value {
                queue_control::ENABLE | queue_control::RESUME => queue_state::READY,
                queue_control::SUSPEND => queue_state::SUSPENDED,
                // It goes on until the test says that it has stopped, unless it has faulted.
                queue_control::PREEMPT if inside.queues.get(&selected) != Some(&queue_state::FAULTED) => {
                    queue_state::READY
                }
                queue_control::PREEMPT | queue_control::COMMIT | queue_control::RANK => {
                    *inside.queues.get(&selected).unwrap_or(&queue_state::DISABLED)
                }
                _ => queue_state::DISABLED,
            };
            inside.queues.insert(selected, state);
            if value == queue_control::SUSPEND {
                inside.records.push_back([record::SUSPENDED, selected, 0, 0]);
            }
        } else {
            inside.registers.insert(offset, value);
        }
    }

    fn local_memory(&self) -> &Arc<Memory> {
        &self.local
    }
    fn doorbell_page(&self) -> &Arc<Memory> {
        &self.doorbells
    }
    fn doorbell_rung(&self, index: u32) {
        self.inside.lock().unwrap().rung.push(index);
    }
}

/// A kernel with the answers that the test wants.
pub(crate) struct FakeHost {
    pub(crate) enabled: bool,
    /// Queries of features fail.
    pub(crate) query_fails: bool,
    pub(crate) os_caps: Option<NativeFenceOsCaps>,
    /// Versions for which the driver asked for caps.
    pub(crate) asked: Vec<u16>,
    pub(crate) lent: Vec<PageRun>,
    pub(crate) next_page: u64,
}

impl Default for FakeHost {
    fn default() -> FakeHost {
        FakeHost {
            enabled: true,
            query_fails: false,
            os_caps: Some(NativeFenceOsCaps::default()),
            asked: Vec::new(),
            lent: Vec::new(),
            next_page: 64,
        }
    }
}

impl Host for FakeHost {
    fn is_feature_enabled(&mut self, feature: FeatureId) -> Result<FeatureState, DriverStatus> {
        if self.query_fails {
            return Err(DriverStatus::Unsuccessful("as the test wants"));
        }
        let enabled = self.enabled && [FeatureId::NATIVE_FENCE, FeatureId::HWFLIPQUEUE].contains(&feature);
        Ok(FeatureState {
            version: u16::from(enabled),
            enabled,
            known: true,
            supported_by_driver: true,
            supported_on_current_config: true,
        })
    }
    fn query_feature_interface(&mut self, query: &mut QueryFeatureInterface) -> Result<(), DriverStatus> {
        assert_eq!((query.feature, query.size), (FeatureId::NATIVE_FENCE, NativeFenceInterface1::BYTES));
        self.asked.push(query.version);
        let caps = self.os_caps.ok_or(DriverStatus::Unsuccessful("as the test wants"))?;
        query.interface = FeatureInterface::NativeFence1(NativeFenceInterface1::new(caps));
        Ok(())
    }
    fn allocate_contiguous(&mut self, pages: u64) -> Option<PageRun> {
        let run = PageRun { first: self.next_page, count: Pages(pages) };
        self.next_page += pages;
        self.lent.push(run);
        Some(run)
    }
    fn free_contiguous(&mut self, run: PageRun) {
        let at = self.lent.iter().position(|lent| *lent == run).expect("lent before");
        self.lent.remove(at);
    }
}

/// One report of the interrupt routine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    Fences(u16, Option<Vec<OsGlobalFence>>),
    Fault(PageFault),
    Suspended(OsContext, u64),
    Monitored(u16),
    Completed(u32),
    DmaFault(DmaFault),
    /// The kernel's fence, and the packet that was done last.
    Preempted(u32, u32),
    /// Target, address, whether at no blank.
    Shown(u32, u64, bool),
    /// Target, flip, the entry behind the last one of the log.
    Flipped(u32, u64, u32),
    /// Target, notification.
    Periodic(u32, u32),
    /// Node, and the state of its engine.
    Engine(u16, ddi::EngineState),
    /// The node whose scheduling log it is.
    SchedulingLog(u16),
}

#[derive(Default)]
pub(crate) struct FakeNotify(pub(crate) Vec<Said>);

impl Notify for FakeNotify {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        self.0.push(match interrupt {
            Interrupt::NativeFenceSignaled { node, fences, .. } => Said::Fences(node.0, fences.map(<[_]>::to_vec)),
            Interrupt::MonitoredFenceSignaled { node, .. } => Said::Monitored(node.0),
            Interrupt::DmaCompleted { fence_id, .. } => Said::Completed(fence_id),
            Interrupt::DmaPageFaulted(fault) => Said::DmaFault(fault),
            Interrupt::DmaPreempted { preemption_fence_id, last_completed_fence_id, .. } => {
                Said::Preempted(preemption_fence_id, last_completed_fence_id)
            }
            Interrupt::HwQueuePageFaulted(fault) => Said::Fault(fault),
            Interrupt::EngineStateChange { node, state, .. } => Said::Engine(node.0, state),
            Interrupt::SchedulingLogInterrupt { node, .. } => Said::SchedulingLog(node.0),
            Interrupt::GpuEngineTimeout { node, .. } => unreachable!("this device has no watchdog of node {}", node.0),
            Interrupt::SuspendContextCompleted { context, suspend_fence } => Said::Suspended(context, suspend_fence),
            Interrupt::PeriodicMonitoredFenceSignaled { target, notification } => {
                Said::Periodic(target.0, notification.0)
            }
            Interrupt::CrtcVsync { target, physical_address, flags } => {
                Said::Shown(target.0, physical_address, flags.contains(InterruptFlags::HSYNC_FLIP_COMPLETION))
            }
            Interrupt::CrtcVsyncWithMultiPlaneOverlay3 { target, planes, .. } => {
                let [plane] = planes else { unreachable!("a source has one plane") };
                Said::Flipped(target.0, plane.present_id, plane.first_free_log_entry)
            }
        });
    }
}

/// A driver and its device, not started.
pub(crate) fn stopped(config: KmdConfig) -> (SoftGpuKmd, Arc<FakePort>) {
    let port = Arc::new(FakePort {
        inside: Mutex::new(Inside::default()),
        local: Memory::reserve(LOCAL_BYTES).unwrap(),
        doorbells: Memory::reserve(softgpu_spec::doorbell::window_bytes(DOORBELLS)).unwrap(),
    });
    port.set(register::DOORBELLS, u64::from(DOORBELLS));
    port.set(register::ID, register::ID_VALUE);
    port.set(register::LOCAL_BYTES, LOCAL_BYTES);
    port.set(register::APERTURE_BYTES, APERTURE_BYTES);
    port.set(register::SIGNAL_BITS, 64);
    port.set(register::MMU_LEVELS, Shape::FOUR_LEVELS.to_register());
    let as_port: Arc<dyn DevicePort> = port.clone();
    (SoftGpuKmd::new(as_port, Memory::reserve(SYSTEM_BYTES).unwrap(), config), port)
}

/// A started driver.
pub(crate) fn started() -> (SoftGpuKmd, Arc<FakePort>, FakeHost) {
    let (mut kmd, port) = stopped(KmdConfig::default());
    let mut host = FakeHost::default();
    kmd.start_device(&mut host).unwrap();
    port.writes();
    (kmd, port, host)
}

/// A process with a device and a context on a node.
pub(crate) fn context(kmd: &mut SoftGpuKmd, node: u16, system: bool) -> (KmdProcess, KmdDevice, KmdContext) {
    let process = kmd
        .create_process(&mut FakeHost::default(), CreateProcess { process: OsProcess(1), system, pasids: &[] })
        .unwrap();
    let (device, _) =
        kmd.create_device(&mut FakeHost::default(), CreateDevice { process, system, pasid: None }).unwrap();
    let create = CreateHwContext { device, context: OsContext(1), node: NodeId(node), system, private_data: &[] };
    let context = kmd.hardware_queues().unwrap().create_hw_context(&mut FakeHost::default(), create).unwrap();
    (process, device, context)
}
