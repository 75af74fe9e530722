//! `openwddm present`: the engines draw pictures into surfaces, a process flips them on a display, and the command counts and writes
//! the frames that a monitor got. It is the whole path: packets that say what they write, flips behind them, the kernel that holds a drawing
//! while its surface is shown, the display controller that takes a flip over at a vertical blank.

mod counts;
mod scene;
mod screen;

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use d3dkmt::Wddm30Caps;
use ddi::FeatureId;
use device_port::Monitor;
use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink, Profile};
use dxgkrnl::FeaturePolicy;
use kmt_link::Link;
use softgpu_umd::{Gpu, Lane, Stage, Surface, UmdError};
use wddm_types::{NodeId, VidPnSourceId};

use crate::adapters;
use crate::console::Out;
use crate::error::RunError;
use counts::Counter;
pub use counts::Counts;
use screen::Screen;
use terminal_text::printable;

/// The display.
const SOURCE: VidPnSourceId = VidPnSourceId(0);
/// In virtual time a fill takes so long to start: a drawing takes a good part of a frame, as drawings do.
const FILL_NS: u64 = 40_000;

/// Options of the presentation.
#[derive(Clone, Debug)]
pub struct PresentOptions {
    /// The profile; the first one if none is named.
    pub adapter: Option<String>,
    /// Pictures to draw and flip.
    pub frames: u32,
    /// Texels of a row.
    pub width: u16,
    /// Rows of a surface.
    pub height: u16,
    /// Surfaces to draw into in turn.
    pub buffers: u32,
    /// Pictures that are drawn and flipped together, one less than the surfaces; then the process sleeps.
    pub burst: Option<u32>,
    /// Blanks from one flip to the next.
    pub interval: u32,
    /// The drawings do not say what they write.
    pub careless: bool,
    /// The presentation is in virtual time.
    pub virtual_time: bool,
    /// Where pictures go.
    pub pictures: Option<PathBuf>,
}

/// The outcome of the presentation.
#[derive(Clone, Debug)]
pub struct Shown {
    options: PresentOptions,
    adapter: &'static str,
    refresh_ns: u64,
    /// Flips that were shown, flips that were dropped because the time of a newer one had come, and interrupts of the display.
    pub counts: Counts,
    /// How often it interrupts when the kernel keeps the queue, where it has been the hardware.
    pub kept_by_kernel: Option<u64>,
    /// Frames that the monitor got.
    pub frames: u64,
    /// Those of them that were torn.
    pub torn: u64,
    /// Files that were written.
    pub pictures: u64,
}

impl Shown {
    /// Whether nothing was torn, unless it was to be.
    pub fn is_as_promised(&self) -> bool {
        self.torn == 0 || self.options.careless || self.options.interval == 0
    }

    /// For people.
    pub fn text(&self) -> String {
        let PresentOptions { frames, width, height, buffers, burst, interval, careless, virtual_time, .. } =
            &self.options;
        let hertz = 1e9 / self.refresh_ns as f64;
        let time = if *virtual_time { ", in virtual time" } else { "" };
        let flipped = match interval {
            0 => "flipped at once".to_owned(),
            1 => "flipped at each vertical blank".to_owned(),
            more => format!("flipped at every {more} vertical blanks"),
        };
        let turns = match burst {
            Some(burst) => format!("in bursts of {burst}"),
            None => "in turn".to_owned(),
        };
        let mut text = format!(
            "{frames} pictures of {width} by {height} drawn into {buffers} surfaces {turns} and {flipped}\n\
             on {}, {hertz:.1} blanks a second{time}\n",
            self.adapter
        );
        if *careless {
            text.push_str("drawings do not say what they write: nothing holds them while it is shown\n");
        }
        text.push('\n');
        let rows = [
            ("flips shown", Some(self.counts.shown)),
            ("passed over", Some(self.counts.dropped).filter(|dropped| *dropped > 0)),
            ("frames", Some(self.frames)),
            ("torn", Some(self.torn)),
            ("interrupts of the display", Some(self.counts.interrupts)),
            ("  when the kernel keeps the queue", self.kept_by_kernel),
        ];
        for (name, number) in rows {
            if let Some(number) = number {
                // Writing into a string does not fail.
                let _ = writeln!(text, "  {name:<34}{number:>6}");
            }
        }
        if let Some(folder) = self.options.pictures.as_ref().filter(|_| self.pictures > 0) {
            let _ = writeln!(text, "\n{} pictures are in {}", self.pictures, printable::path(folder));
        }
        text
    }
}

