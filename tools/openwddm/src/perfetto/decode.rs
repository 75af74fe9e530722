//! A small decoder of our own for the tests: it shares the field numbers with the writer, not the bytes.

/// One field of a message: its number and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Fixed(u64),
    Block(Vec<u8>),
}

impl Value {
    pub fn number(&self) -> u64 {
        match self {
            Value::Number(value) | Value::Fixed(value) => *value,
            Value::Block(_) => panic!("a block where a number was expected"),
        }
    }

    pub fn block(&self) -> &[u8] {
        match self {
            Value::Block(bytes) => bytes,
            _ => panic!("a number where a block was expected"),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.block().to_vec()).expect("text is UTF-8")
    }
}

/// The fields of a message.
pub struct Fields(pub Vec<(u32, Value)>);

impl Fields {
    pub fn of(mut bytes: &[u8]) -> Fields {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Value::Number(varint(&mut bytes)),
                1 => Value::Fixed(u64::from_le_bytes(take(&mut bytes, 8).try_into().expect("eight bytes"))),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Value::Block(take(&mut bytes, length).to_vec())
                }
                wire => panic!("wire type {wire}"),
            };
            fields.push(((key >> 3) as u32, value));
        }
        Fields(fields)
    }

    pub fn all(&self, field: u32) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |(number, _)| *number == field).map(|(_, value)| value)
    }

    pub fn one(&self, field: u32) -> Option<&Value> {
        let mut all = self.all(field);
        let first = all.next();
        assert!(all.next().is_none(), "field {field} stands there twice");
        first
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (head, rest) = bytes.split_at(length);
    *bytes = rest;
    head
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than ten bytes");
}
