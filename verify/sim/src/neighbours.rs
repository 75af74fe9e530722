//! Processes that share native fences by name: they create, open, wait, signal from the CPU, close and die in any order,
//! beside the processes that work. This module keeps their expectations: one value for all, a waiter that goes on when its value has come
//! or a process closed an open, access that stays what the name gave. The ledger watches the driver's side of it: opens, closes, one
//! destroy.
//!
//! They draw from a stream of their own, and only some seeds have them, so that the worlds of the others are as they were.

use std::sync::Arc;

use dxgk_host::{Host, Pending};
use kmt_calls::{
    AdapterCall, Call, CreatedFence, DeviceCall, FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, Refusal, Reply,
    ShareCall, SignalFlags, SyncCall, SyncObjectAccess, WaitFlags,
};
use shared_words::Word;
use wddm_types::{Blame, NtStatus, ProcessId, RawHandle};

use crate::random::Random;

/// How many there are.
const COUNT: usize = 3;
/// Steps in which a call of theirs, or a wait that is over, is answered at the latest.
const STEPS_MAX: u32 = 100_000;

/// All of them.
pub struct Neighbours {
    random: Random,
    steps_left: u64,
    processes: Vec<Neighbour>,
    fence: Option<SharedFence>,
    waits: Vec<Wait>,
    /// A call that is answered when the hardware has got further; the neighbours make no other call meanwhile, because the answer may need
    /// other processes.
    outstanding: Option<(Pending, After)>,
}

/// The step after an answer.
enum After {
    Device { who: usize },
    Create { who: usize, value: u64, only_on_destroy: bool },
    Open { who: usize, may_signal: bool },
}

struct Neighbour {
    id: ProcessId,
    device: RawHandle,
    /// Its open of the fence.
    open: Option<Open>,
}

#[derive(Clone, Copy)]
struct Open {
    made: CreatedFence,
    may_signal: bool,
}

/// The fence that they share.
struct SharedFence {
    token: u64,
    /// Which of them made the name.
    namer: usize,
    value: u64,
    only_on_destroy: bool,
}

struct Wait {
    who: usize,
    pending: Pending,
    value: u64,
}

type Checked = Result<(), String>;

impl Neighbours {
    /// Some, on a host; each with a device.
    pub fn new(host: &Arc<Host>, random: Random, steps: u64) -> Result<Neighbours, String> {
        let mut all = Neighbours {
            random,
            steps_left: steps,
            processes: Vec::new(),
            fence: None,
            waits: Vec::new(),
            outstanding: None,
        };
        for who in 0..COUNT {
            all.processes.push(Neighbour { id: host.process_created(), device: RawHandle::NONE, open: None });
            all.begin_device(host, who)?;
            // No other process is there yet.
            while all.outstanding.is_some() && host.step() {
                all.take_answer(host)?;
            }
        }
        Ok(all)
    }

