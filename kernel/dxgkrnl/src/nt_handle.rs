//! NT handles: names of shared objects that are passed from process to process (memory §2.7, sync §2.2), and a process's own
//! handles of other processes (memory §5.5). The operating system has its own; on one machine of ours a handle is an
//! unguessable token. A process that was told it may open what it names, with the access that it was made with, or take a handle of its own of
//! it (`handed_over`); the process that has a handle closes it. How many there are is limited by memory and quotas, and for one process as
//! the operating system limits it; no process's handles take another's.

mod name;
mod token;

use std::collections::{BTreeMap, BTreeSet};

use kmt_calls::{ProcessAccess, Refusal, SyncObjectAccess};
use wddm_types::{AdapterIndex, Blame, NtStatus, ProcessId};

use crate::number::{
    CrossFenceNumber, FenceNumber, KeyedMutexNumber, NtHandleNumber, ResourceBodyNumber, SyncObjectNumber,
};
use crate::refusal::{access_denied, invalid, no_memory, refuse};
use crate::store::ObjectNumber;
use name::{Named, Names};
use token::Tokens;

/// `(HANDLE)-1`.
const THIS_PROCESS: u64 = u64::MAX;
/// Most NT handles of one process, as many as the operating system gives one.
const HANDLES_MAX: usize = 1 << 24;

/// The object that an NT handle names, on the adapter of this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// The body of a resource.
    Resource { adapter: AdapterIndex, body: ResourceBodyNumber },
    /// The same with its keyed mutex, and an object without a word in memory that orders the work on it.
    ResourceSet {
        adapter: AdapterIndex,
        body: ResourceBodyNumber,
        keyed_mutex: KeyedMutexNumber,
        sync_object: SyncObjectNumber,
    },
    /// A synchronization object.
    Fence { adapter: AdapterIndex, fence: FenceNumber, access: SyncObjectAccess },
    /// A synchronization object without a word in memory.
    SyncObject { adapter: AdapterIndex, object: SyncObjectNumber, access: SyncObjectAccess },
    /// A fence of several adapters.
    CrossFence { fence: CrossFenceNumber, access: SyncObjectAccess },
    /// A process, and what its holder may do with it. Only the holder has it.
    Process { process: ProcessId, access: ProcessAccess },
    /// A process that has ended.
    Ended,
}

impl Shared {
    /// The object's kind as a refusal calls it.
    pub fn what(self) -> &'static str {
        match self {
            Shared::Resource { .. } => "a resource",
            Shared::ResourceSet { .. } => "a resource with its keyed mutex",
            Shared::Fence { .. } | Shared::SyncObject { .. } | Shared::CrossFence { .. } => "a synchronization object",
            Shared::Process { .. } => "a process",
            Shared::Ended => "a process that has ended",
        }
    }
}

/// One handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NtHandle {
    /// The process that closes it.
    pub process: ProcessId,
    /// The process that it was kept for, and that counts it: it was made there, and is the machine's to close.
    pub kept_for: Option<ProcessId>,
    /// The object that it names.
    pub object: Shared,
    /// The name that it was made with, or opened by, in capital letters.
    pub name: Option<String>,
}

/// All of a machine.
pub struct NtHandles {
    tokens: Tokens,
    open: BTreeMap<NtHandleNumber, NtHandle>,
    /// Those that each process has to close; a process without any is not here.
    held: BTreeMap<ProcessId, BTreeSet<NtHandleNumber>>,
    /// How many are kept for each process, also for one that has ended; a process without any is not here.
    kept: BTreeMap<ProcessId, u64>,
    /// Those that name a process, by that process.
    of_processes: BTreeMap<ProcessId, BTreeSet<NtHandleNumber>>,
    names: Names,
}

