//! `openwddm serve`: the daemon on the command line. It reads the configuration, starts the adapters, opens the socket, logs that it is
//! ready, and stops cleanly at a signal. Called by `entry`.

mod config;
pub mod crash;
mod descriptors;
pub mod outside;
mod reload;
mod setup;
mod signals;
mod stops;
mod value;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use dxgk_host::{FaultPlan, Host, HostConfig, HostError};
use dxgkd::{
    Daemon, Files, Outside, SandboxError, ServeError, Socket, give_up_calls, give_up_files, raise_descriptors,
};

use rustix::io::Errno;
use terminal_text::printable::path as shown;

use crate::console::{Log, Out};
use crate::error::RunError;
use crate::faults;
use crate::metrics;
use crate::run::AdapterChoice;
use crate::size::MemorySize;
use config::Config;
use crash::{LastEvents, log_panics, record_panics};
use descriptors::met;
use reload::{Reload, until_stopped};
use stops::Stops;
use value::{Count, Mode};

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Configuration: everything that can be said here and more, each limit for processes, for users and for one user
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Prints a configuration with every name, what it means and its default, and ends
    #[arg(long)]
    pub write_config: bool,
    /// Checks the configuration, the arguments, the adapters and the limits against what the operating system gives, and ends without serving
    #[arg(long, conflicts_with = "write_config")]
    pub check_config: bool,
    /// Where processes connect
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The users that may connect, as the mode of the socket: 600 its owner, 660 its group too, 666 all users [default: 600]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// Adapter profile, `openwddm adapters` lists them, or a file that describes an adapter, FILE.toml. Several make as many adapters [default: discrete-4k]
    #[arg(long = "adapter", value_name = "PROFILE[,vram=SIZE]")]
    pub adapters: Vec<AdapterChoice>,
    /// Calls of clients that are to fail, and faults of the first adapter's device; `openwddm faults --list` has the forms
    /// [default: the environment variable OPENWDDM_FAULTS]
    #[arg(long, value_name = "CLAUSE;…")]
    pub faults: Option<FaultPlan>,
    /// System memory for the allocations of each adapter, which stays theirs while they are in video memory [default: what this computer
    /// has, taken as it is used]
    #[arg(long, value_name = "SIZE")]
    pub system: Option<MemorySize>,
    /// Most processes at a time [default: 64]
    #[arg(long, value_name = "N", value_parser = count)]
    pub processes: Option<Count>,
    /// Most calls of one process that wait at the same time: --limit process.lanes=N
    #[arg(long, value_name = "N", value_parser = count)]
    pub lanes: Option<Count>,
    /// Most messages that a process may leave unheard: --limit process.unheard=N
    #[arg(long, value_name = "N", value_parser = count)]
    pub unheard: Option<Count>,
    /// How long a process may take to let memory that it has locked be moved, in milliseconds; then it is ended: --limit
    /// process.answer_ms=MS
    #[arg(long, value_name = "MS", value_parser = count)]
    pub answer_ms: Option<Count>,
    /// Any limit by its name in the configuration, as process.handles=4096, user.memory=8GiB, users.1000.lanes=8
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    pub limits: Vec<String>,
    /// Keep files and system calls that the daemon does not need: for debugging only
    #[arg(long)]
    pub no_sandbox: bool,
    /// Serve figures to collectors such as Prometheus at http://ADDRESS:PORT/metrics; a port alone is of this machine
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = metrics::address)]
    pub metrics: Option<SocketAddr>,
}

