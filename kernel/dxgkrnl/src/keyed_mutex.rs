//! Keyed mutexes hand a shared resource on by keys. A thread that releases one says which key comes next and which fence value the GPU's
//! work has come to; a thread that acquires that key has it then, and is told the value. The CPU alone waits here: a keyed mutex orders
//! processes, and the fence that the value is of orders their work. They are the machine's, of no device and no adapter.
//!
//! ```text
//!            acquired with its key               released with a key
//!   Free ──────────────────────────────► Owned ──────────────────────► Free
//!                                          │ its owner closes it, or goes
//!                                          └──────────────────────────► Abandoned, for ever
//! ```
//!
//! # What the fact sheets leave open (decision 0023)
//! | question | here |
//! |---|---|
//! | the owner | the handle that it was acquired through, on whatever thread: another handle's release is `INVALID_PARAMETER` |
//! | an owner that acquires again | waits like every other, until another thread releases it |
//! | which of several waiters goes on | the one that has waited longest for the key that was released |
//! | after an owner has gone | every acquire, those that wait too, and every release are `ABANDONED`; the fence value is 0 |
//! | a handle that is closed while a thread waits by it | the wait ends with `INVALID_PARAMETER` |
//! | the runtime's data | those of the creation, or of the first open or release that brings some; as many bytes from then on; a call that asks for them says 0 or exactly that many |
//!
//! A mutex is there as long as it is open or an NT handle names it. Its global handle goes with the last open.

mod object;

use std::collections::{BTreeMap, VecDeque};

use events::Event;
use kmt_calls::{KeyedMutexFlags, Refusal, Reply};
use wddm_types::{AdapterIndex, ProcessId, RawHandle};

use crate::effect::{Answer, Cx, Effect, Token};
use crate::number::{DeviceNumber, KeyedMutexNumber, KeyedMutexOpenNumber};
use crate::refusal::invalid;
use crate::store::{ObjectNumber, Store};
use object::{KeyedMutexState, Wait, abandoned, timeout};

pub use object::KeyedMutex;

/// Most bytes of the runtime's data.
const RUNTIME_DATA_MAX: usize = 65_536;

/// All of a machine.
#[derive(Default)]
pub struct KeyedMutexes {
    mutexes: Store<KeyedMutexNumber, KeyedMutex>,
    opens: Store<KeyedMutexOpenNumber, KeyedMutexOpen>,
    /// Which mutex a wait that ends by itself is for, by its time.
    deadlines: BTreeMap<(u64, Token), KeyedMutexNumber>,
}

/// A process's open of one.
#[derive(Clone, Copy, Debug)]
pub struct KeyedMutexOpen {
    /// The process that has its handle.
    pub process: ProcessId,
    /// The device that it goes with, if it was opened with a resource.
    pub device: Option<(AdapterIndex, DeviceNumber)>,
    /// The mutex that it opens.
    pub mutex: KeyedMutexNumber,
}

/// An acquire's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Acquire {
    /// The key.
    pub key: u64,
    /// How long it waits; `None`: for ever.
    pub timeout_100ns: Option<u64>,
    /// Bytes of the runtime's data that there is room for.
    pub data_bytes: u32,
}

impl KeyedMutexes {
    /// A new one, which is free. Answers with its creator's open.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for flags that there are not, and for too much data.
    pub fn create(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        (key, flags): (u64, KeyedMutexFlags),
        runtime_data: Vec<u8>,
    ) -> Result<KeyedMutexOpenNumber, Refusal> {
        let reserved = flags.difference(KeyedMutexFlags::NT_SECURITY_SHARING);
        if !reserved.is_empty() {
            return Err(invalid(format!("flags {:#x} of a keyed mutex are reserved", reserved.bits())));
        }
        if runtime_data.len() > RUNTIME_DATA_MAX {
            return Err(invalid(format!("{} bytes of data; at most {RUNTIME_DATA_MAX}", runtime_data.len())));
        }
        let mutex = self.mutexes.insert(KeyedMutex {
            state: KeyedMutexState::Free,
            key,
            fence_value: 0,
            runtime_data,
            global: RawHandle::NONE,
            by_nt_handle: flags.contains(KeyedMutexFlags::NT_SECURITY_SHARING),
            opens: 1,
            names: 0,
            waiting: VecDeque::new(),
        });
        let open = self.opens.insert(KeyedMutexOpen { process, device: None, mutex });
        cx.emit_of_all(Event::KeyedMutexCreated { process: process.0, mutex: mutex.raw(), open: open.raw() });
        Ok(open)
    }

