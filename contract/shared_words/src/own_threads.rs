//! The threads that this library has in a program, and a way to stop all of them for a moment. A thread that this library starts registers
//! here ([`spawn`]); the code that changes pages of a program asks whether any thread but these runs, and stops these meanwhile ([`Stopped`]).
//! Threads of the program are never stopped: the library does not know their signal masks, and they may wait for the caller.
//!
//! # How a thread stops
//! The stopper lends the signal `SIGURG` a handler, and sends it to each registered thread. The handler reports to a page that no program
//! can give away, and sleeps there until the stopper is done. A stopped thread stores nowhere: its report is its last store. The
//! program cannot see the lent handler: its only thread sleeps in the call that stops the others, with its signals blocked.
//!
//! Registered threads take no signal of the program: their masks block all but the stopping signal and those of faults.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};

use rustix::thread::futex;

use crate::Memory;

/// The threads of this library, running or about to end.
static OWN: Mutex<Vec<Own>> = Mutex::new(Vec::new());

/// A thread of this library, as the operating system numbers it.
struct Own {
    thread: i32,
    /// The thread runs code of the program meanwhile, and counts as one of the program's.
    runs_program: bool,
    /// The thread runs its last lines: it takes no signal to stop, and is waited for.
    ends: bool,
}

/// Starts a thread of this library. When this returns the thread is registered.
///
/// # Errors
/// When the operating system gives no thread.
pub fn spawn<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    // The lock is held until the thread is registered: a stopper finds no thread of this library that it does not know.
    let mut own = own();
    let (says, hears) = std::sync::mpsc::channel();
    let body = move || {
        let thread = this();
        let _ends = Ends(thread);
        // The starting thread waits for this.
        let _ = says.send(thread);
        run()
    };
    let masked = Masked::all_but(&[STOP]);
    let started = Builder::new().name(name.to_owned()).spawn(body);
    drop(masked);
    // A sandboxed daemon gets no number, and stops no threads.
    if let (Ok(_), Ok(thread @ 0..)) = (&started, hears.recv()) {
        own.push(Own { thread, runs_program: false, ends: false });
    }
    started
}

/// Runs code of the program on the calling thread, which counts as a thread of the program meanwhile.
pub fn for_program<T>(run: impl FnOnce() -> T) -> T {
    let set = |runs| own().iter_mut().filter(|own| own.thread == this()).for_each(|own| own.runs_program = runs);
    set(true);
    let result = run();
    set(false);
    result
}

/// The calling thread ends.
struct Ends(i32);

impl Drop for Ends {
    fn drop(&mut self) {
        let mut own = own();
        own.iter_mut().filter(|own| own.thread == self.0).for_each(|own| own.ends = true);
        let mut ended = own.iter().enumerate().filter(|(_, own)| own.ends).map(|(at, _)| at);
        if let (Some(oldest), Some(_)) = (ended.next(), ended.nth(ENDING_MAX - 1)) {
            own.remove(oldest);
        }
    }
}

/// Every thread of this process is stopped but the calling one, as long as this lives. Nothing may allocate meanwhile: a stopped thread may
/// have the allocator's lock.
pub(crate) struct Stopped {
    words: &'static Words,
    before: libc::sigaction,
    _own: MutexGuard<'static, Vec<Own>>,
}

/// How many threads of the program run beside those that are known to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OthersRun(pub usize);

