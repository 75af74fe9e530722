//! The flags of the lock, its waits, and the two forms of a surface.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use d3dkmt::{EvictFlags, LockFlags};
use ddi::AllocationFlags;
use dxgk_host::{Host, HostConfig, Mode};
use events::{Event, Tracer};
use softgpu_umd::{LegacyResource, ListedCommands, MapError, MapKind, TwoForms};
use wddm_types::{CpuPlace, NtStatus, SegmentSet};

use super::{BYTES, ENTIRE, PITCH, RANGE, config, old, rows, tiles, tiling};
use crate::stubborn::{Shared, Step, Whims, wrapped};
use stack::world::VIRTUAL;

/// Counts locks that ignore the GPU's work without saying that they would not wait.
#[derive(Clone, Default)]
struct Alone(Arc<AtomicU32>);

impl Alone {
    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Tracer for Alone {
    fn event(&mut self, _: u64, event: &Event) {
        if matches!(event, Event::IgnoreSyncAlone { .. }) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// The kernel knows the GPU's uses of an allocation: a lock waits for their end, or says that it is busy.
#[test]
fn a_lock_waits_for_the_gpu_or_says_that_it_is_busy() {
    // spec: memory §6.5, memory §6.1, memory §6.4, memory §10.2
    // seed: M48, M49
    let alone = Alone::default();
    let host =
        Host::start(HostConfig { tracer: Box::new(alone.clone()), ..config(Mode::Real) }).expect("the host starts");
    let client = old(&host);
    let (read, written) = (client.surface(0, 0), client.surface(0, 0));
    for allocation in [&read, &written] {
        client.list(allocation);
    }
    client.write(&read, ENTIRE, 1);
    let go = client.fence();
    client.context.wait(&go, 1).expect("a wait");
    let mut commands = ListedCommands::new();
    commands.copy((&read, 0), (&written, 0), BYTES).render(&client.context).expect("a buffer");
    let busy = |allocation, flags| match client.places(allocation, ENTIRE | flags) {
        Ok(_) => false,
        Err(refusal) => {
            assert_eq!(refusal.status, NtStatus::GRAPHICS_ALLOCATION_BUSY, "{refusal}");
            true
        }
    };
    let at_once = LockFlags::DONOT_WAIT;
    assert!(busy(&read, at_once) && busy(&written, at_once));
    assert!(!busy(&read, at_once | LockFlags::IGNORE_READ_SYNC), "it is only read");
    assert!(busy(&written, at_once | LockFlags::IGNORE_READ_SYNC), "it is written");
    assert!(!busy(&written, at_once | LockFlags::IGNORE_SYNC), "the caller knows better");
    assert_eq!(alone.count(), 0, "both flags are as every document has it");
    assert!(!busy(&written, LockFlags::IGNORE_SYNC), "also alone");
    assert_eq!(alone.count(), 1, "which is logged");
    let resource = LegacyResource { allocation: written.clone(), swizzled: false, aperture: true };
    let drawing = resource.map(MapKind::ReadWrite, true, None).map(drop).expect_err("the GPU still uses it");
    assert!(matches!(drawing, MapError::WasStillDrawing), "{drawing}");
    assert_eq!(drawing.hresult_d3d9(), Some(0x8876_021C));
    drop(resource.map(MapKind::WriteNoOverwrite, true, None).expect("no synchronisation"));
    let back = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let seen = client.read(&written, ENTIRE);
            back.store(true, Ordering::SeqCst);
            assert_eq!(seen, rows(1), "the copy is over");
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!back.load(Ordering::SeqCst), "it waits");
        client.gpu.device().signal(&go, 1).expect("the GPU goes on");
    });
    assert!(!busy(&written, at_once));
}

