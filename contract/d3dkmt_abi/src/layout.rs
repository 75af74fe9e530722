//! The macro in which structures, unions, flag words and enumerations are declared: once for the compiler with the numbers that
//! it must confirm, once as data ([`crate::Item`]).

/// A list of names with their values. A test of this crate reads the same list with a macro of its own.
macro_rules! names {
    ($(#[$doc:meta])* $list:ident: $($name:ident = $is:literal,)*) => {
        $(#[$doc])*
        pub const $list: &[(&str, u32)] = &[$((stringify!($name), $is),)*];
    };
}

/// Declares items; sizes and offsets are asserted at compile time.
macro_rules! layout {
    ($($(#[$doc:meta])* $kind:ident $name:ident $body:tt)*) => {
        $( $crate::layout::item!($(#[$doc])* $kind $name $body); )*

        /// The declarations of this file as data.
        pub(crate) const ITEMS: &[$crate::Item] = &[
            $( $crate::Item {
                name: stringify!($name),
                size: size_of::<$name>(),
                shape: $crate::layout::shape!($kind $name $body),
            }, )*
        ];
    };
}

/// One declaration.
macro_rules! item {
    ($(#[$doc:meta])* structure $name:ident $body:tt) => {
        $crate::layout::item!($(#[$doc])* laid (C) $name $body);
    };
    ($(#[$doc:meta])* packed $name:ident $body:tt) => {
        $crate::layout::item!($(#[$doc])* laid (C, packed) $name $body);
    };
    ($(#[$doc:meta])* laid $how:tt $name:ident { $size:literal; $($offset:literal $field:ident: $of:ty $(= $says:literal)?,)* }) => {
        $(#[$doc])*
        #[repr $how]
        #[derive(Clone, Copy)]
        pub struct $name { $($(#[doc = $says])? pub $field: $of,)* }

        impl $name {
            /// All bits are 0.
            #[allow(unsafe_code, reason = "the fields are numbers and pointers, never references")]
            pub const fn zeroed() -> Self {
                // SAFETY: any bytes are a value of each field.
                unsafe { std::mem::zeroed() }
            }
        }

        const _: () = {
            assert!(size_of::<$name>() == $size, concat!("the size of ", stringify!($name)));
            $(assert!(
                std::mem::offset_of!($name, $field) == $offset,
                concat!("the offset of ", stringify!($name), ".", stringify!($field))
            );)*
        };
    };
    ($(#[$doc:meta])* alternative $name:ident { $size:literal; $($field:ident: $of:ty $(= $says:literal)?,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub union $name { $($(#[doc = $says])? pub $field: $of,)* }

        impl $name {
            $(
                #[allow(unsafe_code, reason = "the arms are numbers and pointers, never references")]
                pub const fn $field(&self) -> $of {
                    // SAFETY: any bytes are a value of each arm, and the union is as large as its largest.
                    unsafe { self.$field }
                }
            )*
        }

        const _: () = assert!(size_of::<$name>() == $size, concat!("the size of ", stringify!($name)));
    };
    ($(#[$doc:meta])* flags $name:ident { $of:ident; $($bit:literal $width:literal $flag:ident = $says:literal,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { pub Value: $of }

        impl $name {
            $(#[doc = $says] pub const $flag: $of = (<$of>::MAX >> (<$of>::BITS - $width)) << $bit;)*
        }
    };
    ($(#[$doc:meta])* number $name:ident { $of:ident; $($value:ident = $is:literal: $says:literal,)* }) => {
        $(#[$doc])*
        pub type $name = $of;
        $(pub const $value: $name = $is;)*
    };
}

/// The same as data.
macro_rules! shape {
    (packed $name:ident { $size:literal; $($offset:literal $field:ident: $of:ty $(= $says:literal)?,)* }) => {
        $crate::Shape::Packed(&[
            $($crate::Field {
                name: stringify!($field),
                of: stringify!($of),
                offset: $offset,
                size: size_of::<$of>(),
                says: concat!($($says)?),
            },)*
        ])
    };
    (structure $name:ident { $size:literal; $($offset:literal $field:ident: $of:ty $(= $says:literal)?,)* }) => {
        $crate::Shape::Struct(&[
            $($crate::Field {
                name: stringify!($field),
                of: stringify!($of),
                offset: $offset,
                size: size_of::<$of>(),
                says: concat!($($says)?),
            },)*
        ])
    };
    (alternative $name:ident { $size:literal; $($field:ident: $of:ty $(= $says:literal)?,)* }) => {
        $crate::Shape::Union(&[$($crate::Field {
                name: stringify!($field),
                of: stringify!($of),
                offset: 0,
                size: size_of::<$of>(),
                says: concat!($($says)?),
            },)*])
    };
    (flags $name:ident { $of:ident; $($bit:literal $width:literal $flag:ident = $says:literal,)* }) => {
        $crate::Shape::Flags(stringify!($of), &[
            $($crate::Flag { name: stringify!($flag), bit: $bit, width: $width, says: $says },)*
        ])
    };
    (number $name:ident { $of:ident; $($value:ident = $is:literal: $says:literal,)* }) => {
        $crate::Shape::Enum(&[$($crate::Enumerator { name: stringify!($value), is: $is, says: $says },)*])
    };
}

pub(crate) use {item, layout, names, shape};
