//! Very many allocations of a client lie in a few files of its own: neither its descriptors nor the daemon's grow with them. Client and
//! daemon are in this program, so their descriptors are counted together; `openwddm`'s tests count them apart.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use d3dkmt::Allocation;
use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use rustix::fs::{SeekFrom, seek};
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_umd::Gpu;

const BYTES: u64 = 64 << 10;

/// Descriptors of this program are counted by one test at a time.
static COUNTED: Mutex<()> = Mutex::new(());

struct Served {
    host: Arc<Host>,
    _daemon: Daemon,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn serve(system_bytes: u64) -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let mut config = HostConfig::new(profile, Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (64 << 20, 16 << 20, system_bytes);
    config.isolates_processes = true;
    let host = Host::start(config).expect("a kernel");
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default()).expect("a socket");
    Served { host, _daemon: daemon, path, _folder: folder }
}

impl Served {
    fn client(&self) -> Gpu {
        let link: Arc<dyn Link> = SocketLink::connect(&self.path).expect("a kernel");
        Gpu::open(link).expect("the adapter opens")
    }
}

fn create(gpu: &Gpu, kind: Kind) -> Arc<Allocation> {
    let wanted =
        AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically: false, size_bytes: BYTES };
    gpu.device().create_allocation(wanted.encode().to_vec()).expect("system memory")
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

/// Bytes of system memory that lie in files or are this program's own.
fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

// spec: memory §6.3
#[test]
fn allocations_cost_no_descriptors_however_many_there_are() {
    const COUNT: u64 = 50_000;
    let _alone = COUNTED.lock();
    let served = serve(4 << 30);
    let gpu = served.client();
    drop(create(&gpu, Kind::System).lock().expect("always"));
    let before = (descriptors(), memory_bytes());
    let all: Vec<_> = (0..COUNT)
        .map(|number| {
            let allocation = create(&gpu, Kind::System);
            let lock = allocation.lock().expect("always");
            assert_eq!(lock.read_word(BYTES - 8), 0, "allocation {number} is fresh");
            lock.write_words(number % 16 * 4096, &[number + 1]);
            drop(lock);
            allocation
        })
        .collect();
    let now = (descriptors(), memory_bytes());
    assert!(now.0 <= before.0 + 32, "{COUNT} allocations took {} descriptors", now.0 - before.0);
    // Each has touched two pages of its sixteen.
    let took = now.1.saturating_sub(before.1);
    assert!(took < COUNT * (2 * 4096 + 4096), "{took} bytes of memory");
    for (number, allocation) in (0..COUNT).zip(&all).step_by(997) {
        let lock = allocation.lock().expect("always");
        assert_eq!(lock.read_word(number % 16 * 4096), number + 1);
    }
    served.host.check_invariants().expect("in order");
}

#[test]
fn memory_is_fresh_for_whoever_has_it_next_and_a_client_keeps_nothing_of_another_s() {
    const COUNT: u64 = 200;
    let served = serve(64 << 20);
    let clients = [served.client(), served.client()];
    for round in 1..=6 {
        let (giver, taker) = (&clients[round % 2], &clients[(round + 1) % 2]);
        let fill = |gpu: &Gpu, value: u64| -> Vec<_> {
            let all: Vec<_> = (0..COUNT).map(|_| create(gpu, Kind::System)).collect();
            for allocation in &all {
                let lock = allocation.lock().expect("always");
                for at in (0..BYTES).step_by(8) {
                    assert_eq!(lock.read_word(at), 0, "round {round} at {at:#x}");
                }
                lock.fill_words(0, BYTES / 8, |_| value);
            }
            all
        };
        // The same client has its own pages back, and then the other has them.
        drop(fill(giver, 0x1111));
        let half = fill(giver, 0x2222);
        let kept = half.into_iter().step_by(2).collect::<Vec<_>>();
        let theirs = fill(taker, 0x3333);
        for allocation in &kept {
            let lock = allocation.lock().expect("always");
            assert!((0..BYTES).step_by(8).all(|at| lock.read_word(at) == 0x2222));
        }
        drop((kept, theirs));
    }
    served.host.check_invariants().expect("in order");
}

/// What a hostile client finds in everything that it was ever handed.
#[test]
fn all_files_of_a_client_together_hold_no_byte_of_another_client() {
    const MINE: u64 = 0x5ec4_e7ed_5ec4_e7ed;
    let _alone = COUNTED.lock();
    let served = serve(64 << 20);
    let (honest, hostile) = (served.client(), served.client());
    let secret = |gpu: &Gpu| -> Vec<_> {
        let make = |kind| {
            let allocation = create(gpu, kind);
            allocation.lock().expect("always").fill_words(0, BYTES / 8, |_| MINE);
            allocation
        };
        [Kind::System, Kind::LocalThenSystem].into_iter().cycle().take(64).map(make).collect()
    };
    drop(hostile_memory(&hostile));
    drop(secret(&honest));
    let kept = (secret(&honest), hostile_memory(&hostile));
    // The arenas of both are in this program: those that hold the secret are one client's, and none of the other's pages is there.
    let mut holders = 0;
    for entry in std::fs::read_dir("/proc/self/fd").expect("procfs").flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if !target.to_string_lossy().contains("openwddm-lent") {
            continue;
        }
        let file = std::fs::File::open(entry.path()).expect("who has it may open it again");
        let found = words_in(&file, |word| [MINE, THEIRS].iter().position(|known| *known == word));
        assert!(found.iter().filter(|count| **count > 0).count() <= 1, "{found:?} words of both clients in one file");
        holders += usize::from(found[0] > 0);
    }
    assert!(holders >= 2, "the honest client's memory lies in {holders} of them");
    drop(kept);
    served.host.check_invariants().expect("in order");
}

const THEIRS: u64 = 0x0bad_0bad_0bad_0bad;

fn hostile_memory(gpu: &Gpu) -> Vec<Arc<Allocation>> {
    let make = |kind| {
        let allocation = create(gpu, kind);
        allocation.lock().expect("always").fill_words(0, BYTES / 8, |_| THEIRS);
        allocation
    };
    [Kind::System, Kind::LocalThenSystem].into_iter().cycle().take(64).map(make).collect()
}

/// How many words of a file are of each kind; holes have none.
fn words_in(file: &std::fs::File, kind: impl Fn(u64) -> Option<usize>) -> [u64; 2] {
    let (mut counts, mut at) = ([0; 2], 0);
    while let Ok(data) = seek(file, SeekFrom::Data(at)) {
        let end = seek(file, SeekFrom::Hole(data)).expect("behind data is a hole");
        let mut bytes = vec![0; (end - data) as usize];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, data).expect("data");
        for word in bytes.chunks_exact(8) {
            if let Some(kind) = kind(u64::from_le_bytes(word.try_into().expect("eight bytes"))) {
                counts[kind] += 1;
            }
        }
        at = end;
    }
    counts
}
