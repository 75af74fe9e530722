//! Protobuf's wire format, as much of it as a trace needs: numbers, fixed 64-bit words, bytes in messages.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Field `field` is a number.
    pub fn number(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    /// Field `field` is a fixed 64-bit word.
    pub fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Field `field` is a text.
    pub fn text(&mut self, field: u32, text: &str) {
        self.block(field, text.as_bytes());
    }

    /// Field `field` is a message.
    pub fn message(&mut self, field: u32, message: &Message) {
        self.block(field, &message.bytes);
    }

    /// The message as it is written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn block(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    fn key(&mut self, field: u32, wire: u64) {
        self.varint(u64::from(field) << 3 | wire);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80); // CAST: the low seven bits
            value >>= 7;
        }
        self.bytes.push(value as u8); // CAST: below 128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_examples() {
        let mut message = Message::default();
        message.number(1, 150);
        message.text(2, "testing");
        message.fixed(3, 1);
        let expected = [&[0x08, 0x96, 0x01, 0x12, 0x07][..], b"testing", &[0x19, 1, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(message.into_bytes(), expected);
    }
}
