//! The private call: questions of the user-mode driver ([`softgpu_spec::private_call`]), answered in their own bytes.

use ddi::{DriverStatus, Escape, EscapeFlags};
use softgpu_spec::private_call::{BYTES, Hardware, Question, QuestionError, Usage};
use softgpu_spec::{QUEUE_COUNT, register};

use crate::driver::SoftGpuKmd;

#[cfg(test)]
mod tests;

impl SoftGpuKmd {
    /// Answers, or leaves the bytes as they are.
    pub(crate) fn answer_private_call(&self, escape: &mut Escape<'_>) -> Result<(), DriverStatus> {
        let (question, mut bytes) = Question::decode(escape.private_data).map_err(refused)?;
        match question {
            Question::Hardware if !escape.flags.contains(EscapeFlags::HARDWARE_ACCESS) => {
                return Err(DriverStatus::InvalidParameter(
                    "the question is the hardware's, and HardwareAccess is not set",
                ));
            }
            Question::Hardware => self.say_hardware(&mut bytes)?,
            Question::Usage => self.say_usage(escape, &mut bytes),
        }
        escape.private_data.copy_from_slice(&bytes);
        Ok(())
    }

    fn say_hardware(&self, bytes: &mut [u8; BYTES]) -> Result<(), DriverStatus> {
        let read = |offset| match self.port.read_register(offset) {
            register::ABSENT => Err(DriverStatus::Unsuccessful("the device is gone")),
            value => Ok(value),
        };
        // CAST: counts of bits, pages and ranges, each below 2^32.
        let count = |offset| read(offset).map(|value| value as u32);
        let answer = Hardware {
            id: read(register::ID)?,
            timestamp_ns: read(register::TIMESTAMP)?,
            local_bytes: read(register::LOCAL_BYTES)?,
            aperture_bytes: read(register::APERTURE_BYTES)?,
            signal_bits: count(register::SIGNAL_BITS)?,
            pasid_bits: count(register::PASID_BITS)?,
            doorbells: count(register::DOORBELLS)?,
            ranges: count(register::RANGES)?,
        };
        answer.write(bytes);
        Ok(())
    }

    fn say_usage(&self, escape: &Escape<'_>, bytes: &mut [u8; BYTES]) {
        let device = escape.device.and_then(|device| self.devices.get(device.0));
        let answer = Usage {
            queues: QUEUE_COUNT,
            queues_taken: self.queues.taken(),
            contexts: device.map_or(0, |device| device.contexts),
            connections: self.doorbells.connections(),
        };
        answer.write(bytes);
    }
}

fn refused(error: QuestionError) -> DriverStatus {
    DriverStatus::InvalidParameter(match error {
        QuestionError::Length(_) => "a question has 64 bytes",
        QuestionError::Magic(_) => "no driver of this device writes such a question",
        QuestionError::Version(_) => "a version of the question that this driver does not know",
        QuestionError::Unknown(_) => "there is no such question",
        QuestionError::Reserved => "the place of the answer is not 0",
    })
}
