//! A client that behaves: its memory is filled by the engine, moved out, looked at and moved back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use d3dkmt::EvictFlags;
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::NodeId;

use crate::report::BenchError;

/// Bytes of its memory.
pub(super) const BYTES: u64 = 256 << 10;

/// The client.
pub(super) struct Worker {
    stream: Stream,
    surface: Surface,
    gpu: Gpu,
    round: u32,
}

impl Worker {
    pub fn over(link: Arc<dyn Link>) -> Result<Worker, BenchError> {
        let gpu = Gpu::open(link)?;
        let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default())?;
        let surface = gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, BYTES, false)?;
        gpu.pin(&surface)?;
        Ok(Worker { stream, surface, gpu, round: 0 })
    }

    fn round(&mut self) -> Result<(), BenchError> {
        self.round += 1;
        let mut commands = Commands::new();
        commands.fill(self.surface.va(), BYTES, self.round);
        let value = self.stream.submit(&self.gpu, &[], &commands)?;
        self.stream.wait(&self.gpu, value)?;
        self.gpu.device().evict(vec![self.surface.allocation().handle()], EvictFlags::empty())?;
        let lock = self.surface.lock()?;
        let word = u64::from(self.round) << 32 | u64::from(self.round);
        if let Some(at) = (0..BYTES).step_by(8).find(|at| lock.read_word(*at) != word) {
            let found = lock.read_word(at);
            return Err(BenchError::Device(format!(
                "not what was written: {found:#x} at {at:#x}, round {}",
                self.round
            )));
        }
        drop(lock);
        self.gpu.pin(&self.surface)?;
        Ok(())
    }

    /// Rounds in a second of at least this long.
    pub fn rounds_in(&mut self, period: Duration) -> Result<f64, BenchError> {
        // The neighbour has begun by then.
        let until = Instant::now() + period / 10;
        while Instant::now() < until {
            self.round()?;
        }
        let (began, first) = (Instant::now(), self.round);
        while began.elapsed() < period {
            self.round()?;
        }
        Ok(f64::from(self.round - first) / began.elapsed().as_secs_f64())
    }

    pub fn work_until(&mut self, stop: &AtomicBool) -> Result<(), BenchError> {
        while !stop.load(Ordering::Acquire) {
            self.round()?;
        }
        Ok(())
    }
}
