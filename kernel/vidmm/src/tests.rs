//! Tests of the whole manager: rules as tables, and random calls whose work a naive machine carries out.

mod addresses;
mod budget;
mod creation;
mod leaving;
mod locking;
mod model;
mod order;
mod pressure;
mod start;
mod walk;
mod world;
