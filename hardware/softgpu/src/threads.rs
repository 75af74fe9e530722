//! Real time: a thread for each engine, and one for the displays. An engine's thread owns its state as long as no register access asks
//! for it, and sleeps when none of its queues has anything to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use shared_words::own_threads;

use crate::device::SoftGpu;
use crate::engine::Step;
use crate::lock;

/// The device's threads. Dropping it stops and joins them; the device can then be told the time no more.
pub struct Running {
    device: Arc<SoftGpu>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl SoftGpu {
    /// Lets the device run by itself, in real time.
    ///
    /// # Panics
    /// When the operating system gives no thread.
    pub fn run_threads(self: &Arc<Self>) -> Running {
        self.clock.start();
        let stop = Arc::new(AtomicBool::new(false));
        let spawn = |engine: usize| {
            let (device, stop) = (Arc::clone(self), Arc::clone(&stop));
            let name = if engine == softgpu_spec::engine::COPY as usize { "gpu copy" } else { "gpu compute" };
            let run = move || device.run_engine_thread(engine, &stop);
            own_threads::spawn(name, run).expect("the system gives a thread")
        };
        let mut threads: Vec<_> = (0..self.engines.len()).map(spawn).collect();
        if self.config.displays.count > 0 {
            let (device, stop) = (Arc::clone(self), Arc::clone(&stop));
            let run = move || device.displays.run(&device, &stop);
            threads.push(own_threads::spawn("gpu display", run).expect("the system gives a thread"));
        }
        Running { device: Arc::clone(self), stop, threads }
    }

    fn run_engine_thread(&self, engine: usize, stop: &AtomicBool) {
        let face = &self.engines[engine];
        let mut state = lock(&face.state);
        while !stop.load(Ordering::Relaxed) {
            if face.is_asked() {
                drop(state);
                while face.is_asked() && !stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                state = lock(&face.state);
                continue;
            }
            match state.step(self, engine) {
                Step::Went => {}
                Step::Idle => {
                    let limit = state.idle_limit(self);
                    drop(state);
                    let over = face.sleep(limit);
                    state = lock(&face.state);
                    if over {
                        state.say_idle(self, engine);
                    }
                }
                Step::Flush(flush) => {
                    // The other engine may be flushing too: no thread holds a state while it asks for another's.
                    drop(state);
                    self.flush(flush);
                    state = lock(&face.state);
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for face in &self.device.engines {
            face.rouse();
        }
        self.device.displays.rouse();
        for thread in self.threads.drain(..) {
            // A panic of an engine has been printed by its thread; the rest of the device can still be taken down.
            let _ = thread.join();
        }
    }
}
