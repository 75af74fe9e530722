//! What one client may cost, and all of them together.

/// Limits. Whoever is over one is refused, or ended where there is nobody to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most clients at a time.
    pub clients: usize,
    /// Most lanes of a client: threads that wait in calls at the same time.
    pub lanes: usize,
    /// Most messages that wait for a client to hear them.
    pub unheard: usize,
    /// How long a client may take to say that a change of a mapping holds, in milliseconds. The adapter's paging waits for it.
    pub answer_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { clients: 64, lanes: 64, unheard: 65_536, answer_ms: 2_000 }
    }
}
