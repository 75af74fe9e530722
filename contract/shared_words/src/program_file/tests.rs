//! The file of shared memory is found and sealed, and what is no such file is refused.
#![allow(unsafe_code)] // Memory is mapped as programs do.

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};

use super::*;

const PAGE: u64 = 4096;
const WRITABLE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

fn file(flags: MemfdFlags) -> OwnedFd {
    let file = memfd_create("a program's", MemfdFlags::CLOEXEC | flags).expect("a file");
    ftruncate(&file, 8 * PAGE).expect("its size");
    file
}

fn mapped(file: impl AsFd, offset: u64) -> u64 {
    // SAFETY: a fresh mapping.
    let place = unsafe { mmap(std::ptr::null_mut(), 4 * PAGE as usize, WRITABLE, MapFlags::SHARED, file, offset) };
    place.expect("addresses") as u64
}

// spec: memory §2.7
#[test]
fn the_file_of_shared_memory_is_found_and_sealed() {
    let file = file(MemfdFlags::ALLOW_SEALING);
    let base = mapped(&file, 2 * PAGE);
    let found = ProgramFile::at(base + PAGE, 2 * PAGE).expect("a file").expect("it is shared");
    assert_eq!(found.offset(), 3 * PAGE);
    assert_eq!([found.offset_of(base + 2 * PAGE, PAGE), found.offset_of(base, PAGE)], [Some(PAGE), None]);
    assert_eq!(found.offset_of(base + 2 * PAGE, 2 * PAGE), None, "beyond what was given");
    assert!(ftruncate(&file, PAGE).is_err(), "it cannot become smaller any more");
    rustix::io::pwrite(&file, &[7], 3 * PAGE).expect("a byte");
    let mut byte = [0];
    rustix::io::pread(found.file(), &mut byte, 3 * PAGE).expect("a byte");
    assert_eq!(byte, [7], "the same file");
    assert!(found.is_in_place());
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: this test's own memory.
    unsafe { mmap_anonymous((base + PAGE) as *mut _, PAGE as usize, WRITABLE, flags) }.expect("other memory");
    assert!(!found.is_in_place());
    assert_eq!(ProgramFile::at(base, 2 * PAGE).expect_err("two kinds"), ProgramError::Mixed(base));
    assert!(ProgramFile::at(base + PAGE, PAGE).expect("it is there").is_none(), "the program's alone");
}

// spec: memory §2.7
#[test]
fn what_cannot_be_handed_over_says_why() {
    let unsealable = file(MemfdFlags::empty());
    let base = mapped(&unsealable, 0);
    assert_eq!(ProgramFile::at(base, PAGE).expect_err("it may shrink"), ProgramError::NotSealed(base));
    let gone = mapped(file(MemfdFlags::ALLOW_SEALING), 0);
    assert_eq!(ProgramFile::at(gone, PAGE).expect_err("it was closed"), ProgramError::NoDescriptor(gone));
    // SAFETY: a fresh mapping.
    let anonymous = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE as usize, WRITABLE, MapFlags::SHARED) };
    let anonymous = anonymous.expect("addresses") as u64;
    assert_eq!(ProgramFile::at(anonymous, PAGE).expect_err("no file"), ProgramError::NoDescriptor(anonymous));
}

// spec: memory §2.7
#[test]
fn memory_is_in_place_as_long_as_each_page_is() {
    let file = file(MemfdFlags::ALLOW_SEALING);
    for page in 0..4 {
        let base = mapped(&file, PAGE);
        let found = ProgramFile::at(base, 4 * PAGE).expect("a file").expect("it is shared");
        assert!(found.is_in_place());
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: this test's own memory.
        let other = unsafe { mmap((base + page * PAGE) as *mut _, PAGE as usize, WRITABLE, flags, &file, 7 * PAGE) };
        other.expect("another page of the same file");
        assert!(!found.is_in_place(), "page {page}");
    }
}

#[test]
fn a_device_has_two_numbers() {
    let mut stat = rustix::fs::fstat(file(MemfdFlags::empty())).expect("a file");
    stat.st_dev = rustix::fs::makedev(8, 3);
    assert_eq!(identity(&stat), (0x8_0000_0003, stat.st_ino), "as a line of the list of mappings is read");
}
