//! Private calls to the driver: questions that it knows, and random bytes.

use kmt_calls::{Call, ESCAPE_BYTES_MAX, ESCAPE_DRIVER_PRIVATE, EscapeCall, EscapeFlags};
use softgpu_spec::private_call::Question;
use wddm_types::RawHandle;

use super::Generator;
use crate::known::Kind;

impl Generator<'_> {
    pub(super) fn escape(&mut self) -> Call {
        let device = if self.dice.chance(70) { self.handle(Kind::Device) } else { RawHandle::NONE };
        let kinds = [Kind::HwContext, Kind::ListContext, Kind::VirtualContext];
        let kind = kinds[self.dice.below(3) as usize];
        let context = if self.dice.chance(30) { self.handle(kind) } else { RawHandle::NONE };
        // The first is answered by the device itself: without access to it, or while it sleeps, it is refused.
        let question = if self.dice.chance(60) { Question::Hardware } else { Question::Usage };
        let asks_hardware = question == Question::Hardware && self.dice.chance(80);
        let flags = if asks_hardware { EscapeFlags::HARDWARE_ACCESS.bits() } else { 0 };
        let mut private_data = question.encode().to_vec();
        if self.dice.odd() {
            match self.dice.below(3) {
                0 => private_data.resize(self.dice.number(ESCAPE_BYTES_MAX as u64).min(1 << 17) as usize, 0xA5),
                1 => private_data.clear(),
                _ => {
                    let at = self.dice.below(private_data.len() as u64) as usize;
                    // CAST: any bits will do.
                    private_data[at] ^= 1 << self.dice.below(8) as u8;
                }
            }
        }
        let odd_flag = if self.dice.odd() { 1 << self.dice.below(32) } else { 0 };
        let kind = if self.dice.odd() { self.dice.number32(1100) } else { ESCAPE_DRIVER_PRIVATE };
        Call::Escape(EscapeCall {
            adapter: self.handle(Kind::Adapter),
            device,
            context,
            kind,
            flags: EscapeFlags::from_bits_retain(flags | odd_flag),
            private_data,
        })
    }
}
