//! WebSocket frames from anybody, cut anywhere: the same MQTT bytes come out of them as from the whole, never more than
//! went in, and what is answered is bounded by what came.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/hub/src/shard/websocket.rs"]
#[allow(dead_code, reason = "the half that writes frames is not for strangers")]
mod websocket;

use websocket::{Answer, WebSocket};

/// The longest pong to a ping of two bytes and more.
const ANSWER_MAX_FACTOR: usize = 2;

fuzz_target!(|input: &[u8]| {
    let Some((&step, stream)) = input.split_first() else { return };
    let whole = unframed(stream, stream.len().max(1));
    assert_eq!(unframed(stream, usize::from(step).max(1)), whole);
});

/// MQTT bytes and pongs from frames that arrive in pieces of `step` bytes; `None` if a frame is broken. Once a close has
/// arrived pings need no pong (RFC 6455, section 5.5.2).
fn unframed(stream: &[u8], step: usize) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let mut socket = WebSocket::default();
    let (mut mqtt, mut answers) = (Vec::new(), Vec::new());
    for piece in stream.chunks(step) {
        let mut bytes = piece.to_vec();
        let answer = socket.unframe(&mut bytes, 0).ok()?;
        mqtt.extend(bytes);
        match answer {
            Answer::None => {}
            Answer::Send(frames) => answers.extend(frames),
            Answer::Close(_) => return Some((mqtt, None)),
        }
    }
    assert!(mqtt.len() <= stream.len() && answers.len() <= ANSWER_MAX_FACTOR * stream.len());
    Some((mqtt, Some(answers)))
}
