//! How much each process gets, and whose turn it is: devices, processes and allocations together. `charge` counts what lists need,
//! `suspend` gives turns, `rota` has processes take turns by forecast, `trim` asks processes to shrink, `tally` counts for statistics.

pub(super) mod charge;
pub(super) mod rota;
pub(super) mod suspend;
pub(super) mod tally;
pub(super) mod trim;
