//! Command buffers for contexts without GPU virtual addresses: commands that name memory by allocation and offset, and the
//! two lists that say where (memory §7.2, §7.3). The kernel-mode driver puts the addresses in.

use d3dkmt::{
    Allocation, AllocationListFlags, AllocationListItem, Context, CreatedContext, PatchLocationItem, Refusal,
};
use softgpu_spec::Command;
use softgpu_spec::tile::Tiling;
use wddm_types::RawHandle;

/// Words of the longest command here.
const COMMAND_WORDS_MAX: usize = 6;
/// Addresses that one command needs at most.
const COMMAND_OPERANDS_MAX: usize = 2;

/// Part of a tiled surface, in linear order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurfacePart {
    /// How the surface is tiled.
    pub tiling: Tiling,
    /// First byte; a multiple of 8.
    pub offset: u64,
    /// How much; a multiple of 8.
    pub bytes: u64,
}

/// A command buffer under construction, with its lists.
#[derive(Clone, Debug)]
pub struct ListedCommands {
    /// The commands, with 0 in place of each address.
    pub words: Vec<u64>,
    /// Element 0 is NULL, then each allocation once.
    pub allocations: Vec<AllocationListItem>,
    /// One entry for each address, and one for each slot that is unbound.
    pub places: Vec<PatchLocationItem>,
    /// Slots that the last command has bound: 1 to this.
    slots: u32,
    /// A length of work stands before what is recorded, here or in an earlier buffer of the submission.
    within_work: bool,
}

impl Default for ListedCommands {
    fn default() -> Self {
        ListedCommands::new()
    }
}

impl ListedCommands {
    /// An empty buffer.
    pub fn new() -> ListedCommands {
        let null = AllocationListItem { allocation: RawHandle::NONE, flags: AllocationListFlags::empty() };
        ListedCommands { words: Vec::new(), allocations: vec![null], places: Vec::new(), slots: 0, within_work: false }
    }

    /// Copies between allocations. Offsets and bytes are multiples of 8.
    pub fn copy(&mut self, source: (&Allocation, u32), target: (&Allocation, u32), bytes: u64) -> &mut ListedCommands {
        let at = self.words.len();
        Command::CopyPhysical { source_bus: 0, target_bus: 0, bytes }.encode(&mut self.words);
        self.place(at, &[(at + 1, source, false), (at + 2, target, true)]);
        self
    }

    /// Copies part of a tiled surface from linear bytes, in the order of its rows.
    pub fn swizzle(
        &mut self,
        linear: (&Allocation, u32),
        surface: &Allocation,
        part: SurfacePart,
    ) -> &mut ListedCommands {
        self.tiled(linear, surface, part, true)
    }

    /// Copies part of a tiled surface to linear bytes, in the order of its rows.
    pub fn unswizzle(
        &mut self,
        surface: &Allocation,
        linear: (&Allocation, u32),
        part: SurfacePart,
    ) -> &mut ListedCommands {
        self.tiled(linear, surface, part, false)
    }

    fn tiled(
        &mut self,
        linear: (&Allocation, u32),
        surface: &Allocation,
        SurfacePart { tiling, offset, bytes }: SurfacePart,
        swizzle: bool,
    ) -> &mut ListedCommands {
        let at = self.words.len();
        Command::CopyTiled { linear_bus: 0, surface_bus: 0, offset, bytes, tiling, swizzle }.encode(&mut self.words);
        self.place(at, &[(at + 1, linear, !swizzle), (at + 2, (surface, 0), swizzle)]);
        self
    }

    /// Fills a range with a 32-bit pattern.
    pub fn fill(&mut self, target: (&Allocation, u32), bytes: u64, pattern: u32) -> &mut ListedCommands {
        let at = self.words.len();
        Command::FillPhysical { target_bus: 0, bytes, pattern }.encode(&mut self.words);
        self.place(at, &[(at + 1, target, true)]);
        self
    }

    /// What is recorded from here on is work of a known length: as of [`Commands::work`](crate::Commands::work).
    pub fn work(&mut self, ns: u64) -> &mut ListedCommands {
        Command::Work { ns }.encode(&mut self.words);
        self.go_on_within()
    }

