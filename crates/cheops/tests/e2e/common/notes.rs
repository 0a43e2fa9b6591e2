//! A service nobody would replicate by hand: small notes with versions, a token, and bad habits on demand.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

use super::stub::{Asked, Stub};

/// How the service is, and what it was asked.
#[derive(Default)]
pub(crate) struct State {
    notes: BTreeMap<u64, (u64, Value)>,
    next: u64,
    /// What `Authorization` has to be.
    pub(crate) token: Option<String>,
    /// Creates are answered 204, and nobody is told what was made.
    pub(crate) names_no_id: bool,
    /// Nobody's rights are good enough for a change.
    pub(crate) frozen: bool,
    /// Notes show a `_rev` that begins so, and a change has to name it.
    pub(crate) revisions: Option<&'static str>,
    /// There is no list of notes.
    pub(crate) hides_list: bool,
    /// Heads of requests, in order.
    pub(crate) heads: Vec<String>,
}

/// The running service; it ends with the value.
pub(crate) struct Notes {
    stub: Stub,
    state: Arc<Mutex<State>>,
}

struct Reply {
    status: u16,
    headers: String,
    body: String,
}

impl Notes {
    pub(crate) async fn start() -> Notes {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let stub = Stub::start(move |asked, permits| serve(shared.clone(), asked, permits)).await;
        Notes { stub, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.stub.address
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Every note.
    pub(crate) fn all(&self) -> Vec<Value> {
        self.state()
            .notes
            .values()
            .map(|(_, note)| note.clone())
            .collect()
    }

    /// Lets a watch show everything once more.
    pub(crate) fn release(&self) {
        self.stub.release();
    }
}

async fn serve(state: Arc<Mutex<State>>, mut asked: Asked, permits: Arc<Semaphore>) {
    let length = asked
        .header("content-length")
        .and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    if asked.stream.read_exact(&mut body).await.is_err() {
        return;
    }
    if asked.head.contains("watch=1") {
        return watch(&state, &mut asked, &permits).await;
    }
    let reply = state.lock().unwrap().answer(&asked, &body);
    let text = format!(
        "HTTP/1.1 {} Said\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{}\r\n{}",
        reply.status,
        reply.body.len(),
        reply.headers,
        reply.body
    );
    let _ = asked.stream.write_all(text.as_bytes()).await;
}

/// Everything as it is, a document each, and again whenever it is let.
async fn watch(state: &Mutex<State>, asked: &mut Asked, permits: &Semaphore) {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let _ = asked.stream.write_all(head.as_bytes()).await;
    loop {
        let all: Vec<Value> = {
            let state = state.lock().unwrap();
            state.notes.values().map(|(_, note)| note.clone()).collect()
        };
        for note in all {
            let line = format!("{note}\n");
            let chunk = format!("{:x}\r\n{line}\r\n", line.len());
            if asked.stream.write_all(chunk.as_bytes()).await.is_err() {
                return;
            }
        }
        permits.acquire().await.unwrap().forget();
    }
}

impl State {
    fn answer(&mut self, asked: &Asked, body: &[u8]) -> Reply {
        self.heads.push(asked.head.clone());
        let refuse = |status| Reply {
            status,
            headers: String::new(),
            body: json!({ "error": status }).to_string(),
        };
        if self
            .token
            .as_deref()
            .is_some_and(|token| asked.header("authorization") != Some(token))
        {
            return refuse(401);
        }
        let mut words = asked.head.split_whitespace();
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let path = path.split('?').next().unwrap();
        let id = path.strip_prefix("/notes/").and_then(|id| id.parse().ok());
        let written: Value = serde_json::from_slice(body).unwrap_or_default();
        match (method, id) {
            ("POST", None) if path == "/notes" => self.create(written),
            ("GET", None) if path == "/notes" && !self.hides_list => {
                let all: Vec<&Value> = self.notes.values().map(|(_, note)| note).collect();
                Reply {
                    status: 200,
                    headers: String::new(),
                    body: json!({ "notes": all }).to_string(),
                }
            }
            ("GET", Some(id)) if self.notes.contains_key(&id) => self.show(id, 200),
            ("PATCH", Some(_)) if self.frozen => refuse(401),
            ("PATCH", Some(id)) if self.notes.contains_key(&id) => {
                let revision = self.revision(self.notes[&id].0);
                if revision.is_some_and(|revision| written["_rev"] != revision) {
                    return refuse(409);
                }
                let (version, note) = self.notes.get_mut(&id).unwrap();
                *version += 1;
                let written = written.as_object().into_iter().flatten();
                for (name, value) in written.filter(|(name, _)| *name != "_rev") {
                    note[name] = value.clone();
                }
                self.show(id, 200)
            }
            ("DELETE", Some(id)) if self.notes.remove(&id).is_some() => Reply {
                status: 204,
                headers: String::new(),
                body: String::new(),
            },
            _ => refuse(404),
        }
    }

    fn create(&mut self, mut note: Value) -> Reply {
        self.next += 1;
        let id = self.next;
        note["id"] = json!(id);
        self.notes.insert(id, (1, note));
        match self.names_no_id {
            true => Reply {
                status: 204,
                headers: String::new(),
                body: String::new(),
            },
            false => self.show(id, 201),
        }
    }

    fn show(&self, id: u64, status: u16) -> Reply {
        let (version, note) = &self.notes[&id];
        let mut note = note.clone();
        if let Some(revision) = self.revision(*version) {
            note["_rev"] = json!(revision);
        }
        Reply {
            status,
            headers: format!("ETag: \"{id}-{version}\"\r\n"),
            body: note.to_string(),
        }
    }

    fn revision(&self, version: u64) -> Option<String> {
        Some(format!("{}{version}", self.revisions?))
    }
}
