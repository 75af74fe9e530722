//! The adapters of a served kernel, as the configuration or the command line names them. Called by `serve`.

use dxgk_host::{ADAPTERS_MAX, AdapterSetup, HostConfig, Mode, PROFILES, RecoveryPolicy};
use dxgkd::UNLIMITED;
use shared_words::across::Processors;

use crate::adapters::asked;
use crate::error::RunError;
use crate::run::AdapterChoice;
use crate::serve::config::AdapterPart;
use crate::size::MemorySize;

/// An adapter of the arguments or the configuration. Sizes in bytes.
struct Wanted {
    profile: String,
    vram: Option<u64>,
    system: Option<u64>,
}

/// The adapters, in a kernel whose processes are elsewhere: those of the command line, or else of the configuration, or else one.
///
/// # Errors
/// [`RunError::Argument`] for an adapter that there is not, [`RunError::NotSupported`] for one that can't be served.
pub fn host(
    choices: &[AdapterChoice],
    parts: &[AdapterPart],
    system: Option<MemorySize>,
    recovery: RecoveryPolicy,
) -> Result<HostConfig, RunError> {
    let system = system.map(|size| whole(size, format!("--system {}", size.as_argument()))).transpose()?;
    let of_choice = |choice: &AdapterChoice| {
        let argument = |size: MemorySize| format!("--adapter {},vram={}", choice.profile, size.as_argument());
        let vram = choice.vram.map(|size| whole(size, argument(size))).transpose()?;
        Ok(Wanted { profile: choice.profile.clone(), vram, system })
    };
    let of_part = |part: &AdapterPart| {
        let (vram, own) = (part.vram.map(|amount| amount.0), part.system.map(|amount| amount.0));
        Ok(Wanted { profile: part.profile.0.clone(), vram, system: system.or(own) })
    };
    let mut wanted: Vec<Wanted> = match choices {
        [] => parts.iter().map(of_part).collect::<Result<_, RunError>>()?,
        choices => choices.iter().map(of_choice).collect::<Result<_, RunError>>()?,
    };
    if wanted.is_empty() {
        wanted.push(Wanted { profile: PROFILES[0].name.to_owned(), vram: None, system });
    }
    if wanted.len() > ADAPTERS_MAX {
        return Err(RunError::Argument {
            argument: "adapters".to_owned(),
            problem: format!("there are {} of them, and a kernel has at most {ADAPTERS_MAX}", wanted.len()),
            remedy: "leave some out, or serve them with another daemon".to_owned(),
        });
    }
    let setup = |wanted| Ok(AdapterSetup { recovery, ..setup(wanted)? });
    let mut setups = wanted.iter().map(setup).collect::<Result<Vec<_>, RunError>>()?.into_iter();
    let first = setups.next().expect("there is one at least");
    Ok(HostConfig {
        isolates_processes: true,
        processors: Processors::all(),
        others: setups.collect(),
        ..HostConfig::of(first, Mode::Real)
    })
}

fn setup(wanted: &Wanted) -> Result<AdapterSetup, RunError> {
    let profile = asked("--adapter", &wanted.profile)?;
    let unsupported = |reason: &str| RunError::NotSupported {
        what: format!("{} behind a socket", profile.name),
        reason: reason.to_owned(),
    };
    if !profile.io_coherent || profile.plays_caches {
        return Err(unsupported(
            "its CPU caches are simulated in the program of its processes, and these are elsewhere",
        ));
    }
    if profile.uses_cpu_addresses() {
        return Err(unsupported("its GPU uses CPU addresses of processes, and these are in other programs"));
    }
    if [wanted.vram, wanted.system].contains(&Some(UNLIMITED)) {
        return Err(RunError::Argument {
            argument: format!("memory of adapter {}", profile.name),
            problem: "the memory of an adapter cannot be unlimited".to_owned(),
            remedy: "give bytes, or a number with KiB … TiB or KB … TB".to_owned(),
        });
    }
    Ok(AdapterSetup::sized(profile, Mode::Real, wanted.vram, wanted.system))
}

/// A size that is no share of a workload.
fn whole(size: MemorySize, argument: String) -> Result<u64, RunError> {
    match size {
        MemorySize::Bytes(bytes) => Ok(bytes),
        MemorySize::OfPeak { .. } => Err(RunError::Argument {
            argument,
            problem: "it is a share of a workload's peak, and a daemon has no workload".to_owned(),
            remedy: "give bytes, or a number with KiB … TiB or KB … TB".to_owned(),
        }),
    }
}
