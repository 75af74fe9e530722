//! What a program gives its engines in memory: `OPENWDDM_TRACE=calls+memory:FILE.jsonl`. A trace of calls alone has the address and the length of a
//! command buffer, and none of its commands: `openwddm replay-calls` ends there. With this record GPU work replays.
//!
//! # What is recorded
//! A program writes for engines through the addresses of its locks, and into the buffers of a patched context. From the lock on the recorder has a
//! copy of each locked allocation. Before a call that hands work on (a submission, a signal, the creation of a doorbell) it compares all
//! locked allocations with their copies; before an unlock that one allocation. The line of the call has, under `memory`, a record for each
//! allocation with other bytes:
//! ```text
//! {"allocation":"allocation 0x40000100","size":4096,"stored":[{"at":0,"bytes":"01…"}],"same":"0x9ae1…"}
//! ```
//! `stored` are the blocks that have changed, by the program or by an engine: the replay writes them through its own lock before it makes the call. `same`, at
//! an unlock alone, is a hash of all other bytes: the program saw these, and the replay must see them, too. So what an engine wrote is judged where
//! the program locks it after its wait. A call of `D3DKMTRender` has the commands and both lists as they were handed over:
//! ```text
//! {"context":"context 0x40000140","commands":"…","list":[["allocation 0x40000100",1]],"patches":[[0,0,0,0,16,0]]}
//! ```
//!
//! # The bound
//! A trace has at most [`STORED_BYTES_MAX`] of stored bytes, and copies of locks of [`LOCKED_BYTES_MAX`] at one time. A record that finds no room
//! has `left_out`, the number of its bytes, and from there on every record has: a gap makes what comes behind it worthless. The replay ends before
//! the next submission and says why.
//!
//! # What is not recorded
//! Sections, memory of the program under an allocation, rings that a process feeds itself (their doorbells are stores of the program): the
//! lines of those calls say so under `not_carried`. A store of another thread between the comparison and the call stands in the next record.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;

use kmt_calls::{Call, LockCall, MappingId, PacketCall, QueueCall, Refusal, Reply, SyncCall};
use kmt_link::Link;
use wddm_types::RawHandle;

use super::value::Value;
use crate::session::lock;

/// Most stored bytes of a trace.
pub const STORED_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of locked allocations of which the recorder keeps copies.
pub const LOCKED_BYTES_MAX: u64 = 256 << 20;
/// Changes are told in blocks of so many bytes.
const BLOCK_BYTES: usize = 64;

thread_local! {
    /// The records of the function that this thread is in.
    static RECORDS: RefCell<Vec<Value>> = const { RefCell::new(Vec::new()) };
}

/// A function begins on this thread.
pub fn begins() {
    drop(taken());
}

/// The records of the function that ends on this thread.
pub fn taken() -> Vec<Value> {
    // A thread that ends may call still, when its own values are gone: such a call has no record.
    RECORDS.try_with(|records| records.take()).unwrap_or_default()
}

fn tell(record: Value) {
    let _ = RECORDS.try_with(|records| records.borrow_mut().push(record));
}

/// A locked allocation, as it was when it was looked at last.
struct Locked {
    mapping: MappingId,
    locks: u32,
    copy: Vec<u8>,
}

struct State {
    locked: BTreeMap<RawHandle, Locked>,
    /// How many bytes may still be stored; `None`: something is left out.
    left: Option<u64>,
}

/// The recorder of one process.
pub struct Memory {
    state: Mutex<State>,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { state: Mutex::new(State { locked: BTreeMap::new(), left: Some(STORED_BYTES_MAX) }) }
    }
}

impl Memory {
    /// Makes a call, and records what it needs.
    pub fn call(
        &self,
        link: &dyn Link,
        call: Call,
        make: impl FnOnce(Call) -> Result<Reply, Refusal>,
    ) -> Result<Reply, Refusal> {
        let unlocked = unlocked(&call);
        self.before(link, &call, &unlocked);
        let locks = locks(&call);
        let answer = make(call);
        if answer.is_ok() {
            let mut state = lock(&self.state);
            unlocked.iter().for_each(|allocation| state.unlock(*allocation));
        }
        match (&answer, locks) {
            (Ok(Reply::Mapped(mapped)), Some(allocation)) => self.locked(link, allocation, mapped.mapping),
            (Ok(Reply::Locked { allocation, mapped }), _) => self.locked(link, *allocation, mapped.mapping),
            _ => {}
        }
        answer
    }

