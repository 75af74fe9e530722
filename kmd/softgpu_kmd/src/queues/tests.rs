//! Queues and kernel-mode rings.

use ddi::{
    CreateHwQueue, DriverStatus, HwQueueFlags, KmdContext, KmdQueue, Miniport, OsContext, OsQueue, ProgressFence,
    SubmitCommandToHwQueue, SuspendStatus,
};
use device_port::DevicePort;
use shared_words::Word;
use softgpu_spec::register::{self, queue_control, queue_flags, queue_rank, queue_state};
use softgpu_spec::{Command, QUEUE_COUNT, bus, queue_data};
use wddm_types::{GpuVa, PhysicalAddress};

use crate::driver::SoftGpuKmd;
use crate::fake_port::{FakeHost, FakeNotify, Said, context, started};
use crate::fences::tests::fence;
use crate::segments::LOCAL;

pub(crate) fn set_root(kmd: &mut SoftGpuKmd, context: KmdContext, offset: u64) {
    kmd.gpu_va().unwrap().set_root_page_table(context, PhysicalAddress { segment: LOCAL, offset }, 512);
}

pub(crate) fn create(
    kmd: &mut SoftGpuKmd,
    host: &mut FakeHost,
    context: KmdContext,
    flags: HwQueueFlags,
) -> Result<KmdQueue, DriverStatus> {
    create_with(kmd, host, context, flags, &mut [])
}

fn create_with(
    kmd: &mut SoftGpuKmd,
    host: &mut FakeHost,
    context: KmdContext,
    flags: HwQueueFlags,
    private_data: &mut [u8],
) -> Result<KmdQueue, DriverStatus> {
    let number = kmd.fences.globals_created() + 1;
    let progress = ProgressFence { fence: fence(kmd, number), current_va: GpuVa(0x1000), monitored_va: GpuVa(0x2000) };
    let flags = flags | HwQueueFlags::NATIVE_PROGRESS_FENCE;
    let create = CreateHwQueue { context, queue: OsQueue(1), flags, progress, private_data };
    kmd.hardware_queues().unwrap().create_hw_queue(host, create)
}

pub(crate) fn submit(kmd: &mut SoftGpuKmd, queue: KmdQueue, value: u64, bytes: u32) -> Result<(), DriverStatus> {
    let submit = SubmitCommandToHwQueue {
        queue,
        progress_value: value,
        buffer: GpuVa(0x9000),
        buffer_bytes: bytes,
        private_data: &[],
        paging: false,
    };
    kmd.hardware_queues().unwrap().submit_command_to_hw_queue(submit)
}

#[test]
fn a_system_queue_is_enabled_with_its_root_and_privilege() {
    // spec: sync §2.5
    let (mut kmd, port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 1, true);
    set_root(&mut kmd, context, 0x5000);
    assert_eq!(port.writes(), [(register::CMP_ROOT, 0x5000)]);
    let queue = create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    let ring = bus::SYSTEM_BASE + host.lent[0].first * 4096;
    let flags = queue_flags::PRIVILEGED | queue_flags::RING_PHYSICAL;
    let expected = [
        (register::QUEUE_SELECT, 0),
        (register::QUEUE_ENGINE, 1),
        (register::QUEUE_ROOT, 0x5000),
        (register::QUEUE_RING, ring),
        (register::QUEUE_RING_BYTES, kmd.config.ring_bytes),
        (register::QUEUE_FLAGS, flags),
        (register::QUEUE_RANK, queue_rank::encode(1, 0, 7, u32::MAX)),
        (register::QUEUE_QUANTUM, 1_000_000),
        (register::QUEUE_GRACE_SAME, 0),
        (register::QUEUE_GRACE_LOWER, 0),
        (register::QUEUE_OWNER, context.0),
        (register::QUEUE_CONTROL, queue_control::ENABLE),
    ];
    assert_eq!(port.writes(), expected);
    set_root(&mut kmd, context, 0x5000);
    assert_eq!(port.writes(), [], "the same root again changes nothing");
    kmd.hardware_queues().unwrap().destroy_hw_queue(&mut host, queue);
    assert_eq!((port.queue(0), host.lent.len()), (queue_state::DISABLED, 0), "disabled, the ring given back");
}

