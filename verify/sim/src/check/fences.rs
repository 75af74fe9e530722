//! Fences as the events tell them: their words never decrease, and the published MonitoredValue lets every waiter be
//! woken.

use std::collections::BTreeMap;

use kmt_calls::CreatedFence;
use shared_words::{Memory, Word};

use crate::check::contract::Broken;

/// Every fence that exists.
#[derive(Debug, Default)]
pub struct Fences {
    fences: BTreeMap<u64, Fence>,
    /// The number of the fence made last, which the world pairs with the handle that the call returned.
    last_created: u64,
}

#[derive(Debug)]
struct Fence {
    process: u32,
    address: Option<u64>,
    seen: u64,
    published: u64,
}

impl Fences {
    /// A fence was made.
    pub fn created(&mut self, process: u32, fence: u64, initial: u64, address: u64) -> Result<(), Broken> {
        // The kernel's own have no handle.
        if process != 0 {
            self.last_created = fence;
        }
        // Only engines look at words without a CPU address.
        let address = Some(address).filter(|address| *address != CreatedFence::NO_CPU_ADDRESS.0);
        if let Some((other, _)) = self.fences.iter().find(|(_, known)| address.is_some() && known.address == address) {
            return Err(format!("fences {other} and {fence} share the word at {address:x?}"));
        }
        self.fences.insert(fence, Fence { process, address, seen: initial, published: u64::MAX });
        Ok(())
    }

    /// A fence was destroyed.
    pub fn destroyed(&mut self, fence: u64) -> Result<(), Broken> {
        self.fences.remove(&fence).map(drop).ok_or_else(|| format!("fence {fence} is destroyed twice"))
    }

    /// A MonitoredValue was published.
    pub fn published(&mut self, fence: u64, value: u64) -> Result<(), Broken> {
        self.fences.get_mut(&fence).ok_or_else(|| format!("fence {fence} is gone and published"))?.published = value;
        Ok(())
    }

    /// The number of the fence made last.
    pub fn last_created(&self) -> u64 {
        self.last_created
    }

    /// Looks at every word. No process here writes them itself.
    // spec: sync §1.1
    pub fn look(&mut self, memory: &Memory) -> Result<(), Broken> {
        for (number, fence) in &mut self.fences {
            let Some(address) = fence.address else { continue };
            let now = Word::load(memory.word(address));
            if now < fence.seen {
                return Err(format!(
                    "fence {number} of process {} went from {} back to {now}",
                    fence.process, fence.seen
                ));
            }
            fence.seen = now;
        }
        Ok(())
    }

    /// CurrentValue as last looked at; `None`: the fence is gone.
    pub fn current(&self, fence: u64) -> Option<u64> {
        self.fences.get(&fence).map(|fence| fence.seen)
    }

    /// A wait for `value` that is not reached is covered by what is published.
    // spec: sync §3.9
    pub fn covers(&self, fence: u64, value: u64) -> Result<(), Broken> {
        match self.fences.get(&fence) {
            Some(known) if known.published >= value => {
                Err(format!("fence {fence} is waited for at {value}, its MonitoredValue is {}", known.published))
            }
            _ => Ok(()),
        }
    }
}
