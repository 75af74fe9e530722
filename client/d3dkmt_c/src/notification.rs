//! Notifications of trims and of changed budgets: the kernel tells the link, and a thread of ours calls the registered callbacks. The same thread stores the events
//! that the kernel tells of.
//!
//! A callback runs on that thread, one at a time, and may make any call. When an unregistration returns, its callback is not running and
//! will not run again; one that unregisters itself from within is the exception that it asks for.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use d3dkmt_abi::*;
use kmt_calls::{Call, NotificationCall, NotificationKind, Refusal, Reply, TrimFlags};
use kmt_link::Link;
use shared_words::own_threads;
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

/// A function of the program.
#[derive(Clone, Copy)]
enum Callback {
    Trim(extern "C" fn(*mut D3DKMT_TRIMNOTIFICATION)),
    Budget(extern "C" fn(*mut D3DKMT_BUDGETCHANGENOTIFICATION)),
}

#[derive(Clone, Copy)]
struct Registered {
    callback: Callback,
    /// The program's pointer, as a number: it is only handed back.
    context: usize,
}

// spec: memory §5.4
pub fn register_trim_notification(caller: &Caller<'_>, arguments: &mut D3DKMT_REGISTERTRIMNOTIFICATION) -> Answer {
    let callback = arguments.Callback.ok_or_else(|| invalid("Callback is NULL"))?;
    let adapter = luid(arguments.AdapterLuid);
    let adapter = (adapter != Luid(0)).then_some(adapter);
    let call = NotificationCall::RegisterTrim { adapter, device: RawHandle(arguments.hDevice) };
    arguments.Handle = register(caller, call, (Callback::Trim(callback), arguments.Context))?;
    Ok(NtStatus::SUCCESS)
}

/// The program hears of the budgets of both groups.
// spec: memory §5.5
pub fn register_budget_change_notification(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_REGISTERBUDGETCHANGENOTIFICATION,
) -> Answer {
    let callback = arguments.Callback.ok_or_else(|| invalid("Callback is NULL"))?;
    let call = NotificationCall::RegisterBudgetChange { device: RawHandle(arguments.hDevice) };
    arguments.Handle = register(caller, call, (Callback::Budget(callback), arguments.Context))?;
    Ok(NtStatus::SUCCESS)
}

fn register(
    caller: &Caller<'_>,
    call: NotificationCall,
    (callback, context): (Callback, *mut c_void),
) -> Result<*mut c_void, Refusal> {
    let notifications = &caller.process.notifications;
    notifications.listen(caller.process.link())?;
    // The lock is held over the call: a notification that comes at once waits for its callback to be known.
    let mut state = lock(&notifications.state);
    let reply = caller.process.call(Call::Notification(call))?;
    let registration = expect_reply!(reply, Reply::Handle(registration) => registration);
    state.registered.insert(registration, Registered { callback, context: context.expose_provenance() });
    Ok(crate::handle::in_c(registration))
}

/// Without a handle: every registration of the callback.
pub fn unregister_trim_notification(caller: &Caller<'_>, arguments: &mut D3DKMT_UNREGISTERTRIMNOTIFICATION) -> Answer {
    let is_wanted = |callback: usize| arguments.Callback.is_some_and(|wanted| wanted as usize == callback);
    unregister(caller, |registration, callback| match callback {
        Callback::Trim(callback) if arguments.Handle.is_null() => is_wanted(callback as usize),
        Callback::Trim(_) => crate::handle::in_c(registration) == arguments.Handle,
        Callback::Budget(_) => false,
    })
}

pub fn unregister_budget_change_notification(
    caller: &Caller<'_>,
    arguments: &D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION,
) -> Answer {
    unregister(caller, |registration, callback| {
        matches!(callback, Callback::Budget(_)) && crate::handle::in_c(registration) == arguments.Handle
    })
}

fn unregister(caller: &Caller<'_>, named: impl Fn(RawHandle, Callback) -> bool) -> Answer {
    let notifications = &caller.process.notifications;
    let state = lock(&notifications.state);
    let gone = state.registered.iter().filter(|(registration, registered)| named(**registration, registered.callback));
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
    pub fn listen(self: &Arc<Self>, link: &Arc<dyn Link>) -> Result<(), Refusal> {
        let mut state = lock(&self.state);
        if !state.listening {
            let (notifications, link) = (Arc::clone(self), Arc::clone(link));
            let hear = move || {
                while let Some(notification) = link.wait_notification() {
                    match notification.kind {
                        NotificationKind::EventSet => notifications.events.set(&*link, notification.registration),
                        kind => notifications.deliver(notification.registration, kind),
                    }
                }
                notifications.events.end();
            };
            own_threads::spawn("trim notifications", hear)
                .map_err(|error| unsuccessful(format!("no thread for callbacks: {error}")))?;
            state.listening = true;
        }
        Ok(())
    }

    fn deliver(&self, registration: RawHandle, kind: NotificationKind) {
        let mut state = lock(&self.state);
        let Some(Registered { callback, context }) = state.registered.get(&registration).copied() else { return };
        state.running = Some((registration, thread::current().id()));
        drop(state);
        let context = std::ptr::with_exposed_provenance_mut::<c_void>(context);
        match (callback, kind) {
            (Callback::Trim(callback), NotificationKind::Trim { flags, bytes_to_trim }) => {
                let flags = in_c(flags);
                let mut told =
                    D3DKMT_TRIMNOTIFICATION { Context: context, Flags: flags, NumBytesToTrim: bytes_to_trim };
                own_threads::for_program(|| callback(&raw mut told));
            }
            (Callback::Budget(callback), NotificationKind::BudgetChanged { budget_bytes, .. }) => {
                let mut told = D3DKMT_BUDGETCHANGENOTIFICATION { Context: context, Budget: budget_bytes };
                own_threads::for_program(|| callback(&raw mut told));
            }
            // The kernel tells each registration of its own kind only.
            _ => {}
        }
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
