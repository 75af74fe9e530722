//! A declaration as data: the C header is written from it, and traces of calls are decoded by it.

/// One declared name.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The name in C.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Its shape in C.
    pub shape: Shape,
}

/// The shape that a C name stands for.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A structure.
    Struct(&'static [Field]),
    /// A structure whose fields stand side by side, however they are aligned.
    Packed(&'static [Field]),
    /// A union.
    Union(&'static [Field]),
    /// A word of flags of this C type, bit by bit.
    Flags(&'static str, &'static [Flag]),
    /// An enumeration.
    Enum(&'static [Enumerator]),
}

/// A name of an enumeration.
#[derive(Clone, Copy, Debug)]
pub struct Enumerator {
    /// Its name.
    pub name: &'static str,
    /// The number that it stands for.
    pub is: i64,
    /// Its meaning here; what the library refuses begins with `refused: `.
    pub says: &'static str,
}

/// A field of a structure or union.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name; one that begins with `Anonymous` has none in C.
    pub name: &'static str,
    /// Its type as Rust writes it.
    pub of: &'static str,
    /// First byte.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Its direction (`in`, `out`; `optional`, `unread`) and its meaning here; empty where the field has no name.
    pub says: &'static str,
}

/// A bit of a word of flags, or several that are a number.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name.
    pub name: &'static str,
    /// The first bit.
    pub bit: u32,
    /// How many bits it has.
    pub width: u32,
    /// `flag`, and its meaning here; `out` where the library sets it.
    pub says: &'static str,
}

/// How a type that is a number is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// Without a sign.
    Unsigned,
    /// With a sign.
    Signed,
    /// A handle of the kernel, or one of the operating system.
    Handle,
    /// A GPU virtual address.
    GpuVa,
    /// A wide character.
    Wide,
}
