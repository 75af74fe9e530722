//! Stores that the operating system holds: a thread that stores into a protected range of addresses sleeps until it is woken, and stores
//! again, into the pages that are mapped there then (`userfaultfd` with write protection). The code that puts other pages in place of
//! these uses it. Loads go on; no thread reads the descriptor's messages, and there is no signal handler: the operating system keeps the
//! sleepers.
//!
//! By giving away its descriptor a process lets the receiver hold its stores ([`StoresElsewhere`]): a kernel in another process then
//! holds them itself, without asking.
//!
//! Limit: a system call that writes into a protected page fails with EFAULT where the process may not handle faults of the operating
//! system (`vm.unprivileged_userfaultfd`).
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// The way to the sleepers of this process.
#[derive(Clone, Copy)]
pub(crate) struct Faults(&'static OwnedFd);

impl Faults {
    /// Opened once for the whole process.
    ///
    /// # Errors
    /// When the operating system does not hold stores into shared memory.
    pub fn open() -> Result<Faults, Errno> {
        static FAULTS: OnceLock<Result<OwnedFd, Errno>> = OnceLock::new();
        FAULTS.get_or_init(open).as_ref().map(Faults).map_err(|error| *error)
    }

    /// Holds every store into whole pages from now on, until other pages are mapped there. When it returns, no store is under way. Private
    /// pages that the program has not touched yet are held from Linux 6.4 on.
    ///
    /// # Errors
    /// When the pages are of a kind that the operating system does not protect, or it has no mapping left.
    ///
    /// # Safety
    /// The addresses are the caller's: whatever stores there may sleep until [`Faults::wake`].
    pub unsafe fn hold(self, base: NonNull<u8>, bytes: u64) -> Result<(), Errno> {
        hold(self.0.as_fd(), range(base, bytes))
    }

    /// Lets stores into pages go on that are still the same.
    ///
    /// # Errors
    /// When they are not held.
    pub fn release(self, base: NonNull<u8>, bytes: u64) -> Result<(), Errno> {
        release(self.0.as_fd(), range(base, bytes))
    }

    /// Wakes every thread that sleeps on a store into these pages.
    pub fn wake(self, base: NonNull<u8>, bytes: u64) {
        let woken = control::<{ opcode::read::<Range>(GROUP, 0x02) }, _>(self.0.as_fd(), range(base, bytes));
        woken.expect("the operating system wakes any range");
    }
}

/// The way to the sleepers of another process, which has given it.
#[derive(Debug)]
pub struct StoresElsewhere(OwnedFd);

impl StoresElsewhere {
    /// The descriptor that this process gives to its kernel. `None`: the operating system does not hold stores into shared memory.
    pub fn ours() -> Option<BorrowedFd<'static>> {
        Faults::open().ok().map(|Faults(descriptor)| descriptor.as_fd())
    }

    /// Takes the descriptor that a process has given.
    ///
    /// # Errors
    /// Gives the reason, when it is no such descriptor: a call on one of another kind might block this process as long as the giver
    /// likes. Nor is any where this process has none itself to compare it with.
    pub fn given(descriptor: OwnedFd) -> Result<StoresElsewhere, String> {
        let ours = StoresElsewhere::ours().ok_or("the operating system holds no stores")?;
        let lies = |descriptor: BorrowedFd<'_>| rustix::fs::fstat(descriptor).map(|stat| stat.st_dev);
        match (lies(ours), lies(descriptor.as_fd())) {
            (Ok(ours), Ok(theirs)) if ours == theirs => Ok(StoresElsewhere(descriptor)),
            _ => Err("it is none by which stores are held".into()),
        }
    }

    /// Holds every store of that process into whole pages of its addresses, until it maps others there. When it returns, no store is under
    /// way. It takes as long as that process's memory is being changed by itself.
    ///
    /// # Errors
    /// When there are no such pages of a file of shared memory; then some may be held.
    pub fn hold(&self, base: u64, bytes: u64) -> Result<(), Errno> {
        hold(self.0.as_fd(), Range { start: base, length: bytes })
    }

    /// Lets them go on.
    ///
    /// # Errors
    /// When they are not held.
    pub fn release(&self, base: u64, bytes: u64) -> Result<(), Errno> {
        release(self.0.as_fd(), Range { start: base, length: bytes })
    }
}

fn hold(descriptor: BorrowedFd<'_>, range: Range) -> Result<(), Errno> {
    let register = Register { range, mode: MODE_WRITE_PROTECT, ioctls: 0 };
    control::<{ opcode::read_write::<Register>(GROUP, 0x00) }, _>(descriptor, register)?;
    control::<{ opcode::read_write::<WriteProtect>(GROUP, 0x06) }, _>(descriptor, WriteProtect { range, mode: 1 })
}

/// Wakes the sleepers, too.
fn release(descriptor: BorrowedFd<'_>, range: Range) -> Result<(), Errno> {
    control::<{ opcode::read_write::<WriteProtect>(GROUP, 0x06) }, _>(descriptor, WriteProtect { range, mode: 0 })
}

fn control<const OPCODE: Opcode, T>(descriptor: BorrowedFd<'_>, mut argument: T) -> Result<(), Errno> {
    // SAFETY: each opcode is used with the structure that the operating system declares for it. The addresses in it are those of the
    // process that opened the descriptor, which vouches for them; the operating system refuses memory that is not mapped.
    unsafe { ioctl(descriptor, Updater::<OPCODE, T>::new(&mut argument)) }
}

fn range(base: NonNull<u8>, bytes: u64) -> Range {
    Range { start: base.as_ptr() as u64, length: bytes }
}

fn open() -> Result<OwnedFd, Errno> {
    // SAFETY: nothing is registered with the descriptor yet.
    let everything = unsafe { userfaultfd(UserfaultfdFlags::CLOEXEC) };
    let user_mode = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
    // SAFETY: as above.
    let descriptor = everything.or_else(|_| unsafe { userfaultfd(user_mode) })?;
    let ask = |features| {
        let mut api = Api { api: 0xAA, features, ioctls: 0 };
        // SAFETY: the opcode's own structure.
        unsafe { ioctl(&descriptor, Updater::<{ opcode::read_write::<Api>(GROUP, 0x3F) }, Api>::new(&mut api)) }
    };
    let needed = FEATURE_WRITE_PROTECT | FEATURE_SHARED_MEMORY;
    // Linux before 6.4 protects no private page that its program has not touched yet: such a page is touched first (`program_pages`).
    ask(needed | FEATURE_UNTOUCHED).or_else(|_| ask(needed))?;
    Ok(descriptor)
}

/// The requests on the descriptor once it is open: to register pages, to wake, to protect. A filter of system calls lets them through.
pub const HOLDING_REQUESTS: [u64; 3] = [
    opcode::read_write::<Register>(GROUP, 0x00) as u64,
    opcode::read::<Range>(GROUP, 0x02) as u64,
    opcode::read_write::<WriteProtect>(GROUP, 0x06) as u64,
];

// linux/userfaultfd.h
const GROUP: u8 = 0xAA;
const USER_MODE_ONLY: u32 = 1;
const FEATURE_WRITE_PROTECT: u64 = 1;
const FEATURE_SHARED_MEMORY: u64 = 1 << 12;
const FEATURE_UNTOUCHED: u64 = 1 << 13;
const MODE_WRITE_PROTECT: u64 = 1 << 1;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    length: u64,
}

#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct WriteProtect {
    range: Range,
    mode: u64,
}

#[cfg(test)]
pub(crate) mod tests;
