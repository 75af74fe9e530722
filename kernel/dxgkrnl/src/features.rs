//! Feature negotiation (sync §2.10, §3.1): the features that the kernel has, as its configuration narrows them, the driver's answers, and
//! the decision from the three. The kernel decides once, at adapter start; nothing changes it afterwards.
//!
//! A feature is on when all of these hold, asked in this order; the report names the first that does not:
//!
//! | asked | otherwise |
//! |---|---|
//! | the kernel knows the id | [`FeatureOff::Unknown`] |
//! | the kernel has it | [`FeatureOff::KernelLacks`] |
//! | the configuration has not switched it off | [`FeatureOff::SwitchedOff`] |
//! | (features of a driver) its answer succeeds and does not contradict itself | [`FeatureOff::QueryFailed`], [`FeatureOff::Contradiction`] |
//! | the driver has it, and has it here | [`FeatureOff::DriverLacks`], [`FeatureOff::Configuration`] |
//! | the two ranges of versions meet | [`FeatureOff::Versions`] |
//! | everything that it needs is on | [`FeatureOff::Needs`] |

mod known;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ddi::{
    DriverStatus, FeatureId, FeatureInterface, FeatureState, FeatureSupport, Miniport, NativeFenceInterface1,
    NativeFenceOsCaps, QueryFeatureInterface,
};

use known::{KNOWN, Known};

/// The configuration of features, as the registry would have it (`Features\<id>`): it can narrow what the kernel has, never widen it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeaturePolicy {
    /// By feature; one that is not named is left as it is.
    pub overrides: BTreeMap<FeatureId, FeatureOverride>,
    /// The native fence capabilities that the kernel allows (`DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1`).
    pub native_fence: NativeFenceOsCaps,
}

/// The configuration of one feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureOverride {
    /// `Enabled` = 0.
    pub off: bool,
    /// `MinVersion` and `MaxVersion`, both or none.
    pub versions: Option<(u16, u16)>,
    /// `AllowExperimental`: an implementation that its driver calls experimental counts.
    pub allow_experimental: bool,
}

impl FeaturePolicy {
    /// Everything as the kernel has it, but without these.
    pub fn without(features: impl IntoIterator<Item = FeatureId>) -> FeaturePolicy {
        let off = FeatureOverride { off: true, ..FeatureOverride::default() };
        FeaturePolicy {
            overrides: features.into_iter().map(|feature| (feature, off)).collect(),
            ..FeaturePolicy::default()
        }
    }

    fn of(&self, feature: FeatureId) -> FeatureOverride {
        self.overrides.get(&feature).copied().unwrap_or_default()
    }
}

/// Why a feature is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureOff {
    /// No such id.
    #[error("the kernel does not know it")]
    Unknown,
    /// The kernel knows the name only.
    #[error("the kernel does not have it")]
    KernelLacks,
    /// The configuration.
    #[error("switched off")]
    SwitchedOff,
    /// A failed query counts as not supported.
    #[error("the query failed: {0}")]
    QueryFailed(DriverStatus),
    /// An answer that cannot be: it counts as not supported.
    #[error("the driver's answer contradicts itself: {0}")]
    Contradiction(&'static str),
    /// The driver.
    #[error("the driver does not have it")]
    DriverLacks,
    /// The driver, on this machine.
    #[error("the driver does not have it on this machine")]
    Configuration,
    /// No version that both have.
    #[error("versions {kernel:?} of the kernel and {driver:?} of the driver do not meet")]
    Versions {
        /// Lowest and highest; the lowest is above the highest when the configuration leaves none.
        kernel: (u16, u16),
        /// The same of the driver.
        driver: (u16, u16),
    },
    /// Another feature is off.
    #[error("it needs {0}, which is off")]
    Needs(&'static str),
}

/// The outcome of the negotiation with one driver.
pub struct Features {
    states: BTreeMap<FeatureId, (FeatureState, Option<FeatureOff>)>,
    native_fence: NativeFenceOsCaps,
}

/// A feature as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureReport {
    /// Its name, `DXGK_FEATURE_` left out.
    pub name: &'static str,
    /// Its id.
    pub id: FeatureId,
    /// The decision.
    pub state: FeatureState,
    /// Why it is off.
    pub off: Option<FeatureOff>,
}

impl Features {
    /// Asks the driver for each of its features that the kernel knows, and decides.
    // spec: sync §3.1 steps 2 to 4
    pub fn negotiate(miniport: &mut dyn Miniport, policy: &FeaturePolicy) -> Features {
        let mut states: BTreeMap<FeatureId, (FeatureState, Option<FeatureOff>)> = BTreeMap::new();
        // In the table a needed feature stands before those that need it.
        for known in KNOWN.iter().filter(|known| !known.global) {
            let policy = policy.of(known.feature);
            let answer =
                known.of_driver.then(|| miniport.query_feature_support(known.feature, policy.allow_experimental));
            let is_on = |need: &FeatureId| states.get(need).is_some_and(|(state, _)| state.enabled);
            let missing = known.needs.iter().find(|need| !is_on(need)).map(|need| known::name(*need));
            states.insert(known.feature, decide(known, policy, answer, missing));
        }
        Features { states, native_fence: policy.native_fence }
    }

