//! Addresses of processes: the platform's IOMMU translates them, the device asks, remembers until it is told to forget, and
//! faults where nothing is mapped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use device_port::{Clocked, DevicePort, InterruptPin, Iommu, IommuRun, TranslationCache};
use shared_words::{Memory, Word};
use softgpu::{Config, DataMode, SoftGpu, Timing};
use softgpu_spec::Command;
use softgpu_spec::bus::SYSTEM_BASE;
use softgpu_spec::page_table::{Shape, process_space};
use softgpu_spec::register::*;

const PAGE: u64 = 4096;
/// The process, and another one.
const PASID: u32 = 7;
const OTHER: u32 = 8;

struct IgnoredPin;

impl InterruptPin for IgnoredPin {
    fn assert(&self) {}
}

/// A platform that answers page by page.
#[derive(Default)]
struct Platform(Mutex<BTreeMap<(u32, u64), (u64, bool)>>);

impl Platform {
    fn map(&self, pasid: u32, page: u64, system_page: u64, writable: bool) {
        self.0.lock().unwrap().insert((pasid, page), (system_page, writable));
    }
}

impl Iommu for Platform {
    fn translate(&self, pasid: u32, page: u64, _pages_max: u64) -> Option<IommuRun> {
        let known = self.0.lock().unwrap();
        let (system_page, writable) = *known.get(&(pasid, page))?;
        Some(IommuRun { system_page, pages: 1, writable })
    }
}

struct Rig {
    gpu: Arc<SoftGpu>,
    system: Arc<Memory>,
    platform: Arc<Platform>,
    written: u64,
}

fn rig() -> Rig {
    let system = Memory::reserve(1 << 20).unwrap();
    let config = Config {
        signal_bits: 64,
        local_bytes: 1 << 20,
        aperture_bytes: 1 << 20,
        shape: Shape::FOUR_LEVELS,
        data: DataMode::Stored,
        timing: Timing::default(),
        poll_spins: 0,
        reset_group: 0,
        doorbells: 2,
        displays: softgpu::DisplayConfig::NONE,
    };
    let gpu = SoftGpu::new(config, Arc::clone(&system), Arc::new(IgnoredPin), None).unwrap();
    assert_eq!(gpu.read_register(PASID_BITS), 0);
    let platform = Arc::new(Platform::default());
    gpu.connect_iommu(Arc::clone(&platform) as Arc<dyn Iommu>);
    assert_eq!(gpu.read_register(PASID_BITS), u64::from(process_space::PASID_BITS));
    gpu.write_register(ENGINE_ENABLE, 1);
    let mut rig = Rig { gpu, system, platform, written: 0 };
    rig.enable();
    rig
}

impl Rig {
    fn enable(&mut self) {
        self.written = 0;
        for (register, value) in [
            (QUEUE_SELECT, 0),
            (QUEUE_ENGINE, 1),
            (QUEUE_ROOT, process_space::root(PASID)),
            (QUEUE_RING, SYSTEM_BASE),
            (QUEUE_RING_BYTES, PAGE),
            (QUEUE_FLAGS, queue_flags::RING_PHYSICAL),
            (QUEUE_CONTROL, queue_control::ENABLE),
        ] {
            self.gpu.write_register(register, value);
        }
    }

    /// Copies one range of the process's addresses to another; answers with the fault, if there was one.
    fn copy(&mut self, source_va: u64, target_va: u64, bytes: u64) -> Option<(u64, u64)> {
        let mut words = Vec::new();
        Command::Copy { source_va, target_va, bytes }.encode(&mut words);
        for (offset, word) in (self.written..).step_by(8).zip(&words) {
            Word::store(self.system.word(offset % PAGE), *word);
        }
        self.written += words.len() as u64 * 8;
        Word::store(self.gpu.doorbell_page().word(0), self.written);
        self.gpu.doorbell_rung(0);
        while let Some(next) = self.gpu.next_event() {
            self.gpu.tick(next);
        }
        if self.gpu.read_register(INTERRUPT_POP) != record::FAULT {
            return None;
        }
        Some((self.gpu.read_register(RECORD_1), self.gpu.read_register(RECORD_2) & 0xff))
    }

