//! Ordinary requests of this site, passed on as bytes: what the service sees of them, and that an
//! answer of any kind comes through, once and whole.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::common::client::{Answer, Connection};
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::common::stub::Stub;

/// A service that keeps its connections, and answers each path in a way of its own.
struct Player {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    opened: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Player {
    async fn start() -> Player {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heads, opened) = (Arc::<Mutex<_>>::default(), Arc::new(AtomicUsize::new(0)));
        let (written, count) = (heads.clone(), opened.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let written = written.clone();
                open.spawn(async move { play(stream, &written).await });
            }
        });
        Player {
            address,
            heads,
            opened,
            _tasks: tasks,
        }
    }

    /// How often a path was asked for.
    fn asked(&self, path: &str) -> usize {
        let heads = self.heads.lock().unwrap();
        let line = format!(" {path} HTTP/1.1\r\n");
        heads.iter().filter(|head| head.contains(&line)).count()
    }

    fn last_head(&self) -> String {
        self.heads.lock().unwrap().last().cloned().unwrap()
    }

    /// Connections so far.
    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }
}

async fn play(stream: TcpStream, heads: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        heads.lock().unwrap().push(head.clone());
        let path = head.split(' ').nth(1).unwrap_or_default();
        let parts: &[&str] = match path {
            "/chunked" => &[
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "3\r\nabc\r\n2 \r\nde\r\n0\r\n\r\n",
            ],
            "/closing" => &["HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\n", "abcde"],
            "/old" => &["HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nabcde"],
            "/hints" => &[
                "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
            ],
            "/split" => &["HTTP/1.1 200 OK\r\nContent-", "Length: 5\r\n\r\nabcde"],
            "/feeds" => &["HTTP/1.1 200 OK\nContent-Length: 5\n\nabcde"],
            "/named" => &[
                "HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Cheops-Served-By: me\r\nContent-Length: 5\r\n\r\nabcde",
            ],
            "/parts" => &["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "c", "de"],
            "/surplus" => &[
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcdeHTTP/1.1 418 Smuggled\r\nContent-Length: 0\r\n\r\n",
            ],
            "/short" => &["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcde"],
            "/nothing" => &["HTTP/1.1 204 No Content\r\n\r\n"],
            "/same" => &["HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"],
            "/goodbye" => {
                &["HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde"]
            }
            "/hangup" => &[],
            _ => &["HTTP/1.1 200 Fine\r\nX-Kept: Yes\r\nContent-Length: 5\r\n\r\nabcde"],
        };
        for part in parts {
            stream.write_all(part.as_bytes()).await?;
            stream.flush().await?;
            tokio::task::yield_now().await;
        }
        if matches!(
            path,
            "/closing" | "/old" | "/short" | "/goodbye" | "/hangup"
        ) {
            return Ok(());
        }
    }
}

async fn start() -> (Mesh, Player) {
    let player = Player::start().await;
    let setup = Setup {
        image: "propagate = []".to_owned(),
        ..Setup::of(1)
    };
    let mesh = setup.image_at(1, player.address).start().await;
    (mesh, player)
}

async fn ask(connection: &mut Connection, method: &str, path: &str) -> Result<Answer, String> {
    let line = format!("{method} {path} HTTP/1.1");
    connection.head(&line, &[("Host", "app.example")]).await;
    connection.answer(method).await
}

#[tokio::test]
async fn an_answer_of_any_kind_comes_through_and_the_service_is_asked_once() {
    for path in [
        "/plain", "/parts", "/chunked", "/closing", "/old", "/hints", "/split", "/feeds", "/named",
        "/surplus", "/goodbye",
    ] {
        // An agent that has not seen how this service answers.
        let (mesh, player) = start().await;
        let mut client = Connection::open(mesh.site(1).image).await;
        for round in 1..=2 {
            let answer = ask(&mut client, "GET", path).await.unwrap();
            let told = (answer.status, answer.body.as_slice());
            assert_eq!(told, (200, &b"abcde"[..]), "{path}");
            assert_eq!(answer.all("x-cheops-served-by"), ["site1"], "{path}");
            assert_eq!(answer.all("via"), ["1.1 site1"], "{path}");
            assert_eq!(answer.all("date").len(), 1, "{path}");
            assert!(answer.header("server-timing").starts_with("agent;desc="));
            assert_eq!(answer.all("x-hop"), [""; 0], "{path}");
            assert_eq!(player.asked(path), round, "{path}");
        }
        let answer = ask(&mut client, "GET", "/plain").await.unwrap();
        assert_eq!((answer.status, answer.header("x-kept")), (200, "Yes"));
    }
    let (mesh, _player) = start().await;
    for (path, status) in [("/nothing", 204), ("/same", 304)] {
        let mut client = Connection::open(mesh.site(1).image).await;
        for _ in 0..2 {
            assert_eq!(ask(&mut client, "GET", path).await.unwrap().status, status);
        }
    }
}

