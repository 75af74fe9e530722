//! The activity of a kernel on a page of the terminal (`openwddm top`), which is drawn again and again, or once for a script.
//!
//! | module | what it is |
//! |---|---|
//! | `rates` | two answers become numbers a second |
//! | `page` | the state of the page and the effects of keys, as a value; `rows`, `columns`, `history` are its parts |
//! | `draw` | the page becomes cells, whatever the size |
//! | `screen` | the terminal |
//! | `hangup` | whether the terminal has hung up |
//! | `json` | the page for scripts |

pub mod columns;
pub mod draw;
mod hangup;
pub mod history;
pub mod json;
pub mod page;
pub mod rates;
pub mod rows;
pub mod screen;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use d3dkmt::Refusal;
use kmt_link::Link;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::draw::Ink;
use self::page::{Next, Page};
use self::screen::{Came, Screen};
use crate::feed;

/// Why a page ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The kernel does not answer any more.
    #[error(transparent)]
    Kernel(#[from] Refusal),
    /// The terminal does not work.
    #[error("the terminal: {0}")]
    Terminal(#[from] std::io::Error),
}

/// The size of a page that is printed.
const PRINTED: (u16, u16) = (120, 40);

/// Looks at the kernel twice, an interval of the page apart.
///
/// # Errors
/// When the kernel goes.
pub fn look_twice(link: &dyn Link, page: &mut Page) -> Result<(), Refusal> {
    page.told(feed::read(link)?);
    std::thread::sleep(Duration::from_millis(page.interval_ms));
    page.told(feed::read(link)?);
    Ok(())
}

/// The page as text, without the meanings of keys.
pub fn printed(page: &Page) -> String {
    let area = Rect::new(0, 0, PRINTED.0, PRINTED.1);
    let mut out = Buffer::empty(area);
    draw::draw(page, Ink { coloured: false }, area, &mut out);
    let line = |row: &[ratatui::buffer::Cell]| {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        format!("{}\n", line.trim_end())
    };
    out.content.chunks(PRINTED.0 as usize).take(PRINTED.1 as usize - 1).map(line).collect()
}

/// Draws and looks until a key or a signal (`stop`) ends it, or the kernel goes. A terminal that goes ends it as a signal does.
///
/// # Errors
/// [`TopError`].
pub fn live(link: &dyn Link, mut page: Page, stop: &AtomicBool) -> Result<(), TopError> {
    let ink = Ink { coloured: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
    page.told(feed::read(link)?);
    let mut screen = Screen::take()?;
    hangup::end_with_terminal()?;
    // The second look comes soon: there are no rates before.
    let mut next = Instant::now() + Duration::from_millis(page.interval_ms.min(250));
    loop {
        match screen.show(|area, out| draw::draw(&page, ink, area, out)) {
            Err(_) if hangup::has_gone() => return Ok(()),
            shown => shown?,
        }
        let left = next.saturating_duration_since(Instant::now());
        let stopped = || stop.load(Ordering::Relaxed);
        match screen.key_within(left, stopped) {
            Err(_) if hangup::has_gone() => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(Came::Key(key)) => {
                let before = page.interval_ms;
                if page.pressed(key) == Next::Quit {
                    return Ok(());
                }
                if page.interval_ms != before {
                    next = next.min(Instant::now() + Duration::from_millis(page.interval_ms));
                }
            }
            Ok(Came::Else) => {}
            Ok(Came::Nothing) if stopped() => return Ok(()),
            Ok(Came::Nothing) => {
                page.told(feed::read(link)?);
                next = Instant::now() + Duration::from_millis(page.interval_ms);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_printed_page_has_no_keys_and_no_spaces_at_the_end() {
        let mut page = Page::new("/run/kernel".to_owned(), 1000);
        page.told(vec![fixture::adapter()]);
        let text = printed(&page);
        assert_eq!(text.lines().count(), 39);
        assert!(text.lines().all(|line| line == line.trim_end()) && !text.contains("quit"));
    }
}
