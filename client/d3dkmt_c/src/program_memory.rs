//! Memory of the program that allocations lie over (`pSystemMem`): its pages become those of a section, which the kernel reaches, too,
//! and its own again when the last of these allocations has gone and nothing queued touches it any more. Memory that the program shares
//! with others stays what it is: a section lies over the file, which the kernel is handed. `shared_words::ProgramPages` moves the pages,
//! `shared_words::ProgramFile` finds the file; this file keeps the sections and their users.

use kmt_calls::{Call, CreatedAllocations, Refusal, Reply, SectionCall, SectionRange};
use shared_words::{ProgramError, ProgramFile, ProgramPages, SectionPages};
use wddm_types::{PAGE_BYTES, RawHandle};

use crate::border::Caller;
use crate::refusal::{expect_reply, invalid, not_supported};

/// The program's pages that are those of sections.
#[derive(Default)]
pub struct ProgramMemory {
    given: Vec<Section>,
}

struct Section {
    section: RawHandle,
    memory: Memory,
    /// The allocations over it that the program has not destroyed; calls that are making some count as well.
    users: Vec<User>,
    making: u32,
}

/// The pages that a section and the program share.
enum Memory {
    /// The section's pages are where the program's were.
    Pages(ProgramPages),
    /// The file's are in the section.
    File(ProgramFile),
}

impl Memory {
    /// Where these bytes of the program lie in the section, if all of them do and the program still has them there.
    fn offset_of(&self, address: u64, size_bytes: u64) -> Option<u64> {
        match self {
            Memory::Pages(pages) => pages.offset_of(address, size_bytes).filter(|_| pages.are_in_place()),
            Memory::File(file) => file.offset_of(address, size_bytes).filter(|_| file.is_in_place()),
        }
    }

    /// Whether some of these bytes are the section's, and others cannot be given with them. Of a file each may be given any number of times.
    fn bars(&self, address: u64, size_bytes: u64) -> bool {
        matches!(self, Memory::Pages(pages) if pages.overlaps(address, size_bytes) && pages.are_in_place())
    }
}

/// An allocation over memory of the program.
#[derive(Clone, Copy)]
pub struct User {
    pub device: RawHandle,
    pub resource: RawHandle,
    pub allocation: RawHandle,
}

/// The sections that a creation uses, as long as it is under way.
#[derive(Default)]
#[must_use = "its sections stay given until the creation has ended"]
pub struct Given {
    sections: Vec<RawHandle>,
}

/// Gives ranges of the program's memory (address and bytes) to the kernel.
///
/// # Errors
/// An address within a page, memory that is not there or not the program's alone, or that lies partly over pages that were given before;
/// whatever the kernel refuses a section for. All of the memory is what it was then.
// spec: memory §2.7
pub fn give(
    caller: &Caller<'_>,
    device: RawHandle,
    places: impl Iterator<Item = (u64, u64)>,
) -> Result<(Given, Vec<SectionRange>), Refusal> {
    let (mut given, mut ranges) = (Given::default(), Vec::new());
    for (address, size_bytes) in places {
        if let Err(refusal) = caller.gives(address, size_bytes) {
            given.abandon(caller);
            return Err(refusal);
        }
        let mut known = caller.process.program_memory();
        match known.give(caller, device, address, size_bytes) {
            Ok(range) => {
                given.sections.push(range.section);
                ranges.push(range);
            }
            Err(refusal) => {
                drop(known);
                given.abandon(caller);
                return Err(refusal);
            }
        }
    }
    Ok((given, ranges))
}

impl Given {
    /// The creation has made allocations.
    pub fn entered(self, caller: &Caller<'_>, device: RawHandle, created: &CreatedAllocations) {
        let mut known = caller.process.program_memory();
        for (section, allocation) in self.sections.into_iter().zip(&created.allocations) {
            let entry = known.given.iter_mut().find(|entry| entry.section == section);
            let entry = entry.expect("a section stays given while a creation is under way");
            entry.making -= 1;
            entry.users.push(User { device, resource: created.resource, allocation: allocation.handle });
        }
    }

    /// It has made none.
    pub fn abandon(&self, caller: &Caller<'_>) {
        let mut known = caller.process.program_memory();
        for section in &self.sections {
            known.given.iter_mut().filter(|entry| entry.section == *section).for_each(|entry| entry.making -= 1);
        }
        known.take_back(caller);
    }
}

