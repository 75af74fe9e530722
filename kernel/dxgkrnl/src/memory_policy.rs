//! The choices that the fact sheet leaves to the implementer (its rows tagged [R]) and that are numbers: their names as profiles and
//! command lines write them, and their ranges. Their defaults stand in [`vidmm::Policy`]; a profile, a host and the command line may
//! choose otherwise. Called by adapter start.

use vidmm::{Eviction, Policy};
use wddm_types::{PageRun, Pages};

/// A choice as it is written: a number, `max` for the largest there is, `on` and `off`, or the name of one of several ways.
trait Choice: Copy {
    /// The form of a written value.
    fn form() -> String;
    fn read(text: &str) -> Option<Self>;
    fn write(self) -> String;
    /// For its range; of a switch 0 or 1.
    fn number(self) -> u64;
}

impl Choice for bool {
    fn form() -> String {
        "on or off".to_owned()
    }

    fn read(text: &str) -> Option<bool> {
        match text {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        }
    }

    fn write(self) -> String {
        if self { "on" } else { "off" }.to_owned()
    }

    fn number(self) -> u64 {
        u64::from(self)
    }
}

impl Choice for Eviction {
    fn form() -> String {
        Eviction::ALL.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(" or ")
    }

    fn read(text: &str) -> Option<Eviction> {
        Eviction::ALL.iter().copied().find(|policy| policy.name() == text)
    }

    fn write(self) -> String {
        self.name().to_owned()
    }

    fn number(self) -> u64 {
        self as u64
    }
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Choice for $kind {
            fn form() -> String {
                "a number, or max".to_owned()
            }

            fn read(text: &str) -> Option<$kind> {
                if text == "max" { Some(<$kind>::MAX) } else { text.parse().ok() }
            }

            fn write(self) -> String {
                if self == <$kind>::MAX { "max".to_owned() } else { self.to_string() }
            }

            fn number(self) -> u64 {
                self as u64
            }
        }
    )*};
}

numbers!(u32, u64, usize);

impl Choice for Pages {
    fn form() -> String {
        "a number of 4-KB pages, or max".to_owned()
    }

    fn read(text: &str) -> Option<Pages> {
        u64::read(text).map(Pages)
    }

    fn write(self) -> String {
        self.0.write()
    }

    fn number(self) -> u64 {
        self.0
    }
}

/// A choice that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No choice has this name.
    #[error("no choice is called {name:?}; there are {}", MemoryPolicy::NAMES.join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// It may not be this.
    #[error("{name} cannot be {value:?}: {wanted}")]
    Value {
        /// The choice.
        name: &'static str,
        /// The value that was asked for.
        value: String,
        /// The values that it may have.
        wanted: String,
    },
}

/// VidMm's defaults, but for the first choice: by itself the memory manager refuses the later device, because that needs no turns.
const USUAL: Policy = Policy::new(PageRun { first: 0, count: Pages::ZERO });

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident: $kind:ty, $from:literal..=$to:expr, $default:expr;)*) => {
        /// The choices of one adapter; each is said in full at the field of its name in [`Policy`].
        // spec: memory §10.3
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct MemoryPolicy {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl MemoryPolicy {
            /// The recommended choices.
            pub const DEFAULT: MemoryPolicy = MemoryPolicy { $($name: $default,)* };

            /// The names, in the order in which they are shown.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// Makes one choice, as it is written.
            ///
            /// # Errors
            /// There is no such choice, or it may not be that; nothing has changed.
            pub fn choose(&mut self, name: &str, value: &str) -> Result<(), ChoiceError> {
                match name {
                    $(stringify!($name) => {
                        let range = $from..=$to;
                        let fits = |choice: &$kind| range.contains(&choice.number());
                        self.$name = <$kind>::read(value).filter(fits).ok_or_else(|| ChoiceError::Value {
                            name: stringify!($name),
                            value: value.to_owned(),
                            wanted: wanted(<$kind as Choice>::form(), *range.start(), *range.end()),
                        })?;
                    })*
                    _ => return Err(ChoiceError::Unknown { name: name.to_owned() }),
                }
                Ok(())
            }

            /// All choices by name, as they are written.
            pub fn written(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), self.$name.write()),)*]
            }

            /// Makes these choices for a memory manager.
            pub(crate) fn apply(&self, policy: &mut Policy) {
                $(policy.$name = self.$name;)*
            }
        }
    };
}

