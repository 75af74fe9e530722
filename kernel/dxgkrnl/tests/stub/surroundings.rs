//! The surroundings of a machine under test: memory, and computers that provide nothing, or caches in which nothing is cached.

use std::sync::Arc;

use dxgkrnl::{CpuCache, Cx, Effect, Platform};
use events::Tracer;
use shared_words::Memory;
use wddm_types::PageRun;

use super::PAGES;

/// Caches of a CPU in which nothing is ever cached.
#[derive(Debug)]
pub struct NoCache;

impl Platform for NoCache {
    fn cpu_cache(&self) -> Option<&dyn CpuCache> {
        Some(self)
    }
}

/// A computer that provides nothing.
#[derive(Debug)]
pub struct Bare;

impl Platform for Bare {}

/// The surroundings of a machine: memory, and what the computer of its one adapter provides.
pub struct Surroundings {
    memory: Arc<Memory>,
    platforms: [Box<dyn Platform>; 1],
    effects: Vec<Effect>,
}

impl Surroundings {
    pub fn of(platform: impl Platform + 'static) -> Surroundings {
        let memory = Memory::reserve(PAGES * 4096).unwrap();
        Surroundings { memory, platforms: [Box::new(platform)], effects: Vec::new() }
    }

    /// The context of a turn at time 0.
    pub fn cx<'a>(&'a mut self, tracer: &'a mut dyn Tracer) -> Cx<'a> {
        let Surroundings { memory, platforms, effects } = self;
        Cx { now_ns: 0, effects, tracer, memory, platforms }
    }
}

impl CpuCache for NoCache {
    fn invalidate(&self, _runs: &[PageRun], _offset_bytes: u64, _length_bytes: u64) {}
    fn discard(&self, _runs: &[PageRun]) {}
}
