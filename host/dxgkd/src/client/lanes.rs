//! The lanes of a client. They end with it: a thread of the client may still take a request for another lane while a second thread ends the
//! client, and the daemon would then serve that lane for as long as its peer is open. A hostile client gives the daemon both ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kmt_link::socket::Packets;

use crate::limits::user::Place;

/// A lane, with its place in the count of its user.
type CountedLane = (Arc<Packets>, Place);

/// The lanes of a client; `None`: the client has ended.
pub(super) struct Lanes(Mutex<Option<Vec<CountedLane>>>);

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes(Mutex::new(Some(Vec::new())))
    }
}

impl Lanes {
    fn here(&self) -> MutexGuard<'_, Option<Vec<CountedLane>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes another lane, of at most `own_max`, which has its place from `place`.
    ///
    /// # Errors
    /// The client has ended, has as many as it may have, or `place` has none.
    pub fn add(
        &self,
        lane: Packets,
        own_max: u64,
        place: impl FnOnce() -> Result<Place, String>,
    ) -> Result<Arc<Packets>, String> {
        let mut here = self.here();
        let lanes = here.as_mut().ok_or("the client has disconnected")?;
        if lanes.len() as u64 >= own_max {
            return Err(format!("limit of lanes: the process has all {own_max} that it may have (process.lanes)"));
        }
        let lane = Arc::new(lane);
        lanes.push((Arc::clone(&lane), place()?));
        Ok(lane)
    }

    /// Whether no thread of a lane will see that the client has gone: so many sleep in calls, and nothing is left to read.
    pub fn none_looks(&self, asleep: usize) -> bool {
        let here = self.here();
        let lanes = here.as_deref().unwrap_or_default();
        asleep >= lanes.len() && lanes.iter().all(|(lane, _)| !lane.has_unread())
    }

    /// Ends all lanes, and takes no more.
    pub fn close(&self) {
        let lanes = self.here().take();
        lanes.into_iter().flatten().for_each(|(lane, _place)| lane.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::user::Count;

    #[test]
    fn lanes_end_with_their_client_and_a_later_one_is_refused() {
        let (lanes, count) = (Lanes::default(), Count::default());
        let place = || count.take(2).ok_or_else(|| "no place".to_owned());
        let [(first, peer), (late, _open)] = [(); 2].map(|()| Packets::pair().expect("two descriptors"));
        let peer = Packets::new(peer);
        lanes.add(first, 8, place).expect("the client is there");
        lanes.close();
        assert!(peer.has_ended());
        lanes.add(late, 8, place).expect_err("its thread would wait for a peer that may never go");
        assert_eq!(count.now(), 0, "no place is kept");
    }
}
