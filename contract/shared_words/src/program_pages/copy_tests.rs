//! Which bytes are among a program's pages, and copies of them by an operating system that reads a part at a time, or does not override a
//! protection.
#![allow(unsafe_code)] // Memory is mapped, given and looked at as programs do.

use super::*;
use crate::supervised::supervised;
use crate::{AddressRange, Memory};

const OURS: Part = Part { start: 4 * PAGE, end: 8 * PAGE, protection: READ, shared: true, of: (1, 2, 6 * PAGE) };

fn pages() -> ProgramPages {
    ProgramPages { base: 4 * PAGE, bytes: 4 * PAGE, parts: vec![OURS] }
}

#[test]
fn bytes_are_among_the_pages_or_overlap_them_to_the_byte() {
    let (pages, first, end) = (pages(), 4 * PAGE, 8 * PAGE);
    for (base, bytes, offset, overlaps) in [
        (first, 4 * PAGE, Some(0), true),
        (first + 5, 7, Some(5), true),
        (end - 1, 1, Some(4 * PAGE - 1), true),
        (end - 1, 2, None, true),
        (end, 0, Some(4 * PAGE), false),
        (end, 1, None, false),
        (end + 1, 9, None, false),
        (first - 1, 1, None, false),
        (first - 1, 2, None, true),
        (first - 1, u64::MAX, None, true),
        (0, first - 1, None, false),
        (0, u64::MAX, None, true),
        (first + 1, u64::MAX, None, true),
    ] {
        assert_eq!(
            (pages.offset_of(base, bytes), pages.overlaps(base, bytes)),
            (offset, overlaps),
            "{base:#x} {bytes:#x}"
        );
    }
}

#[test]
fn a_mapping_is_ours_only_if_all_of_it_is() {
    let pages = pages();
    let second = Part { start: 5 * PAGE, end: 6 * PAGE, of: (1, 2, 7 * PAGE), ..OURS };
    let others = [OURS, second, Part { protection: 0, ..second }];
    assert!(others.iter().all(|part| pages.is_ours(part)), "however it is protected");
    for (wrong, what) in [
        (Part { of: (9, 2, 7 * PAGE), ..second }, "another device"),
        (Part { of: (1, 9, 7 * PAGE), ..second }, "another file"),
        (Part { of: (1, 2, 8 * PAGE), ..second }, "another page of the file"),
        (Part { shared: false, ..second }, "the program's alone"),
        (Part { end: 9 * PAGE, ..second }, "it ends behind ours"),
        (Part { start: 3 * PAGE, of: (1, 2, 5 * PAGE), ..second }, "it begins before ours"),
    ] {
        assert!(!pages.is_ours(&wrong), "{what}");
    }
}

/// What the program has in a byte of its two pages.
fn byte(at: usize) -> u8 {
    (at / 32) as u8 ^ 0x80
}

/// Two pages, of which the second allows no access.
fn program() -> (NonNull<u8>, [Part; 2]) {
    // SAFETY: a fresh mapping.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * PAGE as usize, WRITABLE, MapFlags::PRIVATE) };
    let place = NonNull::new(mapped.expect("memory").cast::<u8>()).expect("a mapping");
    // SAFETY: the bytes of that mapping.
    (0..2 * PAGE as usize).for_each(|at| unsafe { place.add(at).write_volatile(byte(at)) });
    let start = place.as_ptr() as u64;
    let first = Part { start, end: start + PAGE, protection: READ | WRITE, shared: false, of: (0, 0, 0) };
    let second = Part { start: start + PAGE, end: start + 2 * PAGE, protection: 0, ..first };
    change(&second, 0).expect("a protection");
    (place, [first, second])
}

/// The copy of both pages, where the operating system answers each read so; the reads' places and lengths, and what it copied.
fn copied(mut answer: impl FnMut(usize, [u64; 6]) -> Option<i64>) -> (Vec<(u64, u64)>, Result<(), Errno>) {
    let ((place, both), mut asked) = (program(), Vec::new());
    let base = place.as_ptr() as u64;
    let to = Memory::reserve(2 * PAGE).expect("memory");
    let target = NonNull::from(to.word(0)).cast::<u8>();
    let answers = |arguments: [u64; 6]| {
        asked.push((arguments[3] - base, arguments[2]));
        answer(asked.len(), arguments)
    };
    let memory = File::open("/proc/self/mem").expect("this process's memory");
    let target = target.as_ptr() as u64;
    let body = || copy(&memory, &both, (base, 2 * PAGE), NonNull::new(target as *mut u8).expect("memory"));
    let result = supervised(libc::SYS_pread64, answers, body).expect("no panic");
    if result.is_ok() {
        let mut bytes = vec![0; 2 * PAGE as usize];
        to.read(0, &mut bytes);
        let wrong = bytes.iter().enumerate().find(|(at, byte)| **byte != self::byte(*at));
        assert_eq!(wrong, None, "each byte is where it was");
    }
    let now = parts(base, 2 * PAGE).expect("it is there");
    let rights: Vec<u32> = now.iter().map(|part| part.protection).collect();
    assert_eq!(rights, [READ | WRITE, 0], "each page is protected as it was");
    (asked, result)
}

