//! Displays against a fake device: refusals, writes of registers, reports.

use ddi::{CreateAllocation, Miniport, NewAllocation, SetVidPnSourceAddressFlags as Flags};
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_spec::register::record;
use wddm_types::SegmentId;

use super::*;
use crate::config::KmdConfig;
use crate::fake_port::{FakeHost, FakeNotify, FakePort, Said, stopped};

const SOURCE: VidPnSourceId = VidPnSourceId(1);
const BYTES: u64 = 64 << 10;

fn with_displays() -> (SoftGpuKmd, std::sync::Arc<FakePort>) {
    with_queues(KmdConfig::default(), 1)
}

fn with_queues(config: KmdConfig, entries: u64) -> (SoftGpuKmd, std::sync::Arc<FakePort>) {
    let (mut kmd, port) = stopped(config);
    port.set(sheet::DISPLAYS, 2);
    port.set(sheet::DISPLAY_PERIOD, 1_000_000);
    port.set(sheet::DISPLAY_QUEUE_ENTRIES, entries);
    kmd.start_device(&mut FakeHost::default()).unwrap();
    port.writes();
    (kmd, port)
}

fn create(kmd: &mut SoftGpuKmd, details: Details) -> Result<KmdAllocation, DriverStatus> {
    let request = AllocationRequest {
        kind: Kind::Local,
        cpu_visible: true,
        cached: false,
        accessed_physically: false,
        size_bytes: BYTES,
    };
    let bytes = request.encode_with(&details);
    let mut new = [NewAllocation { private_data: &bytes, info: Default::default() }];
    let mut create = CreateAllocation {
        private_data: &[],
        allocations: &mut new,
        resource: Default::default(),
        flags: Default::default(),
    };
    kmd.create_allocation(&mut create)?;
    Ok(new[0].info.allocation)
}

fn shown(width: u16, height: u16) -> Details {
    Details { display_width: width, display_height: height, ..Details::default() }
}

fn set(allocation: KmdAllocation, physical_address: u64, flags: Flags) -> SetVidPnSourceAddress {
    SetVidPnSourceAddress { source: SOURCE, segment: SegmentId(1), physical_address, allocation, flags }
}

#[test]
fn surfaces_of_displays_are_described_and_wrong_ones_refused() {
    let (mut kmd, _) = with_displays();
    let primary = create(&mut kmd, shown(100, 30)).unwrap();
    let texels = Surface { width: 100, height: 30, format: SurfaceFormat::X8R8G8B8 };
    assert_eq!(kmd.describe_allocation(primary), Some(texels));
    let plain = create(&mut kmd, Details::default()).unwrap();
    assert_eq!(kmd.describe_allocation(plain), None);
    for wrong in [
        shown(0, 5),
        shown(5, 0),
        shown(1024, 17),
        Details { tile_pitch: 512, ..shown(4, 4) },
        Details { pitch_aligned_size_bytes: BYTES, ..shown(4, 4) },
    ] {
        assert!(matches!(create(&mut kmd, wrong), Err(DriverStatus::InvalidParameter(_))), "{wrong:?}");
    }
    assert!(kmd.commit_vidpn(SOURCE, Some(plain)).is_err() && kmd.commit_vidpn(VidPnSourceId(2), None).is_err());
    let too_early = kmd.set_vidpn_source_address(set(primary, 0, Flags::FLIP_ON_NEXT_VSYNC));
    assert!(too_early.is_err(), "no mode");
    kmd.commit_vidpn(SOURCE, Some(primary)).unwrap();
    let other = create(&mut kmd, shown(100, 31)).unwrap();
    assert!(kmd.set_vidpn_source_address(set(other, 0, Flags::FLIP_ON_NEXT_VSYNC)).is_err(), "another mode");
    let outside = kmd.set_vidpn_source_address(set(primary, 1 << 40, Flags::FLIP_ON_NEXT_VSYNC));
    assert!(outside.is_err(), "outside of its segment");
}