/// The flag says which kind of fence the progress handle names: this hardware signals native ones only.
#[test]
fn a_queue_without_the_flag_of_a_native_progress_fence_is_refused() {
    // spec: sync §2.5, sync §3.11
    // seed: N53
    let (mut kmd, _port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 1, false);
    let progress = ProgressFence { fence: fence(&mut kmd, 1), current_va: GpuVa(0x1000), monitored_va: GpuVa(0x2000) };
    for other in [HwQueueFlags::empty(), HwQueueFlags::USER_MODE_SUBMISSION] {
        for (flags, taken) in [(other, false), (other | HwQueueFlags::NATIVE_PROGRESS_FENCE, true)] {
            let create = CreateHwQueue { context, queue: OsQueue(1), flags, progress, private_data: &mut [] };
            let lent = host.lent.len();
            let made = kmd.hardware_queues().unwrap().create_hw_queue(&mut host, create);
            assert_eq!(made.is_ok(), taken, "{flags:?}: {made:?}");
            assert!(taken || host.lent.len() == lent, "nothing is left of a refused one");
        }
    }
}

#[test]
fn a_paging_buffer_comes_with_the_private_data_that_were_written_for_it() {
    // spec: memory §1.11, memory §3.1
    let (mut kmd, _port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 1, true);
    set_root(&mut kmd, context, 0x5000);
    let queue = create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    let mut submit = |buffer_bytes, private_data: &[u8]| {
        let (progress_value, buffer, paging) = (1, GpuVa(0x9000), true);
        let submit = SubmitCommandToHwQueue { queue, progress_value, buffer, buffer_bytes, private_data, paging };
        kmd.hardware_queues().unwrap().submit_command_to_hw_queue(submit)
    };
    submit(64, &[8, 0, 0, 0]).unwrap();
    submit(64, &[7, 8, 0, 0, 0]).expect("the driver's are the last bytes");
    submit(0, &[8, 0, 0, 0]).expect("the driver takes a buffer without words, which it did not build");
    for lost in [&[][..], &[0; 4], &[9, 0, 0, 0], &[8, 0, 0]] {
        assert!(matches!(submit(64, lost), Err(DriverStatus::InvalidParameter(_))), "{lost:?}");
    }
}

#[test]
fn a_queue_created_before_its_root_runs_when_the_root_comes() {
    let (mut kmd, port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 0, false);
    let queue = create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    assert!(matches!(submit(&mut kmd, queue, 1, 64), Err(DriverStatus::Unsuccessful(_))));
    set_root(&mut kmd, context, 0x5000);
    assert_eq!(port.queue(0), queue_state::READY);
    assert!(port.writes().contains(&(register::QUEUE_FLAGS, queue_flags::RING_PHYSICAL)), "no privilege");
    submit(&mut kmd, queue, 1, 64).unwrap();
}

#[test]
fn a_queue_says_where_its_progress_is_monitored_to_a_user_mode_driver_that_asks() {
    // spec: sync §2.5
    let (mut kmd, _, mut host) = started();
    let (_, _, context) = context(&mut kmd, 1, false);
    let flags = HwQueueFlags::USER_MODE_SUBMISSION;
    let mut good = queue_data::question();
    let queue = create_with(&mut kmd, &mut host, context, flags, &mut good).unwrap();
    assert_eq!(queue_data::monitored_va(&good), Some(0x2000));
    let taken = kmd.queues.taken();
    for (bytes, wrong) in [(16, 0), (16, 6), (15, 3)] {
        let mut bad = queue_data::question();
        bad[wrong] ^= 1;
        let before = bad;
        let refused = create_with(&mut kmd, &mut host, context, flags, &mut bad[..bytes]);
        assert!(matches!(refused, Err(DriverStatus::InvalidParameter(_))), "{bytes} bytes, {wrong} wrong: {refused:?}");
        assert_eq!(bad, before, "and nothing is written");
    }
    assert_eq!(kmd.queues.taken(), taken, "no queue is taken for it");
    kmd.hardware_queues().unwrap().destroy_hw_queue(&mut host, queue);
}

