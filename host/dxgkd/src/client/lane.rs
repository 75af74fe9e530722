//! One lane: a request, its response, and the next. A posted call has no response.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use kmt_calls::wire::{decode, encode};
use kmt_calls::{Call, QueueCall, Reach, Refusal, Reply};
use kmt_link::OrderedAnswer;
use kmt_link::socket::{
    Asked, CALLS_MAX, Files, MESSAGE_MAX, PacketError, Packets, QUEUED_MAX, Request, Response, Told,
};
use rustix::io::Errno;
use wddm_types::{Blame, NtStatus};

use crate::client::Client;

/// Serves a lane until the client goes or sends a malformed message.
pub(crate) fn serve(client: &Arc<Client>, lane: &Packets) {
    client.serves_here();
    loop {
        // The room is given back with the answer: until then the call may be as large as its bytes were.
        let mut room = client.message_room();
        let heard = lane.receive_within(MESSAGE_MAX, 1, &mut |more| room.grow(more));
        let answered = heard.and_then(|(bytes, files)| {
            let (response, file) = match bytes {
                Ok(bytes) => {
                    let asked = decode(&bytes).map_err(|_| {
                        PacketError::Malformed("the request cannot be decoded; both programs must have one version")
                    })?;
                    drop(bytes);
                    match answer(client, lane, asked, files)? {
                        Some(answered) => answered,
                        None => return Ok(()),
                    }
                }
                Err(reason) => {
                    client.log_refusal("message", &reason);
                    (Response::Answer(Err(no_room(reason))), None)
                }
            };
            if client.has_ended() {
                // The answer may name words and mappings whose messages the ended stream has dropped.
                return Err(PacketError::Closed);
            }
            let (pushed, pushes) = client.pushed(has_room_for_pushes(&response));
            let told = Told { pushed, pushes, response };
            let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
            lane.send(&encode(&told, Vec::new()), &files)
        });
        match answered {
            Ok(()) => {}
            Err(PacketError::Closed) => return client.end("it has closed its connection"),
            Err(error) => {
                tracing::warn!(process = client.process().0, "{}: {error}", client.peer);
                return client.end(&error.to_string());
            }
        }
    }
}

/// Whether messages for the client may go with a response: those that its call has caused.
fn has_room_for_pushes(response: &Response) -> bool {
    matches!(response, Response::Answer(_) | Response::AnswerInOrder(..) | Response::Answers(_))
}

/// The daemon has discarded the call unread.
fn no_room(reason: String) -> Refusal {
    Refusal { status: NtStatus::NO_MEMORY, blame: Blame::Quota, reason: reason.into(), bytes_to_trim: 0 }
}

/// The daemon has no descriptor left for the one that a request brings: the request is refused, and the client goes on.
fn no_descriptor(client: &Client, request: &Request, error: Errno) -> Response {
    let reason = format!("the daemon is out of descriptors: {error}; raise its limit (LimitNOFILE=, ulimit -Hn)");
    client.log_refusal("descriptor", &reason);
    match request {
        Request::Lane => Response::Refused(reason),
        _ => Response::Answer(Err(scarce(reason))),
    }
}

fn scarce(reason: String) -> Refusal {
    Refusal { status: NtStatus::NO_MEMORY, blame: Blame::Scarcity, reason: reason.into(), bytes_to_trim: 0 }
}

/// Makes a call of the process. `waits` hears that the kernel has taken it and answers later.
fn make(client: &Client, call: Call, waits: &dyn Fn()) -> OrderedAnswer {
    let name = call.name();
    let shows = call.shows_memory().then(|| call.clone());
    if matches!(call, Call::Queue(QueueCall::CreateDoorbell { .. })) {
        client.will_ring();
    }
    if call.reach() == Reach::Others {
        client.reaches_others();
    }
    let asleep = Cell::new(None);
    let (result, order) = client.host.call_in_order(client.process(), call, &|| {
        // The client hears before the call sleeps.
        client.let_pushes_go();
        waits();
        asleep.set(Some(client.sleeps()));
    });
    drop(asleep);
    log_quota(client, name, &result);
    if let Ok(reply) = &result
        && let Err(reason) = client.lend_words(reply)
    {
        // The answer would name words that the client cannot have.
        if let Some(undo) = shows.and_then(|call| call.undone_by(reply)) {
            // A process that dies meanwhile has nothing left to take back.
            let _ = client.host.call(client.process(), undo);
        }
        client.log_refusal(name, &reason);
        return (Err(scarce(reason)), order);
    }
    (result, order)
}

