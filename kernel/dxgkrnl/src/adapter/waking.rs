//! Doorbells of an adapter that sleeps (sync §3.17). Between the suspension of all contexts and the evictions every doorbell is taken
//! away. A process that has rung before finds its work done after the wake; one that rings later finds its doorbell gone and connects it,
//! which wakes the adapter. Its contexts go on when their memory is back, and its ring with it: rings until then wait.
//!
//! | a process connects while the adapter is | and gets its doorbell |
//! |---|---|
//! | on, or going down and not yet quiesced | at once; the sleep takes it away again |
//! | saving what the sleep would lose | when it has fallen asleep, and woken for that |
//! | asleep | at once: the adapter wakes |

use events::DoorbellTaken;
use kmt_calls::{Refusal, Reply};

use crate::adapter::Adapter;
use crate::effect::{Answer, Cx, Effect, Token};
use crate::number::{DoorbellNumber, PagingWorkNumber};
use crate::refusal::{invalid, removed};
use crate::store::ObjectNumber;

impl Adapter {
    /// The paging work of this number has suspended its devices: for the sleep all of them.
    // spec: sync §3.17
    pub fn quiesce_for_sleep(&mut self, cx: &mut Cx<'_>, work: PagingWorkNumber) {
        if self.life.sleeps_by(work.raw()) {
            self.take_doorbells_for_sleep(cx);
        }
    }

    // spec: sync §3.17
    pub(super) fn take_doorbells_for_sleep(&mut self, cx: &mut Cx<'_>) {
        if !self.life.quiesce() {
            return;
        }
        let doorbells: Vec<_> = self.doorbells.numbers().collect();
        for doorbell in doorbells {
            self.lend_doorbells(cx, |doorbells, lent| doorbells.disconnect(lent, doorbell, DoorbellTaken::Power));
        }
    }

    /// `D3DKMTConnectDoorbell`: a process runs and has work, so an adapter that sleeps wakes.
    ///
    /// # Errors
    /// Only what is irrecoverable.
    // spec: sync §3.17, sync §5
    pub fn connect_and_wake(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        number: DoorbellNumber,
    ) -> Result<Answer, Refusal> {
        self.may_connect(number)?;
        if self.life.waits_to_connect(token, number) {
            return Ok(Answer::Later(token));
        }
        self.connect_awake(cx, token, number)
    }

    /// Answers the calls that have waited to connect a doorbell. True: there was one.
    pub fn answer_connects(&mut self, cx: &mut Cx<'_>) -> bool {
        let connects = self.life.take_connects();
        let answered = !connects.is_empty();
        for (token, number) in connects {
            let answer = self.may_connect(number).and_then(|()| self.connect_awake(cx, token, number));
            match answer.unwrap_or_else(|refusal| Answer::Done(Err(refusal))) {
                Answer::Done(result) => cx.effects.push(Effect::Answer { token, result }),
                Answer::Later(_) => {}
            }
        }
        answered
    }

    fn connect_awake(&mut self, cx: &mut Cx<'_>, token: Token, number: DoorbellNumber) -> Result<Answer, Refusal> {
        if self.life.is_off() {
            self.power_up(cx)?;
        }
        let notify = self.connect_doorbell(cx, number)?;
        let queue = self.doorbells.queue_of(number).expect("it was just connected");
        let queue = &self.queues[queue];
        // spec: sync §6 C3: again, for they may have been made anew
        let logs = queue.logs.detail().expect("a queue with a doorbell has logs");
        let process = self.owners.process_of(queue.device);
        let reply = Reply::DoorbellConnected { notify, logs };
        Ok(if self.fence_words_mapped(process) { Answer::Done(Ok(reply)) } else { self.after_ring(cx, token, reply) })
    }

    /// Whether a doorbell is one that can be connected, awake or not.
    // spec: sync §3.17, memory §8.6
    fn may_connect(&self, number: DoorbellNumber) -> Result<(), Refusal> {
        self.life.running()?;
        let queue = self.doorbells.queue_of(number).ok_or_else(|| invalid("the doorbell was destroyed"))?;
        self.device_active(self.queues[queue].device)?;
        if self.doorbells.is_lost(number) {
            return Err(removed("the doorbell is lost: its queue has to be created anew"));
        }
        Ok(())
    }
}
