//! What a recording has of memory (`OPENWDDM_TRACE=calls+memory`, `d3dkmt_c`'s `trace/memory.rs` says what that is), and how the player puts it back:
//! before a call is made, its line's stored bytes go through the lock that the replay has of the same allocation, and at an unlock all other bytes
//! are compared with the recording's hash. Commands of a patched context take the place of what its buffers have.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use d3dkmt_c::{Same, Value};
use kmt_calls::{
    AllocationListFlags, AllocationListItem, Call, LockCall, MappingId, PacketCall, PatchLocationItem, Reply,
};
use kmt_link::Link;
use wddm_types::RawHandle;

use super::names::Names;

/// A record of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Bytes of a locked allocation.
    Stored { allocation: Value, size: u64, chunks: Vec<Chunk>, same: Option<u64> },
    /// What a patched context was handed.
    Rendered { context: Value, commands: Vec<u64>, list: Vec<(Value, u32)>, patches: Vec<PatchLocationItem> },
    /// So many bytes for which the trace had no room.
    LeftOut { bytes: u64 },
}

/// Bytes from an offset on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    at: u64,
    bytes: Vec<u8>,
}

/// Why memory is not as a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The record and the replay do not fit each other.
    Record(String),
    /// The replay's content is another than the recording's.
    Content(String),
}

/// The records of a line.
///
/// # Errors
/// What is wrong with them.
pub fn records(line: &Value) -> Result<Vec<Record>, String> {
    match line.member("memory") {
        None => Ok(Vec::new()),
        Some(Value::List(all)) => {
            let each = (1..)
                .zip(all)
                .map(|(nth, value)| record(value).map_err(|why| format!("\"memory\", record {nth}: {why}")));
            each.collect()
        }
        Some(_) => Err("\"memory\" is no list".to_owned()),
    }
}

fn record(value: &Value) -> Result<Record, String> {
    if let Some(bytes) = value.member("left_out") {
        return Ok(Record::LeftOut { bytes: number(bytes, "left_out")? });
    }
    if let Some(context) = value.member("context") {
        return rendered(value, context);
    }
    let allocation = value.member("allocation").ok_or("neither \"allocation\" nor \"context\" is there")?;
    let allocation = named(allocation, "allocation")?;
    let size = number(member(value, "size")?, "size")?;
    let chunks = list(value, "stored")?.iter().map(|stored| chunk(stored, size)).collect::<Result<_, _>>()?;
    let same = value.member("same").map(|same| {
        let digits = same.text().and_then(|text| text.strip_prefix("0x"));
        digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or("\"same\" is no hash, as 0x1f is one")
    });
    Ok(Record::Stored { allocation, size, chunks, same: same.transpose()? })
}

fn chunk(stored: &Value, size: u64) -> Result<Chunk, String> {
    let (at, bytes) = (number(member(stored, "at")?, "at")?, bytes(stored, "bytes")?);
    if at.checked_add(bytes.len() as u64).is_none_or(|end| end > size) {
        return Err(format!("{} bytes at {at} lie beyond the allocation, whose size is {size}", bytes.len()));
    }
    Ok(Chunk { at, bytes })
}

fn rendered(value: &Value, context: &Value) -> Result<Record, String> {
    let bytes = bytes(value, "commands")?;
    if !bytes.len().is_multiple_of(8) {
        return Err(format!("\"commands\" has {} bytes, and commands are words of 8", bytes.len()));
    }
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("a chunk of 8"));
    let listed = |item: &Value| match item {
        Value::List(pair) if pair.len() == 2 => Ok((named(&pair[0], "list")?, short(&pair[1], "list")?)),
        _ => Err("an element of \"list\" is no allocation with its flags".to_owned()),
    };
    let patch = |item: &Value| {
        let Value::List(all) = item else { return Err("an element of \"patches\" is no list".to_owned()) };
        let all = all.iter().map(|field| short(field, "patches")).collect::<Result<Vec<u32>, _>>()?;
        let &[allocation_index, slot_id, driver_id, allocation_offset, patch_offset, split_offset] = &all[..] else {
            return Err(format!("an element of \"patches\" has {} numbers, and 6 are one", all.len()));
        };
        Ok(PatchLocationItem { allocation_index, slot_id, driver_id, allocation_offset, patch_offset, split_offset })
    };
    Ok(Record::Rendered {
        context: named(context, "context")?,
        commands: bytes.chunks_exact(8).map(word).collect(),
        list: list(value, "list")?.iter().map(listed).collect::<Result<_, _>>()?,
        patches: list(value, "patches")?.iter().map(patch).collect::<Result<_, _>>()?,
    })
}

