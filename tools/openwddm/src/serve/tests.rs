//! The daemon's watch for hangs, and its end.

use dxgk_host::{HostConfig, Mode, Profile};
use std::sync::mpsc;

use events::{Event, Tracer};

use super::*;
use crate::serve::signals::Told;

/// A tracer that panics at the first device.
struct Falls;

impl Tracer for Falls {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        assert!(!matches!(event, Event::DeviceCreated { .. }), "a defect");
    }
}

#[test]
fn every_adapter_has_the_watch_for_hangs_that_the_configuration_says() {
    // spec: sync §4.4
    let watches = |text: &str| {
        let adapters = "[[adapter]]\nprofile = \"discrete-4k\"\n[[adapter]]\nprofile = \"wddm2-packets\"\n";
        let config: Config = toml::from_str(&format!("{adapters}{text}")).expect("a configuration");
        let setup = setup::host(&[], &config.adapter, None, config.tdr.unwrap_or_default().policy().expect("one"));
        let setup = setup.expect("two adapters");
        [setup.recovery, setup.others[0].recovery].map(|recovery| recovery.delay_ns)
    };
    assert_eq!(watches(""), [None; 2], "a software device on a busy computer is slow, not hung");
    assert_eq!(watches("[tdr]\ndelay = 3\n"), [Some(3_000_000_000); 2]);
    assert_eq!(watches("[tdr]\nlevel = \"recover\"\n"), [Some(2_000_000_000); 2]);
    assert_eq!(watches("[tdr]\nlevel = \"off\"\n"), [None; 2]);
}

#[test]
fn it_serves_until_it_is_told_to_stop_or_the_kernel_has_failed() {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let config = HostConfig { tracer: Box::new(Falls), ..HostConfig::new(profile, Mode::Virtual { stored: false }) };
    let host = Host::start(config).expect("a kernel");
    let (tell, told) = mpsc::channel();
    let mut reloads = 0;
    [Told::Reload, Told::Reload, Told::Stop].into_iter().for_each(|one| tell.send(one).expect("the receiver is there"));
    assert!(until_stopped(&told, &host, || reloads += 1).is_ok(), "it is told to stop");
    assert_eq!(reloads, 2);
    let link: Arc<dyn kmt_link::Link> = dxgk_host::ProcessLink::new(Arc::clone(&host));
    let falls = std::thread::spawn(move || softgpu_umd::Gpu::open(link).map(drop));
    assert!(falls.join().is_err(), "the kernel falls over a device");
    let stopped = Told::AdapterStopped { adapter: 0, reason: "a rule".to_owned() };
    // It ends so at a signal, too: a service manager starts it again.
    for last in [None, Some(stopped), Some(Told::Stop)] {
        last.into_iter().for_each(|last| tell.send(last).expect("the receiver is there"));
        let failed = until_stopped(&told, &host, || ()).expect_err("the kernel has failed");
        assert!(failed.to_string().contains("the kernel has failed"), "{failed}");
    }
    drop(tell);
}
