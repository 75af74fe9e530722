//! What the CPU sees: `lock` gives and takes its view of an allocation, `form` says in which form marked content stands there. They borrow
//! allocations, host apertures and swizzling ranges together.

pub(super) mod form;
pub(super) mod lock;
