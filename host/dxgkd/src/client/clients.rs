//! The clients of a daemon, of which some may have gone without the daemon's threads having seen it yet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::client::Client;

/// All clients.
#[derive(Default)]
pub(crate) struct Clients {
    all: Mutex<Vec<Weak<Client>>>,
}

impl Clients {
    fn list(&self) -> MutexGuard<'_, Vec<Weak<Client>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client that comes, before it makes its first call.
    pub fn add(&self, client: &Arc<Client>) {
        let mut list = self.list();
        list.retain(|known| known.strong_count() > 0);
        list.push(Arc::downgrade(client));
    }

    /// Those that are there.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.list().iter().filter_map(Weak::upgrade).collect()
    }

    /// Reaps the clients that have gone, other than this one. The end of a process is heard by a thread that may not have run yet, and a
    /// program that waited for the end of the process may ask for its objects: they are gone when this returns.
    pub fn reap_gone(&self, but: Option<&Client>) {
        let is_other = |client: &Arc<Client>| but.is_none_or(|but| !std::ptr::eq(but, &**client));
        let others: Vec<_> = self.all().into_iter().filter(is_other).collect();
        others.iter().for_each(|client| client.reap_if_gone());
    }
}
