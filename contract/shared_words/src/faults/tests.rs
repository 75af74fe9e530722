//! The descriptor by which stores are held, and what a party does with it to which it is given.

use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::io::{FdFlags, fcntl_getfd, pread};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::*;
use crate::{AddressRange, Memory};

const PAGE: u64 = 4096;

/// Bit 57 of an entry of the list of pages: a store there is held.
pub(crate) fn is_held(page: u64) -> bool {
    let list = File::open("/proc/self/pagemap").expect("a list of pages");
    let mut entry = [0; 8];
    assert_eq!(pread(&list, &mut entry, page / PAGE * 8), Ok(8));
    u64::from_le_bytes(entry) >> 57 & 1 == 1
}

/// What the operating system says of such a descriptor: the interface, and the features that were asked for.
fn interface(descriptor: &OwnedFd) -> [u64; 2] {
    let said = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd())).expect("a descriptor");
    let line = said.lines().find_map(|line| line.strip_prefix("API:")).expect("it holds stores");
    let mut numbers = line.trim().split(':').map(|hex| u64::from_str_radix(hex, 16).expect("a number"));
    [numbers.next(), numbers.next()].map(|number| number.expect("two numbers"))
}

/// Whether the operating system holds stores into pages that were never touched, as it does from Linux 6.4 on.
fn holds_untouched() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release.split(['.', '-']).map(|number| number.trim().parse::<u32>().unwrap_or(0));
    [numbers.next(), numbers.next()].map(|number| number.expect("two numbers")) >= [6, 4]
}

#[test]
fn a_program_without_privileges_has_the_same_descriptor() {
    let unprivileged = || {
        let ours = capabilities(None).expect("those of this thread");
        let none = CapabilitySet::empty();
        let fewer = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: ours.inheritable };
        set_capabilities(None, fewer).expect("a thread may give them up");
        open()
    };
    let unprivileged = std::thread::spawn(unprivileged).join().expect("no panic");
    for descriptor in [open(), unprivileged].map(|opened| opened.expect("stores can be held")) {
        assert!(fcntl_getfd(&descriptor).expect("its flags").contains(FdFlags::CLOEXEC), "no other program gets it");
        let [api, asked] = interface(&descriptor);
        // linux/userfaultfd.h: PAGEFAULT_FLAG_WP is bit 0, WP_HUGETLBFS_SHMEM bit 12, WP_UNPOPULATED (where there is one) bit 13.
        assert_eq!((api, asked & 0xffff), (0xaa, if holds_untouched() { 0x3001 } else { 0x1001 }));
    }
}

// spec: memory §6.3
#[test]
fn a_party_with_the_descriptor_holds_stores_and_lets_them_go_on() {
    let memory = Memory::reserve_file(4 * PAGE).expect("a memory file");
    let range = AddressRange::reserve(4 * PAGE).expect("addresses");
    range.show([(&*memory, 0, 4 * PAGE)].into_iter()).expect("a mapping");
    range.write(0, &[1; 4 * PAGE as usize]);
    let ours = StoresElsewhere::ours().expect("stores can be held").try_clone_to_owned().expect("a descriptor");
    let kernel = StoresElsewhere::given(ours).expect("it is one by which stores are held");
    let base = range.base().as_ptr() as u64;
    let held = || [0, 1, 2, 3].map(|page| is_held(base + page * PAGE));
    kernel.hold(base + PAGE, 2 * PAGE).expect("pages of a file");
    assert_eq!(held(), [false, true, true, false]);
    kernel.release(base + 2 * PAGE, PAGE).expect("it is held");
    assert_eq!(held(), [false, true, false, false]);
    kernel.release(base, 4 * PAGE).expect_err("not all of it was ever held");
    assert_eq!(held(), [false, true, false, false]);
    kernel.release(base + PAGE, PAGE).expect("it is held");
    assert_eq!(held(), [false; 4]);
    // No process has memory at its first page.
    kernel.hold(0, PAGE).expect_err("no memory");
}

#[test]
fn a_descriptor_of_another_kind_is_refused() {
    let (pipe, _other) = std::io::pipe().expect("a pipe");
    let ordinary = File::open("/proc/self/exe").expect("a file");
    let memory = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
    for other in [pipe.into(), ordinary.into(), memory] {
        assert_eq!(StoresElsewhere::given(other).expect_err("another kind"), "it is none by which stores are held");
    }
}
