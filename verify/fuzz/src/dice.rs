//! Values that are mostly what a driver of good will says, and now and then what an attacker would: edges, overflows,
//! things that are not aligned, reserved bits.

use sim::Random;
use wddm_types::{GpuVa, PAGE_BYTES};

/// A stream of chance with a share of malice.
#[derive(Clone, Debug)]
pub struct Dice {
    random: Random,
    /// How many values of a hundred are hostile.
    malice: u64,
}

/// Numbers at which arithmetic breaks.
const EDGES: [u64; 20] = [
    0,
    1,
    7,
    8,
    4095,
    4096,
    4097,
    65535,
    65536,
    65537,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 47,
    (1 << 47) - 4096,
    1 << 48,
    1 << 52,
    1 << 63,
    u64::MAX - 4095,
    u64::MAX,
];

impl Dice {
    /// A stream.
    pub fn new(random: Random, malice: u64) -> Dice {
        Dice { random, malice }
    }

    /// Whether the next value is hostile.
    pub fn odd(&mut self) -> bool {
        self.random.chance(self.malice)
    }

    /// True `percent` times of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.random.chance(percent)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// One of a list; `None` when it is empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        if list.is_empty() { None } else { Some(*self.random.pick(list)) }
    }

    /// An edge, or any number at all.
    pub fn edge(&mut self) -> u64 {
        if self.chance(80) { *self.random.pick(&EDGES) } else { self.random.draw() }
    }

    /// A number up to `most`, or an edge.
    pub fn number(&mut self, most: u64) -> u64 {
        if self.odd() { self.edge() } else { self.below(most + 1) }
    }

    /// The same in 32 bits.
    pub fn number32(&mut self, most: u32) -> u32 {
        // CAST: any bits will do.
        self.number(u64::from(most)) as u32
    }

    /// Bytes: whole pages up to `most`, or an edge.
    pub fn bytes(&mut self, most: u64) -> u64 {
        if self.odd() { self.edge() } else { (1 + self.below(most)) * PAGE_BYTES }
    }

    /// Flags: some of the known ones, with a reserved bit when hostile.
    pub fn flags(&mut self, known: u64, width: u64) -> u64 {
        let flags = if self.chance(60) { 0 } else { self.random.draw() & known };
        if self.odd() { flags | 1 << self.below(width) } else { flags }
    }

    /// The same in 32 bits.
    pub fn flags32(&mut self, known: u32) -> u32 {
        // CAST: both are within 32 bits.
        self.flags(u64::from(known), 32) as u32
    }

    /// An address: one that is known, inside or beside it, or an edge.
    pub fn address(&mut self, known: &[(GpuVa, u64)]) -> GpuVa {
        if self.odd() {
            return GpuVa(self.edge());
        }
        let Some((base, bytes)) = self.pick(known) else { return GpuVa::NULL };
        match self.below(8) {
            0 => GpuVa(base.0.wrapping_add(bytes)),
            1 => GpuVa(base.0.wrapping_add(self.below(bytes.max(1)) & !(PAGE_BYTES - 1))),
            _ => base,
        }
    }

    /// As malicious, with the chance of this seed.
    pub fn seeded(&self, seed: u64) -> Dice {
        Dice { random: Random::new(seed), malice: self.malice }
    }
}
