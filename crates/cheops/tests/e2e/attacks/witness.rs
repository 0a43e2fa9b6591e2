//! A service that writes down every byte it is sent, and answers 200 to every head and body it can
//! tell.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The service; it ends with the value.
pub(super) struct Witness {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<u8>>>,
    _tasks: JoinSet<()>,
}

impl Witness {
    pub(super) async fn start() -> Witness {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let written = seen.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, written.clone()));
            }
        });
        Witness {
            address,
            seen,
            _tasks: tasks,
        }
    }

    /// Every byte so far, of all connections.
    pub(super) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// How many requests that looks like to a service.
    pub(super) fn requests(&self) -> usize {
        self.seen().matches(" HTTP/1.1\r\n").count()
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<u8>>>) {
    let mut own = Vec::new();
    let mut answered = 0;
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read) = stream.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        seen.lock().unwrap().extend_from_slice(&buffer[..read]);
        own.extend_from_slice(&buffer[..read]);
        let whole = whole_requests(&own);
        for _ in answered..whole {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
        answered = whole;
    }
}

/// How many requests have come whole, as a service would count them.
fn whole_requests(mut bytes: &[u8]) -> usize {
    let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|w| w == what);
    let mut count = 0;
    while let Some(end) = find(bytes, b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let rest = &bytes[end + 4..];
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|text| text.split("\r\n").next()?.parse().ok());
        let body = match length {
            Some(length) => length,
            None if head.contains("transfer-encoding: chunked") => match find(rest, b"0\r\n\r\n") {
                Some(at) => at + 5,
                None => return count,
            },
            None => 0,
        };
        let Some(next) = rest.get(body..) else {
            return count;
        };
        bytes = next;
        count += 1;
    }
    count
}
