//! Names of what is shared by NT handle (`OBJECT_ATTRIBUTES.ObjectName` of `D3DKMTShareObjects`): one space of the machine, in which case
//! makes no difference, as in that of the operating system. A name is there as long as an NT handle is that was made with it, or opened
//! by it; the object itself may be there longer, and be named anew.

use std::collections::BTreeMap;

use kmt_calls::Refusal;
use wddm_types::{Blame, NtStatus};

use super::Shared;
use crate::refusal::{invalid, refuse};

/// Most characters of a name: a `UNICODE_STRING` holds no more.
const NAME_MAX: usize = 32_767;

/// The names of a machine.
#[derive(Default)]
pub struct Names {
    /// By the name in capital letters.
    names: BTreeMap<String, Named>,
}

/// A name's object and handles.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The object, with the access that the maker of the name gives.
    pub object: Shared,
    /// NT handles that have it.
    pub handles: u32,
}

impl Names {
    /// Gives an object a name, with one NT handle. Returns the name as it is kept.
    ///
    /// # Errors
    /// `OBJECT_NAME_COLLISION` when another object has it; `INVALID_PARAMETER` when it is none, or too long.
    pub fn give(&mut self, name: &str, object: Shared) -> Result<String, Refusal> {
        if name.is_empty() || name.chars().count() > NAME_MAX {
            return Err(invalid(format!("a name has 1 to {NAME_MAX} characters")));
        }
        let key = in_capitals(name);
        if self.names.contains_key(&key) {
            let reason = format!("another object is called {name:?}");
            return Err(refuse(NtStatus::OBJECT_NAME_COLLISION, Blame::Caller, reason));
        }
        self.names.insert(key.clone(), Named { object, handles: 1 });
        Ok(key)
    }

    /// The object of a name, with the name as it is kept.
    ///
    /// # Errors
    /// `OBJECT_NAME_NOT_FOUND`.
    pub fn find(&self, name: &str) -> Result<(String, Shared), Refusal> {
        let key = in_capitals(name);
        match self.names.get(&key) {
            Some(named) => Ok((key, named.object)),
            None => {
                let reason = format!("nothing is called {name:?}");
                Err(refuse(NtStatus::OBJECT_NAME_NOT_FOUND, Blame::Caller, reason))
            }
        }
    }

    /// One NT handle more has it.
    pub fn hold(&mut self, key: &str) {
        let named = self.names.get_mut(key).expect("just found");
        debug_assert!(named.handles > 0, "a name is there as long as a handle has it: {named:?}");
        named.handles += 1;
    }

    /// An NT handle that had it has gone.
    pub fn leave(&mut self, key: &str) {
        let named = self.names.get_mut(key).expect("a handle keeps its name");
        debug_assert!(named.handles > 0, "a name counts its handles: {named:?}");
        named.handles -= 1;
        if named.handles == 0 {
            self.names.remove(key);
        }
    }

    /// All, by what they are kept under.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Named)> {
        self.names.iter().map(|(key, named)| (key.as_str(), named))
    }
}

/// Letter by letter: a letter without one capital letter stays.
fn in_capitals(name: &str) -> String {
    let capital = |letter: char| {
        let mut capitals = letter.to_uppercase();
        match (capitals.next(), capitals.next()) {
            (Some(capital), None) => capital,
            _ => letter,
        }
    };
    name.chars().map(capital).collect()
}

#[cfg(test)]
mod tests {
    use wddm_types::AdapterIndex;

    use super::*;
    use crate::number::ResourceBodyNumber;
    use crate::store::ObjectNumber;

    fn object() -> Shared {
        Shared::Resource { adapter: AdapterIndex(0), body: ResourceBodyNumber::from_raw(1) }
    }

    fn status<T>(result: Result<T, Refusal>) -> NtStatus {
        result.err().map_or(NtStatus::SUCCESS, |refusal| refusal.status)
    }

    #[test]
    fn case_makes_no_difference_and_nothing_else_does_not() {
        let mut names = Names::default();
        let key = names.give("Größe", object()).unwrap();
        assert_eq!(status(names.find("GRÖßE")), NtStatus::SUCCESS);
        for other in ["GRÖSSE", "Grösse", "Größe ", "", "Große"] {
            assert_eq!(status(names.find(other)), NtStatus::OBJECT_NAME_NOT_FOUND, "{other:?}");
        }
        assert_eq!(status(names.give("gröSSe", object())), NtStatus::SUCCESS);
        assert_eq!(status(names.give("größe", object())), NtStatus::OBJECT_NAME_COLLISION);
        names.hold(&key);
        names.leave(&key);
        assert_eq!(status(names.find("größe")), NtStatus::SUCCESS);
        names.leave(&key);
        assert_eq!(status(names.find("größe")), NtStatus::OBJECT_NAME_NOT_FOUND);
    }

    #[test]
    fn a_name_has_a_length() {
        let mut names = Names::default();
        let (longest, longer) = ("x".repeat(NAME_MAX), "x".repeat(NAME_MAX + 1));
        assert_eq!(status(names.give(&longest, object())), NtStatus::SUCCESS);
        for wrong in ["", &longer] {
            assert_eq!(status(names.give(wrong, object())), NtStatus::INVALID_PARAMETER);
        }
    }
}
