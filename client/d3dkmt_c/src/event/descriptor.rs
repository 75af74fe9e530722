//! Events and NT handles in the flavour of the Linux subsystem: descriptors of the program.
//!
//! An event is an `eventfd`, made by the program or by `OpenWddmCreateEvent`. The kernel does not see it: it has an event of its own for each
//! wait, of which it tells the process when it is set ([`EventCall::CreateTold`]), and the thread that hears so stores into the program's
//! descriptor. An NT handle is a descriptor that the link has given out ([`kmt_link::Link::descriptor`]); with the last copy of it, in
//! whatever process, the handle is closed.
//!
//! The program's descriptors are numbers here until they are looked at: that is what is unsafe in this module.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt_abi::HANDLE;
use kmt_calls::{Call, EventCall, Refusal, Reply, ShareCall};
use kmt_link::Link;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use wddm_types::{NtStatus, RawHandle};

use crate::border::Caller;
use crate::refusal::{expect_reply, refuse, unsuccessful};
use crate::session::lock;

/// The kernel's events that stand for descriptors of the program.
#[derive(Default)]
pub struct Events {
    told: Mutex<BTreeMap<RawHandle, Told>>,
    /// The kernel tells of none any more. Changed under the lock of `told`.
    ended: AtomicBool,
    /// By the object that they serve, which sets them as often as it is signalled.
    served: Mutex<BTreeMap<RawHandle, RawHandle>>,
}

struct Told {
    descriptor: OwnedFd,
    /// It serves one wait.
    once: bool,
}

impl Events {
    /// The kernel has set an event.
    pub fn set(&self, link: &dyn Link, event: RawHandle) {
        let mut told = lock(&self.told);
        let Some(known) = told.get(&event) else { return };
        add(known.descriptor.as_fd());
        if known.once {
            told.remove(&event);
            drop(told);
            // It has done what it was there for.
            let _ = link.call(Call::Event(EventCall::Close { event }));
        }
    }

    /// The kernel has gone, or the process has lost its connection: no event is set any more. All are set now, so that each thread that
    /// sleeps at a descriptor goes on, and hears of the loss from its next call.
    // spec: sync §2.4
    pub fn end(&self) {
        let mut told = lock(&self.told);
        self.ended.store(true, Ordering::Relaxed);
        std::mem::take(&mut *told).into_values().for_each(|known| add(known.descriptor.as_fd()));
    }

    /// The kernel will tell of this event.
    ///
    /// # Errors
    /// It tells of none any more: no thread may wait for one.
    fn keep(&self, event: RawHandle, told: Told) -> Result<(), Refusal> {
        let mut known = lock(&self.told);
        if self.ended.load(Ordering::Relaxed) {
            return Err(refuse(NtStatus::DEVICE_REMOVED, "the connection to the kernel is lost: it tells of no event"));
        }
        known.insert(event, told);
        Ok(())
    }

    fn forget(&self, link: &dyn Link, event: RawHandle) {
        if lock(&self.told).remove(&event).is_some() {
            // A process that has lost its kernel has lost its events.
            let _ = link.call(Call::Event(EventCall::Close { event }));
        }
    }
}

/// One more, unless it is as high as it gets: then it is set anyhow, and a write would wait for the program to read it.
fn add(descriptor: BorrowedFd<'_>) {
    let mut writable = [PollFd::from_borrowed_fd(descriptor, PollFlags::OUT)];
    if poll(&mut writable, Some(&Timespec::default())) == Ok(0) {
        return;
    }
    let _ = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
}

fn no_event() -> Refusal {
    refuse(NtStatus::INVALID_HANDLE, "the handle is no descriptor of an event")
}

/// A descriptor of the program's, which it keeps open during the call.
fn borrowed<'call>(handle: HANDLE) -> Option<BorrowedFd<'call>> {
    let number = RawFd::try_from(handle.addr()).ok()?;
    // SAFETY: it is not -1, and the program vouches for it as for its pointers; one that is closed is only asked about, and refused.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_getfd(descriptor).is_ok().then_some(descriptor)
}

/// The same, if it is an event.
fn event<'call>(handle: HANDLE) -> Result<BorrowedFd<'call>, Refusal> {
    let descriptor = borrowed(handle).ok_or_else(no_event)?;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", handle.addr())).map_err(|_| no_event())?;
    if link.as_os_str() == "anon_inode:[eventfd]" { Ok(descriptor) } else { Err(no_event()) }
}

/// Makes a call with an event that stands for the descriptor; NULL is none. Answers with the event, too.
pub fn with_event<T>(
    caller: &Caller<'_>,
    (handle, once): (HANDLE, bool),
    call: impl FnOnce(RawHandle) -> Result<T, Refusal>,
) -> Result<(T, RawHandle), Refusal> {
    if handle.is_null() {
        return Ok((call(RawHandle::NONE)?, RawHandle::NONE));
    }
    let descriptor = event(handle)?.try_clone_to_owned();
    let descriptor = descriptor.map_err(|error| unsuccessful(format!("no descriptor for an event: {error}")))?;
    let notifications = &caller.process.notifications;
    notifications.listen(caller.process.link())?;
    let created = caller.process.call(Call::Event(EventCall::CreateTold))?;
    let event = expect_reply!(created, Reply::Handle(event) => event);
    notifications.events.keep(event, Told { descriptor, once })?;
    match call(event) {
        Ok(answer) => Ok((answer, event)),
        Err(refusal) => {
            notifications.events.forget(caller.process.link().as_ref(), event);
            Err(refusal)
        }
    }
}

