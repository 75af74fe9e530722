//! The names of the contract's functions.

use ddi::*;

use crate::answer::Answer;
use crate::functions::{answer, functions};

macro_rules! names {
    (
        asked { $( $asked:ident $asked_name:literal $asked_fn:ident ( $($asked_args:tt)* ) $( -> $asked_answer:ty )? ; )* }
        called { $( $called:ident $called_name:literal $called_fn:ident ( $($called_args:tt)* ) $( -> $called_answer:ty )? ; )* }
        $( facet $trait:ident by $lend:ident, $filter:ident {
            changes { $($changes:tt)* }
            says { $($says:tt)* }
            $( $variant:ident $name:literal $filter_fn:ident = $driver_fn:ident ( $($args:tt)* ) $( -> $answer:ty )? ; )*
        } )*
    ) => {
        /// A function that the kernel calls in a driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Function {
            $( #[doc = concat!("`", $asked_name, "`: [`Miniport::", stringify!($asked_fn), "`].")] $asked, )*
            $( #[doc = concat!("`", $called_name, "`: [`Miniport::", stringify!($called_fn), "`].")] $called, )*
            $( $( #[doc = concat!("`", $name, "`: [`", stringify!($trait), "::", stringify!($driver_fn), "`].")] $variant, )* )*
        }

        impl Function {
            /// All of them.
            pub const ALL: &[Function] =
                &[$( Function::$asked, )* $( Function::$called, )* $( $( Function::$variant, )* )*];

            /// Its name in WDDM.
            pub fn name(self) -> &'static str {
                match self {
                    $( Function::$asked => $asked_name, )*
                    $( Function::$called => $called_name, )*
                    $( $( Function::$variant => $name, )* )*
                }
            }

            /// Whether the contract lets a driver refuse it.
            pub fn may_fail(self) -> bool {
                match self {
                    $( Function::$asked => <answer!($( $asked_answer )?) as Answer>::MAY_FAIL, )*
                    $( Function::$called => <answer!($( $called_answer )?) as Answer>::MAY_FAIL, )*
                    $( $( Function::$variant => <answer!($( $answer )?) as Answer>::MAY_FAIL, )* )*
                }
            }
        }
    };
}

functions!(names);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_function_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Function::ALL.iter().map(|function| function.name()).collect();
        assert_eq!(names.len(), Function::ALL.len());
    }

    #[test]
    fn functions_that_must_succeed_cannot_be_refused() {
        for function in [Function::CreateAllocation, Function::BuildPagingBuffer, Function::QueueFlip, Function::Render]
        {
            assert!(function.may_fail(), "{function:?}");
        }
        for function in [Function::DestroyAllocation, Function::ResumeContext, Function::GetNodeMetadata] {
            assert!(!function.may_fail(), "{function:?}");
        }
    }
}
