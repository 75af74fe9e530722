//! Bulk commands: copies, fills and the compute kernels. Each goes over its range in pieces of consecutive memory, as long
//! as the page tables give them; a piece that does not exist is a fault before anything of it is touched.

use std::hint::black_box;
use std::sync::atomic::Ordering;

use shared_words::{Memory, Word};
use softgpu_spec::register::fault;
use softgpu_spec::tile::Tiling;
use softgpu_spec::{Command, pattern};

use crate::bus::{Fault, Run};
use crate::execute::{Execution, Outcome};
use crate::mmu::{Access, Space};

/// The longest piece: between pieces the engine can be asked for.
const PIECE_BYTES: u64 = 16 << 20;
/// Bytes that kernels which change memory hold at a time.
const CHUNK_BYTES: u64 = 64 << 10;

/// One range of a bulk command.
#[derive(Clone, Copy)]
struct Range {
    space: Space,
    start: u64,
    bytes: u64,
    write: bool,
}

/// A tiled surface.
#[derive(Clone, Copy)]
struct Surface {
    bus: u64,
    tiling: Tiling,
}

impl Execution<'_> {
    /// Executes a bulk command from where it stands.
    pub(crate) fn bulk(&mut self, command: &Command<'_>) -> Result<Outcome, Fault> {
        let space = self.queue.space();
        match *command {
            Command::Copy { source_va, target_va, bytes } => {
                let before = self.flight.progress;
                let outcome = self.copy(space, source_va, target_va, bytes);
                if self.queue.privileged {
                    self.face.counters.copy_bytes.add(self.flight.progress - before);
                }
                outcome
            }
            Command::CopyPhysical { source_bus, target_bus, bytes } => {
                let before = self.flight.progress;
                let outcome = self.copy(Space::Bus, source_bus, target_bus, bytes);
                self.face.counters.copy_bytes.add(self.flight.progress - before);
                outcome
            }
            Command::CopyTiled { linear_bus, surface_bus, offset, bytes, tiling, swizzle } => {
                let before = self.flight.progress;
                let outcome = self.copy_tiled(linear_bus, Surface { bus: surface_bus, tiling }, offset, bytes, swizzle);
                self.face.counters.copy_bytes.add(self.flight.progress - before);
                outcome
            }
            Command::Fill { va, bytes, pattern } => self.fill(space, va, bytes, pattern),
            Command::FillPhysical { target_bus, bytes, pattern } => self.fill(Space::Bus, target_bus, bytes, pattern),
            Command::Touch { va, bytes, write, .. } => {
                self.each(Range { space, start: va, bytes, write }, |memory, offset, run, _| {
                    if write {
                        change_words(memory, offset, run);
                    } else {
                        black_box(sum_words(memory, offset, run));
                    }
                    None
                })
            }
            Command::Pattern { va, bytes, seed } => {
                self.each(Range { space, start: va, bytes, write: true }, |memory, offset, run, at| {
                    memory.store_words(offset, run / 8, |index| pattern::word(seed, at + index * 8));
                    None
                })
            }
            Command::Check { va, bytes, seed, report_va, tag } => self.check(va, bytes, seed, report_va, tag),
            Command::Checksum { va, bytes, result_va } => self.checksum(va, bytes, result_va),
            Command::Saxpy { x_va, y_va, elements, a_bits } => self.saxpy(x_va, y_va, elements, f32::from_bits(a_bits)),
            _ => Err(self.refused(fault::BAD_COMMAND)),
        }
    }

    fn copy(&mut self, space: Space, source: u64, target: u64, bytes: u64) -> Result<Outcome, Fault> {
        self.in_range(source, bytes)?;
        self.in_range(target, bytes)?;
        while self.flight.progress < bytes {
            let left = (bytes - self.flight.progress).min(PIECE_BYTES);
            let from = space.run(&self.gpu.bus, source + self.flight.progress, left, false)?;
            let to = space.run(&self.gpu.bus, target + self.flight.progress, from.bytes, true)?;
            if self.gpu.stores_content() {
                copy_run(self.gpu, from, to);
            }
            self.flight.progress += to.bytes;
            if self.gives_way() && self.flight.progress < bytes {
                return Ok(Outcome::Again);
            }
        }
        Ok(Outcome::Done)
    }

    /// Row by row of a tile: at the surface's end what follows in linear order lies elsewhere after 512 bytes.
    fn copy_tiled(
        &mut self,
        linear: u64,
        surface: Surface,
        offset: u64,
        bytes: u64,
        swizzle: bool,
    ) -> Result<Outcome, Fault> {
        self.in_range(linear, bytes)?;
        self.in_range(offset, bytes)?;
        // The last byte's place is below the end of its band.
        self.in_range(surface.bus, (offset + bytes).saturating_add(surface.tiling.band_bytes()))?;
        while self.flight.progress < bytes {
            let at = self.flight.progress;
            let (place, room) = surface.tiling.place(offset + at);
            let there = Space::Bus.run(&self.gpu.bus, surface.bus + place, room.min(bytes - at), swizzle)?;
            let here = Space::Bus.run(&self.gpu.bus, linear + at, there.bytes, !swizzle)?;
            let piece = there.bytes.min(here.bytes);
            let (from, to) = if swizzle { (here, there) } else { (there, here) };
            if self.gpu.stores_content() {
                copy_run(self.gpu, from, Run { bytes: piece, ..to });
            }
            self.flight.progress += piece;
            if self.gives_way() && self.flight.progress < bytes {
                return Ok(Outcome::Again);
            }
        }
        Ok(Outcome::Done)
    }

    fn fill(&mut self, space: Space, start: u64, bytes: u64, pattern: u32) -> Result<Outcome, Fault> {
        self.each(Range { space, start, bytes, write: true }, |memory, offset, run, _| {
            memory.fill(offset, run, pattern);
            None
        })
    }

    /// Compares; the first difference is reported and ends the command.
    fn check(&mut self, va: u64, bytes: u64, seed: u64, report_va: u64, tag: u64) -> Result<Outcome, Fault> {
        let range = Range { space: self.queue.space(), start: va, bytes, write: false };
        let mut different = None;
        let outcome = self.each(range, |memory, offset, run, at| {
            let index =
                memory.scan_words(offset, run / 8, |index, word| word == pattern::word(seed, at + index * 8))?;
            let word_at = at + index * 8;
            different = Some((word_at, Word::load(memory.word(offset + index * 8)), pattern::word(seed, word_at)));
            Some(())
        })?;
        if let Some((offset, found, expected)) = different {
            self.report(report_va, tag, offset, found, expected)?;
        }
        Ok(outcome)
    }

    /// Writes a report if there is none yet: word 0 last.
    fn report(&mut self, va: u64, tag: u64, offset: u64, found: u64, expected: u64) -> Result<(), Fault> {
        let word = |execution: &mut Self, index: u64| execution.word(va.wrapping_add(index * 8), Access::Write);
        let first = word(self, pattern::report::TAG)?;
        if Word::load(first.word) != 0 {
            return Ok(());
        }
        for (index, value) in
            [(pattern::report::OFFSET, offset), (pattern::report::FOUND, found), (pattern::report::EXPECTED, expected)]
        {
            Word::store(word(self, index)?.word, value);
        }
        // Another engine may have reported meanwhile; the first one keeps the tag.
        let _ = first.word.compare_exchange(0, tag.wrapping_add(1), Ordering::AcqRel, Ordering::Acquire);
        Ok(())
    }

    fn checksum(&mut self, va: u64, bytes: u64, result_va: u64) -> Result<Outcome, Fault> {
        let range = Range { space: self.queue.space(), start: va, bytes, write: false };
        let mut sum = self.flight.sum;
        let outcome = self.each(range, |memory, offset, run, _| {
            sum = sum.wrapping_add(sum_words(memory, offset, run));
            None
        })?;
        self.flight.sum = sum;
        if matches!(outcome, Outcome::Done) {
            let target = self.word(result_va, Access::Write)?;
            Word::store(target.word, sum);
        }
        Ok(outcome)
    }

    fn saxpy(&mut self, x_va: u64, y_va: u64, elements: u64, a: f32) -> Result<Outcome, Fault> {
        let space = self.queue.space();
        let bytes = elements.saturating_mul(4);
        self.in_range(x_va, bytes)?;
        self.in_range(y_va, bytes)?;
        self.aligned(x_va)?;
        self.aligned(y_va)?;
        while self.flight.progress < bytes {
            let left = (bytes - self.flight.progress).min(CHUNK_BYTES);
            let x = space.run(&self.gpu.bus, x_va + self.flight.progress, left, false)?;
            let y = space.run(&self.gpu.bus, y_va + self.flight.progress, x.bytes, true)?;
            if let (true, Some((y_memory, y_offset))) = (self.gpu.stores_content(), self.gpu.bus.memory(y.site)) {
                let mut x_bytes = vec![0; y.bytes as usize];
                if let Some((memory, offset)) = self.gpu.bus.memory(x.site) {
                    memory.read(offset, &mut x_bytes);
                }
                let mut y_bytes = vec![0; y.bytes as usize];
                y_memory.read(y_offset, &mut y_bytes);
                for (x, y) in x_bytes.chunks_exact(4).zip(y_bytes.chunks_exact_mut(4)) {
                    let float = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    let value = a * float(x) + float(y);
                    y.copy_from_slice(&value.to_le_bytes());
                }
                y_memory.write(y_offset, &y_bytes);
            }
            self.flight.progress += y.bytes;
            if self.gives_way() && self.flight.progress < bytes {
                return Ok(Outcome::Again);
            }
        }
        Ok(Outcome::Done)
    }

    /// Calls `piece(memory, offset, bytes, position in the range)` for each piece that is memory; `Some` ends the command.
    /// The page of zeros and modelled content are only passed over.
    fn each(
        &mut self,
        range: Range,
        mut piece: impl FnMut(&Memory, u64, u64, u64) -> Option<()>,
    ) -> Result<Outcome, Fault> {
        self.in_range(range.start, range.bytes)?;
        self.aligned(range.start)?;
        while self.flight.progress < range.bytes {
            let at = self.flight.progress;
            let run =
                range.space.run(&self.gpu.bus, range.start + at, (range.bytes - at).min(PIECE_BYTES), range.write)?;
            if let (true, Some((memory, offset))) = (self.gpu.stores_content(), self.gpu.bus.memory(run.site))
                && piece(memory, offset, run.bytes, at).is_some()
            {
                return Ok(Outcome::Done);
            }
            self.flight.progress += run.bytes;
            if self.gives_way() && self.flight.progress < range.bytes {
                return Ok(Outcome::Again);
            }
        }
        Ok(Outcome::Done)
    }

    /// Whether a register access asks for the engine.
    fn gives_way(&self) -> bool {
        !self.gpu.is_virtual() && self.face.is_asked()
    }

    fn in_range(&self, start: u64, bytes: u64) -> Result<(), Fault> {
        match start.checked_add(bytes) {
            Some(_) => Ok(()),
            None => Err(Fault { address: start, cause: fault::BAD_ADDRESS, level: 0 }),
        }
    }

    fn aligned(&self, start: u64) -> Result<(), Fault> {
        if start.is_multiple_of(8) {
            Ok(())
        } else {
            Err(Fault { address: start, cause: fault::BAD_ADDRESS, level: 0 })
        }
    }
}

