//! A service that has replicants, asked for something else: what names none passes as bytes, what names one shows the id that
//! clients know, however it comes, and the service is asked once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use cheops_samples::IdForm;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

use crate::common::client::{Connection, spell};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::common::stub::{Asked, Stub};
use crate::replicas::{at, create};

/// A service that says what it is told to.
struct Player {
    stub: Stub,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// For what is created next, as JSON.
    ids: Vec<String>,
    /// By target, in pieces: each but the first waits until it is let.
    answers: BTreeMap<String, Vec<String>>,
    /// Heads and bodies of requests, in order.
    seen: Vec<String>,
}

async fn play(state: Arc<Mutex<State>>, mut asked: Asked, permits: Arc<Semaphore>) {
    let length = asked
        .header("content-length")
        .and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    if asked.stream.read_exact(&mut body).await.is_err() {
        return;
    }
    let pieces = state.lock().unwrap().answer(&asked, &body);
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 {
            permits.acquire().await.unwrap().forget();
        }
        if asked.stream.write_all(piece.as_bytes()).await.is_err() {
            return;
        }
    }
}

impl State {
    fn answer(&mut self, asked: &Asked, body: &[u8]) -> Vec<String> {
        let body = String::from_utf8_lossy(body);
        self.seen.push(format!("{}{body}", asked.head));
        let mut words = asked.head.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        if let Some(pieces) = self.answers.get(target) {
            return pieces.clone();
        }
        match method {
            "POST" => {
                let id = self.ids.remove(0);
                let rest = body.strip_prefix('{').unwrap();
                vec![said("201 Made", "", &format!("{{\"id\":{id},{rest}"))]
            }
            _ => vec![said("404 None", "", "{}")],
        }
    }
}

/// A plain answer. The way it took shows in how a header's name is written.
fn said(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         X-Kept: Yes\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

impl Player {
    async fn start() -> Player {
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        let stub = Stub::start(move |asked, permits| play(shared.clone(), asked, permits)).await;
        Player { stub, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn will_say(&self, target: &str, pieces: &[&str]) {
        let pieces = pieces.iter().map(|piece| (*piece).to_owned()).collect();
        self.state().answers.insert(target.to_owned(), pieces);
    }

    /// The requests for a target.
    fn asked(&self, target: &str) -> Vec<String> {
        let line = format!(" {target} HTTP/1.1\r\n");
        let seen = self.state().seen.clone();
        seen.into_iter().filter(|one| one.contains(&line)).collect()
    }

    async fn wait_asked(&self, target: &str) {
        eventually("the service is asked", || async {
            (!self.asked(target).is_empty()).then_some(())
        })
        .await;
    }
}

/// An answer, and which way it took.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Short(String),
    Library(String),
    Refused(String),
}

async fn send(client: &mut Connection, method: &str, target: &str, body: &str) {
    let line = format!("{method} {target} HTTP/1.1");
    let length = body.len().to_string();
    let mut headers = vec![
        ("Host", "a"),
        ("Accept-Encoding", "gzip"),
        ("accept-encoding", "br"),
    ];
    if !body.is_empty() {
        headers.extend([
            ("Content-Type", "application/json"),
            ("Content-Length", &*length),
        ]);
    }
    // At once: what comes in two pieces may go by the library.
    let request = [spell(&line, &headers), body.as_bytes().to_vec()].concat();
    client.write(&request).await;
}

/// The answer with its headers that are not the agent's.
async fn hear(client: &mut Connection, method: &str) -> Heard {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let line = client.line().await.unwrap();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = bytes.parse().unwrap();
        }
        head.push_str(&format!("{line}\n"));
    }
    if method == "HEAD" {
        length = 0;
    }
    let body = String::from_utf8(client.exactly(length).await.unwrap()).unwrap();
    let link = head
        .lines()
        .find(|line| line.to_ascii_lowercase().starts_with("link:"));
    let text = format!("{}{body}", link.map_or("", |link| &link[5..]).trim());
    match (head.contains("X-Kept: Yes"), head.contains("x-kept: Yes")) {
        (true, _) => Heard::Short(text),
        (_, true) => Heard::Library(text),
        _ => Heard::Refused(head.lines().next().unwrap_or_default().to_owned()),
    }
}

async fn start(ids: IdForm, first: &str, second: &str) -> (Mesh, Player) {
    let player = Player::start().await;
    player.state().ids = vec![first.to_owned(), second.to_owned()];
    let mut setup = Setup::of(2);
    setup.ids = ids;
    let mesh = setup.image_at(1, player.stub.address).start().await;
    (mesh, player)
}