    /// Another open of one. It brings data for a mutex that has none yet.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` when it brings another number of bytes than the mutex has, or too many.
    pub fn open(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        device: Option<(AdapterIndex, DeviceNumber)>,
        (mutex, runtime_data): (KeyedMutexNumber, Vec<u8>),
    ) -> Result<KeyedMutexOpenNumber, Refusal> {
        self.check_data(mutex, &runtime_data)?;
        if self.mutexes[mutex].runtime_data.is_empty() {
            self.give_data(cx, mutex, runtime_data);
        }
        self.mutexes[mutex].opens += 1;
        let open = self.opens.insert(KeyedMutexOpen { process, device, mutex });
        cx.emit_of_all(Event::KeyedMutexOpened { process: process.0, mutex: mutex.raw(), open: open.raw() });
        Ok(open)
    }

    /// Whether a caller may bring these data for a mutex; none may be brought always.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` when it has another number of bytes already, and when they are too many.
    pub fn check_data(&self, mutex: KeyedMutexNumber, brought: &[u8]) -> Result<(), Refusal> {
        let (bytes, has) = (brought.len(), self.mutexes[mutex].runtime_data.len());
        if bytes > RUNTIME_DATA_MAX {
            return Err(invalid(format!("{bytes} bytes of data; at most {RUNTIME_DATA_MAX}")));
        }
        if bytes != 0 && has != 0 && bytes != has {
            return Err(invalid(format!("{bytes} bytes for the runtime's data, which have {has}")));
        }
        Ok(())
    }

    /// A mutex has these data from now on. With the first ones their number is known: waits that have room for another number end.
    fn give_data(&mut self, cx: &mut Cx<'_>, mutex: KeyedMutexNumber, runtime_data: Vec<u8>) {
        let known = &mut self.mutexes[mutex];
        debug_assert!(
            known.runtime_data.is_empty() || known.runtime_data.len() == runtime_data.len(),
            "the runtime's data keep their length: {} bytes for {}",
            runtime_data.len(),
            known.runtime_data.len()
        );
        known.runtime_data = runtime_data;
        let waiting = std::mem::take(&mut known.waiting);
        let (left, ended): (VecDeque<Wait>, VecDeque<Wait>) =
            waiting.into_iter().partition(|wait| known.data(wait.data_bytes).is_ok());
        known.waiting = left;
        let has = known.runtime_data.len();
        for wait in ended {
            let room = wait.data_bytes;
            let refusal =
                invalid(format!("{room} bytes for the runtime's data, which have {has} since this call waits"));
            self.answer(cx, wait, Err(refusal));
        }
    }

    /// Acquires one.
    ///
    /// # Errors
    /// `ABANDONED`; `TIMEOUT` when the caller does not wait; `INVALID_PARAMETER` as of [`KeyedMutexes::open`].
    pub fn acquire(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        open: KeyedMutexOpenNumber,
        wanted: Acquire,
    ) -> Result<Answer, Refusal> {
        let KeyedMutexOpen { process, mutex, .. } = self.opens[open];
        let known = &mut self.mutexes[mutex];
        debug_assert!(known.opens > 0, "a mutex counts the open that it is acquired through: {known:?}");
        known.data(wanted.data_bytes)?;
        match known.state {
            KeyedMutexState::Abandoned => return Err(abandoned()),
            KeyedMutexState::Free if known.key == wanted.key => {
                known.state = KeyedMutexState::Owned { open };
                let (mutex, open) = (mutex.raw(), open.raw());
                cx.emit_of_all(Event::KeyedMutexAcquired { process: process.0, mutex, open, key: wanted.key });
                return Ok(Answer::Done(Ok(known.acquired(wanted.data_bytes))));
            }
            KeyedMutexState::Free | KeyedMutexState::Owned { .. } => {}
        }
        if wanted.timeout_100ns == Some(0) {
            return Err(timeout());
        }
        let ends_ns = wanted.timeout_100ns.map(|units| cx.now_ns.saturating_add(units.saturating_mul(100)));
        self.deadlines.extend(ends_ns.map(|at| ((at, token), mutex)));
        known.waiting.push_back(Wait { token, open, key: wanted.key, ends_ns, data_bytes: wanted.data_bytes });
        Ok(Answer::Later(token))
    }

