//! The arguments of `present`, and the presentation that they ask for.

use std::path::PathBuf;

use clap::Args;

use crate::error::RunError;
use crate::present::PresentOptions;

/// Arguments of `present`.
#[derive(Debug, Args)]
pub struct PresentArguments {
    /// Adapter profile with a display [default: discrete-4k]
    #[arg(long, value_name = "PROFILE")]
    pub adapter: Option<String>,
    /// How many pictures
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub frames: u32,
    /// Texels of a row, and rows
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "320x180")]
    pub size: String,
    /// Into how many surfaces, in turn
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub buffers: u32,
    /// Each so many vertical blanks behind the one before it, 1 to 4; 0: at once, whatever the display is reading
    #[arg(long, value_name = "BLANKS", default_value_t = 1)]
    pub interval: u32,
    /// Draw and flip so many pictures in a burst, and sleep until they are shown; 2 to 16, into one surface more
    #[arg(long, value_name = "N", conflicts_with_all = ["buffers", "careless"])]
    pub burst: Option<u32>,
    /// Do not say what is drawn into: the kernel cannot hold a drawing while a display shows its surface, and pictures are torn
    #[arg(long)]
    pub careless: bool,
    /// Count time instead of spending it
    #[arg(long)]
    pub virtual_time: bool,
    /// Write what the display has shown, a PNG for each of its frames, into this folder
    #[arg(long, value_name = "FOLDER")]
    pub pictures: Option<PathBuf>,
}

/// Most pictures of one presentation: those that a display has shown are kept until it is over.
const FRAMES_MAX: u32 = 3_600;
/// Most texels of a row, and most rows.
const EDGE_MAX: u16 = 4_096;
/// Most surfaces.
const BUFFERS_MAX: u32 = 8;
/// Most flips that a device may have queued.
const BURST_MAX: u32 = 16;

impl PresentArguments {
    /// The options of the presentation.
    ///
    /// # Errors
    /// [`RunError::Argument`] for numbers that no display has.
    pub fn options(self) -> Result<PresentOptions, RunError> {
        let refused = |argument: String, problem: &str, remedy: String| {
            Err(RunError::Argument { argument, problem: problem.to_owned(), remedy })
        };
        let edge = |text: &str| text.parse().ok().filter(|edge| (8..=EDGE_MAX).contains(edge));
        let size = self.size.split_once('x').and_then(|(width, height)| Some((edge(width)?, edge(height)?)));
        let Some((width, height)) = size else {
            let remedy = format!("give WIDTHxHEIGHT, each from 8 to {EDGE_MAX}");
            return refused(format!("--size {}", self.size), "it is no size of a picture", remedy);
        };
        if !(1..=FRAMES_MAX).contains(&self.frames) {
            let remedy = format!("give a number from 1 to {FRAMES_MAX}");
            return refused(format!("--frames {}", self.frames), "the number of pictures is out of range", remedy);
        }
        if !(2..=BUFFERS_MAX).contains(&self.buffers) {
            let remedy = format!("give a number from 2 to {BUFFERS_MAX}");
            let problem = "the number of surfaces is out of range: one is shown while another is drawn into";
            return refused(format!("--buffers {}", self.buffers), problem, remedy);
        }
        if let Some(burst) = self.burst.filter(|burst| !(2..=BURST_MAX).contains(burst)) {
            let remedy = format!("give a number from 2 to {BURST_MAX}");
            return refused(format!("--burst {burst}"), "the number of flips of a burst is out of range", remedy);
        }
        if self.interval > 4 {
            let remedy = "give a number from 0 to 4".to_owned();
            return refused(
                format!("--interval {}", self.interval),
                "the interval is out of range: a flip waits for 4 blanks at most",
                remedy,
            );
        }
        Ok(PresentOptions {
            adapter: self.adapter,
            frames: self.frames,
            width,
            height,
            buffers: self.burst.map_or(self.buffers, |burst| burst + 1),
            burst: self.burst,
            interval: self.interval,
            careless: self.careless,
            virtual_time: self.virtual_time,
            pictures: self.pictures,
        })
    }
}
