//! The host itself: the machine under its lock, the device, and how a call gets its answer. What stands under the lock is
//! `state`, how time passes `passage`, what a sleep costs `sleep`.

mod inspect;
mod passage;
mod sleep;
mod state;
mod surface;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use ddi::Miniport;
use device_port::{DevicePort, InterruptPin};
use dxgkrnl::{
    AdapterConfig, AdapterCounters, AdapterDescription, Answer, CpuCache, IoMmu, Machine, StartError, Token,
};
use kmt_calls::{Call, MappingId, Notification, ProcessAccess, Refusal, Reply};
use kmt_link::CpuMapping;
use shared_words::{Memory, MemoryError};
use softgpu::{Config as DeviceConfig, DataMode, Running, SoftGpu};
use softgpu_kmd::{KmdConfig, Layout, SoftGpuKmd, TableHome};
use wddm_types::{AdapterIndex, Blame, Luid, NtStatus, PAGE_BYTES, PageRun, Pages, ProcessId};

use crate::config::{HostConfig, Mode, directory_table_bytes};
use crate::cpu_cache::StaleCache;
use crate::cpu_mapping::Views;
use crate::host::passage::spawn_dispatcher;
use crate::host::state::State;
use crate::iommu::Iommu;
use crate::line::Line;
use crate::time::Clock;

/// Bytes at the begin of system memory for the kernel itself: fence words, rings of kernel-mode queues, paging buffers.
pub const KERNEL_BYTES: u64 = 64 << 20;
/// Bytes of a paging buffer.
const PAGING_BUFFER_BYTES: u32 = 64 << 10;
/// Paging buffers in flight at most.
const PAGING_BUFFERS: u32 = 64;
/// How often a device thread looks again before it gives up.
const POLL_SPINS: u32 = 2_000;
/// The adapter of this host.
const LUID: Luid = Luid(0x0001_0000);
const ADAPTER: AdapterIndex = AdapterIndex(0);

/// Why a host does not start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No address space for the memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The adapter did not start.
    #[error(transparent)]
    Adapter(#[from] StartError),
    /// A size that no adapter can have.
    #[error("{0}")]
    Size(String),
}

/// A call that has not been answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending(Token);

/// A kernel with one adapter in this process.
pub struct Host {
    state: Mutex<State>,
    answered: Condvar,
    line: Arc<Line>,
    device: Arc<SoftGpu>,
    system: Arc<Memory>,
    mode: Mode,
    call_ns: u64,
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    running: Running,
    dispatcher: JoinHandle<()>,
}

