//! Writes the header: types, structures in an order in which C can read them, functions.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use d3dkmt_abi::{Enumerator, Field, Flag, ITEMS, Item, RIGHTS, STATUSES, Shape};
use d3dkmt_c::functions;
use wddm_types::NtStatus;

/// The types that are numbers, and what C has for them.
const NUMBERS: &[(&str, &str)] = &[
    ("CHAR", "char"),
    ("BYTE", "uint8_t"),
    ("UCHAR", "uint8_t"),
    ("UINT8", "uint8_t"),
    ("BOOLEAN", "uint8_t"),
    ("SHORT", "int16_t"),
    ("WORD", "uint16_t"),
    ("USHORT", "uint16_t"),
    ("UINT16", "uint16_t"),
    ("BOOL", "int32_t"),
    ("INT", "int32_t"),
    ("INT32", "int32_t"),
    ("LONG", "int32_t"),
    ("UINT", "uint32_t"),
    ("UINT32", "uint32_t"),
    ("ULONG", "uint32_t"),
    ("DWORD", "uint32_t"),
    ("INT64", "int64_t"),
    ("LONG64", "int64_t"),
    ("LONGLONG", "int64_t"),
    ("UINT64", "uint64_t"),
    ("ULONG64", "uint64_t"),
    ("DWORD64", "uint64_t"),
    ("ULONGLONG", "uint64_t"),
    ("SIZE_T", "size_t"),
    ("INT_PTR", "intptr_t"),
    ("LONG_PTR", "intptr_t"),
    ("UINT_PTR", "uintptr_t"),
    ("ULONG_PTR", "uintptr_t"),
    ("DWORD_PTR", "uintptr_t"),
    ("HANDLE", "void*"),
    ("HWND", "void*"),
    ("HDC", "void*"),
    ("HRESULT", "int32_t"),
    ("NTSTATUS", "int32_t"),
    ("ACCESS_MASK", "uint32_t"),
    ("D3DKMT_HANDLE", "uint32_t"),
    ("D3DGPU_VIRTUAL_ADDRESS", "uint64_t"),
    ("D3DGPU_SIZE_T", "uint64_t"),
    ("D3DDDI_VIDEO_PRESENT_SOURCE_ID", "uint32_t"),
    ("D3DDDI_VIDEO_PRESENT_TARGET_ID", "uint32_t"),
];

/// Limits that C programs name.
const LIMITS: &[(&str, usize)] = &[
    ("D3DDDI_MAX_OBJECT_WAITED_ON", d3dkmt_abi::D3DDDI_MAX_OBJECT_WAITED_ON),
    ("D3DDDI_MAX_OBJECT_SIGNALED", d3dkmt_abi::D3DDDI_MAX_OBJECT_SIGNALED),
    ("D3DDDI_MAX_BROADCAST_CONTEXT", d3dkmt_abi::D3DDDI_MAX_BROADCAST_CONTEXT),
    ("D3DDDI_MAX_WRITTEN_PRIMARIES", d3dkmt_abi::D3DDDI_MAX_WRITTEN_PRIMARIES),
    ("D3DKMT_MAX_OBJECTS_PER_HANDLE", d3dkmt_abi::D3DKMT_MAX_OBJECTS_PER_HANDLE),
    ("D3DDDI_NATIVE_FENCE_PDD_SIZE", d3dkmt_abi::D3DDDI_NATIVE_FENCE_PDD_SIZE),
    ("D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1", d3dkmt_abi::D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1),
    ("MAX_ENUM_ADAPTERS", d3dkmt_abi::MAX_ENUM_ADAPTERS),
    ("D3DDDI_SYNC_OBJECT_WAIT", d3dkmt_abi::D3DDDI_SYNC_OBJECT_WAIT as usize),
    ("D3DDDI_SYNC_OBJECT_SIGNAL", d3dkmt_abi::D3DDDI_SYNC_OBJECT_SIGNAL as usize),
    ("D3DDDI_SYNC_OBJECT_ALL_ACCESS", d3dkmt_abi::D3DDDI_SYNC_OBJECT_ALL_ACCESS as usize),
    ("D3DKMT_QUERYSTATISTICS_SEGMENT_PREFERENCE_MAX", 5),
    ("D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_BUCKET_COUNT", 9),
];