    /// Releases one through the open that has it.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` when it is not this open's, or the data are not as many as they were; `ABANDONED`.
    pub fn release(
        &mut self,
        cx: &mut Cx<'_>,
        open: KeyedMutexOpenNumber,
        (key, fence_value): (u64, u64),
        runtime_data: Vec<u8>,
    ) -> Result<(), Refusal> {
        let KeyedMutexOpen { process, mutex, .. } = self.opens[open];
        let known = &mut self.mutexes[mutex];
        match known.state {
            KeyedMutexState::Abandoned => return Err(abandoned()),
            KeyedMutexState::Owned { open: owner } if owner == open => {}
            KeyedMutexState::Free | KeyedMutexState::Owned { .. } => {
                return Err(invalid("the keyed mutex is not this handle's"));
            }
        }
        self.check_data(mutex, &runtime_data)?;
        if !runtime_data.is_empty() {
            self.give_data(cx, mutex, runtime_data);
        }
        let known = &mut self.mutexes[mutex];
        (known.state, known.key, known.fence_value) = (KeyedMutexState::Free, key, fence_value);
        let next = known.waiting.iter().position(|wait| wait.key == key);
        let next = next.and_then(|at| known.waiting.remove(at));
        // CAST: each is a thread of a process.
        let waits = known.waiting.len() as u32;
        cx.emit_of_all(Event::KeyedMutexReleased { process: process.0, mutex: mutex.raw(), key, fence_value, waits });
        if let Some(wait) = next {
            known.state = KeyedMutexState::Owned { open: wait.open };
            debug_assert_eq!(self.opens[wait.open].mutex, mutex, "a call waits by an open of the mutex");
            let reply = known.acquired(wait.data_bytes);
            let process = self.opens[wait.open].process.0;
            let (mutex, open) = (mutex.raw(), wait.open.raw());
            cx.emit_of_all(Event::KeyedMutexAcquired { process, mutex, open, key });
            self.answer(cx, wait, Ok(reply));
        }
        Ok(())
    }

    /// An open is closed, by its process or for it. Waits by it end, and a mutex that it has is abandoned. Answers with the global handle
    /// that has gone with it.
    #[must_use]
    pub fn close(&mut self, cx: &mut Cx<'_>, open: KeyedMutexOpenNumber) -> Option<RawHandle> {
        let number = self.opens.remove(open).expect("an open is closed once").mutex;
        let known = &mut self.mutexes[number];
        debug_assert!(known.opens > 0, "a mutex counts the open that is closed: {known:?}");
        debug_assert!(
            known.state != KeyedMutexState::Abandoned || known.waiting.is_empty(),
            "no call waits for what is abandoned: {known:?}"
        );
        let (ended, mut left): (VecDeque<Wait>, VecDeque<Wait>) =
            known.waiting.drain(..).partition(|wait| wait.open == open);
        if known.state == (KeyedMutexState::Owned { open }) {
            known.state = KeyedMutexState::Abandoned;
            cx.emit_of_all(Event::KeyedMutexAbandoned { mutex: number.raw() });
        } else {
            known.waiting.append(&mut left);
        }
        known.opens -= 1;
        debug_assert!(known.opens > 0 || known.waiting.is_empty(), "a call waits by an open: {known:?}");
        let gone = if known.opens == 0 { std::mem::take(&mut known.global) } else { RawHandle::NONE };
        for wait in ended {
            self.answer(cx, wait, Err(invalid("the handle of the keyed mutex was destroyed")));
        }
        for wait in left {
            self.answer(cx, wait, Err(abandoned()));
        }
        self.drop_unreached(cx, number);
        (gone != RawHandle::NONE).then_some(gone)
    }

    /// The opens that a device has by opening resources.
    pub fn opens_of_device(&self, device: (AdapterIndex, DeviceNumber)) -> Vec<KeyedMutexOpenNumber> {
        self.opens.iter().filter(|(_, open)| open.device == Some(device)).map(|(number, _)| number).collect()
    }

