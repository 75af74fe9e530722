//! What a process writes without asking anybody: the memory of its rings and locks, the words beside its doorbells, the
//! doorbells themselves.

use kmt_calls::{Call, Mapped, QueueCall, Reply};
use kmt_link::{Link, MappedBytes};
use shared_words::Word;
use shared_words::doorbell::{DOORBELL_BYTES, VALUE_OFFSET};
use wddm_types::{Luid, RawHandle, WordAddress};

use crate::dice::Dice;

/// Of each kind so many are remembered, the latest.
const MEMORY: usize = 6;

/// What a process can write.
#[derive(Debug, Default)]
pub struct Rings {
    /// Doorbells with the words beside them.
    made: Vec<(RawHandle, WordAddress)>,
    /// Where connected ones are in the doorbell page, and the words beside them.
    connected: Vec<(u64, WordAddress)>,
    locked: Vec<Mapped>,
}

impl Rings {
    /// Takes an answer in.
    pub fn answered(&mut self, call: &Call, reply: &Reply) {
        match (call, reply) {
            (_, Reply::Doorbell(made)) => self.made.push((made.doorbell, made.last_queued)),
            (Call::Queue(QueueCall::ConnectDoorbell { doorbell }), Reply::DoorbellOffset { offset, .. }) => {
                let found = self.made.iter().find(|(known, _)| known == doorbell);
                self.connected.extend(found.map(|(_, last_queued)| (*offset, *last_queued)));
            }
            // Who destroys a doorbell has no right to its place any more: that may be another process's already.
            (
                Call::Queue(
                    QueueCall::DestroyDoorbell { .. }
                    | QueueCall::DestroyHwQueue { .. }
                    | QueueCall::DestroyHwContext { .. },
                )
                | Call::DestroyDevice { .. },
                Reply::Done,
            ) => {
                self.made.clear();
                self.connected.clear();
            }
            _ => {}
        }
        let most = self.connected.len().saturating_sub(MEMORY);
        self.connected.drain(..most);
    }

    /// Memory was locked.
    pub fn locked(&mut self, mapped: &Mapped) {
        self.locked.push(mapped.clone());
        let most = self.locked.len().saturating_sub(MEMORY);
        self.locked.drain(..most);
    }

    /// Writes anything anywhere. Says what.
    pub fn store(&mut self, dice: &mut Dice, link: &dyn Link, luid: Luid) -> String {
        let at = dice.below(MEMORY as u64) as usize;
        match (dice.below(3), self.connected.get(at.min(self.connected.len().saturating_sub(1)))) {
            (0, Some(&(offset, _))) => {
                let value = if dice.odd() { dice.edge() } else { dice.below(64) * 8 };
                let Some(page) = link.doorbell_page(luid) else { return "no doorbells".into() };
                Word::store(page.word(offset + VALUE_OFFSET), value);
                // CAST: a doorbell page holds far fewer than 2^32 doorbells.
                link.doorbell_rung(luid, (offset / DOORBELL_BYTES) as u32);
                format!("doorbell at {offset:#x} = {value:#x}")
            }
            (1, Some(&(_, last_queued))) => {
                let value = dice.number(4);
                Word::store(link.system_memory().word(last_queued.0), value);
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
