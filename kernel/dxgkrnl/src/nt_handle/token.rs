//! Tokens of NT handles: SipHash-2-4 of a counter under a key that the host chooses. Unguessable where the key is random, the same in every
//! run where it is fixed. Called by `nt_handle`, which skips 0 and tokens that are in use.

/// The tokens of a machine.
pub struct Tokens {
    key: [u64; 2],
    made: u64,
}

impl Tokens {
    /// Those of a key.
    pub fn of(key: [u64; 2]) -> Tokens {
        Tokens { key, made: 0 }
    }

    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.made += 1;
        siphash(self.key, self.made)
    }
}

/// SipHash-2-4 of the eight bytes of an integer.
fn siphash(key: [u64; 2], message: u64) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    // The integer, then the last word of the message: its length in the highest byte.
    for word in [message, 8 << 56] {
        state[3] ^= word;
        round(&mut state);
        round(&mut state);
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut state));
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn round(state: &mut [u64; 4]) {
    let [v0, v1, v2, v3] = state;
    *v0 = v0.wrapping_add(*v1);
    *v1 = v1.rotate_left(13) ^ *v0;
    *v0 = v0.rotate_left(32);
    *v2 = v2.wrapping_add(*v3);
    *v3 = v3.rotate_left(16) ^ *v2;
    *v0 = v0.wrapping_add(*v3);
    *v3 = v3.rotate_left(21) ^ *v0;
    *v2 = v2.wrapping_add(*v1);
    *v1 = v1.rotate_left(17) ^ *v2;
    *v2 = v2.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the algorithm's authors for the message 00 01 … 07 under the key 00 01 … 0f.
    #[test]
    fn the_hash_is_the_published_one() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(siphash(key, 0x0706_0504_0302_0100), 0x93f5_f579_9a93_2462);
    }
}
