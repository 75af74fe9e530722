//! Whether a bystander is held: each call of a process that only makes ordinary calls ends within a bounded virtual time, whatever other
//! processes do and leave undone.
//!
//! # The bound
//! A bystander's call ends when the paging ring has passed the works queued before it and the uses that these wait for, the bystander's device
//! has had its turn, and an engine has run the bystander's own buffers. The sizes of the worlds bound each wait:
//!
//! | wait | at most | because |
//! |---|---|---|
//! | works queued before | 25 ms | others make a call each 500 ns and queue works only while the ring lets them; each moves at most the 64 MiB of video memory, twice (out and in), at 25 GB/s: 5.4 ms; at most four lists are that large |
//! | turns of devices (decision 0015) | 80 ms | what a device has lost comes back a quantum of 20 ms later; then at most three others have theirs first |
//! | uses that do not run (decision 0048) | 60 ms | the ring waits 20 ms until the device of a use gives way; at most three holders have such uses |
//! | work of engines | 10 ms | a buffer has 1 KiB of commands on at most 64 MiB: 2.7 ms; VidSch gives each context its quantum |
//! | an interrupt that the driver keeps, or loses | 10 ms | the world lets it keep interrupts for 0.2 ms; the kernel looks for lost ones after 5 ms in these worlds |
//!
//! Where nothing is left that could happen, a call that waits has no end at all: [`Bystander::at_rest`] says so without waiting.

/// Virtual time in which each call of a bystander ends: the sum of the table.
pub const BOUND_NS: u64 = 185_000_000;

/// The call of a bystander that has not been answered.
#[derive(Debug)]
pub struct Bystander {
    bound_ns: u64,
    call: Option<(u64, String)>,
    longest_ns: u64,
    ended: u64,
}

impl Bystander {
    /// One whose calls end within this time.
    pub fn new(bound_ns: u64) -> Bystander {
        Bystander { bound_ns, call: None, longest_ns: 0, ended: 0 }
    }

    /// A call waits for its answer from now on.
    pub fn begun(&mut self, now_ns: u64, call: String) {
        self.call = Some((now_ns, call));
    }

    /// The call was answered.
    pub fn ended(&mut self, now_ns: u64) {
        if let Some((since_ns, _)) = self.call.take() {
            self.longest_ns = self.longest_ns.max(now_ns - since_ns);
            self.ended += 1;
        }
    }

    /// Nothing ran in the meantime, as the computer was asleep: that time does not count.
    pub fn slept(&mut self, now_ns: u64) {
        if let Some((since_ns, _)) = &mut self.call {
            *since_ns = now_ns;
        }
    }

    /// # Errors
    /// A call has waited for longer than the bound.
    pub fn look(&self, now_ns: u64) -> Result<(), String> {
        match &self.call {
            Some((since_ns, call)) if now_ns - since_ns > self.bound_ns => {
                Err(format!("{call} waits since {since_ns} ns: for longer than {} ns", self.bound_ns))
            }
            _ => Ok(()),
        }
    }

    /// Nothing will happen before a process makes a call.
    ///
    /// # Errors
    /// A call waits.
    pub fn at_rest(&self) -> Result<(), String> {
        match &self.call {
            Some((since_ns, call)) => {
                Err(format!("{call} waits since {since_ns} ns, and nothing that others have queued will end it"))
            }
            None => Ok(()),
        }
    }

    /// The longest that a call has waited, and how many have.
    pub fn longest(&self) -> (u64, u64) {
        (self.longest_ns, self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_waits_longer_than_the_bound_is_held() {
        let mut bystander = Bystander::new(BOUND_NS);
        assert_eq!(bystander.look(u64::MAX), Ok(()));
        bystander.begun(7, "CreateDevice".into());
        assert_eq!(bystander.look(7 + BOUND_NS), Ok(()));
        assert!(bystander.look(8 + BOUND_NS).is_err());
        bystander.slept(8 + BOUND_NS);
        assert_eq!(bystander.look(8 + BOUND_NS), Ok(()));
        bystander.ended(9 + BOUND_NS);
        assert_eq!((bystander.look(u64::MAX), bystander.longest()), (Ok(()), (1, 1)));
    }

    #[test]
    fn a_call_that_waits_when_nothing_will_happen_is_held() {
        let mut bystander = Bystander::new(BOUND_NS);
        assert_eq!(bystander.at_rest(), Ok(()));
        bystander.begun(7, "CreateDevice".into());
        assert!(bystander.at_rest().is_err());
        bystander.ended(8);
        assert_eq!(bystander.at_rest(), Ok(()));
    }
}
