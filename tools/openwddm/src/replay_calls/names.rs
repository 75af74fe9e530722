//! What is called otherwise in a replay: handles, LUIDs, tokens, GPU virtual addresses. Each call's answer tells the new name of what the
//! recorded answer names at the same place.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use d3dkmt_c::Value;

/// No handle of the operating system has so many bits.
const NO_SYSTEM: u64 = 1 << 32;

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
    /// The first address that is another here.
    moved: Option<(u64, u64)>,
    /// Of the operating system's handles, those that are events.
    events: HashSet<u64>,
}

impl Names {
    /// Arguments with the names of the replay. A name that no answer has told stays what it is.
    pub fn mapped(&self, value: &Value) -> Value {
        self.mapped_with(value, false)
    }

    /// The same of a call that was refused for a handle of the operating system: each of them is a number that no such handle has.
    pub fn mapped_as_refused(&self, value: &Value) -> Value {
        self.mapped_with(value, true)
    }

    fn mapped_with(&self, value: &Value, refused: bool) -> Value {
        match value {
            Value::Text(text) => {
                let now = |(space, kind, number)| match (refused, space, number) {
                    (true, Space::System, 1..NO_SYSTEM) => Some((kind, NO_SYSTEM | number)),
                    _ => Some((kind, self.now(space, number)?)),
                };
                match named(text).and_then(now) {
                    Some((kind, number)) => Value::Text(format!("{kind} {number:#x}")),
                    None => value.clone(),
                }
            }
            Value::List(all) => Value::List(all.iter().map(|value| self.mapped_with(value, refused)).collect()),
            Value::Members(all) => {
                let each =
                    |(name, value): &(Cow<'static, str>, Value)| (name.clone(), self.mapped_with(value, refused));
                Value::Members(all.iter().map(each).collect())
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

    /// An address of the recording that is another one here, and that one.
    pub fn moved(&self) -> Option<(u64, u64)> {
        self.moved
    }

    /// The numbers of the recording in a call that are events and that no answer has told.
    pub fn unknown_events(&self, given: &Value) -> Vec<u64> {
        let mut found = Vec::new();
        each_name(given, &mut |_, kind, number| {
            if kind == "event" && number != 0 && !self.events.contains(&number) && !found.contains(&number) {
                found.push(number);
            }
        });
        found
    }

    /// The handles of the replay whose recorded numbers an answer gives anew: of descriptors, the program has closed those before.
    pub fn given_anew(&self, answered: &Value) -> Vec<u64> {
        let mut found = Vec::new();
        each_name(answered, &mut |space, kind, number| {
            if space == Space::System && matches!(kind, "event" | "nt-handle") {
                found.extend(self.now(space, number));
            }
        });
        found
    }

    /// The operating system's handles in these arguments mean nothing any more.
    pub fn forget(&mut self, given: &Value) {
        let mut gone = Vec::new();
        each_name(given, &mut |space, _, number| gone.extend((space == Space::System).then_some(number)));
        for number in gone {
            self.known.remove(&(Space::System, number));
            self.events.remove(&number);
        }
    }

    /// Learns the names of an answer from the recorded one.
    pub fn learn(&mut self, recorded: &Value, now: &Value) {
        match (recorded, now) {
            (Value::Text(was), Value::Text(is)) => {
                let (Some((space, kind, was)), Some((_, same, is))) = (named(was), named(is)) else { return };
                if kind != same || was == 0 {
                    return;
                }
                if space == Space::Va && was != is {
                    self.moved.get_or_insert((was, is));
                }
                match space {
                    Space::Va => self.addresses.insert(was, is),
                    space => self.known.insert((space, was), is),
                };
                if space == Space::System && kind == "event" {
                    self.events.insert(was);
                } else if space == Space::System {
                    self.events.remove(&was);
                }
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

/// Tells each name in a value: its space, its kind, its number.
fn each_name(value: &Value, tell: &mut impl FnMut(Space, &str, u64)) {
    match value {
        Value::Text(text) => {
            if let Some((space, kind, number)) = named(text) {
                tell(space, kind, number);
            }
        }
        Value::List(all) => all.iter().for_each(|value| each_name(value, tell)),
        Value::Members(all) => all.iter().for_each(|(_, value)| each_name(value, tell)),
        Value::Null | Value::Number(_) => {}
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
        assert_eq!(names.moved(), Some((0x10000, 0x90000)));
        assert_eq!((mapped(&names, "va 0x30000"), mapped(&names, "va 0x8")), ("va 0x50000".into(), "va 0x8".into()));
        assert_eq!(mapped(&names, "va 0x0"), "va 0x0");
    }

    #[test]
    fn a_descriptor_that_no_answer_has_told_is_an_event_and_one_that_comes_again_was_closed() {
        let mut names = Names::default();
        let wait = one("hAsyncEvent", "event 0x7");
        assert_eq!(names.unknown_events(&wait), [7]);
        names.learn(&wait, &one("hAsyncEvent", "event 0x1004"));
        assert_eq!((names.unknown_events(&wait), mapped(&names, "event 0x7")), (vec![], "event 0x1004".into()));
        // The number comes again as an NT handle: the event has been closed, and is none any more.
        let share = one("hNtHandle", "nt-handle 0x7");
        assert_eq!(names.given_anew(&share), [0x1004]);
        names.learn(&share, &one("hNtHandle", "nt-handle 0x1000"));
        assert_eq!(names.unknown_events(&wait), [7]);
        let Value::Members(refused) = names.mapped_as_refused(&share) else { panic!("members") };
        assert_eq!(refused[0].1.text(), Some("nt-handle 0x100000007"));
        names.forget(&one("hObject", "nt-handle 0x7"));
        assert_eq!((names.given_anew(&share), mapped(&names, "nt-handle 0x7")), (vec![], "nt-handle 0x7".into()));
    }
}
