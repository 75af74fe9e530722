//! For how long a client has kept the kernel, and with it the adapter's paging, waiting. A client that answers at once loses nothing,
//! however often its memory moves; a client that takes longer uses up its answer time, and gets it back slowly.

use std::time::{Duration, Instant};

/// The answer time that a client has used up.
#[derive(Default)]
pub(crate) struct ReplyBudget {
    kept: Duration,
    /// When `kept` was computed.
    at: Option<Instant>,
}

/// An answer within this is at once.
const AT_ONCE: Duration = Duration::from_millis(10);
/// Of so much time that passes, a client gets one part back.
const GIVEN_BACK: u32 = 20;

impl ReplyBudget {
    /// The kernel asked then, and the client has answered now.
    pub fn add(&mut self, asked: Instant, now: Instant) {
        // The kernel waits for several changes at the same time: overlapping waits count once.
        let waited = now.duration_since(self.at.map_or(asked, |at| at.max(asked)));
        self.kept = self.until(now) + waited.saturating_sub(AT_ONCE);
        self.at = Some(now);
    }

    fn until(&self, now: Instant) -> Duration {
        let passed = self.at.map_or(Duration::ZERO, |at| now.duration_since(at));
        self.kept.saturating_sub(passed / GIVEN_BACK)
    }

    /// The answer time that the client has left of all that it may take.
    pub fn left(&self, within: Duration, now: Instant) -> Duration {
        within.saturating_sub(self.until(now)).max(AT_ONCE.min(within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_its_time_has_it_once_and_gets_it_back_slowly() {
        let ms = Duration::from_millis;
        let begin = Instant::now();
        let (mut kept, within) = (ReplyBudget::default(), ms(2_000));
        for round in 0..1_000 {
            let asked = begin + ms(10) * round;
            kept.add(asked, asked + AT_ONCE);
        }
        let now = begin + ms(10_000);
        assert_eq!(kept.left(within, now), within, "it answers at once");
        kept.add(now, now + ms(1_510));
        let now = now + ms(1_510);
        assert_eq!(kept.left(within, now), ms(500));
        // Four changes of one work, and the kernel has waited for all of them together.
        let asked = now + ms(1_000);
        (1..=4).for_each(|nth| kept.add(asked, asked + ms(100 * nth)));
        assert!((ms(550) - ms(400)..=ms(550) - ms(300)).contains(&kept.left(within, asked + ms(400))));
        kept.add(asked + ms(400), asked + ms(2_400));
        assert_eq!(kept.left(within, asked + ms(2_400)), AT_ONCE, "it has used it up, and may answer at once");
        assert_eq!(kept.left(within, asked + ms(102_400)), within);
    }
}
