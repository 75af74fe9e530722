//! Features and native-fence capabilities as user mode asks for them, on adapters that have them and on such that do not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::{
    Adapter, FenceFlags, NativeFenceRequest, NtHandle, OpenSyncObjectRequest, SyncObjectAccess, VirtualContext,
    Wddm31Caps,
};
use ddi::{FeatureId, FeatureSupport};
use dxgk_host::{FeatureOverride, FeaturePolicy, Host, HostConfig, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::{Commands, SurfaceKind};
use wddm_types::{GpuVa, NodeId, NtStatus};

use crate::monitored::Buffer;
use crate::stubborn::{Whims, wrapped};
use stack::world::{MIB, VIRTUAL, client, gpu_on, host_of_several};

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

/// The configuration narrows versions: the rest does not meet the driver's, and the driver notices.
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

/// The kernel's calls to a driver about native fences and their logs.
fn counted() -> (Whims, Arc<Mutex<Vec<String>>>) {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let [fences, logs, storage] = [(); 3].map(|()| Arc::clone(&told));
    let whims = Whims {
        packets: true,
        hear_fence: Box::new(move |step| fences.lock().unwrap().push(format!("{step:?}"))),
        hear_log: Box::new(move |step| {
            logs.lock().unwrap().push(format!("{step:?}"));
            Ok(())
        }),
        fence_storage: Box::new(move |surface| storage.lock().unwrap().push(format!("{surface:?}"))),
        ..Whims::default()
    };
    (whims, told)
}

/// An adapter that runs with its feature switched off, beside one that has it: fences of its own and of both, packets, a tool that
/// traces, a lost device. Its driver has every entry point, and the kernel calls none.
#[test]
fn an_adapter_runs_with_the_feature_off_and_no_entry_point_of_it_is_called() {
    // spec: sync §3.1, sync §2.6
    // seed: N43
    for off in [FeatureId::NATIVE_FENCE, FeatureId::HWSCH] {
        let told: Vec<_> = (0..2).map(|_| counted()).collect();
        let (whims, told): (Vec<Whims>, Vec<_>) = told.into_iter().unzip();
        let whims = Mutex::new(whims);
        let host = host_of_several(VIRTUAL, &["discrete-4k", "discrete-4k"], |index, setup| {
            setup.wrap_miniport = Some(wrapped(whims.lock().unwrap().remove(0)));
            if index == 0 {
                setup.features = FeaturePolicy::without([off]);
            }
        });
        let drain = || while host.step() {};
        let link = ProcessLink::new(Arc::clone(&host));
        let (without, with) = (gpu_on(&host, &link, 0), gpu_on(&host, &link, 1));
        assert!(without.adapter().wddm_3_1_caps().unwrap().is_empty() && !without.has_user_queues());
        let refused = without.device().create_native_fence(NativeFenceRequest::default());
        assert_eq!(refused.err().expect("there are none").status, NtStatus::NOT_SUPPORTED);
        let cross = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING | FenceFlags::CROSS_ADAPTER;
        let by = |name: &NtHandle| OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
        let own = without.device().create_monitored_fence(cross, 0).unwrap();
        let theirs = with.device().open_native_fence(by(&own.share(SyncObjectAccess::ALL_ACCESS).unwrap())).unwrap();
        let native =
            with.device().create_native_fence(NativeFenceRequest { flags: cross, ..Default::default() }).unwrap();
        let name = native.share(SyncObjectAccess::ALL_ACCESS).unwrap();
        assert_eq!(without.device().open_native_fence(by(&name)).err().unwrap().status, NtStatus::NOT_SUPPORTED);
        let here = without.device().open_sync_object(by(&name)).unwrap();

        host.trace_fences(true);
        host.set_verbose_logs(true);
        let context = VirtualContext::create(without.device(), NodeId(0), Vec::new()).unwrap();
        context.wait(&here, 1).unwrap();
        context.signal(&own, 1).unwrap();
        drain();
        assert_eq!(own.current(), 0, "it waits for the other adapter");
        with.device().signal(&native, 1).unwrap();
        drain();
        assert_eq!((own.current(), theirs.current()), (1, 1));
        Buffer::new(&without, Commands::new().signal_monitored(own.current_va(), 2)).run(&context);
        without.device().wait(&[(&own, 2)]).unwrap();
        without.device().signal(&here, 3).unwrap();
        with.device().wait(&[(&native, 3)]).unwrap();
        host.set_verbose_logs(false);
        host.trace_fences(false);
        // The device is lost: fences that it may signal count as reached for ever.
        let nowhere = GpuVa(1 << 40);
        Buffer::new(&without, Commands::new().fill(nowhere, 8, 1)).run(&context);
        drain();
        assert_eq!((own.current(), theirs.current()), (u64::MAX, u64::MAX));
        drop((own, theirs, here, native, context, without, with));
        drain();
        assert_eq!(*told[0].lock().unwrap(), [""; 0], "{off:?} is off");
        assert!(told[1].lock().unwrap().len() > 5, "the other adapter's driver hears");
        assert_eq!(host.stopped(), None);
        host.check_invariants().unwrap();
    }
}

/// The driver's own question comes first, and only the answer to it decides the capability.
#[test]
fn a_driver_asks_whether_the_feature_is_on_before_it_says_that_it_has_native_fences() {
    // spec: sync §3.1 steps 5 to 7
    // seed: N38, N125
    for fails in [false, true] {
        let steps: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let [asked, said] = [(); 2].map(|()| Arc::clone(&steps));
        let ask = move |feature, answer| match feature {
            FeatureId::NATIVE_FENCE => {
                asked.lock().unwrap().push("asks");
                if fails { Err(ddi::DriverStatus::Unsuccessful("as the test wants")) } else { answer }
            }
            _ => answer,
        };
        let caps = move |caps: &mut ddi::AdapterCaps| {
            said.lock().unwrap().push(if caps.native_gpu_fence { "has them" } else { "has none" });
        };
        let whims = Whims { packets: true, ask: Box::new(ask), caps: Box::new(caps), ..Whims::default() };
        let host = Host::start(HostConfig { wrap_miniport: Some(wrapped(whims)), ..config("discrete-4k") }).unwrap();
        let expected = if fails { "has none" } else { "has them" };
        let steps = steps.lock().unwrap();
        assert_eq!(steps[0], "asks");
        assert!(steps.len() > 1 && steps[1..].iter().all(|step| *step == expected), "{steps:?}");
        let adapter = open(&host);
        assert_eq!(adapter.wddm_3_1_caps().unwrap().is_empty(), fails);
        assert!(adapter.is_feature_enabled(37).unwrap().enabled, "the kernel keeps its decision");
        let gpu = softgpu_umd::Gpu::on(adapter).unwrap();
        assert_eq!(gpu.has_user_queues(), !fails);
        let made = gpu.device().create_native_fence(NativeFenceRequest::default());
        assert_eq!(made.err().map(|refusal| refusal.status), fails.then_some(NtStatus::NOT_SUPPORTED));
    }
}
