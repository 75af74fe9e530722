//! The kernel of a replay: a fresh one with the adapters of the recording or of the arguments, or one that a daemon serves.

use std::sync::Arc;

use dxgk_host::{AdapterSetup, FaultPlan, Host, HostConfig, Mode, PROFILES, ProcessLink, parse_bytes};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use terminal_text::printable::path as shown;

use super::ReplayCallsArguments;
use super::recording::Recording;
use crate::adapters::asked;
use crate::error::RunError;

/// A way to a kernel, and what it is.
pub struct ReplayKernel {
    pub link: Arc<dyn Link>,
    pub name: String,
}

/// Comes to the kernel.
///
/// # Errors
/// [`RunError::Argument`] for adapters or sizes that are none, and for a socket at which no daemon listens; [`RunError::Kernel`] when the
/// adapters do not start.
pub fn open(arguments: &ReplayCallsArguments, recording: &Recording) -> Result<ReplayKernel, RunError> {
    if let Some(socket) = &arguments.connect {
        let link = SocketLink::connect(socket).map_err(|error| RunError::Argument {
            argument: format!("--connect {}", shown(socket)),
            problem: error.to_string(),
            remedy: "start `openwddm serve --socket` there".to_owned(),
        })?;
        return Ok(ReplayKernel { link, name: format!("the kernel at {}", shown(socket)) });
    }
    let recorded = |name: &str| recording.environment.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let bytes = |name: &str| {
        let parsed = recorded(name).map(parse_bytes).transpose();
        parsed.map_err(|error| wrong(name, error.to_string()))
    };
    let (vram, system) =
        (arguments.vram.map_or_else(|| bytes("OPENWDDM_VRAM"), |vram| Ok(Some(vram)))?, bytes("OPENWDDM_SYSTEM")?);
    let (from, names): (&str, Vec<&str>) = match (&arguments.adapters[..], recorded("OPENWDDM_ADAPTER")) {
        ([], Some(names)) => ("OPENWDDM_ADAPTER of the recording", names.split(',').collect()),
        ([], None) => ("", vec![PROFILES[0].name]),
        (names, _) => ("--adapter", names.iter().map(String::as_str).collect()),
    };
    let profiles = names.iter().map(|name| asked(from, name)).collect::<Result<Vec<_>, _>>()?;
    let mut setups: Vec<AdapterSetup> =
        profiles.iter().map(|profile| AdapterSetup::sized(profile, Mode::Real, vram, system)).collect();
    let faults: Option<FaultPlan> = match recorded("OPENWDDM_FAULTS").map(str::parse).transpose() {
        Ok(faults) => faults,
        Err(error) => return Err(wrong("OPENWDDM_FAULTS", error.to_string())),
    };
    let first = setups.remove(0);
    // As the C library starts it: locks have addresses.
    let config = HostConfig { memory_files: true, others: setups, faults, ..HostConfig::of(first, Mode::Real) };
    let host = Host::start(config).map_err(|error| RunError::Kernel {
        problem: format!("the adapters did not start: {error}"),
        remedy: "name others with --adapter; `openwddm adapters` lists them".to_owned(),
    })?;
    let name = profiles.iter().map(|profile| profile.name).collect::<Vec<_>>().join(" + ");
    Ok(ReplayKernel { link: ProcessLink::new(host), name })
}

fn wrong(variable: &str, problem: String) -> RunError {
    RunError::Argument {
        argument: format!("{variable} of the recording"),
        problem,
        remedy: "correct it in the first line of the recording, or take it out there".to_owned(),
    }
}
