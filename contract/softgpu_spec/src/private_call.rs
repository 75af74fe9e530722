//! The private call of a user-mode driver of the software GPU to the kernel-mode one: a question, which is answered in its own bytes.
//! It is no register and the device never sees it; it stands in the data sheet because both drivers read the data sheet and nothing else
//! of each other. The kernel carries it unread.
//!
//! # Layout, 64 bytes, little-endian
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | [`MAGIC`] |
//! | 4 | 2 | [`VERSION`] |
//! | 6 | 2 | question: 1 what the device says of itself, 2 what its drivers have of it |
//! | 8 | 56 | 0; the answer |
//!
//! | answer to 1 | | answer to 2 | |
//! |---|---|---|---|
//! | 8, 8 | [`crate::register::ID`] | 8, 4 | queues of the device |
//! | 16, 8 | [`crate::register::TIMESTAMP`] | 12, 4 | of these, taken |
//! | 24, 8 | [`crate::register::LOCAL_BYTES`] | 16, 4 | contexts of the device object that asks, 0 if none does |
//! | 32, 8 | [`crate::register::APERTURE_BYTES`] | 20, 4 | 0 |
//! | 40, 4 | [`crate::register::SIGNAL_BITS`] | 24, 8 | doorbells connected so far, each again counted again |
//! | 44, 4 | [`crate::register::PASID_BITS`] | | |
//! | 48, 4 | [`crate::register::DOORBELLS`] | | |
//! | 52, 4 | [`crate::register::RANGES`] | | |
//!
//! All other bytes are 0. The driver answers the first question from registers, so it has to be asked with access to hardware; it answers
//! the second from its own memory alone.
//!
//! The bytes come from a process and are an allegation: [`Question::decode`] checks each of them.

/// "SGES" in ASCII, as a little-endian number.
pub const MAGIC: u32 = u32::from_le_bytes(*b"SGES");
/// The version of the layout.
pub const VERSION: u16 = 1;
/// Bytes of the layout.
pub const BYTES: usize = 64;
/// Where the answer begins.
const ANSWER: usize = 8;

/// The questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The device's description: [`Hardware`].
    Hardware,
    /// The drivers' use of the device: [`Usage`].
    Usage,
}

/// Why bytes are no question. Their writer is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// Another length.
    #[error("a question has 64 bytes, not {0}")]
    Length(usize),
    /// Another magic number.
    #[error("the question begins with {0:#010x}, which no driver of this device writes")]
    Magic(u32),
    /// Another version.
    #[error("the question has version {0}, this driver knows version 1")]
    Version(u16),
    /// No such question.
    #[error("there is no question {0}")]
    Unknown(u16),
    /// Something stands where the answer will.
    #[error("the place of the answer is not 0")]
    Reserved,
}

impl Question {
    /// The number in the layout.
    pub const fn number(self) -> u16 {
        match self {
            Question::Hardware => 1,
            Question::Usage => 2,
        }
    }

    /// The bytes to hand to the kernel.
    pub fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        put(&mut bytes, 6, &self.number().to_le_bytes());
        bytes
    }

    /// Reads what a process has written.
    ///
    /// # Errors
    /// The first rule that the bytes break.
    pub fn decode(bytes: &[u8]) -> Result<(Question, [u8; BYTES]), QuestionError> {
        let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| QuestionError::Length(bytes.len()))?;
        let two = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        if four(bytes, 0) != MAGIC {
            return Err(QuestionError::Magic(four(bytes, 0)));
        }
        if two(4) != VERSION {
            return Err(QuestionError::Version(two(4)));
        }
        let question = match two(6) {
            1 => Question::Hardware,
            2 => Question::Usage,
            other => return Err(QuestionError::Unknown(other)),
        };
        if bytes[ANSWER..].iter().any(|byte| *byte != 0) {
            return Err(QuestionError::Reserved);
        }
        Ok((question, *bytes))
    }
}

/// The device's description of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// [`crate::register::ID`].
    pub id: u64,
    /// Nanoseconds since power-on.
    pub timestamp_ns: u64,
    /// Bytes of local memory.
    pub local_bytes: u64,
    /// Bytes of the aperture.
    pub aperture_bytes: u64,
    /// How many bits an engine stores in one piece for SignalAlways.
    pub signal_bits: u32,
    /// Bits of a process's number at the IOMMU, 0 if there is none.
    pub pasid_bits: u32,
    /// Doorbells with a page of their own.
    pub doorbells: u32,
    /// Unswizzling ranges.
    pub ranges: u32,
}

