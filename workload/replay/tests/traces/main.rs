//! The importer of execution traces, rule by rule, on traces made by hand.

mod hand;
mod holders;
mod iterations;
mod kernels;
mod left_out;
mod reach;
mod traps;
