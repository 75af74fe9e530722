//! `--tdr-…`: whether a run watches for work that hangs, and the consequences (sync §4.4).

use std::str::FromStr;

use clap::{Args, ValueEnum};
use dxgk_host::{OnTimeout, RecoveryPolicy};
use serde::Deserialize;

use crate::error::RunError;

/// The arguments of `run`, and the part `[tdr]` of a daemon's configuration.
#[derive(Clone, Copy, Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HangArguments {
    /// Watch for work that hangs: the time without progress after which the kernel preempts it, and the time it then has to leave the
    /// engine [default: no watch; with another --tdr-…: 2]
    #[arg(long = "tdr-delay", value_name = "SECONDS", allow_hyphen_values = true)]
    pub delay: Option<Delay>,
    /// The consequence of a hang: the kernel resets the engine, else the adapter; or stops the adapter [default: recover]
    #[arg(long = "tdr-level", value_enum)]
    pub level: Option<Level>,
    /// Most time of a call of the driver; the adapter stops when one takes longer during a reset [default: 5]
    #[arg(long = "tdr-ddi-delay", value_name = "SECONDS", allow_hyphen_values = true)]
    pub ddi_delay: Option<Delay>,
    /// Most resets of the adapter in so many seconds before it stops [default: 5/60]
    #[arg(long = "tdr-limit", value_name = "COUNT[/SECONDS]", allow_hyphen_values = true)]
    pub limit: Option<Limit>,
}

/// `TdrLevel` by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// 0: the kernel does not watch for hangs.
    Off,
    /// 1: the adapter stops.
    Bugcheck,
    /// 3: recovery.
    Recover,
}

/// `TdrDelay`: some time, not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Delay {
    /// In nanoseconds.
    pub ns: u64,
}

/// `TdrLimitCount` and `TdrLimitTime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Limit {
    /// How many.
    pub count: u32,
    /// In how many nanoseconds, unless in 60 seconds.
    pub time_ns: Option<u64>,
}

const DELAY_REMEDY: &str = "give seconds from 0.000001 to 900: 2, 0.5";
const LIMIT_REMEDY: &str = "give a count, or a count and seconds from 1 to 86400: 5, 5/60";

impl FromStr for Delay {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Delay, Self::Err> {
        text.parse::<f64>().map_err(|_| DELAY_REMEDY)?.try_into()
    }
}

impl TryFrom<f64> for Delay {
    type Error = &'static str;

    fn try_from(seconds: f64) -> Result<Delay, Self::Error> {
        // CAST: at most 9 * 10^11.
        let in_range = (0.000_001..=900.0).contains(&seconds);
        in_range.then_some(Delay { ns: (seconds * 1e9) as u64 }).ok_or(DELAY_REMEDY)
    }
}

impl TryFrom<String> for Limit {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Limit, Self::Error> {
        text.parse()
    }
}

impl FromStr for Limit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Limit, Self::Err> {
        let (count, time) = match text.split_once('/') {
            Some((count, time)) => (count, Some(time)),
            None => (text, None),
        };
        let seconds = |time: &str| time.parse().ok().filter(|seconds| (1..=86_400u64).contains(seconds));
        let time_ns = match time {
            Some(time) => Some(seconds(time).ok_or(LIMIT_REMEDY)? * 1_000_000_000),
            None => None,
        };
        Ok(Limit { count: count.parse().map_err(|_| LIMIT_REMEDY)?, time_ns })
    }
}

impl HangArguments {
    /// Whether the watch is off and another argument sets it up.
    pub fn contradicts_itself(self) -> bool {
        let sets_up = self.delay.is_some() || self.limit.is_some() || self.ddi_delay.is_some();
        self.level == Some(Level::Off) && sets_up
    }

