//! The importer of execution traces, on traces made by hand: what each rule of it decides.

mod hand;
mod iterations;
mod kernels;
mod left_out;
mod reach;
mod traps;
