//! Bindings that change with a turn of a suspended device (memory §7.4, §8.6): its packets, queued or with the driver, find what they name
//! where the memory manager brings it back.

use vidmm::{AllocationId, WithheldPlace};

use super::work::{Bindings, Packet, Portion, Work};
use super::{Handed, Nodes, Packets};
use crate::number::{DeviceNumber, PacketContextNumber};
use crate::paging::Binding;

impl Packets {
    /// It is decided where the content of a suspended device with these contexts returns: from its turn on, its packets find it there.
    // spec: memory §7.4, memory §10.1
    pub fn turn_decided(
        &mut self,
        nodes: &mut Nodes,
        device: DeviceNumber,
        contexts: &[PacketContextNumber],
        place_of: impl Fn(AllocationId) -> (Binding, Option<WithheldPlace>),
    ) {
        let turn = self.turns.entry(device).or_default();
        turn.0 += 1;
        let turn = turn.0;
        self.each_named(nodes, contexts, |bindings, id| {
            let (there, withheld) = place_of(id);
            bindings.turns.push_back((turn, bindings.seen(there, withheld)));
        });
    }

    /// The device of these contexts gives way, and withholds content from now on: packets that need it have it nowhere.
    // spec: memory §8.6
    pub fn withheld(
        &mut self,
        nodes: &mut Nodes,
        contexts: &[PacketContextNumber],
        place_of: impl Fn(AllocationId) -> Option<WithheldPlace>,
    ) {
        self.each_named(nodes, contexts, |bindings, id| bindings.now = bindings.seen(bindings.now, place_of(id)));
    }

    /// The oldest turn that was decided has come, or never comes: its content was taken away again before.
    // spec: memory §8.6
    pub fn turn_over(&mut self, nodes: &mut Nodes, device: DeviceNumber, contexts: &[PacketContextNumber], came: bool) {
        // A device that has gone has no packets, and its turns went with it.
        let Some(turns) = self.turns.get_mut(&device) else { return };
        turns.1 += 1;
        debug_assert!(turns.1 <= turns.0, "a turn comes that was decided: {} of {} of {device:?}", turns.1, turns.0);
        let turn = turns.1;
        self.each_named(nodes, contexts, |bindings, _| {
            if let Some((_, binding)) = bindings.turns.pop_front_if(|(of, _)| *of == turn)
                && came
            {
                bindings.now = binding;
            }
        });
    }

    /// A device goes, its contexts before it: no turn is its any more.
    pub fn device_goes(&mut self, device: DeviceNumber) {
        self.turns.remove(&device);
    }

    /// Content moves while the device of these contexts is quiesced: buffers that were bound before learn its new place.
    // spec: memory §7.4
    pub fn relocated(
        &mut self,
        nodes: &mut Nodes,
        contexts: &[PacketContextNumber],
        moved: &[(AllocationId, Binding)],
    ) {
        self.each_named(nodes, contexts, |bindings, id| {
            let Some((_, now)) = moved.iter().find(|(of, _)| *of == id) else { return };
            let turns = bindings.turns.iter_mut().map(|(_, binding)| binding);
            turns.chain([&mut bindings.now]).filter(|old| old.serial < now.serial).for_each(|old| *old = *now);
        });
    }

    /// The places of all memory that these contexts' packets name, queued or with the driver, by entries of their lists and by their portions:
    /// they may come back.
    fn each_named(
        &mut self,
        nodes: &mut Nodes,
        contexts: &[PacketContextNumber],
        mut act: impl FnMut(&mut Bindings, AllocationId),
    ) {
        for context in contexts {
            let known = &mut self.contexts[*context];
            nodes.change_each(known.facts.node, *context, |handed| match handed {
                Handed::Packet { packet, portion, .. } => {
                    of_packet(packet, &mut act);
                    portion.iter_mut().for_each(|portion| of_portion(portion, &mut act));
                }
                Handed::Portion { portion, .. } => of_portion(portion, &mut act),
                Handed::Paging(_) => {}
            });
            known.queued.iter_mut().for_each(|packet| of_packet(packet, &mut act));
        }
    }
}

fn of_packet(packet: &mut Packet, act: &mut impl FnMut(&mut Bindings, AllocationId)) {
    let Work::Patched { entries, portions, .. } = &mut packet.work else { return };
    for bound in entries {
        if let Some(id) = bound.vidmm {
            act(&mut bound.bindings, id);
        }
    }
    portions.iter_mut().for_each(|portion| of_portion(portion, act));
}

fn of_portion(portion: &mut Portion, act: &mut impl FnMut(&mut Bindings, AllocationId)) {
    portion.needs.iter_mut().flatten().for_each(|needed| act(&mut needed.bindings, needed.vidmm));
}