impl ProgramMemory {
    /// Allocations were destroyed: those of which `gone` says so.
    pub fn left(&mut self, caller: &Caller<'_>, gone: impl Fn(&User) -> bool) {
        self.given.iter_mut().for_each(|entry| entry.users.retain(|user| !gone(user)));
        self.take_back(caller);
    }

    fn give(
        &mut self,
        caller: &Caller<'_>,
        device: RawHandle,
        address: u64,
        size_bytes: u64,
    ) -> Result<SectionRange, Refusal> {
        if address == 0 || !address.is_multiple_of(PAGE_BYTES) {
            return Err(invalid(format!("the memory of the program at {address:#x} does not begin at a page")));
        }
        self.take_back(caller);
        let within = |entry: &Section| entry.memory.offset_of(address, size_bytes);
        let found = self.given.iter_mut().find_map(|entry| within(entry).map(|offset| (entry, offset)));
        if let Some((entry, offset_bytes)) = found {
            entry.making += 1;
            return Ok(SectionRange { section: entry.section, offset_bytes, size_bytes });
        }
        if self.given.iter().any(|entry| entry.memory.bars(address, size_bytes)) {
            return Err(not_supported(format!(
                "of the {size_bytes:#x} bytes at {address:#x} another allocation covers some pages and not others; create the allocation of the larger range first"
            )));
        }
        let (section, memory) = match ProgramFile::at(address, size_bytes).map_err(refused)? {
            Some(file) => (over_file(caller, device, &file, size_bytes)?, Memory::File(file)),
            None => {
                let (section, pages) = over_pages(caller, device, address, size_bytes)?;
                (section, Memory::Pages(pages))
            }
        };
        self.given.push(Section { section, memory, users: Vec::new(), making: 1 });
        Ok(SectionRange { section, offset_bytes: 0, size_bytes })
    }

    /// Gives the program back the pages that no allocation lies over any more. Pages that queued work may still touch stay until a later
    /// call.
    fn take_back(&mut self, caller: &Caller<'_>) {
        self.given.retain(|entry| {
            if !entry.users.is_empty() || entry.making > 0 {
                return true;
            }
            let section = entry.section;
            let in_use = !matches!(
                caller.process.call(Call::Section(SectionCall::IsInUse { section })),
                Ok(Reply::InUse(false))
            );
            // Memory that is shared was the program's all along.
            if in_use || matches!(&entry.memory, Memory::Pages(pages) if caller.restore_pages(pages).is_err()) {
                return true;
            }
            // The pages are the program's, whatever the kernel answers.
            let _ = caller.process.call(Call::Section(SectionCall::Close { section }));
            false
        });
    }
}

/// A section over bytes of a file that the program shares with others.
fn over_file(
    caller: &Caller<'_>,
    device: RawHandle,
    file: &ProgramFile,
    size_bytes: u64,
) -> Result<RawHandle, Refusal> {
    let reply = caller.process.link().section_over(device, file.file(), file.offset(), size_bytes)?;
    Ok(expect_reply!(reply, Reply::Section(created) => created.section))
}

/// A section whose pages are in place of the program's.
fn over_pages(
    caller: &Caller<'_>,
    device: RawHandle,
    address: u64,
    size_bytes: u64,
) -> Result<(RawHandle, ProgramPages), Refusal> {
    let call = Call::Section(SectionCall::Create { adapter: device, size_bytes });
    let created = expect_reply!(caller.process.call(call)?, Reply::Section(created) => created);
    let runs: Vec<u64> = created.mapped.runs.iter().map(|run| run.run.count.bytes()).collect();
    let mapping = caller.process.link().mapping(created.mapped.mapping);
    let replace = |by: SectionPages<'_>| caller.replace_pages(address, by).map_err(refused);
    let replaced = match mapping.as_ref().map(|mapping| mapping.section_pages(&runs, replace)) {
        Some(Ok(replaced)) => replaced,
        Some(Err(why)) => Err(not_supported(format!("an allocation over memory of the program: {why}"))),
        None => Err(invalid("the section ended while it was made: its device was lost")),
    };
    if replaced.is_err() {
        caller.process.call(Call::Section(SectionCall::Close { section: created.section }))?;
    }
    replaced.map(|pages| (created.section, pages))
}

fn refused(error: ProgramError) -> Refusal {
    match error {
        ProgramError::NotMapped(_) => invalid(error.to_string()),
        _ => not_supported(error.to_string()),
    }
}
