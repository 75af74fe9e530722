//! The kernel while a thread holds its lock, and the threads that wait for its answers. The thread that releases the lock wakes the waiting
//! threads that have an answer, and no other: so no turn of the kernel can answer a call and leave its caller asleep, and no thread wakes
//! while the lock is still held.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};
use std::thread::Thread;

use dxgkrnl::Token;
use kmt_calls::Refusal;
use wddm_types::ProcessId;

use super::state::HostState;
use super::{Host, inspect, lock};

/// The kernel, held.
pub(super) struct KernelGuard<'a> {
    mutex: &'a Mutex<HostState>,
    /// `None`: the lock is released, for a while or for good.
    guard: Option<MutexGuard<'a, HostState>>,
}

impl Host {
    /// Holds the kernel.
    pub(super) fn hold(&self) -> KernelGuard<'_> {
        KernelGuard { mutex: &self.state, guard: Some(lock(&self.state)) }
    }

    /// The same, if the kernel has not failed. It may fail while this thread waits for the lock: so this checks under the lock.
    pub(super) fn hold_sound(&self) -> Result<KernelGuard<'_>, Refusal> {
        let held = self.hold();
        if self.has_failed() { Err(inspect::kernel_failed()) } else { Ok(held) }
    }
}

impl KernelGuard<'_> {
    /// Releases the lock until this thread is woken, which may be for nothing. The thread has registered before ([`Waiting`]).
    pub fn sleep(&mut self) {
        self.let_go();
        std::thread::park();
        self.guard = Some(lock(self.mutex));
    }

    fn let_go(&mut self) {
        let Some(mut guard) = self.guard.take() else { return };
        let woken = std::mem::take(&mut guard.waiting.woken);
        drop(guard);
        woken.iter().for_each(Thread::unpark);
    }
}

impl Drop for KernelGuard<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Deref for KernelGuard<'_> {
    type Target = HostState;

    fn deref(&self) -> &HostState {
        // PANIC: only `sleep` and the drop release the lock.
        self.guard.as_ref().expect("it is held")
    }
}

impl DerefMut for KernelGuard<'_> {
    fn deref_mut(&mut self) -> &mut HostState {
        // PANIC: as above.
        self.guard.as_mut().expect("it is held")
    }
}

/// The waiting threads of this program, and what they wait for. In virtual time none waits here: a thread lets time pass, or is one of
/// several that a conductor gives turns to.
#[derive(Default)]
pub(super) struct Waiting {
    calls: BTreeMap<Token, Thread>,
    listeners: BTreeMap<ProcessId, Vec<Thread>>,
    /// The threads to wake when the lock is released.
    woken: Vec<Thread>,
    /// The players whose answers a conductor watches for, by the call's token.
    watched: BTreeMap<Token, usize>,
    /// The players whose answer has come, until their conductor takes them.
    come: Vec<usize>,
}

impl Waiting {
    /// This thread waits for the answer of a call.
    pub fn for_answer(&mut self, token: Token) {
        self.calls.insert(token, std::thread::current());
    }

    /// This thread has its answer, and waits no more.
    pub fn answer_taken(&mut self, token: Token) {
        self.calls.remove(&token);
    }

    /// This thread waits for a notification of a process.
    pub fn for_notification(&mut self, process: ProcessId) {
        self.listeners.entry(process).or_default().push(std::thread::current());
    }

    /// A conductor watches for the answer of one of its players.
    pub fn watch(&mut self, token: Token, player: usize) {
        self.watched.insert(token, player);
    }

    /// The conductor watches for this call no more.
    pub fn unwatch(&mut self, token: Token) {
        self.watched.remove(&token);
    }

    /// The players whose answers have come since the last call.
    pub fn take_come(&mut self) -> impl Iterator<Item = usize> + '_ {
        self.come.drain(..)
    }

    /// The call is answered.
    pub fn answered(&mut self, token: Token) {
        self.woken.extend(self.calls.remove(&token));
        self.come.extend(self.watched.remove(&token));
    }

    /// The kernel has notified a process.
    pub fn told(&mut self, process: ProcessId) {
        self.woken.extend(self.listeners.remove(&process).into_iter().flatten());
    }

    /// The kernel may have failed or a process gone, so that an answer may never come: wakes all waiting threads, which check for that.
    pub fn wake_all(&mut self) {
        self.woken.extend(std::mem::take(&mut self.calls).into_values());
        self.woken.extend(std::mem::take(&mut self.listeners).into_values().flatten());
    }
}

#[cfg(test)]
impl Waiting {
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.listeners.is_empty()
    }
}
