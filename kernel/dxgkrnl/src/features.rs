//! Feature negotiation between kernel and driver (sync §2.10, §3.1).

use std::collections::BTreeMap;

use ddi::{FeatureId, FeatureState, Miniport};

/// What the kernel itself supports: versions, and which features a feature needs. The documents do not list the needs;
/// these are the recommended ones (sync §6 B21).
// spec: sync §3.1, sync §2.10
const KNOWN: [Known; 3] = [
    Known { feature: FeatureId::HWSCH, versions: (1, 1), needs: &[] },
    Known { feature: FeatureId::NATIVE_FENCE, versions: (1, 1), needs: &[FeatureId::HWSCH] },
    Known {
        feature: FeatureId::USER_MODE_SUBMISSION,
        versions: (1, 1),
        needs: &[FeatureId::HWSCH, FeatureId::NATIVE_FENCE],
    },
];

struct Known {
    feature: FeatureId,
    versions: (u16, u16),
    needs: &'static [FeatureId],
}

/// The outcome of the negotiation with one driver; it does not change afterwards.
pub struct Features {
    states: BTreeMap<FeatureId, FeatureState>,
}

impl Features {
    /// Asks the driver for each feature that the kernel knows. `switched_off` are features that the configuration turns off
    /// on the kernel's side.
    pub fn negotiate(miniport: &mut dyn Miniport, switched_off: &[FeatureId]) -> Features {
        let mut states = BTreeMap::new();
        // Needs stand before those who need them in the table.
        for known in &KNOWN {
            let mut state = FeatureState { known: true, ..FeatureState::default() };
            // A failed query counts as not supported.
            if let Ok(support) = miniport.query_feature_support(known.feature, false) {
                state.supported_by_driver = support.supported_by_driver;
                state.supported_on_current_config = support.supported_on_current_config;
                let version = support.max_version.min(known.versions.1);
                let meet = version >= support.min_version.max(known.versions.0) && version != 0;
                let needs =
                    known.needs.iter().all(|need| states.get(need).is_some_and(|state: &FeatureState| state.enabled));
                let on = !switched_off.contains(&known.feature);
                state.enabled =
                    on && meet && needs && support.supported_by_driver && support.supported_on_current_config;
                state.version = if state.enabled { version } else { 0 };
            }
            states.insert(known.feature, state);
        }
        Features { states }
    }

    /// A feature's state; one that the kernel does not know is off with version 0.
    pub fn state(&self, feature: FeatureId) -> FeatureState {
        self.states.get(&feature).copied().unwrap_or_default()
    }

    /// Whether a feature is on.
    pub fn enabled(&self, feature: FeatureId) -> bool {
        self.state(feature).enabled
    }
}
