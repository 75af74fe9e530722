//! The device as a whole: its parts, and the way from one part to another. [`crate::registers`] carries out register accesses,
//! [`crate::ticking`] and [`crate::threads`] let time pass.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use device_port::{CpuCaches, InterruptPin, Iommu, Monitor, Observation, Probe, TranslationCache};
use shared_words::{Memory, MemoryError};
use softgpu_spec::page_table::process_space;
use softgpu_spec::register::fault;
use softgpu_spec::{QUEUE_COUNT, engine};

use crate::bells::Bells;
use crate::bus::{Bus, Fault, Site};
use crate::clock::Clock;
use crate::cmp::Cmp;
use crate::config::{Config, DataMode};
use crate::display::Displays;
use crate::engine::{EngineFace, Flight};
use crate::interrupt::Interrupts;
use crate::mmu::Flush;
use crate::order::Order;
use crate::peers::Peers;
use crate::queue::QueueFace;
use crate::reads::Inward;
use crate::registers::Selected;
use crate::scheduling_log::LogRegisters;
use crate::sharing::Bands;

/// A software GPU.
pub struct SoftGpu {
    pub(crate) config: Config,
    pub(crate) bus: Bus,
    pub(crate) bells: Bells,
    pub(crate) engines: [EngineFace; engine::COUNT as usize],
    pub(crate) queues: Vec<QueueFace>,
    pub(crate) cmp: Cmp,
    pub(crate) peers: Peers,
    pub(crate) interrupts: Interrupts,
    pub(crate) displays: Displays,
    pub(crate) clock: Clock,
    /// Virtual time: the bus, where engines share it.
    pub(crate) inward: Inward,
    /// After how long an engine says that it has nothing to do; 0: never.
    pub(crate) idle_ns: AtomicU64,
    pub(crate) selected: Mutex<Selected>,
    pub(crate) bands: Mutex<Bands>,
    pub(crate) log_registers: LogRegisters,
    pub(crate) order: Order,
    probe: Option<Arc<dyn Probe>>,
    /// The probe looks. It shares a line with nothing that changes while work runs.
    probed: AtomicBool,
}

impl SoftGpu {
    /// Powers a device on, connected to system memory and an interrupt pin. It runs when its threads do
    /// ([`SoftGpu::run_threads`]), or when it is told the time ([`device_port::Clocked`]).
    ///
    /// # Errors
    /// When there are no addresses left for its local memory.
    pub fn new(
        config: Config,
        system: Arc<Memory>,
        pin: Arc<dyn InterruptPin>,
        probe: Option<Arc<dyn Probe>>,
    ) -> Result<Arc<SoftGpu>, MemoryError> {
        SoftGpu::with_local(config, Memory::reserve(config.local_bytes)?, system, pin, probe)
    }

    /// The same with local memory from outside, such as a memory file that is mapped elsewhere too.
    ///
    /// # Errors
    /// When there are no addresses left for its doorbells.
    ///
    /// # Panics
    /// When the memory is smaller than the device's.
    pub fn with_local(
        config: Config,
        local: Arc<Memory>,
        system: Arc<Memory>,
        pin: Arc<dyn InterruptPin>,
        probe: Option<Arc<dyn Probe>>,
    ) -> Result<Arc<SoftGpu>, MemoryError> {
        assert!(local.bytes() >= config.local_bytes, "local memory is as large as the device says");
        Ok(Arc::new(SoftGpu {
            config,
            bus: Bus::new(local, system, config.aperture_bytes, config.shape),
            bells: Bells::new(config.doorbells)?,
            engines: [EngineFace::new(), EngineFace::new()],
            queues: (0..QUEUE_COUNT).map(QueueFace::new).collect(),
            cmp: Cmp::default(),
            peers: Peers::default(),
            interrupts: Interrupts::new(pin),
            displays: Displays::new(config.displays),
            clock: Clock::new(),
            inward: Inward::default(),
            idle_ns: AtomicU64::new(0),
            selected: Mutex::default(),
            bands: Mutex::default(),
            log_registers: LogRegisters::default(),
            order: Order::new(probe.as_ref()),
            probed: AtomicBool::new(probe.as_ref().is_some_and(|probe| probe.looks_at_once())),
            probe,
        }))
    }

    /// Puts the device behind its platform's IOMMU: roots may name processes from now on. Before anything runs, and once.
    ///
    /// # Panics
    /// When it stands behind one already.
    pub fn connect_iommu(&self, iommu: Arc<dyn Iommu>) {
        self.bus.connect(iommu);
    }