impl Stopped {
    /// Stops them. The calling thread is one that ends after this; `asleep` sleeps until then.
    ///
    /// # Errors
    /// How many threads run that are not of this library; none was stopped then.
    pub fn all_but(asleep: i32) -> io::Result<Result<Stopped, OthersRun>> {
        let (words, mut own, this) = (words()?, own(), this());
        // The next stopper may find it on its last lines.
        own.push(Own { thread: this, runs_program: false, ends: true });
        loop {
            let listed = listed()?;
            own.retain(|own| listed.contains(&own.thread));
            let known =
                |thread: &i32| asleep == *thread || own.iter().any(|own| own.thread == *thread && !own.runs_program);
            match listed.iter().filter(|thread| !known(thread)).count() {
                0 => {}
                others => return Ok(Err(OthersRun(others))),
            }
            if !own.iter().any(|own| own.ends && own.thread != this) {
                break;
            }
            // A thread that ends has little to do, and then the list lacks it.
            std::thread::yield_now();
        }
        words.round.fetch_add(1, Ordering::AcqRel);
        let mut before = MaybeUninit::uninit();
        // SAFETY: zeros are a value of the structure. The handler does nothing that a handler may not do.
        let before = unsafe {
            let mut stops: libc::sigaction = std::mem::zeroed();
            stops.sa_sigaction = stop as extern "C" fn(libc::c_int) as usize;
            stops.sa_flags = libc::SA_RESTART;
            libc::sigfillset(&raw mut stops.sa_mask);
            assert_eq!(libc::sigaction(STOP, &raw const stops, before.as_mut_ptr()), 0, "the signal has a handler");
            before.assume_init()
        };
        let mut told = 0;
        for thread in own.iter().map(|own| own.thread).filter(|thread| ![asleep, this].contains(thread)) {
            // SAFETY: a signal to a thread of this process that cannot end: it would take the lock that this one has.
            let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, STOP) };
            told += u32::from(sent == 0);
        }
        while words.stopped.load(Ordering::Acquire) < told {
            std::thread::yield_now();
        }
        Ok(Ok(Stopped { words, before, _own: own }))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.words.round.fetch_add(1, Ordering::AcqRel);
        let _ = futex::wake(&self.words.round, futex::Flags::PRIVATE, u32::MAX >> 1);
        while self.words.stopped.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        // SAFETY: what stood there before.
        unsafe { libc::sigaction(STOP, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Lies in a page of its own, which no program can give away.
struct Words {
    /// Odd while threads are stopped.
    round: AtomicU32,
    /// So many have stopped.
    stopped: AtomicU32,
}

/// Where the handler finds them.
static WORDS: AtomicPtr<Words> = AtomicPtr::new(std::ptr::null_mut());

fn words() -> io::Result<&'static Words> {
    static PAGE: OnceLock<Option<Arc<Memory>>> = OnceLock::new();
    let page = PAGE.get_or_init(|| Memory::reserve(size_of::<Words>() as u64).ok());
    let page = page.as_ref().ok_or(io::ErrorKind::OutOfMemory)?;
    let place = std::ptr::from_ref(page.word(0)).cast::<Words>();
    WORDS.store(place.cast_mut(), Ordering::Release);
    // SAFETY: zeros in a page that stays mapped as long as the program, aligned, and only used as these words.
    Ok(unsafe { &*place })
}

/// The handler.
extern "C" fn stop(_signal: libc::c_int) {
    // SAFETY: null, or the words, which stay.
    let Some(words) = (unsafe { WORDS.load(Ordering::Acquire).as_ref() }) else { return };
    let round = words.round.load(Ordering::Acquire);
    if round.is_multiple_of(2) {
        return;
    }
    words.stopped.fetch_add(1, Ordering::AcqRel);
    while words.round.load(Ordering::Acquire) == round {
        let _ = futex::wait(&words.round, futex::Flags::PRIVATE, round, None);
    }
    words.stopped.fetch_sub(1, Ordering::AcqRel);
}

/// The calling thread's signals are blocked as long as this lives; those of faults are not.
pub(crate) struct Masked(Option<libc::sigset_t>);

impl Masked {
    /// Blocks all but these. Where the operating system refuses, as in a sandbox, they stay as they are.
    pub fn all_but(open: &[libc::c_int]) -> Masked {
        let (mut blocked, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: both sets are places for what the calls write; the second is read only when it was written.
        unsafe {
            libc::sigfillset(blocked.as_mut_ptr());
            for signal in open.iter().chain(&FAULTS) {
                libc::sigdelset(blocked.as_mut_ptr(), *signal);
            }
            let set = libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
            Masked((set == 0).then(|| before.assume_init()))
        }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: a set that the operating system has given.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}

/// The number of the calling thread; -1 where a sandbox gives none.
pub(crate) fn this() -> i32 {
    // SAFETY: it takes nothing.
    unsafe { libc::gettid() }
}

/// The threads of this process. The operating system's list ends early where a thread ends while it is read: such a list lacks threads that
/// the operating system counts.
fn listed() -> io::Result<Vec<i32>> {
    let number = |task: io::Result<std::fs::DirEntry>| task.ok()?.file_name().to_str()?.parse().ok();
    loop {
        let before = counted()?;
        let threads: Vec<i32> = std::fs::read_dir("/proc/self/task")?.filter_map(number).collect();
        if [before, counted()?] == [threads.len(); 2] {
            return Ok(threads);
        }
        std::thread::yield_now();
    }
}

/// How many threads this process has.
fn counted() -> io::Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let count = status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse().ok());
    count.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn own() -> MutexGuard<'static, Vec<Own>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Most threads that may run their last lines at one time: as many of those that have ended are remembered.
const ENDING_MAX: usize = 64;
/// The operating system ignores it where a program says nothing about it.
const STOP: libc::c_int = libc::SIGURG;
/// A thread in which one of these is blocked ends the program by it.
const FAULTS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];
