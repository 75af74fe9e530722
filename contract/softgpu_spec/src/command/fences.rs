//! Waits and signals by themselves: work on other engines waits for these commands. A device sees by two numbers whether a command is one
//! of them, and need not decode all others.

use super::encoding::op;
use super::{Command, LogSlot};

/// A command about a fence; its fields are those of [`Command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceCommand {
    /// [`Command::Wait`].
    Wait {
        /// Address of a CurrentValue.
        va: u64,
        /// The value to be reached.
        value: u64,
        /// Where to log.
        log: Option<LogSlot>,
    },
    /// [`Command::Signal`].
    Signal {
        /// Address of a CurrentValue.
        current_va: u64,
        /// Address of its MonitoredValue.
        monitored_va: u64,
        /// The value.
        value: u64,
        /// Where to log.
        log: Option<LogSlot>,
    },
}

impl FenceCommand {
    /// Words of the longest.
    pub const WORDS_MAX: usize = 4 + LogSlot::WORDS;

    /// Decodes the words of one command, if it is a wait or a signal.
    #[inline]
    pub fn decode(words: &[u64]) -> Option<FenceCommand> {
        let log = |at: usize| {
            let slot = &words[at..at + LogSlot::WORDS];
            // CAST: a handle has 32 bits.
            LogSlot { entry_va: slot[0], header_va: slot[1], handle: slot[2] as u32 }
        };
        let wait = |log| FenceCommand::Wait { va: words[1], value: words[2], log };
        let signal = |log| FenceCommand::Signal { current_va: words[1], monitored_va: words[2], value: words[3], log };
        // CAST: the opcode is the low byte.
        match (*words.first()? as u8, words.len()) {
            (op::WAIT, 3) => Some(wait(None)),
            (op::WAIT, 6) => Some(wait(Some(log(3)))),
            (op::SIGNAL, 4) => Some(signal(None)),
            (op::SIGNAL, 7) => Some(signal(Some(log(4)))),
            _ => None,
        }
    }
}

impl From<FenceCommand> for Command<'_> {
    fn from(command: FenceCommand) -> Self {
        match command {
            FenceCommand::Wait { va, value, log } => Command::Wait { va, value, log },
            FenceCommand::Signal { current_va, monitored_va, value, log } => {
                Command::Signal { current_va, monitored_va, value, log }
            }
        }
    }
}
