//! The limits of a daemon against the descriptors that the operating system gives it. `serve` asks at the start, at each reload, and for a
//! check of the configuration.

use dxgkd::Limits;

use super::config::Config;
use crate::error::RunError;

/// Limits with which the daemon can serve.
pub struct Met {
    /// The limits.
    pub limits: Limits,
    /// The limits that the configuration says.
    said: Limits,
    /// Descriptors that the operating system gives.
    pub given: u64,
}

impl Met {
    /// Most descriptors that all processes together may need.
    pub fn needed(&self) -> u64 {
        self.limits.descriptors_at_most()
    }

    /// The limits that were lowered, in words.
    fn lowered(&self) -> Option<String> {
        let Met { limits, said, given } = self;
        (limits != said).then(|| format!(
            "too few descriptors for the default limits, {given} where {} are needed: each process may have {} of {} sections and NT handles as descriptors",
            said.descriptors_at_most(), limits.process.descriptors, said.process.descriptors
        ))
    }

    /// That not all processes can have all that these limits allow, in words.
    pub fn shortage(&self) -> Option<String> {
        let (needed, given) = (self.needed(), self.given);
        (needed > given).then(|| format!(
            "{} processes with all that they may have need {needed} descriptors, and the operating system gives {given}: a call that needs one when none is left is refused; lower --processes to {}, or raise the hard limit of open files to {needed} (LimitNOFILE=, ulimit -Hn)",
            self.limits.processes, self.limits.processes_within(given)
        ))
    }

    /// All that is less than the configuration says.
    pub fn notes(&self) -> Vec<String> {
        self.lowered().into_iter().chain(self.shortage()).collect()
    }

    /// The limits; the log has what is less than the configuration says.
    pub fn told(self) -> Limits {
        self.notes().iter().for_each(|note| tracing::warn!("{note}"));
        self.limits
    }
}

/// Lowers the default limits to what the operating system gives.
///
/// # Errors
/// [`RunError::Argument`] for configured limits that need more descriptors, or where there are too few for one client.
pub fn met(config: &Config, given: u64) -> Result<Met, RunError> {
    let said = config.limits();
    let needed = said.descriptors_at_most();
    if needed <= given {
        return Ok(Met { limits: said.clone(), said, given });
    }
    let limits = said.within(given).ok_or_else(|| RunError::Argument {
        argument: "limits of processes and descriptors".to_owned(),
        problem: format!(
            "{} processes with {} descriptors each for what they share may need {needed} descriptors, and the operating system gives {given}",
            said.processes, said.process.descriptors
        ),
        remedy: "lower one of them, or raise the hard limit of open files (LimitNOFILE=, ulimit -Hn)".to_owned(),
    })?;
    Ok(Met { limits, said, given })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict of a check, for a configuration and the descriptors that there are.
    fn met_of(text: &str, given: u64) -> Met {
        met(&toml::from_str(text).expect("a configuration"), given).expect("they suffice for one")
    }

    #[test]
    fn a_shortage_says_how_many_processes_can_have_all() {
        let plenty = met_of("", 1 << 20);
        assert!(plenty.needed() <= plenty.given && plenty.notes().is_empty());
        // The default limits of 64 processes, lowered as far as they may be, still need more.
        let short = met_of("", 20_000);
        assert!(short.needed() > 20_000);
        let [lowered, shortage] = &short.notes()[..] else { panic!("{:?}", short.notes()) };
        assert!(lowered.contains("64 of 1024 sections"), "{lowered}");
        assert!(shortage.contains(&format!("need {} descriptors", short.needed())), "{shortage}");
        // The remedies are ones.
        let fewer = shortage.split("--processes to ").nth(1).and_then(|rest| rest.split(',').next()).expect("a number");
        assert!(met_of(&format!("processes = {fewer}"), 20_000).shortage().is_none(), "{shortage}");
        assert!(met_of("", short.needed()).shortage().is_none());
    }
}
