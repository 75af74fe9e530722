//! A filter and the driver behind it, as one driver.

use ddi::*;
use wddm_types::{EngineId, NodeId, PhysicalAddress, VidPnSourceId, VidPnTargetId};

use crate::answer::Answer;
use crate::filter::{Facet, Filter};
use crate::function::Function;
use crate::functions::{answer, functions};

const LENT: &str = "the kernel uses a facet that it was lent";

/// A driver with a filter in front of it.
pub struct Filtered<F> {
    next: Box<dyn Miniport>,
    filter: F,
    said: Said,
}

/// The next driver's answers of facets, which are lent by exclusive references and asked by shared ones: what each said when it was lent last.
#[derive(Default)]
struct Said {
    gpu_mmu: GpuMmuCaps,
    levels: Vec<PageTableLevelDesc>,
    native_fences: NativeFenceCaps,
    packets: Option<PacketCaps>,
    peer_doorbells: PeerDoorbellCaps,
    swizzling_ranges: u32,
    vidpn_paths: Vec<VidPnPath>,
    flips: FlipCaps,
    flip_queue: FlipQueueCaps,
}

impl<F: Filter> Filtered<F> {
    /// Puts a filter in front of a driver.
    pub fn new(next: Box<dyn Miniport>, filter: F) -> Filtered<F> {
        Filtered { next, filter, said: Said::default() }
    }
}

/// The filter's own refusal of a call.
fn refused<F: Filter, R: Answer>(filter: &F, function: Function) -> Option<R> {
    if R::MAY_FAIL { filter.refuses(function).and_then(R::refused) } else { None }
}

/// Each keeps what a facet of the next driver says, and answers whether it is there.
impl Said {
    fn gpu_va(&mut self, next: &mut dyn Miniport) -> bool {
        let Some(facet) = next.gpu_va() else { return false };
        self.gpu_mmu = facet.gpu_mmu_caps();
        self.levels.clear();
        self.levels.extend((0..self.gpu_mmu.page_table_levels).map(|level| facet.page_table_level(level)));
        true
    }

    fn hardware_queues(&mut self, next: &mut dyn Miniport) -> bool {
        next.hardware_queues().is_some()
    }

    fn native_fences(&mut self, next: &mut dyn Miniport) -> bool {
        let caps = next.native_fences().map(|facet| facet.caps());
        self.native_fences = caps.unwrap_or_default();
        caps.is_some()
    }

    fn native_fence_logs(&mut self, next: &mut dyn Miniport) -> bool {
        next.native_fence_logs().is_some()
    }

    fn peer_doorbells(&mut self, next: &mut dyn Miniport) -> bool {
        let caps = next.peer_doorbells().map(|facet| facet.peer_doorbell_caps());
        self.peer_doorbells = caps.unwrap_or_default();
        caps.is_some()
    }

    fn packet_scheduling(&mut self, next: &mut dyn Miniport) -> bool {
        self.packets = next.packet_scheduling().map(|facet| facet.packet_caps());
        self.packets.is_some()
    }

    fn doorbells(&mut self, next: &mut dyn Miniport) -> bool {
        next.doorbells().is_some()
    }

    fn cpu_host_aperture(&mut self, next: &mut dyn Miniport) -> bool {
        next.cpu_host_aperture().is_some()
    }

    fn swizzling(&mut self, next: &mut dyn Miniport) -> bool {
        let ranges = next.swizzling().map(|facet| facet.swizzling_ranges());
        self.swizzling_ranges = ranges.unwrap_or_default();
        ranges.is_some()
    }

    fn display(&mut self, next: &mut dyn Miniport) -> bool {
        let Some(facet) = next.display() else { return false };
        (self.vidpn_paths, self.flips) = (facet.vidpn_paths(), facet.flip_caps());
        true
    }

    fn flip_queue(&mut self, next: &mut dyn Miniport) -> bool {
        let caps = next.flip_queue().map(|facet| facet.flip_queue_caps());
        self.flip_queue = caps.unwrap_or_default();
        caps.is_some()
    }
}

/// Writes an argument out if it can be.
struct Shown<'a, T: ?Sized>(&'a T);

trait ByDebug {
    fn shown(&self) -> String;
}

impl<T: std::fmt::Debug + ?Sized> ByDebug for Shown<'_, T> {
    fn shown(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// For what has no form of its own, as the kernel's functions for the call. The compiler takes it only where [`ByDebug`] is not there.
trait ByName {
    fn shown(&self) -> String;
}

impl<T: ?Sized> ByName for &Shown<'_, T> {
    fn shown(&self) -> String {
        "…".to_string()
    }
}

macro_rules! arguments {
    ($($arg:ident),*) => {
        {
            let shown: Vec<String> = vec![$( format!("{}: {}", stringify!($arg), (&Shown(&$arg)).shown()) ),*];
            shown.join(", ")
        }
    };
}

macro_rules! driver {
    (
        asked { $( $asked:ident $asked_name:literal $asked_fn:ident ( $($asked_arg:ident : $asked_type:ty),* ) $( -> $asked_answer:ty )? ; )* }
        called { $( $called:ident $called_name:literal $called_fn:ident ( $($called_arg:ident : $called_type:ty),* ) $( -> $called_answer:ty )? ; )* }
        $( facet $trait:ident by $lend:ident, $filter:ident {
            changes { $($changes:tt)* }
            says { $($says:tt)* }
            $( $variant:ident $name:literal $filter_fn:ident = $driver_fn:ident ( $($arg:ident : $type:ty),* ) $( -> $answer:ty )? ; )*
        } )*
    ) => {
        impl<F: Filter> Miniport for Filtered<F> {
            $( fn $asked_fn(&self $(, $asked_arg: $asked_type)*) $( -> $asked_answer )? {
                self.filter.called(Function::$asked, &|| arguments!($($asked_arg),*));
                let refused = refused::<F, answer!($( $asked_answer )?)>(&self.filter, Function::$asked);
                let answer = refused.unwrap_or_else(|| self.filter.$asked_fn(self.next.as_ref() $(, $asked_arg)*));
                self.filter.answered(Function::$asked, answer.refusal());
                answer
            } )*
            $( fn $called_fn(&mut self $(, $called_arg: $called_type)*) $( -> $called_answer )? {
                self.filter.called(Function::$called, &|| arguments!($($called_arg),*));
                let refused = refused::<F, answer!($( $called_answer )?)>(&self.filter, Function::$called);
                let (filter, next) = (&mut self.filter, self.next.as_mut());
                let answer = refused.unwrap_or_else(|| filter.$called_fn(next $(, $called_arg)*));
                self.filter.answered(Function::$called, answer.refusal());
                answer
            } )*
            $( fn $lend(&mut self) -> Option<&mut dyn $trait> {
                let there = self.said.$lend(self.next.as_mut());
                self.filter.shows(Facet::$trait, there).then_some(self as &mut dyn $trait)
            } )*
        }
        $( impl<F: Filter> $trait for Filtered<F> {
            $($says)*
            $( fn $driver_fn(&mut self $(, $arg: $type)*) $( -> $answer )? {
                self.filter.called(Function::$variant, &|| arguments!($($arg),*));
                let refused = refused::<F, answer!($( $answer )?)>(&self.filter, Function::$variant);
                let (filter, next) = (&mut self.filter, self.next.$lend().expect(LENT));
                let answer = refused.unwrap_or_else(|| filter.$filter_fn(next $(, $arg)*));
                self.filter.answered(Function::$variant, answer.refusal());
                answer
            } )*
        } )*
    };
}

functions!(driver);