/// Draws the pictures, flips them, watches the display, and writes what it has shown.
///
/// # Errors
/// An adapter that is unknown or has no display; a folder that cannot be written to; a kernel that fails.
pub fn present(options: &PresentOptions, out: &mut Out) -> Result<Shown, RunError> {
    let mut profile = match &options.adapter {
        None => PROFILES[0],
        Some(name) => *adapters::asked("--adapter", name)?,
    };
    if profile.displays.count == 0 {
        let with: Vec<_> = PROFILES.iter().filter(|profile| profile.displays.count > 0).map(|p| p.name).collect();
        return Err(RunError::Argument {
            argument: format!("--adapter {}", profile.name),
            problem: "the adapter has no display".to_owned(),
            remedy: format!("choose one with a display: {}", with.join(", ")),
        });
    }
    if options.careless && !profile.driver.translates() {
        return Err(RunError::Argument {
            argument: "--careless".to_owned(),
            problem: format!("drawings on {} always say what they write, in their allocation lists", profile.name),
            remedy: "choose an adapter with GPU virtual addresses".to_owned(),
        });
    }
    let folder = options.pictures.as_deref().map(screen::Folder::check).transpose()?;
    profile.timing.copy_latency_ns = FILL_NS;
    let screen = Arc::new(Screen::new(folder.is_some()));
    let (counts, by_hardware) = show(&profile, options, &screen, FeaturePolicy::default())?;
    let kept_by_kernel = if by_hardware && options.virtual_time {
        let second_screen = Arc::new(Screen::new(false));
        let without = FeaturePolicy::without([FeatureId::HWFLIPQUEUE]);
        Some(show(&profile, options, &second_screen, without)?.0.interrupts)
    } else {
        None
    };
    let (frames, torn, kept) = screen.end();
    let pictures = folder.map_or(0, |folder| folder.write(&kept, out));
    let (adapter, refresh_ns) = (profile.name, profile.displays.period_ns);
    Ok(Shown { options: options.clone(), adapter, refresh_ns, counts, kept_by_kernel, frames, torn, pictures })
}

/// Shows the pictures on an adapter of its own. Returns the counts, and whether the hardware queued the flips.
fn show(
    profile: &Profile,
    options: &PresentOptions,
    screen: &Arc<Screen>,
    features: FeaturePolicy,
) -> Result<(Counts, bool), RunError> {
    let counter = Counter::default();
    let mode = if options.virtual_time { Mode::Virtual { stored: true } } else { Mode::Real };
    let bytes = softgpu_umd::pitch_bytes(u32::from(options.width)) * u64::from(options.height);
    let config = HostConfig {
        vram_bytes: (64 << 20) + bytes.next_multiple_of(65536) * u64::from(options.buffers),
        page_table_bytes: 16 << 20,
        tracer: Box::new(counter.clone()),
        features,
        ..HostConfig::new(profile, mode)
    };
    let host = Host::start(config).map_err(failed)?;
    host.adapter(0).connect_monitor(SOURCE.0, Arc::clone(screen) as Arc<dyn Monitor>);
    let by_hardware = play(&host, options, &counter).map_err(failed)?;
    Ok((counter.counts(), by_hardware))
}

