//! The HTTP side that both services share: connections, the site header, health and memory of
//! requests.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::answer::{Answer, Refusal, json_answer};
use crate::seen::Seen;

/// The header of every answer that names the site which gave it.
pub const SITE_HEADER: &str = "x-sample-site";

/// What a service does with a request that is its own business.
pub(crate) trait Service: Send + Sync + 'static {
    /// `HEAD` comes in as `GET`; the body is left out later.
    fn answer(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Answer, Refusal>> + Send;
}

struct Front<S> {
    site: HeaderValue,
    seen: Seen,
    service: S,
}

/// Serves until an error of the listener; dropping the future ends every connection.
pub(crate) async fn serve<S: Service>(
    listener: TcpListener,
    site: &str,
    service: S,
) -> io::Result<()> {
    let site = HeaderValue::from_str(site)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "site name unfit for a header"))?;
    let front = Arc::new(Front {
        site,
        seen: Seen::default(),
        service,
    });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(front.clone().converse(stream))),
                Err(fault) if fault.kind() == io::ErrorKind::ConnectionAborted => (),
                Err(fault) => return Err(fault),
            },
            Some(_) = connections.join_next() => (),
        }
    }
}

impl<S: Service> Front<S> {
    async fn converse(self: Arc<Self>, stream: TcpStream) {
        // Latency only: without it the service works as well.
        let _ = stream.set_nodelay(true);
        let service = service_fn(move |request| {
            let front = self.clone();
            async move { Ok::<_, Infallible>(front.answer(request).await) }
        });
        // A connection that ends in an error is the peer's loss; the service goes on.
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let mut answer = match request.uri().path() {
            "/healthz" => json_answer(StatusCode::OK, &json!({ "status": "ok" })),
            "/debug/seen" => json_answer(StatusCode::OK, &self.seen.to_json()),
            _ => self.pass_on(request).await,
        };
        answer.headers_mut().insert(SITE_HEADER, self.site.clone());
        answer
    }

    async fn pass_on(&self, mut request: Request<Incoming>) -> Answer {
        self.seen.record(&request);
        if request.method() == Method::HEAD {
            *request.method_mut() = Method::GET;
        }
        self.service
            .answer(request)
            .await
            .unwrap_or_else(Refusal::into_answer)
    }
}

/// The parts of a path: `/images/7/file` is `images`, `7`, `file`.
pub(crate) fn segments(path: &str) -> Vec<&str> {
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .collect()
}

/// The value of a query parameter, decoded.
pub(crate) fn query_value<B>(request: &Request<B>, name: &str) -> Option<String> {
    let query = request.uri().query()?;
    form_urlencoded::parse(query.as_bytes())
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}
