//! Nets drawn from a seed: forward, backward and optimizer of layers of drawn sizes, with what real ones have beside a chain: skips, masks that
//! all layers read, recomputed activations, gradients that accumulate over micro-batches, tied weights, workspaces.

use replay::{Event, SourceKind, Storage, Workload};

/// Numbers from a seed (`SplitMix64`).
pub struct Draw(pub u64);

impl Draw {
    /// The next one, below `below`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % below
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

#[derive(Default)]
struct Net {
    storages: Vec<Storage>,
    events: Vec<Event>,
}

impl Net {
    fn new_one(&mut self, bytes: u64, persistent: bool) -> u32 {
        self.storages.push(Storage { bytes: bytes.max(1), persistent });
        self.storages.len() as u32 - 1
    }

    fn op(&mut self, reads: &[u32], writes: &[u32]) {
        let tidy = |set: &[u32]| {
            let mut set = set.to_vec();
            set.sort_unstable();
            set.dedup();
            set
        };
        self.events.push(Event::Op { adapter: None, name: 0, reads: tidy(reads), writes: tidy(writes) });
    }

    fn dies(&mut self, storage: u32) {
        self.events.push(Event::Death(storage));
    }
}

/// One layer's storages.
struct Layer {
    weight: u32,
    state: Vec<u32>,
    out_bytes: u64,
    activation: Option<u32>,
    gradient: Option<u32>,
}

/// A step of a net that the seed draws.
pub fn drawn_net(seed: u64) -> Workload {
    let mut draw = Draw(seed);
    let mut net = Net::default();
    let trains = !draw.one_in(4);
    let states = draw.below(3) as usize;
    let layers = 4 + draw.below(28);
    let (width, batch) = (1000 + draw.below(20_000), 1000 + draw.below(60_000));
    let even = draw.one_in(2);
    let mut all: Vec<Layer> = Vec::new();
    for _ in 0..layers {
        let factor = if even { 4 } else { 1 + draw.below(12) };
        let weight = net.new_one(width * factor, true);
        let state = (0..states).map(|_| net.new_one(width * factor, true)).collect();
        let out_bytes = if even { batch } else { batch / (1 + draw.below(6)) };
        all.push(Layer { weight, state, out_bytes, activation: None, gradient: None });
    }
    if draw.one_in(3) {
        // Tied: the last layer's weight is the first one's.
        all.last_mut().expect("there are layers").weight = all[0].weight;
    }
    let mask = draw.one_in(2).then(|| net.new_one(batch / 4, true));
    let recomputes = trains && draw.one_in(3);
    let micro_batches = if trains && draw.one_in(3) { 2 + draw.below(3) } else { 1 };
    let drops_gradients = draw.one_in(2);
    for _ in 0..micro_batches {
        let input = net.new_one(batch, true);
        let out = forward(&mut net, &mut draw, &mut all, (input, mask), (trains, recomputes));
        if trains {
            backward(&mut net, &mut all, (input, out), (mask, recomputes));
        } else {
            net.dies(out);
        }
    }
    if trains {
        for layer in &mut all {
            let gradient = layer.gradient.take();
            let Some(gradient) = gradient else { continue };
            let mut writes = layer.state.clone();
            writes.push(layer.weight);
            let mut reads = writes.clone();
            reads.push(gradient);
            net.op(&reads, &writes);
            if drops_gradients {
                net.dies(gradient);
            }
        }
    }
    let name = format!("drawn {seed}");
    Workload::new(name.clone(), SourceKind::ReferenceString, net.storages, vec![name], net.events).unwrap()
}

fn forward(
    net: &mut Net,
    draw: &mut Draw,
    all: &mut [Layer],
    (input, mask): (u32, Option<u32>),
    (trains, recomputes): (bool, bool),
) -> u32 {
    let mut at = input;
    let mut skip: Option<u32> = None;
    for (index, layer) in all.iter_mut().enumerate() {
        let out = net.new_one(layer.out_bytes, false);
        let workspace = draw.one_in(4).then(|| net.new_one(layer.out_bytes / 2, false));
        let mut writes = vec![out];
        writes.extend(workspace);
        let mut reads = vec![at, layer.weight];
        reads.extend(mask);
        net.op(&reads, &writes);
        if let Some(workspace) = workspace {
            net.dies(workspace);
        }
        if index % 4 == 3
            && let Some(skip) = skip
        {
            net.op(&[skip, out], &[out]);
        }
        let keeps = trains && !(recomputes && index % 3 != 0);
        let before = std::mem::replace(&mut at, out);
        if before != input && Some(before) != skip && !keeps {
            net.dies(before);
        }
        if index % 4 == 0 {
            let old = skip.replace(out);
            if let Some(old) = old.filter(|_| !keeps) {
                net.dies(old);
            }
        }
        layer.activation = (trains && keeps).then_some(before);
    }
    if let Some(skip) = skip.filter(|skip| *skip != at && !trains) {
        net.dies(skip);
    }
    at
}

fn backward(net: &mut Net, all: &mut [Layer], (input, out): (u32, u32), (mask, recomputes): (Option<u32>, bool)) {
    let mut gradient = net.new_one(all.last().expect("there are layers").out_bytes, false);
    net.op(&[out], &[gradient]);
    let mut dead = vec![false; net.storages.len() + all.len() * 4];
    for event in &net.events {
        if let Event::Death(storage) = event {
            dead[*storage as usize] = true;
        }
    }
    for index in (0..all.len()).rev() {
        let below = if index == 0 { net.storages[input as usize].bytes } else { all[index - 1].out_bytes };
        let next = net.new_one(below, false);
        dead.resize(net.storages.len() + 4, false);
        let layer = &mut all[index];
        let fresh = layer.activation.is_none();
        let activation = layer.activation.take().unwrap_or_else(|| net.new_one(below, false));
        if fresh && recomputes {
            net.op(&[layer.weight], &[activation]);
        }
        let mut reads = vec![gradient, layer.weight, activation];
        reads.extend(mask);
        let bytes = net.storages[layer.weight as usize].bytes;
        let existing = layer.gradient;
        let of_weight = existing.unwrap_or_else(|| net.new_one(bytes, false));
        layer.gradient = Some(of_weight);
        if existing.is_some() {
            reads.push(of_weight);
        }
        net.op(&reads, &[next, of_weight]);
        net.dies(gradient);
        dead.resize(net.storages.len() + 4, false);
        if activation != input && !dead[activation as usize] {
            dead[activation as usize] = true;
            net.dies(activation);
        }
        gradient = next;
    }
    net.dies(gradient);
    if !dead[out as usize] && out != input {
        net.dies(out);
    }
}