const HEAD: &str = "\
/* The D3DKMT interface of openwddm: structures with their original names and layout, and the functions of libopenwddm.
 * Written from the declarations of contract/d3dkmt_abi; do not edit. For 64-bit machines.
 * Behind each member stand its direction and its meaning in this library: in, out, both; optional: it may be NULL or 0; unread: the library
 * looks at it in no case; flag: a bit of the word. A flag that is refused with STATUS_NOT_SUPPORTED says so, and no more.
 * Define OPENWDDM_WSL before including it for a library of the flavour of the Linux subsystem: wide characters of 4 bytes.
 */
#ifndef OPENWDDM_D3DKMT_H
#define OPENWDDM_D3DKMT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

#ifndef CONST
#define CONST const
#endif
#ifndef VOID
#define VOID void
#endif
#ifndef APIENTRY
#define APIENTRY
#endif
#ifndef WINAPI
#define WINAPI
#endif
#ifndef NTAPI
#define NTAPI
#endif
#ifndef CALLBACK
#define CALLBACK
#endif
#ifndef TRUE
#define TRUE 1
#endif
#ifndef FALSE
#define FALSE 0
#endif
/* A structure without a name inside another is an extension of C++, which each compiler has that these structures are written for. */
#if defined(__cplusplus) && defined(__GNUC__)
#define OPENWDDM_NAMELESS __extension__
#else
#define OPENWDDM_NAMELESS
#endif
#define NT_SUCCESS(status) (((NTSTATUS)(status)) >= 0)
";

/// Numbers of 64 bits, which C has as unions with their halves. Rust has them as the one number, which lies in the same bytes.
const LARGE_INTEGERS: &str = "\
/* A number of 64 bits, and its halves. A program in which it is a plain number, as it was here once, defines OPENWDDM_PLAIN_LARGE_INTEGER. */
#ifdef OPENWDDM_PLAIN_LARGE_INTEGER
typedef LONGLONG LARGE_INTEGER;
typedef ULONGLONG ULARGE_INTEGER;
#else
typedef union _LARGE_INTEGER {
    OPENWDDM_NAMELESS struct {
        DWORD LowPart;
        LONG HighPart;
    };
    struct {
        DWORD LowPart;
        LONG HighPart;
    } u;
    LONGLONG QuadPart;
} LARGE_INTEGER;
typedef union _ULARGE_INTEGER {
    OPENWDDM_NAMELESS struct {
        DWORD LowPart;
        DWORD HighPart;
    };
    struct {
        DWORD LowPart;
        DWORD HighPart;
    } u;
    ULONGLONG QuadPart;
} ULARGE_INTEGER;
#endif

";

/// Pointers that sources write for Windows, and the macros with which they fill in a name and its attributes.
const POINTERS: &str = "\
typedef VOID* PVOID;
typedef HANDLE* PHANDLE;
typedef BYTE* PBYTE;
typedef UCHAR* PUCHAR;
typedef BOOLEAN* PBOOLEAN;
typedef UINT* PUINT;
typedef ULONG* PULONG;
typedef DWORD* PDWORD;
typedef UINT64* PUINT64;
typedef ULONG64* PULONG64;
typedef LARGE_INTEGER* PLARGE_INTEGER;
typedef ULARGE_INTEGER* PULARGE_INTEGER;
typedef D3DKMT_HANDLE* PD3DKMT_HANDLE;
typedef D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION_V1* PD3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION_V1;
typedef WCHAR* PWSTR;
typedef CONST WCHAR* PCWSTR;
typedef LUID* PLUID;
typedef UNICODE_STRING* PUNICODE_STRING;
typedef CONST UNICODE_STRING* PCUNICODE_STRING;
typedef OBJECT_ATTRIBUTES* POBJECT_ATTRIBUTES;
typedef CONST OBJECT_ATTRIBUTES* PCOBJECT_ATTRIBUTES;
/* A UNICODE_STRING of a literal whose characters are as wide as a WCHAR: u\"...\", and with OPENWDDM_WSL U\"...\" or L\"...\". */
#define OPENWDDM_WIDE(text) sizeof(char[sizeof((text)[0]) == sizeof(WCHAR) ? (int)sizeof(WCHAR) : -1])
#define RTL_CONSTANT_STRING(text) {(WORD)(sizeof(text) - OPENWDDM_WIDE(text)), (WORD)sizeof(text), (PWSTR)(text)}
#define InitializeObjectAttributes(attributes, name, flags, root, security) \\
    do {                                                                    \\
        (attributes)->Length = (ULONG)sizeof(OBJECT_ATTRIBUTES);            \\
        (attributes)->RootDirectory = (root);                               \\
        (attributes)->ObjectName = (name);                                  \\
        (attributes)->Attributes = (flags);                                 \\
        (attributes)->SecurityDescriptor = (security);                      \\
        (attributes)->SecurityQualityOfService = NULL;                      \\
    } while (0)
