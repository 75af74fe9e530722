//! Colours and weights, by what they mean. Without colour (`NO_COLOR`) weights are left.

use ratatui::style::{Color, Modifier, Style};
use wddm_types::ProcessId;

/// With colours, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    /// The terminal shows colours.
    pub coloured: bool,
}

/// One after the other for processes: of similar lightness, so that none looks more important.
const PROCESSES: [Color; 8] = [
    Color::Indexed(75),
    Color::Indexed(215),
    Color::Indexed(114),
    Color::Indexed(176),
    Color::Indexed(222),
    Color::Indexed(80),
    Color::Indexed(210),
    Color::Indexed(147),
];

impl Ink {
    fn colour(self, colour: Color) -> Style {
        if self.coloured { Style::new().fg(colour) } else { Style::new() }
    }

    /// A process, everywhere.
    pub fn process(self, process: ProcessId) -> Style {
        match process {
            ProcessId::SYSTEM => self.colour(Color::Indexed(246)),
            ProcessId(number) => self.colour(PROCESSES[number as usize % PROCESSES.len()]),
        }
    }

    /// Load or memory that no process accounts for.
    pub fn unaccounted(self) -> Style {
        self.colour(Color::Indexed(246))
    }

    /// Free memory.
    pub fn free(self) -> Style {
        self.colour(Color::Indexed(238))
    }

    /// Lines of frames.
    pub fn frame(self) -> Style {
        self.colour(Color::Indexed(240))
    }

    /// Titles of frames.
    pub fn title(self) -> Style {
        self.colour(Color::Indexed(252)).add_modifier(Modifier::BOLD)
    }

    /// Names and units beside a figure.
    pub fn quiet(self) -> Style {
        self.colour(Color::Indexed(245))
    }

    /// Numbers of figures.
    pub fn figure(self) -> Style {
        self.colour(Color::Indexed(255))
    }

    /// Curves of loads and rates.
    pub fn curve(self) -> Style {
        self.colour(Color::Indexed(73))
    }

    /// Alarms: a lost device, a reset, a stopped adapter.
    pub fn alarm(self) -> Style {
        self.colour(Color::Indexed(203)).add_modifier(Modifier::BOLD)
    }

    /// Warnings: demoted memory, a budget that is used up.
    pub fn warning(self) -> Style {
        self.colour(Color::Indexed(221))
    }

    /// Heads of columns; the one by which is sorted.
    pub fn head(self, chosen: bool) -> Style {
        let style = self.colour(if chosen { Color::Indexed(117) } else { Color::Indexed(245) });
        style.add_modifier(if chosen { Modifier::BOLD } else { Modifier::empty() })
    }

    /// A key in the last line.
    pub fn key(self) -> Style {
        self.colour(Color::Indexed(117)).add_modifier(Modifier::BOLD)
    }
}