impl NtHandles {
    /// No handles.
    pub fn new(key: [u64; 2]) -> NtHandles {
        let (held, kept, of_processes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        NtHandles { tokens: Tokens::of(key), open: BTreeMap::new(), held, kept, of_processes, names: Names::default() }
    }

    /// Names an object: by a token, and by a text for every process that knows the text.
    ///
    /// # Errors
    /// `NO_MEMORY` when the process has as many as it may; of a text see [`Names::give`].
    // spec: sync §2.2
    pub fn share(&mut self, process: ProcessId, object: Shared, name: Option<&str>) -> Result<NtHandleNumber, Refusal> {
        self.has_room(process)?;
        let name = name.map(|name| self.names.give(name, object)).transpose()?;
        Ok(self.add(NtHandle { process, kept_for: None, object, name }))
    }

    /// The object of a name, with the name as it is kept.
    ///
    /// # Errors
    /// `OBJECT_NAME_NOT_FOUND`.
    pub fn find(&self, name: &str) -> Result<(String, Shared), Refusal> {
        self.names.find(name)
    }

    /// Another handle of what was found, which keeps the name.
    ///
    /// # Errors
    /// `NO_MEMORY` when the process has as many as it may.
    pub fn share_as(&mut self, process: ProcessId, object: Shared, found: &str) -> Result<NtHandleNumber, Refusal> {
        self.has_room(process)?;
        self.names.hold(found);
        Ok(self.add(NtHandle { process, kept_for: None, object, name: Some(found.to_owned()) }))
    }

    /// The object of a handle that `process` was handed, with the text that it was made with: the handle that the process
    /// gets keeps both.
    ///
    /// # Errors
    /// `INVALID_HANDLE`; `INVALID_PARAMETER` for the handle of a process, which is its holder's only.
    pub fn handed_over(&self, handle: NtHandleNumber) -> Result<(Shared, Option<String>), Refusal> {
        let known = self.open.get(&handle).ok_or_else(no_such_nt_handle)?;
        match known.object {
            Shared::Process { .. } | Shared::Ended => Err(of_one_process()),
            object => Ok((object, known.name.clone())),
        }
    }

    fn has_room(&self, process: ProcessId) -> Result<(), Refusal> {
        match self.held_by(process) < HANDLES_MAX as u64 {
            true => Ok(()),
            false => Err(no_memory(format!("the process has {HANDLES_MAX} NT handles"))),
        }
    }

    fn add(&mut self, handle: NtHandle) -> NtHandleNumber {
        let token = loop {
            let token = NtHandleNumber::from_raw(self.tokens.next());
            // 0 is no handle; one that is taken would name two objects.
            if token.raw() != 0 && !self.open.contains_key(&token) {
                break token;
            }
        };
        let fresh = self.held.entry(handle.process).or_default().insert(token);
        debug_assert!(fresh, "a token is given once: {token:?}");
        if let Shared::Process { process, .. } = handle.object {
            self.of_processes.entry(process).or_default().insert(token);
        }
        self.open.insert(token, handle);
        token
    }

    /// Whether a process has a handle of a resource, alone or with its keyed mutex.
    pub fn has_resource(&self, process: ProcessId, on: AdapterIndex, wanted: ResourceBodyNumber) -> bool {
        let held = self.held.get(&process).into_iter().flatten();
        held.filter_map(|token| self.open.get(token)).any(|handle| match handle.object {
            Shared::Resource { adapter, body } | Shared::ResourceSet { adapter, body, .. } => {
                (adapter, body) == (on, wanted)
            }
            _ => false,
        })
    }

    /// How many a process has to close.
    pub fn held_by(&self, process: ProcessId) -> u64 {
        self.held.get(&process).map_or(0, |held| held.len() as u64)
    }

    /// How many the machine keeps for a process, which may have ended.
    pub fn kept_for(&self, process: ProcessId) -> u64 {
        self.kept.get(&process).copied().unwrap_or(0)
    }

    /// The object that a handle names.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    // spec: memory §9.3: INVALID_HANDLE is for handles of the operating system
    pub fn named(&self, handle: NtHandleNumber) -> Result<Shared, Refusal> {
        self.open.get(&handle).map(|named| named.object).ok_or_else(no_such_nt_handle)
    }

    /// The process of a handle that `from` has; NULL and the pseudo handle -1 (`GetCurrentProcess`) are `from` itself.
    ///
    /// # Errors
    /// `INVALID_HANDLE`, also for another process's handle; `INVALID_PARAMETER` when it is none of a process, or of one that has ended;
    /// `ACCESS_DENIED` without the right.
    // spec: memory §5.5, memory §9.3
    pub fn process(
        &self,
        from: ProcessId,
        handle: NtHandleNumber,
        wanted: ProcessAccess,
    ) -> Result<ProcessId, Refusal> {
        if [0, THIS_PROCESS].contains(&handle.raw()) {
            return Ok(from);
        }
        let held = self.open.get(&handle).filter(|named| named.process == from).ok_or_else(no_such_nt_handle)?;
        match held.object {
            Shared::Process { process, access } if access.contains(wanted) => Ok(process),
            Shared::Process { .. } => Err(access_denied("the handle of the process does not have the right")),
            Shared::Ended => Err(invalid("the process has ended")),
            Shared::Resource { .. }
            | Shared::ResourceSet { .. }
            | Shared::Fence { .. }
            | Shared::SyncObject { .. }
            | Shared::CrossFence { .. } => Err(invalid("an NT handle of an object, not of a process")),
        }
    }

    /// A process has ended: the handles of it are there until they are closed.
    pub fn process_ended(&mut self, gone: ProcessId) {
        for token in self.of_processes.remove(&gone).unwrap_or_default() {
            let known = self.open.get_mut(&token).expect("it names the process until it is closed");
            debug_assert!(
                matches!(known.object, Shared::Process { process, .. } if process == gone),
                "a token that is listed for a process names it: {known:?}"
            );
            known.object = Shared::Ended;
        }
    }

    /// A handle of a process becomes the machine's own, which outlives the process; it counts as the process's still.
    ///
    /// # Errors
    /// `INVALID_HANDLE`; `INVALID_PARAMETER` for the handle of a process, which is its holder's only.
    pub fn keep(&mut self, process: ProcessId, handle: NtHandleNumber) -> Result<(), Refusal> {
        let known =
            self.open.get_mut(&handle).filter(|known| known.process == process).ok_or_else(no_such_nt_handle)?;
        if matches!(known.object, Shared::Process { .. } | Shared::Ended) {
            return Err(of_one_process());
        }
        (known.process, known.kept_for) = (ProcessId::SYSTEM, Some(process));
        *self.kept.entry(process).or_default() += 1;
        self.held.entry(ProcessId::SYSTEM).or_default().insert(handle);
        forget(&mut self.held, process, handle);
        Ok(())
    }

    /// Closes a handle of this process.
    ///
    /// # Errors
    /// `INVALID_HANDLE`, also for another process's: being told a handle is not having it.
    pub fn close(&mut self, process: ProcessId, handle: NtHandleNumber) -> Result<Shared, Refusal> {
        match self.open.get(&handle) {
            Some(named) if named.process == process => {
                forget(&mut self.held, process, handle);
                let gone = self.open.remove(&handle).expect("just seen");
                Ok(self.leave(handle, gone))
            }
            _ => Err(no_such_nt_handle()),
        }
    }

    /// Closes the handles of a process that has gone.
    pub fn close_all_of(&mut self, process: ProcessId) -> Vec<Shared> {
        let tokens = self.held.remove(&process).unwrap_or_default().into_iter();
        let gone = |token| {
            let gone = self.open.remove(&token).expect("it has it to close");
            debug_assert_eq!(gone.process, process, "a process closes its own handles");
            self.leave(token, gone)
        };
        tokens.map(gone).collect()
    }

    /// A handle has gone, with the name if it was the last that had it.
    fn leave(&mut self, token: NtHandleNumber, gone: NtHandle) -> Shared {
        if let Some(process) = gone.kept_for {
            let kept = self.kept.get_mut(&process).expect("it was counted");
            debug_assert!(*kept > 0, "a process that has none kept is not counted: {process:?}");
            *kept -= 1;
            if *kept == 0 {
                self.kept.remove(&process);
            }
        }
        if let Shared::Process { process, .. } = gone.object {
            forget(&mut self.of_processes, process, token);
        }
        gone.name.iter().for_each(|name| self.names.leave(name));
        gone.object
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = (&str, &Named)> {
        self.names.iter()
    }

    /// All, by token.
    pub fn iter(&self) -> impl Iterator<Item = (NtHandleNumber, &NtHandle)> {
        self.open.iter().map(|(token, named)| (*token, named))
    }
}

/// A process has, or is named by, one token less.
fn forget(of: &mut BTreeMap<ProcessId, BTreeSet<NtHandleNumber>>, process: ProcessId, token: NtHandleNumber) {
    let tokens = of.get_mut(&process).expect("it had one");
    let listed = tokens.remove(&token);
    debug_assert!(listed, "a token is listed for its process: {token:?}");
    if tokens.is_empty() {
        of.remove(&process);
    }
}

fn of_one_process() -> Refusal {
    invalid("an NT handle of a process, which is one process's only")
}

fn no_such_nt_handle() -> Refusal {
    refuse(NtStatus::INVALID_HANDLE, Blame::Caller, "no such NT handle")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_its_makers_to_close_and_everybodys_to_open() {
        let mut handles = NtHandles::new([1, 2]);
        let object = Shared::Resource { adapter: AdapterIndex(0), body: ResourceBodyNumber::from_raw(5) };
        let token = handles.share(ProcessId(1), object, None).unwrap();
        let other = handles.share(ProcessId(2), object, None).unwrap();
        assert_ne!(token, other);
        assert_ne!(
            NtHandles::new([1, 3]).share(ProcessId(1), object, None).unwrap(),
            token,
            "another key, another token"
        );
        assert_eq!(handles.named(token), Ok(object));
        assert_eq!(handles.close(ProcessId(2), token).unwrap_err().status, NtStatus::INVALID_HANDLE);
        assert_eq!(handles.close_all_of(ProcessId(1)), [object]);
        assert_eq!(handles.named(token).unwrap_err().status, NtStatus::INVALID_HANDLE);
        assert_eq!(handles.close(ProcessId(2), other), Ok(object));
    }

    #[test]
    fn no_process_takes_anothers_handles_and_one_has_a_hundred_thousand() {
        let mut handles = NtHandles::new([1, 2]);
        let object = Shared::Resource { adapter: AdapterIndex(0), body: ResourceBodyNumber::from_raw(5) };
        let ours: Vec<NtHandleNumber> =
            (0..100_000).map(|_| handles.share(ProcessId(1), object, None).unwrap()).collect();
        let theirs = handles.share(ProcessId(2), object, None).unwrap();
        handles.keep(ProcessId(1), ours[7]).unwrap();
        assert_eq!((handles.held_by(ProcessId(1)), handles.kept_for(ProcessId(1))), (99_999, 1));
        assert_eq!((handles.held_by(ProcessId(2)), handles.held_by(ProcessId::SYSTEM)), (1, 1));
        assert_eq!(handles.close_all_of(ProcessId(1)).len(), 99_999, "what is kept outlives it");
        assert_eq!((handles.named(ours[7]), handles.named(theirs)), (Ok(object), Ok(object)));
        handles.close(ProcessId::SYSTEM, ours[7]).unwrap();
        assert_eq!((handles.kept_for(ProcessId(1)), handles.held_by(ProcessId::SYSTEM)), (0, 0));
    }
}
