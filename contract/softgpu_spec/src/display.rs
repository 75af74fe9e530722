//! Displays: outputs that read a surface row by row, over and over, and show it. A device has as many as [`DISPLAYS`] says, 0 too.
//!
//! # Time
//! Blank `n` of a display begins at [`DISPLAY_EPOCH`] plus `n` times [`DISPLAY_PERIOD`]; the epoch is the moment in which it was
//! enabled. At a blank the display takes over what it shows next, and says so with [`crate::register::record::VSYNC`] if it is asked
//! to. Behind the blank it reads the rows, from the first to the last, in [`BANDS`] bands of equal time.
//!
//! # Flips
//! A flip is an address that is to be shown, with the time before which it is not, and an id that its owner gives it. Flips
//! wait in a queue of [`DISPLAY_QUEUE_ENTRIES`]. At a blank every flip at the front whose time has come is taken out; what
//! is shown is the last of these. So with times of 0 that are written one a blank, each is shown; of several whose times have come, the
//! newest is, and the others never were. An immediate flip is shown from the next row on, whatever the queue holds.
//!
//! A display that is given a log says there what became of each flip, in their order: behind the blank at which it is shown, or passed
//! over, and before the record of that blank. Flips that are taken back are not in it. The log is a ring of entries of two words: the
//! id, and the time of the blank (of an immediate flip: its own), or [`NEVER_SHOWN`].
//!
//! # Alarms
//! A display has [`ALARMS`] alarms. One that is set tells, with [`crate::register::record::ALARM`], so long before each blank of a display
//! that is on; it stays set when the display is switched off.
//!
//! # Texels
//! 32 bits: blue in the low byte, then green, red, and 8 bits that are not shown. Rows are [`DISPLAY_PITCH`] apart. An address without
//! memory behind it shows black.

/// Rows of a frame are read in so many bands; the blank takes the time of one more.
pub const BANDS: u64 = 8;
/// Most displays that a device has.
pub const DISPLAYS_MAX: u32 = 8;
/// Where a row begins is a multiple of this.
pub const PITCH_ALIGNMENT_BYTES: u64 = 64;
/// Bytes of a texel.
pub const TEXEL_BYTES: u64 = 4;

/// r: how many displays there are.
pub const DISPLAYS: u32 = 0x500;
/// rw: which display the next registers address.
pub const DISPLAY_SELECT: u32 = 0x508;
/// rw: texels of a row, and rows in the upper half.
pub const DISPLAY_SIZE: u32 = 0x510;
/// rw: bytes from one row to the next, a multiple of [`PITCH_ALIGNMENT_BYTES`].
pub const DISPLAY_PITCH: u32 = 0x518;
/// r: nanoseconds from one blank to the next.
pub const DISPLAY_PERIOD: u32 = 0x520;
/// rw: [`control`]. Enabling shows [`DISPLAY_FLIP_ADDRESS`] at once; disabling forgets every flip and shows black.
pub const DISPLAY_CONTROL: u32 = 0x528;
/// rw: bus address of the next flip.
pub const DISPLAY_FLIP_ADDRESS: u32 = 0x530;
/// rw: device time before which the next flip is not shown.
pub const DISPLAY_FLIP_TIME: u32 = 0x538;
/// rw: id of the next flip.
pub const DISPLAY_FLIP_ID: u32 = 0x540;
/// w: [`flip`]. Into a full queue nothing goes. r: how many flips wait.
pub const DISPLAY_FLIP: u32 = 0x548;
/// r: how many flips may wait.
pub const DISPLAY_QUEUE_ENTRIES: u32 = 0x550;
/// r: the address that is shown; 0 while the display is off.
pub const DISPLAY_ADDRESS: u32 = 0x558;
/// r: device time at which the display was enabled.
pub const DISPLAY_EPOCH: u32 = 0x560;
/// r: frames that the monitor has got; without a monitor the device reads no frame.
pub const DISPLAY_FRAMES: u32 = 0x568;
/// r: those of them that were torn: rows changed behind the blank, or came from two surfaces.
pub const DISPLAY_TORN: u32 = 0x570;
/// w: takes back the flips that wait and whose id is this or greater. r: the least id that the last write has taken back; 0: none.
pub const DISPLAY_CANCEL: u32 = 0x578;

/// rw: which alarm of the display the next register addresses.
pub const DISPLAY_ALARM_SELECT: u32 = 0x580;
/// rw: nanoseconds before each blank, at most [`DISPLAY_PERIOD`], and [`ALARM_SET`]; without that it is silent.
pub const DISPLAY_ALARM: u32 = 0x588;

/// rw: bus address of the log, 8-byte aligned; 0: there is none. It is empty when the write returns.
pub const DISPLAY_LOG: u32 = 0x590;
/// rw: entries of the log.
pub const DISPLAY_LOG_ENTRIES: u32 = 0x598;
/// r: entries that were written since the log was given. Entry `n` is in place `n` modulo the entries.
pub const DISPLAY_LOG_COUNT: u32 = 0x5a0;
/// rw: only blanks at which a flip of this id or a greater one is on the screen are told, and only such immediate flips. 0: all of them;
/// all ones: none.
pub const DISPLAY_TOLD_ID: u32 = 0x5a8;
/// r: the id of the flip that is shown.
pub const DISPLAY_SHOWN_ID: u32 = 0x5b0;

/// Bytes of an entry of a log.
pub const LOG_ENTRY_BYTES: u64 = 16;
/// The time of a flip that never was on the screen: a newer one's had come.
pub const NEVER_SHOWN: u64 = 0;

/// Alarms of a display.
pub const ALARMS: usize = 8;
/// Of [`DISPLAY_ALARM`].
pub const ALARM_SET: u64 = 1 << 63;

/// Bits of [`DISPLAY_CONTROL`].
pub mod control {
    /// It reads and shows.
    pub const ENABLE: u64 = 1;
    /// It tells of each blank.
    pub const VSYNC_INTERRUPT: u64 = 2;
}

/// Values written to [`DISPLAY_FLIP`].
pub mod flip {
    /// At a blank.
    pub const ON_VSYNC: u64 = 1;
    /// From the next row on. Its time is not looked at.
    pub const IMMEDIATE: u64 = 2;
}

/// The surface's size in [`DISPLAY_SIZE`].
pub const fn size(width: u32, height: u32) -> u64 {
    width as u64 | (height as u64) << 32
}

/// The pitch of a surface of so many texels a row.
pub const fn pitch_bytes(width: u32) -> u64 {
    (width as u64 * TEXEL_BYTES).next_multiple_of(PITCH_ALIGNMENT_BYTES)
}
