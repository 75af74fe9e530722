//! A lock of 64 MiB of video memory over a socket: the kernel lends the frames to the client with their content, which the CPU copies into
//! the client's arena, and copies it back at the unlock (decision 0026). The client touches each page between both. Called by `arenas`.
//!
//! The peer that judges does only that: a copy into a memory file that was just made, a touch of each page, and a copy back. A client in
//! the kernel's program sees the frames themselves, and nothing is copied: what that is less is a row without a goal.

use std::sync::Arc;
use std::time::Instant;

use shared_words::Memory;
use softgpu_umd::{Gpu, Surface, SurfaceKind};
use wddm_types::PAGE_BYTES;

use crate::report::{BenchError, Goal, Row};
use crate::served::Kernel;
use crate::statistic::{median, median_ratio};

/// Most times the copies that a lock may cost.
const GOAL: f64 = 1.3;
const BYTES: u64 = 64 << 20;
const SMOKE_BYTES: u64 = 4 << 20;

/// Both rows.
pub(super) fn rows(batches: usize, smoke: bool) -> Result<Vec<Row>, BenchError> {
    let bytes = if smoke { SMOKE_BYTES } else { BYTES };
    let [there, here] = [true, false].map(|served| Client::start(served, bytes));
    let (there, here) = (there?, here?);
    let frames = Memory::reserve_file(bytes)?;
    frames.fill(0, bytes, 1);
    // The first locks touch the memory, and make the client's arena.
    there.lock_ns()?;
    here.lock_ns()?;
    let (mut served, mut copies, mut in_process) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..batches.max(3) {
        served.push(there.lock_ns()?);
        copies.push(copies_ns(&frames)?);
        in_process.push(here.lock_ns()?);
    }
    let against_copies = Some(median_ratio(&served, &copies));
    let against_none = Some(median_ratio(&served, &in_process));
    let milliseconds = |ns: Vec<f64>| format!("{:.2} ms", median(ns) / 1e6);
    let measure = format!("lock, touch and unlock {} MiB of video memory, over a socket", bytes >> 20);
    let ours = milliseconds(served);
    Ok(vec![
        Row {
            measure: measure.clone(),
            ours: ours.clone(),
            peer: format!("copied to a new memory file and back {}", milliseconds(copies)),
            ratio: against_copies,
            goal: Goal::AtMost(GOAL),
        },
        Row {
            measure: format!("{measure}, against no copy"),
            ours,
            peer: format!("in process {}", milliseconds(in_process)),
            ratio: against_none,
            goal: Goal::None,
        },
    ])
}

/// A client with a surface in video memory, and the kernel that it has for itself.
struct Client {
    surface: Surface,
    bytes: u64,
    gpu: Gpu,
    // Behind what uses it.
    _kernel: Kernel,
}

impl Client {
    fn start(served: bool, bytes: u64) -> Result<Client, BenchError> {
        let kernel = Kernel::start(4 * bytes, served)?;
        let gpu = Gpu::open(kernel.connect()?)?;
        let surface = gpu.create_lockable_surface(SurfaceKind::Local, bytes, false)?;
        gpu.pin(&surface)?;
        Ok(Client { surface, bytes, gpu, _kernel: kernel })
    }

    fn lock_ns(&self) -> Result<f64, BenchError> {
        let started = Instant::now();
        let lock = self.surface.lock()?;
        for at in (0..self.bytes).step_by(PAGE_BYTES as usize) {
            let next = lock.read_word(at) + 1;
            lock.write_words(at, &[next]);
        }
        drop(lock);
        // The content goes back at the ring's turn, and the unlock does not wait for that: work behind it does.
        let behind = self.gpu.create_surface(SurfaceKind::Local, PAGE_BYTES)?;
        self.gpu.pin(&behind)?;
        Ok(started.elapsed().as_nanos() as f64)
    }
}

fn copies_ns(frames: &Arc<Memory>) -> Result<f64, BenchError> {
    let bytes = frames.bytes();
    let started = Instant::now();
    let seen = Memory::reserve_file(bytes)?;
    seen.copy_from(0, frames, 0, bytes);
    for at in (0..bytes).step_by(PAGE_BYTES as usize) {
        let next = seen.words(at, 1)[0].load(std::sync::atomic::Ordering::Relaxed) + 1;
        seen.store_words(at, 1, |_| next);
    }
    frames.copy_from(0, &seen, 0, bytes);
    drop(seen);
    Ok(started.elapsed().as_nanos() as f64)
}
