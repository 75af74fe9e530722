//! `openwddm serve`: the daemon on the command line. It starts the adapters, opens the socket, says that it is ready, and stops cleanly
//! when it is told to. Called by `entry`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Instant;

use clap::Args;
use dxgk_host::{AdapterSetup, Host, HostConfig, Mode, PROFILES, Profile, page_table_bytes};
use dxgkd::{Daemon, Limits};

use crate::adapters::unknown;
use crate::error::RunError;
use crate::metrics;
use crate::run::AdapterChoice;
use crate::size::MemorySize;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Where processes connect
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// Who may connect, as the mode of the socket: 600 is its owner, 660 its group too, 666 everybody
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    pub mode: u32,
    /// Adapter profile; `openwddm adapters` lists them. Several make as many adapters [default: discrete-4k]
    #[arg(long = "adapter", value_name = "PROFILE[,vram=SIZE]")]
    pub adapters: Vec<AdapterChoice>,
    /// System memory for the allocations of each adapter, which stays theirs while they are in video memory [default: twice its video
    /// memory]
    #[arg(long, value_name = "SIZE")]
    pub system: Option<MemorySize>,
    /// Most processes at a time
    #[arg(long, value_name = "N", default_value_t = Limits::default().clients)]
    pub processes: usize,
    /// Most calls of one process that wait at the same time
    #[arg(long, value_name = "N", default_value_t = Limits::default().lanes)]
    pub lanes: usize,
    /// Most messages that a process may leave unheard
    #[arg(long, value_name = "N", default_value_t = Limits::default().unheard)]
    pub unheard: usize,
    /// How long a process may take to let memory that it has locked be moved, in milliseconds; then it is ended
    #[arg(long, value_name = "MS", default_value_t = Limits::default().answer_ms)]
    pub answer_ms: u64,
    /// Give figures to whoever collects them, as Prometheus does, at http://ADDRESS:PORT/metrics; a port alone is of this machine
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = metrics::address)]
    pub metrics: Option<SocketAddr>,
}

/// Serves until it is told to stop.
///
/// # Errors
/// [`RunError::Argument`] for an adapter that there is not, [`RunError::NotSupported`] for one that can't be served,
/// [`RunError::Kernel`] when the socket or the adapters do not come up.
pub fn serve(arguments: &ServeArguments) -> Result<u8, RunError> {
    let began = Instant::now();
    let config = config(&arguments.adapters, arguments.system)?;
    let names: Vec<&str> =
        std::iter::once(config.profile.name).chain(config.others.iter().map(|other| other.profile.name)).collect();
    let names = names.join(", ");
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).finish();
    // There is one subscriber of a program, and this is the only place that sets it.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let host = Host::start(config).map_err(|error| RunError::Kernel {
        problem: format!("the adapters did not start: {error}"),
        remedy: "ask for less video memory".to_owned(),
    })?;
    let figures = arguments.metrics.map(|address| metrics::serve(&host, address)).transpose()?;
    let (stop, stopped) = mpsc::channel();
    let told = ctrlc::set_handler(move || {
        // Whoever stops already needs not to be told again.
        let _ = stop.send(());
    });
    told.map_err(|error| RunError::Kernel {
        problem: format!("nobody could stop it: {error}"),
        remedy: "run it where signals can be handled".to_owned(),
    })?;
    let ServeArguments { processes, lanes, unheard, answer_ms, .. } = *arguments;
    let limits = Limits { clients: processes, lanes, unheard, answer_ms };
    let daemon = Daemon::serve(host, &arguments.socket, arguments.mode, limits).map_err(|error| RunError::Kernel {
        problem: error.to_string(),
        remedy: "give another --socket, or stop whoever listens there".to_owned(),
    })?;
    tracing::info!("{names} at {} after {} ms", arguments.socket.display(), began.elapsed().as_millis());
    if let Some(figures) = &figures {
        tracing::info!("figures at http://{}/metrics", figures.address());
    }
    // The handler lives as long as the program: it never hangs up.
    let _ = stopped.recv();
    tracing::info!("stops, with {} processes", daemon.clients());
    drop(daemon);
    Ok(0)
}

/// The adapters, in a kernel whose processes are elsewhere.
fn config(choices: &[AdapterChoice], system: Option<MemorySize>) -> Result<HostConfig, RunError> {
    let usual = [AdapterChoice { profile: PROFILES[0].name.to_owned(), vram: None }];
    let choices = if choices.is_empty() { &usual } else { choices };
    let mut setups = choices.iter().map(|choice| setup(choice, system)).collect::<Result<Vec<_>, _>>()?.into_iter();
    let first = setups.next().expect("there is one at least");
    Ok(HostConfig {
        vram_bytes: first.vram_bytes,
        page_table_bytes: first.page_table_bytes,
        system_bytes: first.system_bytes,
        isolates_processes: true,
        others: setups.collect(),
        ..HostConfig::new(&first.profile, Mode::Real)
    })
}

fn setup(choice: &AdapterChoice, system: Option<MemorySize>) -> Result<AdapterSetup, RunError> {
    let profile = Profile::named(&choice.profile).ok_or_else(|| unknown(&choice.profile))?;
    let unsupported = |reason: &str| RunError::NotSupported {
        what: format!("{} behind a socket", profile.name),
        reason: reason.to_owned(),
    };
    if !profile.io_coherent {
        return Err(unsupported("its caches are shown by the program that its processes are in"));
    }
    if profile.uses_cpu_addresses() {
        return Err(unsupported("its GPU uses the CPU addresses of processes, which are in this program"));
    }
    let vram = format!("--adapter {},vram=…%", profile.name);
    let vram_bytes = choice.vram.map_or(Ok(profile.vram_bytes), |size| whole(size, vram))?;
    let twice = vram_bytes.saturating_mul(2);
    let system_bytes = system.map_or(Ok(twice), |size| whole(size, "--system …%".to_owned()))?;
    let page_table_bytes = page_table_bytes(vram_bytes);
    Ok(AdapterSetup { vram_bytes, page_table_bytes, system_bytes, ..AdapterSetup::new(profile) })
}

/// A size that is no share of a workload.
fn whole(size: MemorySize, argument: String) -> Result<u64, RunError> {
    match size {
        MemorySize::Bytes(bytes) => Ok(bytes),
        MemorySize::OfPeak { .. } => Err(RunError::Argument {
            argument,
            problem: "there is no workload yet that this could be a share of".to_owned(),
            remedy: "give bytes, or a number with KiB … TiB or KB … TB".to_owned(),
        }),
    }
}

fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) => Ok(mode),
        _ => Err("give three octal digits, as 660".to_owned()),
    }
}
