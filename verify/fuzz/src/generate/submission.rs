//! Work that is in order: buffers with their lists and places, command buffers in addresses. Then, now and then, one thing of
//! it is not, so that what is odd gets past every check before the one that it is meant for.

use kmt_calls::{AllocationListFlags, AllocationListItem, Call, PacketCall, PatchLocationItem};
use softgpu_spec::Command;
use wddm_types::{BltRectangle, GpuVa, PAGE_BYTES, RawHandle};

use super::Generator;
use crate::known::Asked;

/// A buffer with its lists.
#[derive(Default)]
struct Listed {
    words: Vec<u64>,
    list: Vec<AllocationListItem>,
    places: Vec<PatchLocationItem>,
}

impl Listed {
    fn new() -> Listed {
        let null = AllocationListItem { allocation: RawHandle::NONE, flags: AllocationListFlags::empty() };
        Listed { list: vec![null], ..Listed::default() }
    }

    /// A command with its addresses: the word of each, what it names there, whether it writes it.
    fn add(&mut self, command: &Command<'_>, operands: &[(usize, RawHandle, u32, bool)]) {
        let at = self.words.len();
        command.encode(&mut self.words);
        for &(word, allocation, offset, write) in operands {
            let found = self.list.iter().position(|item| item.allocation == allocation);
            let index = found.unwrap_or(self.list.len());
            if found.is_none() {
                self.list.push(AllocationListItem { allocation, flags: AllocationListFlags::empty() });
            }
            self.list[index].flags |=
                if write { AllocationListFlags::WRITE_OPERATION } else { AllocationListFlags::empty() };
            // CAST: a buffer has a few commands.
            let (index, patch_offset, split_offset) = (index as u32, (at + word) as u32 * 8, at as u32 * 8);
            self.places.push(PatchLocationItem {
                allocation_index: index,
                slot_id: index,
                driver_id: 0,
                allocation_offset: offset,
                patch_offset,
                split_offset,
            });
        }
    }
}

