//! A panic of the kernel leaves a record, which a process of its own writes where the configuration says. The hook of panics is the whole
//! program's: so this is the only test here.

use std::process::Command;
use std::sync::Arc;

use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use dxgkd::Outside;
use events::{Event, Tracer};
use kmt_link::Link;
use openwddm::serve::crash::{LastEvents, record_panics};

/// Panics at the first device.
struct Falls;

impl Tracer for Falls {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        assert!(!matches!(event, Event::DeviceCreated { .. }), "a defect of the kernel");
    }
}

#[test]
fn a_kernel_that_falls_leaves_a_record_with_the_reason_and_its_last_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut program = Command::new(env!("CARGO_BIN_EXE_openwddm"));
    program.arg("serve-outside").arg("--records").arg(folder.path());
    let outside = Arc::new(Outside::start(program).expect("it starts"));
    let own = i32::try_from(std::process::id()).expect("a number of the operating system");
    assert!(outside.name_of(own).is_some_and(|name| !name.is_empty()), "it looks at processes");
    assert!(outside.file().is_err(), "it was told no file");

    let last = LastEvents::default();
    record_panics(Arc::clone(&outside), last.clone(), "discrete-4k".to_owned());
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let tracer = Box::new((last, Falls));
    let host = Host::start(HostConfig { tracer, ..HostConfig::new(profile, Mode::Virtual { stored: false }) });
    let link: Arc<dyn Link> = ProcessLink::new(host.expect("a kernel"));
    let falls = std::thread::Builder::new().name("lane 7".to_owned());
    let falls = falls.spawn(move || softgpu_umd::Gpu::open(link).map(drop)).expect("a thread");
    assert!(falls.join().is_err(), "the kernel falls over a device");

    let files: Vec<_> =
        std::fs::read_dir(folder.path()).expect("the folder").map(|file| file.expect("a file").path()).collect();
    let [path] = &files[..] else { panic!("one record: {files:?}") };
    let text = std::fs::read_to_string(path).expect("its text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], concat!("openwddm ", env!("CARGO_PKG_VERSION")));
    assert!(
        lines[1].starts_with("reason: thread \"lane 7\" panicked at ") && lines[1].ends_with("a defect of the kernel"),
        "{text}"
    );
    assert_eq!(lines[2], "adapters: discrete-4k");
    assert!(lines.last().is_some_and(|last| last.contains("DeviceCreated")), "{text}");
}
