//! The adapters of a machine. A turn may act on several: the one that its call names, the owner of an object whose name ends, the creator of a
//! fence or a section that another adapter leaves. Each borrow of an adapter for a change marks it as touched, and the machine settles all that
//! are touched before the turn ends ([`Adapters::settle`], called where news are carried). So no act leaves an adapter with works that it has
//! not given to its hardware, or with a wait that it has not registered, until some later turn of its own.

use std::ops::{Index, IndexMut};

use wddm_types::AdapterIndex;

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::sync::News;

/// The adapters, by their index.
#[derive(Default)]
pub struct Adapters(Vec<Adapter>);

impl Adapters {
    /// An adapter more.
    pub fn push(&mut self, adapter: Adapter) {
        self.0.push(adapter);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All, to be looked at.
    pub fn iter(&self) -> std::slice::Iter<'_, Adapter> {
        self.0.iter()
    }

    /// One, to be looked at.
    pub fn get(&self, index: AdapterIndex) -> Option<&Adapter> {
        self.0.get(index.0 as usize)
    }

    /// One, to be changed.
    pub fn get_mut(&mut self, index: AdapterIndex) -> Option<&mut Adapter> {
        let adapter = self.0.get_mut(index.0 as usize)?;
        adapter.touch();
        Some(adapter)
    }

    /// All, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Adapter> {
        self.0.iter_mut().for_each(Adapter::touch);
        self.0.iter_mut()
    }

    /// All, for what leaves an adapter nothing to settle, such as handing out the news that it has.
    pub fn untouched(&mut self) -> &mut [Adapter] {
        &mut self.0
    }

    /// Settles those that were touched since they settled last. Whether there were any.
    pub fn settle(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut any = false;
        for adapter in self.0.iter_mut().filter(|adapter| adapter.is_touched()) {
            adapter.settle(cx);
            any = true;
        }
        any
    }

    /// The indexes of all.
    pub fn indexes(&self) -> impl Iterator<Item = AdapterIndex> + use<> {
        // CAST: adapters are counted in ones.
        (0..self.0.len() as u32).map(AdapterIndex)
    }

    /// Takes the news of the first adapter that has any for the others.
    pub fn next_news(&mut self) -> Option<(AdapterIndex, Vec<News>)> {
        let adapter = self.0.iter_mut().find(|adapter| adapter.has_news_for_others())?;
        Some((adapter.index(), adapter.take_news_for_others()))
    }
}

impl Index<AdapterIndex> for Adapters {
    type Output = Adapter;

    fn index(&self, index: AdapterIndex) -> &Adapter {
        &self.0[index.0 as usize]
    }
}

impl IndexMut<AdapterIndex> for Adapters {
    fn index_mut(&mut self, index: AdapterIndex) -> &mut Adapter {
        let adapter = &mut self.0[index.0 as usize];
        adapter.touch();
        adapter
    }
}
