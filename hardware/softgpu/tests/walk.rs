//! Page walks of devices of many shapes against a walk that is written down as plainly as can be, over tables full of random entries: the
//! place that an address leads to, or the level that faults.

use std::sync::Arc;

use device_port::{Clocked, DevicePort, InterruptPin};
use shared_words::{Memory, Word};
use softgpu::{Config, DataMode, SoftGpu, Timing};
use softgpu_spec::Command;
use softgpu_spec::bus::SYSTEM_BASE;
use softgpu_spec::page_table::{ADDRESS, LEAF_64KB, READ_ONLY, Shape, VALID, root};
use softgpu_spec::register::*;

const LOCAL_BYTES: u64 = 32 << 20;

const PAGE: u64 = 4096;

struct Pin;

impl InterruptPin for Pin {
    fn assert(&self) {}
}

/// A xorshift: the test is the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn device(shape: Shape) -> (Arc<SoftGpu>, Arc<Memory>) {
    let system = Memory::reserve(1 << 20).unwrap();
    let config = Config {
        local_bytes: LOCAL_BYTES,
        aperture_bytes: PAGE,
        shape,
        data: DataMode::Stored,
        timing: Timing::default(),
        poll_spins: 0,
        reset_group: 0,
        doorbells: 2,
        displays: softgpu::DisplayConfig::NONE,
        signal_bits: 64,
    };
    let gpu = SoftGpu::new(config, Arc::clone(&system), Arc::new(Pin), None).unwrap();
    gpu.write_register(ENGINE_ENABLE, 1);
    (gpu, system)
}

/// Has the device touch a word at an address: cause and level of its fault, if it faults.
fn touch(gpu: &SoftGpu, system: &Memory, top: u64, va: u64) -> Result<(), (u64, u64)> {
    for (register, value) in [
        (QUEUE_SELECT, 0),
        (QUEUE_CONTROL, queue_control::DISABLE),
        (QUEUE_ENGINE, 0),
        (QUEUE_ROOT, top),
        (QUEUE_RING, SYSTEM_BASE),
        (QUEUE_RING_BYTES, 4096),
        (QUEUE_FLAGS, queue_flags::RING_PHYSICAL),
        (QUEUE_CONTROL, queue_control::ENABLE),
    ] {
        gpu.write_register(register, value);
    }
    // A word onto itself: read and written.
    let mut words = Vec::new();
    Command::Copy { source_va: va, target_va: va, bytes: 8 }.encode(&mut words);
    words.iter().zip(0..).for_each(|(word, index)| Word::store(system.word(index * 8), *word));
    Word::store(gpu.doorbell_page().word(0), words.len() as u64 * 8);
    gpu.doorbell_rung(0);
    while let Some(next) = gpu.next_event() {
        gpu.tick(next);
    }
    if gpu.read_register(INTERRUPT_POP) == record::FAULT {
        assert_eq!(gpu.read_register(RECORD_1), va);
        let said = gpu.read_register(RECORD_2);
        return Err((said & 0xff, said >> 8));
    }
    Ok(())
}

/// The same by the data sheet, slowly.
fn expected(local: &Memory, shape: &Shape, top: u64, va: u64) -> Result<(), (u64, u64)> {
    let levels: Vec<u32> = (0..shape.levels()).collect();
    let mut coarse = false;
    let (mut table, mut count) = (root::table(top), root::entries(top, shape.entries(shape.root_level())));
    if va >> shape.va_bits() != 0 {
        return Err((fault::NOT_PRESENT, u64::from(shape.root_level())));
    }
    for level in levels.into_iter().rev() {
        let below: u32 = (0..level).map(|level| shape.index_bits(level)).sum();
        let unit = if coarse { 16 } else { 1 };
        let index = (va >> (12 + below) & (u64::from(shape.entries(level)) - 1)) / unit;
        if index >= count {
            return Err((fault::NOT_PRESENT, u64::from(level)));
        }
        if table + count * 8 > LOCAL_BYTES {
            return Err((fault::BAD_ADDRESS, u64::from(level)));
        }
        let entry = Word::load(local.word(table + index * 8));
        if entry & VALID == 0 {
            return Err((fault::NOT_PRESENT, u64::from(level)));
        }
        table = entry & ADDRESS;
        if level == 0 {
            let cause = if entry & READ_ONLY != 0 { Some(fault::READ_ONLY) } else { None };
            let outside = (table >= LOCAL_BYTES).then_some(fault::BAD_ADDRESS);
            return outside.or(cause).map_or(Ok(()), |cause| Err((cause, 0)));
        }
        count = u64::from(shape.entries(level - 1));
        if level == 1 && entry & LEAF_64KB != 0 && shape.index_bits(0) >= 4 {
            (coarse, count) = (true, count / 16);
        }
    }
    unreachable!("the leaf has answered")
}

