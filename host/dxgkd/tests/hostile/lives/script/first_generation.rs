//! Life at an adapter of WDDM 1: contexts with lists, locks that rename, ranges, presents; a display is the other adapter's.

use std::sync::Arc;

use d3dkmt::{Allocation, Context, Fence, FenceFlags, Lock, LockFlags, MakeResidentFlags};
use softgpu_spec::private_data::{AllocationRequest, Details};
use softgpu_umd::{Gpu, ListedCommands, SurfaceKind, UmdError};
use wddm_types::NodeId;

/// The engine that moves tiles.
const COPY: NodeId = NodeId(1);
const PITCH: u32 = 2048;
/// Two bands.
const BYTES: u64 = 2 * 8 * PITCH as u64;

/// What stays until the life ends.
pub struct FirstGeneration {
    _context: Context,
    _never: Fence,
    _range: Lock,
    // Renamed while commands that wait name an instance.
    _dynamic: Arc<Allocation>,
    used: Arc<Allocation>,
}

pub fn live(gpu: &Gpu) -> Result<FirstGeneration, UmdError> {
    let surface = |pitch| -> Result<Arc<Allocation>, UmdError> {
        let made = gpu.device().create_allocation(private_data(pitch))?;
        gpu.paging().make_resident(vec![made.handle()], MakeResidentFlags::empty())?;
        Ok(made)
    };
    let (tiled, dynamic, used) = (surface(PITCH)?, surface(0)?, surface(0)?);
    let range = tiled.lock_legacy(Vec::new(), LockFlags::LOCK_ENTIRE | LockFlags::ACQUIRE_APERTURE)?;
    let context = Context::create(gpu.device(), COPY, Vec::new())?;
    context.set_in_process_priority(-1)?;
    let mut commands = ListedCommands::new();
    commands.fill((&dynamic, 0), BYTES, 1);
    commands.render(&context)?;
    drop(used.lock_legacy(Vec::new(), LockFlags::LOCK_ENTIRE)?);
    let discards = LockFlags::LOCK_ENTIRE | LockFlags::DISCARD | LockFlags::WRITE_ONLY;
    let rendered = || -> Result<(), UmdError> {
        let mut commands = ListedCommands::new();
        commands.copy((&dynamic, 0), (&used, 0), BYTES);
        Ok(commands.render(&context).map(drop)?)
    };
    rendered()?;
    dynamic.lock_legacy(Vec::new(), discards)?.fill_words(0, 8, |word| word);
    let never = gpu.device().create_monitored_fence(FenceFlags::NO_GPU_ACCESS, 0)?;
    context.wait(&never, 1)?;
    rendered()?;
    context.present(&used, &dynamic)?;
    Ok(FirstGeneration { _context: context, _never: never, _range: range, _dynamic: dynamic, used })
}

fn private_data(pitch: u32) -> Vec<u8> {
    let request = AllocationRequest {
        kind: SurfaceKind::LocalThenSystem,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: BYTES,
    };
    request.encode_with(&Details { tile_pitch: pitch, ..Details::default() }).to_vec()
}

impl FirstGeneration {
    /// A lock that waits for the commands that use the allocation.
    pub fn lock_what_is_used(&self) -> Result<(), UmdError> {
        Ok(self.used.lock_legacy(Vec::new(), LockFlags::LOCK_ENTIRE).map(drop)?)
    }
}
