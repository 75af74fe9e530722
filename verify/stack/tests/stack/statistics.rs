//! The kernel's figures for processes, compared with the kernel's events and the processes' own calls.

mod sums;

use std::sync::Arc;

use d3dkmt::{AdapterStatistics, NodeWork, PagingBytes, query_statistics};
use dxgk_host::{Host, ProcessLink};
use events::{Event, Move};
use kmt_calls::{Call, ProcessAccess, StatisticsCall};
use kmt_link::Link;
use softgpu_umd::{Gpu, Lane, Stage, Surface, SurfaceKind};
use wddm_types::{Luid, NodeId, NtStatus, ProcessId};

use crate::preemption::{COMPUTE, changes, client, host as packet_host};
use crate::stubborn::{FenceStep, Whims, wrapped};
use stack::heard::{Heard, heard_on};
use stack::world::{MIB, VIRTUAL, gpu_on, host_of_several};

/// A process with a lane.
struct Worker {
    lane: Lane,
    gpu: Gpu,
    link: Arc<ProcessLink>,
}

impl Worker {
    fn new(host: &Arc<Host>, stage: Stage) -> Worker {
        let link = ProcessLink::new(Arc::clone(host));
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
        Worker { lane: Lane::create_at(&gpu, NodeId(0), stage).expect("a lane"), gpu, link }
    }

    fn surface(&self, bytes: u64) -> Surface {
        self.gpu.create_surface(SurfaceKind::LocalThenSystem, bytes).expect("a surface")
    }

    /// Changes a surface so many times, and waits for it.
    fn work(&mut self, surface: &Surface, times: u32) {
        (0..times).for_each(|_| self.lane.touch(surface, true));
        let value = self.lane.submit(&self.gpu, None).expect("a submission");
        self.lane.wait(&self.gpu, value).expect("it completes");
    }
}

fn figures(host: &Host, link: &ProcessLink) -> AdapterStatistics {
    query_statistics(link, host.adapter(0).luid()).expect("the adapter is there")
}

fn of(figures: &AdapterStatistics, process: ProcessId) -> &d3dkmt::ProcessStatistics {
    figures.processes.iter().find(|known| known.process == process).expect("it has a device")
}

/// How long each of two contexts had a node, and the outcome of its packets.
fn by_events(events: &[(u64, Event)]) -> [NodeWork; 2] {
    let mut sums = [NodeWork::default(); 2];
    let (mut running, mut since): (Vec<(u64, u64)>, _) = (Vec::new(), 0);
    for (now, event) in events {
        if let Some((context, _)) = running.first() {
            sums[*context as usize - 1].running_ns += now - since;
        }
        since = *now;
        match *event {
            Event::PacketStarted { context, packet, .. } => {
                sums[context as usize - 1].submitted += 1;
                running.push((context, packet));
            }
            Event::PacketCompleted { context, packet } => {
                sums[context as usize - 1].completed += 1;
                running.retain(|one| *one != (context, packet));
            }
            Event::PacketPreempted { context, packet, .. } => {
                sums[context as usize - 1].preempted += 1;
                running.retain(|one| *one != (context, packet));
            }
            _ => {}
        }
    }
    sums
}

#[test]
fn a_node_that_takes_packets_is_theirs_whose_packet_is_in_front() {
    // spec: sync §4.1, sync §4.3
    let (host, heard) = packet_host(VIRTUAL);
    let clients = [client(&host), client(&host)];
    let contexts = clients.each_ref().map(|client| client.context(COMPUTE));
    let memory = clients.each_ref().map(|client| client.memory(SurfaceKind::System, MIB));
    clients.iter().zip(&contexts).for_each(|(client, context)| client.drain(context));
    let before = figures(&host, &clients[0].link);
    heard.take_timed();
    for (context, memory) in contexts.iter().zip(&memory) {
        changes(memory, MIB, 150).render(context).unwrap();
    }
    clients.iter().zip(&contexts).for_each(|(client, context)| client.drain(context));
    let (expected, now) = (by_events(&heard.take_timed()), figures(&host, &clients[1].link));
    let ran = |figures: &AdapterStatistics, process| of(figures, process).nodes[0];
    for (client, expected) in clients.iter().zip(expected) {
        let process = client.link.process();
        let (was, is) = (ran(&before, process), ran(&now, process));
        let passed = NodeWork {
            running_ns: is.running_ns - was.running_ns,
            submitted: is.submitted - was.submitted,
            completed: is.completed - was.completed,
            preempted: is.preempted - was.preempted,
        };
        assert_eq!(passed, expected);
        assert!(passed.preempted > 0 && passed.running_ns > 0, "they have taken turns: {passed:?}");
    }
    let total: u64 = now.processes.iter().map(|process| process.nodes[0].running_ns).sum();
    assert_eq!(now.nodes[0].work.running_ns, total, "and together that is the node's");
    assert!(now.nodes[0].context_switches >= before.nodes[0].context_switches + 2);
    assert!(now.now_ns - before.now_ns >= now.nodes[0].work.running_ns - before.nodes[0].work.running_ns);
}

