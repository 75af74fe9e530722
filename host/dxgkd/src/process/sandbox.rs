//! The daemon gives up files, by Landlock, and system calls, by seccomp, before it reads from its first client. So an attacker that finds
//! a hole in the code that decodes and answers messages has little to go on with.
//!
//! # The law of this boundary
//! - Nothing is given up twice, and nothing comes back: threads that are started later have no more than their maker.
//! - Landlock holds for the thread that asks and for those that it starts, so it is asked for before the adapters start. Where the kernel
//!   has none, a line in the log says so; opening files is no call of [`CALLS`] either.
//! - The filter of system calls holds for all threads at once, so it comes when everything has started that needs more than [`CALLS`].
//! - A thread that makes another call is killed with the whole process (`SECCOMP_RET_KILL_PROCESS`): the kernel's log names the call by
//!   its number (`type=1326 … syscall=`).

use std::collections::BTreeMap;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Most system calls of the filter.
const CALLS_MAX: usize = 33;

/// The values that a call's argument may have.
enum Only {
    /// Every value.
    Any,
    /// This argument is one of these numbers.
    OneOf(u8, &'static [u64]),
    /// This argument is another number.
    Not(u8, u64),
    /// This argument has none of these bits.
    Without(u8, u64),
}

/// A system call, the arguments to which the rule applies, and its purpose.
type Rule = (libc::c_long, Only, &'static str);

/// Every system call that the daemon makes when it serves.
const CALLS: &[Rule] = &[
    // Clients.
    (libc::SYS_accept4, Only::Any, "clients come"),
    (libc::SYS_recvmsg, Only::Any, "clients' messages, with their descriptors"),
    (libc::SYS_sendmsg, Only::Any, "messages to clients"),
    (libc::SYS_shutdown, Only::Any, "the end of a connection, which wakes the threads that wait at it"),
    (
        libc::SYS_getsockopt,
        Only::OneOf(1, &[libc::SOL_SOCKET as u64]),
        "the process of a connection, and a descriptor of it",
    ),
    (
        libc::SYS_ppoll,
        Only::Any,
        "which of those descriptors have no other holder; whether a client reads, or has gone",
    ),
    (libc::SYS_close, Only::Any, "descriptors of clients that have gone, and files that are lent no more"),
    // Memory.
    (libc::SYS_memfd_create, Only::Any, "a file for pages that are lent; a descriptor that is an NT handle"),
    (libc::SYS_inotify_add_watch, Only::Any, "the close of such a descriptor"),
    (libc::SYS_ftruncate, Only::Any, "its size"),
    (libc::SYS_fcntl, Only::Any, "its seals, a second descriptor of it"),
    (libc::SYS_fstat, Only::Any, "which descriptor a client has sent; the size of a file"),
    (libc::SYS_fallocate, Only::Any, "the pages of a file back"),
    (libc::SYS_pwrite64, Only::Any, "the content of pages, into the file that takes their place"),
    (libc::SYS_mmap, Only::Without(2, libc::PROT_EXEC as u64), "lent pages, stacks, the allocator; no code"),
    (libc::SYS_mremap, Only::OneOf(1, &[0]), "pages once more, of a file that clients only read"),
    (libc::SYS_munmap, Only::Any, "the same back"),
    (libc::SYS_mprotect, Only::Without(2, libc::PROT_EXEC as u64), "guard pages, the allocator; no code"),
    (libc::SYS_brk, Only::Any, "the allocator: the C library does not understand a refusal"),
    (
        libc::SYS_ioctl,
        Only::OneOf(1, &shared_words::HOLDING_REQUESTS),
        "stores wait while video memory is lent and taken back",
    ),
    // Threads.
    (libc::SYS_clone3, Only::Any, "a thread of a client"),
    (libc::SYS_rseq, Only::Any, "its start: the C library ends the program without"),
    (libc::SYS_membarrier, Only::Any, "the rare side of the barrier that fences and doorbells have in common"),
    (libc::SYS_futex, Only::Any, "locks, and threads that wait for an answer"),
    (libc::SYS_sched_yield, Only::Any, "an engine that looks for work lets others run"),
    (libc::SYS_exit, Only::Any, "its end"),
    // The end, the log and figures.
    (libc::SYS_rt_sigreturn, Only::Any, "after the signal that says stop"),
    (libc::SYS_read, Only::Any, "which signal it was; requests for figures"),
    (libc::SYS_pread64, Only::Any, "which descriptors for NT handles are left, where closes were lost"),
    (libc::SYS_write, Only::Any, "the signal, to the thread that waits for it; the log; figures"),
    (
        libc::SYS_newfstatat,
        Only::OneOf(3, &[libc::AT_SYMLINK_NOFOLLOW as u64]),
        "whether it is still the daemon's socket that stands at its path",
    ),
    (libc::SYS_unlinkat, Only::Any, "the socket goes; Landlock says that nothing else does"),
    (libc::SYS_exit_group, Only::Any, "the end"),
];

/// Calls that the C library makes and that it can do without: the filter refuses them (`ENOSYS`), and the daemon lives on.
const REFUSED: &[Rule] = &[
    (libc::SYS_mremap, Only::Not(1, 0), "the allocator copies"),
    (libc::SYS_rt_sigprocmask, Only::Any, "threads have the signals of their maker"),
    (libc::SYS_madvise, Only::Any, "the daemon keeps freed memory, and uses it again"),
    (libc::SYS_openat, Only::Any, "the allocator asks otherwise how many processors there are"),
    (libc::SYS_set_robust_list, Only::Any, "a thread starts without"),
    (libc::SYS_restart_syscall, Only::Any, "a thread that waited when the process was stopped looks again"),
    (
        libc::SYS_sched_getaffinity,
        Only::Any,
        "where the stack of a thread lies is found without, and two heaps are enough",
    ),
    (libc::SYS_gettid, Only::Any, "a panic names its thread by this"),
    (libc::SYS_prctl, Only::OneOf(0, &[libc::PR_SET_NAME as u64, PR_SET_VMA]), "threads have the name of their maker"),
    (libc::SYS_sigaltstack, Only::Any, "a stack overflow is told by the signal alone"),
];

/// An option of `prctl`: names of memory.
const PR_SET_VMA: u64 = 0x5356_4d41;

const _: () = assert!(CALLS.len() <= CALLS_MAX, "a daemon that needs so much hides nothing");

/// Why nothing was given up.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Landlock is there, and refuses.
    #[error("files cannot be given up: {0}")]
    Files(#[from] RulesetError),
    /// The folder of the socket is not there.
    #[error("the folder of the socket: {0}")]
    Folder(#[from] landlock::PathFdError),
    /// The filter of system calls is no filter for this machine.
    #[error("system calls cannot be given up: {0}")]
    Calls(#[from] seccompiler::Error),
    /// The same.
    #[error("system calls cannot be given up: {0}")]
    Filter(#[from] seccompiler::BackendError),
}

/// How far files were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// No file can be opened.
    GivenUp,
    /// The kernel has an older Landlock: some access cannot be taken.
    InPart,
    /// The kernel has no Landlock.
    Kept,
}

/// From now on this thread, and those that it starts, can open no file, nor listen or connect by TCP unless it `keeps_network`. In
/// `removes`, if that is given, files can be removed: the socket is, at the end. What the system says of the process's own descriptors stays
/// readable: a host opens the list of its `inotify` watches there ([`dxgk_host::Host::prepare_descriptors`]), and has a thread already.
///
/// # Errors
/// See [`SandboxError`].
pub fn give_up_files(removes: Option<&Path>, keeps_network: bool) -> Result<Files, SandboxError> {
    // Pages are lent by it, and then no file tells it any more.
    let _ = shared_words::mappings_max();
    let mut all = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5))?;
    if !keeps_network {
        all = all.handle_access(AccessNet::from_all(ABI::V5))?;
    }
    let rules = path_beneath_rules(removes, AccessFs::RemoveFile);
    let watches = path_beneath_rules(["/proc/self/fdinfo"], AccessFs::ReadFile);
    Ok(how_far(all.create()?.add_rules(rules)?.add_rules(watches)?.restrict_self()?.ruleset))
}

/// From now on this thread, and those that it starts, can read what lies beneath these folders, make and write files in `writes`, if that is
/// given, and can open nothing else: no TCP. Where the operating system has no Landlock, nothing changes.
///
/// # Errors
/// See [`SandboxError`].
pub fn keep_folders(folders: &[&Path], writes: Option<&Path>) -> Result<Files, SandboxError> {
    let all = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5))?;
    let all = all.handle_access(AccessNet::from_all(ABI::V5))?;
    let rules = path_beneath_rules(folders, AccessFs::ReadFile | AccessFs::ReadDir);
    let made = path_beneath_rules(writes, AccessFs::MakeReg | AccessFs::WriteFile);
    Ok(how_far(all.create()?.add_rules(rules)?.add_rules(made)?.restrict_self()?.ruleset))
}