impl Hardware {
    /// Writes the answer behind the question.
    pub fn write(&self, bytes: &mut [u8; BYTES]) {
        let long = [self.id, self.timestamp_ns, self.local_bytes, self.aperture_bytes];
        for (at, value) in (8..).step_by(8).zip(long) {
            put(bytes, at, &value.to_le_bytes());
        }
        let short = [self.signal_bits, self.pasid_bits, self.doorbells, self.ranges];
        for (at, value) in (40..).step_by(4).zip(short) {
            put(bytes, at, &value.to_le_bytes());
        }
    }

    /// The answer in what came back.
    pub fn read(bytes: &[u8; BYTES]) -> Hardware {
        Hardware {
            id: eight(bytes, 8),
            timestamp_ns: eight(bytes, 16),
            local_bytes: eight(bytes, 24),
            aperture_bytes: eight(bytes, 32),
            signal_bits: four(bytes, 40),
            pasid_bits: four(bytes, 44),
            doorbells: four(bytes, 48),
            ranges: four(bytes, 52),
        }
    }
}

/// The drivers' use of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Queues of the device.
    pub queues: u32,
    /// Of these, taken.
    pub queues_taken: u32,
    /// Contexts of the device object that asks.
    pub contexts: u32,
    /// Doorbells connected so far.
    pub connections: u64,
}

impl Usage {
    /// Writes the answer behind the question.
    pub fn write(&self, bytes: &mut [u8; BYTES]) {
        put(bytes, 8, &self.queues.to_le_bytes());
        put(bytes, 12, &self.queues_taken.to_le_bytes());
        put(bytes, 16, &self.contexts.to_le_bytes());
        put(bytes, 24, &self.connections.to_le_bytes());
    }

    /// The answer in what came back.
    pub fn read(bytes: &[u8; BYTES]) -> Usage {
        Usage {
            queues: four(bytes, 8),
            queues_taken: four(bytes, 12),
            contexts: four(bytes, 16),
            connections: eight(bytes, 24),
        }
    }
}

fn put(bytes: &mut [u8; BYTES], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn four(bytes: &[u8; BYTES], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

fn eight(bytes: &[u8; BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_come_back_as_they_were_written() {
        for question in [Question::Hardware, Question::Usage] {
            assert_eq!(Question::decode(&question.encode()), Ok((question, question.encode())));
        }
        let mut bytes = Question::Hardware.encode();
        let hardware = Hardware {
            id: 1,
            timestamp_ns: 2 << 40,
            local_bytes: 3 << 40,
            aperture_bytes: 4,
            signal_bits: 5,
            pasid_bits: 6,
            doorbells: 7,
            ranges: 8,
        };
        hardware.write(&mut bytes);
        assert_eq!(Hardware::read(&bytes), hardware);
        assert_eq!((bytes[8], bytes[40], bytes[52], &bytes[56..]), (1, 5, 8, &[0; 8][..]), "where the table says");
        let mut bytes = Question::Usage.encode();
        let usage = Usage { queues: 1, queues_taken: 2, contexts: 3, connections: 4 << 40 };
        usage.write(&mut bytes);
        assert_eq!(Usage::read(&bytes), usage);
        assert_eq!((bytes[8], bytes[12], bytes[16], bytes[29]), (1, 2, 3, 4), "where the table says");
    }

    #[test]
    fn hostile_bytes_are_refused() {
        for length in (0..BYTES).chain([BYTES + 1, 4096]) {
            assert_eq!(Question::decode(&vec![0; length]), Err(QuestionError::Length(length)));
        }
        let with = |at: usize, value: u8| {
            let mut bytes = Question::Usage.encode();
            bytes[at] = value;
            Question::decode(&bytes)
        };
        assert!(matches!(with(0, 0), Err(QuestionError::Magic(_))));
        assert_eq!(with(4, 2), Err(QuestionError::Version(2)));
        assert_eq!(with(6, 3), Err(QuestionError::Unknown(3)));
        assert_eq!(with(6, 0), Err(QuestionError::Unknown(0)));
        for at in ANSWER..BYTES {
            assert_eq!(with(at, 1), Err(QuestionError::Reserved), "{at}");
        }
    }
}
