//! The side of an engine that others reach: register accesses, doorbells, the clock. Its state is behind it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::EngineState;
use crate::counters::Counters;
use crate::lock;
use crate::order::between_threads;

/// The side of an engine that others reach.
#[repr(align(128))]
pub(crate) struct EngineFace {
    /// How many parties want the state's lock. The engine looks before each command and lets go.
    asks: AtomicU32,
    /// There may be bits in `woken`.
    pub(super) news: AtomicU32,
    /// Queues that have become worth looking at.
    pub(super) woken: [AtomicU64; 4],
    /// The engine's thread sleeps, or is about to.
    sleeping: AtomicU32,
    token: Mutex<bool>,
    rise: Condvar,
    /// Virtual time: when the engine next does something. All ones: never by itself.
    pub(crate) due: AtomicU64,
    pub(crate) counters: Counters,
    pub(crate) state: Mutex<EngineState>,
}

impl EngineFace {
    pub(crate) fn new() -> EngineFace {
        EngineFace {
            asks: AtomicU32::new(0),
            news: AtomicU32::new(0),
            woken: [const { AtomicU64::new(0) }; 4],
            sleeping: AtomicU32::new(0),
            token: Mutex::new(false),
            rise: Condvar::new(),
            due: AtomicU64::new(u64::MAX),
            counters: Counters::default(),
            state: Mutex::new(EngineState::new()),
        }
    }

    /// Whether the engine must stop what it does for a moment.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.asks.load(Ordering::Acquire) != 0
    }

    /// Whether a queue was woken since the engine last looked.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire) != 0
    }

    /// Does something with the state while the engine executes nothing.
    pub(crate) fn ask<R>(&self, act: impl FnOnce(&mut EngineState) -> R) -> R {
        self.asks.fetch_add(1, Ordering::SeqCst);
        let result = act(&mut lock(&self.state));
        self.asks.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Notes that a queue is worth looking at and wakes the engine's thread.
    pub(crate) fn wake(&self, queue: u32) {
        self.woken[queue as usize / 64].fetch_or(1 << (queue % 64), Ordering::Release);
        self.rouse();
    }

    /// Wakes the engine's thread.
    pub(crate) fn rouse(&self) {
        self.news.store(1, Ordering::Release);
        between_threads();
        if self.sleeping.load(Ordering::Acquire) != 0 {
            *lock(&self.token) = true;
            self.rise.notify_one();
        }
    }

    /// Sleeps until roused, or for so long; whether it was the latter. Says first that it sleeps and then looks for news, as [`EngineFace::rouse`] gives news first
    /// and then looks for sleepers: no wake-up is lost.
    pub(crate) fn sleep(&self, limit: Option<Duration>) -> bool {
        let mut over = false;
        self.sleeping.store(1, Ordering::Release);
        between_threads();
        if !self.has_news() {
            let mut token = lock(&self.token);
            while !*token && !over {
                token = match limit {
                    None => self.rise.wait(token).unwrap_or_else(PoisonError::into_inner),
                    Some(limit) => {
                        let woken = self.rise.wait_timeout(token, limit).unwrap_or_else(PoisonError::into_inner);
                        over = woken.1.timed_out();
                        woken.0
                    }
                };
            }
            *token = false;
        }
        self.sleeping.store(0, Ordering::Release);
        over
    }
}