#[test]
fn a_hardware_queue_has_an_engine_from_its_buffer_until_that_is_done() {
    // spec: sync §3.11, sync §4.1
    let (host, _) = heard_on("discrete-4k", VIRTUAL, 8 * MIB, |_| false);
    let mut worker = Worker::new(&host, Stage::Hardware);
    let surface = worker.surface(MIB);
    worker.gpu.pin(&surface).expect("room");
    worker.work(&surface, 1);
    let process = worker.link.process();
    let before = figures(&host, &worker.link);
    worker.work(&surface, 50);
    let after = figures(&host, &worker.link);
    let work = |figures: &AdapterStatistics| (of(figures, process).nodes[0], figures.nodes[0].work);
    let ((was, all_before), (is, all)) = (work(&before), work(&after));
    assert_eq!((is.submitted - was.submitted, is.completed - was.completed), (1, 1));
    let (ran, passed) = (is.running_ns - was.running_ns, after.now_ns - before.now_ns);
    // The waiting client hears of the end a little later than the kernel.
    assert!(ran <= passed && passed - ran < 1_000, "it was all that went on: {ran} of {passed} ns");
    assert_eq!(all.running_ns - all_before.running_ns, ran);
    let idle = figures(&host, &worker.link);
    assert_eq!(idle.nodes[0].work, all, "a process without work gets no time");
}

#[test]
fn memory_is_told_as_budgets_and_moves_tell_it() {
    // spec: memory §5.5, memory §8.1
    let moved = |event: &Event| matches!(event, Event::Moved { .. });
    let (host, heard): (_, Heard) = heard_on("discrete-4k", VIRTUAL, 4 * MIB, moved);
    let mut workers = [Worker::new(&host, Stage::Hardware), Worker::new(&host, Stage::Hardware)];
    let surfaces = workers.each_ref().map(|worker| worker.surface(3 * MIB));
    for (worker, surface) in workers.iter_mut().zip(&surfaces) {
        worker.gpu.pin(surface).expect("in video memory, or else in system memory");
        worker.work(surface, 1);
    }
    let told = figures(&host, &workers[0].link);
    let mut sums = PagingBytes::default();
    for event in heard.take() {
        let Event::Moved { bytes, how, .. } = event else { unreachable!("nothing else is heard") };
        *match how {
            Move::PageIn => &mut sums.in_bytes,
            Move::PageOut => &mut sums.out_bytes,
            Move::Fill => &mut sums.filled_bytes,
            Move::Relocate => &mut sums.relocated_bytes,
            Move::Discard => &mut sums.discarded_bytes,
            Move::Map | Move::Unmap => continue,
        } += bytes;
    }
    assert_eq!(told.paging, sums);
    assert!(sums.filled_bytes > 0, "something has moved");
    for worker in &workers {
        let theirs = of(&told, worker.link.process());
        assert_eq!(Ok(theirs.memory.local), worker.gpu.adapter().video_memory_info(true));
        assert_eq!(Ok(theirs.memory.non_local), worker.gpu.adapter().video_memory_info(false));
        let resident: u64 = theirs.memory.segments.iter().map(|segment| segment.resident_bytes).sum();
        assert_eq!(resident, theirs.memory.local.current_usage_bytes + theirs.memory.non_local.current_usage_bytes);
        assert_eq!((theirs.devices, theirs.devices_lost, theirs.queues, theirs.priority_class), (1, 0, 1, 2));
        assert!(theirs.memory.allocated_bytes >= 3 * MIB && theirs.memory.allocations > 0);
    }
    let demoted: Vec<u64> =
        workers.iter().map(|worker| of(&told, worker.link.process()).memory.demoted_bytes).collect();
    assert_eq!(demoted, [0, 3 * MIB], "3 MiB of 4 were taken");
    for (segment, information) in told.segments.iter().zip(workers[0].gpu.adapter().info().unwrap().segments) {
        assert_eq!((segment.segment, segment.aperture), (information.id, information.aperture));
        assert!(segment.resident_bytes <= segment.committed_bytes);
        let theirs: u64 = told
            .processes
            .iter()
            .map(|process| &process.memory.segments[usize::from(segment.segment.0) - 1])
            .map(|segment| segment.committed_bytes)
            .sum();
        assert_eq!(segment.committed_bytes, theirs);
    }
}

