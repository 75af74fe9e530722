//! Complete models of the shared-memory protocols.
//!
//! The functions of [`shared_words`] are generic over the word and over the barrier. Here the very same functions run on
//! words and barriers of the model checker loom, which tries every interleaving of the threads and every value that the
//! memory model lets a load return. There is no bound on preemptions: what [`Explored`] counts is all there is.
//!
//! Each model asks one question: *is there an execution in which a waiter sleeps although its event has come?* Each takes the barriers of
//! its two sides as type arguments. With [`Full`] on both sides the answer is no; with [`Removed`] on either side it is yes, and a test
//! demands that it is found: a model that cannot fail proves nothing.
//!
//! | model | question | rows |
//! |---|---|---|
//! | [`fence::signal_against_publish`] | a signaller that still sees the old MonitoredValue | sync §3.9, race one |
//! | [`fence::chain_against_waiters`] | two signallers in a chain while two waiters are registered one after the other | sync §3.9, race two |
//! | [`fence::any_of_two`] | two signallers of two fences, one waiter for any of them | sync §3.5, sync §3.9 |
//! | [`park::signal_against_park`] | a hardware queue parks while its value comes | sync §3.8 |
//! | [`park::one_barrier_for_both`] | the signaller's one barrier serves the CPU's waiter and the parked queue | sync §3.8, sync §3.9 |
//! | [`peer::rings_against_park`] | a queue of another GPU parks while its value comes, and lanes are full | sync §3.18 |
//! | [`doorbell::ring_against_sleep`] | an engine falls asleep while its doorbell rings | sync §3.17 |
//! | [`doorbell::two_rings_against_sleep`] | as above, with a first ring that is seen and a second that is not | sync §3.17 |
//!
//! Three actors with up to two operations each are too many for loom, which begins every execution anew. They have a checker of our own,
//! [`buffers`], that remembers states and whose processors have store buffers; it runs the same functions:
//!
//! | model | question |
//! |---|---|
//! | [`complete::fence`] | two engines, which ask the shadow of MonitoredValue and the context management processor, against updates |
//! | [`complete::doorbell`] | two producers with rings of two entries against the engine that falls asleep, with both forms of barriers |
//! | [`complete::passed_on`] | two producers that take one doorbell from each other, and the engine that falls asleep |
//! | [`complete::log`] | two queues' logs of two entries against their reader: nothing unread, nothing half written, nothing overwritten |
//! | [`complete::named`] | two queues of a process on a device each, whose logs do not say what the CPU waits for: lost, or by another name |
//! | [`complete::run_list`] | two engines that signal against the table of parked queues |
//!
//! # What is not here
//! The asymmetric form (a compiler barrier on the frequent side, a process-wide barrier on the rare one) is used by doorbells alone;
//! loom cannot express it, [`complete::doorbell`] has it. Fences have the processor's full barrier on both sides. Values that the mapped
//! memory holds and loom does not (huge addresses, the operating system's futex) are the hosts' tests' business.
//! Whether the processor of the day really reorders is asked by the litmus of the bench.

pub mod buffers;
pub mod complete;
pub mod doorbell;
mod explore;
pub mod fence;
pub mod park;
pub mod peer;
mod word;

pub use explore::Explored;
pub use word::{Full, Removed};