    /// The work of an earlier buffer goes on in this one: its touches take no time of their own.
    pub(crate) fn go_on_within(&mut self) -> &mut ListedCommands {
        self.within_work = true;
        self
    }

    /// Reads the first bytes of an allocation, and writes them back changed if `write`. Byte counts are rounded up to 8.
    pub fn touch(&mut self, target: &Allocation, bytes: u64, write: bool) -> &mut ListedCommands {
        let at = self.words.len();
        let within = self.within_work;
        Command::Touch { va: 0, bytes: bytes.next_multiple_of(8), write, within }.encode(&mut self.words);
        self.place(at, &[(at + 1, (target, 0), write)]);
        self
    }

    /// Writes the content of a seed.
    pub fn pattern(&mut self, target: &Allocation, bytes: u64, seed: u64) -> &mut ListedCommands {
        let at = self.words.len();
        Command::Pattern { va: 0, bytes: bytes.next_multiple_of(8), seed }.encode(&mut self.words);
        self.place(at, &[(at + 1, (target, 0), true)]);
        self
    }

    /// Compares with the content of a seed; the first mismatch is written to `report` under `tag`.
    pub fn check(
        &mut self,
        source: &Allocation,
        bytes: u64,
        seed: u64,
        report: &Allocation,
        tag: u64,
    ) -> &mut ListedCommands {
        let at = self.words.len();
        Command::Check { va: 0, bytes: bytes.next_multiple_of(8), seed, report_va: 0, tag }.encode(&mut self.words);
        self.place(at, &[(at + 1, (source, 0), false), (at + 4, (report, 0), true)]);
        self
    }

    /// Whether one more command surely fits a context's buffers and lists.
    pub fn has_room(&self, sizes: &CreatedContext) -> bool {
        let room = |used: usize, more: usize, limit: u32| used + more <= limit as usize;
        room(self.words.len(), COMMAND_WORDS_MAX, sizes.command_buffer_bytes / 8)
            && room(self.allocations.len(), COMMAND_OPERANDS_MAX, sizes.allocation_list_entries)
            && room(self.places.len(), COMMAND_OPERANDS_MAX, sizes.patch_location_list_entries)
    }

    /// Renders the commands on a context. Returns how many of its buffers are queued and not done.
    ///
    /// # Errors
    /// As of [`Context::render`].
    pub fn render(&self, context: &Context) -> Result<u32, Refusal> {
        context.render(self.words.clone(), self.allocations.clone(), self.places.clone())
    }

    /// The addresses of the command that begins at word `command`: in which word each stands. An engine keeps nothing from one
    /// command to the next, so each command takes the first slots and unbinds the ones that it does not use: a buffer can be
    /// split before every command.
    // spec: memory §7.3
    fn place(&mut self, command: usize, operands: &[(usize, (&Allocation, u32), bool)]) {
        // CAST: a command buffer is far below 4 GiB, and a command has a few operands.
        let (split_offset, count) = (command as u32 * 8, operands.len() as u32);
        for slot_id in count + 1..=self.slots {
            let unbind = PatchLocationItem { slot_id, patch_offset: split_offset, split_offset, ..Default::default() };
            self.places.push(unbind);
        }
        self.slots = count;
        for (slot_id, &(word, (allocation, allocation_offset), write)) in (1..).zip(operands) {
            let allocation_index = self.index_of(allocation, write);
            let patch_offset = word as u32 * 8;
            self.places.push(PatchLocationItem {
                allocation_index,
                slot_id,
                driver_id: 0,
                allocation_offset,
                patch_offset,
                split_offset,
            });
        }
    }

    // spec: memory §7.2
    fn index_of(&mut self, allocation: &Allocation, write: bool) -> u32 {
        let handle = allocation.handle();
        let found = self.allocations.iter().position(|item| item.allocation == handle);
        let index = found.unwrap_or(self.allocations.len());
        if found.is_none() {
            self.allocations.push(AllocationListItem { allocation: handle, flags: AllocationListFlags::empty() });
        }
        if write {
            self.allocations[index].flags |= AllocationListFlags::WRITE_OPERATION;
        }
        // CAST: a list is far below 2^32 entries.
        index as u32
    }
}