/// An event serves an object, as long as that is there.
pub fn serves(caller: &Caller<'_>, object: RawHandle, event: RawHandle) {
    lock(&caller.process.notifications.events.served).insert(object, event);
}

/// An object has gone, and the event that served it.
pub fn object_gone(caller: &Caller<'_>, object: RawHandle) {
    let events = &caller.process.notifications.events;
    let served = lock(&events.served).remove(&object);
    if let Some(event) = served {
        events.forget(caller.process.link().as_ref(), event);
    }
}

/// A new event. A read from one that is reset by hand does not block, and by that flag the library knows it.
pub fn create(_caller: &Caller<'_>, manual_reset: bool) -> Result<HANDLE, Refusal> {
    let mut flags = EventfdFlags::CLOEXEC;
    flags.set(EventfdFlags::NONBLOCK, manual_reset);
    let made = eventfd(0, flags).map_err(|error| unsuccessful(format!("no descriptor for an event: {error}")))?;
    Ok(given(made))
}

/// A descriptor becomes the program's.
fn given(descriptor: OwnedFd) -> HANDLE {
    // CAST: a descriptor is not negative.
    std::ptr::without_provenance_mut(descriptor.into_raw_fd() as usize)
}

/// Of several threads that look at an event one at a time may find it set, and take it.
static TAKING: Mutex<()> = Mutex::new(());

/// Waits for one; `TIMEOUT` when it is not set and the caller does not block.
pub fn wait(_caller: &Caller<'_>, handle: HANDLE, block: bool) -> Result<(), Refusal> {
    let descriptor = event(handle)?;
    let by_hand = rustix::fs::fcntl_getfl(descriptor).map_err(|_| no_event())?.contains(rustix::fs::OFlags::NONBLOCK);
    loop {
        if block {
            is_set(descriptor, None);
        }
        let taking = lock(&TAKING);
        if is_set(descriptor, Some(&Timespec::default())) {
            if !by_hand {
                let _ = rustix::io::read(descriptor, &mut [0; 8]);
            }
            return Ok(());
        }
        drop(taking);
        if !block {
            return Err(refuse(NtStatus::TIMEOUT, "the event is not set"));
        }
    }
}

fn is_set(descriptor: BorrowedFd<'_>, within: Option<&Timespec>) -> bool {
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    loop {
        match poll(&mut polled, within) {
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) => return polled[0].revents().contains(PollFlags::IN),
        }
    }
}

/// Sets one.
pub fn set(_caller: &Caller<'_>, handle: HANDLE) -> Result<(), Refusal> {
    add(event(handle)?);
    Ok(())
}

/// A wait was refused, and its event is set all the same: the kernel's event that stood for the descriptor is gone with the wait.
// spec: sync §2.4
pub fn set_of_refused_wait(_caller: &Caller<'_>, handle: HANDLE) {
    if let Ok(descriptor) = event(handle) {
        add(descriptor);
    }
}

/// Resets one.
pub fn reset(_caller: &Caller<'_>, handle: HANDLE) -> Result<(), Refusal> {
    let descriptor = event(handle)?;
    let _taking = lock(&TAKING);
    if is_set(descriptor, Some(&Timespec::default())) {
        let _ = rustix::io::read(descriptor, &mut [0; 8]);
    }
    Ok(())
}

/// Closes an event or an NT handle, as `close` does. Handles of processes are the kernel's numbers in this flavour, too.
pub fn close(caller: &Caller<'_>, handle: HANDLE) -> Result<(), Refusal> {
    if RawFd::try_from(handle.addr()).is_err() {
        return caller.process.call(Call::Share(ShareCall::CloseNtHandle { handle: handle.addr() as u64 })).map(drop);
    }
    if event(handle).is_err() {
        nt_handle(caller, handle)?;
    }
    // CAST: it was looked at.
    // SAFETY: it is an open descriptor of the program's that is an event or an NT handle, and the program gives it up.
    drop(unsafe { OwnedFd::from_raw_fd(handle.addr() as RawFd) });
    Ok(())
}

/// An NT handle from C.
pub fn nt_handle(caller: &Caller<'_>, handle: HANDLE) -> Result<u64, Refusal> {
    let none = || refuse(NtStatus::INVALID_HANDLE, "the handle is no descriptor of an NT handle");
    caller.process.link().described(borrowed(handle).ok_or_else(none)?)
}

/// An NT handle for C.
pub fn nt_handle_in_c(caller: &Caller<'_>, token: u64) -> Result<HANDLE, Refusal> {
    let described = caller.process.link().descriptor(token);
    // The program could not close a handle that has no descriptor.
    described
        .map(given)
        .inspect_err(|_| drop(caller.process.call(Call::Share(ShareCall::CloseNtHandle { handle: token }))))
}

/// The program's NT handles are the operating system's to keep.
#[derive(Default)]
pub struct NtHandles;

/// A process by its handle, which is the kernel's number; NULL and -1 are the caller itself.
pub fn process_handle(_caller: &Caller<'_>, handle: HANDLE) -> Result<u64, Refusal> {
    Ok(handle.addr() as u64)
}

/// The handle of a process for C.
pub fn process_handle_in_c(_caller: &Caller<'_>, token: u64) -> Result<HANDLE, Refusal> {
    // CAST: both have 64 bits.
    Ok(std::ptr::without_provenance_mut(token as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program's descriptor is one whose writes wait, and it is as high as it gets: nothing but the program's own read ends such a write.
    #[test]
    fn an_event_that_is_as_high_as_it_gets_is_set_all_the_same() {
        let event = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).expect("there is room");
        add(event.as_fd());
        assert!(is_set(event.as_fd(), Some(&Timespec::default())));
    }
}
