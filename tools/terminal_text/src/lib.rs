//! Text for terminals: numbers as people read them ([`units`]), and text from elsewhere made fit to be shown ([`printable`]).
//!
//! It prints nothing: the streams are the command line's.

pub mod printable;
pub mod units;