/// Serves until a signal stops it.
///
/// # Errors
/// [`RunError::File`] and [`RunError::Argument`] for a configuration or arguments that cannot be, [`RunError::NotSupported`] for an
/// adapter that can't be served, [`RunError::Kernel`] when the socket or the adapters do not come up.
pub fn serve(arguments: &ServeArguments, out: &mut Out) -> Result<u8, RunError> {
    let began = Instant::now();
    if arguments.write_config {
        out.print(config::DEFAULT);
        return Ok(0);
    }
    let config = said(arguments)?;
    if arguments.check_config {
        out.print(&check(arguments, &config)?);
        return Ok(0);
    }
    // Before any other file is opened: a descriptor that the service manager handed over is known by its number.
    let handed = Socket::handed_over().map_err(unserved)?;
    if handed.is_none() && config.socket.is_none() {
        return Err(RunError::Argument {
            argument: "serve".to_owned(),
            problem: "it has no socket at which processes could connect".to_owned(),
            remedy:
                "give --socket PATH, or `socket` in the configuration, or have a service manager hand a socket over"
                    .to_owned(),
        });
    }
    let setup = set_up(arguments, &config)?;
    let profiles = profiles(&setup);
    start_log(tracing::Level::from(config.log.unwrap_or_default()));
    let given = raise_descriptors();
    let limits = met(&config, given)?.told();
    let records = config.crash.as_ref().map(|crash| crash.directory.as_path());
    let socket = match (handed, &config.socket) {
        (Some(handed), _) => handed,
        (None, Some(path)) => Socket::bind(path, config.mode.map_or(0o600, |mode| mode.0)).map_err(unserved)?,
        (None, None) => unreachable!("checked above"),
    };
    let place = socket.path().map_or("a socket that was handed over".to_owned(), |path| path.display().to_string());
    // Before files are given up, and before there is a thread.
    let outside = outside::start(arguments.config.as_deref(), records).map(Arc::new);
    let setup = with_records(setup, outside.as_ref().filter(|_| records.is_some()), &profiles);
    let sandboxed = config.sandbox.unwrap_or(true) && !arguments.no_sandbox;
    if records.is_none() {
        log_panics();
    }
    if sandboxed {
        // Threads of the adapters, too, have no files.
        keep_only_socket(&socket, arguments.metrics.is_some())?;
    }
    // From here on a signal ends it as it should end, and its socket with it.
    let (tell, told) = signals::listen().map_err(unheard)?;
    let setup = HostConfig { tracer: Box::new(Stops::new(tell, setup.tracer)), ..setup };
    let host = Host::start(setup).map_err(not_started)?;
    let figures = arguments.metrics.map(|address| metrics::serve(&host, address)).transpose()?;
    // Descriptors for NT handles need a system call that is given up.
    host.prepare_descriptors().map_err(no_descriptors)?;
    if sandboxed {
        give_up_calls().map_err(not_given_up)?;
    } else {
        tracing::warn!("the daemon keeps files and system calls that it does not need");
    }
    let asked = outside.clone();
    let names = Box::new(move |pid| asked.as_ref().and_then(|outside| outside.name_of(pid)));
    let daemon = Daemon::listen_with(Arc::clone(&host), socket, limits.clone(), names).map_err(unserved)?;
    let mut reload = Reload { arguments, outside, given, limits, fixed: config.fixed() };
    tracing::info!("{profiles} at {place} after {} ms", began.elapsed().as_millis());
    if let Some(figures) = &figures {
        tracing::info!("figures at http://{}/metrics", figures.address());
    }
    let ended = until_stopped(&told, &host, || reload.reload(&daemon));
    tracing::info!("stops, with {} processes", daemon.clients());
    drop(daemon);
    ended.map(|()| 0)
}

/// The daemon's log is written to standard error from here on, down to this level.
fn start_log(level: tracing::Level) {
    // Without colours: the log escapes control sequences, also those that a client has sent.
    let log = tracing_subscriber::fmt().with_writer(|| Log).with_ansi(false).with_target(false);
    let subscriber = log.with_max_level(level).finish();
    // There is one subscriber of a program, and this is the only place that sets it.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Gives up the daemon's access to files, but for taking its socket away at the end; it logs what the operating system lets it keep.
fn keep_only_socket(socket: &Socket, keeps_network: bool) -> Result<(), RunError> {
    let folder = socket.path().map(|path| path.parent().filter(|folder| *folder != "").unwrap_or(Path::new(".")));
    match give_up_files(folder, keeps_network).map_err(not_given_up)? {
        Files::GivenUp => {}
        Files::InPart => tracing::warn!(
            "the operating system's Landlock is an older one: the daemon gives up only a part of its access to files"
        ),
        Files::Kept => tracing::warn!("the operating system has no Landlock: the daemon gives up system calls only"),
    }
    Ok(())
}

fn not_started(error: HostError) -> RunError {
    RunError::Kernel {
        problem: format!("the adapters did not start: {error}"),
        remedy: "ask for other sizes of memory".to_owned(),
    }
}

fn no_descriptors(error: std::io::Error) -> RunError {
    RunError::Kernel {
        problem: format!("the operating system watches no descriptors of NT handles: {error}"),
        remedy: "raise fs.inotify.max_user_instances".to_owned(),
    }
}

fn not_given_up(error: SandboxError) -> RunError {
    RunError::Kernel {
        problem: error.to_string(),
        remedy: "run it with --no-sandbox if you trust all processes that can connect".to_owned(),
    }
}

/// A place that takes no socket is the user's fault; a lack of the operating system's means, or of the service manager's, is none.
fn unserved(error: ServeError) -> RunError {
    let at = |path: &str, problem: String, remedy: &str| RunError::File {
        role: "--socket".to_owned(),
        path: path.into(),
        problem,
        remedy: remedy.to_owned(),
    };
    match &error {
        ServeError::Busy(path) => at(
            path,
            "another daemon listens there already".to_owned(),
            "give another --socket, or stop the program that listens there",
        ),
        ServeError::Taken { path, what } => at(
            path,
            format!("{what} stands there, and the daemon removes only a socket that no program has"),
            "give another --socket, or move the file away",
        ),
        ServeError::Socket { path, source } if !lacks_means(*source) => {
            let folder = Path::new(path).parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
            let problem = folder.map_or_else(
                || format!("no socket can be made there: {source}"),
                |folder| format!("{} is no folder that is there", shown(folder)),
            );
            at(path, problem, "give another --socket, in a folder that is there and that you may write to")
        }
        ServeError::Socket { .. } | ServeError::Handed(_) | ServeError::Thread(_) => RunError::Kernel {
            problem: error.to_string(),
            remedy: "correct the fault that the operating system or the service manager names".to_owned(),
        },
    }
}

/// Whether the operating system lacks descriptors, memory or room, at whatever place.
fn lacks_means(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS | Errno::NOSPC | Errno::IO)
}

