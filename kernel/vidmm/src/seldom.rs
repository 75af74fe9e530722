//! Parts of a record that few records have. Called by the records of allocations, of VidMm and of the kernel: a program creates a million
//! allocations, and of most there is nothing to remember but their size, their pages and their handle.

use std::fmt::{Debug, Formatter};
use std::ops::{Deref, DerefMut};

/// What a part is as long as its record has none.
pub trait Blank: Default + 'static {
    /// The same value as `default`, for all records that have none.
    const BLANK: &'static Self;
}

/// A part that takes memory from the first time that it is changed until it is cleared. It reads, prints and compares as the part itself.
#[derive(Clone)]
pub struct Seldom<T>(Option<Box<T>>);

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Seldom(None)
    }
}

impl<T> Seldom<T> {
    /// A record that has this part.
    pub fn of(part: T) -> Self {
        Seldom(Some(Box::new(part)))
    }

    /// The record has none any more.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

impl<T: Blank + PartialEq> Seldom<T> {
    /// A record that has this part unless it is blank.
    pub fn unless_blank(part: T) -> Self {
        if part == *T::BLANK { Seldom(None) } else { Seldom::of(part) }
    }
}

impl<T: Blank> Deref for Seldom<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::BLANK)
    }
}

impl<T: Blank> DerefMut for Seldom<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Blank + Debug> Debug for Seldom<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Part {
        number: u64,
    }

    impl Blank for Part {
        const BLANK: &'static Self = &Part { number: 0 };
    }

    #[test]
    fn a_part_takes_memory_from_its_first_change_until_it_is_cleared() {
        let mut part: Seldom<Part> = Seldom::default();
        assert_eq!((part.number, part.0.is_none()), (0, true), "a look makes none");
        part.number = 7;
        assert_eq!((part.number, format!("{part:?}").as_str()), (7, "Part { number: 7 }"));
        part.clear();
        assert_eq!((part.number, part.0.is_none()), (0, true));
        assert!(Seldom::unless_blank(Part { number: 0 }).0.is_none());
        assert_eq!(Seldom::unless_blank(Part { number: 3 }).number, 3);
        assert_eq!(size_of::<Seldom<[u64; 100]>>(), 8);
    }
}
