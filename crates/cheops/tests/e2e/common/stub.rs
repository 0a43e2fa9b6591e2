//! Services that misbehave as told, on a free port.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::client::try_ask;

/// A service; it ends with the value.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    /// How many requests it has seen the head of.
    seen: Arc<AtomicUsize>,
    /// How many answers it may give.
    permits: Arc<Semaphore>,
    _tasks: JoinSet<()>,
}

/// A request's head, and the connection to answer on.
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) stream: TcpStream,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut same = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        same.next().map(|(_, value)| value.trim())
    }
}

impl Stub {
    pub(crate) fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }

    /// How many answers it may give now.
    pub(crate) fn released(&self) -> usize {
        self.permits.available_permits()
    }

    /// Lets one held answer go.
    pub(crate) fn release(&self) {
        self.permits.add_permits(1);
    }

    /// Does with each request whatever `each` does.
    pub(crate) async fn start<F: Future<Output = ()> + Send + 'static>(
        each: impl Fn(Asked, Arc<Semaphore>) -> F + Send + Sync + 'static,
    ) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, permits) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (count, allowed) = (seen.clone(), permits.clone());
        let each = Arc::new(each);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (each, count, allowed) = (each.clone(), count.clone(), allowed.clone());
                connections.spawn(async move {
                    if let Some(asked) = read_head(stream).await {
                        count.fetch_add(1, Ordering::SeqCst);
                        each(asked, allowed).await;
                    }
                });
            }
        });
        Stub {
            address,
            seen,
            permits,
            _tasks: tasks,
        }
    }

    /// Takes requests and never answers.
    pub(crate) async fn silent() -> Stub {
        Stub::start(|asked, _| async move {
            let _open = asked;
            std::future::pending::<()>().await;
        })
        .await
    }

    /// Takes a request and hangs up.
    pub(crate) async fn hanging_up() -> Stub {
        Stub::start(|asked, _| async move { drop(asked) }).await
    }

    /// Answers 200 `held` when released.
    pub(crate) async fn held() -> Stub {
        Stub::start(|mut asked, permits| async move {
            permits.acquire().await.unwrap().forget();
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nheld";
            let _ = asked.stream.write_all(answer.as_bytes()).await;
        })
        .await
    }

    /// Answers that, whatever is asked, before it reads any body, and reads none.
    pub(crate) async fn saying(answer: &'static str) -> Stub {
        Stub::start(move |mut asked, _| async move {
            let _ = asked.stream.write_all(answer.as_bytes()).await;
            std::future::pending::<()>().await;
        })
        .await
    }

    /// Leaves HTTP when asked to, and then says whatever it is told.
    pub(crate) async fn echoing() -> Stub {
        Stub::start(|mut asked, _| async move {
            let protocol = asked.header("upgrade").unwrap_or("none").to_owned();
            let head = format!(
                "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\nX-Agreed: yes\r\n\r\n"
            );
            let _ = asked.stream.write_all(head.as_bytes()).await;
            let (mut read, mut write) = asked.stream.split();
            let _ = tokio::io::copy(&mut read, &mut write).await;
        })
        .await
    }

    /// Answers that after so many bytes of a body.
    pub(crate) async fn saying_after(bytes: usize, answer: &'static str) -> Stub {
        Stub::start(move |mut asked, _| async move {
            let mut body = vec![0; bytes];
            let _ = asked.stream.read_exact(&mut body).await;
            let _ = asked.stream.write_all(answer.as_bytes()).await;
            std::future::pending::<()>().await;
        })
        .await
    }

    /// Calls `target` in turn, passing on `X-Request-Id` alone, and answers what that answers.
    pub(crate) async fn calling(target: SocketAddr) -> Stub {
        Stub::start(move |mut asked, _| async move {
            let id = asked.header("x-request-id").unwrap_or_default().to_owned();
            let answer = try_ask(target, "GET", "/", &[("X-Request-Id", &id)], b"").await;
            let (status, body) = match answer {
                Ok(answer) => (answer.status, answer.body),
                Err(fault) => (599, fault.into_bytes()),
            };
            let head = format!(
                "HTTP/1.1 {status} Said\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = asked.stream.write_all(head.as_bytes()).await;
            let _ = asked.stream.write_all(&body).await;
        })
        .await
    }
}

async fn read_head(mut stream: TcpStream) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    Some(Asked { head, stream })
}