/// The configuration of the command line, laid over that of the file.
fn said(arguments: &ServeArguments) -> Result<Config, RunError> {
    said_over(
        arguments,
        match &arguments.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        },
    )
}

/// The same over a file that has been read.
fn said_over(arguments: &ServeArguments, file: Config) -> Result<Config, RunError> {
    let mut said = file;
    let named = [("lanes", arguments.lanes), ("unheard", arguments.unheard), ("answer_ms", arguments.answer_ms)];
    let named = named.iter().filter_map(|(name, count)| count.map(|count| format!("process.{name}={}", count.0)));
    for text in named.chain(arguments.limits.iter().cloned()) {
        let limit = Config::limit(&text).map_err(|problem| RunError::Argument {
            argument: format!("--limit {text}"),
            problem,
            remedy: "`openwddm serve --write-config` prints every name".to_owned(),
        })?;
        said = limit.over(said);
    }
    let ServeArguments { socket, mode, processes, .. } = arguments;
    Ok(Config { socket: socket.clone(), mode: *mode, processes: *processes, ..Config::default() }.over(said))
}

/// Records of crashes are written from now on, and the kernel's last events are kept for them.
fn with_records(setup: HostConfig, outside: Option<&Arc<Outside>>, profiles: &str) -> HostConfig {
    let Some(outside) = outside else { return setup };
    let last = LastEvents::default();
    record_panics(Arc::clone(outside), last.clone(), profiles.to_owned());
    HostConfig { tracer: Box::new(last), ..setup }
}

fn unheard(error: std::io::Error) -> RunError {
    RunError::Kernel {
        problem: format!("it could not install its handler of signals, by which it is stopped: {error}"),
        remedy: "run it where signals can be handled".to_owned(),
    }
}

/// The adapters, the consequences of hangs there, and the faults that are to happen.
fn set_up(arguments: &ServeArguments, config: &Config) -> Result<HostConfig, RunError> {
    if let Some(crash) = &config.crash {
        crash.check()?;
    }
    let recovery = config.tdr.unwrap_or_default().policy()?;
    let adapters = setup::host(&arguments.adapters, &config.adapter, arguments.system, recovery)?;
    let faults = faults::chosen(arguments.faults.as_ref())?;
    Ok(HostConfig { faults, ..adapters })
}

/// The profiles of the adapters.
fn profiles(setup: &HostConfig) -> String {
    let names = std::iter::once(setup.profile.name).chain(setup.others.iter().map(|other| other.profile.name));
    names.collect::<Vec<_>>().join(", ")
}

/// The daemon that this configuration would start, in words. The check starts the adapters in virtual time, without a stored byte, and
/// opens no socket.
///
/// # Errors
/// Those of a start with it, but for a socket that is missing, because a service manager may hand one over.
fn check(arguments: &ServeArguments, config: &Config) -> Result<String, RunError> {
    let setup = set_up(arguments, config)?;
    let profiles = profiles(&setup);
    let mode = dxgk_host::Mode::Virtual { stored: false };
    let tried = HostConfig { mode, memory_files: false, isolates_processes: false, processors: None, ..setup };
    drop(Host::start(tried).map_err(not_started)?);
    let met = met(config, raise_descriptors())?;
    let place = config
        .socket
        .as_ref()
        .map_or("a socket that a service manager hands over".to_owned(), |path| path.display().to_string());
    let served = format!("{profiles} at {place}, for {} processes", met.limits.processes);
    let verdict = match met.shortage() {
        None => format!("good: {served} that may need {} of {} descriptors", met.needed(), met.given),
        Some(_) => format!("usable, but not in full: {served}"),
    };
    let notes: String = met.notes().iter().map(|note| format!("note: {note}\n")).collect();
    Ok(format!("the configuration is {verdict}\n{notes}"))
}

fn count(text: &str) -> Result<Count, String> {
    match text.parse() {
        Ok(number @ 1..) => Ok(Count(number)),
        _ => Err("give a number from 1 on".to_owned()),
    }
}

#[cfg(test)]
mod tests;