impl Generator<'_> {
    /// A buffer on memory that is listed and has bus addresses.
    pub(super) fn render(&mut self, context: RawHandle) -> Call {
        let mut usable: Vec<(RawHandle, Asked)> = self.known.listed();
        // An allocation without a bus address, or on no list, costs the device its life: the generator tries that now and then.
        if !self.dice.odd() {
            usable.retain(|(_, asked)| asked.physical);
        }
        let mut made = Listed::new();
        for _ in 0..1 + self.dice.below(4) {
            let Some((target, asked)) = self.dice.pick(&usable) else { break };
            let (source, from) = self.dice.pick(&usable).expect("there is one");
            let most = (asked.bytes.min(from.bytes) / 8).max(1);
            let bytes = (1 + self.dice.below(most.min(PAGE_BYTES))) * 8;
            // CAST: allocations here are small.
            let offset = (self.dice.below((asked.bytes.saturating_sub(bytes) / 8).max(1)) * 8) as u32;
            match self.dice.below(5) {
                0 => made.add(&Command::Nop, &[]),
                1 => made.add(
                    &Command::FillPhysical { target_bus: 0, bytes, pattern: self.dice.number32(9) },
                    &[(1, target, offset, true)],
                ),
                2 => made.add(
                    &Command::CopyPhysical { source_bus: 0, target_bus: 0, bytes },
                    &[(1, source, 0, false), (2, target, offset, true)],
                ),
                3 => {
                    let write = self.dice.chance(50);
                    made.add(&Command::Touch { va: 0, bytes, write, within: false }, &[(1, target, offset, write)]);
                }
                _ => made.add(&Command::Pattern { va: 0, bytes, seed: bytes }, &[(1, target, offset, true)]),
            }
        }
        if made.words.is_empty() {
            made.add(&Command::Nop, &[]);
        }
        if self.dice.odd() {
            self.spoil(&mut made);
        }
        let Listed { words, list, places } = made;
        Call::Packet(PacketCall::Render {
            context,
            command: words,
            allocation_list: list,
            patch_location_list: places,
            private_data: self.private_data(),
        })
    }

    /// One thing of it is not as it was.
    fn spoil(&mut self, made: &mut Listed) {
        let at = |this: &mut Self, length: usize| this.dice.below(length.max(1) as u64) as usize;
        let (word, item, place) = (at(self, made.words.len()), at(self, made.list.len()), at(self, made.places.len()));
        let edge = self.dice.edge();
        match self.dice.below(12) {
            0 => made.words[word] = edge,
            1 => made.words.truncate(word),
            2 => made.words.extend(vec![edge; (edge % 3000) as usize]),
            3 => made.list[item].flags ^= AllocationListFlags::from_bits_retain(1 << self.dice.below(32) as u32),
            4 => made.list[item].allocation = self.handle(crate::known::Kind::Allocation),
            5 => drop(made.list.remove(item)),
            6 => made.list.extend(vec![made.list[item]; (edge % 300) as usize]),
            7 if !made.places.is_empty() => drop(made.places.remove(place)),
            8 => made.places.reverse(),
            9 if !made.places.is_empty() => made.places.extend(vec![made.places[place]; (edge % 300) as usize]),
            _ => {
                // CAST: any bits will do.
                let edge = edge as u32;
                let Some(place) = made.places.get_mut(place) else { return };
                match self.dice.below(7) {
                    0 => place.allocation_index = edge,
                    1 => place.slot_id = edge,
                    2 => place.driver_id = edge,
                    3 => place.allocation_offset = edge,
                    4 => place.patch_offset = edge,
                    _ => place.split_offset = edge,
                }
            }
        }
    }

    pub(super) fn present(&mut self, context: RawHandle) -> Call {
        let mut listed = self.known.listed();
        listed.retain(|(_, asked)| asked.physical);
        let mut one = || match self.dice.pick(&listed) {
            Some((handle, _)) if !self.dice.odd() => handle,
            _ => self.known.handle(self.dice, crate::known::Kind::Allocation),
        };
        let (source, destination) = (one(), one());
        let count = if self.dice.chance(15) { self.dice.below(4) } else { 0 };
        let rectangles = (0..count).map(|_| self.part()).collect();
        Call::Packet(PacketCall::Present { context, source, destination, rectangles })
    }

    /// A part of a blt: of a few texels in even columns mostly.
    fn part(&mut self) -> BltRectangle {
        let wild = self.dice.chance(10);
        let mut edge = || match wild {
            true => self.dice.number32(u32::MAX),
            // CAST: below 20.
            false => self.dice.below(10) as u32 * 2,
        };
        let (source_left, source_top, destination_left, destination_top) = (edge(), edge(), edge(), edge());
        let (width, height) = (edge() + 2 * u32::from(!wild), edge() + u32::from(!wild));
        BltRectangle { source_left, source_top, destination_left, destination_top, width, height }
    }

    /// A command buffer that is one, its address and bytes. Without one, or when wild ones are allowed, any address.
    pub(super) fn buffer(&mut self) -> (GpuVa, u32) {
        let known = self.known.buffers();
        let wild = self.dice.odd() && (self.endless || self.dice.chance(20));
        match self.dice.pick(&known) {
            Some((va, bytes)) if !wild => {
                let bytes = if self.dice.odd() { self.dice.number32(u32::MAX) } else { bytes };
                (va, bytes)
            }
            // Nothing is there, and the address is no multiple of 8.
            None if !self.endless && !wild => (GpuVa(4), 64),
            _ => (self.dice.address(&self.known.addresses), self.dice.number32(64)),
        }
    }

    /// Commands for the beginning of an allocation that was just locked.
    pub fn program(&mut self) -> Vec<u64> {
        let reachable = self.known.reachable();
        let mut words = Vec::new();
        for _ in 0..1 + self.dice.below(4) {
            let (va, room) = self.dice.pick(&reachable).unwrap_or((GpuVa(self.dice.edge()), PAGE_BYTES));
            let (from, most) = self.dice.pick(&reachable).unwrap_or((va, PAGE_BYTES));
            let bytes = (1 + self.dice.below((room.min(most) / 8).max(1))) * 8;
            let (va, source_va) = (va.0, from.0);
            match self.dice.below(6) {
                0 => Command::Nop.encode(&mut words),
                1 => Command::Fill { va, bytes, pattern: 0 }.encode(&mut words),
                2 => Command::Copy { source_va, target_va: va, bytes }.encode(&mut words),
                3 => {
                    let (write, within) = (self.dice.chance(50), self.dice.odd());
                    Command::Touch { va, bytes, write, within }.encode(&mut words);
                }
                4 if self.endless => {
                    Command::Wait { va, value: self.dice.number(3), log: None }.encode(&mut words);
                }
                5 => {
                    let ns = if self.endless { self.dice.number(3_000) } else { self.dice.below(3_000) };
                    Command::Work { ns }.encode(&mut words);
                }
                _ => Command::Pattern { va, bytes, seed: bytes }.encode(&mut words),
            }
        }
        if self.dice.odd() {
            words.push(self.dice.edge());
        }
        words
    }
}
