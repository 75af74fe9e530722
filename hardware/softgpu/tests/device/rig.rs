//! The device on a rig: its registers, memory, page tables and one ring, for the tests of this program.

use super::*;

pub const ROOT: u64 = 0x1000;
pub const LEAF: u64 = 0x4000;
/// System offsets: the ring, then pages for tests.
pub const RING: u64 = 0;
pub const RING_BYTES: u64 = 4096;
pub const PAGE: u64 = 4096;

pub type Look = Box<dyn FnMut() + Send>;

/// How often it was asserted, and what happens then.
#[derive(Default)]
pub struct Pin(pub AtomicU64, pub Mutex<Option<Look>>);

impl InterruptPin for Pin {
    fn assert(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        if let Some(look) = &mut *self.1.lock().unwrap() {
            look();
        }
    }
}

/// A device that stores its content, in virtual time.
pub const CONFIG: Config = Config {
    local_bytes: 4 << 20,
    aperture_bytes: 1 << 20,
    shape: Shape::FOUR_LEVELS,
    data: DataMode::Stored,
    timing: Timing::MIDDLE,
    poll_spins: 0,
    reset_group: 0,
    doorbells: 2,
    displays: softgpu::DisplayConfig::NONE,
    signal_bits: 64,
};

pub struct Rig {
    pub gpu: Arc<SoftGpu>,
    pub system: Arc<Memory>,
    pub pin: Arc<Pin>,
    pub written: u64,
}

impl Rig {
    pub fn new(data: DataMode, privileged: bool) -> Rig {
        Rig::grouped(data, privileged, 0)
    }

    /// Its engines are reset together, those with these bits.
    pub fn grouped(data: DataMode, privileged: bool, reset_group: u64) -> Rig {
        let system = Memory::reserve(1 << 20).unwrap();
        let pin = Arc::new(Pin::default());
        Rig::of(Config { data, reset_group, ..CONFIG }, system, pin, privileged)
    }

    pub fn of(config: Config, system: Arc<Memory>, pin: Arc<Pin>, privileged: bool) -> Rig {
        Rig::probed(config, system, pin, privileged, None)
    }

    /// The same with something clipped to it.
    pub fn probed(
        config: Config,
        system: Arc<Memory>,
        pin: Arc<Pin>,
        privileged: bool,
        probe: Option<Arc<dyn Probe>>,
    ) -> Rig {
        let gpu = SoftGpu::new(config, Arc::clone(&system), Arc::clone(&pin) as Arc<dyn InterruptPin>, probe).unwrap();
        for (table, next) in [(ROOT, 0x2000), (0x2000, 0x3000), (0x3000, LEAF)] {
            Word::store(gpu.local_memory().word(table), next | VALID);
        }
        gpu.write_register(APERTURE_TABLE, 0x10_0000);
        gpu.write_register(ENGINE_ENABLE, 1);
        let rig = Rig { gpu, system, pin, written: 0 };
        rig.enable(0, engine_of(privileged), RING, privileged);
        rig
    }

    pub fn enable(&self, queue: u64, engine: u64, ring: u64, privileged: bool) {
        let flags = queue_flags::RING_PHYSICAL | if privileged { queue_flags::PRIVILEGED } else { 0 };
        for (register, value) in [
            (QUEUE_SELECT, queue),
            (QUEUE_ENGINE, engine),
            (QUEUE_ROOT, ROOT),
            (QUEUE_RING, SYSTEM_BASE + ring),
            (QUEUE_RING_BYTES, RING_BYTES),
            (QUEUE_FLAGS, flags),
            (QUEUE_CONTROL, queue_control::ENABLE),
        ] {
            self.gpu.write_register(register, value);
        }
    }

    /// Maps virtual page `page` to a bus address.
    pub fn map(&self, page: u64, bus: u64, flags: u64) {
        Word::store(self.gpu.local_memory().word(LEAF + page * 8), bus | flags | VALID);
    }

    pub fn map_pages(&self) {
        self.map(16, 0x20_0000, 0);
        self.map(17, 0x30_0000, 0);
        self.map(18, SYSTEM_BASE + 0x1_0000, 0);
        self.map(19, SYSTEM_BASE + 0x1_1000, 0);
    }

    /// Puts commands into the ring of queue 0 and rings its doorbell.
    pub fn push(&mut self, commands: &[Command<'_>]) {
        let mut words = Vec::new();
        commands.iter().for_each(|command| command.encode(&mut words));
        for word in words {
            Word::store(self.system.word(RING + self.written % RING_BYTES), word);
            self.written += 8;
        }
        self.ring();
    }

    pub fn ring(&self) {
        Word::store(self.gpu.doorbell_page().word(0), self.written);
        self.gpu.doorbell_rung(0);
    }

    /// Lets everything happen that happens by itself; the time at the end.
    pub fn drain(&self) -> u64 {
        while let Some(next) = self.gpu.next_event() {
            self.gpu.tick(next);
        }
        self.gpu.now()
    }

    pub fn run(&mut self, commands: &[Command<'_>]) {
        self.push(commands);
        self.drain();
    }

    pub fn state(&self, queue: u64) -> u64 {
        self.gpu.write_register(QUEUE_SELECT, queue);
        self.gpu.read_register(QUEUE_CONTROL)
    }

    pub fn pop(&self) -> (u64, [u64; 3]) {
        let kind = self.gpu.read_register(INTERRUPT_POP);
        (kind, [RECORD_0, RECORD_1, RECORD_2].map(|register| self.gpu.read_register(register)))
    }

    pub fn word(&self, offset: u64) -> u64 {
        Word::load(self.system.word(offset))
    }
}

pub fn engine_of(privileged: bool) -> u64 {
    u64::from(if privileged { softgpu_spec::engine::COPY } else { softgpu_spec::engine::COMPUTE })
}

/// Virtual pages 16 and 17 in local memory, 18 and 19 in system memory at 64 KiB.
pub fn mapped(data: DataMode, privileged: bool) -> Rig {
    let rig = Rig::new(data, privileged);
    rig.map_pages();
    rig
}

pub const LOCAL: u64 = 16 * PAGE;
pub const SYSTEM: u64 = 18 * PAGE;