const UUIDS: [&str; 3] = [
    "\"0b6f8a52-7f0e-4a53-9f3e-0c1f3a9b2d11\"",
    "\"1c7a9b63-7f0e-4a53-9f3e-0c1f3a9b2d22\"",
    "\"2d8bac74-7f0e-4a53-9f3e-0c1f3a9b2d33\"",
];

#[tokio::test]
async fn what_names_a_replicant_shows_the_id_of_clients_and_nothing_else_changes_with_uuids() {
    check(IdForm::Uuid, UUIDS).await;
}

#[tokio::test]
async fn what_names_a_replicant_shows_the_id_of_clients_and_nothing_else_changes_with_integers() {
    check(IdForm::Integer, ["7", "8", "900"]).await;
}

async fn check(form: IdForm, [id, second, other]: [&str; 3]) {
    let (mesh, player) = start(form, id, second).await;
    let mut client = Connection::open(mesh.site(1).image).await;
    // Before there is any replicant.
    let own = format!("{{ \"id\":{other}, \"size\": 42, \"b\\u00e9\": \"a\\n%20\" }}");
    player.will_say("/images/own", &[&said("200 Fine", "", &own)]);
    send(&mut client, "GET", "/images/own", "").await;
    assert_eq!(hear(&mut client, "GET").await, Heard::Short(own.clone()));
    assert!(player.asked("/images/own")[0].contains("gzip"));

    let (meta, _) = create(&mesh, 1, "debian").await;
    let (bare, shown) = (
        id.trim_matches('"'),
        id.replace(id.trim_matches('"'), &meta),
    );
    let list = |id: &str, bare: &str| {
        format!(
            "{{\"images\": [{{\"id\":{other}}} , {{\"id\":{id},\"size\":[7]}}],\
             \"links\":[\"http://h/images/{bare}?limit=1\",\"\\/images\\/{bare}\"]}}"
        )
    };
    let plain = |headers: &str, body: &str| said("200 Fine", headers, body);
    let link = |bare: &str| format!("Link: </images/{bare}>; rel=self\r\n");
    let text = format!(
        "HTTP/1.1 200 Fine\r\nX-Kept: Yes\r\nContent-Length: {}\r\n\r\n{bare}",
        bare.len()
    );
    let cases = [
        ("own again", plain("", &own), Heard::Short(own.clone())),
        (
            "list",
            plain("", &list(id, bare)),
            Heard::Short(list(&shown, &meta)),
        ),
        (
            "link",
            plain(&link(bare), "{}"),
            Heard::Short(format!("</images/{meta}>; rel=self{{}}")),
        ),
        ("text", text, Heard::Short(bare.to_owned())),
        (
            "no json",
            plain("", &format!("{{\"id\":{id}")),
            Heard::Short(format!("{{\"id\":{id}")),
        ),
        ("empty", plain("", ""), Heard::Short(String::new())),
        (
            "packed",
            plain("Content-Encoding: gzip\r\n", "x"),
            Heard::Refused("HTTP/1.1 502 Bad Gateway".to_owned()),
        ),
        ("own at last", plain("", &own), Heard::Short(own.clone())),
    ];
    for (name, says, heard) in cases {
        let target = format!("/images?name={}", name.replace(' ', "-"));
        player.will_say(&target, &[&says]);
        // What was refused may cost the connection.
        let mut client = Connection::open(mesh.site(1).image).await;
        send(&mut client, "GET", &target, "").await;
        assert_eq!(hear(&mut client, "GET").await, heard, "{name}");
        let asked = player.asked(&target);
        assert_eq!(asked.len(), 1, "{name}");
        let lower = asked[0].to_ascii_lowercase();
        let encodings: Vec<_> = lower
            .lines()
            .filter(|line| line.starts_with("accept-encoding"))
            .collect();
        assert_eq!(encodings, ["accept-encoding: identity"], "{name}");
    }

    in_pieces(
        &mesh,
        &player,
        &own,
        (&list(id, bare), &list(&shown, &meta)),
    )
    .await;
    requests(&mesh, &player, &own, (id, bare), (&shown, &meta)).await;

    // A replicant that comes between a request and its answer.
    let late = |id: &str| said("200 Fine", "", &format!("[{{\"id\":{id}}}]"));
    player.will_say("/images?late", &["", &late(second)]);
    send(&mut client, "GET", "/images?late", "").await;
    player.wait_asked("/images?late").await;
    let (meta, _) = create(&mesh, 1, "alpine").await;
    player.stub.release();
    let shown = second.replace(second.trim_matches('"'), &meta);
    let heard = Heard::Short(format!("[{{\"id\":{shown}}}]"));
    assert_eq!(hear(&mut client, "GET").await, heard);
}