impl Host {
    /// Powers the device on and starts its driver under a fresh kernel.
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn start(config: HostConfig) -> Result<Arc<Host>, HostError> {
        let page = config.profile.segment_page_bytes();
        let vram = config.vram_bytes / page * page;
        if vram == 0 {
            return Err(HostError::Size(format!(
                "{} bytes of video memory are less than one page of {page} bytes",
                config.vram_bytes
            )));
        }
        let mut driver = KmdConfig { paging_buffer_bytes: PAGING_BUFFER_BYTES, ..config.profile.driver_for(vram) };
        let tables = if driver.has_page_tables() { config.page_table_bytes.next_multiple_of(page) } else { 0 };
        let directories = directory_table_bytes(tables).next_multiple_of(page);
        // Page tables lie in memory segments or in system memory.
        let in_home = |home| driver.table_homes().bytes_in(home, tables, directories);
        let (second_tables, system_tables) = (in_home(TableHome::Second), in_home(TableHome::System));
        let local_tables = in_home(TableHome::Local).saturating_add(second_tables);
        if let Layout::TwoMemories { second_bytes, .. } = &mut driver.layout {
            *second_bytes = second_bytes.saturating_add(second_tables);
        }
        let system_bytes = config.system_bytes.saturating_add(system_tables).next_multiple_of(PAGE_BYTES);
        // The driver keeps something for itself in local memory, beside what it reports.
        let reported = vram.checked_add(local_tables);
        let total = reported.and_then(|bytes| driver.local_bytes(bytes, config.profile.aperture_bytes));
        let (Some(local_bytes), Some(system_total)) = (total, system_bytes.checked_add(KERNEL_BYTES)) else {
            return Err(HostError::Size("the memory sizes together exceed 64 bits".into()));
        };
        let reserve = if config.memory_files { Memory::reserve_file } else { Memory::reserve };
        let system = reserve(system_total)?;
        let cpu_cache = (!config.io_coherent).then(|| StaleCache::new(&system)).transpose()?;
        let (clock, data) = match config.mode {
            Mode::Real => (Clock::Real(Instant::now()), DataMode::Stored),
            Mode::Virtual { stored: true } => (Clock::Virtual(0), DataMode::Stored),
            Mode::Virtual { stored: false } => (Clock::Virtual(0), DataMode::Modelled),
        };
        let line = Arc::new(Line::default());
        let device_config = DeviceConfig {
            local_bytes,
            aperture_bytes: config.profile.aperture_bytes,
            shape: config.profile.shape,
            data,
            signal_bits: config.profile.signal_bits,
            timing: config.profile.timing,
            poll_spins: POLL_SPINS,
        };
        let pin = Arc::clone(&line) as Arc<dyn InterruptPin>;
        let device = SoftGpu::with_local(device_config, reserve(local_bytes)?, Arc::clone(&system), pin, config.probe)?;
        let iommu = driver.uses_cpu_addresses().then(Iommu::new);
        if let Some(iommu) = &iommu {
            let weak = Arc::downgrade(&device);
            iommu.attach(weak);
            device.connect_iommu(Arc::clone(iommu) as Arc<dyn device_port::Iommu>);
        }
        // The engines run before the driver starts: real hardware does not wait for its driver either.
        let running = matches!(config.mode, Mode::Real).then(|| device.run_threads());
        let port = Arc::clone(&device) as Arc<dyn DevicePort>;
        let port = match config.wrap_port {
            Some(wrap) => wrap(port),
            None => port,
        };
        let miniport = Box::new(SoftGpuKmd::new(port, Arc::clone(&system), driver)) as Box<dyn Miniport>;
        let miniport = match config.wrap_miniport {
            Some(wrap) => wrap(miniport),
            None => miniport,
        };
        let mut state = State {
            machine: Machine::new(Arc::clone(&system), handle_key(config.mode)),
            tracer: config.tracer,
            clock,
            answers: BTreeMap::new(),
            notifications: BTreeMap::new(),
            timer_ns: None,
            line: Arc::clone(&line),
            views: Views::new(Arc::clone(&system), Arc::clone(&device), cpu_cache.clone(), config.memory_files),
        };
        let kernel_pages = KERNEL_BYTES / PAGE_BYTES;
        let adapter = AdapterConfig {
            name: config.profile.name.to_owned(),
            luid: LUID,
            kernel_pages: PageRun { first: 0, count: Pages(kernel_pages) },
            system_pages: PageRun { first: kernel_pages, count: Pages(system_bytes / PAGE_BYTES) },
            page_table_reserve: Pages(tables / PAGE_BYTES),
            directory_reserve: Pages(directories / PAGE_BYTES),
            paging_buffers: PAGING_BUFFERS,
            clear_pages: data == DataMode::Stored,
            memory_policy: config.memory_policy,
            cpu_cache: cpu_cache.clone().map(|cache| cache as Arc<dyn CpuCache>),
            iommu: iommu.map(|iommu| iommu as Arc<dyn IoMmu>),
            features: config.features,
            recovery: config.recovery,
        };
        state.turn(|machine, cx| machine.start_adapter(cx, miniport, adapter))?;
        let host = Arc::new(Host {
            state: Mutex::new(state),
            answered: Condvar::new(),
            line,
            device,
            system,
            mode: config.mode,
            call_ns: config.profile.call_ns,
            threads: Mutex::new(None),
        });
        if matches!(host.mode, Mode::Virtual { .. }) {
            let weak = Arc::downgrade(&host);
            let pass = move || weak.upgrade().is_some_and(|host| host.step());
            lock(&host.state).views.pass_time_by(Arc::new(pass));
        }
        if let Some(running) = running {
            let dispatcher = spawn_dispatcher(Arc::downgrade(&host), Arc::clone(&host.line));
            *lock(&host.threads) = Some(Threads { running, dispatcher });
        }
        Ok(host)
    }

    /// A process came.
    pub fn process_created(&self) -> ProcessId {
        lock(&self.state).turn(Machine::process_created)
    }

    /// A process went.
    pub fn process_died(&self, process: ProcessId) {
        if self.has_failed() {
            return;
        }
        let mut state = lock(&self.state);
        state.turn(|machine, cx| machine.process_died(cx, process));
        state.notifications.remove(&process);
        drop(state);
        self.answered.notify_all();
    }

    /// Gives a process a handle of another one, as the operating system's `OpenProcess` would; whether it may is decided here.
    ///
    /// # Errors
    /// When there is no such process, or no such right.
    pub fn open_process(&self, from: ProcessId, of: ProcessId, access: ProcessAccess) -> Result<u64, Refusal> {
        lock(&self.state).turn(|machine, _| machine.open_process(from, of, access))
    }

    /// How much a process's memory is protected: `D3DKMT_SCHEDULINGPRIORITYCLASS`, 0 IDLE to 5 REALTIME.
    pub fn set_process_priority(&self, process: ProcessId, class: u32) {
        lock(&self.state).turn(|machine, cx| machine.set_process_priority(cx, process, class));
    }

    /// The most video memory that a process's residency lists may hold; `None`: no limit of its own.
    pub fn set_process_budget(&self, process: ProcessId, bytes: Option<u64>) {
        lock(&self.state).turn(|machine, cx| machine.set_process_budget(cx, process, bytes));
    }

    /// Makes a call and waits for its answer: on this thread in real time, by letting virtual time pass otherwise.
    ///
    /// # Errors
    /// What the kernel answers. In virtual time also when nothing will ever happen any more.
    pub fn call(&self, process: ProcessId, call: Call) -> Result<Reply, Refusal> {
        match self.begin_call(process, call) {
            Ok(result) => result,
            Err(pending) => self.finish(pending),
        }
    }