    fn begin_device(&mut self, host: &Host, who: usize) -> Checked {
        let id = self.processes[who].id;
        let Reply::Handle(adapter) =
            call(host, id, Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: host.luid() }))?
        else {
            return Err("an opened adapter has a handle".into());
        };
        self.begin(host, id, Call::Device(DeviceCall::CreateDevice { adapter }), After::Device { who })
    }

    fn begin(&mut self, host: &Host, from: ProcessId, call: Call, after: After) -> Checked {
        match host.begin_call(from, call) {
            Ok(result) => self.answer(host, after, result),
            Err(pending) => {
                self.outstanding = Some((pending, after));
                Ok(())
            }
        }
    }

    /// The answer of the outstanding call, if it is there.
    fn take_answer(&mut self, host: &Host) -> Checked {
        let Some((pending, after)) = self.outstanding.take() else { return Ok(()) };
        match host.take_answer(pending) {
            Some(result) => self.answer(host, after, result),
            None => {
                self.outstanding = Some((pending, after));
                Ok(())
            }
        }
    }

    fn answer(&mut self, host: &Host, after: After, result: Result<Reply, Refusal>) -> Checked {
        let reply = match result {
            Ok(reply) => reply,
            // Where there is no room they try again another time.
            Err(refusal) if refusal.blame == Blame::Scarcity => return Ok(()),
            Err(refusal) => return Err(format!("a call of a neighbour was refused: {refusal}")),
        };
        match (after, reply) {
            (After::Device { who }, Reply::Handle(device)) => self.processes[who].device = device,
            (After::Create { who, value, only_on_destroy }, Reply::Fence(made)) => {
                let share = Call::Share(ShareCall::ShareObjects {
                    objects: vec![made.fence],
                    access: SyncObjectAccess::ALL_ACCESS,
                    name: None,
                });
                let Reply::NtHandle(token) = call(host, self.processes[who].id, share)? else {
                    return Err("a name is a number".into());
                };
                self.processes[who].open = Some(Open { made, may_signal: true });
                self.fence = Some(SharedFence { token, namer: who, value, only_on_destroy });
            }
            (After::Open { who, may_signal }, Reply::Fence(made)) => {
                self.processes[who].open = Some(Open { made, may_signal });
            }
            (_, reply) => return Err(format!("a call of a neighbour answered {reply:?}")),
        }
        Ok(())
    }

    /// Whether they have come to their end.
    pub fn done(&self) -> bool {
        self.steps_left == 0
    }

    /// One of them does one thing; with the last step all of them die.
    pub fn turn(&mut self, host: &Host) -> Checked {
        self.take_answer(host)?;
        if self.done() || self.outstanding.is_some() {
            return Ok(());
        }
        self.steps_left -= 1;
        if self.done() {
            self.waits.clear();
            for process in &self.processes {
                host.process_died(process.id);
            }
            return Ok(());
        }
        let who = self.random.index(COUNT);
        if self.processes[who].device == RawHandle::NONE {
            return self.begin_device(host, who);
        }
        match self.random.below(12) {
            0..3 if self.fence.is_none() => self.create(host, who)?,
            0..3 => self.open(host, who)?,
            3..5 => self.wait(host, who)?,
            5..8 => self.signal(host, who)?,
            8..10 => self.close(host, who)?,
            10 => self.unname(host)?,
            _ => self.die(host, who)?,
        }
        self.look(host)
    }

    fn create(&mut self, host: &Host, who: usize) -> Checked {
        let only_on_destroy = self.random.chance(50);
        let mut flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
        flags.set(FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY, only_on_destroy);
        let value = self.random.below(10);
        let request = NativeFenceRequest { initial_value: value, flags, ..NativeFenceRequest::default() };
        let Neighbour { id, device, .. } = self.processes[who];
        let after = After::Create { who, value, only_on_destroy };
        self.begin(host, id, Call::Sync(SyncCall::CreateNativeFence { device, request }), after)
    }

    fn open(&mut self, host: &Host, who: usize) -> Checked {
        let may_signal = self.random.chance(70);
        let flags = if may_signal { FenceFlags::empty() } else { FenceFlags::NO_SIGNAL };
        let Some(fence) = self.fence.as_ref().filter(|_| self.processes[who].open.is_none()) else { return Ok(()) };
        let request = OpenSyncObjectRequest { handle: fence.token, flags, ..OpenSyncObjectRequest::default() };
        let Neighbour { id, device, .. } = self.processes[who];
        let after = After::Open { who, may_signal };
        self.begin(host, id, Call::Sync(SyncCall::OpenNativeFenceFromNtHandle { device, request }), after)
    }

    fn wait(&mut self, host: &Host, who: usize) -> Checked {
        let ahead = self.random.below(4);
        let (Some(open), Some(fence)) = (self.processes[who].open, &self.fence) else { return Ok(()) };
        let value = fence.value + ahead;
        let Neighbour { id, device, .. } = self.processes[who];
        let points = vec![(open.made.fence, value)];
        let wait = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
            device,
            points,
            async_event: RawHandle::NONE,
            flags: WaitFlags::empty(),
        });
        match host.begin_call(id, wait) {
            Ok(result) if ahead == 0 => result.map(drop).map_err(|refusal| format!("a wait was refused: {refusal}")),
            Ok(result) => Err(format!("a wait for {value} was answered at {}: {result:?}", fence.value)),
            Err(_) if ahead == 0 => Err(format!("a wait for {value} blocks although the value is there")),
            Err(pending) => {
                self.waits.push(Wait { who, pending, value });
                Ok(())
            }
        }
    }

    fn signal(&mut self, host: &Host, who: usize) -> Checked {
        let ahead = self.random.below(3);
        let (Some(open), Some(fence)) = (self.processes[who].open, &mut self.fence) else { return Ok(()) };
        let Neighbour { id, device, .. } = self.processes[who];
        let value = fence.value + ahead;
        let signal = Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu {
            device,
            points: vec![(open.made.fence, value)],
            flags: SignalFlags::empty(),
        });
        match host.call(id, signal) {
            Ok(_) if open.may_signal => fence.value = value,
            Err(refusal) if !open.may_signal && refusal.status == NtStatus::ACCESS_DENIED => return Ok(()),
            other => return Err(format!("a signal by one who may: {}, answered {other:?}", open.may_signal)),
        }
        self.answered(host, |wait| wait.value <= value)
    }

    fn close(&mut self, host: &Host, who: usize) -> Checked {
        let Some(open) = self.processes[who].open.take() else { return Ok(()) };
        call(
            host,
            self.processes[who].id,
            Call::Sync(SyncCall::DestroySynchronizationObject { fence: open.made.fence }),
        )?;
        self.closed(host)
    }

    /// A process has closed an open: by default all waiters go on, otherwise only with the last open.
    // spec: sync §2.3
    fn closed(&mut self, host: &Host) -> Checked {
        let last = self.processes.iter().all(|process| process.open.is_none());
        let goes_on = last || self.fence.as_ref().is_some_and(|fence| !fence.only_on_destroy);
        self.answered(host, |_| goes_on)
    }

    fn unname(&mut self, host: &Host) -> Checked {
        let all_closed = self.processes.iter().all(|process| process.open.is_none());
        let Some(fence) = self.fence.take_if(|_| all_closed) else { return Ok(()) };
        let id = self.processes[fence.namer].id;
        call(host, id, Call::Share(ShareCall::CloseNtHandle { handle: fence.token }))?;
        let request = OpenSyncObjectRequest { handle: fence.token, ..OpenSyncObjectRequest::default() };
        let device = self.processes[fence.namer].device;
        match host.call(id, Call::Sync(SyncCall::OpenNativeFenceFromNtHandle { device, request })) {
            Err(refusal) if refusal.status == NtStatus::INVALID_HANDLE => Ok(()),
            other => Err(format!("a closed name was opened: {other:?}")),
        }
    }

    /// One dies, and another comes in its place. If the name was its, the fence lives on only where it is open.
    fn die(&mut self, host: &Host, who: usize) -> Checked {
        self.waits.retain(|wait| wait.who != who);
        host.process_died(self.processes[who].id);
        let newcomer = Neighbour { id: host.process_created(), device: RawHandle::NONE, open: None };
        if std::mem::replace(&mut self.processes[who], newcomer).open.is_some() {
            self.closed(host)?;
        }
        // Without a name no process finds the fence again: the processes that have it close it.
        if self.fence.as_ref().is_some_and(|fence| fence.namer == who) {
            for who in 0..COUNT {
                self.close(host, who)?;
            }
            self.fence = None;
        }
        self.begin_device(host, who)
    }

    /// The waits of which `over` says so are answered well, soon; the others are not.
    fn answered(&mut self, host: &Host, over: impl Fn(&Wait) -> bool) -> Checked {
        let (over, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waits).into_iter().partition(over);
        self.waits = rest;
        for wait in over {
            let result = settle(host, wait.pending).ok_or_else(|| format!("a waiter for {} was lost", wait.value))?;
            result.map_err(|refusal| format!("a wait for {} was refused: {refusal}", wait.value))?;
        }
        Ok(())
    }

    /// All processes read the same value, and waits for more are not over.
    fn look(&mut self, host: &Host) -> Checked {
        let Some(fence) = &self.fence else { return Ok(()) };
        for open in self.processes.iter().filter_map(|process| process.open) {
            let read = Word::load(host.system_memory().word(open.made.current.0));
            if read != fence.value {
                return Err(format!("the shared fence is at {}, a process reads {read}", fence.value));
            }
        }
        match self.waits.iter().find_map(|wait| Some((wait.value, host.take_answer(wait.pending)?))) {
            Some((value, result)) => Err(format!("a wait for {value} ended at {}: {result:?}", fence.value)),
            None => Ok(()),
        }
    }
}

/// A call that is answered at once, and well.
fn call(host: &Host, from: ProcessId, call: Call) -> Result<Reply, String> {
    let name = call.name();
    let result = host.begin_call(from, call).map_err(|_| format!("{name} waits for something"))?;
    result.map_err(|refusal| format!("{name} was refused: {refusal}"))
}

/// The answer of a call, for which the hardware may have to run.
fn settle(host: &Host, pending: Pending) -> Option<Result<Reply, Refusal>> {
    for _ in 0..STEPS_MAX {
        if let Some(result) = host.take_answer(pending) {
            return Some(result);
        }
        if !host.step() {
            return host.take_answer(pending);
        }
    }
    None
}
