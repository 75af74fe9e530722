//! The adapter of a file while it is put together: the profile, and what several of its fields follow from. Called by `file`.

use ddi::{DdiVersion, DriverModel};
use softgpu_kmd::{KmdConfig, Layout, PeerMode};
use softgpu_spec::page_table::{LEAF_64KB_BITS, LEVELS_MIN, Shape};

use crate::config::{HostConfig, Mode};
use crate::host::Host;
use crate::profile::Profile;

/// An adapter that is not finished.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// Its name.
    pub name: String,
    /// Its line for people.
    pub description: String,
    /// All other fields; those that the fields below give are old.
    pub profile: Profile,
    /// The level that the driver states.
    pub wddm: DdiVersion,
    /// The segments, without their sizes.
    pub layout: Layout,
    /// Bytes between the two memory segments, where there are two.
    pub hidden_bytes: u64,
    /// Index bits of each page-table level, the leaf first.
    pub index_bits: Vec<u32>,
    /// Entries above the leaves name two tables.
    pub dual_entries: bool,
    /// Its fences are native.
    pub native_fences: bool,
    /// The engines are reset together.
    pub reset_together: bool,
}

/// Shortest time from blank to blank: ten thousand pictures a second.
const PERIOD_NS_MIN: u64 = 100_000;
/// A bit for each engine.
const ALL_ENGINES: u64 = 0b11;

impl Draft {
    /// An adapter as a draft.
    pub fn of(profile: &Profile) -> Draft {
        let (layout, hidden_bytes) = match profile.driver.layout {
            Layout::TwoMemories { hidden_bytes, .. } => (TWO_MEMORIES, hidden_bytes),
            other => (other, 0),
        };
        let shape = profile.shape;
        Draft {
            name: profile.name.to_owned(),
            description: profile.description.to_owned(),
            profile: *profile,
            wddm: profile.driver.ddi_version(),
            layout,
            hidden_bytes,
            index_bits: (0..shape.levels()).map(|level| shape.index_bits(level)).collect(),
            dual_entries: shape.has_dual_entries(),
            native_fences: profile.has_hardware_queues(),
            reset_together: profile.reset_group == ALL_ENGINES,
        }
    }

    /// The profile, with the name of the one that the draft began with.
    ///
    /// # Errors
    /// The rule that keeps a device or its driver from being built so.
    pub fn finished(&self) -> Result<Profile, String> {
        let layout = match self.layout {
            Layout::TwoMemories { .. } => Layout::TwoMemories { second_bytes: 0, hidden_bytes: self.hidden_bytes },
            other => other,
        };
        let driver = KmdConfig { driver_model: self.wddm.model(), ddi_version: None, layout, ..self.profile.driver };
        // A level that the choices need anyway is not stated, so that it follows them.
        let stated = (driver.ddi_version() != self.wddm).then_some(self.wddm);
        let reset_group = if self.reset_together { ALL_ENGINES } else { 0 };
        let driver = KmdConfig { ddi_version: stated, ..driver };
        let profile = Profile { driver, shape: self.shape()?, reset_group, ..self.profile };
        let profile = Profile { driver: profile.driver_for(profile.vram_bytes), ..profile };
        let rules = self.rules(&profile);
        match rules.iter().find(|(kept, _)| !kept) {
            Some((_, rule)) => Err((*rule).to_owned()),
            None => Ok(profile),
        }
    }

    /// Rules that the start of an adapter does not see: what goes with hardware queues, which it leaves off without a word, the blanks of a
    /// display, and the range between two memories where there are not two.
    fn rules(&self, profile: &Profile) -> [(bool, &'static str); 8] {
        let (driver, queues) = (&profile.driver, profile.has_hardware_queues());
        let caps = profile.fence_caps;
        [
            (
                !driver.hardware_queues
                    || driver.driver_model == DriverModel::Wddm1
                    || self.wddm >= DdiVersion::WDDM_3_2,
                "the hardware queues of this GPU signal native fences, which exist from WDDM 3.2 on",
            ),
            (
                self.native_fences == queues,
                "native fences belong to hardware queues: fences.native is as engines.hardware_scheduling, and false below WDDM 2.0",
            ),
            (
                queues || !(caps.optimized_default_fence_type || caps.intra_gpu_fence_type),
                "fences.local_monitored and fences.intra_gpu are types of native fences",
            ),
            (queues || !driver.optimized_fence_interrupt, "fences.optimized_interrupt belongs to native fences"),
            (queues || driver.peers == PeerMode::None, "fences.peers needs native fences"),
            (
                profile.displays.count == 0
                    || profile.displays.period_ns >= PERIOD_NS_MIN && profile.displays.queue_entries > 0,
                "a display has 100000 ns at least from blank to blank (displays.period_ns), and room for a flip (displays.queue_entries)",
            ),
            (!queues || profile.signal_bits == 64, "native fences have 64 bits, and engines that signal 32 have none"),
            (
                self.hidden_bytes == 0 || matches!(self.layout, Layout::TwoMemories { .. }),
                "memory.hidden belongs to two memories: give memory.layout = \"two-memories\", or memory.hidden = 0",
            ),
        ]
    }

    fn shape(&self) -> Result<Shape, String> {
        let shape = Shape::checked(&self.index_bits);
        let shape = shape.ok_or("there are 2 to 6 page-table levels of 1 to 20 index bits, 63 address bits at most")?;
        if !self.dual_entries {
            return Ok(shape);
        }
        if shape.levels() > LEVELS_MIN && shape.index_bits(0) >= LEAF_64KB_BITS {
            return Ok(shape.with_dual_entries());
        }
        Err("dual entries stand between the root and leaf tables of 16 entries or more".to_owned())
    }
}

/// Two memory segments, without their sizes.
pub(super) const TWO_MEMORIES: Layout = Layout::TwoMemories { second_bytes: 0, hidden_bytes: 0 };

/// Starts the adapter without a stored byte, in virtual time: what keeps it from starting.
pub(super) fn refused(profile: &Profile) -> Option<String> {
    let host = Host::start(HostConfig::new(profile, Mode::Virtual { stored: false }));
    host.err().map(|error| error.to_string())
}
