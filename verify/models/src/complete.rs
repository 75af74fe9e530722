//! The protocols with three actors of up to two operations each, and rings of two entries, explored completely by
//! [`crate::buffers`]. The removal of each barrier shows its purpose.

pub mod doorbell;
pub mod fence;
pub mod log;
pub mod named;
pub mod passed_on;
pub mod remote_doorbell;
pub mod run_list;
