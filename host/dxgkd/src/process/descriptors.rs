//! How many descriptors the operating system gives this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the process's limit of descriptors as far as it may; returns the limit now.
pub fn raise_descriptors() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let held = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        // A limit that cannot be raised holds as it is.
        Err(_) => current,
    };
    held.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_the_process_may_have() {
        let raised = raise_descriptors();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        assert_eq!(raised, maximum.unwrap_or(u64::MAX));
    }
}