/// One create call, two forms; a lock of the rows waits for the copy out of the tiles.
#[test]
fn a_surface_in_two_forms_is_locked_in_rows() {
    // spec: memory §6.5, memory §2.1
    // seed: M42, M43, M44
    let created: Shared<usize> = Arc::default();
    let heard = Arc::clone(&created);
    let hear = move |step: Step| {
        if let Step::Create(allocations, _) = step {
            heard.lock().expect("a test").push(allocations.len());
        }
    };
    let described: Shared<(bool, SegmentSet)> = Arc::default();
    let descriptions = Arc::clone(&described);
    let describe = move |info: &mut ddi::AllocationInfo| {
        let visible = info.flags.contains(AllocationFlags::CPU_VISIBLE);
        descriptions.lock().expect("a test").push((visible, info.supported_segments));
    };
    let whims = Whims { hear: Box::new(hear), describe: Box::new(describe), packets: true, ..Whims::default() };
    let config = HostConfig { wrap_miniport: Some(wrapped(whims)), ..config(Mode::Real) };
    let host = Host::start(config).expect("the host starts");
    let client = old(&host);
    let forms = TwoForms::create(client.gpu.device(), client.gpu.paging(), tiling(), BYTES).expect("both forms");
    assert_eq!(*created.lock().expect("a test"), [2], "one call makes both");
    // All that the driver has to tell them apart is the private data of each.
    let [(false, tiles_in), (true, rows_in)] = described.lock().expect("a test")[..] else {
        panic!("tiles that the CPU does not reach, and rows that it does: {described:?}")
    };
    assert_ne!(tiles_in, rows_in, "video memory, and system memory");
    let refused = client.places(forms.swizzled(), ENTIRE).expect_err("tiles are not for the CPU");
    assert_eq!(refused.status, NtStatus::GRAPHICS_CANT_LOCK_MEMORY, "{refused}");
    let lock = forms.lock(&client.context).expect("rows");
    lock.fill_words(0, BYTES / 8, |index| 77 + index);
    forms.unlock(&client.context, lock, true).expect("back into tiles");
    let plain = client.surface(0, 0);
    client.list(&plain);
    client.run(|commands| _ = commands.copy((forms.swizzled(), 0), (&plain, 0), BYTES));
    assert_eq!(client.read(&plain, ENTIRE), tiles(77));
    // The GPU draws, and is held up: the lock comes back when the copy behind it is over.
    let go = client.fence();
    client.context.wait(&go, 1).expect("a wait");
    let mut commands = ListedCommands::new();
    commands.fill((forms.swizzled(), 0), BYTES, 9).render(&client.context).expect("a buffer");
    let refused = client.places(forms.swizzled(), ENTIRE | LockFlags::DONOT_WAIT).expect_err("never for the CPU");
    assert_eq!(refused.status, NtStatus::GRAPHICS_CANT_LOCK_MEMORY, "the refusal does not wait: {refused}");
    let back = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lock = forms.lock(&client.context).expect("rows");
            back.store(true, Ordering::SeqCst);
            assert!((0..BYTES / 8).all(|index| lock.read_word(index * 8) == 9 << 32 | 9), "the GPU's drawing");
            forms.unlock(&client.context, lock, false).expect("unwritten");
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!back.load(Ordering::SeqCst), "it waits for the copy");
        client.gpu.device().signal(&go, 1).expect("the GPU goes on");
    });
}

#[test]
fn flags_have_rules_of_their_own() {
    // spec: memory §6.5, memory §9.2
    // seed: U08
    let host = Host::start(config(VIRTUAL)).expect("the host starts");
    let client = old(&host);
    let marked = client.surface(PITCH, AllocationFlags::SWIZZLED.bits());
    let (surface, plain) = (client.surface(PITCH, 0), client.surface(0, 0));
    for allocation in [&surface, &plain, &marked] {
        client.list(allocation);
    }
    let invalid = [
        (&plain, LockFlags::empty()),
        (&plain, ENTIRE | LockFlags::READ_ONLY | LockFlags::WRITE_ONLY),
        (&plain, ENTIRE | LockFlags::from_bits_retain(1 << 11)),
        (&plain, RANGE | LockFlags::IGNORE_SYNC),
        (&plain, ENTIRE | LockFlags::NO_EXISTING_REFERENCE),
        (&plain, ENTIRE | LockFlags::USE_ALTERNATE_VA),
        (&plain, RANGE | LockFlags::USE_ALTERNATE_VA),
        (&marked, ENTIRE | LockFlags::IGNORE_SYNC),
        (&marked, ENTIRE | LockFlags::IGNORE_READ_SYNC),
    ];
    for (allocation, flags) in invalid {
        let refused = client.places(allocation, flags).expect_err("it breaks a rule");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{flags:?}: {refused}");
    }
    let pages = |pages: Vec<u32>| plain.lock_legacy(pages, LockFlags::READ_ONLY).map(drop).map_err(|r| r.status);
    assert_eq!(pages(vec![0, 3]), Ok(()));
    let beyond = (BYTES / 4096) as u32;
    assert_eq!(pages(vec![beyond]), Err(NtStatus::INVALID_PARAMETER), "a page that it does not have");
    // The kernel refuses a lock with a range beside one without.
    let raw = plain.lock_legacy(Vec::new(), ENTIRE).expect("as it lies");
    assert_eq!(client.places(&plain, RANGE).expect_err("locked without").status, NtStatus::INVALID_PARAMETER);
    drop(raw);
    assert_eq!(client.places(&plain, RANGE).expect("unlocked"), [CpuPlace::Bar]);
    let no_overwrite = LegacyResource { allocation: surface.clone(), swizzled: true, aperture: true };
    let refused = no_overwrite.map(MapKind::WriteNoOverwrite, false, None).map(drop);
    assert!(matches!(refused, Err(MapError::InvalidArgument)));
    // Outside its segment it needs no range.
    client.unlist(&plain, EvictFlags::empty());
    assert_eq!(client.places(&plain, RANGE).expect("outside"), [CpuPlace::System]);
}