    fn before(&self, link: &dyn Link, call: &Call, unlocked: &[RawHandle]) {
        let state = &mut *lock(&self.state);
        if hands_on(call) {
            let all: Vec<RawHandle> = state.locked.keys().copied().collect();
            all.into_iter().for_each(|allocation| state.look(link, allocation, false));
        }
        unlocked.iter().for_each(|allocation| state.look(link, *allocation, true));
        if let Call::Packet(PacketCall::Render { context, command, allocation_list, patch_location_list, .. }) = call {
            let bytes: Vec<u8> = command.iter().flat_map(|word| word.to_le_bytes()).collect();
            let number = |number: u32| Value::Number(number.into());
            let listed = allocation_list
                .iter()
                .map(|item| Value::List(vec![named("allocation", item.allocation), number(item.flags.bits())]));
            let patches = patch_location_list.iter().map(|patch| {
                let fields = [
                    patch.allocation_index,
                    patch.slot_id,
                    patch.driver_id,
                    patch.allocation_offset,
                    patch.patch_offset,
                    patch.split_offset,
                ];
                Value::List(fields.map(number).into())
            });
            let (listed, patches) = (Value::List(listed.collect()), Value::List(patches.collect()));
            let content = match state.has_room(bytes.len() as u64) {
                true => vec![
                    ("commands".into(), Value::Text(hex(&bytes))),
                    ("list".into(), listed),
                    ("patches".into(), patches),
                ],
                false => vec![left_out(bytes.len() as u64)],
            };
            tell(Value::Members([vec![("context".into(), named("context", *context))], content].concat()));
        }
    }

    fn locked(&self, link: &dyn Link, allocation: RawHandle, mapping: MappingId) {
        let state = &mut *lock(&self.state);
        if let Some(known) = state.locked.get_mut(&allocation)
            && known.mapping == mapping
        {
            known.locks += 1;
            return;
        }
        let Some(shown) = link.mapping(mapping) else { return };
        let Ok(range) = shown.range() else { return };
        let bytes = range.bytes().min(shown.size_bytes());
        state.locked.retain(|_, locked| link.mapping(locked.mapping).is_some());
        let kept: u64 = state.locked.values().map(|locked| locked.copy.len() as u64).sum();
        if kept + bytes > LOCKED_BYTES_MAX {
            state.left = None;
            tell(Value::Members(vec![
                ("allocation".into(), named("allocation", allocation)),
                ("size".into(), Value::Number(bytes.into())),
                left_out(bytes),
            ]));
            return;
        }
        // CAST: a range has fewer bytes than there are addresses.
        let mut copy = vec![0; bytes as usize];
        range.read(0, &mut copy);
        state.locked.insert(allocation, Locked { mapping, locks: 1, copy });
    }
}

impl State {
    /// Compares an allocation with its copy, and tells what has changed; `ends`: the program will have seen all of it.
    fn look(&mut self, link: &dyn Link, allocation: RawHandle, ends: bool) {
        let Some(locked) = self.locked.get_mut(&allocation) else { return };
        // The lock ended without an unlock: its device was lost.
        let Some(shown) = link.mapping(locked.mapping) else {
            self.locked.remove(&allocation);
            return;
        };
        let Ok(range) = shown.range() else { return };
        let mut now = vec![0; locked.copy.len()];
        range.read(0, &mut now);
        let (stored, same) = compared(&locked.copy, &now);
        locked.copy = now;
        if stored.is_empty() && !ends {
            return;
        }
        let now = &locked.copy;
        let content: Vec<Value> = stored.iter().map(|run| chunk(run.start, &now[run.clone()])).collect();
        let (size, bytes) = (now.len(), stored.iter().map(|run| run.len() as u64).sum());
        let mut members =
            vec![("allocation".into(), named("allocation", allocation)), ("size".into(), Value::Number(size as i128))];
        match self.has_room(bytes) {
            true => members.push(("stored".into(), Value::List(content))),
            false => members.push(left_out(bytes)),
        }
        if ends {
            members.push(("same".into(), Value::hex(same)));
        }
        tell(Value::Members(members));
    }

    fn unlock(&mut self, allocation: RawHandle) {
        if let Some(locked) = self.locked.get_mut(&allocation) {
            locked.locks -= 1;
            if locked.locks == 0 {
                self.locked.remove(&allocation);
            }
        }
    }

    /// Takes room for so many bytes. Once there was none, there is none.
    fn has_room(&mut self, bytes: u64) -> bool {
        self.left = self.left.and_then(|left| left.checked_sub(bytes));
        self.left.is_some()
    }
}