    fn word(&self, page: u64) -> u64 {
        Word::load(self.system.word(page * PAGE))
    }
}

#[test]
fn a_copy_goes_where_the_platform_says() {
    let mut rig = rig();
    // Consecutive addresses, pages that are not.
    for (page, system) in [(0x100, 9), (0x101, 5)] {
        rig.platform.map(PASID, page, system, false);
        Word::store(rig.system.word(system * PAGE), page);
    }
    for (page, system) in [(0x7_0000_0000, 20), (0x7_0000_0001, 31)] {
        rig.platform.map(PASID, page, system, true);
    }
    assert_eq!(rig.copy(0x100 * PAGE, 0x7_0000_0000 * PAGE, 2 * PAGE), None);
    assert_eq!((rig.word(20), rig.word(31)), (0x100, 0x101));
}

#[test]
fn what_the_platform_does_not_map_faults_and_what_it_protects_is_not_written() {
    let mut rig = rig();
    rig.platform.map(PASID, 1, 9, false);
    rig.platform.map(PASID, 2, 10, true);
    // Of another process, and of this one where there is no memory.
    rig.platform.map(OTHER, 3, 11, true);
    rig.platform.map(PASID, 4, 1 << 30, true);
    rig.platform.map(PASID, 5, u64::MAX / PAGE, true);
    for (source, target, faulted, cause) in [
        (3, 2, 3, fault::NOT_PRESENT),
        (1, 3, 3, fault::NOT_PRESENT),
        (2, 1, 1, fault::READ_ONLY),
        (4, 2, 4, fault::BAD_ADDRESS),
        (5, 2, 5, fault::BAD_ADDRESS),
        (u64::MAX / PAGE, 2, u64::MAX / PAGE, fault::NOT_PRESENT),
    ] {
        let found = rig.copy(source * PAGE, target * PAGE, 8);
        assert_eq!(found, Some((faulted * PAGE, cause)), "from page {source} to page {target}");
        rig.enable();
    }
    assert_eq!(rig.copy(PAGE, 2 * PAGE, PAGE), None, "and others go on");
}

#[test]
fn an_answer_is_remembered_until_the_platform_says_that_it_is_old() {
    let mut rig = rig();
    rig.platform.map(PASID, 1, 9, true);
    rig.platform.map(PASID, 2, 10, true);
    Word::store(rig.system.word(9 * PAGE), 77);
    assert_eq!(rig.copy(PAGE, 2 * PAGE, 8), None);
    // The ring's own fetches and single words go through what is remembered: a signal shows it.
    let signal = |rig: &mut Rig, value| {
        let mut words = Vec::new();
        Command::Signal { current_va: PAGE, monitored_va: 2 * PAGE, value, log: None }.encode(&mut words);
        for (offset, word) in (rig.written..).step_by(8).zip(&words) {
            Word::store(rig.system.word(offset % PAGE), *word);
        }
        rig.written += words.len() as u64 * 8;
        Word::store(rig.gpu.doorbell_page().word(0), rig.written);
        rig.gpu.doorbell_rung(0);
        while let Some(next) = rig.gpu.next_event() {
            rig.gpu.tick(next);
        }
    };
    signal(&mut rig, 1);
    rig.platform.map(PASID, 1, 20, true);
    signal(&mut rig, 2);
    assert_eq!((rig.word(9), rig.word(20)), (2, 0), "an answer may be remembered");
    rig.gpu.invalidate(OTHER, 0, 0);
    signal(&mut rig, 3);
    assert_eq!((rig.word(9), rig.word(20)), (3, 0), "another process's answers are another matter");
    rig.gpu.invalidate(PASID, PAGE, 2 * PAGE - 1);
    signal(&mut rig, 4);
    assert_eq!((rig.word(9), rig.word(20)), (3, 4));
}
