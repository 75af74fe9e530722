//! The file of ceilings: what each ratchet may measure at most. It only falls: [`Ceilings::lower`] is the one change that the program makes.

use std::collections::BTreeMap;
use std::fmt;

/// Where it is.
pub const PATH: &str = "docs/verification/ratchets.toml";

const HEAD: &str = "\
# What each ratchet of `cargo xtask tidy` measures at most. A change that makes one better lowers its ceiling in the same commit:
# `cargo xtask tidy --lower` writes this file. No change raises one.
";

/// By ratchet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    ceilings: BTreeMap<String, usize>,
}

impl Ceilings {
    /// Reads the file's text.
    ///
    /// # Errors
    /// It is no list of names with whole numbers.
    pub fn parse(text: &str) -> Result<Ceilings, String> {
        let ceilings = toml::from_str(text).map_err(|error| format!("{PATH}: {error}"))?;
        Ok(Ceilings { ceilings })
    }

    /// The ceiling of one ratchet.
    pub fn of(&self, ratchet: &str) -> Option<usize> {
        self.ceilings.get(ratchet).copied()
    }

    /// Whom the file names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ceilings.keys().map(String::as_str)
    }

    /// Lowers a ceiling to what was measured; whether that was lower. A missing ceiling is not made.
    pub fn lower(&mut self, ratchet: &str, measured: usize) -> bool {
        let ceiling = self.ceilings.get_mut(ratchet).filter(|ceiling| **ceiling > measured);
        ceiling.map(|ceiling| *ceiling = measured).is_some()
    }
}

impl fmt::Display for Ceilings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        self.ceilings.iter().try_for_each(|(ratchet, ceiling)| writeln!(f, "{ratchet} = {ceiling}"))
    }
}
