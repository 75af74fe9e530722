//! Paging work on its way through its queue.
//!
//! A paging queue does its work in order, and a client that plans ahead queues hundreds of works at once. So a work's slice
//! begins when its turn comes: when it is queued, or when the work before it is done. Its time in the queue before
//! is a detail of the slice. The slice ends when the device signals its fence value, or when the kernel reports the completion,
//! whichever event comes first.

use events::Event;

use super::{Builder, Note, SliceKind, TrackKind};

/// Work in a queue: the word and value that end it, and its slice once its turn has come.
pub(super) struct Paging {
    work: u64,
    word: Option<u64>,
    value: u64,
    queued_ns: u64,
    name: &'static str,
    notes: Vec<Note>,
    slice: Option<usize>,
}

impl Builder<'_> {
    pub(super) fn paging_queued(&mut self, event: &Event) {
        let Event::PagingQueued { work, paging_queue, fence, value, in_bytes, out_bytes, held_for } = event else {
            return;
        };
        let name = match (in_bytes, out_bytes) {
            (0, 0) => "fill and map",
            (_, 0) => "page in",
            (0, _) => "page out",
            _ => "page out and in",
        };
        let notes = vec![
            Note::Number("in bytes", *in_bytes),
            Note::Number("out bytes", *out_bytes),
            Note::Number("work", *work),
            Note::Number("fence", *fence),
            Note::Number("value", *value),
            Note::Number("held for", u64::from(*held_for)),
        ];
        let word = self.fences.word(*fence);
        let (work, value, queued_ns) = (*work, *value, self.now_ns);
        let paging = Paging { work, word, value, queued_ns, name, notes, slice: None };
        self.paging.entry(*paging_queue).or_default().push_back(paging);
        self.next_paging(*paging_queue);
        if word.is_some_and(|word| self.fences.reached(word, value)) {
            self.paging_completed(work);
        }
    }

    /// A fence has reached a value: the paging work up to it is done.
    pub(super) fn paging_reached(&mut self, word: u64, value: u64) {
        let works = self.paging.values().flatten();
        let ended = works.filter(|paging| paging.word == Some(word) && paging.value <= value);
        let ended: Vec<u64> = ended.map(|paging| paging.work).collect();
        ended.into_iter().for_each(|work| self.paging_completed(work));
    }

    /// The work is done; nothing happens if that was known.
    pub(super) fn paging_completed(&mut self, work: u64) {
        let place = |works: &std::collections::VecDeque<Paging>| works.iter().position(|paging| paging.work == work);
        let found = self.paging.iter().find_map(|(queue, works)| Some((*queue, place(works)?)));
        let Some((queue, place)) = found else { return };
        let done = self.paging.get_mut(&queue).and_then(|works| works.remove(place));
        let Some(mut done) = done else { return };
        // Done before its turn was seen to come: its length is unknown.
        let slice = done.slice.unwrap_or_else(|| self.open_paging(queue, &mut done));
        self.close(slice);
        self.next_paging(queue);
    }

    /// The turn of a queue's first work has come, if it has not come before.
    fn next_paging(&mut self, queue: u64) {
        let Some(mut first) = self.paging.get_mut(&queue).and_then(|works| works.pop_front()) else { return };
        if first.slice.is_none() {
            first.slice = Some(self.open_paging(queue, &mut first));
        }
        self.paging.entry(queue).or_default().push_front(first);
    }

    fn open_paging(&mut self, queue: u64, paging: &mut Paging) -> usize {
        let track = self.lanes.track(TrackKind::Paging, queue, || format!("paging queue {queue}"));
        let mut notes = std::mem::take(&mut paging.notes);
        notes.push(Note::Number("queued before, ns", self.now_ns - paging.queued_ns));
        self.open(track, SliceKind::Paging, paging.name, notes)
    }
}