/// A name that stands for a handle.
fn named(value: &Value, name: &str) -> Result<Value, String> {
    match number_of(value) {
        Some(_) => Ok(value.clone()),
        None => Err(format!("\"{name}\" is no handle, as allocation 0x40000100 is one")),
    }
}

fn number_of(value: &Value) -> Option<RawHandle> {
    let (_, digits) = value.text()?.rsplit_once(" 0x")?;
    u32::from_str_radix(digits, 16).ok().map(RawHandle)
}

fn member<'value>(value: &'value Value, name: &str) -> Result<&'value Value, String> {
    value.member(name).ok_or_else(|| format!("\"{name}\" is missing"))
}

fn list<'value>(value: &'value Value, name: &str) -> Result<&'value [Value], String> {
    match member(value, name)? {
        Value::List(all) => Ok(all),
        _ => Err(format!("\"{name}\" is no list")),
    }
}

fn number(value: &Value, name: &str) -> Result<u64, String> {
    let number = value.number().and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| format!("\"{name}\" is no number of 64 bits"))
}

fn short(value: &Value, name: &str) -> Result<u32, String> {
    number(value, name)
        .and_then(|number| u32::try_from(number).map_err(|_| format!("{number} in \"{name}\" is no number of 32 bits")))
}

fn bytes(value: &Value, name: &str) -> Result<Vec<u8>, String> {
    let text = member(value, name)?.text().filter(|text| text.is_ascii() && text.len().is_multiple_of(2));
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = text.and_then(|text| text.as_bytes().chunks_exact(2).map(digit).collect());
    bytes.ok_or_else(|| format!("\"{name}\" is no bytes, two hexadecimal digits each"))
}

/// The replay's side: its locks, and the commands that its patched contexts are about to be handed.
#[derive(Default)]
pub struct Desk {
    locks: Mutex<HashMap<RawHandle, MappingId>>,
    rendered: Mutex<HashMap<RawHandle, PacketCall>>,
}

impl Desk {
    /// Puts a record back, and compares what it says of the rest where `compares`.
    ///
    /// # Errors
    /// How memory is otherwise than the record says.
    pub fn put_back(&self, link: &dyn Link, names: &Names, record: &Record, compares: bool) -> Result<(), Misfit> {
        match record {
            Record::LeftOut { .. } => Ok(()),
            Record::Stored { allocation, size, chunks, same } => {
                let same = same.filter(|_| compares);
                self.store(link, (allocation, handle(names, allocation)?), *size, chunks, same)
            }
            Record::Rendered { context, commands, list, patches } => {
                let item = |(allocation, flags): &(Value, u32)| {
                    let (allocation, flags) =
                        (handle(names, allocation)?, AllocationListFlags::from_bits_retain(*flags));
                    Ok(AllocationListItem { allocation, flags })
                };
                let call = PacketCall::Render {
                    context: handle(names, context)?,
                    command: commands.clone(),
                    allocation_list: list.iter().map(item).collect::<Result<_, _>>()?,
                    patch_location_list: patches.clone(),
                    private_data: Vec::new(),
                };
                locked(&self.rendered).insert(handle(names, context)?, call);
                Ok(())
            }
        }
    }

    fn store(
        &self,
        link: &dyn Link,
        (name, allocation): (&Value, RawHandle),
        size: u64,
        chunks: &[Chunk],
        same: Option<u64>,
    ) -> Result<(), Misfit> {
        let name = name.text().unwrap_or_default();
        let mapping = locked(&self.locks).get(&allocation).and_then(|mapping| link.mapping(*mapping));
        let mapping = mapping
            .ok_or_else(|| Misfit::Record(format!("{name} has bytes stored, and no call before it has locked it")))?;
        let range =
            mapping.range().map_err(|why| Misfit::Record(format!("the lock of {name} has no address: {why}")))?;
        let here = range.bytes().min(mapping.size_bytes());
        if here != size {
            return Err(Misfit::Record(format!("{name} has {size} bytes in the recording, and {here} here")));
        }
        if let Some(same) = same {
            // CAST: a range has fewer bytes than there are addresses.
            let mut now = vec![0; here as usize];
            range.read(0, &mut now);
            if hash_beside(&now, chunks) != same {
                return Err(Misfit::Content(format!(
                    "the content of {name} ({size} bytes) is another than the recording's"
                )));
            }
        }
        chunks.iter().for_each(|chunk| range.write(chunk.at, &chunk.bytes));
        Ok(())
    }