#[test]
#[should_panic(expected = "so the ring has room")]
fn a_ring_is_never_overrun() {
    let (mut kmd, _, mut host) = started();
    let (_, _, context) = context(&mut kmd, 0, false);
    set_root(&mut kmd, context, 0x5000);
    let queue = create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    for value in 1..=kmd.config.ring_bytes / 48 + 1 {
        submit(&mut kmd, queue, value, 64).unwrap();
    }
}

#[test]
#[should_panic(expected = "moved under a queue that runs")]
fn a_root_does_not_move_under_a_queue_that_runs() {
    let (mut kmd, _, mut host) = started();
    let (_, _, context) = context(&mut kmd, 0, false);
    set_root(&mut kmd, context, 0x5000);
    create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    set_root(&mut kmd, context, 0x6000);
}

#[test]
fn submissions_are_branch_and_signal_and_wrap_over_the_rings_end() {
    let (mut kmd, port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 0, false);
    set_root(&mut kmd, context, 0x5000);
    let queue = create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    let (base, bytes) = (host.lent[0].first * 4096, kmd.config.ring_bytes);
    let (mut at, mut written) = (0, 0);
    for value in 1..=2 * bytes / 48 + 3 {
        port.set_read_pointer(at);
        submit(&mut kmd, queue, value, 64).unwrap();
        written += 48;
        assert_eq!(Word::load(port.doorbell_page().word(0)), written, "the write pointer only rises");
        let words: Vec<_> = (0..6).map(|index| Word::load(kmd.system.word(base + (at + index * 8) % bytes))).collect();
        assert_eq!(Command::decode(&words).unwrap(), (Command::Branch { va: 0x9000, words: 8 }, 2));
        let signal = Command::Signal { current_va: 0x1000, monitored_va: 0x2000, value, log: None };
        assert_eq!(Command::decode(&words[2..]).unwrap(), (signal, 4));
        at = written;
    }
    assert_eq!(port.rung(), [0u32; 0], "an engine that is awake sees the store");
    Word::store(port.doorbell_page().word(shared_words::doorbell::ASLEEP_OFFSET), 1);
    submit(&mut kmd, queue, 1 << 40, 0).unwrap();
    assert_eq!(port.rung(), [0], "one that sleeps is told");
    assert_eq!(Word::load(port.doorbell_page().word(0)), written + 32, "an empty buffer is a signal only");
    assert!(matches!(submit(&mut kmd, queue, 1, 4), Err(DriverStatus::InvalidParameter(_))));
}

#[test]
fn a_stopped_queue_stays_stopped() {
    let (mut kmd, port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 0, false);
    set_root(&mut kmd, context, 0x5000);
    let queue = create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    let other = create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    kmd.hardware_queues().unwrap().stop_hw_queue(queue);
    assert_eq!((port.queue(0), port.queue(1)), (queue_state::DISABLED, queue_state::READY), "the other goes on");
    assert!(matches!(submit(&mut kmd, queue, 1, 64), Err(DriverStatus::Unsuccessful(_))));
    submit(&mut kmd, other, 1, 64).unwrap();
    kmd.stop_device(&mut host);
    assert_eq!((port.queue(1), host.lent.len()), (queue_state::DISABLED, 0));
}

