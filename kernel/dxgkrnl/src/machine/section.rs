//! Sections and the adapters that they are made through: pages come from there and return there (memory §2.7).

use kmt_calls::Mapped;
use wddm_types::{AdapterIndex, ProcessId};

use crate::effect::Cx;
use crate::machine::Machine;
use crate::machine::adapters::Adapters;
use crate::number::SectionNumber;
use crate::scarcity::NotCreated;
use crate::section::Sections;

/// Sections, with the adapters that may provide their pages.
type Kept<'a> = (&'a mut Sections, &'a mut Adapters);

/// Creates a section, out of an adapter's share of system memory; `given`: over a file that the process has handed over.
///
/// # Errors
/// As of [`Adapter::provide_section`].
pub fn create(
    cx: &mut Cx<'_>,
    (sections, adapters): Kept<'_>,
    (process, index): (ProcessId, AdapterIndex),
    size_bytes: u64,
    given: Option<u64>,
) -> Result<(SectionNumber, Mapped), NotCreated> {
    let (provided, mapped) = adapters[index].provide_section(cx, process, size_bytes, given)?;
    Ok((sections.enter_new(process, index, size_bytes, provided), mapped))
}

/// The process has closed its section, or has gone.
pub fn close(cx: &mut Cx<'_>, (sections, adapters): Kept<'_>, number: SectionNumber) {
    let (creator, mapping) = sections.close(number);
    adapters[creator].section_closed(cx, mapping);
    leave(cx, (sections, adapters), number);
}

/// Its handle or an allocation in it has gone.
fn leave(cx: &Cx<'_>, (sections, adapters): Kept<'_>, number: SectionNumber) {
    if let Some(gone) = sections.leave(number) {
        adapters[gone.creator].take_section_back(cx, gone);
    }
}

impl Machine {
    /// Closes the sections of a process that has gone.
    pub(super) fn close_sections_of(&mut self, cx: &mut Cx<'_>, process: ProcessId) {
        for number in self.sections.open_of(process) {
            close(cx, (&mut self.sections, &mut self.adapters), number);
        }
    }

    /// Tells sections of allocations that have left them on any adapter.
    pub(super) fn leave_sections(&mut self, cx: &Cx<'_>) {
        for index in 0..self.adapters.len() {
            for section in self.adapters.untouched()[index].take_left_sections() {
                leave(cx, (&mut self.sections, &mut self.adapters), section);
            }
        }
    }
}
