//! Sections: memory that a process has before any allocation, which an allocation may take for its backing store (memory
//! §2.2 bit 4, §2.7). The operating system's part, as far as allocations need it.

use kmt_calls::{Mapped, Refusal, SectionRange};
use vidmm::cut_pages;
use wddm_types::{CpuPlace, CpuRun, PAGE_BYTES, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::allocation::Existing;
use crate::coherency::see_cached;
use crate::cpu_mapping::{MappingChange, tell};
use crate::machine::Cx;
use crate::object::Section;
use crate::refusal::{invalid, no_memory};

impl Adapter {
    /// Creates a section of zeroes.
    pub fn create_section(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        size_bytes: u64,
    ) -> Result<(u64, Mapped), Refusal> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(invalid(format!("a section of {size_bytes} bytes is no multiple of the page")));
        }
        let pages = Pages(size_bytes / PAGE_BYTES);
        let runs = self.vidmm.allocate_scattered(pages.0).ok_or_else(|| no_memory("no system memory for a section"))?;
        self.clear_pages(&runs);
        let mut seen: Vec<CpuRun> = runs.iter().map(|run| CpuRun { place: CpuPlace::System, run: *run }).collect();
        if self.config.cpu_cache.is_some() {
            see_cached(&mut seen);
        }
        let mapping = self.map_section(cx, process, seen.clone(), size_bytes);
        let mapped = Mapped { mapping, runs: seen, size_bytes };
        let number = self.sections.insert(Section { process, runs, size_bytes, users: 1, open: true, mapping });
        Ok((number, mapped))
    }

    /// The pages of a part of a section: page aligned, a multiple of the page, inside.
    // spec: memory §2.2
    pub fn section_pages(&self, section: u64, range: SectionRange) -> Result<Existing, Refusal> {
        let whole = &self.sections[section];
        let aligned = range.offset_bytes.is_multiple_of(PAGE_BYTES) && range.size_bytes.is_multiple_of(PAGE_BYTES);
        let end = range.offset_bytes.checked_add(range.size_bytes);
        if !aligned || range.size_bytes == 0 || end.is_none_or(|end| end > whole.size_bytes) {
            return Err(invalid("memory that exists begins and ends at pages of its section"));
        }
        let runs = cut_pages(&whole.runs, range.offset_bytes / PAGE_BYTES, range.size_bytes / PAGE_BYTES);
        Ok(Some((runs, section)))
    }

    /// An allocation lies in the section from now on.
    pub fn enter_section(&mut self, section: Option<u64>) {
        if let Some(section) = section {
            self.sections[section].users += 1;
        }
    }

    /// A handle or an allocation of the section has gone; with the last its pages go.
    pub fn leave_section(&mut self, section: Option<u64>) {
        let Some(number) = section else { return };
        let section = &mut self.sections[number];
        section.users -= 1;
        if section.users == 0 {
            let gone = self.sections.remove(number).expect("just seen");
            if let Some(cache) = &self.config.cpu_cache {
                cache.discard(&gone.runs);
            }
            gone.runs.into_iter().for_each(|run| self.vidmm.free_system(run));
        }
    }

    /// The process has closed its section, or has gone.
    pub fn close_section(&mut self, cx: &mut Cx<'_>, number: u64) {
        tell(cx, self.sections[number].mapping, MappingChange::Gone);
        assert!(std::mem::take(&mut self.sections[number].open), "a section is closed once");
        self.leave_section(Some(number));
    }

    /// The sections of a process that has gone.
    pub fn close_sections_of(&mut self, cx: &mut Cx<'_>, process: ProcessId) {
        let of_process =
            |(number, section): (u64, &Section)| (section.process == process && section.open).then_some(number);
        let open: Vec<u64> = self.sections.iter().filter_map(of_process).collect();
        open.into_iter().for_each(|number| self.close_section(cx, number));
    }
}
