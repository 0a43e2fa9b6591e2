//! `/v1/events`: what happens to sites, as it happens.

use serde_json::Value;

use super::{HOST, Mesh, signal};
use crate::common::client::Connection;
use crate::common::setup::Setup;

/// A stream of events, from the beginning or after one.
pub(super) struct Events(Connection);

/// One event.
#[derive(Debug)]
pub(super) struct Told {
    id: String,
    pub(super) kind: String,
    pub(super) body: Value,
}

impl Events {
    pub(super) async fn of(mesh: &Mesh, at: usize, after: Option<&str>) -> Events {
        let mut connection = Connection::open(mesh.site(at).admin).await;
        let mut headers = HOST.to_vec();
        headers.extend(after.map(|id| ("Last-Event-ID", id)));
        connection.head("GET /v1/events HTTP/1.1", &headers).await;
        let answer = connection.answer_head().await.unwrap();
        assert_eq!(answer.status, 200);
        Events(connection)
    }

    /// The next event; comments and chunk lengths are passed over.
    pub(super) async fn next(&mut self) -> Told {
        let (mut id, mut kind) = (String::new(), String::new());
        loop {
            let line = self.0.line().await.unwrap();
            if let Some(text) = line.strip_prefix("id: ") {
                text.clone_into(&mut id);
            } else if let Some(text) = line.strip_prefix("event: ") {
                text.clone_into(&mut kind);
            } else if let Some(text) = line.strip_prefix("data: ") {
                let body = serde_json::from_str(text).unwrap();
                return Told { id, kind, body };
            }
        }
    }

    /// The marks that a site is given, until it has that one; and the last event.
    pub(super) async fn marks(&mut self, of: &str, until: &str) -> (Vec<(String, String)>, Told) {
        let mut marks = Vec::new();
        loop {
            let told = self.next().await;
            if told.kind != "site-mark" || told.body["site"] != of {
                continue;
            }
            let word = |name: &str| told.body[name].as_str().unwrap().to_owned();
            marks.push((word("before"), word("mark")));
            assert!(told.body["time"].as_str().unwrap().ends_with('Z'));
            if word("mark") == until {
                return (marks, told);
            }
        }
    }
}

#[tokio::test]
async fn every_change_of_a_mark_is_told_and_a_reader_that_comes_back_misses_none() {
    let mesh = Setup::of(2).start().await;
    let mut events = Events::of(&mesh, 1, Some("0")).await;
    let (_, first) = events.marks("site2", "connected").await;
    signal(&mesh, 2, "-STOP").await;
    let (marks, _) = events.marks("site2", "autonomous").await;
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(marks, [pair("connected", "autonomous")]);
    drop(events);
    signal(&mesh, 2, "-CONT").await;
    mesh.wait_mark(1, 2, "connected").await;

    // Whoever comes back hears what it missed, in order and once.
    let mut back = Events::of(&mesh, 1, Some(&first.id)).await;
    let (marks, last) = back.marks("site2", "connected").await;
    let expected = [
        pair("connected", "autonomous"),
        pair("autonomous", "connected"),
    ];
    assert_eq!(marks, expected);
    assert!(last.id.parse::<u64>().unwrap() > first.id.parse::<u64>().unwrap());
}