    /// A process has gone: closes its opens; its waits end without an answer, for it has no threads. Answers with the global handles that
    /// have gone with it.
    pub fn close_all_of(&mut self, cx: &mut Cx<'_>, process: ProcessId) -> Vec<RawHandle> {
        let of_process =
            |(number, open): (KeyedMutexOpenNumber, &KeyedMutexOpen)| (open.process == process).then_some(number);
        let opens: Vec<KeyedMutexOpenNumber> = self.opens.iter().filter_map(of_process).collect();
        for open in &opens {
            let deadlines = &mut self.deadlines;
            self.mutexes[self.opens[*open].mutex].waiting.retain(|wait| {
                let stays = wait.open != *open;
                if let (false, Some(at_ns)) = (stays, wait.ends_ns) {
                    deadlines.remove(&(at_ns, wait.token));
                }
                stays
            });
        }
        opens.into_iter().filter_map(|open| self.close(cx, open)).collect()
    }

    /// It has one NT handle more.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` when it was not created for that.
    // spec: sync §2.2
    pub fn name(&mut self, mutex: KeyedMutexNumber) -> Result<(), Refusal> {
        let known = &mut self.mutexes[mutex];
        if !known.by_nt_handle {
            return Err(invalid("the keyed mutex was not created with NtSecuritySharing"));
        }
        known.names += 1;
        Ok(())
    }

    /// An NT handle was not made after all. It is open.
    pub fn take_name_back(&mut self, mutex: KeyedMutexNumber) {
        let known = &mut self.mutexes[mutex];
        debug_assert!(known.names > 0, "a mutex counts its names: {known:?}");
        known.names -= 1;
        debug_assert!(known.opens > 0 || known.names > 0, "another keeps what was not named after all: {known:?}");
    }

    /// An NT handle has gone.
    pub fn unname(&mut self, cx: &mut Cx<'_>, mutex: KeyedMutexNumber) {
        let known = &mut self.mutexes[mutex];
        debug_assert!(known.by_nt_handle && known.names > 0, "a mutex counts its names: {known:?}");
        known.names -= 1;
        self.drop_unreached(cx, mutex);
    }

    /// Ends the waits whose time has come.
    pub fn timer(&mut self, cx: &mut Cx<'_>) {
        while let Some((&(at_ns, token), &mutex)) = self.deadlines.first_key_value()
            && at_ns <= cx.now_ns
        {
            let waiting = &mut self.mutexes[mutex].waiting;
            let at = waiting.iter().position(|wait| wait.token == token).expect("a wait has its time");
            let wait = waiting.remove(at).expect("just seen");
            self.answer(cx, wait, Err(timeout()));
        }
    }

    /// When the next wait ends by itself.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.deadlines.first_key_value().map(|((at_ns, _), _)| *at_ns)
    }

    /// A mutex by its number.
    pub fn get(&self, mutex: KeyedMutexNumber) -> Option<&KeyedMutex> {
        self.mutexes.get(mutex)
    }

    /// Its creator says by which global handle it goes.
    pub fn goes_by(&mut self, open: KeyedMutexOpenNumber, global: RawHandle) {
        let known = &mut self.mutexes[self.opens[open].mutex];
        debug_assert!(
            !known.by_nt_handle && known.global == RawHandle::NONE,
            "one that goes by no NT handle gets its global handle once: {known:?}"
        );
        known.global = global;
    }

    /// An open by its number.
    pub fn open_of(&self, open: KeyedMutexOpenNumber) -> Option<&KeyedMutexOpen> {
        self.opens.get(open)
    }

    /// All mutexes, by number.
    pub fn iter(&self) -> impl Iterator<Item = (KeyedMutexNumber, &KeyedMutex)> {
        self.mutexes.iter()
    }

    /// All opens, by number.
    pub fn opens(&self) -> impl Iterator<Item = (KeyedMutexOpenNumber, &KeyedMutexOpen)> {
        self.opens.iter()
    }

    /// A wait that is in no list any more is answered.
    fn answer(&mut self, cx: &mut Cx<'_>, wait: Wait, result: Result<Reply, Refusal>) {
        if let Some(at_ns) = wait.ends_ns {
            self.deadlines.remove(&(at_ns, wait.token));
        }
        cx.effects.push(Effect::Answer { token: wait.token, result });
    }

    fn drop_unreached(&mut self, cx: &mut Cx<'_>, mutex: KeyedMutexNumber) {
        let known = &self.mutexes[mutex];
        if known.opens == 0 && known.names == 0 {
            debug_assert!(
                known.waiting.is_empty() && known.global == RawHandle::NONE,
                "waits and the global handle go with the last open: {known:?}"
            );
            self.mutexes.remove(mutex);
            cx.emit_of_all(Event::KeyedMutexDestroyed { mutex: mutex.raw() });
        }
    }
}
