//! `GET /v1/events`: what happens, as server-sent events.
//!
//! Each has an id, its kind as the event's name, and a JSON object with `time`. A client that comes
//! back with `Last-Event-ID` gets what it missed, if that is still kept.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use cheops_engine::api::rfc3339;
use cheops_engine::events::{Heard, Listener};
use futures_util::{Stream, stream};
use serde_json::{Value, json};

use crate::server::Sources;

/// A comment now and then, so that both ends notice when the other is gone.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);

pub(crate) async fn events(
    State(sources): State<Sources>,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let last = headers.get("last-event-id");
    let after = last.and_then(|id| id.to_str().ok()?.parse().ok());
    let listener = sources.events.listen(after);
    Sse::new(stream::unfold(listener, next)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_EVERY))
}

async fn next(mut listener: Listener) -> Option<(Result<Event, Infallible>, Listener)> {
    let event = match listener.next().await? {
        Heard::Notice(notice) => {
            let mut body = notice.body.clone();
            if let Value::Object(members) = &mut body {
                members.insert("time".to_owned(), json!(rfc3339(notice.time)));
            }
            let id = notice.id.to_string();
            Event::default()
                .id(id)
                .event(notice.kind)
                .data(body.to_string())
        }
        Heard::Missed(count) => Event::default()
            .event("missed")
            .data(json!({ "count": count }).to_string()),
    };
    Some((Ok(event), listener))
}