#[test]
fn every_shape_walks_as_its_data_sheet_says() {
    // spec: memory §4.3, memory §4.5
    let mut random = Random(0x5eed);
    for bits in [&[9, 18][..], &[10, 10], &[1, 1], &[9, 9, 12], &[9, 9, 9, 9], &[9; 5], &[8, 9, 9, 9, 9, 4], &[3; 6]] {
        let shape = Shape::new(bits);
        let (gpu, system) = device(shape);
        let local = gpu.local_memory();
        let mut seen = [0u32; 2];
        for round in 0..200u64 {
            // A path to a page, somewhere broken in half of the rounds.
            let va = random.below(u64::MAX) & ((1 << shape.va_bits()) - 1) & !7;
            let mut table = 1 << 20;
            let entries = u64::from(shape.index(va, shape.root_level())) + 1;
            let whole = random.below(2) == 0;
            let shorter = entries.div_ceil(512) > 1 && round % 8 == 3;
            let top = match whole {
                true => table,
                false => root::short(table, if shorter { entries - 512 } else { entries }),
            };
            let broken = random.below(2 * u64::from(shape.levels()));
            let coarse = random.below(2) == 0;
            for level in (0..shape.levels()).rev() {
                let next = (4 << 20) + random.below(512) * PAGE + u64::from(level) * (4 << 20);
                let unit = if coarse && level == 0 && shape.has_64kb_leaves() { 16 } else { 1 };
                let form = if coarse && level == 1 { LEAF_64KB } else { 0 };
                let entry = match u64::from(level) == broken {
                    false => next | VALID,
                    true if round % 3 == 0 => (LOCAL_BYTES + next) | VALID,
                    true if round % 3 == 1 && level == 0 => next | VALID | READ_ONLY,
                    true => 0,
                };
                let entry = if entry == 0 { 0 } else { entry | form };
                Word::store(local.word(table + u64::from(shape.index(va, level) / unit) * 8), entry);
                table = next;
            }
            let wanted = expected(local, &shape, top, va);
            seen[usize::from(wanted.is_err())] += 1;
            assert_eq!(touch(&gpu, &system, top, va), wanted, "{bits:?} {va:#x}");
            // spec: memory §4.3
            if va >> (shape.va_bits() - 1) == 1 {
                let repeated = va | u64::MAX << shape.va_bits();
                assert_eq!(touch(&gpu, &system, top, repeated), wanted, "{bits:?} {repeated:#x}");
            }
            // An address beyond the width leads nowhere.
            let beyond = va | 1 << shape.va_bits();
            assert_eq!(touch(&gpu, &system, top, beyond), expected(local, &shape, top, beyond), "{bits:?}");
        }
        assert!(seen.iter().all(|count| *count > 20), "{bits:?}: {seen:?}");
    }
}

#[test]
fn a_dual_entry_leads_to_the_form_that_is_valid() {
    // spec: memory §4.5
    let shape = Shape::new(&[9, 9, 9, 9]).with_dual_entries();
    let (gpu, system) = device(shape);
    let local = gpu.local_memory();
    let va = 0x1234_5678_9000;
    let [top, middle, lower, small, coarse] = [1u64 << 20, 2 << 20, 3 << 20, 4 << 20, 5 << 20];
    let store = |table: u64, index: u32, entry| Word::store(local.word(table + u64::from(index) * 8), entry);
    store(top, shape.index(va, 3), middle | VALID);
    store(middle, shape.index(va, 2), lower | VALID);
    let valid = |bit: bool| if bit { VALID } else { 0 };
    for bits in 0..16 {
        let [links_small, links_coarse, small_leaf, coarse_leaf] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
        // An entry of level 1 is two words.
        store(lower, shape.index(va, 1) * 2, small | valid(links_small));
        store(lower, shape.index(va, 1) * 2 + 1, coarse | valid(links_coarse));
        // By the 4-KB form the page may not be written, by the other it may.
        store(small, shape.index(va, 0), 6 << 20 | READ_ONLY | valid(small_leaf));
        store(coarse, shape.index(va, 0) / 16, 7 << 20 | valid(coarse_leaf));
        let expected = match (links_small, links_coarse) {
            (false, false) => Err((fault::NOT_PRESENT, 1)),
            (_, true) if coarse_leaf => Ok(()),
            (true, _) if small_leaf => Err((fault::READ_ONLY, 0)),
            _ => Err((fault::NOT_PRESENT, 0)),
        };
        assert_eq!(touch(&gpu, &system, top, va), expected, "{bits:#06b}");
    }
    // A half that names no memory is found before a leaf is.
    store(lower, shape.index(va, 1) * 2 + 1, LOCAL_BYTES | VALID);
    assert_eq!(touch(&gpu, &system, top, va), Err((fault::BAD_ADDRESS, 0)));
}
