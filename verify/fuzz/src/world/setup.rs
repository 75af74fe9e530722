//! The choices that a world's seed makes about its adapter.

use ddi::SegmentFlags;
use dxgk_host::{Eviction, HostConfig, Mode, PROFILES, Profile};
use sim::Random;

const MIB: u64 = 1 << 20;
/// The profiles of even worlds; the others have any that is built in.
const OFTEN: [&str; 13] = [
    "discrete-4k",
    "discrete-64k",
    "small-bar",
    "integrated",
    "two-memories",
    "compute-only",
    "by-address",
    "noncoherent",
    "levels-2",
    "tables-by-cpu",
    "wddm1-banks",
    "wddm1-banks",
    "wddm1-banks",
];
/// Page tables with leaf tables of a MiB need this much more room than others.
const LARGE_TABLES: &str = "levels-6";

/// Those with displays, of every eighth world.
const SHOWING: [&str; 4] = ["discrete-4k", "flip-queue", "wddm2-packets", "integrated"];

/// From here on worlds have a bystander, and draw what public reports of this field have drawn. Below lie the times in seconds that fresh
/// seeds were before, which tests name.
const REPORTS_FROM: u64 = 10_000_000_000;

/// Whether a world has a bystander, and its hostile processes draw what public reports have drawn: copies of tiles by contexts of packets,
/// notices of evictions, large and long lists, work on engines with less power.
pub fn reports(seed: u64) -> bool {
    seed >= REPORTS_FROM
}

/// Virtual time after which the kernel takes an engine to hang, in worlds that are not to meet that.
const ENDLESS_NS: u64 = 10_000_000_000;

/// Whether hostile processes of a world know of displays, and its driver may lie about them.
pub fn shows(seed: u64) -> bool {
    seed % 8 == 6
}

/// Whether the kernel of a world looks for engines that hang, and its driver may lie about them.
pub fn hangs(seed: u64) -> bool {
    seed % 16 == 5
}

/// Whether processes of a world make private calls, and its driver may lie about them.
pub fn escapes(seed: u64) -> bool {
    seed % 4 == 3
}

/// Whether a world has room for allocations of many MiB.
pub fn has_room(seed: u64) -> bool {
    reports(seed) && seed % 5 == 2
}

/// The choices that the seed makes about a world.
pub fn config(seed: u64) -> HostConfig {
    let mut random = Random::new(seed);
    let name = random.pick(&OFTEN);
    let mut profile = match seed % 2 {
        // CAST: a remainder of 4.
        0 if shows(seed) => *Profile::named(SHOWING[(seed / 8 % 4) as usize]).expect("a built-in profile"),
        0 => *Profile::named(name).expect("a built-in profile"),
        _ => PROFILES[Random::new(!seed.rotate_left(7)).index(PROFILES.len())],
    };
    let (standby, whole) = (SegmentFlags::PRESERVED_DURING_STANDBY, SegmentFlags::PRESERVED_DURING_HIBERNATE);
    profile.driver.preserved = *random.pick(&[SegmentFlags::empty(), standby, standby | whole]);
    if profile.driver.has_page_tables() {
        profile.driver.idle_spaces |= random.chance(10);
    }
    if reports(seed) && profile.driver.translates() && Random::new(!seed.rotate_left(43)).chance(30) {
        profile.driver.idle_ns = Profile::named("power-saving").expect("a built-in profile").driver.idle_ns;
    }
    if profile.driver.translates() && profile.driver.hardware_queues {
        profile.driver.context_save_bytes = 4096;
        profile.driver.device_save_bytes = 4096;
    }
    let mut config = HostConfig::new(&profile, Mode::Virtual { stored: true });
    config.vram_bytes = (512 << 10) << random.below(3);
    config.page_table_bytes = if profile.name == LARGE_TABLES { 64 * MIB } else { 8 * MIB };
    config.system_bytes = (4 + random.below(4)) * MIB;
    if has_room(seed) {
        (config.vram_bytes, config.system_bytes) = (64 * MIB, 128 * MIB);
    }
    config.memory_policy.write_back_ahead = random.chance(30);
    config.memory_policy.eviction = sim::eviction(seed);
    if config.memory_policy.eviction == Eviction::Planner {
        config.memory_policy.read_in_place = Random::new(!seed.rotate_left(33)).chance(50);
    }
    // Work of the processes takes microseconds; bytes that a hostile one submits as commands may say that they take years.
    config.recovery.delay_ns = Some(if hangs(seed) { 1_000_000 } else { ENDLESS_NS });
    config
}
