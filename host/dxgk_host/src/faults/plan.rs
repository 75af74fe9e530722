//! The text of faults: clauses between semicolons, as docs/faults.md has them. A wrong one is refused whole, with its place. Called by
//! hosts that are configured, by the environment or the command line.

use std::str::FromStr;

use wddm_types::NtStatus;

use super::calls;

/// Faults that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    clauses: Vec<(String, Clause)>,
}

/// A clause that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("clause {number}, {text:?}: {problem}")]
pub struct PlanError {
    /// The clause, from 1 on.
    pub number: usize,
    /// Its text.
    pub text: String,
    /// The fault, and what to do.
    pub problem: String,
}

/// One clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clause {
    /// Calls fail.
    Refused(RefusedCall),
    /// Something happens to the device.
    Device(Event, When),
    /// So many fence records of so many are lost.
    Drop {
        /// How many.
        lost: u64,
        /// Of how many.
        of: u64,
    },
    /// The seed of shares.
    Seed(u64),
    /// The time without progress after which the kernel looks for a hang.
    Watch {
        /// In nanoseconds.
        delay_ns: u64,
    },
}

/// Calls of one name that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RefusedCall {
    /// Their name.
    pub name: &'static str,
    /// Which of them.
    pub often: Often,
    /// The status that they get.
    pub status: NtStatus,
}

/// Which calls of a name fail, counted over all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Often {
    /// A single call.
    Nth {
        /// Its number, from 1 on.
        number: u64,
    },
    /// The last of each so many.
    Every {
        /// How many.
        period: u64,
    },
    /// So many of so many, as the seed has it.
    Share {
        /// How many.
        fail: u64,
        /// Of how many.
        of: u64,
    },
}

/// What happens to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An engine stops before its next command and does not let go of its queues.
    Hang {
        /// Its number.
        engine: u32,
    },
    /// The device is pulled out.
    Remove,
}

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// With the first call or interrupt from this time on.
    Time {
        /// The kernel's clock.
        ns: u64,
    },
    /// With this call of all.
    Call {
        /// Its number, from 1 on.
        number: u64,
    },
}

/// Engines of the software GPU.
const ENGINES: u64 = 2;
/// Shortest `TdrDelay`, as `--tdr-delay` takes it.
const DELAY_NS_MIN: u64 = 1_000;
/// Longest `TdrDelay`, likewise.
const DELAY_NS_MAX: u64 = 900_000_000_000;

impl FaultPlan {
    pub(super) fn clauses(&self) -> impl Iterator<Item = &Clause> {
        self.clauses.iter().map(|(_, clause)| clause)
    }

    /// Names that a text may have for a call of the list, each with this call.
    pub fn aliases() -> &'static [(&'static str, &'static str)] {
        calls::ALIASES
    }

    /// Each clause as it was written, with its meaning.
    pub fn described(&self) -> Vec<(String, String)> {
        self.clauses.iter().map(|(text, clause)| (text.clone(), clause.meaning())).collect()
    }
}

impl Clause {
    fn meaning(&self) -> String {
        match self {
            Clause::Refused(RefusedCall { name, often, status }) => {
                let which = match often {
                    Often::Nth { number } => format!("call number {number} of {name} fails"),
                    Often::Every { period } => format!("of {name} the last of each {period} calls fails"),
                    Often::Share { fail, of } => format!("of {name} {fail} of {of} calls fail, as the seed has it"),
                };
                format!("{which} with {status}, before it reaches the kernel")
            }
            Clause::Device(event, when) => {
                let what = match event {
                    Event::Hang { engine } => format!("engine {engine} hangs until it is reset"),
                    Event::Remove => "the device is pulled out".to_owned(),
                };
                match when {
                    When::Time { ns } => format!("{what} with the first call or interrupt from {ns} ns on"),
                    When::Call { number } => format!("{what} with call {number}"),
                }
            }
            Clause::Drop { lost, of } => format!("{lost} of {of} fence interrupts are lost, as the seed has it"),
            Clause::Seed(seed) => format!("the seed is {seed}"),
            Clause::Watch { delay_ns } => format!("the kernel looks for hangs after {delay_ns} ns without progress"),
        }
    }
}

impl FromStr for FaultPlan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<FaultPlan, PlanError> {
        let mut clauses = Vec::new();
        for (number, clause) in (1..).zip(text.split(';')) {
            let clause = clause.trim();
            // A semicolon at the end is no clause.
            if clause.is_empty() && text[..].trim_end().ends_with(';') && number == text.split(';').count() {
                break;
            }
            let read = read(clause);
            let read = read.map_err(|problem| PlanError { number, text: clause.to_owned(), problem })?;
            let is_second = |one: &(String, Clause)| {
                let pair = (&one.1, &read);
                matches!(
                    pair,
                    (Clause::Drop { .. }, Clause::Drop { .. })
                        | (Clause::Seed(_), Clause::Seed(_))
                        | (Clause::Watch { .. }, Clause::Watch { .. })
                )
            };
            if clauses.iter().any(is_second) {
                let problem = "this is said once already; leave one of the two out".to_owned();
                return Err(PlanError { number, text: clause.to_owned(), problem });
            }
            clauses.push((clause.to_owned(), read));
        }
        Ok(FaultPlan { clauses })
    }
}

