//! One of several workloads that share an adapter: which, how much it is protected, how much it may have. The words of the
//! command line for that; nothing is opened here.

use std::path::PathBuf;
use std::str::FromStr;

use crate::run::Workload;
use crate::size::MemorySize;

/// A workload with its terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The workload to replay.
    pub workload: Workload,
    /// On which terms.
    pub terms: Terms,
}

/// On which terms a process shares the adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Its priority class, by which the memory manager chooses victims.
    pub priority: Priority,
    /// Most bytes of video memory that it may have resident; `None`: the kernel's default.
    pub budget: Option<MemorySize>,
}

/// `D3DKMT_SCHEDULINGPRIORITYCLASS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// `D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE`, 0.
    Idle,
    /// `D3DKMT_SCHEDULINGPRIORITYCLASS_BELOW_NORMAL`, 1.
    BelowNormal,
    /// `D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL`, 2.
    #[default]
    Normal,
    /// `D3DKMT_SCHEDULINGPRIORITYCLASS_ABOVE_NORMAL`, 3.
    AboveNormal,
    /// `D3DKMT_SCHEDULINGPRIORITYCLASS_HIGH`, 4.
    High,
    /// `D3DKMT_SCHEDULINGPRIORITYCLASS_REALTIME`, 5.
    Realtime,
}

impl Priority {
    const ALL: [(Priority, &'static str); 6] = [
        (Priority::Idle, "idle"),
        (Priority::BelowNormal, "below-normal"),
        (Priority::Normal, "normal"),
        (Priority::AboveNormal, "above-normal"),
        (Priority::High, "high"),
        (Priority::Realtime, "realtime"),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        Priority::ALL[self as usize].1
    }

    /// Its number in the C interface.
    pub fn class(self) -> u32 {
        self as u32
    }
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Priority, String> {
        let known = Priority::ALL.iter().find(|(_, name)| *name == text).map(|(priority, _)| *priority);
        let names: Vec<&str> = Priority::ALL.iter().map(|(_, name)| *name).collect();
        known.ok_or_else(|| format!("\"{text}\" is no priority; give one of {}", names.join(", ")))
    }
}

impl FromStr for Share {
    type Err = String;

    /// `FILE[,priority=CLASS][,budget=SIZE]`. Text that does not look like a term belongs to the name of the file.
    fn from_str(text: &str) -> Result<Share, String> {
        let (mut file, mut terms) = (text, Terms::default());
        while let Some((rest, term)) = file.rsplit_once(',') {
            if let Some(value) = term.strip_prefix("priority=") {
                terms.priority = value.parse()?;
            } else if let Some(value) = term.strip_prefix("budget=") {
                terms.budget = Some(value.parse().map_err(|error| format!("budget \"{value}\": {error}"))?);
            } else {
                break;
            }
            file = rest;
        }
        if file.is_empty() {
            return Err("a workload needs a file: FILE[,priority=CLASS][,budget=SIZE]".to_owned());
        }
        Ok(Share { workload: Workload::File(PathBuf::from(file)), terms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_stand_behind_the_file() {
        let share: Share = "a,b.json,priority=high,budget=1GiB".parse().unwrap();
        assert_eq!(share.workload, Workload::File("a,b.json".into()));
        assert_eq!(share.terms, Terms { priority: Priority::High, budget: Some(MemorySize::Bytes(1 << 30)) });
        assert_eq!("x.json".parse::<Share>().unwrap().terms, Terms::default());
    }

    #[test]
    fn wrong_terms_are_refused_with_what_would_be_right() {
        assert!("x,priority=urgent".parse::<Share>().unwrap_err().contains("above-normal"));
        assert!("x,budget=much".parse::<Share>().unwrap_err().contains("6GiB"));
        assert!(",budget=1GiB".parse::<Share>().unwrap_err().contains("FILE"));
    }
}