#[test]
fn a_mode_an_address_and_a_flip_are_register_writes() {
    let (mut kmd, port) = with_displays();
    let caps = kmd.flip_caps();
    assert_eq!((kmd.vidpn_paths().len(), caps.max_queued_flip_on_vsync, caps.flip_immediate), (2, 1, true));
    let primary = create(&mut kmd, shown(100, 30)).unwrap();
    kmd.commit_vidpn(SOURCE, Some(primary)).unwrap();
    kmd.set_vidpn_source_address(set(primary, 0x10000, Flags::MODE_CHANGE)).unwrap();
    kmd.set_vidpn_source_visibility(SOURCE, true);
    kmd.control_interrupt(SOURCE, true);
    let select = (sheet::DISPLAY_SELECT, 1);
    assert_eq!(
        port.writes(),
        [
            select,
            (sheet::DISPLAY_CONTROL, 0),
            (sheet::DISPLAY_SIZE, sheet::size(100, 30)),
            (sheet::DISPLAY_PITCH, 448),
            select,
            (sheet::DISPLAY_FLIP_ADDRESS, 0x10000),
            (sheet::DISPLAY_FLIP_TIME, 0),
            (sheet::DISPLAY_FLIP_ID, 0),
            select,
            (sheet::DISPLAY_CONTROL, control::ENABLE),
            select,
            (sheet::DISPLAY_CONTROL, control::ENABLE | control::VSYNC_INTERRUPT),
        ]
    );
    for (flags, how) in [(Flags::FLIP_ON_NEXT_VSYNC, flip::ON_VSYNC), (Flags::FLIP_IMMEDIATE, flip::IMMEDIATE)] {
        kmd.set_vidpn_source_address(set(primary, 0x20000, flags)).unwrap();
        assert_eq!(port.writes().last(), Some(&(sheet::DISPLAY_FLIP, how)));
    }
}

#[test]
fn blanks_are_told_by_target_and_those_of_a_mode_that_is_over_are_not() {
    // spec: sync §2.8
    let (mut kmd, port) = with_displays();
    let primary = create(&mut kmd, shown(100, 30)).unwrap();
    kmd.commit_vidpn(SOURCE, Some(primary)).unwrap();
    kmd.set_vidpn_source_visibility(SOURCE, true);
    let said = |kmd: &mut SoftGpuKmd| {
        let mut notify = FakeNotify::default();
        kmd.interrupt_routine(&mut notify);
        notify.0
    };
    port.record(record::VSYNC, [1 | 77 << 8, 0x10000, 3]);
    port.record(record::FLIPPED, [1 | 77 << 8, 0x20000, 4]);
    // Of a display that is off, and of none.
    port.record(record::VSYNC, [0, 0x30000, 1]);
    port.record(record::VSYNC, [200, 0x30000, 1]);
    assert_eq!(said(&mut kmd), [Said::Shown(1, 0x10000, false), Said::Shown(1, 0x20000, true)]);
    port.record(record::VSYNC, [1, 0x10000, 5]);
    kmd.commit_vidpn(SOURCE, Some(primary)).unwrap();
    kmd.set_vidpn_source_visibility(SOURCE, true);
    assert_eq!(said(&mut kmd), []);
    // After lost records the driver reads the address that the display shows.
    port.set(sheet::DISPLAY_ADDRESS, 0x40000);
    port.record(record::OVERFLOW, [0; 3]);
    assert!(said(&mut kmd).contains(&Said::Shown(1, 0x40000, false)));
}

