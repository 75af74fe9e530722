//! `openwddm top`: the activity of a served kernel, on a page or for a script. The page is `activity`'s. Called by `entry`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use activity::top::page::{INTERVALS_MS, Page};
use activity::top::{TopError, json, live, look_twice, printed, screen};
use clap::Args;
use kmt_link::socket::SocketLink;
use terminal_text::printable;

use crate::connected::unreachable_kernel;
use crate::console::Out;
use crate::error::RunError;

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

/// Shows the page until it is left.
///
/// # Errors
/// [`RunError::Argument`] when no daemon listens there or standard output is no terminal, [`RunError::Kernel`] when the kernel goes.
pub fn top(arguments: &TopArguments, stop: &AtomicBool, out: &mut Out) -> Result<u8, RunError> {
    let link = SocketLink::connect(&arguments.connect)
        .map_err(|error| unreachable_kernel(&arguments.connect, &error.to_string()))?;
    // CAST: at most a minute.
    let interval_ms = arguments.interval.as_millis() as u64;
    let mut page = Page::new(printable::path(&arguments.connect), interval_ms);
    if arguments.once {
        look_twice(&*link, &mut page).map_err(|refusal| ended(&refusal.into()))?;
        let text = if arguments.json { format!("{:#}\n", json::json(&page)) } else { printed(&page) };
        out.print(&text);
        return Ok(0);
    }
    if !screen::is_there() {
        return Err(RunError::Argument {
            argument: "top".to_owned(),
            problem: "standard output is no terminal".to_owned(),
            remedy: "give --once, and --json for a script".to_owned(),
        });
    }
    live(&*link, page, stop).map(|()| 0).map_err(|error| ended(&error))
}

fn ended(error: &TopError) -> RunError {
    let remedy = match error {
        TopError::Kernel(_) => "start the kernel again, and connect to it",
        TopError::Terminal(_) => "give --once where there is none",
    };
    RunError::Kernel { problem: error.to_string(), remedy: remedy.to_owned() }
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
}
