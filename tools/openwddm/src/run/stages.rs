//! Stages, the paths by which work reaches the engines (sync §4.1): the adapter of a run at a stage, and the numbers by which runs at
//! several are compared.

use dxgk_host::Profile;
use replay::Stage;

use crate::error::RunError;
use crate::outcome::StageSummary;
use crate::run::play::Played;

/// Every stage, by name.
pub const STAGES: [(&str, Stage); 3] =
    [("packet", Stage::Packet), ("hardware", Stage::Hardware), ("user", Stage::User)];

/// Submissions whose way there and back is timed, each behind the one before.
pub const ROUND_TRIPS: usize = 15;

/// Its name on the command line and in what is written.
pub fn name(stage: Stage) -> &'static str {
    STAGES.iter().find(|(_, known)| *known == stage).map_or("?", |(name, _)| name)
}

/// The stage of a name.
///
/// # Errors
/// The names that there are.
pub fn parse(text: &str) -> Result<Stage, String> {
    let found = STAGES.iter().find(|(name, _)| *name == text).map(|(_, stage)| *stage);
    found.ok_or_else(|| "a stage is packet, hardware or user; several are separated by commas".to_owned())
}

/// The default stage of an adapter: the latest that it has.
pub fn latest(profile: &Profile) -> Stage {
    if profile.has_hardware_queues() { Stage::User } else { Stage::Packet }
}

/// The adapter of a profile as it is for a stage: one with hardware queues takes packets when its driver offers none.
///
/// # Errors
/// [`RunError::Argument`]: it has no hardware queues and the stage needs them.
pub fn adapter(profile: &Profile, stage: Stage) -> Result<Profile, RunError> {
    match stage {
        Stage::Packet => Ok(profile.with_packets()),
        Stage::Hardware | Stage::User if !profile.has_hardware_queues() => Err(RunError::Argument {
            argument: format!("--stage {}", name(stage)),
            problem: format!("the engines of {} take packets, they have no hardware queues", profile.name),
            remedy: "give --stage packet, or another --adapter".to_owned(),
        }),
        Stage::Hardware | Stage::User => Ok(*profile),
    }
}

/// The numbers by which a run is compared.
pub fn summary(
    stage: Stage,
    elapsed_ns: u64,
    interrupts: u64,
    played: &[Played],
    call_ns: Option<u64>,
    round_trip_ns: u64,
) -> StageSummary {
    let calls = played.iter().map(|played| played.calls).sum();
    let cpu_ns = match call_ns {
        Some(call_ns) => call_ns * calls,
        None => played.iter().map(|played| played.cpu_ns).sum(),
    };
    let submissions = played.iter().map(|played| played.driven.ops).sum();
    StageSummary { stage: name(stage), submissions, calls, cpu_ns, interrupts, round_trip_ns, elapsed_ns }
}
