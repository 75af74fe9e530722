//! Handles of processes (memory §5.5): the operating system's, so no call here makes one. The host decides which process gets a handle of
//! which other, with which rights.

use serde::{Deserialize, Serialize};

bitflags::bitflags! {
    /// The rights of a handle of a process, as the operating system numbers them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ProcessAccess: u32 {
        /// `PROCESS_SET_INFORMATION`: to change its reservation.
        const SET_INFORMATION = 1 << 9;
        /// `PROCESS_QUERY_INFORMATION`: to see its figures.
        const QUERY_INFORMATION = 1 << 10;
    }
}
