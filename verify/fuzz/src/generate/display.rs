//! Calls about displays, and primaries for them.

use kmt_calls::{
    AllocationCall, AllocationInfoFlags, AllocationRequest, Call, CreateAllocationFlags, DisplayCall,
    MakeResidentFlags, ResidencyCall, ResourceRequest, SourceOwnerType,
};
use softgpu_spec::private_data::{AllocationRequest as PrivateData, Details, Kind as Place};
use wddm_types::{PAGE_BYTES, RawHandle, VidPnSourceId};

use super::Generator;
use crate::known::Kind;

/// Texels of most primaries: two modes.
const MODES: [(u16, u16); 2] = [(32, 8), (16, 16)];

impl Generator<'_> {
    pub(super) fn display_call(&mut self) -> Call {
        let primaries = self.known.primaries();
        if primaries.len() < 2 || self.dice.chance(5) {
            return self.create_primary();
        }
        let listed: Vec<_> = self.known.listed().into_iter().filter(|(_, asked)| asked.primary).collect();
        let mut listed: Vec<_> = listed.into_iter().map(|(handle, _)| handle).collect();
        listed.dedup();
        if listed.len() < 2 && self.dice.chance(80) {
            let (paging_queue, allocations) = (self.handle(Kind::PagingQueue), primaries);
            return Call::Residency(ResidencyCall::MakeResident {
                paging_queue,
                allocations,
                flags: MakeResidentFlags::empty(),
            });
        }
        let device = self.handle(Kind::Device);
        let source = self.source();
        let primary = match self.dice.odd() {
            true => self.handle(Kind::Allocation),
            false if self.dice.chance(5) => self.of(&primaries),
            false => self.of(&listed),
        };
        match self.dice.below(22) {
            0..3 => {
                let sources: Vec<_> = (0..self.dice.below(3)).map(|_| self.source()).chain([source]).collect();
                let sources = sources.into_iter().map(|source| (source, self.owner_type())).collect();
                Call::Display(DisplayCall::SetVidPnSourceOwner { device, sources })
            }
            3 if self.dice.chance(40) => {
                Call::Display(DisplayCall::SetVidPnSourceOwner { device, sources: Vec::new() })
            }
            3..8 => Call::Display(DisplayCall::SetDisplayMode { device, primary }),
            8..17 => {
                let kinds = [Kind::VirtualContext, Kind::ListContext, Kind::HwContext];
                if self.known.here(Kind::Queue) > 0 && self.dice.chance(25) {
                    let (queue, interval) = (self.handle(Kind::Queue), self.dice.number32(6));
                    return Call::Display(DisplayCall::FlipOnHwQueue { queue, primary, interval });
                }
                let kind = if self.dice.chance(90) { 0 } else { 1 + self.dice.below(2) as usize };
                let context = self.handle(kinds[kind]);
                let interval = self.dice.number32(6);
                Call::Display(DisplayCall::Flip { context, primary, interval })
            }
            17 if self.dice.chance(20) => Call::Display(DisplayCall::GetQueuedLimit { device }),
            17 => Call::Display(DisplayCall::SetQueuedLimit { device, limit: self.dice.number32(18) }),
            _ => Call::Display(DisplayCall::WaitForVerticalBlankEvent { device, source }),
        }
    }

    fn of(&mut self, primaries: &[RawHandle]) -> RawHandle {
        self.dice.pick(primaries).unwrap_or(RawHandle::NONE)
    }

    /// Mostly the one way in which a device can present.
    fn owner_type(&mut self) -> SourceOwnerType {
        match self.dice.below(20) {
            0 => SourceOwnerType::Shared,
            1 => SourceOwnerType::ExclusiveGdi,
            2..4 => SourceOwnerType::Emulated,
            _ => SourceOwnerType::Exclusive,
        }
    }

    pub(super) fn source(&mut self) -> VidPnSourceId {
        VidPnSourceId(if self.dice.chance(95) { 0 } else { self.dice.number32(3) })
    }

    fn create_primary(&mut self) -> Call {
        let (display_width, display_height) = MODES[usize::from(self.dice.chance(10))];
        let kind = if self.dice.chance(80) { Place::Local } else { Place::System };
        let data = PrivateData {
            kind,
            cpu_visible: true,
            cached: false,
            accessed_physically: self.dice.chance(50),
            size_bytes: PAGE_BYTES * (1 + self.dice.below(3)),
        };
        let details = Details { display_width, display_height, ..Details::default() };
        let request = AllocationRequest {
            private_data: data.encode_with(&details).to_vec(),
            flags: AllocationInfoFlags::PRIMARY,
            video_source: self.source().0,
            ..AllocationRequest::default()
        };
        let flags = match self.dice.chance(10) {
            true => CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED,
            false => CreateAllocationFlags::empty(),
        };
        Call::Allocation(AllocationCall::CreateAllocation {
            device: self.handle(Kind::Device),
            allocations: vec![request],
            resource: ResourceRequest { flags, ..ResourceRequest::default() },
        })
    }
}
