//! A Rust client sees the words of fences in the program of its kernel through pages that take no store. The tests of `shared_words` and the
//! C programs show the effect of a store.

use std::sync::Arc;

use d3dkmt::{FenceFlags, NativeFenceRequest};
use dxgk_host::{Host, HostConfig, Mode, Profile};

use stack::world::{MIB, VIRTUAL, client};

/// How the operating system says that this address is mapped.
fn protection(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the operating system tells");
    let within = |line: &&str| {
        let (range, _) = line.split_once(' ').expect("a range and more");
        let ends = range.split_once('-').expect("a first and a last address");
        let [first, end] = [ends.0, ends.1].map(|end| usize::from_str_radix(end, 16).expect("a number"));
        (first..end).contains(&address)
    };
    let line = maps.lines().find(within).expect("it is mapped");
    line.split_whitespace().nth(1).expect("rights").to_owned()
}

#[test]
fn a_client_sees_fences_through_pages_that_take_no_store() {
    // spec: sync §1.4, sync §1.5
    // seed: N10, C05, C07
    for mode in [VIRTUAL, Mode::Real] {
        let profile = Profile::named("discrete-4k").expect("a built-in profile");
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            memory_files: true,
            ..HostConfig::new(profile, mode)
        };
        let host = Host::start(config).expect("the host starts");
        let mut client = client(&host);
        let native = client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
        let monitored = client.gpu.device().create_monitored_fence(FenceFlags::empty(), 0).expect("a fence");
        let progress = client.stream.progress();
        for fence in [&native, &monitored, progress, client.gpu.paging().fence()] {
            let address = fence.word().address().as_ptr() as usize;
            assert_eq!(protection(address), "r--s", "{mode:?}");
        }
        // They are the words all the same.
        client.gpu.device().signal(&monitored, 4).expect("it rises");
        client.run(|commands| {
            commands.signal(&native, 3);
        });
        assert_eq!((native.current(), monitored.current()), (3, 4));
        let kernels = Arc::clone(host.system_memory());
        let address = std::ptr::from_ref(kernels.word(native.address().0)) as usize;
        assert_eq!(protection(address), "rw-s", "the kernel writes them");
    }
}