/// Answers that do not come at once.
async fn in_pieces(mesh: &Mesh, player: &Player, own: &str, (list, shown): (&str, &str)) {
    let mut client = Connection::open(mesh.site(1).image).await;
    for (target, body, heard) in [
        ("/images?pieces=own", own, own),
        ("/images?pieces=list", list, shown),
    ] {
        let whole = said("200 Fine", "", body);
        let (head, rest) = whole.split_at(whole.len() - body.len() + 5);
        player.will_say(target, &[head, rest]);
        send(&mut client, "GET", target, "").await;
        player.wait_asked(target).await;
        player.stub.release();
        assert_eq!(
            hear(&mut client, "GET").await,
            Heard::Short(heard.to_owned())
        );
    }
    // Longer than what is held to be looked through.
    let pad = format!("\"{}\",", "x".repeat(60)).repeat(5_000);
    let (long, long_shown) = (format!("[{pad}{list}]"), format!("[{pad}{shown}]"));
    player.will_say("/images?long", &[&said("200 Fine", "", &long)]);
    send(&mut client, "GET", "/images?long", "").await;
    assert_eq!(hear(&mut client, "GET").await, Heard::Library(long_shown));
    assert_eq!(player.asked("/images?long").len(), 1);
    // It says nothing of how the service answers.
    let mut client = Connection::open(mesh.site(1).image).await;
    player.will_say("/images?after", &[&said("200 Fine", "", own)]);
    send(&mut client, "GET", "/images?after", "").await;
    assert_eq!(hear(&mut client, "GET").await, Heard::Short(own.to_owned()));
    // Half of one is none.
    let whole = said("200 Fine", "", own);
    player.will_say("/images?half", &[&whole[..whole.len() - 1]]);
    send(&mut client, "GET", "/images?half", "").await;
    let heard = Heard::Refused("HTTP/1.1 502 Bad Gateway".to_owned());
    assert_eq!(hear(&mut client, "GET").await, heard);
    assert_eq!(player.asked("/images?half").len(), 1);
}

/// Requests that name one, and those that do not.
async fn requests(
    mesh: &Mesh,
    player: &Player,
    own: &str,
    (id, bare): (&str, &str),
    (shown, meta): (&str, &str),
) {
    let says = said("200 Fine", "", own);
    let body = |id: &str| format!("{{\"image_id\":{id},\"tags\":[\"7\"]}}");
    let other = body("\"3e9cbd85-7f0e-4a53-9f3e-0c1f3a9b2d44\"");
    for (method, asked, seen, sent, got, short) in [
        (
            "PUT",
            "/images/own".to_owned(),
            "/images/own".to_owned(),
            other.clone(),
            other,
            true,
        ),
        (
            "PUT",
            "/images/own?2".to_owned(),
            "/images/own?2".to_owned(),
            body(shown),
            body(id),
            false,
        ),
        (
            "GET",
            format!("/images?id={meta}"),
            format!("/images?id={bare}"),
            String::new(),
            String::new(),
            false,
        ),
        (
            "HEAD",
            "/images?head".to_owned(),
            "/images?head".to_owned(),
            String::new(),
            String::new(),
            false,
        ),
    ] {
        player.will_say(&seen, &[&says]);
        let before = player.asked(&seen).len();
        let mut client = Connection::open(mesh.site(1).image).await;
        send(&mut client, method, &asked, &sent).await;
        let text = if method == "HEAD" { "" } else { own }.to_owned();
        let heard = match short {
            true => Heard::Short(text),
            false => Heard::Library(text),
        };
        assert_eq!(hear(&mut client, method).await, heard, "{method} {asked}");
        let all = player.asked(&seen);
        assert_eq!(all.len(), before + 1, "{method} {asked}");
        assert!(
            all[before].ends_with(&format!("\r\n\r\n{got}")),
            "{}",
            all[before]
        );
    }
    // The replicant itself is what it was.
    let read = at(
        mesh,
        1,
        "GET",
        &format!("/images/{meta}"),
        "",
        serde_json::Value::Null,
    )
    .await;
    assert_eq!(read.header("x-cheops-resource"), meta);
}