    /// Puts the device behind a bus on which accesses may snoop these caches of the CPU: those whose page-table entry or aperture entry says
    /// so. Without it memory is all that there is, and the bits mean nothing.
    ///
    /// # Panics
    /// When it stands behind one already.
    pub fn connect_caches(&self, caches: Arc<dyn CpuCaches>) {
        self.bus.snoop(caches);
    }

    /// Plugs a monitor into a display: from now on frames are read and handed to it. Of a display that there is not nothing comes.
    pub fn connect_monitor(&self, display: u32, monitor: Arc<dyn Monitor>) {
        self.displays.connect(self, display, monitor);
    }

    /// Where the CPU gets to at a bus address of the device's aperture: byte of system memory, and how many follow it there.
    pub fn cpu_aperture(&self, bus: u64) -> Option<(u64, u64)> {
        self.bus.seen_through_aperture(bus)
    }

    /// Where the CPU gets to at a bus address of the device: byte of local memory, and how many follow it there.
    pub fn cpu_window(&self, bus: u64) -> Option<(u64, u64)> {
        self.bus.seen_by_cpu(bus)
    }

    /// Has the probe look from the engines' next commands on, or no more. One that does not look costs nothing: the
    /// device then executes signals that stand one behind the other in one piece.
    pub fn set_probed(&self, looks: bool) {
        self.probed.store(looks, Ordering::Relaxed);
        self.settle();
    }

    /// Waits until each engine stands between two commands: whatever a command has stored, the probe has been told by then.
    pub fn settle(&self) {
        self.engines.iter().for_each(|face| face.ask(|_| ()));
    }

    /// Device time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    pub(crate) fn idle_ns(&self) -> u64 {
        self.idle_ns.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn is_virtual(&self) -> bool {
        !self.clock.is_real()
    }

    /// Whether bulk content exists.
    pub(crate) fn stores_content(&self) -> bool {
        self.config.data == DataMode::Stored
    }

    /// How often an engine looks at an empty ring before it sleeps.
    pub(crate) fn patience(&self) -> u32 {
        if self.is_virtual() { 0 } else { self.config.poll_spins }
    }

    /// A queue has become worth looking at.
    pub(crate) fn wake(&self, queue: u32) {
        let number = self.queues[queue as usize].engine.load(std::sync::atomic::Ordering::Acquire) as usize;
        let face = &self.engines[number];
        face.wake(queue);
        self.due_after(face, self.config.timing.unpark_ns);
    }

    /// Forgets translations in every engine. The caller holds no engine's state.
    pub(crate) fn flush(&self, flush: Flush) {
        for face in &self.engines {
            face.ask(|state| state.mmu.flush(flush));
        }
    }

    #[inline(always)]
    pub(crate) fn trace(&self, what: impl FnOnce() -> Observation) {
        if self.is_probed()
            && let Some(probe) = &self.probe
        {
            probe.observe(self.now(), what());
        }
    }

    /// Whether the probe looks: then each command is executed by itself.
    #[inline(always)]
    pub fn is_probed(&self) -> bool {
        self.probed.load(Ordering::Relaxed)
    }

    pub(crate) fn trace_end(&self, engine: usize, queue: u32, flight: Option<Flight>) {
        if flight.is_some_and(|flight| flight.traced) {
            // CAST: engines are counted in ones.
            self.trace(|| Observation::End { engine: engine as u32, queue });
        }
    }

    pub(crate) fn trace_fault(&self, queue: u32, fault: Fault) {
        let cause = match fault.cause {
            fault::NOT_PRESENT => "the address has no valid entry in the page tables",
            fault::READ_ONLY => "a write to an address that can only be read",
            fault::BAD_COMMAND => "the words are no command",
            fault::PRIVILEGE => "the command is privileged, and its queue is not",
            _ => "the address lies in no memory, or is not aligned",
        };
        self.trace(|| Observation::Fault { queue, va: fault.address, cause });
    }

    pub(crate) fn trace_wait(&self, begin: bool, queue: u32, site: Site, value: u64) {
        self.trace(|| {
            let bus = site.bus();
            if begin {
                Observation::WaitBegin { queue, bus, value }
            } else {
                Observation::WaitEnd { queue, bus, value }
            }
        });
    }
}

impl TranslationCache for SoftGpu {
    fn invalidate(&self, pasid: u32, first: u64, last: u64) {
        self.flush(Flush { root: process_space::root(pasid), first, last });
    }
}
