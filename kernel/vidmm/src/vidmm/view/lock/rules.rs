//! The table of memory §6.3: what a lock does with an allocation, by what it is and where it lies. A pure decision;
//! `lock` carries it out.
//!
//! | # | allocation | where | ruling |
//! |---|---|---|---|
//! | 1 | visible, cached | memory segment | out to system memory, else refused |
//! | 2 | visible, cached | system memory | in place |
//! | 3 | visible, not cached | segment behind the BAR | the BAR |
//! | 4 | visible, not cached | segment with a host aperture | a window, else 6 |
//! | 5 | visible, not cached | segment out of reach | 6 |
//! | 6 | fallback | | out to system memory, else refused |
//! | 7 | visible, not cached | system memory | in place |
//! | 8 | not visible | system memory, or an aperture is supported | in place, or out to system memory |
//! | 9 | not visible | memory segment, no aperture | refused |

/// Where content lies, as the CPU sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// In system pages: not resident, or reached by the GPU there.
    System,
    /// In a memory segment behind the BAR (`CpuVisible`).
    Bar,
    /// In a memory segment with a CPU host aperture.
    Windowed,
    /// In a memory segment that the CPU does not reach.
    OutOfReach,
}

/// The inputs of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub cpu_visible: bool,
    pub cached: bool,
    /// The CPU sees a permanent system copy (memory §2.2 bits 1 and 4).
    pub keeps_copy: bool,
    pub medium: Medium,
    /// It may leave for system memory: an aperture is in its supported set, or no device's list holds it any more.
    pub may_leave: bool,
}

/// The outcome of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// The system pages, as they are.
    InPlace,
    /// Local memory through the BAR.
    Bar,
    /// Local memory through the host aperture; without pages there, [`fallback`].
    Window,
    /// The system pages, while the content stays in local memory.
    SystemCopy,
    /// To system memory first.
    MoveOut,
    /// `STATUS_GRAPHICS_CANT_LOCK_MEMORY`.
    Refuse,
}

/// The row that a lock falls under, and what it says.
// spec: memory §6.3
pub(crate) fn ruling(subject: Subject) -> (u8, Ruling) {
    let Subject { cpu_visible, cached, keeps_copy, medium, may_leave } = subject;
    if keeps_copy && medium != Medium::System {
        return (7, Ruling::SystemCopy);
    }
    match (cpu_visible, cached, medium) {
        (true, true, Medium::System) => (2, Ruling::InPlace),
        (true, true, _) => (1, fallback(may_leave)),
        (true, false, Medium::System) => (7, Ruling::InPlace),
        (true, false, Medium::Bar) => (3, Ruling::Bar),
        (true, false, Medium::Windowed) => (4, Ruling::Window),
        (true, false, Medium::OutOfReach) => (5, fallback(may_leave)),
        (false, _, Medium::System) => (8, Ruling::InPlace),
        (false, _, _) if may_leave => (8, Ruling::MoveOut),
        (false, _, _) => (9, Ruling::Refuse),
    }
}

/// Row 6.
pub(crate) fn fallback(may_leave: bool) -> Ruling {
    if may_leave { Ruling::MoveOut } else { Ruling::Refuse }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: memory §6.3
    // seed: U13
    // seed: U14
    // seed: U15
    // seed: U17
    // seed: U18
    #[test]
    fn every_row_of_the_table() {
        use Medium::{Bar, OutOfReach, System, Windowed};
        use Ruling::{InPlace, MoveOut, Refuse, SystemCopy, Window};
        // visible, cached, medium, row, with a way out, without
        let rows = [
            (true, true, Bar, 1, MoveOut, Refuse),
            (true, true, Windowed, 1, MoveOut, Refuse),
            (true, true, OutOfReach, 1, MoveOut, Refuse),
            (true, true, System, 2, InPlace, InPlace),
            (true, false, Bar, 3, Ruling::Bar, Ruling::Bar),
            (true, false, Windowed, 4, Window, Window),
            (true, false, OutOfReach, 5, MoveOut, Refuse),
            (true, false, System, 7, InPlace, InPlace),
            (false, false, System, 8, InPlace, InPlace),
            (false, true, System, 8, InPlace, InPlace),
        ];
        for (cpu_visible, cached, medium, row, with, without) in rows {
            for (may_leave, expected) in [(true, with), (false, without)] {
                let subject = Subject { cpu_visible, cached, keeps_copy: false, medium, may_leave };
                assert_eq!(ruling(subject), (row, expected), "{subject:?}");
                let (_, copy) = ruling(Subject { keeps_copy: true, ..subject });
                let stays = if medium == System { InPlace } else { SystemCopy };
                assert_eq!(copy, stays, "a system copy, wherever it is: {subject:?}");
            }
        }
        for (cached, medium) in [false, true].into_iter().flat_map(|c| [Bar, Windowed, OutOfReach].map(|m| (c, m))) {
            let subject = |may_leave| Subject { cpu_visible: false, cached, keeps_copy: false, medium, may_leave };
            assert_eq!(ruling(subject(true)), (8, MoveOut), "{medium:?}");
            assert_eq!(ruling(subject(false)), (9, Refuse), "{medium:?}");
        }
        assert_eq!((fallback(true), fallback(false)), (MoveOut, Refuse), "row 6");
    }
}
