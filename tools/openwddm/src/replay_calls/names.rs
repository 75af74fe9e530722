//! What is called otherwise in a replay: handles, LUIDs, tokens, GPU virtual addresses. Each call's answer tells the new name of what the
//! recorded answer names at the same place.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use d3dkmt_c::Value;

/// Names of one kind never stand for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Space {
    /// Handles of the kernel, of all kinds of objects of a process.
    Handle,
    /// Handles by which several processes know an object.
    Global,
    /// Handles of events, sections, NT handles, processes.
    System,
    Luid,
    Token,
    Registration,
    Process,
    Va,
}

/// The space and the number of a text such as `device 0x40000001`.
fn named(text: &str) -> Option<(Space, &str, u64)> {
    let (kind, number) = text.rsplit_once(' ')?;
    let number = u64::from_str_radix(number.strip_prefix("0x")?, 16).ok()?;
    let space = match kind {
        "global-share" => Space::Global,
        "event" | "section" | "nt-handle" | "process" => Space::System,
        "luid" => Space::Luid,
        "token" => Space::Token,
        "registration" => Space::Registration,
        "process-id" => Space::Process,
        "va" => Space::Va,
        "runtime" | "window" | "device-context" | "directory" | "semaphore" | "function" | "handle" => return None,
        _ => Space::Handle,
    };
    Some((space, kind, number))
}

/// The names of a recording, and those of its replay.
#[derive(Debug, Default)]
pub struct Names {
    known: HashMap<(Space, u64), u64>,
    /// Where ranges of addresses begin: an address within one moves with it.
    addresses: BTreeMap<u64, u64>,
}

impl Names {
    /// Arguments with the names of the replay. A name that no answer has told stays what it is.
    pub fn mapped(&self, value: &Value) -> Value {
        match value {
            Value::Text(text) => {
                match named(text).and_then(|(space, kind, number)| Some((kind, self.now(space, number)?))) {
                    Some((kind, number)) => Value::Text(format!("{kind} {number:#x}")),
                    None => value.clone(),
                }
            }
            Value::List(all) => Value::List(all.iter().map(|value| self.mapped(value)).collect()),
            Value::Members(all) => {
                Value::Members(all.iter().map(|(name, value)| (name.clone(), self.mapped(value))).collect())
            }
            Value::Null | Value::Number(_) => value.clone(),
        }
    }

    fn now(&self, space: Space, number: u64) -> Option<u64> {
        // 0 and -1 name nothing, or the caller.
        if number == 0 || number == u64::MAX {
            return None;
        }
        if space == Space::Va {
            let (begin, now) = self.addresses.range(..=number).next_back()?;
            return Some(now.wrapping_add(number - begin));
        }
        self.known.get(&(space, number)).copied()
    }

    /// Learns the names of an answer from the recorded one.
    pub fn learn(&mut self, recorded: &Value, now: &Value) {
        match (recorded, now) {
            (Value::Text(was), Value::Text(is)) => {
                let (Some((space, kind, was)), Some((_, same, is))) = (named(was), named(is)) else { return };
                if kind != same || was == 0 {
                    return;
                }
                match space {
                    Space::Va => self.addresses.insert(was, is),
                    space => self.known.insert((space, was), is),
                };
            }
            (Value::List(was), Value::List(is)) => was.iter().zip(is).for_each(|(was, is)| self.learn(was, is)),
            (Value::Members(was), Value::Members(_)) => {
                let pairs = was.iter().filter_map(|(name, was): &(Cow<'_, str>, Value)| Some((was, now.member(name)?)));
                pairs.collect::<Vec<_>>().into_iter().for_each(|(was, is)| self.learn(was, is));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &'static str, text: &str) -> Value {
        Value::Members(vec![(name.into(), Value::Text(text.to_owned()))])
    }

    fn mapped(names: &Names, text: &str) -> String {
        names.mapped(&Value::Text(text.to_owned())).text().expect("text").to_owned()
    }

    #[test]
    fn an_answer_tells_the_new_name_at_the_same_place() {
        let mut names = Names::default();
        names.learn(&one("hDevice", "device 0x40000001"), &one("hDevice", "device 0x40000009"));
        names.learn(&one("hGlobalShare", "global-share 0x1"), &one("hGlobalShare", "global-share 0x7"));
        names.learn(&one("other", "device 0x40000002"), &one("missing", "device 0x40000003"));
        // The same handle where a list takes objects of any kind.
        assert_eq!(mapped(&names, "object 0x40000001"), "object 0x40000009");
        assert_eq!(mapped(&names, "device 0x40000002"), "device 0x40000002");
        assert_eq!(
            (mapped(&names, "global-share 0x1"), mapped(&names, "device 0x1")),
            ("global-share 0x7".into(), "device 0x1".into())
        );
        assert_eq!(
            (mapped(&names, "device 0x0"), mapped(&names, "Write|Zero")),
            ("device 0x0".into(), "Write|Zero".into())
        );
        // A handle that comes again stands for the newer object.
        names.learn(&one("hDevice", "device 0x40000001"), &one("hDevice", "device 0x40000011"));
        assert_eq!(mapped(&names, "device 0x40000001"), "device 0x40000011");
    }

    #[test]
    fn an_address_moves_with_its_range() {
        let mut names = Names::default();
        names.learn(&one("VirtualAddress", "va 0x10000"), &one("VirtualAddress", "va 0x90000"));
        names.learn(&one("VirtualAddress", "va 0x30000"), &one("VirtualAddress", "va 0x50000"));
        assert_eq!(mapped(&names, "va 0x10008"), "va 0x90008");
        assert_eq!((mapped(&names, "va 0x30000"), mapped(&names, "va 0x8")), ("va 0x50000".into(), "va 0x8".into()));
        assert_eq!(mapped(&names, "va 0x0"), "va 0x0");
    }
}
