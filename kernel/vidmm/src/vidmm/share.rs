//! How much each process gets, and whose turn it is: devices, processes and allocations together. `charge` counts what lists need,
//! `suspend` gives turns, `rota` has processes take turns by forecast, `trim` asks processes to shrink, `way` takes a
//! device off the hardware whose queued work holds the ring, `withheld` has content of such a device that comes later, `tally` counts for
//! statistics.

pub(super) mod charge;
pub(super) mod rota;
pub(super) mod suspend;
pub(super) mod tally;
pub(super) mod trim;
pub(super) mod way;
pub(super) mod withheld;
