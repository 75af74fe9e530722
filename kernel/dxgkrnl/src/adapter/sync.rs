//! News of the adapter's synchronization, carried out: a wait that ended lets its context, queue, lock or call go on with the loop of
//! settling, and the machine sets events and forgets names.

use crate::adapter::Adapter;
use crate::due::Waiter;
use crate::machine::Cx;
use crate::sync::{SyncNews, SyncObjectNumber, SyncOpenNumber};

impl Adapter {
    /// Carries out news in their order.
    pub fn carry_out_sync(&mut self, news: Vec<SyncNews>) {
        for news in news {
            match news {
                SyncNews::Ended(waiter) => {
                    if let Waiter::Packets { context } = waiter {
                        self.software.forget_wait(context);
                    }
                    self.due.wait_ended(waiter);
                }
                SyncNews::SetEvent(event) => self.due.set_event(event),
                SyncNews::GlobalGone(global) => self.due.global_gone(global),
            }
        }
    }

    /// A signal of an object without a word in memory; `value` and `rewind` are for a fence.
    pub fn signal_sync_object(&mut self, cx: &mut Cx<'_>, object: SyncObjectNumber, value: u64, rewind: bool) {
        let news = self.sync.signal_object(cx, object, value, rewind);
        self.carry_out_sync(news);
    }

    /// An open of such an object ends.
    pub fn close_sync_object(&mut self, cx: &mut Cx<'_>, open: SyncOpenNumber) {
        let news = self.sync.close_object(cx, open);
        self.carry_out_sync(news);
    }

    /// A name of such an object has gone.
    pub fn unname_sync_object(&mut self, cx: &mut Cx<'_>, object: SyncObjectNumber) {
        let news = self.sync.unname_object(cx, object);
        self.carry_out_sync(news);
    }
}