fn play(host: &Arc<Host>, options: &PresentOptions, counter: &Counter) -> Result<bool, UmdError> {
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>)?;
    let by_hardware = gpu.adapter().wddm_3_0_caps()?.contains(Wddm30Caps::HW_FLIP_QUEUE_ENABLED);
    let (lane, surfaces) = prepare(&gpu, options)?;
    let mut player = Player { gpu: &gpu, lane, surfaces: &surfaces, options };
    match options.burst {
        Some(burst) => player.bursts(burst)?,
        None => {
            for frame in 0..options.frames {
                let surface = ((frame + 1) % options.buffers) as usize;
                player.draw(surface, frame)?;
                player.flip(surface)?;
            }
            while counter.counts().over() < u64::from(options.frames) {
                gpu.device().wait_for_vertical_blank(SOURCE)?;
            }
        }
    }
    // The last picture is on the screen from its blank to the next.
    gpu.device().wait_for_vertical_blank(SOURCE)?;
    Ok(by_hardware)
}

/// Draws and flips.
struct Player<'a> {
    gpu: &'a Gpu,
    lane: Lane,
    surfaces: &'a [Surface],
    options: &'a PresentOptions,
}

impl Player<'_> {
    /// Draws a picture; returns the progress value that the drawing completes.
    fn draw(&mut self, surface: usize, frame: u32) -> Result<u64, UmdError> {
        let surface = &self.surfaces[surface];
        scene::draw(&mut self.lane, surface, (self.options.width, self.options.height), frame);
        let handle = [surface.allocation().handle()];
        let written = if self.options.careless { &[][..] } else { &handle[..] };
        self.lane.submit_writing(self.gpu, written)
    }

    fn flip(&self, surface: usize) -> Result<(), UmdError> {
        self.lane.flip(&self.surfaces[surface], self.options.interval)?;
        Ok(())
    }

    /// As players do: many pictures together, and then sleep. The first drawing of the next burst wakes the process: it is
    /// into the surface that comes free when the last picture of this one is shown.
    fn bursts(&mut self, burst: u32) -> Result<(), UmdError> {
        self.gpu.device().set_queued_limit(burst)?;
        // The first one that is drawn into comes free last.
        let mut order: Vec<usize> = (1..self.surfaces.len()).collect();
        let (mut shown, mut frame) = (0, 0);
        while frame < self.options.frames {
            let together = order.len().min((self.options.frames - frame) as usize);
            for (nth, surface) in order[..together].iter().enumerate() {
                let drawn = self.draw(*surface, frame)?;
                if nth == 0 {
                    self.lane.wait(self.gpu, drawn)?;
                }
                self.flip(*surface)?;
                frame += 1;
            }
            let unused = order.split_off(together);
            order.reverse();
            let last = order.remove(0);
            // Of a burst of one picture what was shown before comes free last.
            order.push(std::mem::replace(&mut shown, last));
            order.extend(unused);
        }
        let drawn = self.draw(order[0], frame)?;
        self.lane.wait(self.gpu, drawn)
    }
}

/// The surfaces, the first of them shown and black.
fn prepare(gpu: &Gpu, options: &PresentOptions) -> Result<(Lane, Vec<Surface>), UmdError> {
    let lane = Lane::create_at(gpu, NodeId(0), Stage::Packet)?;
    let mut surfaces = Vec::new();
    for _ in 0..options.buffers {
        let surface = gpu.create_primary(SOURCE, options.width, options.height)?;
        // Without addresses lists are residency: whatever names it brings it in.
        if gpu.has_addresses() {
            gpu.pin(&surface)?;
        }
        surfaces.push(surface);
    }
    gpu.device().own_sources(&[SOURCE])?;
    gpu.device().set_display_mode(surfaces[0].allocation())?;
    Ok((lane, surfaces))
}

fn failed(error: impl std::fmt::Display) -> RunError {
    RunError::Kernel { problem: error.to_string(), remedy: "report it with the command line".to_owned() }
}
