//! The window system of a world: surfaces that no call asks for are made for a hostile process, which uses them like what it
//! has made itself.

use ddi::{GdiSurfaceKind, RefreshRate, StandardAllocation, Surface, SurfaceFormat};
use kmt_calls::{AllocationCall, AllocationRequest, Call, Reply, ResourceRequest};
use sim::Random;

use crate::dice::Dice;
use crate::known::Kind;
use crate::world::{World, note};

/// Formats, with an unknown one.
const FORMATS: [u32; 7] = [21, 22, 23, 28, 32, 33, 0];
const KINDS: [GdiSurfaceKind; 5] = [
    GdiSurfaceKind::Texture,
    GdiSurfaceKind::StagingCpuVisible,
    GdiSurfaceKind::Staging,
    GdiSurfaceKind::LookupTable,
    GdiSurfaceKind::TextureCrossAdapter,
];

impl World {
    // spec: memory §2.7
    pub(super) fn window_system(&mut self, random: &mut Random) {
        let who = random.index(self.hostile.len());
        let hostile = &mut self.hostile[who];
        let mut dice = hostile.dice.seeded(random.draw());
        hostile.known.choose_device(&mut dice);
        let device = hostile.known.handle(&mut dice, Kind::Device);
        let wanted = wanted(&mut dice);
        self.diary.write(format!("process {}: {wanted:?} on {device:?}", hostile.id.0));
        let result = self.host.create_standard_allocation(hostile.id, device, wanted);
        self.report.calls += 1;
        let call = Call::Allocation(AllocationCall::CreateAllocation {
            device,
            allocations: vec![AllocationRequest::default()],
            resource: ResourceRequest::default(),
        });
        let result = result.map(|surface| Reply::Allocations(surface.created));
        note(&self.diary, &mut self.report, &mut self.hostile[who], &call, result);
    }
}

fn wanted(dice: &mut Dice) -> StandardAllocation {
    let format = SurfaceFormat(dice.pick(&FORMATS).unwrap_or_default());
    let surface = Surface { width: dice.number32(400), height: dice.number32(300), format };
    match dice.below(8) {
        0..3 => StandardAllocation::SharedPrimary {
            surface,
            refresh_rate: RefreshRate { numerator: dice.number32(60), denominator: dice.number32(3) },
            video_source: dice.number32(15),
        },
        3..5 => StandardAllocation::Shadow(surface),
        5 => StandardAllocation::Staging { size_bytes: dice.number(1 << 16) },
        6 => StandardAllocation::VirtualGpu,
        _ => StandardAllocation::Gdi { surface, kind: dice.pick(&KINDS).unwrap_or(GdiSurfaceKind::Texture) },
    }
}
