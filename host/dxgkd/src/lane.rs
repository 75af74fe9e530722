//! One lane: a request, its response, and the next.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use kmt_calls::wire::{decode, encode};
use kmt_calls::{Refusal, Reply};
use kmt_link::socket::{MESSAGE_MAX, PacketError, Packets, Request, Response, Told};

use wddm_types::{Blame, NtStatus};

use crate::client::Client;

/// Serves a lane until the client goes, or says what no client says.
pub(crate) fn serve(client: &Arc<Client>, lane: &Packets) {
    loop {
        // The room is given back with the answer: until then the call may be as large as its bytes were.
        let mut room = client.message_room();
        let heard = lane.receive_within(MESSAGE_MAX, 1, &mut |more| room.grow(more));
        let answered = heard.and_then(|(bytes, files)| {
            let (response, file) = match bytes {
                Ok(bytes) => {
                    let request = decode(&bytes).map_err(|_| PacketError::Malformed("no request of this version"))?;
                    drop(bytes);
                    answer(client, request, files)?
                }
                Err(reason) => {
                    client.log_refusal("message", &reason);
                    (Response::Answer(Err(no_room(reason))), None)
                }
            };
            if client.has_ended() {
                // An answer would name what the process was never told of.
                return Err(PacketError::Closed);
            }
            let told = Told { pushed: client.pushed(), response };
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

/// Nobody has looked at the call.
fn no_room(reason: String) -> Refusal {
    Refusal { status: NtStatus::NO_MEMORY, blame: Blame::Quota, reason: reason.into(), bytes_to_trim: 0 }
}

/// The response, and what goes with it.
fn answer(
    client: &Arc<Client>,
    request: Request,
    mut files: Vec<OwnedFd>,
) -> Result<(Response, Option<OwnedFd>), PacketError> {
    if matches!(request, Request::Lane | Request::Described) != (files.len() == 1) {
        return Err(PacketError::Malformed("a descriptor without use, or none where one is needed"));
    }
    let (host, process) = (&client.host, client.process());
    let response = match request {
        Request::Call(call) => {
            let name = call.name();
            let result = host.call(process, call);
            match &result {
                Ok(reply) => client.lend_words(reply)?,
                Err(refusal) if refusal.blame == Blame::Quota => client.log_refusal(name, &refusal.reason),
                Err(_) => {}
            }
            Response::Answer(result)
        }
        Request::Lane => {
            let lane = Packets::new(files.pop().expect("just counted"));
            let lane = match client.add_lane(lane) {
                Ok(lane) => lane,
                Err(reason) => {
                    client.log_refusal("lane", &reason);
                    return Ok((Response::Refused(reason), None));
                }
            };
            let begun = client.spawn("lane", move |client| serve(client, &lane));
            begun.map_err(|_| PacketError::Malformed("no thread is left for a lane"))?;
            Response::Done
        }
        Request::Now => Response::Now(host.now_ns()),
        Request::Descriptor(handle) => match host.nt_descriptor(process, handle) {
            Ok(descriptor) => return Ok((Response::Answer(Ok(Reply::Done)), Some(descriptor))),
            Err(refusal) => Response::Answer(Err(refusal)),
        },
        Request::Described => {
            let descriptor = files.pop().expect("just counted");
            Response::Answer(host.nt_handle_of(descriptor.as_fd()).map(Reply::NtHandle))
        }
    };
    Ok((response, None))
}
