//! Trim notifications: the kernel tells the link, and a thread of ours calls the registered callbacks. The same thread stores the events
//! that the kernel tells of.
//!
//! A callback runs on that thread, one at a time, and may make any call. When an unregistration returns, its callback is not running and
//! will not run again; one that unregisters itself from within is the exception that it asks for.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use d3dkmt_abi::*;
use kmt_calls::{Call, NotificationCall, NotificationKind, Reply, TrimFlags};
use kmt_link::Link;
use wddm_types::{Luid, NtStatus, RawHandle};

use crate::adapter::luid;
use crate::border::{Answer, Caller};
use crate::event::handle::Events;
use crate::refusal::{expect_reply, invalid, unsuccessful};
use crate::session::lock;

/// The registered callbacks.
#[derive(Default)]
pub struct Notifications {
    state: Mutex<CallbackState>,
    returned: Condvar,
    /// Events of the program that the kernel sets.
    pub events: Events,
}

#[derive(Default)]
struct CallbackState {
    registered: BTreeMap<RawHandle, Registered>,
    /// The registration whose callback runs, and where.
    running: Option<(RawHandle, ThreadId)>,
    listening: bool,
}

#[derive(Clone, Copy)]
struct Registered {
    callback: extern "C" fn(*mut D3DKMT_TRIMNOTIFICATION),
    /// The program's pointer, as a number: it is only handed back.
    context: usize,
}

// spec: memory §5.4
pub fn register_trim_notification(caller: &Caller<'_>, arguments: &mut D3DKMT_REGISTERTRIMNOTIFICATION) -> Answer {
    let callback = arguments.Callback.ok_or_else(|| invalid("Callback is NULL"))?;
    let notifications = &caller.process.notifications;
    notifications.listen(caller.process.link())?;
    // The lock is held over the call: a trim that comes at once waits for its callback to be known.
    let mut state = lock(&notifications.state);
    let adapter = luid(arguments.AdapterLuid);
    let adapter = (adapter != Luid(0)).then_some(adapter);
    let call = Call::Notification(NotificationCall::RegisterTrim { adapter, device: RawHandle(arguments.hDevice) });
    let registration = expect_reply!(caller.process.call(call)?, Reply::Handle(registration) => registration);
    state.registered.insert(registration, Registered { callback, context: arguments.Context.expose_provenance() });
    arguments.Handle = crate::handle::in_c(registration);
    Ok(NtStatus::SUCCESS)
}

/// Without a handle: every registration of the callback.
pub fn unregister_trim_notification(caller: &Caller<'_>, arguments: &mut D3DKMT_UNREGISTERTRIMNOTIFICATION) -> Answer {
    let notifications = &caller.process.notifications;
    let named = |registration: RawHandle, registered: &Registered| match arguments.Handle.is_null() {
        true => arguments.Callback.is_some_and(|callback| callback as usize == registered.callback as usize),
        false => crate::handle::in_c(registration) == arguments.Handle,
    };
    let state = lock(&notifications.state);
    let gone = state.registered.iter().filter(|(registration, registered)| named(**registration, registered));
    let gone: Vec<RawHandle> = gone.map(|(registration, _)| *registration).collect();
    drop(state);
    if gone.is_empty() {
        return Err(invalid("this process has no registration of this handle or callback"));
    }
    for registration in gone {
        let told = caller.process.call(Call::Notification(NotificationCall::Unregister { registration }));
        notifications.forget(registration);
        // A device that went took its registrations along.
        told.or_else(
            |refusal| if refusal.status == NtStatus::INVALID_PARAMETER { Ok(Reply::Done) } else { Err(refusal) },
        )?;
    }
    Ok(NtStatus::SUCCESS)
}

impl Notifications {
    /// Begins to listen, once.
    pub fn listen(self: &Arc<Self>, link: &Arc<dyn Link>) -> Result<(), kmt_calls::Refusal> {
        let mut state = lock(&self.state);
        if !state.listening {
            let (notifications, link) = (Arc::clone(self), Arc::clone(link));
            let named = thread::Builder::new().name("trim notifications".into());
            named
                .spawn(move || {
                    while let Some(notification) = link.wait_notification() {
                        match notification.kind {
                            NotificationKind::EventSet => notifications.events.set(&*link, notification.registration),
                            kind => notifications.deliver(notification.registration, kind),
                        }
                    }
                })
                .map_err(|error| unsuccessful(format!("no thread for callbacks: {error}")))?;
            state.listening = true;
        }
        Ok(())
    }

    fn deliver(&self, registration: RawHandle, kind: NotificationKind) {
        let NotificationKind::Trim { flags, bytes_to_trim } = kind else { return };
        let mut state = lock(&self.state);
        let Some(Registered { callback, context }) = state.registered.get(&registration).copied() else { return };
        state.running = Some((registration, thread::current().id()));
        drop(state);
        let mut notification = D3DKMT_TRIMNOTIFICATION {
            Context: std::ptr::with_exposed_provenance_mut::<c_void>(context),
            Flags: in_c(flags),
            NumBytesToTrim: bytes_to_trim,
        };
        callback(&raw mut notification);
        lock(&self.state).running = None;
        self.returned.notify_all();
    }

    /// Forgets a registration, and waits for a callback of it that runs on another thread.
    fn forget(&self, registration: RawHandle) {
        let mut state = lock(&self.state);
        state.registered.remove(&registration);
        while state.running.is_some_and(|(of, thread)| of == registration && thread != thread::current().id()) {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

// spec: memory §5.4
fn in_c(flags: TrimFlags) -> D3DDDI_TRIMRESIDENCYSET_FLAGS {
    D3DDDI_TRIMRESIDENCYSET_FLAGS { Value: flags.bits() }
}
