//! The configuration of `openwddm serve` as a file says it: every name optional, so that several can be laid over one another.
//! `default.toml` explains each name; `--write-config` prints it. Called by `serve`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dxgkd::{Limits, OfUser, ProcessLimits, UserLimits};
use serde::Deserialize;

use crate::error::RunError;
use crate::hangs::HangArguments;
use crate::serve::value::{Amount, Count, LogLevel, Mode, ProfileName, UserNumber};

/// The commented file with every name.
pub const DEFAULT: &str = include_str!("default.toml");

/// The configuration from one source: the file or the command line.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where processes connect.
    pub socket: Option<PathBuf>,
    /// The users that may connect, as the socket's mode.
    pub mode: Option<Mode>,
    /// Most processes.
    pub processes: Option<Count>,
    /// Whether the daemon gives up what it does not need.
    pub sandbox: Option<bool>,
    /// The least severity that the log has.
    pub log: Option<LogLevel>,
    /// The watch for work that hangs.
    pub tdr: Option<HangArguments>,
    /// Records of crashes.
    pub crash: Option<CrashPart>,
    /// The adapters.
    #[serde(default)]
    pub adapter: Vec<AdapterPart>,
    /// Of each process.
    #[serde(default)]
    pub process: ProcessPart,
    /// Of each user.
    #[serde(default)]
    pub user: UserPart,
    /// Of particular users.
    #[serde(default)]
    pub users: BTreeMap<UserNumber, OneUserPart>,
}

/// Records of crashes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrashPart {
    /// The folder in which they are written.
    pub directory: PathBuf,
}

impl CrashPart {
    /// Looks whether a record could be written there.
    ///
    /// # Errors
    /// [`RunError::File`]: it is no folder, or the daemon's user may write nothing there.
    pub fn check(&self) -> Result<(), RunError> {
        let path = &self.directory;
        let writable = || rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
        let problem = match std::fs::metadata(path) {
            Err(error) => error.to_string(),
            Ok(found) if !found.is_dir() => "it is no folder".to_owned(),
            Ok(_) => match writable() {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            },
        };
        Err(RunError::File {
            role: "[crash] directory".to_owned(),
            path: path.clone(),
            problem,
            remedy: "make a folder that the daemon's user may write into".to_owned(),
        })
    }
}

/// An adapter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterPart {
    /// Its profile.
    pub profile: ProfileName,
    /// Its video memory.
    pub vram: Option<Amount>,
    /// Its share of system memory.
    pub system: Option<Amount>,
}

/// Limits of each process.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessPart {
    handles: Option<Count>,
    sync_objects: Option<Count>,
    memory: Option<Amount>,
    locked_video: Option<Amount>,
    queued: Option<Count>,
    descriptors: Option<Count>,
    lanes: Option<Count>,
    unheard: Option<Count>,
    answer_ms: Option<Count>,
    clearing_percent: Option<Count>,
    budget: Option<Amount>,
    messages: Option<Amount>,
    raise_priority: Option<bool>,
}

/// Limits of each user.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserPart {
    processes: Option<Count>,
    handles: Option<Count>,
    sync_objects: Option<Count>,
    memory: Option<Amount>,
    locked_video: Option<Amount>,
    queued: Option<Count>,
    descriptors: Option<Count>,
    lanes: Option<Count>,
    unheard: Option<Count>,
    messages: Option<Amount>,
}

/// Limits of one user.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneUserPart {
    processes: Option<Count>,
    handles: Option<Count>,
    sync_objects: Option<Count>,
    memory: Option<Amount>,
    locked_video: Option<Amount>,
    queued: Option<Count>,
    descriptors: Option<Count>,
    lanes: Option<Count>,
    unheard: Option<Count>,
    messages: Option<Amount>,
    #[serde(default)]
    process: ProcessPart,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`RunError::File`]: it cannot be read; a name, a type or a value is wrong, with line and name.
    pub fn read(path: &Path) -> Result<Config, RunError> {
        let text = std::fs::read_to_string(path).map_err(|error| Config::wrong(path, error.to_string()))?;
        Config::parse(path, &text)
    }

    /// A file that is wrong.
    pub fn wrong(path: &Path, problem: String) -> RunError {
        RunError::File {
            role: "--config".to_owned(),
            path: path.to_owned(),
            problem: problem.trim_end().to_owned(),
            remedy: "`openwddm serve --write-config` prints a file with every name and what it means".to_owned(),
        }
    }

    /// The configuration that the text of a file has.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Config, RunError> {
        let said: Config = toml::from_str(text).map_err(|error| Config::wrong(path, error.to_string()))?;
        match said.tdr {
            Some(tdr) if tdr.contradicts_itself() => Err(Config::wrong(path,
                "[tdr] has level = \"off\", with which the kernel does not watch for hangs, and other values that would set the watch up"
                    .to_owned(),
            )),
            _ => Ok(said),
        }
    }

    /// One limit as the command line says it: a name of the file, `=`, a value.
    ///
    /// # Errors
    /// The fault in it.
    pub fn limit(text: &str) -> Result<Config, String> {
        let (name, value) = text.split_once('=').ok_or("give NAME=VALUE, as process.handles=4096")?;
        let quoted = value.parse::<u64>().is_err() && value.parse::<bool>().is_err();
        let line = if quoted { format!("{name} = {value:?}") } else { format!("{name} = {value}") };
        let said: Config = toml::from_str(&line).map_err(|error| error.message().to_owned())?;
        let limits = Config { processes: said.processes, process: said.process, user: said.user, ..Config::default() };
        match name.split('.').next() {
            Some("process" | "user" | "processes") => Ok(limits),
            Some("users") => Ok(Config { users: said.users, ..limits }),
            _ => Err(format!("{name} is no limit")),
        }
    }

    /// This configuration, with the values of `other` for names that it does not have.
    pub fn over(self, other: Config) -> Config {
        let mut users = other.users;
        for (user, part) in self.users {
            let below = users.remove(&user).unwrap_or_default();
            users.insert(user, part.over(below));
        }
        Config {
            socket: self.socket.or(other.socket),
            mode: self.mode.or(other.mode),
            processes: self.processes.or(other.processes),
            sandbox: self.sandbox.or(other.sandbox),
            log: self.log.or(other.log),
            tdr: self.tdr.or(other.tdr),
            crash: self.crash.or(other.crash),
            adapter: if self.adapter.is_empty() { other.adapter } else { self.adapter },
            process: self.process.over(other.process),
            user: self.user.over(other.user),
            users,
        }
    }

    /// What a running daemon cannot change, by name, each as it is said.
    pub fn fixed(&self) -> Vec<(&'static str, String)> {
        let Config { socket, mode, sandbox, log, tdr, crash, adapter, .. } = self;
        vec![
            ("socket", format!("{socket:?}")),
            ("mode", format!("{mode:?}")),
            ("sandbox", format!("{sandbox:?}")),
            ("log", format!("{log:?}")),
            ("[tdr]", format!("{tdr:?}")),
            ("[crash]", format!("{crash:?}")),
            ("[[adapter]]", format!("{adapter:?}")),
        ]
    }

    /// The limits, with the defaults of what is not said.
    pub fn limits(&self) -> Limits {
        let default = Limits::default();
        let (process, user) = (self.process.limits(default.process), self.user.limits(default.user));
        let of = |part: &OneUserPart| OfUser { process: part.process.limits(process), user: part.user().limits(user) };
        let users = self.users.iter().map(|(number, part)| (number.0, of(part))).collect();
        Limits { processes: self.processes.map_or(default.processes, |count| count.0), process, user, users }
    }
}

