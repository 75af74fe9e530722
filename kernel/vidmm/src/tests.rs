//! Tests of the whole manager: rules as tables, and random calls whose work a naive machine carries out.

mod addresses;
mod ahead;
mod apertures;
mod budget;
mod creation;
mod failures;
mod kit;
mod large;
mod leaving;
mod locking;
mod model;
mod offering;
mod order;
mod packing;
mod pressure;
mod protection;
mod reservations;
mod rules;
mod segments;
mod shares;
mod start;
mod tiles;
mod trimming;
mod turns;
mod walk;
mod world;
