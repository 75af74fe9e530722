//! Calls on sections (memory §2.7).

use kmt_calls::{Call, CreatedSection, Refusal, Reply, SectionCall};
use wddm_types::{AdapterIndex, RawHandle};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::machine::section;
use crate::object::Object;
use crate::scarcity::NotCreated;

impl Turn<'_> {
    pub(super) fn on_section(&mut self, cx: &mut Cx<'_>, call: SectionCall) -> Result<Answer, Refusal> {
        match call {
            SectionCall::IsInUse { section } => {
                let number = self.section(section)?;
                done(Reply::InUse(self.sections.get(number).is_some_and(|section| section.users() > 1)))
            }
            SectionCall::Create { adapter, size_bytes } => self.create_section(cx, call, (adapter, size_bytes), None),
            SectionCall::CreateOver { adapter, size_bytes, given } => {
                self.create_section(cx, call, (adapter, size_bytes), Some(given))
            }
            SectionCall::Close { section } => {
                let number = self.section(section)?;
                section::close(cx, (self.sections, self.adapters), number);
                self.process.system_handles.remove(section);
                done(Reply::Done)
            }
        }
    }

    fn create_section(
        &mut self,
        cx: &mut Cx<'_>,
        call: SectionCall,
        (adapter, size_bytes): (RawHandle, u64),
        given: Option<u64>,
    ) -> Result<Answer, Refusal> {
        let index = match self.process.handles.get(adapter) {
            Some(Object::Device(index, _)) => *index,
            _ => self.adapter(adapter)?,
        };
        self.adapters[index].running()?;
        let created = self.section_of(cx, index, size_bytes, given);
        created.map_err(|why| self.not_created(index, why, || Call::Section(call)))
    }

    /// A section in system memory of an adapter, with its handle.
    fn section_of(
        &mut self,
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        size_bytes: u64,
        given: Option<u64>,
    ) -> Result<Answer, NotCreated> {
        self.room.may_commit(size_bytes, 1)?;
        let kept = (&mut *self.sections, &mut *self.adapters);
        let (number, mapped) = section::create(cx, kept, (self.from, index), size_bytes, given)?;
        match self.name(Object::Section(number)) {
            Ok(section) => Ok(done(Reply::Section(CreatedSection { section, mapped }))?),
            Err(refusal) => {
                section::close(cx, (self.sections, self.adapters), number);
                Err(refusal.into())
            }
        }
    }
}
