//! A driver's answers, as far as filters look into them: whether one is a refusal, and how a filter refuses.

use ddi::{
    AdapterCaps, DriverStatus, FlipRefusal, NodeMetadata, PagingStatus, RenderStatus, RootPageTableSize, Surface,
    SwizzlingError,
};

/// What a function of the contract returns.
pub(crate) trait Answer: Sized {
    /// Whether a driver may refuse.
    const MAY_FAIL: bool = false;

    /// The refusal that it is, as text.
    fn refusal(&self) -> Option<String> {
        None
    }

    /// A refusal for this reason; none where a driver must succeed.
    fn refused(_why: DriverStatus) -> Option<Self> {
        None
    }
}

/// Why a driver may refuse, in one kind of function.
pub(crate) trait Reason: std::fmt::Debug {
    /// The nearest that the function has.
    fn nearest(why: DriverStatus) -> Self;
}

impl<T, E: Reason> Answer for Result<T, E> {
    const MAY_FAIL: bool = true;

    fn refusal(&self) -> Option<String> {
        self.as_ref().err().map(|why| format!("{why:?}"))
    }

    fn refused(why: DriverStatus) -> Option<Self> {
        Some(Err(E::nearest(why)))
    }
}

impl Reason for DriverStatus {
    fn nearest(why: DriverStatus) -> Self {
        why
    }
}

impl Reason for PagingStatus {
    fn nearest(_why: DriverStatus) -> Self {
        PagingStatus::Fatal("a filter refuses it")
    }
}

impl Reason for RenderStatus {
    fn nearest(_why: DriverStatus) -> Self {
        RenderStatus::NoMemory("a filter refuses it")
    }
}

impl Reason for SwizzlingError {
    fn nearest(_why: DriverStatus) -> Self {
        SwizzlingError::Unavailable
    }
}

impl Reason for FlipRefusal {
    fn nearest(why: DriverStatus) -> Self {
        FlipRefusal::Failed(why)
    }
}

impl Answer for () {}
impl Answer for bool {}
impl Answer for u32 {}
impl Answer for u64 {}
impl Answer for AdapterCaps {}
impl Answer for Option<NodeMetadata> {}
impl Answer for Option<RootPageTableSize> {}
impl Answer for Option<Surface> {}
