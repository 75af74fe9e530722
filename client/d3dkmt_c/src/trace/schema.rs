//! The declared types by name, as decoding and encoding look them up.

use std::collections::HashMap;
use std::sync::OnceLock;

use d3dkmt_abi::{ARMS, Arm, Field, ITEMS, Item, NUMBERS, NumberKind, Shape};

/// A type as Rust writes it.
#[derive(Clone, Copy, Debug)]
pub enum Type<'of> {
    /// So many elements, one behind the other.
    Array(&'of str),
    /// Where something of this type stands.
    Pointer(&'of str),
    /// A function of the program.
    Callback,
    /// A declared structure, union, flag word or enumeration.
    Declared(&'static Item),
    /// A number.
    Number(usize, NumberKind),
    /// Bytes without a declaration.
    Untyped,
}

impl<'of> Type<'of> {
    /// The type of this name.
    pub fn named(of: &'of str) -> Type<'of> {
        if let Some(array) = of.strip_prefix('[') {
            return Type::Array(array.split(';').next().unwrap_or(array).trim());
        }
        if let Some(pointed) = of.strip_prefix("*const ").or_else(|| of.strip_prefix("*mut ")) {
            return Type::Pointer(pointed);
        }
        if of.starts_with("PFN") {
            return Type::Callback;
        }
        if let Some(item) = item(of) {
            return Type::Declared(item);
        }
        match NUMBERS.iter().find(|(name, ..)| *name == of) {
            Some((_, size, kind)) => Type::Number(*size, *kind),
            None => Type::Untyped,
        }
    }

    /// The bytes of one element in an array or behind a pointer.
    pub fn size(self) -> usize {
        match self {
            Type::Declared(item) => item.size,
            Type::Number(size, _) => size,
            Type::Pointer(_) | Type::Callback => size_of::<usize>(),
            Type::Array(_) | Type::Untyped => 1,
        }
    }
}

/// A declaration.
pub fn item(name: &str) -> Option<&'static Item> {
    static ITEM: OnceLock<HashMap<&'static str, &'static Item>> = OnceLock::new();
    let all = || ITEMS.iter().copied().flatten();
    ITEM.get_or_init(|| all().map(|item| (item.name, item)).collect()).get(name).copied()
}

/// The members of a structure, or the arms of a union.
pub fn fields(item: &Item) -> &'static [Field] {
    match item.shape {
        Shape::Struct(fields) | Shape::Packed(fields) | Shape::Union(fields) => fields,
        Shape::Flags(..) | Shape::Enum(_) => &[],
    }
}

/// Whether a member has no name in C: its own members are those of the structure around it.
pub fn is_nameless(field: &Field) -> bool {
    field.name.starts_with("Anonymous")
}

/// What says which arm of a union counts.
pub fn arm(union: &str) -> Arm {
    let known = ARMS.iter().find(|(name, _)| *name == union);
    known.map(|(_, arm)| *arm).expect("each union has a row, as a test of d3dkmt_abi sees to")
}

/// The structure of an answer of D3DKMTQueryAdapterInfo.
pub fn adapter_answer(question: i64) -> Option<&'static Item> {
    use d3dkmt_abi::*;
    let name = match i32::try_from(question).ok()? {
        KMTQAITYPE_GETSEGMENTSIZE => "D3DKMT_SEGMENTSIZEINFO",
        KMTQAITYPE_GETSEGMENTGROUPSIZE => "D3DKMT_SEGMENTGROUPSIZEINFO",
        KMTQAITYPE_ADAPTERTYPE | KMTQAITYPE_ADAPTERTYPE_RENDER => "D3DKMT_ADAPTERTYPE",
        KMTQAITYPE_ADAPTERREGISTRYINFO | KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER => "D3DKMT_ADAPTERREGISTRYINFO",
        KMTQAITYPE_DRIVERVERSION | KMTQAITYPE_DRIVERVERSION_RENDER => "D3DKMT_DRIVERVERSION",
        KMTQAITYPE_ADAPTERADDRESS | KMTQAITYPE_ADAPTERADDRESS_RENDER => "D3DKMT_ADAPTERADDRESS",
        KMTQAITYPE_PHYSICALADAPTERDEVICEIDS => "D3DKMT_QUERY_DEVICE_IDS",
        KMTQAITYPE_PHYSICALADAPTERCOUNT => "D3DKMT_PHYSICAL_ADAPTER_COUNT",
        KMTQAITYPE_NODEMETADATA => "D3DKMT_NODEMETADATA",
        KMTQAITYPE_WDDM_1_2_CAPS | KMTQAITYPE_WDDM_1_2_CAPS_RENDER => "D3DKMT_WDDM_1_2_CAPS",
        KMTQAITYPE_WDDM_1_3_CAPS | KMTQAITYPE_WDDM_1_3_CAPS_RENDER => "D3DKMT_WDDM_1_3_CAPS",
        KMTQAITYPE_WDDM_2_0_CAPS => "D3DKMT_WDDM_2_0_CAPS",
        KMTQAITYPE_WDDM_2_7_CAPS => "D3DKMT_WDDM_2_7_CAPS",
        KMTQAITYPE_WDDM_2_9_CAPS => "D3DKMT_WDDM_2_9_CAPS",
        KMTQAITYPE_WDDM_3_0_CAPS => "D3DKMT_WDDM_3_0_CAPS",
        KMTQAITYPE_WDDM_3_1_CAPS => "D3DKMT_WDDM_3_1_CAPS",
        KMTQAITYPE_CURRENTDISPLAYMODE => "D3DKMT_CURRENTDISPLAYMODE",
        KMTQAITYPE_VIRTUALADDRESSINFO => "D3DKMT_VIRTUALADDRESSINFO",
        KMTQAITYPE_QUERY_GPUMMU_CAPS => "D3DKMT_QUERY_GPUMMU_CAPS",
        _ => return None,
    };
    item(name)
}

/// A number of so many bytes, as the processor has them.
pub fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let count = bytes.len().min(8);
    word[..count].copy_from_slice(&bytes[..count]);
    u64::from_le_bytes(word)
}

/// The same with its sign.
pub fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().min(8) as u32;
    // CAST: the sign moves to the highest bit and back.
    if unused == 64 { 0 } else { ((number(bytes) << unused) as i64) >> unused }
}
