//! A break of the contract by a driver or its hardware. A part of the adapter that finds one gives it to its caller and does nothing more
//! of what it was about; the adapter alone stops for it (`Adapter::heed`).

/// The rule that the driver or its hardware broke, in words for a person.
#[must_use = "the adapter stops for it"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach(pub String);
