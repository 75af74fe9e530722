//! `openwddm top`: the activity of a served kernel, on a page that is drawn again and again, or once for a script. Called by `entry`.
//!
//! | module | what it is |
//! |---|---|
//! | `feed` | asks the kernel |
//! | `rates` | two answers become numbers a second |
//! | `page` | the state of the page and the effects of keys, as a value; `rows`, `columns`, `history` are its parts |
//! | `draw` | the page becomes cells, whatever the size |
//! | `screen` | the terminal |
//! | `hangup` | whether the terminal has hung up |
//! | `json` | the page for scripts |
//!
//! It is a client like any other, with no device and no right of its own: every process may read figures.

pub mod columns;
pub mod draw;
pub mod feed;
#[cfg(test)]
pub(crate) mod fixture;
mod hangup;
pub mod history;
pub mod json;
pub mod page;
pub mod rates;
pub mod rows;
pub mod screen;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::draw::Ink;
use self::page::{INTERVALS_MS, Next, Page};
use self::screen::{Came, Screen};
use crate::connected::unreachable_kernel;
use crate::console::Out;
use crate::error::RunError;
use crate::printable;

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArguments {
    /// The kernel that `openwddm serve` serves there
    #[arg(long, value_name = "SOCKET")]
    pub connect: PathBuf,
    /// Seconds from one look to the next
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Look twice, print what was seen, and end
    #[arg(long)]
    pub once: bool,
    /// Print JSON
    #[arg(long, requires = "once")]
    pub json: bool,
}

/// The size of a page that is printed.
const PRINTED: (u16, u16) = (120, 40);

/// Shows the page until it is left.
///
/// # Errors
/// [`RunError::Argument`] when no daemon listens there or standard output is no terminal, [`RunError::Kernel`] when the kernel goes.
pub fn top(arguments: &TopArguments, stop: &AtomicBool, out: &mut Out) -> Result<u8, RunError> {
    let link = SocketLink::connect(&arguments.connect)
        .map_err(|error| unreachable_kernel(&arguments.connect, &error.to_string()))?;
    // CAST: at most a minute.
    let interval_ms = arguments.interval.as_millis() as u64;
    let page = Page::new(printable::path(&arguments.connect), interval_ms);
    if arguments.once {
        return once(&*link, page, arguments.json, out);
    }
    if !screen::is_there() {
        return Err(RunError::Argument {
            argument: "top".to_owned(),
            problem: "standard output is no terminal".to_owned(),
            remedy: "give --once, and --json for a script".to_owned(),
        });
    }
    live(&*link, page, stop)
}

/// Looks twice, an interval apart, and prints.
fn once(link: &dyn Link, mut page: Page, as_json: bool, out: &mut Out) -> Result<u8, RunError> {
    page.told(feed::read(link).map_err(gone)?);
    std::thread::sleep(Duration::from_millis(page.interval_ms));
    page.told(feed::read(link).map_err(gone)?);
    let text = if as_json { format!("{:#}\n", json::json(&page)) } else { printed(&page) };
    out.print(&text).map(|()| 0)
}

/// The page as text, without the meanings of keys.
fn printed(page: &Page) -> String {
    let area = Rect::new(0, 0, PRINTED.0, PRINTED.1);
    let mut out = Buffer::empty(area);
    draw::draw(page, Ink { coloured: false }, area, &mut out);
    let line = |row: &[ratatui::buffer::Cell]| {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        format!("{}\n", line.trim_end())
    };
    out.content.chunks(PRINTED.0 as usize).take(PRINTED.1 as usize - 1).map(line).collect()
}

/// Draws and looks until a key or a signal ends it, or the kernel goes. A terminal that goes ends it as a signal does.
fn live(link: &dyn Link, mut page: Page, stop: &AtomicBool) -> Result<u8, RunError> {
    let ink = Ink { coloured: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
    page.told(feed::read(link).map_err(gone)?);
    let mut screen = Screen::take().map_err(no_terminal)?;
    hangup::end_with_terminal().map_err(no_terminal)?;
    // The second look comes soon: there are no rates before.
    let mut next = Instant::now() + Duration::from_millis(page.interval_ms.min(250));
    loop {
        match screen.show(|area, out| draw::draw(&page, ink, area, out)) {
            Err(_) if hangup::has_gone() => return Ok(0),
            shown => shown.map_err(no_terminal)?,
        }
        let left = next.saturating_duration_since(Instant::now());
        let stopped = || stop.load(Ordering::Relaxed);
        match screen.key_within(left, stopped) {
            Err(_) if hangup::has_gone() => return Ok(0),
            Err(error) => return Err(no_terminal(error)),
            Ok(Came::Key(key)) => {
                let before = page.interval_ms;
                if page.pressed(key) == Next::Quit {
                    return Ok(0);
                }
                if page.interval_ms != before {
                    next = next.min(Instant::now() + Duration::from_millis(page.interval_ms));
                }
            }
            Ok(Came::Else) => {}
            Ok(Came::Nothing) if stopped() => return Ok(0),
            Ok(Came::Nothing) => {
                page.told(feed::read(link).map_err(gone)?);
                next = Instant::now() + Duration::from_millis(page.interval_ms);
            }
        }
    }
}

fn gone(refusal: d3dkmt::Refusal) -> RunError {
    RunError::Kernel { problem: refusal.to_string(), remedy: "start the kernel again, and connect to it".to_owned() }
}

fn no_terminal(error: std::io::Error) -> RunError {
    RunError::Kernel { problem: format!("the terminal: {error}"), remedy: "give --once where there is none".to_owned() }
}

fn interval(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_millis(*INTERVALS_MS.start())..=Duration::from_millis(*INTERVALS_MS.end());
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|interval| bounds.contains(interval)).ok_or_else(|| "give 0.1 to 60 seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_bounds() {
        assert_eq!((interval("0.5"), interval("60")), (Ok(Duration::from_millis(500)), Ok(Duration::from_secs(60))));
        for wrong in ["0", "61", "-1", "NaN", "inf", "soon", ""] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_printed_page_has_no_keys_and_no_spaces_at_the_end() {
        let mut page = Page::new("/run/kernel".to_owned(), 1000);
        page.told(vec![fixture::adapter()]);
        let text = printed(&page);
        assert_eq!(text.lines().count(), 39);
        assert!(text.lines().all(|line| line == line.trim_end()) && !text.contains("quit"));
    }
}