/// Lays one part over another, field by field.
macro_rules! over {
    ($part:ident: $($name:ident)*) => {
        impl $part {
            fn over(self, other: $part) -> $part {
                $part { $($name: self.$name.or(other.$name),)* }
            }
        }
    };
}

over!(ProcessPart: handles sync_objects memory locked_video queued descriptors lanes unheard answer_ms clearing_percent budget messages raise_priority);
over!(UserPart: processes handles sync_objects memory locked_video queued descriptors lanes unheard messages);

impl ProcessPart {
    fn limits(&self, other: ProcessLimits) -> ProcessLimits {
        let count = |count: Option<Count>, other| count.map_or(other, |count| count.0);
        ProcessLimits {
            lanes: count(self.lanes, other.lanes),
            unheard: count(self.unheard, other.unheard),
            answer_ms: count(self.answer_ms, other.answer_ms),
            clearing_percent: count(self.clearing_percent, other.clearing_percent),
            descriptors: count(self.descriptors, other.descriptors),
            handles: count(self.handles, other.handles),
            sync_objects: count(self.sync_objects, other.sync_objects),
            memory_bytes: self.memory.map_or(other.memory_bytes, |memory| memory.0),
            locked_video_bytes: self.locked_video.map_or(other.locked_video_bytes, |locked| locked.0),
            queued: count(self.queued, other.queued),
            budget_bytes: self.budget.map_or(other.budget_bytes, |budget| budget.0),
            message_bytes: self.messages.map_or(other.message_bytes, |messages| messages.0),
            raise_priority: self.raise_priority.unwrap_or(other.raise_priority),
        }
    }
}

impl UserPart {
    fn limits(&self, other: UserLimits) -> UserLimits {
        let count = |count: Option<Count>, other| count.map_or(other, |count| count.0);
        UserLimits {
            processes: count(self.processes, other.processes),
            lanes: count(self.lanes, other.lanes),
            unheard: count(self.unheard, other.unheard),
            descriptors: count(self.descriptors, other.descriptors),
            handles: count(self.handles, other.handles),
            sync_objects: count(self.sync_objects, other.sync_objects),
            memory_bytes: self.memory.map_or(other.memory_bytes, |memory| memory.0),
            locked_video_bytes: self.locked_video.map_or(other.locked_video_bytes, |locked| locked.0),
            queued: count(self.queued, other.queued),
            message_bytes: self.messages.map_or(other.message_bytes, |messages| messages.0),
        }
    }
}

impl OneUserPart {
    fn user(&self) -> UserPart {
        let OneUserPart {
            processes,
            handles,
            sync_objects,
            memory,
            locked_video,
            queued,
            descriptors,
            lanes,
            unheard,
            messages,
            ..
        } = *self;
        UserPart {
            processes,
            handles,
            sync_objects,
            memory,
            locked_video,
            queued,
            descriptors,
            lanes,
            unheard,
            messages,
        }
    }

    fn over(self, other: OneUserPart) -> OneUserPart {
        let UserPart {
            processes,
            handles,
            sync_objects,
            memory,
            locked_video,
            queued,
            descriptors,
            lanes,
            unheard,
            messages,
        } = self.user().over(other.user());
        let process = self.process.over(other.process);
        OneUserPart {
            processes,
            handles,
            sync_objects,
            memory,
            locked_video,
            queued,
            descriptors,
            lanes,
            unheard,
            messages,
            process,
        }
    }
}

#[cfg(test)]
mod tests;