#[tokio::test]
async fn a_service_that_hangs_up_is_asked_once_and_half_an_answer_is_no_answer() {
    let (mesh, player) = start().await;
    for (method, status, code) in [
        ("GET", 502, "service-failed"),
        ("DELETE", 504, "outcome-unknown"),
    ] {
        let mut client = Connection::open(mesh.site(1).image).await;
        ask(&mut client, "GET", "/plain").await.unwrap();
        let before = player.asked("/hangup");
        let answer = ask(&mut client, method, "/hangup").await.unwrap();
        assert_eq!((answer.status, answer.problem()), (status, code.to_owned()));
        assert_eq!(player.asked("/hangup"), before + 1);
        let answer = ask(&mut client, "GET", "/plain").await.unwrap();
        assert_eq!(answer.status, 200, "the connection goes on");
    }
    let mut client = Connection::open(mesh.site(1).image).await;
    let broken = ask(&mut client, "GET", "/short").await;
    assert!(broken.is_err(), "{:?}", broken.map(|answer| answer.status));
    assert_eq!(player.asked("/short"), 1);
}

#[tokio::test]
async fn what_a_client_sends_at_once_is_answered_in_order() {
    let (mesh, player) = start().await;
    let mut client = Connection::open(mesh.site(1).image).await;
    let one = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let put = "PUT /put HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz";
    let all = [
        one("/plain"),
        one("/nothing"),
        put.to_owned(),
        one("/chunked"),
        one("/same"),
    ];
    client.write(all.concat().as_bytes()).await;
    for status in [200, 204, 200, 200, 304] {
        assert_eq!(client.answer("GET").await.unwrap().status, status);
    }
    assert_eq!(player.asked("/plain"), 1);
    // Its second half is refused, and its first is not lost.
    let mut client = Connection::open(mesh.site(1).image).await;
    let bad = format!("{}GET /bad HTTP/1.1\nHost: a\r\n\r\n", one("/plain"));
    client.write(bad.as_bytes()).await;
    assert_eq!(client.answer("GET").await.unwrap().status, 200);
    assert_eq!(client.answer("GET").await.unwrap().status, 400);
    assert_eq!(player.asked("/bad"), 0);
}

#[tokio::test]
async fn the_service_sees_the_request_and_what_the_agent_adds() {
    let (mesh, player) = start().await;
    let mut client = Connection::open(mesh.site(1).image).await;
    let headers = [
        ("Host", "app.example"),
        ("X-Scope", "image: site1"),
        ("Connection", "keep-alive"),
        ("X-MiXed", "a  b"),
    ];
    client.head("GET /a%2Fb?c=d HTTP/1.1", &headers).await;
    assert_eq!(client.answer("GET").await.unwrap().status, 200);
    assert_eq!(
        player.last_head(),
        "GET /a%2Fb?c=d HTTP/1.1\r\nHost: app.example\r\nX-MiXed: a  b\r\n\
         forwarded: for=127.0.0.1;proto=http\r\nvia: 1.1 site1\r\n\r\n"
    );
    let elsewhere = [("Host", "a"), ("X-Scope", "image: nowhere")];
    client.head("GET /refused HTTP/1.1", &elsewhere).await;
    assert_eq!(client.answer("GET").await.unwrap().status, 400);
    assert_eq!(player.asked("/refused"), 0);
}

#[tokio::test]
async fn connections_to_the_service_are_used_again_unless_it_ends_them() {
    let (mesh, player) = start().await;
    let mut client = Connection::open(mesh.site(1).image).await;
    ask(&mut client, "GET", "/plain").await.unwrap();
    let opened = player.opened();
    for _ in 0..20 {
        ask(&mut client, "GET", "/plain").await.unwrap();
    }
    assert_eq!(player.opened(), opened);
    for _ in 0..3 {
        ask(&mut client, "GET", "/goodbye").await.unwrap();
        ask(&mut client, "GET", "/plain").await.unwrap();
    }
    assert_eq!(player.opened(), opened + 3);
}

#[tokio::test]
async fn a_client_that_goes_away_is_not_waited_for() {
    let stub = Stub::start(|mut asked, permits| async move {
        // Ends when the agent hangs up.
        let _ = asked.stream.read(&mut [0; 64]).await;
        permits.add_permits(1);
    })
    .await;
    let mesh = Setup::of(1).image_at(1, stub.address).start().await;
    let mut client = Connection::open(mesh.site(1).image).await;
    client.head("GET /x HTTP/1.1", &[("Host", "a")]).await;
    eventually("the service is asked", || async {
        (stub.seen() == 1).then_some(())
    })
    .await;
    drop(client);
    eventually("the service is left", || async {
        (stub.released() == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn told_to_stop_an_agent_still_passes_on_the_answer_that_was_waited_for() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    ] {
        let stub = Stub::start(move |mut asked, permits| async move {
            permits.acquire().await.unwrap().forget();
            let _ = asked.stream.write_all(answer.as_bytes()).await;
            std::future::pending::<()>().await;
        })
        .await;
        let mut mesh = Setup::of(1).image_at(1, stub.address).start().await;
        let image = mesh.site(1).image;
        let mut client = Connection::open(image).await;
        client.head("GET /x HTTP/1.1", &[("Host", "a")]).await;
        eventually("it is asked", || async { (stub.seen() == 1).then_some(()) }).await;
        let agent = mesh.take_agent(1);
        agent.terminate().await;
        let refuses = || async { TcpStream::connect(image).await.err() };
        eventually("no client is let in any more", refuses).await;
        stub.release();
        let heard = client.answer("GET").await.unwrap();
        assert_eq!(
            (
                heard.status,
                heard.body.as_slice(),
                heard.header("connection")
            ),
            (200, &b"abcde"[..], "close")
        );
        assert!(agent.ended().await);
    }
}
