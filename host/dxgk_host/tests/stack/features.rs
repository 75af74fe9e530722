//! Features and native-fence capabilities as user mode asks for them, on adapters that have them and on such that do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt::{Adapter, Wddm31Caps};
use ddi::{FeatureId, FeatureSupport};
use dxgk_host::{FeatureOverride, FeaturePolicy, Host, HostConfig, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::SurfaceKind;
use wddm_types::NtStatus;

use crate::stubborn::{Whims, wrapped};
use crate::world::{MIB, VIRTUAL, client};

fn config(profile: &str) -> HostConfig {
    let profile = Profile::named(profile).expect("a built-in profile");
    HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(profile, VIRTUAL)
    }
}

fn open(host: &Arc<Host>) -> Adapter {
    Adapter::open_first(ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>).expect("the adapter opens")
}

#[test]
fn features_are_asked_for_by_id() {
    // spec: sync §2.10, sync §3.1 step 8, sync §2.1
    // seed: N36, N42
    let adapter = open(&Host::start(config("discrete-4k")).unwrap());
    for feature in [0, 4, 37] {
        let result = adapter.is_feature_enabled(feature).unwrap();
        assert!(result.enabled && result.known && result.supported_by_driver && result.version == 1, "{feature}");
    }
    let flips = adapter.is_feature_enabled(1).unwrap();
    assert!(flips.known && !flips.enabled && flips.version == 0, "known by name: {flips:?}");
    let unknown = adapter.is_feature_enabled(0x2000_0000).unwrap();
    assert_eq!(unknown, d3dkmt::FeatureResult::default());
    assert_eq!(adapter.wddm_3_1_caps().unwrap(), Wddm31Caps::NATIVE_GPU_FENCE_SUPPORTED);
}

#[test]
fn what_a_driver_says_of_native_fences_counts_once() {
    // spec: sync §3.1
    let started = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&started);
    let caps = move |caps: &mut ddi::AdapterCaps| caps.native_gpu_fence &= !seen.load(Ordering::Relaxed);
    let mut config = config("discrete-4k");
    config.wrap_miniport = Some(wrapped(Whims { caps: Box::new(caps), ..Whims::default() }));
    let host = Host::start(config).expect("it starts");
    started.store(true, Ordering::Relaxed);
    assert_eq!(open(&host).wddm_3_1_caps().expect("an answer"), Wddm31Caps::NATIVE_GPU_FENCE_SUPPORTED);
    let mut client = client(&host);
    let surface = client.pinned(SurfaceKind::Local, 4096);
    client.run(|commands| {
        commands.fill(surface.va(), 8, 3);
    });
}

#[test]
fn features_of_the_machine_are_asked_for_without_an_adapter() {
    // spec: sync §2.10
    let adapter = open(&Host::start(config("discrete-4k")).unwrap());
    let (link, gpu_va_io_mmu) = (adapter.link().as_ref(), 36);
    let result = d3dkmt::is_global_feature_enabled(link, gpu_va_io_mmu).unwrap();
    assert!(result.known && !result.enabled);
    for refused in [
        d3dkmt::is_global_feature_enabled(link, 37),
        d3dkmt::is_global_feature_enabled(link, 0x7000_0000),
        adapter.is_feature_enabled(gpu_va_io_mmu),
    ] {
        assert_eq!(refused.expect_err("of the other kind").status, NtStatus::INVALID_PARAMETER);
    }
}

#[test]
fn an_adapter_of_the_first_generation_says_that_it_has_none() {
    // spec: sync §3.1
    let adapter = open(&Host::start(config("wddm1-banks")).unwrap());
    for feature in [0, 4, 37] {
        let result = adapter.is_feature_enabled(feature).unwrap();
        assert!(result.known && !result.enabled && !result.supported_by_driver && result.version == 0);
    }
    assert!(adapter.wddm_3_1_caps().unwrap().is_empty());
}

/// The configuration narrows versions: what is left does not meet the driver's, and the driver notices.
#[test]
fn the_configuration_narrows_and_the_reason_is_told() {
    // spec: sync §3.1 step 4
    // seed: N38
    let narrowed = FeatureOverride { versions: Some((2, 9)), ..FeatureOverride::default() };
    for (policy, word) in [
        (FeaturePolicy::without([FeatureId::USER_MODE_SUBMISSION]), "switched off"),
        (
            FeaturePolicy { overrides: [(FeatureId::USER_MODE_SUBMISSION, narrowed)].into(), ..Default::default() },
            "do not meet",
        ),
    ] {
        let host = Host::start(HostConfig { features: policy, ..config("discrete-4k") }).unwrap();
        let told = host.describe().features.into_iter().find(|f| f.id == FeatureId::USER_MODE_SUBMISSION).unwrap();
        assert!(told.off.is_some_and(|why| why.to_string().contains(word)), "{told:?}");
        let result = open(&host).is_feature_enabled(4).unwrap();
        assert!(!result.enabled && result.supported_by_driver);
    }
}

/// A driver that calls its fences experimental has them only where the configuration says so.
#[test]
fn an_experimental_implementation_counts_where_it_is_allowed() {
    // spec: sync §3.1 steps 3 and 4
    for allow_experimental in [false, true] {
        let experimental =
            |id, allowed: bool| (id == FeatureId::USER_MODE_SUBMISSION && !allowed).then(FeatureSupport::default);
        let whims = Whims { feature: Box::new(experimental), ..Whims::default() };
        let allowed = FeatureOverride { allow_experimental, ..FeatureOverride::default() };
        let features =
            FeaturePolicy { overrides: [(FeatureId::USER_MODE_SUBMISSION, allowed)].into(), ..Default::default() };
        let host =
            Host::start(HostConfig { features, wrap_miniport: Some(wrapped(whims)), ..config("discrete-4k") }).unwrap();
        assert_eq!(open(&host).is_feature_enabled(4).unwrap().enabled, allow_experimental);
    }
}