fn how_far(status: RulesetStatus) -> Files {
    match status {
        RulesetStatus::FullyEnforced => Files::GivenUp,
        RulesetStatus::PartiallyEnforced => Files::InPart,
        RulesetStatus::NotEnforced => Files::Kept,
    }
}

/// From now on no thread of this process makes another system call than those of [`CALLS`]. Nor does it ever gain privileges
/// (`no_new_privs`). A host that serves afterwards prepares before: [`dxgk_host::Host::prepare_descriptors`]; else the first descriptor for an
/// NT handle ends the process.
///
/// # Errors
/// See [`SandboxError`].
pub fn give_up_calls() -> Result<(), SandboxError> {
    // The daemon compares a client's second descriptor with its own, and lends memory by it. It opens its own once, by a call that it is
    // about to give up.
    let _ = shared_words::StoresElsewhere::ours();
    // The stricter answer of two filters holds. The filter that kills comes last, because it does not allow the call that installs filters.
    for filter in [refusing()?, allowing()?] {
        let filter: BpfProgram = filter.try_into()?;
        seccompiler::apply_filter_all_threads(&filter)?;
    }
    Ok(())
}

fn refusing() -> Result<SeccompFilter, SandboxError> {
    let rules =
        REFUSED.iter().map(|(call, only, _)| Ok((*call, conditions(only)?))).collect::<Result<_, SandboxError>>()?;
    // CAST: a small number.
    let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?)
}

fn allowing() -> Result<SeccompFilter, SandboxError> {
    let mut rules = BTreeMap::new();
    // This filter lets the calls of `REFUSED` through: the other one refuses them.
    for (call, only, _) in CALLS.iter().chain(REFUSED) {
        // A call of both lists is one of them for some arguments, and of the other for all others.
        rules.entry(*call).or_insert_with(Vec::new).extend(conditions(only)?);
    }
    let arch = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)?)
}

/// One rule for each allowed value; no rule allows all.
fn conditions(only: &Only) -> Result<Vec<SeccompRule>, SandboxError> {
    let rule = |argument, operator, value| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        Ok(SeccompRule::new(vec![condition])?)
    };
    match *only {
        Only::Any => Ok(Vec::new()),
        Only::OneOf(argument, values) => values.iter().map(|value| rule(argument, SeccompCmpOp::Eq, *value)).collect(),
        Only::Not(argument, value) => Ok(vec![rule(argument, SeccompCmpOp::Ne, value)?]),
        Only::Without(argument, bits) => Ok(vec![rule(argument, SeccompCmpOp::MaskedEq(bits), 0)?]),
    }
}