#[test]
fn processes_are_told_from_their_first_device_to_their_last() {
    let (host, _) = heard_on("discrete-4k", VIRTUAL, 4 * MIB, |_| false);
    let luid = host.adapter(0).luid();
    let watcher = ProcessLink::new(Arc::clone(&host));
    let own = d3dkmt::own_identity(watcher.as_ref()).expect("an answer").expect("the host has told the kernel");
    assert_eq!(own.pid, std::process::id());
    assert_eq!(own.name, std::fs::read_to_string("/proc/self/comm").expect("procfs").trim_end());
    let known = || d3dkmt::enum_processes(watcher.as_ref(), luid).expect("the adapter is there");
    assert_eq!(known(), [], "a process that only looks has no device");
    let worker = Worker::new(&host, Stage::Hardware);
    assert_eq!(known(), [worker.link.process()]);
    let ids = |figures: AdapterStatistics| figures.processes.iter().map(|one| one.process).collect::<Vec<_>>();
    let both = figures(&host, &watcher);
    assert_eq!(both.processes.iter().map(|one| one.identity.clone()).collect::<Vec<_>>(), [None, Some(own)]);
    assert_eq!(ids(both), [ProcessId::SYSTEM, worker.link.process()]);
    let signaled = figures(&host, &watcher).counts.fences_signaled;
    let fence = worker.gpu.device().create_native_fence(Default::default()).expect("a fence");
    worker.gpu.device().signal(&fence, 1).expect("a signal");
    let after = figures(&host, &watcher);
    assert_eq!(after.counts.fences_signaled, signaled + 1);
    assert_eq!(of(&after, worker.link.process()).fences_signaled, 1);
    drop(fence);
    drop(worker);
    while host.step() {}
    assert_eq!((known(), ids(figures(&host, &watcher))), (vec![], vec![ProcessId::SYSTEM]));
    assert_eq!(figures(&host, &watcher).counts.fences_signaled, signaled + 1, "the adapter's own stays");
    let unknown = Luid(luid.0 + 100);
    let refused = query_statistics(watcher.as_ref(), unknown).expect_err("there is no such adapter");
    assert_eq!(refused.status, NtStatus::INVALID_PARAMETER);
    let refused = d3dkmt::enum_processes(watcher.as_ref(), unknown).expect_err("there is no such adapter");
    assert_eq!(refused.status, NtStatus::INVALID_PARAMETER);
    host.check_invariants().unwrap();
}

#[test]
fn an_adapter_that_was_stopped_still_says_so() {
    // spec: memory §9.3, sync §2.6
    let host = host_of_several(VIRTUAL, &["discrete-4k"], |_, setup| {
        let fail_fence_update = Box::new(|step: &FenceStep| matches!(step, FenceStep::Current(..)));
        setup.wrap_miniport = Some(wrapped(Whims { fail_fence_update, ..Whims::default() }));
    });
    let link = ProcessLink::new(Arc::clone(&host));
    let gpu = gpu_on(&host, &link, 0);
    let before = figures(&host, &link);
    assert_eq!((before.stopped, before.awake, before.counts.devices_lost), (None, true, 0));
    let fence = gpu.device().create_native_fence(Default::default()).expect("a fence");
    let _ = gpu.device().signal(&fence, 1);
    let after = figures(&host, &link);
    assert!(after.stopped.is_some_and(|reason| reason.contains("0x13")));
    assert_eq!((after.counts.devices_lost, of(&figures(&host, &link), link.process()).devices_lost), (1, 1));
}

#[test]
fn both_clocks_are_told_at_one_moment() {
    let (host, _) = heard_on("discrete-4k", VIRTUAL, 8 * MIB, |_| false);
    let mut worker = Worker::new(&host, Stage::Hardware);
    let surface = worker.surface(MIB);
    worker.gpu.pin(&surface).expect("room");
    let clock = |worker: &Worker| worker.gpu.adapter().query_clock_calibration(NodeId(0)).expect("it has a clock");
    let before = clock(&worker);
    worker.work(&surface, 50);
    let after = clock(&worker);
    let gpu_ns = (after.gpu_counter - before.gpu_counter) * 1_000_000_000 / after.gpu_frequency_hz;
    assert_eq!(gpu_ns, after.cpu_ns - before.cpu_ns, "in virtual time neither drifts");
    assert!(gpu_ns > 0);
    let refused = worker.gpu.adapter().query_clock_calibration(NodeId(64)).expect_err("there is no such node");
    assert_eq!(refused.status, NtStatus::INVALID_PARAMETER);
}

/// A process opens itself to set its figures, and others to query theirs.
#[test]
fn a_process_sets_no_other_process_s_figures() {
    // spec: memory §5.5
    let (host, _) = heard_on("discrete-4k", VIRTUAL, 8 * MIB, |_| false);
    let workers = [Worker::new(&host, Stage::Hardware), Worker::new(&host, Stage::Hardware)];
    let asks = |process: ProcessId, access| {
        let call = Call::Statistics(StatisticsCall::OpenProcess { process, access });
        workers[0].link.call(call).map(drop).map_err(|refusal| refusal.status)
    };
    let [own, other] = [0, 1].map(|nth| workers[nth].link.process());
    let (query, set) = (ProcessAccess::QUERY_INFORMATION, ProcessAccess::SET_INFORMATION);
    for (process, access, answer) in [
        (own, query, Ok(())),
        (own, query | set, Ok(())),
        (own, ProcessAccess::from_bits_retain(1), Err(NtStatus::ACCESS_DENIED)),
        (other, query, Ok(())),
        (other, set, Err(NtStatus::ACCESS_DENIED)),
        (ProcessId(4711), query, Err(NtStatus::INVALID_PARAMETER)),
    ] {
        assert_eq!(asks(process, access), answer, "{process:?}, {access:?}");
    }
}
