//! Values of the configuration, checked as they are read, so that an error names the line. Called by `config`.

use std::fmt;
use std::str::FromStr;

use dxgk_host::{Profile, ProfileError};
use dxgkd::UNLIMITED;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// A limit: at least 1; or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

/// An amount of memory in bytes, at least 1; or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount(pub u64);

/// The mode of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

/// The least severity that the log has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// The daemon cannot go on.
    Error,
    /// A refused call or client, a client that the daemon disconnects.
    Warn,
    /// Start and end.
    #[default]
    Info,
    /// Each client's waits.
    Debug,
    /// All that the program says.
    Trace,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> tracing::Level {
        match level {
            LogLevel::Error => tracing::Level::ERROR,
            LogLevel::Warn => tracing::Level::WARN,
            LogLevel::Info => tracing::Level::INFO,
            LogLevel::Debug => tracing::Level::DEBUG,
            LogLevel::Trace => tracing::Level::TRACE,
        }
    }
}

/// The name of a profile that there is, or the path of a file that describes an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileName(pub String);

/// The number of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserNumber(pub u32);

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        match u32::from_str_radix(text, 8) {
            Ok(mode @ 0..=0o777) => Ok(Mode(mode)),
            _ => Err("give three octal digits, as 660".to_owned()),
        }
    }
}

/// Reads a number or a text.
struct NumberOr<F> {
    expected: &'static str,
    text: F,
}

impl<F: FnOnce(&str) -> Result<u64, String>> Visitor<'_> for NumberOr<F> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        match u64::try_from(number) {
            Ok(number @ 1..) => Ok(number),
            _ => Err(E::custom(format!("{number} is no limit: expected {}", self.expected))),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        if number > 0 { Ok(number) } else { Err(E::custom(format!("0 is no limit: expected {}", self.expected))) }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        (self.text)(text).map_err(E::custom)
    }
}

const COUNT: &str = "a number from 1 on, or \"unlimited\"";
const AMOUNT: &str = "bytes, text like \"512MiB\" or \"8GB\", or \"unlimited\"";

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Count, D::Error> {
        let text = |text: &str| match text {
            "unlimited" => Ok(UNLIMITED),
            other => Err(format!("{other:?} is no limit: expected {COUNT}")),
        };
        from.deserialize_any(NumberOr { expected: COUNT, text }).map(Count)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Amount, D::Error> {
        let text = |text: &str| match dxgk_host::parse_bytes(text) {
            _ if text == "unlimited" => Ok(UNLIMITED),
            Ok(bytes) => Ok(bytes),
            Err(_) if text.trim_end().ends_with('%') => Err(format!(
                "{text:?} is a percentage of a workload's peak, and a daemon has no workload: expected {AMOUNT}"
            )),
            Err(_) => Err(format!("{text:?} is no amount of memory: expected {AMOUNT}")),
        };
        from.deserialize_any(NumberOr { expected: AMOUNT, text }).map(Amount)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Mode, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(|problem| D::Error::custom(format!("{text:?}: {problem}")))
    }
}

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ProfileName, D::Error> {
        let name = String::deserialize(from)?;
        match Profile::asked(&name) {
            Ok(_) => Ok(ProfileName(name)),
            Err(ProfileError::Unknown(_)) => Err(D::Error::custom(format!(
                "there is no adapter {name:?}; `openwddm adapters` lists them, or name a file that ends in .toml"
            ))),
            Err(error) => Err(D::Error::custom(error)),
        }
    }
}

impl<'de> Deserialize<'de> for UserNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<UserNumber, D::Error> {
        let text = String::deserialize(from)?;
        let number = text.parse().map_err(|_| D::Error::custom(format!("{text:?} is no number of a user")))?;
        Ok(UserNumber(number))
    }
}
