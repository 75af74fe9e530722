//! The same platform where buffers come with lists: the kernel sees the GPU's uses and the CPU's mappings, and maintains
//! the caches by itself. No test here calls InvalidateCache; each would see stale bytes without the kernel's maintenance.

use std::sync::Arc;

use d3dkmt::{Allocation, Context, LockFlags, MakeResidentFlags};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_umd::{Gpu, ListedCommands};
use wddm_types::NodeId;

use stack::world::{MIB, VIRTUAL};

const BYTES: u64 = 8192;

/// A cacheable allocation, an uncached one, and a context that names both.
struct Lists {
    // The context goes before the memory, the memory before the device.
    context: Context,
    cached: Arc<Allocation>,
    plain: Arc<Allocation>,
    gpu: Gpu,
    done: u64,
}

impl Lists {
    fn new(profile: &str, mode: Mode) -> Lists {
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            io_coherent: false,
            ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), mode)
        };
        let host = Host::start(config).expect("the host starts");
        let gpu = Gpu::open(ProcessLink::new(host) as Arc<dyn Link>).expect("the adapter opens");
        let [cached, plain] = [true, false].map(|cached| {
            let (kind, cpu_visible) = (Kind::System, true);
            let request = AllocationRequest { kind, cpu_visible, cached, accessed_physically: true, size_bytes: BYTES };
            let allocation = gpu.device().create_allocation(request.encode().to_vec()).unwrap();
            gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).unwrap();
            allocation
        });
        let context = Context::create(gpu.device(), NodeId(0), Vec::new()).unwrap();
        Lists { context, cached, plain, gpu, done: 0 }
    }

    /// Renders and waits.
    fn run(&mut self, commands: &ListedCommands) {
        commands.render(&self.context).unwrap();
        // A lock of something that is in use would wait for paging only, so the end is waited for by a fence.
        self.done += 1;
        let fence = match self.gpu.has_addresses() {
            true => self.gpu.device().create_native_fence(Default::default()).unwrap(),
            false => self.gpu.device().create_monitored_fence(Default::default(), 0).unwrap(),
        };
        self.context.signal(&fence, 1).unwrap();
        self.gpu.device().wait(&[(&fence, 1)]).unwrap();
    }

    fn gpu_writes(&mut self, value: u32) {
        let mut commands = ListedCommands::new();
        commands.fill((&self.cached, 0), BYTES, value);
        self.run(&commands);
    }

    /// The first and the last word, as the GPU reads them.
    fn gpu_reads(&mut self) -> [u32; 2] {
        let mut commands = ListedCommands::new();
        commands.copy((&self.cached, 0), (&self.plain, 0), BYTES);
        self.run(&commands);
        let lock = self.plain.lock().unwrap();
        // CAST: the low half of a word that was filled.
        [0, BYTES - 8].map(|offset| lock.read_word(offset) as u32)
    }
}

fn worlds() -> Vec<(&'static str, Lists)> {
    let mut all = Vec::new();
    for profile in ["noncoherent", "wddm1-banks"] {
        for mode in [VIRTUAL, Mode::Real] {
            all.push((profile, Lists::new(profile, mode)));
        }
    }
    all
}

fn word(value: u32) -> u64 {
    u64::from(value) << 32 | u64::from(value)
}

#[test]
fn what_the_cpu_wrote_is_written_back_before_a_list_reads_it() {
    // spec: memory §6.7, memory §10.1
    // seed: U27, U28
    for (profile, mut lists) in worlds() {
        lists.cached.lock().unwrap().write_words(0, &[word(1)]);
        assert_eq!(lists.gpu_reads()[0], 1, "{profile}: after the unlock");
        let lock = lists.cached.lock().unwrap();
        lock.write_words(BYTES - 8, &[word(2)]);
        assert_eq!(lists.gpu_reads(), [1, 2], "{profile}: while it is locked");
        lock.write_words(0, &[word(3)]);
        assert_eq!(lists.gpu_reads(), [3, 2], "{profile}: again");
    }
}

#[test]
fn what_a_list_wrote_is_seen_by_the_cpu() {
    // spec: memory §6.7, memory §10.1
    // seed: U27, U29
    for (profile, mut lists) in worlds() {
        let lock = lists.cached.lock().unwrap();
        assert_eq!(lock.read_word(0), 0, "{profile}: the line is there");
        lists.gpu_writes(4);
        assert_eq!([0, BYTES - 8].map(|at| lock.read_word(at)), [word(4); 2], "{profile}: while it is locked");
        drop(lock);
        lists.gpu_writes(5);
        assert_eq!(lists.cached.lock().unwrap().read_word(8), word(5), "{profile}: at the next lock");
    }
}

#[test]
fn no_line_of_the_cpu_goes_over_what_a_list_wrote() {
    // spec: memory §6.7, third row of the table
    for (profile, mut lists) in worlds() {
        lists.cached.lock().unwrap().write_words(0, &[word(6)]);
        lists.gpu_writes(7);
        // Whatever makes the line leave the cache now.
        lists.cached.invalidate_cache(0, BYTES).unwrap();
        assert_eq!(lists.gpu_reads(), [7, 7], "{profile}");
        assert_eq!(lists.cached.lock().unwrap().read_word(0), word(7), "{profile}");
    }
}

/// The kernel believes a ReadOnly lock: stores under it stay in the cache until a call flushes it. Another lock that may write counts.
#[test]
fn a_lock_that_only_reads_costs_the_gpu_no_maintenance() {
    // spec: memory §6.7, fourth row of the table; memory §6.5
    let read_only = LockFlags::LOCK_ENTIRE | LockFlags::READ_ONLY;
    for (profile, mut lists) in worlds() {
        let reader = lists.cached.lock_legacy(Vec::new(), read_only).unwrap();
        reader.write_words(0, &[word(8)]);
        assert_eq!(lists.gpu_reads()[0], 0, "{profile}: against its word");
        let writer = lists.cached.lock_legacy(Vec::new(), LockFlags::LOCK_ENTIRE).unwrap();
        writer.write_words(BYTES - 8, &[word(9)]);
        assert_eq!(lists.gpu_reads(), [8, 9], "{profile}: one lock may write");
        drop((reader, writer));
        // A lock that only reads sees the GPU's writes.
        lists.gpu_writes(10);
        let reader = lists.cached.lock_legacy(Vec::new(), read_only).unwrap();
        assert_eq!(reader.read_word(8), word(10), "{profile}: at the lock");
        lists.gpu_writes(11);
        assert_eq!(reader.read_word(8), word(11), "{profile}: while it is locked");
    }
}

/// Both sides by turns, one line each, for a while.
#[test]
fn both_sides_by_turns_see_each_other() {
    // spec: memory §6.7
    for (profile, mut lists) in worlds() {
        for round in 1..40u32 {
            {
                let lock = lists.cached.lock().unwrap();
                if round > 1 {
                    assert_eq!(lock.read_word(8), word(2 * round - 1), "{profile}, round {round}");
                }
                lock.write_words(0, &[word(2 * round)]);
            }
            assert_eq!(lists.gpu_reads()[0], 2 * round, "{profile}, round {round}");
            lists.gpu_writes(2 * round + 1);
        }
    }
}
