//! `openwddm faults`: the forms of failures on demand, the calls and statuses that they name, and the meaning of a text. The plan itself is
//! `dxgk_host`'s; it is given to kernels by `OPENWDDM_FAULTS`, `serve --faults` and `HostConfig::faults`. Called by `entry` and `serve`.

use std::env;
use std::fmt::Write;

use clap::Args;
use dxgk_host::{FAULT_CALLS, FaultPlan, fault_statuses};

use crate::error::RunError;

/// The environment variable that a daemon and a C program read.
const VARIABLE: &str = "OPENWDDM_FAULTS";

/// Arguments of `faults`.
#[derive(Debug, Args)]
#[group(required = true)]
pub struct FaultsArguments {
    /// List the forms, the calls that may be made to fail, and the statuses
    #[arg(long)]
    pub list: bool,
    /// A text as OPENWDDM_FAULTS has it: print the meaning of each clause
    #[arg(value_name = "CLAUSE;…", conflicts_with = "list")]
    pub plan: Option<FaultPlan>,
}

/// The forms, each with its meaning.
const FORMS: [(&str, &str); 10] = [
    ("CALL#N=STATUS", "the Nth call of this name fails, counted over all processes"),
    ("CALL every N=STATUS", "the last of each N calls of this name fails"),
    ("CALL N/M=STATUS", "N of M calls of this name fail, drawn by the seed"),
    ("engine N=hang[@WHEN]", "an engine (0 computes, 1 copies) stops before its next command, until it is reset"),
    ("paging=hang[@WHEN]", "the same for the engine that pages"),
    ("device=remove[@WHEN]", "the device is pulled out"),
    ("interrupt=drop N/M", "N of M fence interrupts are lost, drawn by the seed"),
    (
        "tdr=TIME",
        "the kernel looks for hangs after so long without progress, 1us to 900s [the host's time; with a fault of the device 2s, also \
         where the host has switched the watch off]",
    ),
    ("seed=N", "the seed of N/M [0]"),
    ("WHEN", "TIME (250ms, 2s), or call N of all calls; without it call 1"),
];

impl FaultsArguments {
    /// The output.
    pub fn text(&self) -> String {
        match &self.plan {
            Some(plan) => plan.described().into_iter().fold(String::new(), |mut text, (clause, meaning)| {
                // PANIC: writing into a string does not fail.
                writeln!(text, "{clause}: {meaning}").expect("a string takes it");
                text
            }),
            None => list(),
        }
    }
}

fn list() -> String {
    let mut text = "Clauses, with semicolons between:\n".to_owned();
    for (form, meaning) in FORMS {
        text += &format!("  {form:24}{meaning}\n");
    }
    text += "\nCalls that may be made to fail:\n";
    FAULT_CALLS.iter().for_each(|name| text += &format!("  {name}\n"));
    text += "\nFunctions of other names, each with the call that it makes:\n";
    FaultPlan::aliases().iter().for_each(|(alias, call)| text += &format!("  {alias:32}{call}\n"));
    text += "\nStatuses:\n";
    fault_statuses().iter().for_each(|name| text += &format!("  {name}\n"));
    text
}

/// The plan of a kernel: that of the command line, or else that of the environment.
///
/// # Errors
/// [`RunError::Argument`] for a text of the environment that is none.
pub fn chosen(given: Option<&FaultPlan>) -> Result<Option<FaultPlan>, RunError> {
    if let Some(plan) = given {
        return Ok(Some(plan.clone()));
    }
    let wrong = |problem: String| RunError::Argument {
        argument: VARIABLE.to_owned(),
        problem,
        remedy: "`openwddm faults --list` has the forms; unset the variable for no faults".to_owned(),
    };
    match env::var(VARIABLE) {
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(wrong("it is no text".to_owned())),
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => text.parse().map(Some).map_err(|error: dxgk_host::PlanError| wrong(error.to_string())),
    }
}