#[test]
fn queue_numbers_end_and_come_back() {
    let (mut kmd, _, mut host) = started();
    host.next_page = 0;
    let (_, _, context) = context(&mut kmd, 0, false);
    let user = HwQueueFlags::USER_MODE_SUBMISSION;
    let queues: Vec<_> = (0..QUEUE_COUNT).map(|_| create(&mut kmd, &mut host, context, user).unwrap()).collect();
    assert!(matches!(create(&mut kmd, &mut host, context, user), Err(DriverStatus::NoMemory(_))));
    kmd.hardware_queues().unwrap().destroy_hw_queue(&mut host, queues[7]);
    let again = create(&mut kmd, &mut host, context, user).unwrap();
    assert_eq!(kmd.queues.at(7).unwrap().0, again, "the number is free again, the handle is new");
    assert_ne!(again, queues[7]);
}

#[test]
fn a_suspended_context_is_acknowledged_once_all_its_queues_are_quiesced() {
    // spec: sync §4.1
    let (mut kmd, port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 1, true);
    set_root(&mut kmd, context, 0x5000);
    for _ in 0..2 {
        create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    }
    let hardware = kmd.hardware_queues().unwrap();
    assert_eq!(hardware.suspend_context(context, 7), Ok(SuspendStatus::Pending));
    assert_eq!([port.queue(0), port.queue(1)], [queue_state::SUSPENDED; 2]);
    let mut notify = FakeNotify::default();
    assert!(kmd.interrupt_routine(&mut notify));
    assert_eq!(notify.0, [Said::Suspended(OsContext(1), 7)]);
    let hardware = kmd.hardware_queues().unwrap();
    assert_eq!(hardware.suspend_context(context, 8), Ok(SuspendStatus::Suspended), "it is suspended already");
    // Its root may move now, and its queues go on under the new one.
    set_root(&mut kmd, context, 0x6000);
    port.writes();
    kmd.hardware_queues().unwrap().resume_context(context);
    assert_eq!([port.queue(0), port.queue(1)], [queue_state::READY; 2]);
    let roots: Vec<_> = port.writes().into_iter().filter(|(at, _)| *at == register::QUEUE_ROOT).collect();
    assert_eq!(roots, [(register::QUEUE_ROOT, 0x6000); 2]);
}

#[test]
fn an_acknowledgement_that_comes_late_is_not_taken_for_the_next_one() {
    // spec: sync §4.1
    let (mut kmd, port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 1, true);
    set_root(&mut kmd, context, 0x5000);
    let queue = create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    let hardware = kmd.hardware_queues().unwrap();
    assert_eq!(hardware.suspend_context(context, 1), Ok(SuspendStatus::Pending));
    hardware.resume_context(context);
    assert_eq!(hardware.suspend_context(context, 2), Ok(SuspendStatus::Pending));
    // The queue goes while its record is under way: nothing is left to wait for.
    hardware.destroy_hw_queue(&mut host, queue);
    let mut notify = FakeNotify::default();
    kmd.interrupt_routine(&mut notify);
    let last = notify.0.last().cloned();
    assert_eq!(last, Some(Said::Suspended(OsContext(1), 2)));
    assert_eq!(port.queue(0), queue_state::DISABLED);
}

#[test]
fn a_queue_s_running_time_is_the_device_s_count_of_its_number() {
    let (mut kmd, port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 0, false);
    set_root(&mut kmd, context, 0x5000);
    let queues = [(); 2].map(|()| create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap());
    port.set(register::QUEUE_BUSY_NS, 1234);
    port.writes();
    let asked = |kmd: &mut SoftGpuKmd, queue| kmd.hardware_queues().unwrap().hw_queue_running_ns(queue);
    assert_eq!(asked(&mut kmd, queues[1]), Ok(1234));
    assert_eq!(port.writes(), [(register::QUEUE_SELECT, 1)], "and nothing else is touched");
    assert!(matches!(asked(&mut kmd, KmdQueue(99)), Err(DriverStatus::InvalidParameter(_))));
    port.pull();
    let gone = asked(&mut kmd, queues[0]);
    assert!(matches!(gone, Err(DriverStatus::Unsuccessful(_))), "what is read of no device is no time: {gone:?}");
}
