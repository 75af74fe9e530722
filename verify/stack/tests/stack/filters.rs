//! Filter drivers in front of the software GPU's: what they record, count and refuse, as the author of a miniport uses them.

use std::sync::Arc;

use ddi::DriverStatus;
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_link::Link;
use miniport_filter::{Counter, Filtered, Function, Recorder, Refusal, Refusals};
use softgpu_umd::{Gpu, SurfaceKind};
use stack::world::{MIB, VIRTUAL, client};

/// A host whose driver has a recorder behind a filter of the test's.
fn host(filter: Refusals, mode: Mode) -> (Arc<Host>, Recorder, Counter) {
    let (recorder, counter) = (Recorder::default(), Counter::default());
    let (records, counts) = (recorder.clone(), counter.clone());
    let mut config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), mode)
    };
    config.wrap_miniport = Some(Box::new(|driver| {
        let refusing = Filtered::new(Box::new(Filtered::new(driver, counts)), filter);
        Box::new(Filtered::new(Box::new(refusing), records))
    }));
    (Host::start(config).expect("the host starts"), recorder, counter)
}

fn nothing_refused() -> Refusals {
    Refusals::new(Vec::new()).expect("nothing is refused")
}

#[test]
fn a_recorder_keeps_each_call_with_its_arguments() {
    let (host, recorder, counter) = host(nothing_refused(), VIRTUAL);
    let begun: Vec<Function> = recorder.take().into_iter().map(|record| record.function).collect();
    let at = |function| begun.iter().position(|begun| *begun == function).expect("it was called");
    assert!(at(Function::StartDevice) < at(Function::AdapterCaps), "{begun:?}");
    assert_eq!(counter.count(Function::StartDevice), 1);
    let mut client = client(&host);
    recorder.take();
    let surface = client.pinned(SurfaceKind::Local, 3 * 4096);
    client.run(|commands| _ = commands.fill(surface.va(), 4096, 7));
    let records = recorder.take();
    let of = |function| records.iter().filter(|record| record.function == function).collect::<Vec<_>>();
    let created = of(Function::CreateAllocation);
    assert_eq!(created.len(), 1, "{records:#?}");
    assert!(created[0].arguments.starts_with("create: CreateAllocation {"), "{}", created[0]);
    assert_eq!(created[0].refusal, None);
    let submitted = of(Function::SubmitCommandToHwQueue);
    assert!(submitted.iter().any(|record| record.arguments.contains("progress_value")), "{submitted:?}");
    let interrupts = of(Function::InterruptRoutine);
    assert!(
        !interrupts.is_empty() && interrupts.iter().all(|record| record.arguments == "notify: …"),
        "{interrupts:?}"
    );
}

#[test]
fn a_refused_creation_leaves_nothing_behind() {
    let status = DriverStatus::NoMemory("as the test wants");
    let refusal = Refusal { function: Function::CreateAllocation, first: 1, count: 1, status };
    let (host, recorder, counter) = host(Refusals::new(vec![refusal]).expect("it may fail"), VIRTUAL);
    let link = ProcessLink::new(Arc::clone(&host));
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    let before = host.state_digest();
    let refused = gpu.create_surface(SurfaceKind::Local, MIB).err().expect("the filter refuses it");
    assert!(refused.to_string().contains("no memory"), "{refused}");
    assert_eq!(host.state_digest(), before);
    host.check_invariants().expect("in order");
    let record = recorder.take().into_iter().find(|record| record.function == Function::CreateAllocation);
    assert!(record.expect("it was called").refusal.expect("and refused").contains("as the test wants"));
    assert_eq!(counter.count(Function::CreateAllocation), 0, "the driver behind the filter never saw it");
    gpu.create_surface(SurfaceKind::Local, MIB).expect("the second is not refused");
    assert_eq!(counter.count(Function::CreateAllocation), 1);
}
