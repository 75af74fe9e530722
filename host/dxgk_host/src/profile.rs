//! Adapter profiles: named sets of sizes and rates. The rates are a stated cost model for virtual time; real time runs
//! as fast as this computer does.

use softgpu::Timing;

/// An adapter that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// Bytes of the memory segment's page: 4096 or 65536.
    pub segment_page_bytes: u64,
    /// Bytes of video memory when nothing else is said.
    pub vram_bytes: u64,
    /// Bytes of the aperture segment.
    pub aperture_bytes: u64,
    /// What commands cost in virtual time.
    pub timing: Timing,
    /// What a call costs its caller in virtual time, in nanoseconds.
    pub call_ns: u64,
}

/// The profiles that are built in; the first is the default.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "discrete-4k",
        description: "a mid-size discrete GPU: 8 GiB at 1 TB/s, 25 GB/s to system memory, 4-KB segment pages",
        segment_page_bytes: 4096,
        vram_bytes: 8 << 30,
        aperture_bytes: 256 << 20,
        timing: MIDDLE,
        call_ns: 500,
    },
    Profile {
        name: "discrete-64k",
        description: "the same with 64-KB segment pages",
        segment_page_bytes: 65536,
        vram_bytes: 8 << 30,
        aperture_bytes: 256 << 20,
        timing: MIDDLE,
        call_ns: 500,
    },
    Profile {
        name: "datacenter",
        description: "a large accelerator: 80 GiB at 3.3 TB/s, 55 GB/s to system memory, 64-KB segment pages",
        segment_page_bytes: 65536,
        vram_bytes: 80 << 30,
        aperture_bytes: 1 << 30,
        timing: Timing {
            compute_bytes_per_us: 3_300_000,
            copy_bytes_per_us: 55_000,
            local_copy_bytes_per_us: 1_600_000,
            ..MIDDLE
        },
        call_ns: 500,
    },
];

const MIDDLE: Timing = Timing {
    command_ns: 50,
    launch_ns: 2_000,
    compute_bytes_per_us: 1_000_000,
    copy_bytes_per_us: 25_000,
    local_copy_bytes_per_us: 400_000,
    copy_latency_ns: 1_000,
    signal_ns: 100,
    wait_ns: 100,
    unpark_ns: 500,
    entry_ps: 500,
};

impl Profile {
    /// The profile with this name.
    pub fn named(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }
}
