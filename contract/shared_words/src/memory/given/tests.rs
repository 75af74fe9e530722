//! A file takes the place of pages, and gives it back, with its content; a file that could end this program is refused.

use rustix::fs::{fcntl_add_seals, ftruncate};

use super::*;

const PAGE: u64 = 4096;

fn file(pages: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("a process's", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
    ftruncate(&file, pages * PAGE).expect("its size");
    fcntl_add_seals(&file, seals).expect("seals");
    file
}

fn byte(file: &OwnedFd, at: u64) -> u8 {
    let mut byte = [0];
    rustix::io::pread(file, &mut byte, at).expect("a byte");
    byte[0]
}

// spec: memory §2.7
#[test]
fn a_file_takes_the_place_of_pages_and_keeps_what_it_holds() {
    for memory in [Memory::reserve(8 * PAGE), Memory::reserve_file(8 * PAGE)].map(|memory| memory.expect("memory")) {
        memory.fill(0, 8 * PAGE, 0x0101_0101);
        let file = file(4, SealFlags::SHRINK);
        for page in 0..4 {
            rustix::io::pwrite(&file, &[page as u8 + 10], page * PAGE).expect("a byte");
        }
        let given = GivenFile::take(file.try_clone().expect("a descriptor"), PAGE, 3 * PAGE).expect("a good file");
        // The other way round than they lie in the file.
        memory.place(&given, &[(5 * PAGE, 2 * PAGE), (2 * PAGE, PAGE)]).expect("mappings");
        let mut found = [0];
        for (at, holds) in [(5, 11), (6, 12), (2, 13)] {
            memory.read(at * PAGE, &mut found);
            assert_eq!(found, [holds], "page {at}");
            memory.write(at * PAGE + 1, &[holds + 10]);
            assert_eq!(byte(&file, (u64::from(holds) - 10) * PAGE + 1), holds + 10, "the file has it, too");
        }
        rustix::io::pwrite(&file, &[99], 3 * PAGE + 2).expect("a byte");
        memory.read(2 * PAGE + 2, &mut found);
        assert_eq!(found, [99], "and the other way round");
        memory.read(PAGE, &mut found);
        assert_eq!(found, [1], "what is beside it is what it was");
        memory.take_back(0, 8 * PAGE).expect("a mapping");
        drop(given);
        memory.read(2 * PAGE, &mut found);
        assert_eq!(found, [0], "nothing of the process is left");
        memory.fill(0, 8 * PAGE, 0x5555_5555);
        assert_eq!([0, 1, 2, 3].map(|page| byte(&file, page * PAGE)), [10, 11, 12, 13], "it lost nothing");
    }
}

// spec: memory §2.7
#[test]
fn what_could_end_this_program_is_not_taken() {
    let take = |file: OwnedFd, offset, bytes| GivenFile::take(file, offset, bytes).map(drop);
    assert_eq!(take(file(4, SealFlags::empty()), 0, PAGE), Err(GivenError::MayShrink));
    for (offset, bytes) in [(0, 0), (1, PAGE), (0, PAGE + 1), (4 * PAGE, PAGE), (0, 5 * PAGE), (u64::MAX - 4095, PAGE)]
    {
        assert_eq!(take(file(4, SealFlags::SHRINK), offset, bytes), Err(GivenError::Outside(4 * PAGE)));
    }
    let ordinary = std::fs::File::open("/proc/self/exe").expect("a file");
    let (pipe, _other) = std::io::pipe().expect("a pipe");
    for other in [ordinary.into(), pipe.into()] {
        assert_eq!(take(other, 0, PAGE), Err(GivenError::NoMemoryFile));
    }
    // Huge pages are there as long as the machine has any left, which the process decides. Where it has none, none are made.
    if let Ok(huge) = memfd_create("huge", MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB) {
        let _ = ftruncate(&huge, 1 << 21);
        let _ = fcntl_add_seals(&huge, SealFlags::SHRINK);
        assert_eq!(take(huge, 0, PAGE), Err(GivenError::NoMemoryFile));
    }
    // One that takes no stores is refused when it is mapped, and the pages show no file.
    for no_stores in [SealFlags::WRITE, SealFlags::FUTURE_WRITE] {
        let memory = Memory::reserve_file(4 * PAGE).expect("memory");
        let sealed = GivenFile::take(file(4, SealFlags::SHRINK | no_stores), 0, 2 * PAGE).expect("it cannot shrink");
        memory.place(&sealed, &[(0, PAGE), (2 * PAGE, PAGE)]).expect_err("no stores");
        assert!(memory.lent_at(0).is_none());
    }
}

// spec: memory §2.7
#[test]
fn a_file_has_its_whole_pages() {
    // The last page of the file is not all there.
    let file = file(4, SealFlags::empty());
    ftruncate(&file, 4 * PAGE + 100).expect("its size");
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("a seal");
    let copy = file.try_clone().expect("a descriptor");
    assert_eq!(GivenFile::take(copy, 3 * PAGE, 2 * PAGE).map(drop), Err(GivenError::Outside(4 * PAGE + 100)));
    let given = GivenFile::take(file, 2 * PAGE, 2 * PAGE).expect("its last whole pages");
    assert_eq!(given.bytes(), 2 * PAGE);
    let memory = Memory::reserve_file(4 * PAGE).expect("memory");
    memory.place(&given, &[(PAGE, 2 * PAGE)]).expect("a mapping");
    let lent = memory.lent_at(PAGE).expect("it is there");
    assert_eq!((lent.file.bytes(), lent.file_offset, lent.bytes), (4 * PAGE, 2 * PAGE, 2 * PAGE));
}

#[test]
fn a_refusal_says_what_is_wrong_and_what_to_do() {
    for (error, says) in [
        (GivenError::NoMemoryFile, "no memory file of small pages: memfd_create makes one"),
        (GivenError::MayShrink, "it needs the seal F_SEAL_SHRINK"),
        (GivenError::Outside(300), "no whole pages of the file, which has 300 bytes"),
        (GivenError::System(Errno::PERM), "does not let the file be mapped: Operation not permitted"),
    ] {
        assert!(error.to_string().contains(says), "{error}");
    }
}
