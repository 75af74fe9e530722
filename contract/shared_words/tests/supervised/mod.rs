//! A thread whose system calls of one kind its test answers in the operating system's place: what an operating system that refuses, or does
//! a part of the work, makes of the product. Only tests call this. Other threads of the process, and other calls, are as ever.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the test waits for a call before it looks whether the thread has ended.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Runs `body` in a thread of its own; `answer` is given the arguments of each call of that number that the thread makes, and answers for
/// it: a negative number is an error's, and `None` lets the operating system answer.
///
/// # Errors
/// The thread's panic.
pub fn supervised<T: Send>(
    call: i64,
    mut answer: impl FnMut([u64; 6]) -> Option<i64>,
    body: impl FnOnce() -> T + Send,
) -> std::thread::Result<T> {
    let (sends, receives) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            sends.send(listener(call)).expect("the test listens");
            body()
        });
        let listener = receives.recv().expect("a filter of system calls");
        while !thread.is_finished() {
            answer_next(&listener, &mut answer);
        }
        thread.join()
    })
}

/// From now on this thread's calls of that number wait for an answer by what is returned.
fn listener(call: i64) -> OwnedFd {
    let line = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut lines = [
        // The call's number stands first.
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_USER_NOTIF),
        line(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    // SAFETY: the filter and its lines live through the call, which copies them; the descriptor is new.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0, "a thread may give up privileges");
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let listener = libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter);
        assert!(listener >= 0, "a filter of system calls: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(listener as i32)
    }
}

fn answer_next(listener: &OwnedFd, answer: &mut impl FnMut([u64; 6]) -> Option<i64>) {
    let mut ready = [PollFd::new(listener, PollFlags::IN)];
    let _ = poll(&mut ready, Some(&WAIT));
    if !ready[0].revents().contains(PollFlags::IN) {
        return;
    }
    let listener = listener.as_fd().as_raw_fd();
    // SAFETY: zeros are a value of it, and the operating system wants them.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the structure that the operating system fills at this request.
    if unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) } < 0 {
        return;
    }
    let answered = answer(asked.data.args);
    let flags = if answered.is_none() { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 };
    let value = answered.unwrap_or(0);
    let answer = libc::seccomp_notif_resp { id: asked.id, val: value.max(0), error: value.min(0) as i32, flags };
    // SAFETY: the structure that the operating system reads at this request.
    let sent = unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    assert_eq!(sent, 0, "an answer: {}", std::io::Error::last_os_error());
}