    /// Makes a call; an answer that comes later is named by [`Pending`]. For programs that run several processes by
    /// themselves, as a simulator does.
    ///
    /// # Errors
    /// The pending call: it is not a failure.
    pub fn begin_call(&self, process: ProcessId, call: Call) -> Result<Result<Reply, Refusal>, Pending> {
        if self.has_failed() {
            return Ok(Err(inspect::kernel_failed()));
        }
        let mut state = lock(&self.state);
        let answer = state.turn(|machine, cx| machine.call(cx, process, call));
        if matches!(self.mode, Mode::Virtual { .. }) {
            let until = state.clock.now_ns() + self.call_ns;
            self.run_until(&mut state, until);
        } else if !state.answers.is_empty() || !state.notifications.is_empty() {
            self.answered.notify_all();
        }
        match answer {
            Answer::Done(result) => Ok(result),
            Answer::Later(token) => state.answers.remove(&token).ok_or(Pending(token)),
        }
    }

    /// Takes the answer of a pending call, if it has come.
    pub fn take_answer(&self, pending: Pending) -> Option<Result<Reply, Refusal>> {
        lock(&self.state).answers.remove(&pending.0)
    }

    /// Takes the oldest thing that the kernel has told a process by itself.
    pub fn take_notification(&self, process: ProcessId) -> Option<Notification> {
        lock(&self.state).notifications.get_mut(&process)?.pop_front()
    }

    /// The same, waiting for one to come: on this thread in real time, by letting virtual time pass otherwise. `None` when
    /// virtual time stands still.
    pub fn wait_notification(&self, process: ProcessId) -> Option<Notification> {
        let mut state = lock(&self.state);
        loop {
            if let Some(notification) = state.notifications.get_mut(&process).and_then(VecDeque::pop_front) {
                return Some(notification);
            }
            match self.mode {
                Mode::Real => state = self.answered.wait(state).unwrap_or_else(PoisonError::into_inner),
                Mode::Virtual { .. } if self.step_locked(&mut state) => {}
                Mode::Virtual { .. } => return None,
            }
        }
    }

    /// Virtual time: lets the next thing happen. False when there is none: nothing will ever happen by itself.
    pub fn step(&self) -> bool {
        self.step_locked(&mut lock(&self.state))
    }

    /// The kernel's clock.
    pub fn now_ns(&self) -> u64 {
        lock(&self.state).clock.now_ns()
    }

    /// Reads one of the device's registers, such as a performance counter.
    pub fn device_register(&self, offset: u32) -> u64 {
        self.device.read_register(offset)
    }

    /// What the kernel has counted.
    pub fn counters(&self) -> AdapterCounters {
        lock(&self.state).machine.counters(ADAPTER).unwrap_or_default()
    }

    /// The adapter as it started.
    pub fn describe(&self) -> AdapterDescription {
        lock(&self.state).machine.describe(ADAPTER).expect("the adapter has started")
    }

    /// The adapter's LUID.
    pub fn luid(&self) -> Luid {
        LUID
    }

    /// System memory.
    pub fn system_memory(&self) -> &Arc<Memory> {
        &self.system
    }

    /// What a lock of a process shows.
    pub fn mapping(&self, process: ProcessId, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        lock(&self.state).views.of(process, mapping)
    }

    /// The doorbell page of an adapter.
    pub fn doorbell_page(&self, adapter: Luid) -> Option<Arc<Memory>> {
        (adapter == LUID).then(|| Arc::clone(self.device.doorbell_page()))
    }

    /// A doorbell was rung while its engine slept.
    pub fn doorbell_rung(&self, adapter: Luid, index: u32) {
        if adapter == LUID {
            self.device.doorbell_rung(index);
        }
    }

    fn finish(&self, pending: Pending) -> Result<Reply, Refusal> {
        let mut state = lock(&self.state);
        loop {
            if let Some(result) = state.answers.remove(&pending.0) {
                return result;
            }
            match self.mode {
                Mode::Real => state = self.answered.wait(state).unwrap_or_else(PoisonError::into_inner),
                Mode::Virtual { .. } => {
                    if !self.step_locked(&mut state) {
                        return Err(Refusal {
                            status: NtStatus::TIMEOUT,
                            blame: Blame::Caller,
                            reason: "virtual time stands still: nothing is left that could end this wait".into(),
                            bytes_to_trim: 0,
                        });
                    }
                }
            }
        }
    }
}

/// A thread that panicked under the lock has left the machine between two events of ours, never between two words of
/// shared memory; the panic itself is reported by that thread. Others go on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What NT handles are drawn under: random where programs share a kernel, the same in every run of virtual time.
fn handle_key(mode: Mode) -> [u64; 2] {
    match mode {
        // The standard library seeds its hash maps from the operating system.
        Mode::Real => [0, 1].map(|half: u64| RandomState::new().hash_one(half)),
        Mode::Virtual { .. } => [0x6f70_656e_7764_646d, 0x6e74_2068_616e_646c],
    }
}
