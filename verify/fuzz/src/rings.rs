//! The memory that a process writes without a call: its rings and locks, the words beside its doorbells, the doorbells
//! themselves.

use kmt_calls::{Call, DeviceCall, DoorbellAddress, Mapped, QueueCall, Reply};
use kmt_link::{Link, MappedBytes};
use shared_words::Word;
use wddm_types::WordAddress;

use crate::dice::Dice;

/// Of each kind so many are remembered, the latest.
const MEMORY: usize = 6;

/// The memory that a process can write.
#[derive(Debug, Default)]
pub struct Rings {
    /// Doorbells, connected or not, with the words beside them.
    made: Vec<(DoorbellAddress, WordAddress)>,
    locked: Vec<Mapped>,
}

impl Rings {
    /// Takes an answer in.
    pub fn answered(&mut self, call: &Call, reply: &Reply) {
        match (call, reply) {
            (_, Reply::Doorbell(made)) => self.made.push((made.address, made.last_queued)),
            // The words of a destroyed doorbell may be another process's already, and its address leads nowhere.
            (
                Call::Queue(
                    QueueCall::DestroyDoorbell { .. }
                    | QueueCall::DestroyHwQueue { .. }
                    | QueueCall::DestroyHwContext { .. },
                )
                | Call::Device(DeviceCall::DestroyDevice { .. }),
                Reply::Done,
            ) => self.made.clear(),
            _ => {}
        }
        let most = self.made.len().saturating_sub(MEMORY);
        self.made.drain(..most);
    }

    /// Memory was locked.
    pub fn locked(&mut self, mapped: &Mapped) {
        self.locked.push(mapped.clone());
        let most = self.locked.len().saturating_sub(MEMORY);
        self.locked.drain(..most);
    }

    /// Writes anything anywhere. Says what.
    pub fn store(&mut self, dice: &mut Dice, link: &dyn Link) -> String {
        let at = dice.below(MEMORY as u64) as usize;
        match (dice.below(3), self.made.get(at.min(self.made.len().saturating_sub(1)))) {
            (0, Some(&(address, _))) => {
                let value = if dice.odd() { dice.edge() } else { dice.below(64) * 8 };
                let Some(page) = link.doorbell(address) else { return "no such doorbell".into() };
                page.ring(value);
                format!("{address:?} = {value:#x}")
            }
            (1, Some(&(_, last_queued))) => {
                let value = dice.number(4);
                let memory = link.system_memory().expect("the kernel is in this program");
                Word::store(memory.word(last_queued.0), value);
                format!("last queued = {value:#x}")
            }
            _ => {
                let Some(mapped) = self.locked.get(at.min(self.locked.len().saturating_sub(1))) else {
                    return "nothing".into();
                };
                if link.mapping(mapped.mapping).is_none() {
                    return "the lock is over".into();
                }
                let offset = dice.below(mapped.size_bytes.min(4096) / 8) * 8;
                let value = dice.number(64);
                MappedBytes::new(link, mapped.clone()).write_words(offset, &[value]);
                format!("{:?} at {offset:#x} = {value:#x}", mapped.mapping)
            }
        }
    }
}
