//! Comparisons of what is ours with what is published. The test that makes one names both: `ours` and `published`.

macro_rules! same_layout {
    ($($name:ident { $($field:ident)* },)*) => {
        $(
            assert_eq!(size_of::<ours::$name>(), size_of::<published::$name>(), stringify!($name));
            assert_eq!(align_of::<ours::$name>(), align_of::<published::$name>(), stringify!($name));
            $(assert_eq!(
                std::mem::offset_of!(ours::$name, $field),
                std::mem::offset_of!(published::$name, $field),
                concat!(stringify!($name), ".", stringify!($field))
            );)*
        )*
    };
}

macro_rules! same_number {
    ($($name:ident)*) => { $(assert_eq!(ours::$name, published::$name, stringify!($name));)* };
}
