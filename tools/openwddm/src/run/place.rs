//! Several adapters: which, how much memory each has, and which operations run on which. The words of the command line for that;
//! nothing is started here.

use std::str::FromStr;

use replay::{Placement, Workload};

use crate::error::RunError;
use crate::size::MemorySize;

/// An adapter of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterChoice {
    /// The profile's name.
    pub profile: String,
    /// Its video memory; `None`: as much as `--vram` says.
    pub vram: Option<MemorySize>,
}

impl FromStr for AdapterChoice {
    type Err = String;

    /// `PROFILE[,vram=SIZE]`.
    fn from_str(text: &str) -> Result<AdapterChoice, String> {
        let Some((profile, term)) = text.split_once(',') else {
            return Ok(AdapterChoice { profile: text.to_owned(), vram: None });
        };
        let Some(size) = term.strip_prefix("vram=") else {
            return Err(format!("\"{term}\" is no term of an adapter; give PROFILE or PROFILE,vram=SIZE"));
        };
        let vram = size.parse().map_err(|error| format!("vram \"{size}\": {error}"))?;
        Ok(AdapterChoice { profile: profile.to_owned(), vram: Some(vram) })
    }
}

/// Every placement, by name.
const PLACEMENTS: [(&str, Placement); 4] = [
    ("recorded", Placement::Recorded),
    ("first", Placement::First),
    ("split", Placement::Split),
    ("in-turn", Placement::InTurn),
];

/// The placement of a name.
///
/// # Errors
/// The names that there are.
pub fn parse_placement(text: &str) -> Result<Placement, String> {
    let found = PLACEMENTS.iter().find(|(name, _)| *name == text).map(|(_, placement)| *placement);
    found.ok_or_else(|| "give recorded, first, split or in-turn".to_owned())
}

/// Gives each operation of a workload its adapter. Without a chosen placement: the one that it names; if none names any, the step
/// is split.
///
/// # Errors
/// [`RunError::Argument`]: an operation names an adapter that was not given.
pub fn place(workload: Workload, chosen: Option<Placement>, adapters: usize) -> Result<Workload, RunError> {
    let named = workload.adapters_named();
    let placement = chosen.unwrap_or(if named > 0 { Placement::Recorded } else { Placement::Split });
    let name = workload.name().to_owned();
    // CAST: adapters are counted in ones.
    workload.placed(placement, adapters as u32).map_err(|missing| RunError::Argument {
        argument: "--adapter".to_owned(),
        problem: format!(
            "an operation of {name} runs on adapter {missing}, counted from 0; {adapters} {} given",
            if adapters == 1 { "is" } else { "are" }
        ),
        remedy: format!("give {named} adapters, or run all on one with --place first"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_is_a_profile_and_maybe_its_memory() {
        let plain: AdapterChoice = "integrated".parse().unwrap();
        assert_eq!(plain, AdapterChoice { profile: "integrated".to_owned(), vram: None });
        let sized: AdapterChoice = "integrated,vram=1GiB".parse().unwrap();
        assert_eq!(sized.vram, Some(MemorySize::Bytes(1 << 30)));
        assert!("integrated,ram=1GiB".parse::<AdapterChoice>().unwrap_err().contains("PROFILE,vram=SIZE"));
        assert!("integrated,vram=much".parse::<AdapterChoice>().unwrap_err().contains("6GiB"));
        assert!(parse_placement("halves").unwrap_err().contains("in-turn"));
    }
}