/// Makes a call, and tells the client its place in the kernel's order: a client that records calls, or makes recorded ones again.
fn make_in_order(client: &Client, lane: &Packets, call: Call) -> Response {
    let waits = || {
        let (pushed, pushes) = client.pushed(false);
        let told = Told { pushed, pushes, response: Response::Waits };
        // A client that has gone hears no answer either: its lane ends with that.
        let _ = lane.send(&encode(&told, Vec::new()), &[]);
    };
    let (result, order) = make(client, call, &waits);
    Response::AnswerInOrder(result, order)
}

/// The response, and a descriptor that goes with it; `None`: a posted call has no response.
fn answer(
    client: &Arc<Client>,
    lane: &Packets,
    Asked { after, placed, lost, request }: Asked,
    files: Files,
) -> Result<Option<(Response, Option<OwnedFd>)>, PacketError> {
    let brings = matches!(request, Request::Lane | Request::Described | Request::SectionOver { .. });
    client.placed(&placed);
    client.lost(&lost);
    let mut files = match files.all() {
        Ok(files) if brings == (files.len() == 1) => files,
        Err(error) if brings => return Ok(Some((no_descriptor(client, &request, error), None))),
        _ => {
            return Err(PacketError::Malformed(
                "the request brings a descriptor that it does not take, or lacks the one that it takes",
            ));
        }
    };
    // Calls that the client posted on other lanes before this request come first.
    if !client.posts.wait_for(after) {
        return Err(PacketError::Closed);
    }
    let (host, process) = (&client.host, client.process());
    let response = match request {
        Request::Call(call) => Response::Answer(make(client, call, &|| {}).0),
        Request::CallInOrder(call) => make_in_order(client, lane, call),
        Request::Calls(calls) if calls.len() > CALLS_MAX => {
            return Err(PacketError::Malformed("the request has more calls than it may"));
        }
        Request::Calls(calls) => {
            Response::Answers(calls.into_iter().map(|call| make(client, call, &|| {}).0).collect())
        }
        Request::Post(call) => {
            // A posted call's answer is not read.
            let _ = make(client, call, &|| {});
            client.let_pushes_go();
            client.posts.one_is_over();
            return Ok(None);
        }
        Request::Lane => open_lane(client, Packets::new(files.pop().expect("just counted")))?,
        Request::Now => Response::Now(host.now_ns()),
        Request::FencesQueued { queued, .. } if queued.len() > QUEUED_MAX => {
            return Err(PacketError::Malformed("the request has more waits and signals than it may"));
        }
        Request::FencesQueued { queue, queued } => {
            host.fences_queued(process, queue, &queued);
            Response::Done
        }
        Request::OwnEvents => Response::OwnEvents(host.own_events(process)),
        Request::OwnCommands => Response::OwnCommands(host.own_commands(process)),
        Request::Descriptor(handle) => match host.nt_descriptor(process, handle) {
            Ok(descriptor) => return Ok(Some((Response::Answer(Ok(Reply::Done)), Some(descriptor)))),
            Err(refusal) => Response::Answer(Err(refusal)),
        },
        Request::Described => {
            let descriptor = files.pop().expect("just counted");
            Response::Answer(host.nt_handle_of(descriptor.as_fd()).map(Reply::NtHandle))
        }
        Request::SectionOver { adapter, offset_bytes, size_bytes } => {
            let file = files.pop().expect("just counted");
            let made = host.section_over(process, adapter, file, offset_bytes, size_bytes);
            log_quota(client, "CreateSection", &made);
            Response::Answer(made)
        }
    };
    Ok(Some((response, None)))
}

/// A refusal that a quota causes goes to the log.
fn log_quota(client: &Client, name: &str, answer: &Result<Reply, Refusal>) {
    if let Err(refusal) = answer
        && refusal.blame == Blame::Quota
    {
        client.log_refusal(name, &refusal.reason);
    }
}

/// Serves one lane more, on a thread of its own.
fn open_lane(client: &Arc<Client>, lane: Packets) -> Result<Response, PacketError> {
    let lane = match client.add_lane(lane) {
        Ok(lane) => lane,
        Err(reason) => {
            client.log_refusal("lane", &reason);
            return Ok(Response::Refused(reason));
        }
    };
    let begun = client.spawn("lane", move |client| serve(client, &lane));
    let no_thread = |error| format!("the operating system gives the daemon no thread for the lane: {error}");
    begun.map_err(|error| PacketError::NoLane(no_thread(error)))?;
    Ok(Response::Done)
}