fn read(clause: &str) -> Result<Clause, String> {
    let form = "give CALL#N=STATUS, CALL every N=STATUS, CALL N/M=STATUS, engine N=hang, paging=hang, device=remove, \
                interrupt=drop N/M, tdr=TIME or seed=N";
    let (what, value) = clause.split_once('=').ok_or_else(|| form.to_owned())?;
    let (what, value) = (what.trim(), value.trim());
    let words: Vec<&str> = what.split_whitespace().collect();
    match words.as_slice() {
        ["seed"] => {
            value.parse().map(Clause::Seed).map_err(|_| format!("{value:?} is no seed: give a number from 0 on"))
        }
        ["tdr"] => Ok(Clause::Watch { delay_ns: delay(value)? }),
        ["interrupt"] => {
            let share = value.strip_prefix("drop").ok_or("an interrupt can be lost: give drop N/M, as drop 1/50")?;
            let (lost, of) = share_of(share.trim())?;
            Ok(Clause::Drop { lost, of })
        }
        ["device"] => Ok(Clause::Device(Event::Remove, event(value, "remove")?)),
        ["paging"] => Ok(Clause::Device(Event::Hang { engine: softgpu_spec::engine::COPY }, event(value, "hang")?)),
        ["engine", number] => {
            let engine = number.parse().ok().filter(|engine| u64::from(*engine) < ENGINES);
            let engine = engine.ok_or_else(|| format!("there is no engine {number}: give 0 (compute) or 1 (copy)"))?;
            Ok(Clause::Device(Event::Hang { engine }, event(value, "hang")?))
        }
        [call, rest @ ..] => refused(call, rest, value).map(Clause::Refused),
        [] => Err(form.to_owned()),
    }
}

fn refused(call: &str, rest: &[&str], status: &str) -> Result<RefusedCall, String> {
    let (name, number) = match call.split_once('#') {
        Some((name, number)) => (name, Some(number)),
        None => (call, None),
    };
    let known = calls::named(name);
    let known =
        known.ok_or_else(|| format!("no call that may fail is called {name}; `openwddm faults --list` lists them"))?;
    let often = match (number, rest) {
        (Some(number), []) => Often::Nth { number: count(number)? },
        (None, ["every", period]) => Often::Every { period: count(period)? },
        (None, [share]) => {
            let (fail, of) = share_of(share)?;
            Often::Share { fail, of }
        }
        _ => return Err(format!("which calls of {name} fail? give {name}#N, {name} every N or {name} N/M")),
    };
    Ok(RefusedCall { name: known, often, status: status_of(status)? })
}

fn status_of(text: &str) -> Result<NtStatus, String> {
    let name = text.strip_prefix("STATUS_").unwrap_or(text);
    let status = NtStatus::NAMED.iter().find(|status| status.name() == Some(name)).copied();
    let status = status.ok_or_else(|| format!("there is no status {text:?}; `openwddm faults --list` lists them"))?;
    match status {
        status if status.is_success() => Err(format!("{status} is no failure")),
        NtStatus::DEVICE_REMOVED | NtStatus::DEVICE_HUNG => Err(format!(
            "a call with {status} leaves a lost device behind: give device=remove or engine N=hang, and the kernel answers so itself"
        )),
        status => Ok(status),
    }
}

/// Every status that a call may be made to fail with, by its name.
pub fn statuses() -> Vec<&'static str> {
    NtStatus::NAMED.iter().filter_map(|status| status.name()).filter(|name| status_of(name).is_ok()).collect()
}

/// When an event of this name happens.
fn event(value: &str, name: &str) -> Result<When, String> {
    let (what, when) = match value.split_once('@') {
        Some((what, when)) => (what.trim(), Some(when.trim())),
        None => (value, None),
    };
    if what != name {
        return Err(format!("{what:?} is no fault of it: give {name}, {name}@TIME or {name}@call N"));
    }
    match when {
        None => Ok(When::Call { number: 1 }),
        Some(when) => match when.strip_prefix("call ") {
            Some(number) => Ok(When::Call { number: count(number.trim())? }),
            None => Ok(When::Time { ns: time(when)? }),
        },
    }
}

fn count(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text:?} is no count: give a number from 1 on"))
}

fn share_of(text: &str) -> Result<(u64, u64), String> {
    let (part, of) = text.split_once('/').ok_or_else(|| format!("{text:?} is no share: give N/M, as 1/50"))?;
    let (part, of) = (count(part.trim())?, count(of.trim())?);
    if part <= of { Ok((part, of)) } else { Err(format!("{part} of {of} is more than all")) }
}

/// A `TdrDelay` in nanoseconds.
fn delay(text: &str) -> Result<u64, String> {
    let ns = time(text)?;
    let fits = (DELAY_NS_MIN..=DELAY_NS_MAX).contains(&ns);
    fits.then_some(ns).ok_or_else(|| format!("{text:?} is no TdrDelay: give a time from 1us to 900s, as 250ms"))
}

/// A time in nanoseconds.
fn time(text: &str) -> Result<u64, String> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000u64)];
    let wrong = || format!("{text:?} is no time: give a whole number with ns, us, ms or s, as 250ms");
    let (unit, factor) = units.iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(wrong)?;
    let number: u64 = text[..text.len() - unit.len()].trim().parse().map_err(|_| wrong())?;
    number.checked_mul(*factor).filter(|ns| *ns > 0).ok_or_else(wrong)
}
