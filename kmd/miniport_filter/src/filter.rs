//! The trait of filters: one function for each of the contract's, which passes the call on until a filter writes it anew.

use ddi::*;
use wddm_types::{EngineId, NodeId, PhysicalAddress, VidPnSourceId, VidPnTargetId};

use crate::function::Function;
use crate::functions::functions;

/// A group of functions that a driver may have or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Facet {
    /// [`GpuVirtualAddressing`].
    GpuVirtualAddressing,
    /// [`HardwareQueues`].
    HardwareQueues,
    /// [`NativeFences`].
    NativeFences,
    /// [`NativeFenceLogs`].
    NativeFenceLogs,
    /// [`PeerDoorbells`].
    PeerDoorbells,
    /// [`PacketScheduling`].
    PacketScheduling,
    /// [`Doorbells`].
    Doorbells,
    /// [`HostAperture`].
    HostAperture,
    /// [`Swizzling`].
    Swizzling,
    /// [`Display`].
    Display,
    /// [`FlipQueue`].
    FlipQueue,
}

macro_rules! filter {
    (
        asked { $( $asked:ident $asked_name:literal $asked_fn:ident ( $($asked_arg:ident : $asked_type:ty),* ) $( -> $asked_answer:ty )? ; )* }
        called { $( $called:ident $called_name:literal $called_fn:ident ( $($called_arg:ident : $called_type:ty),* ) $( -> $called_answer:ty )? ; )* }
        $( facet $trait:ident by $lend:ident, $filter:ident {
            changes { $($changes:tt)* }
            says { $($says:tt)* }
            $( $variant:ident $name:literal $filter_fn:ident = $driver_fn:ident ( $($arg:ident : $type:ty),* ) $( -> $answer:ty )? ; )*
        } )*
    ) => {
        /// A filter: each function gets the next driver and passes the call on unless it is written anew. The first three functions
        /// see every call of the kernel's. Functions of facets stand in a trait a facet, and get the next driver's facet;
        /// [`passes_on!`](crate::passes_on) writes those down in which a filter changes nothing.
        pub trait Filter: Send $( + $filter )* {
            /// The kernel calls a function. `arguments` writes them out, those that are plain values: at the price of a string.
            fn called(&self, _function: Function, _arguments: &dyn Fn() -> String) {}

            /// Whether the filter refuses this call in place of the driver, which does not see it then. Asked of functions that
            /// may fail only.
            fn refuses(&self, _function: Function) -> Option<DriverStatus> {
                None
            }

            /// The function has answered, by a refusal or not.
            fn answered(&self, _function: Function, _refusal: Option<String>) {}

            /// Whether the driver is to have this facet, which the next driver has (`there`) or not. The kernel must not call functions of
            /// a facet that is only pretended.
            fn shows(&self, _facet: Facet, there: bool) -> bool {
                there
            }

            $(
                #[doc = concat!("`", $asked_name, "`: [`Miniport::", stringify!($asked_fn), "`].")]
                fn $asked_fn(&self, next: &dyn Miniport $(, $asked_arg: $asked_type)*) $( -> $asked_answer )? {
                    next.$asked_fn($($asked_arg),*)
                }
            )*
            $(
                #[doc = concat!("`", $called_name, "`: [`Miniport::", stringify!($called_fn), "`].")]
                fn $called_fn(&mut self, next: &mut dyn Miniport $(, $called_arg: $called_type)*) $( -> $called_answer )? {
                    next.$called_fn($($called_arg),*)
                }
            )*
        }

        $(
            #[doc = concat!("A filter's functions of [`", stringify!($trait), "`].")]
            pub trait $filter {
                $($changes)*
                $(
                    #[doc = concat!("`", $name, "`: [`", stringify!($trait), "::", stringify!($driver_fn), "`].")]
                    fn $filter_fn(&mut self, next: &mut dyn $trait $(, $arg: $type)*) $( -> $answer )? {
                        next.$driver_fn($($arg),*)
                    }
                )*
            }
        )*
    };
}

functions!(filter);

/// Writes down in which facets a filter passes every call on: `passes_on!(Counter: DisplayFilter, FlipQueueFilter);`, or all of
/// them: `passes_on!(Counter);`.
#[macro_export]
macro_rules! passes_on {
    ($filter:ty) => {
        $crate::passes_on!(
            $filter: GpuVirtualAddressingFilter, HardwareQueuesFilter, NativeFencesFilter, NativeFenceLogsFilter,
            PeerDoorbellsFilter, PacketSchedulingFilter, DoorbellsFilter, HostApertureFilter, SwizzlingFilter, DisplayFilter,
            FlipQueueFilter
        );
    };
    ($filter:ty: $($facet:ident),*) => {
        $( impl $crate::$facet for $filter {} )*
    };
}
