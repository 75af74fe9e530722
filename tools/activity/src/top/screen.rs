//! The terminal under the page: this module restores its state, however the page ends. Keys come in from here, cells go
//! out. It does not know the content of the page.
//!
//! Four ends need care. A panic must be readable: the hook puts the terminal back before the message is printed. Ctrl-C is a key here, since
//! the terminal is raw. A signal from elsewhere raises a flag, which the thread that waits for keys checks ([`Screen::key_within`]). The second such signal
//! ends the program without dropping anything: the handler calls [`give_back_if_taken`]. `hangup` detects a terminal that has hung up.

use std::io::{IsTerminal, Stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::layout::Rect;

use super::page::Key;

/// A terminal that shows a page. Dropping it gives the terminal back.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// An event from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// A key.
    Key(Key),
    /// It has another size, or nothing that means anything came: draw again.
    Else,
    /// The time is over.
    Nothing,
}

/// Whether there is a terminal to show pages on.
pub fn is_there() -> bool {
    std::io::stdout().is_terminal()
}

/// A terminal is to be given back.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When standard output is none.
    pub fn take() -> std::io::Result<Screen> {
        give_back_on_panic();
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        // From here on it is given back, also when what follows fails.
        let given = GiveBack;
        execute!(std::io::stdout(), EnterAlternateScreen, Hide)?;
        let terminal = Terminal::new(CrosstermBackend::new(std::io::stdout()))?;
        std::mem::forget(given);
        Ok(Screen { terminal })
    }

    /// Shows what is drawn.
    ///
    /// # Errors
    /// When the terminal has gone.
    pub fn show(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> std::io::Result<()> {
        self.terminal.draw(|frame| draw(frame.area(), frame.buffer_mut())).map(drop)
    }

    /// Waits for a key until then.
    ///
    /// # Errors
    /// When the terminal has gone.
    pub fn key_within(&self, time: Duration, stop: impl Fn() -> bool) -> std::io::Result<Came> {
        let began = Instant::now();
        loop {
            let left = time.saturating_sub(began.elapsed());
            if event::poll(left.min(LOOKS_EVERY))? {
                return Ok(match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => meaning(key).map_or(Came::Else, Came::Key),
                    _ => Came::Else,
                });
            }
            if left.is_zero() || stop() {
                return Ok(Came::Nothing);
            }
        }
    }
}

/// How long a signal may go unnoticed.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back when what follows [`enable_raw_mode`] fails.
struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back if it was taken: this program ends at once.
pub fn give_back_if_taken() {
    if TAKEN.load(Ordering::SeqCst) {
        give_back();
    }
}

fn give_back() {
    TAKEN.store(false, Ordering::SeqCst);
    // A terminal that has gone needs nothing.
    let _ = execute!(std::io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// A panic's message is for a terminal as it was.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
    });
}

/// Translates a key of the terminal into one of the page.
fn meaning(key: KeyEvent) -> Option<Key> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c' | 'd') if control => Key::Interrupt,
        KeyCode::Char(_) if control => return None,
        KeyCode::Char(typed) => Key::Char(typed),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::Up => Key::Rows(-1),
        KeyCode::Down => Key::Rows(1),
        KeyCode::PageUp => Key::Pages(-1),
        KeyCode::PageDown => Key::Pages(1),
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_meanings() {
        let plain = |code| meaning(KeyEvent::new(code, KeyModifiers::NONE));
        let control = |typed| meaning(KeyEvent::new(KeyCode::Char(typed), KeyModifiers::CONTROL));
        assert_eq!((control('c'), control('x'), plain(KeyCode::F(1))), (Some(Key::Interrupt), None, None));
        assert_eq!((plain(KeyCode::Char('S')), plain(KeyCode::Up)), (Some(Key::Char('S')), Some(Key::Rows(-1))));
    }
}