    /// A feature's state; one that the kernel does not know is off with version 0.
    pub fn state(&self, feature: FeatureId) -> FeatureState {
        self.states.get(&feature).map(|(state, _)| *state).unwrap_or_default()
    }

    /// Whether a feature is on.
    pub fn enabled(&self, feature: FeatureId) -> bool {
        self.state(feature).enabled
    }

    /// The native fence capabilities that the kernel allows; nothing while the feature is off.
    pub fn native_fence_os_caps(&self) -> NativeFenceOsCaps {
        if self.enabled(FeatureId::NATIVE_FENCE) { self.native_fence } else { NativeFenceOsCaps::default() }
    }

    /// `QueryFeatureInterface` of the kernel: the table, if there is room for it, and how large it is.
    // spec: sync §3.1 step 6, sync §3.1 (the size of an interface)
    pub fn query_interface(&self, query: &mut QueryFeatureInterface) -> Result<(), DriverStatus> {
        let interface = self.interface(query.feature, query.version)?;
        if interface.size() > query.size {
            return Err(DriverStatus::BufferTooSmall(
                "the table of the feature has more bytes than InterfaceSize says",
            ));
        }
        (query.size, query.interface) = (interface.size(), interface);
        Ok(())
    }

    fn interface(&self, feature: FeatureId, version: u16) -> Result<FeatureInterface, DriverStatus> {
        let state = self.state(feature);
        if !state.known {
            return Err(DriverStatus::InvalidParameter("no such feature"));
        }
        if !state.enabled {
            return Err(DriverStatus::Unsuccessful("the feature is off"));
        }
        if state.version != version {
            return Err(DriverStatus::Unsuccessful("another version was negotiated"));
        }
        Ok(match (feature, version) {
            (FeatureId::NATIVE_FENCE, 1) => {
                FeatureInterface::NativeFence1(NativeFenceInterface1::new(self.native_fence))
            }
            _ => FeatureInterface::None,
        })
    }

    /// Every feature that the kernel has, with what came of it.
    pub fn report(&self) -> Vec<FeatureReport> {
        let had = KNOWN.iter().filter(|known| known.versions.is_some());
        let report = |known: &Known| {
            let (state, off) = *self.states.get(&known.feature)?;
            Some(FeatureReport { name: known.name, id: known.feature, state, off })
        };
        had.filter_map(report).collect()
    }
}

/// The state of a feature of the whole machine; `None`: it is an adapter's, or unknown. This kernel has none of them.
// spec: sync §3.1 (before the kernel's initialisation only global features can be asked for)
pub fn global(feature: FeatureId) -> Option<FeatureState> {
    let known = KNOWN.iter().find(|known| known.feature == feature && known.global)?;
    assert!(known.versions.is_none(), "the kernel does not negotiate global features yet");
    Some(FeatureState { known: true, ..FeatureState::default() })
}

/// Decides about one feature, by the table at the head of this file.
// spec: sync §3.1 step 4
fn decide(
    known: &Known,
    policy: FeatureOverride,
    answer: Option<Result<FeatureSupport, DriverStatus>>,
    missing: Option<&'static str>,
) -> (FeatureState, Option<FeatureOff>) {
    let mut state = FeatureState { known: true, ..FeatureState::default() };
    let sound = answer.map(|answer| answer.map_err(FeatureOff::QueryFailed).and_then(check));
    if let Some(Ok(support)) = &sound {
        state.supported_by_driver = support.supported_by_driver;
        state.supported_on_current_config = support.supported_on_current_config;
    }
    let decided = (|| {
        let kernel = known.versions.ok_or(FeatureOff::KernelLacks)?;
        if policy.off {
            return Err(FeatureOff::SwitchedOff);
        }
        let kernel = match policy.versions {
            Some((least, most)) => (kernel.0.max(least), kernel.1.min(most)),
            None => kernel,
        };
        // A feature without a part of the driver is the kernel's alone.
        let driver = match sound.transpose()? {
            None => (1, u16::MAX),
            Some(support) if !support.supported_by_driver => return Err(FeatureOff::DriverLacks),
            Some(support) if !support.supported_on_current_config => return Err(FeatureOff::Configuration),
            Some(support) => (support.min_version, support.max_version),
        };
        let version = kernel.1.min(driver.1);
        if version < kernel.0.max(driver.0) {
            return Err(FeatureOff::Versions { kernel, driver });
        }
        match missing {
            Some(need) => Err(FeatureOff::Needs(need)),
            None => Ok(version),
        }
    })();
    state.enabled = decided.is_ok();
    state.version = decided.unwrap_or_default();
    (state, decided.err())
}

/// Whether a driver's answer can be.
// spec: sync §3.1 step 3
fn check(support: FeatureSupport) -> Result<FeatureSupport, FeatureOff> {
    let (least, most) = (support.min_version, support.max_version);
    if support.supported_by_driver && least == 0 {
        return Err(FeatureOff::Contradiction("supported, and MinSupportedVersion is 0"));
    }
    if support.supported_by_driver && most < least {
        return Err(FeatureOff::Contradiction("MaxSupportedVersion is below MinSupportedVersion"));
    }
    if !support.supported_by_driver && (least, most) != (0, 0) {
        return Err(FeatureOff::Contradiction("not supported, and it has versions"));
    }
    Ok(support)
}
