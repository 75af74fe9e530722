//! A kernel behind a socket, for the measures that compare with one in the same program.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink, page_table_bytes};
use dxgkd::{Daemon, Limits, ProcessLimits, UNLIMITED, UserLimits};
use kmt_link::Link;
use kmt_link::socket::SocketLink;

use crate::machine::all_processors;
use crate::report::BenchError;

/// A kernel of the first profile in real time, served or not.
pub(crate) struct Kernel {
    pub host: Arc<Host>,
    served: Option<(Daemon, PathBuf, tempfile::TempDir)>,
}

impl Kernel {
    /// With this much video memory; `served`: behind a socket.
    pub fn start(vram_bytes: u64, served: bool) -> Result<Kernel, BenchError> {
        Kernel::limited(vram_bytes, 16 * vram_bytes, served, Limits::default())
    }

    /// With this much system memory too, and clients that may have so much.
    pub fn limited(vram_bytes: u64, system_bytes: u64, served: bool, limits: Limits) -> Result<Kernel, BenchError> {
        let failed = |error: String| BenchError::Device(error);
        let config = HostConfig {
            vram_bytes,
            page_table_bytes: page_table_bytes(vram_bytes),
            system_bytes,
            isolates_processes: served,
            processors: all_processors(),
            memory_files: true,
            ..HostConfig::new(&PROFILES[0], Mode::Real)
        };
        let host = Host::start(config).map_err(|error| failed(error.to_string()))?;
        let served = served
            .then(|| {
                let folder = tempfile::tempdir()?;
                let path = folder.path().join("kernel");
                host.prepare_descriptors().map_err(|error| failed(error.to_string()))?;
                let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, limits)
                    .map_err(|error| failed(error.to_string()))?;
                Ok::<_, BenchError>((daemon, path, folder))
            })
            .transpose()?;
        Ok(Kernel { host, served })
    }

    /// A process of it.
    pub fn connect(&self) -> Result<Arc<dyn Link>, BenchError> {
        Ok(match &self.served {
            Some((_, path, _)) => {
                SocketLink::connect(path).map_err(|error| BenchError::Device(error.to_string()))? as Arc<dyn Link>
            }
            None => ProcessLink::new(Arc::clone(&self.host)),
        })
    }

    /// Where it is served.
    pub fn path(&self) -> Option<&Path> {
        self.served.as_ref().map(|(_, path, _)| path.as_path())
    }

    /// Waits until it has no clients.
    pub fn until_alone(&self, within: Duration) -> Result<(), BenchError> {
        let began = Instant::now();
        while self.served.as_ref().is_some_and(|(daemon, ..)| daemon.clients() != 0) {
            if began.elapsed() > within {
                return Err(BenchError::Device("clients stay that have gone".into()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// None: what is measured is what the calls cost, not where a configuration ends them.
pub(crate) fn no_limits() -> Limits {
    let process = ProcessLimits {
        lanes: UNLIMITED,
        unheard: UNLIMITED,
        clearing_percent: 100,
        descriptors: UNLIMITED,
        handles: UNLIMITED,
        sync_objects: UNLIMITED,
        locked_video_bytes: UNLIMITED,
        queued: UNLIMITED,
        ..ProcessLimits::default()
    };
    let user = UserLimits {
        processes: UNLIMITED,
        lanes: UNLIMITED,
        unheard: UNLIMITED,
        descriptors: UNLIMITED,
        handles: UNLIMITED,
        sync_objects: UNLIMITED,
        queued: UNLIMITED,
        ..UserLimits::default()
    };
    Limits { processes: UNLIMITED, process, user, ..Limits::default() }
}