";

fn items() -> impl Iterator<Item = &'static Item> {
    ITEMS.iter().copied().flatten()
}

fn named(name: &str) -> Option<&'static Item> {
    items().find(|item| item.name == name)
}

fn fields(item: &Item) -> &'static [Field] {
    match item.shape {
        Shape::Struct(fields) | Shape::Packed(fields) | Shape::Union(fields) => fields,
        _ => &[],
    }
}

/// Whether a field has no name in C.
pub fn is_nameless(field: &str) -> bool {
    field.starts_with("Anonymous")
}

/// Whether a type has no name in C: it is only ever a nameless field.
pub fn is_inline(name: &str) -> bool {
    items().flat_map(fields).any(|field| field.of == name && is_nameless(field.name))
}

/// The whole text.
pub fn header() -> String {
    let mut text = String::from(HEAD);
    text.push('\n');
    for (name, of) in NUMBERS {
        line(&mut text, format_args!("typedef {of} {name};"));
    }
    text.push_str(LARGE_INTEGERS);
    text.push_str("#ifdef OPENWDDM_WSL\ntypedef uint32_t WCHAR;\n#else\ntypedef uint16_t WCHAR;\n#endif\n\n");
    for (name, value) in LIMITS {
        line(&mut text, format_args!("#define {name} {value:#x}"));
    }
    text.push('\n');
    for status in NtStatus::NAMED {
        let name = status.name().expect("it has one");
        line(&mut text, format_args!("#define STATUS_{name} ((NTSTATUS){:#010x})", status.0));
    }
    for (name, value) in STATUSES {
        line(&mut text, format_args!("#define {name} ((NTSTATUS){value:#010x})"));
    }
    text.push('\n');
    // Programs that bring rights of their own keep them.
    for (name, value) in RIGHTS {
        line(&mut text, format_args!("#ifndef {name}\n#define {name} {value:#x}\n#endif"));
    }
    text.push('\n');
    let declared: Vec<&Item> = items().filter(|item| !is_inline(item.name)).collect();
    for item in &declared {
        match item.shape {
            Shape::Enum(values) => enumeration(&mut text, item.name, values),
            Shape::Union(_) => line(&mut text, format_args!("typedef union _{0} {0};", item.name)),
            _ => line(&mut text, format_args!("typedef struct _{0} {0};", item.name)),
        }
    }
    text.push_str("\ntypedef void (*PFND3DKMT_TRIMNOTIFICATIONCALLBACK)(D3DKMT_TRIMNOTIFICATION*);\n");
    text.push_str("typedef void (*PFND3DKMT_BUDGETCHANGENOTIFICATIONCALLBACK)(D3DKMT_BUDGETCHANGENOTIFICATION*);\n");
    text.push_str(POINTERS);
    let mut written = BTreeSet::new();
    for item in &declared {
        define(&mut text, item, &mut written);
    }
    text.push('\n');
    for name in undeclared() {
        line(&mut text, format_args!("typedef struct _{name} {name};"));
    }
    text.push('\n');
    for function in functions() {
        line(&mut text, format_args!("{} {}({});", function.returns, function.name, function.parameters));
    }
    text.push('\n');
    for function in functions().filter(|function| function.name.starts_with("D3DKMT")) {
        let name = function.name.trim_start_matches("D3DKMT").to_uppercase();
        line(&mut text, format_args!("typedef {} (*PFND3DKMT_{name})({});", function.returns, function.parameters));
    }
    text.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    text
}