    /// The adapter's policy on hangs: without any of these the kernel does not watch, and with one the others are as documented.
    ///
    /// # Errors
    /// [`RunError::Argument`] when the watch is off and another argument sets it up.
    pub fn policy(self) -> Result<RecoveryPolicy, RunError> {
        let documented = RecoveryPolicy::default();
        let nothing = (self.delay, self.level, self.limit, self.ddi_delay) == (None, None, None, None);
        let off = nothing || self.level == Some(Level::Off);
        if self.contradicts_itself() {
            return Err(RunError::Argument {
                argument: "--tdr-level off".to_owned(),
                problem:
                    "the kernel does not watch for hangs at this level, so the other --tdr-… arguments have no effect"
                        .to_owned(),
                remedy: "leave out the other --tdr-… arguments, or give --tdr-level recover".to_owned(),
            });
        }
        let delay_ns = self.delay.map(|delay| delay.ns).or(documented.delay_ns).filter(|_| !off);
        Ok(RecoveryPolicy {
            delay_ns,
            ddi_delay_ns: self.ddi_delay.map_or(documented.ddi_delay_ns, |delay| delay.ns),
            on_timeout: if self.level == Some(Level::Bugcheck) { OnTimeout::Stop } else { OnTimeout::Recover },
            limit_count: self.limit.map_or(documented.limit_count, |limit| limit.count),
            limit_time_ns: self.limit.and_then(|limit| limit.time_ns).unwrap_or(documented.limit_time_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(delay: Option<&str>, level: Option<Level>, limit: Option<&str>) -> Result<RecoveryPolicy, RunError> {
        let (delay, limit) = (delay.map(|text| text.parse().unwrap()), limit.map(|text| text.parse().unwrap()));
        HangArguments { delay, level, limit, ddi_delay: None }.policy()
    }

    #[test]
    fn timeout_detection_is_off_unless_an_option_asks_for_it() {
        // spec: sync §4.4
        let documented = RecoveryPolicy::default();
        let off = RecoveryPolicy { delay_ns: None, ..documented };
        assert_eq!(policy(None, None, None).unwrap(), off);
        assert_eq!(policy(None, Some(Level::Off), None).unwrap(), off);
        assert_eq!(policy(None, Some(Level::Recover), None).unwrap(), documented);
        let half = RecoveryPolicy { delay_ns: Some(500_000_000), ..documented };
        assert_eq!(policy(Some("0.5"), None, None).unwrap(), half);
        let stops = RecoveryPolicy { on_timeout: OnTimeout::Stop, ..documented };
        assert_eq!(policy(None, Some(Level::Bugcheck), None).unwrap(), stops);
        let limited = RecoveryPolicy { limit_count: 2, limit_time_ns: 9_000_000_000, ..documented };
        assert_eq!(policy(None, None, Some("2/9")).unwrap(), limited);
        assert_eq!(policy(None, None, Some("2")).unwrap(), RecoveryPolicy { limit_count: 2, ..documented });
        let ddi_delay = Some("7".parse().unwrap());
        let patient = RecoveryPolicy { ddi_delay_ns: 7_000_000_000, ..documented };
        assert_eq!(HangArguments { ddi_delay, ..HangArguments::default() }.policy().unwrap(), patient);
        let off = HangArguments { ddi_delay, level: Some(Level::Off), ..HangArguments::default() };
        assert_eq!(off.policy().unwrap_err().exit_code(), 2);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["0", "-1", "1e9", "NaN", "inf", "two"] {
            assert_eq!(text.parse::<Delay>(), Err(DELAY_REMEDY), "{text}");
        }
        for text in ["-1", "5/0", "5/", "/60", "5/60/1", "many", "5/0.5"] {
            assert_eq!(text.parse::<Limit>(), Err(LIMIT_REMEDY), "{text}");
        }
        for (delay, limit) in [(Some("2"), None), (None, Some("5"))] {
            assert_eq!(policy(delay, Some(Level::Off), limit).unwrap_err().exit_code(), 2);
        }
    }
}
