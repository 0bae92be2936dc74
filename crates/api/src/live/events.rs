//! Server-Sent Events (HTML Living Standard, section 9.2).

use std::convert::Infallible;
use std::time::Duration;

use axum::response::IntoResponse;
use axum::response::sse::{Event as Sent, Sse};
use futures_util::stream;
use serde_json::json;

use super::UNBUFFERED;
use super::reader::{Event, Reader};
use crate::points::LivePoint;

/// How soon a client that lost its connection is to be back.
const RETRY: Duration = Duration::from_secs(1);

pub(super) fn answer(reader: Reader) -> impl IntoResponse {
    // At once: a client knows from it that it watches, whenever something comes.
    let first = stream::iter([Ok(Sent::default().retry(RETRY).comment(""))]);
    let events = stream::unfold(reader, async |mut reader: Reader| {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(sent(event)), reader))
    });
    (UNBUFFERED, Sse::new(stream::StreamExt::chain(first, events)))
}

fn sent(event: Event) -> Sent {
    match event {
        Event::Point(id, point) => {
            let sent = Sent::default().data(in_one_line(&point));
            id.into_iter().fold(sent, Sent::id)
        }
        Event::Lost(points) => named("lost", &json!({"points": points})),
        Event::Beat => Sent::default().comment(""),
        Event::End(reason) => named("end", &json!({"reason": reason})),
    }
}

/// What a device wrote may have line ends, between its words alone.
fn in_one_line(point: &LivePoint) -> String {
    let text = serde_json::to_string(point).expect("a point is JSON");
    text.replace(['\r', '\n'], " ")
}

fn named(name: &str, data: &serde_json::Value) -> Sent {
    Sent::default().event(name).data(data.to_string())
}