/// Copies one piece: `to.bytes`, which is no more than `from.bytes`.
fn copy_run(gpu: &crate::device::SoftGpu, from: Run, to: Run) {
    match (gpu.bus.memory(from.site), gpu.bus.memory(to.site)) {
        (Some((source, source_offset)), Some((target, offset))) => {
            target.copy_from(offset, source, source_offset, to.bytes)
        }
        (None, Some((target, offset))) => target.write(offset, &vec![0; to.bytes as usize]),
        (_, None) => {}
    }
}

fn sum_words(memory: &Memory, offset: u64, bytes: u64) -> u64 {
    let mut sum = 0u64;
    let _ = memory.scan_words(offset, bytes / 8, |_, word| {
        sum = sum.wrapping_add(word);
        true
    });
    sum
}

/// Adds 1 to each word.
fn change_words(memory: &Memory, offset: u64, bytes: u64) {
    let mut buffer = vec![0; CHUNK_BYTES.min(bytes) as usize];
    let mut at = 0;
    while at < bytes {
        let part = &mut buffer[..CHUNK_BYTES.min(bytes - at) as usize];
        memory.read(offset + at, part);
        for word in part.chunks_exact_mut(8) {
            let value = u64::from_le_bytes(word.try_into().expect("eight bytes")).wrapping_add(1);
            word.copy_from_slice(&value.to_le_bytes());
        }
        memory.write(offset + at, part);
        at += part.len() as u64;
    }
}
