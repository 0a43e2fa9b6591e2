//! Long plain answers, which pass through pipes of the kernel: whole, in order, and no further than
//! either end goes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::common::client::Connection;
use crate::common::eventually;
use crate::common::mesh::Mesh;
use crate::common::setup::Setup;
use crate::tls;

/// Half of it is more than sockets hold for a client that reads nothing.
const LONG: usize = 12 << 20;

/// What the socket of a client holds that does not read to the end.
const ROOM: u32 = 64 << 10;

/// Pipes of one agent that may be in use: sixteen for each of two threads.
const PIPES_MAX: usize = 2 * 16;

/// A service that keeps its connections. `/whole/5` is answered with five bytes that belong to that path;
/// of `/half/5` two come and the connection ends, of `/part/5` two come and no more.
struct Source {
    address: SocketAddr,
    told: Arc<Told>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Told {
    asked: AtomicUsize,
    ended: AtomicUsize,
    written: AtomicUsize,
}

impl Source {
    async fn start() -> Source {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let told = Arc::<Told>::default();
        let tells = told.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let tells = tells.clone();
                open.spawn(async move {
                    let mut stream = BufReader::new(stream);
                    // The agent looks now and then whether it is there, and asks nothing.
                    if stream.fill_buf().await.is_ok_and(|bytes| !bytes.is_empty()) {
                        tells.asked.fetch_add(1, Ordering::SeqCst);
                        let _ = pour(stream, &tells).await;
                        tells.ended.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        Source {
            address,
            told,
            _tasks: tasks,
        }
    }

    /// Connections on which something was asked, and those of them that have ended.
    fn connections(&self) -> (usize, usize) {
        let count = |number: &AtomicUsize| number.load(Ordering::SeqCst);
        (count(&self.told.asked), count(&self.told.ended))
    }

    /// Waits until nobody takes more of what was asked for.
    async fn held_up(&self) {
        let mut before = 0;
        eventually("the service is held up", || {
            let now = self.told.written.load(Ordering::SeqCst);
            let same = now > 0 && std::mem::replace(&mut before, now) == now;
            async move { same.then_some(()) }
        })
        .await;
    }
}

async fn pour(mut stream: BufReader<TcpStream>, told: &Told) -> std::io::Result<()> {
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let body = body(path);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await?;
        let comes = match path.starts_with("/whole/") {
            true => body.len(),
            false => body.len() / 2,
        };
        // Pieces that fit no page.
        for piece in body[..comes].chunks(100_003) {
            stream.write_all(piece).await?;
            told.written.fetch_add(piece.len(), Ordering::SeqCst);
        }
        if path.starts_with("/half/") {
            return Ok(());
        }
    }
}

/// What belongs to a path.
fn body(path: &str) -> Vec<u8> {
    let length = path.rsplit('/').next().and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap()];
    let mut bytes = blake3::Hasher::new();
    bytes.update(path.as_bytes()).finalize_xof().fill(&mut body);
    body
}

fn is_of(path: &str, heard: &[u8]) -> bool {
    blake3::hash(heard) == blake3::hash(&body(path))
}

async fn start() -> (Mesh, Source) {
    let source = Source::start().await;
    let setup = Setup {
        image: "propagate = []".to_owned(),
        ..Setup::of(1)
    };
    let mesh = setup.image_at(1, source.address).start().await;
    (mesh, source)
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

async fn asking(mesh: &Mesh, path: &str) -> Connection {
    let mut client = Connection::open(mesh.site(1).image).await;
    client.write(request(path).as_bytes()).await;
    client
}

#[tokio::test]
async fn long_answers_come_through_byte_for_byte_one_after_another() {
    let (mesh, source) = start().await;
    let pipes_before = mesh.agent(1).pipes();
    let mut client = Connection::open(mesh.site(1).image).await;
    for bytes in [
        5,
        (128 << 10) - 1,
        (192 << 10) - 200,
        200 << 10,
        (1 << 20) + 1,
        7,
        LONG,
        LONG + 65_537,
        0,
    ] {
        let path = format!("/whole/{bytes}");
        client.write(request(&path).as_bytes()).await;
        let heard = client.answer("GET").await.unwrap();
        assert_eq!(heard.header("x-cheops-served-by"), "site1");
        assert!(is_of(&path, &heard.body), "{path}");
    }
    assert_eq!(source.connections(), (1, 0), "one connection did for all");
    assert!(mesh.agent(1).pipes() > pipes_before, "no pipe was used");
}

#[tokio::test]
async fn what_is_asked_at_once_is_answered_in_order_also_if_it_is_long() {
    let (mesh, _source) = start().await;
    let mut client = Connection::open(mesh.site(1).image).await;
    let paths = [LONG, 3, 300 << 10, LONG + 1].map(|bytes| format!("/whole/{bytes}"));
    let all = paths.each_ref().map(|path| request(path));
    client.write(all.concat().as_bytes()).await;
    for path in paths {
        assert!(is_of(&path, &client.answer("GET").await.unwrap().body));
    }
}

#[tokio::test]
async fn slow_readers_get_all_of_it_also_where_no_pipe_is_left() {
    let (mesh, source) = start().await;
    let pipes_before = mesh.agent(1).pipes();
    let mut readers = Vec::new();
    for number in 0..PIPES_MAX + 8 {
        let path = format!("/whole/{}", LONG / 2 + number);
        readers.push((asking(&mesh, &path).await, path));
    }
    source.held_up().await;
    let pipes = mesh.agent(1).pipes() - pipes_before;
    assert!((1..=2 * PIPES_MAX).contains(&pipes), "{pipes} ends");
    let mut reading = JoinSet::new();
    for (mut client, path) in readers {
        reading.spawn(async move {
            let heard = client.answer("GET").await.unwrap();
            assert!(is_of(&path, &heard.body), "{path}");
            client.write(request("/whole/9").as_bytes()).await;
            let next = client.answer("GET").await.unwrap();
            assert!(is_of("/whole/9", &next.body), "after {path}");
        });
    }
    reading.join_all().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_half_way_ends_the_connection_to_the_service() {
    let (mesh, source) = start().await;
    for (ended, path) in [(1, format!("/whole/{LONG}")), (2, format!("/part/{LONG}"))] {
        // Else its socket could take all of it, and the connection to the service would rightly be kept.
        let mut client = Connection::with_room(mesh.site(1).image, ROOM).await;
        client.write(request(&path).as_bytes()).await;
        assert_eq!(client.answer_head().await.unwrap().status, 200);
        client.exactly(LONG / 3).await.unwrap();
        drop(client);
        eventually("the service is left", || async {
            let seen = source.connections();
            assert!(seen.1 <= ended, "{path}: {seen:?}");
            (seen.1 == ended).then_some(())
        })
        .await;
    }
    // What they left in pipes is in no other answer.
    let mut client = asking(&mesh, &format!("/whole/{LONG}")).await;
    let heard = client.answer("GET").await.unwrap();
    assert!(is_of(&format!("/whole/{LONG}"), &heard.body));
}

#[tokio::test]
async fn a_service_that_breaks_off_half_way_breaks_the_answer() {
    let (mesh, source) = start().await;
    for round in 1..=3 {
        let path = format!("/half/{}", LONG + round);
        let mut client = asking(&mesh, &path).await;
        assert_eq!(client.answer_head().await.unwrap().status, 200);
        let came = client.exactly((LONG + round) / 2).await.unwrap();
        assert!(came == body(&path)[..came.len()], "what came is right");
        assert!(client.exactly(1).await.is_err(), "and then it ends");
        assert_eq!(source.connections(), (round, round));
    }
}

#[tokio::test]
async fn a_long_answer_over_tls_is_what_it_is_without() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::start().await;
    let setup = Setup {
        image: format!("propagate = []\n{}", tls::certificate(folder.path())),
        ..Setup::of(1)
    };
    let mesh = setup.image_at(1, source.address).start().await;
    let authority = folder.path().join("ca.pem");
    let stream = tls::connect(mesh.site(1).image, &authority, &[b"http/1.1"]).await;
    let mut client = BufReader::new(stream);
    for bytes in [LONG, 5, LONG + 1] {
        let path = format!("/whole/{bytes}");
        client.write_all(request(&path).as_bytes()).await.unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = client.read_line(&mut head).await;
            assert!(read.is_ok_and(|read| read > 0), "{path}: {head}");
        }
        let mut heard = vec![0; bytes];
        client.read_exact(&mut heard).await.unwrap();
        assert!(is_of(&path, &heard), "{path}");
    }
}
