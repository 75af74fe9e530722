//! `openwddm present`: pictures are drawn by the engines into surfaces, which are flipped on a display, and what a monitor got is
//! counted and written. It is the whole path: packets that say what they write, flips behind them, the kernel that holds a drawing
//! while its surface is shown, the display controller that takes a flip over at a vertical blank.

mod scene;
mod screen;

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use device_port::Monitor;
use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink, Profile};
use events::{Event, Tracer};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, KernelFedStream, StreamConfig, Surface, UmdError};
use wddm_types::{NodeId, VidPnSourceId};

use crate::adapters;
use crate::error::RunError;
use screen::Screen;

/// The display.
const SOURCE: VidPnSourceId = VidPnSourceId(0);
/// In virtual time a fill takes so long to start: a drawing takes a good part of a frame, as drawings do.
const FILL_NS: u64 = 40_000;

/// What is to be shown.
#[derive(Clone, Debug)]
pub struct PresentOptions {
    /// The profile; the first one if none is named.
    pub adapter: Option<String>,
    /// Pictures.
    pub frames: u32,
    /// Texels of a row.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// Surfaces.
    pub buffers: u32,
    /// Blanks from one flip to the next.
    pub interval: u32,
    /// The drawings do not say what they write.
    pub careless: bool,
    /// Time is counted.
    pub virtual_time: bool,
    /// Where pictures go.
    pub pictures: Option<PathBuf>,
}

/// What was shown.
#[derive(Clone, Debug)]
pub struct Shown {
    options: PresentOptions,
    adapter: &'static str,
    refresh_ns: u64,
    /// Flips that were shown.
    pub flips: u64,
    /// Frames that the monitor got.
    pub frames: u64,
    /// Those of them that were torn.
    pub torn: u64,
    /// Files.
    pub pictures: u64,
}

impl Shown {
    /// Whether nothing was torn, unless it was to be.
    pub fn is_as_promised(&self) -> bool {
        self.torn == 0 || self.options.careless || self.options.interval == 0
    }

    /// For people.
    pub fn text(&self) -> String {
        let PresentOptions { frames, width, height, buffers, interval, careless, virtual_time, .. } = &self.options;
        let hertz = 1e9 / self.refresh_ns as f64;
        let time = if *virtual_time { ", in virtual time" } else { "" };
        let flipped = match interval {
            0 => "flipped at once".to_owned(),
            1 => "flipped at each vertical blank".to_owned(),
            more => format!("flipped at every {more} vertical blanks"),
        };
        let mut text = format!(
            "{frames} pictures of {width} by {height} drawn into {buffers} surfaces in turn and {flipped}\n\
             on {}, {hertz:.1} blanks a second{time}\n",
            self.adapter
        );
        if *careless {
            text.push_str("drawings do not say what they write: nothing holds them while it is shown\n");
        }
        // Writing into a string does not fail.
        let _ = write!(
            text,
            "\n  flips shown  {:>6}\n  frames       {:>6}\n  torn         {:>6}\n",
            self.flips, self.frames, self.torn
        );
        if let Some(folder) = self.options.pictures.as_ref().filter(|_| self.pictures > 0) {
            let _ = writeln!(text, "\n{} pictures are in {}", self.pictures, folder.display());
        }
        text
    }
}

/// Counts flips that are shown.
struct Flips(Arc<AtomicU64>);

impl Tracer for Flips {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        if matches!(event, Event::FlipShown { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Draws, flips, looks.
///
/// # Errors
/// An adapter that is unknown or has no display; a folder that cannot be written to; a kernel that fails.
pub fn present(options: &PresentOptions) -> Result<Shown, RunError> {
    let mut profile = match &options.adapter {
        None => PROFILES[0],
        Some(name) => *Profile::named(name).ok_or_else(|| adapters::unknown(name))?,
    };
    if profile.displays.count == 0 {
        let with: Vec<_> = PROFILES.iter().filter(|profile| profile.displays.count > 0).map(|p| p.name).collect();
        return Err(RunError::Argument {
            argument: format!("--adapter {}", profile.name),
            problem: "this adapter only renders".to_owned(),
            remedy: format!("choose one with a display: {}", with.join(", ")),
        });
    }
    let folder = options.pictures.as_deref().map(screen::Folder::check).transpose()?;
    profile.timing.copy_latency_ns = FILL_NS;
    let shown = Arc::new(AtomicU64::new(0));
    let mode = if options.virtual_time { Mode::Virtual { stored: true } } else { Mode::Real };
    let bytes = softgpu_umd::pitch_bytes(u32::from(options.width)) * u64::from(options.height);
    let config = HostConfig {
        vram_bytes: (64 << 20) + bytes.next_multiple_of(65536) * u64::from(options.buffers),
        page_table_bytes: 16 << 20,
        system_bytes: 256 << 20,
        tracer: Box::new(Flips(Arc::clone(&shown))),
        ..HostConfig::new(&profile, mode)
    };
    let host = Host::start(config).map_err(failed)?;
    let screen = Arc::new(Screen::new(folder.is_some()));
    host.adapter(0).connect_monitor(SOURCE.0, Arc::clone(&screen) as Arc<dyn Monitor>);
    play(&host, options, &shown).map_err(failed)?;
    drop(host);
    let (frames, torn, kept) = screen.end();
    let pictures = folder.map_or(Ok(0), |folder| folder.write(&kept))?;
    let (adapter, refresh_ns, flips) = (profile.name, profile.displays.period_ns, shown.load(Ordering::Relaxed));
    Ok(Shown { options: options.clone(), adapter, refresh_ns, flips, frames, torn, pictures })
}

fn play(host: &Arc<Host>, options: &PresentOptions, shown: &AtomicU64) -> Result<(), UmdError> {
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>)?;
    let (mut stream, surfaces) = prepare(&gpu, options)?;
    let device = gpu.device();
    for frame in 0..options.frames {
        let surface = &surfaces[((frame + 1) % options.buffers) as usize];
        let mut commands = Commands::new();
        scene::draw(&mut commands, surface.va(), (options.width, options.height), frame);
        let handle = [surface.allocation().handle()];
        let written = if options.careless { &[][..] } else { &handle[..] };
        stream.submit_writing(&gpu, None, &commands, written)?;
        let context = stream.context().expect("it takes packets");
        context.flip(surface.allocation(), options.interval)?;
    }
    while shown.load(Ordering::Relaxed) < u64::from(options.frames) {
        device.wait_for_vertical_blank(SOURCE)?;
    }
    // The last picture is on the screen from its blank to the next.
    device.wait_for_vertical_blank(SOURCE)?;
    Ok(())
}

/// The surfaces, the first of them shown and black.
fn prepare(gpu: &Gpu, options: &PresentOptions) -> Result<(KernelFedStream, Vec<Surface>), UmdError> {
    let stream = KernelFedStream::packets(gpu, NodeId(0), StreamConfig::default())?;
    let mut surfaces = Vec::new();
    for _ in 0..options.buffers {
        let surface = gpu.create_primary(SOURCE, options.width, options.height)?;
        gpu.pin(&surface)?;
        surfaces.push(surface);
    }
    gpu.device().own_sources(&[SOURCE])?;
    gpu.device().set_display_mode(surfaces[0].allocation())?;
    Ok((stream, surfaces))
}

fn failed(error: impl std::fmt::Display) -> RunError {
    RunError::Kernel { problem: error.to_string(), remedy: "report it with the command line".to_owned() }
}