#[test]
fn who_wants_to_be_told_at_the_same_time_shares_an_alarm() {
    // spec: sync §2.2, sync §2.8
    let (mut kmd, port) = with_displays();
    let target = VidPnTargetId(1);
    let [first, second] =
        [7, 8].map(|id| kmd.create_periodic_frame_notification(target, 30, NotificationId(id)).unwrap());
    let alarm = |alarm: u64, value: u64| {
        [(sheet::DISPLAY_SELECT, 1), (sheet::DISPLAY_ALARM_SELECT, alarm), (sheet::DISPLAY_ALARM, value)]
    };
    assert_eq!(port.writes(), alarm(0, 3_000 | sheet::ALARM_SET));
    for time in 1..8 {
        kmd.create_periodic_frame_notification(target, time, NotificationId(100)).unwrap();
    }
    let none = kmd.create_periodic_frame_notification(target, 99, NotificationId(9));
    assert!(matches!(none, Err(DriverStatus::NoMemory(_))), "{none:?}");
    assert!(kmd.create_periodic_frame_notification(target, 10_001, NotificationId(9)).is_err(), "a period is 10,000");
    assert!(kmd.create_periodic_frame_notification(VidPnTargetId(2), 1, NotificationId(9)).is_err());
    port.writes();
    let said = |kmd: &mut SoftGpuKmd| {
        // The second is of no alarm, the third of no display.
        port.record(record::ALARM, [1 | 5 << 8, 0, 0]);
        port.record(record::ALARM, [1, 99, 0]);
        port.record(record::ALARM, [200, 0, 0]);
        let mut notify = FakeNotify::default();
        kmd.interrupt_routine(&mut notify);
        notify.0
    };
    assert_eq!(said(&mut kmd), [Said::Periodic(1, 7), Said::Periodic(1, 8)]);
    kmd.destroy_periodic_frame_notification(first);
    assert_eq!((said(&mut kmd), port.writes().len()), (vec![Said::Periodic(1, 8)], 0));
    kmd.destroy_periodic_frame_notification(second);
    assert_eq!(port.writes(), alarm(0, 0));
    assert_eq!(said(&mut kmd), []);
}

#[test]
fn a_flip_queue_is_the_devices_with_its_log() {
    // spec: sync §4.6
    let on = KmdConfig { flip_queue: true, ..KmdConfig::default() };
    assert!(with_queues(KmdConfig::default(), 4).0.flip_queue().is_none(), "it does not say so");
    let (mut kmd, port) = with_queues(on, 4);
    let primary = create(&mut kmd, shown(100, 30)).unwrap();
    kmd.commit_vidpn(SOURCE, Some(primary)).unwrap();
    kmd.set_vidpn_source_visibility(SOURCE, true);
    port.writes();
    let queue = kmd.flip_queue().expect("the feature is on");
    assert_eq!(queue.flip_queue_caps().max_hw_queued_flips, 4);
    let set = ddi::SetFlipQueueLogBuffer { source: SOURCE, layer: 0, buffer: Some((0x7000, 256)) };
    queue.set_flip_queue_log_buffer(set).unwrap();
    let written = port.writes();
    assert!(written.contains(&(sheet::DISPLAY_LOG, softgpu_spec::bus::SYSTEM_BASE + 0x7000)));
    assert!(
        written.contains(&(sheet::DISPLAY_TOLD_ID, u64::MAX)) && written.contains(&(sheet::DISPLAY_LOG_ENTRIES, 256))
    );
    let flip = ddi::QueueFlip {
        source: SOURCE,
        layer: 0,
        present_id: 5,
        target_flip_time: 777,
        segment: SegmentId(1),
        physical_address: 0x10000,
        allocation: primary,
        flags: Flags::FLIP_ON_NEXT_VSYNC,
    };
    let queue = kmd.flip_queue().expect("as before");
    queue.queue_flip(flip).unwrap();
    let written = port.writes();
    for register in
        [(sheet::DISPLAY_FLIP_TIME, 777), (sheet::DISPLAY_FLIP_ID, 5), (sheet::DISPLAY_FLIP, flip::ON_VSYNC)]
    {
        assert!(written.contains(&register), "{written:?}");
    }
    // Others wait.
    port.set(sheet::DISPLAY_FLIP, 1);
    let immediate = ddi::QueueFlip { flags: Flags::FLIP_IMMEDIATE, ..flip };
    let retry = Err(ddi::FlipRefusal::Retry(ddi::DrainNeeded::Plane));
    assert_eq!(kmd.flip_queue().expect("as before").queue_flip(immediate), retry);
    port.set(sheet::DISPLAY_LOG_COUNT, 259);
    assert_eq!(kmd.flip_queue().expect("as before").update_flip_queue_log(SOURCE, 0), 3);
    port.record(record::VSYNC, [1, 0x10000, 5]);
    let mut told = FakeNotify::default();
    assert!(kmd.interrupt_routine(&mut told));
    assert_eq!(told.0, [Said::Flipped(1, 5, 3)]);
}