fn read_part([file, into, bytes, at, ..]: [u64; 6]) -> Option<i64> {
    // SAFETY: the arguments of a read that the thread is in.
    let read = unsafe { libc::pread(file as i32, into as *mut _, bytes.min(3000) as usize, at as i64) };
    assert_eq!(read, bytes.min(3000) as isize);
    Some(read as i64)
}

const IO: Option<i64> = Some(-(libc::EIO as i64));

// spec: memory §2.7
#[test]
fn pages_are_copied_whole_when_the_operating_system_reads_parts() {
    let parts = |number, arguments| if number == 2 { Some(-i64::from(libc::EINTR)) } else { read_part(arguments) };
    let (asked, result) = copied(parts);
    assert_eq!(result, Ok(()));
    assert_eq!(asked, [(0, 4096), (3000, 1096), (3000, 1096), (4096, 4096), (7096, 1096)]);
}

// spec: memory §2.7
#[test]
fn pages_that_may_not_be_read_are_made_readable_while_they_are_copied() {
    let unreadable = |number, arguments| if [3, 5].contains(&number) { IO } else { read_part(arguments) };
    let (asked, result) = copied(unreadable);
    assert_eq!(result, Ok(()));
    assert_eq!(asked, [(0, 4096), (3000, 1096), (4096, 4096), (4096, 4096), (7096, 1096), (7096, 1096)]);
}

// spec: memory §2.7
#[test]
fn pages_that_the_operating_system_does_not_read_are_not_given() {
    // A page that may be read, and one that stays unreadable.
    assert_eq!(copied(|_, _| IO), (vec![(0, 4096)], Err(Errno::IO)));
    let second = |number, arguments| if number > 2 { IO } else { read_part(arguments) };
    assert_eq!(copied(second), (vec![(0, 4096), (3000, 1096), (4096, 4096), (4096, 4096)], Err(Errno::IO)));
    assert_eq!(copied(|_, _| Some(0)), (vec![(0, 4096)], Err(Errno::IO)), "a file that ends");
    let other = |_, _| Some(-i64::from(libc::EPERM));
    assert_eq!(copied(other), (vec![(0, 4096)], Err(Errno::PERM)));
}

// spec: memory §2.7
#[test]
fn a_protection_of_several_pages_goes_with_all_of_them() {
    // SAFETY: a fresh mapping.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), 4 * PAGE as usize, WRITABLE, MapFlags::PRIVATE) };
    let base = mapped.expect("memory") as u64;
    let at = |page: u64| Part {
        start: base + page * PAGE,
        end: base + 4 * PAGE,
        protection: 0,
        shared: false,
        of: (0, 0, 0),
    };
    change(&at(1), READ).expect("a protection");
    let rights = || -> Vec<(u64, u32)> {
        let now = joined_by_rights(parts(base, 4 * PAGE).expect("it is there"));
        now.into_iter().map(|(bytes, rights)| (bytes / PAGE, rights)).collect()
    };
    assert_eq!(rights(), [(1, READ | WRITE), (3, READ)]);
    let memory = Memory::reserve_file(4 * PAGE).expect("a memory file");
    let range = AddressRange::reserve(4 * PAGE).expect("addresses");
    range.show([(&*memory, 0, 4 * PAGE)].into_iter()).expect("a mapping");
    let place = NonNull::new(base as *mut u8).expect("memory");
    // SAFETY: the test's own memory.
    let pages = unsafe { ProgramPages::replace(place, SectionPages::of_range(&range, &[4 * PAGE])) }.expect("given");
    assert_eq!(rights(), [(1, READ | WRITE), (3, READ)], "given");
    // SAFETY: as above.
    unsafe { pages.restore() }.expect("taken back");
    assert_eq!(rights(), [(1, READ | WRITE), (3, READ)], "taken back");
}

/// Bytes of neighbours with the same protection.
fn joined_by_rights(parts: Vec<Part>) -> Vec<(u64, u32)> {
    let mut joined: Vec<(u64, u32)> = Vec::new();
    for part in parts {
        let bytes = part.end - part.start;
        match joined.last_mut() {
            Some((so_far, rights)) if *rights == part.protection => *so_far += bytes,
            _ => joined.push((bytes, part.protection)),
        }
    }
    joined
}