/// Structures that only functions without a use have: C programs can name pointers to them.
fn undeclared() -> BTreeSet<&'static str> {
    let parameters = functions().flat_map(|function| function.parameters.split(", "));
    let names = parameters.map(|parameter| parameter.trim_start_matches("CONST ").trim_end_matches('*'));
    let known =
        |name: &&str| *name == "VOID" || named(name).is_some() || NUMBERS.iter().any(|(number, _)| number == name);
    names.filter(|name| !known(name)).collect()
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a string takes everything");
}

/// Enumerations are numbers of 4 bytes, whatever a compiler would choose.
fn enumeration(text: &mut String, name: &str, values: &[Enumerator]) {
    line(text, format_args!("typedef INT {name};\nenum {{"));
    for Enumerator { name, is, says } in values {
        line(text, format_args!("    {name} = {is}, /* {says} */"));
    }
    text.push_str("};\n");
}

/// A definition behind those that it contains.
fn define(text: &mut String, item: &Item, written: &mut BTreeSet<&'static str>) {
    if matches!(item.shape, Shape::Enum(_)) || !written.insert(item.name) {
        return;
    }
    needs(text, item, written);
    match item.shape {
        Shape::Flags(of, bits) => {
            line(text, format_args!("\nstruct _{} {{", item.name));
            flags(text, of, bits);
            text.push_str("};\n");
        }
        _ => {
            let kind = if matches!(item.shape, Shape::Union(_)) { "union" } else { "struct" };
            let packed = matches!(item.shape, Shape::Packed(_));
            text.push_str(if packed { "\n#pragma pack(push, 1)" } else { "" });
            line(text, format_args!("\n{kind} _{} {{", item.name));
            fields(item).iter().for_each(|of| field(text, of, 1));
            text.push_str(if packed { "};\n#pragma pack(pop)\n" } else { "};\n" });
        }
    }
}

fn needs(text: &mut String, item: &Item, written: &mut BTreeSet<&'static str>) {
    for part in fields(item) {
        let of = part.of.trim_start_matches('[').split(';').next().expect("a type").trim();
        match named(of) {
            Some(needed) if is_nameless(part.name) => needs(text, needed, written),
            Some(needed) => define(text, needed, written),
            None => {}
        }
    }
}

fn flags(text: &mut String, of: &str, bits: &[Flag]) {
    line(text, format_args!("    union {{\n        OPENWDDM_NAMELESS struct {{"));
    let mut next = 0;
    for Flag { name, bit, width, says } in bits {
        if *bit > next {
            line(text, format_args!("            {of} : {};", bit - next));
        }
        line(text, format_args!("            {of} {name} : {width}; /* {says} */"));
        next = bit + width;
    }
    line(text, format_args!("        }};\n        {of} Value;\n    }};"));
}

fn field(text: &mut String, field: &Field, depth: usize) {
    let indent = "    ".repeat(depth);
    match named(field.of) {
        Some(inline) if is_nameless(field.name) => match inline.shape {
            Shape::Flags(of, bits) => flags(text, of, bits),
            _ => {
                let kind = if matches!(inline.shape, Shape::Union(_)) { "union" } else { "OPENWDDM_NAMELESS struct" };
                line(text, format_args!("{indent}{kind} {{"));
                fields(inline).iter().for_each(|of| self::field(text, of, depth + 1));
                line(text, format_args!("{indent}}};"));
            }
        },
        _ => line(text, format_args!("{indent}{}; /* {} */", variable(field.of, field.name), field.says)),
    }
}

/// A variable of a type that Rust has written.
fn variable(of: &str, name: &str) -> String {
    if let Some((element, count)) = of.strip_prefix('[').and_then(|of| of.strip_suffix(']')?.split_once(';')) {
        return format!("{element} {name}[{}]", count.trim());
    }
    if let Some(of) = of.strip_prefix("*mut ") {
        return format!("{of}* {name}");
    }
    if let Some(of) = of.strip_prefix("*const ") {
        return format!("CONST {of}* {name}");
    }
    format!("{of} {name}")
}
