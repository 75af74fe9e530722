//! The content of a context allocation (memory §7.5), as its allocation's record has it.

/// The driver's part in the content of a context allocation.
#[derive(Debug, Default)]
pub(crate) struct ContextContent {
    /// It has made the first content, which is kept like any other.
    pub initialized: bool,
    /// Changes that wait for all of it to be resident, oldest first.
    pub updates: Vec<Vec<u8>>,
}