    /// A call as it is to be made: one that renders has the recorded commands.
    pub fn outgoing(&self, call: Call) -> Call {
        match call {
            Call::Packet(PacketCall::Render {
                context,
                private_data,
                command,
                allocation_list,
                patch_location_list,
            }) => {
                let made = match locked(&self.rendered).remove(&context) {
                    Some(PacketCall::Render { command, allocation_list, patch_location_list, .. }) => {
                        PacketCall::Render { context, command, allocation_list, patch_location_list, private_data }
                    }
                    _ => PacketCall::Render { context, command, allocation_list, patch_location_list, private_data },
                };
                Call::Packet(made)
            }
            call => call,
        }
    }

    /// The allocation that a call locks.
    pub fn asks_for(call: &Call) -> Option<RawHandle> {
        match call {
            Call::Lock(LockCall::Lock2 { allocation, .. } | LockCall::Lock { allocation, .. }) => Some(*allocation),
            _ => None,
        }
    }

    /// Hears what a lock has become.
    pub fn hear(&self, asked: Option<RawHandle>, reply: &Reply) {
        match (reply, asked) {
            (Reply::Mapped(mapped), Some(allocation)) => drop(locked(&self.locks).insert(allocation, mapped.mapping)),
            (Reply::Locked { allocation, mapped }, _) => drop(locked(&self.locks).insert(*allocation, mapped.mapping)),
            _ => {}
        }
    }
}

/// The hash of all bytes but the chunks', which rise.
fn hash_beside(now: &[u8], chunks: &[Chunk]) -> u64 {
    let (mut same, mut from) = (Same::default(), 0);
    for chunk in chunks {
        // CAST: a chunk lies within the bytes, as `record` has checked.
        let at = chunk.at as usize;
        same.add(&now[from.min(at)..at]);
        from = at + chunk.bytes.len();
    }
    same.add(&now[from..]);
    same.0
}

/// The replay's handle of a recorded name.
fn handle(names: &Names, name: &Value) -> Result<RawHandle, Misfit> {
    // Each name was looked at when its line was read.
    number_of(&names.mapped(name)).ok_or_else(|| Misfit::Record("a name is no handle".to_owned()))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &str) -> Result<Vec<Record>, String> {
        records(&super::super::recording::json(json).expect("JSON"))
    }

    #[test]
    fn records_are_read_and_wrong_ones_say_what_is_wrong() {
        let good = r#"{"memory":[{"allocation":"allocation 0x10","size":16,"stored":[{"at":8,"bytes":"00ff"}],"same":"0x2a"},
            {"context":"context 0x20","commands":"0100000000000000","list":[["allocation 0x10",1]],"patches":[[0,1,2,3,8,0]]},
            {"allocation":"allocation 0x11","size":4096,"left_out":4096}]}"#;
        let [
            Record::Stored { size: 16, chunks, same: Some(42), .. },
            Record::Rendered { commands, .. },
            Record::LeftOut { bytes: 4096 },
        ] = &parsed(good).expect("good")[..]
        else {
            panic!("{:?}", parsed(good));
        };
        assert_eq!((&chunks[..], &commands[..]), (&[Chunk { at: 8, bytes: vec![0, 255] }][..], &[1][..]));
        for (from, to, says) in [
            ("\"at\":8", "\"at\":15", "record 1: 2 bytes at 15 lie beyond the allocation, whose size is 16"),
            ("n 0x10\",\"size", "n 0x740000140\",\"size", "record 1: \"allocation\" is no handle"),
            ("[\"allocation 0x10\"", "[7", "record 2: \"list\" is no handle"),
            ("00ff", "00f", "record 1: \"bytes\" is no bytes"),
            ("00ff", "00fg", "record 1: \"bytes\" is no bytes"),
            ("\"size\":16", "\"size\":-1", "record 1: \"size\" is no number"),
            ("\"0x2a\"", "7", "record 1: \"same\" is no hash"),
            ("0100000000000000", "01000000", "record 2: \"commands\" has 4 bytes"),
            ("[0,1,2,3,8,0]", "[0,1]", "record 2: an element of \"patches\" has 2 numbers"),
            ("\"context\"", "\"contekst\"", "record 2: neither \"allocation\" nor \"context\""),
            ("\"memory\":[", "\"memory\":3,\"x\":[", "\"memory\" is no list"),
        ] {
            let why = parsed(&good.replacen(from, to, 1)).expect_err(says);
            assert!(why.contains(says), "{why}; {says}");
        }
    }

    #[test]
    fn the_hash_of_the_rest_is_the_recorder_s() {
        let mut rest = Same::default();
        rest.add(&[1; 64]);
        rest.add(&[3; 64]);
        let now: Vec<u8> = [[1; 64], [2; 64], [3; 64]].concat();
        assert_eq!(hash_beside(&now, &[Chunk { at: 64, bytes: vec![9; 64] }]), rest.0);
        assert_ne!(hash_beside(&now, &[]), rest.0);
    }
}