/// The runs of blocks in which two contents differ, and the hash of all other bytes.
pub fn compared(before: &[u8], now: &[u8]) -> (Vec<std::ops::Range<usize>>, u64) {
    let mut stored: Vec<std::ops::Range<usize>> = Vec::new();
    let mut same = Same::default();
    for (nth, (was, is)) in before.chunks(BLOCK_BYTES).zip(now.chunks(BLOCK_BYTES)).enumerate() {
        let at = nth * BLOCK_BYTES;
        match (was == is, stored.last_mut()) {
            (true, _) => same.add(is),
            (false, Some(last)) if last.end == at => last.end += is.len(),
            (false, _) => stored.push(at..at + is.len()),
        }
    }
    (stored, same.0)
}

/// The hash of bytes that were not stored: FNV-1a over their words.
pub struct Same(pub u64);

impl Default for Same {
    fn default() -> Self {
        Same(0xcbf2_9ce4_8422_2325)
    }
}

impl Same {
    /// Adds bytes, whole words but for the last of a content.
    pub fn add(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut whole = [0; 8];
            whole[..word.len()].copy_from_slice(word);
            self.0 = (self.0 ^ u64::from_le_bytes(whole)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// A call that lets engines go on: what they read is in memory by now.
fn hands_on(call: &Call) -> bool {
    match call {
        Call::Queue(call) => matches!(
            call,
            QueueCall::SubmitCommandToHwQueue { .. }
                | QueueCall::SubmitSignalSyncObjectsToHwQueue { .. }
                | QueueCall::CreateDoorbell { .. }
        ),
        Call::Packet(call) => {
            matches!(call, PacketCall::Render { .. } | PacketCall::SubmitCommand { .. } | PacketCall::Present { .. })
        }
        Call::Sync(call) => matches!(
            call,
            SyncCall::SignalSynchronizationObjectFromCpu { .. }
                | SyncCall::SignalSynchronizationObjectFromGpu { .. }
                | SyncCall::SignalSynchronizationObjectFromGpu2 { .. }
        ),
        _ => false,
    }
}

fn unlocked(call: &Call) -> Vec<RawHandle> {
    match call {
        Call::Lock(LockCall::Unlock { allocations, .. }) => allocations.clone(),
        Call::Lock(LockCall::Unlock2 { allocation, .. }) => vec![*allocation],
        _ => Vec::new(),
    }
}

fn locks(call: &Call) -> Option<RawHandle> {
    match call {
        Call::Lock(LockCall::Lock2 { allocation, .. }) => Some(*allocation),
        // The answer of Lock names the allocation, which may be another instance.
        Call::Lock(LockCall::Lock { .. } | LockCall::Unlock { .. } | LockCall::Unlock2 { .. }) => None,
        _ => None,
    }
}

fn named(kind: &str, handle: RawHandle) -> Value {
    Value::Text(format!("{kind} {:#x}", handle.0))
}

fn left_out(bytes: u64) -> (std::borrow::Cow<'static, str>, Value) {
    ("left_out".into(), Value::Number(bytes.into()))
}

fn chunk(at: usize, bytes: &[u8]) -> Value {
    Value::Members(vec![("at".into(), Value::Number(at as i128)), ("bytes".into(), Value::Text(hex(bytes)))])
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // PANIC: writing into a string does not fail.
        write!(text, "{byte:02x}").expect("a string takes it");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_told_in_blocks_and_the_rest_by_its_hash() {
        let before = vec![7_u8; 5 * BLOCK_BYTES + 8];
        let mut now = before.clone();
        let (none, all) = compared(&before, &now);
        assert!(none.is_empty());
        let mut whole = Same::default();
        whole.add(&before);
        assert_eq!(all, whole.0);
        (now[BLOCK_BYTES], now[3 * BLOCK_BYTES - 1], now[5 * BLOCK_BYTES + 7]) = (1, 2, 3);
        let (stored, same) = compared(&before, &now);
        assert_eq!(stored, [BLOCK_BYTES..3 * BLOCK_BYTES, 5 * BLOCK_BYTES..5 * BLOCK_BYTES + 8]);
        let mut rest = Same::default();
        rest.add(&before[..3 * BLOCK_BYTES]);
        assert_eq!(same, rest.0, "three blocks are as they were");
    }

    #[test]
    fn behind_a_gap_everything_is_left_out() {
        let mut state = State { locked: BTreeMap::new(), left: Some(100) };
        assert!(state.has_room(60) && state.has_room(40));
        assert!(!state.has_room(1) && !state.has_room(0));
    }
}