choices! {
    /// Which of the lazily evicted loses its place first (memory §8.2): the least recently used, or the one whose next use is foreseen last.
    eviction: Eviction, 0..=u64::MAX, USUAL.eviction;
    /// With the planner: what work only reads may stay in system memory, if its driver supports that and its room is worth more (memory §8.1).
    read_in_place: bool, 0..=1, USUAL.read_in_place;
    /// Devices whose lists do not fit beside each other take turns; else the kernel refuses the later one (memory §8.2).
    suspend_others: bool, 0..=1, true;
    /// How long a device keeps the room that it had from others, in nanoseconds (memory §8.6).
    residency_quantum_ns: u64, 1..=u64::MAX, USUAL.residency_quantum_ns;
    /// How many times as long as it took to bring a device back it runs at least.
    turn_worth: u64, 0..=1_000_000, USUAL.turn_worth;
    /// While the copy engine is idle, it copies out ahead the content that will be evicted first.
    write_back_ahead: bool, 0..=1, USUAL.write_back_ahead;
    /// While it is idle, so many free pages of each segment are cleared ahead.
    clear_ahead: Pages, 0..=u64::MAX, USUAL.clear_ahead;
    /// While it is idle, content moves to where it would rather be, if there is room (memory §8.1).
    promote: bool, 0..=1, USUAL.promote;
    /// So long devices that always run keep it from moving; then they stop for it. The default `u64::MAX` is for ever, because the ring
    /// waits for a device that stops, and some wait for what never comes.
    promote_patience_ns: u64, 0..=u64::MAX, USUAL.promote_patience_ns;
    /// The page tables of a process that has nothing to run leave when others need room for theirs (memory §4.6).
    evict_page_tables: bool, 0..=1, USUAL.evict_page_tables;
    /// So many pages at the beginning of a process's GPU addresses stay invalid (memory §4.6).
    invalid_pages: Pages, 1..=0x4_0000, USUAL.invalid_pages;
    /// Time between periodic trims, while there is pressure (memory §5.4).
    trim_period_ns: u64, 1..=u64::MAX, USUAL.trim_period_ns;
    /// Time between two requests to one process to trim to its budget (memory §5.4).
    trim_retry_ns: u64, 1..=u64::MAX, USUAL.trim_retry_ns;
    /// The part of a group in percent that all processes together may reserve (memory §5.5).
    reservable_percent: u64, 0..=100, USUAL.reservable_percent;
    /// A budget is told anew when it has changed by more than the group's size shifted right by this (memory §5.5).
    budget_step_shift: u32, 0..=63, USUAL.budget_step_shift;
    /// Steps of the search for a packing of a list that failed in its own order.
    plan_search_steps: u32, 0..=1_000_000, USUAL.plan_search_steps;
    /// Most that one sub-transfer moves (memory §3.2).
    transfer_pages_max: Pages, 1..=u64::MAX, USUAL.transfer_pages_max;
    /// Most windows of a CPU host aperture that are kept after the last unlock (memory §6.6).
    windows_kept_max: usize, 0..=u64::MAX, USUAL.windows_kept_max;
    /// Most locks outstanding on one allocation (memory §9.3).
    lock_count_max: u32, 1..=u64::MAX, USUAL.lock_count_max;
}

impl Default for MemoryPolicy {
    fn default() -> Self {
        MemoryPolicy::DEFAULT
    }
}

fn wanted(form: String, from: u64, to: u64) -> String {
    match (from, to) {
        (0, 1 | u64::MAX) => form,
        (from, u64::MAX) => format!("{form}, {from} at least"),
        (from, to) => format!("{form}, from {from} to {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_read_as_it_is_written() {
        // spec: memory §10.3
        let mut other = MemoryPolicy {
            eviction: Eviction::Planner,
            read_in_place: true,
            suspend_others: false,
            residency_quantum_ns: 1,
            clear_ahead: Pages(7),
            promote_patience_ns: 9,
            windows_kept_max: 3,
            ..MemoryPolicy::DEFAULT
        };
        for (name, value) in MemoryPolicy::DEFAULT.written() {
            other.choose(name, &value).expect("as it was written");
        }
        assert_eq!(other, MemoryPolicy::DEFAULT);
        assert_eq!(MemoryPolicy::NAMES.len(), other.written().len());
        for policy in Eviction::ALL {
            other.choose("eviction", policy.name()).expect("each policy has a name");
            assert_eq!(other.eviction, *policy);
        }
    }

    #[test]
    fn what_cannot_be_chosen_is_refused_and_says_what_can() {
        // spec: memory §10.3
        let mut policy = MemoryPolicy::DEFAULT;
        let refused = [
            ("eviction", "fifo", "eviction cannot be \"fifo\": lru or planner"),
            ("promote", "yes", "promote cannot be \"yes\": on or off"),
            ("transfer_pages_max", "0", "a number of 4-KB pages, or max, 1 at least"),
            ("reservable_percent", "101", "a number, or max, from 0 to 100"),
            ("turn_worth", "-1", "turn_worth cannot be \"-1\""),
            ("lock_count_max", "4294967296", "lock_count_max"),
            ("promotes", "on", "no choice is called \"promotes\"; there are eviction, read_in_place, suspend_others, "),
        ];
        for (name, value, says) in refused {
            let error = policy.choose(name, value).expect_err("it cannot be");
            assert!(error.to_string().contains(says), "{error}");
        }
        assert_eq!(policy, MemoryPolicy::DEFAULT);
    }

    #[test]
    fn what_is_chosen_reaches_the_memory_manager() {
        // spec: memory §10.3
        let mut chosen = MemoryPolicy::DEFAULT;
        chosen.choose("residency_quantum_ns", "5").expect("a number");
        chosen.choose("promote_patience_ns", "max").expect("the largest");
        let mut policy = USUAL;
        chosen.apply(&mut policy);
        assert_eq!(policy, Policy { suspend_others: true, residency_quantum_ns: 5, ..USUAL });
    }
}
