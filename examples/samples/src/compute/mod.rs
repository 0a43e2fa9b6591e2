//! The compute service: it "boots" servers, for which it fetches an image from the image service.
//!
//! It reaches the image service by one URL and passes on nothing of a request but the headers it
//! was told to (`X-Request-Id`). With `?async=true` it answers first and fetches later, as real
//! computes do.

mod boot;
mod record;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use hyper::{Method, Request, StatusCode, Uri};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::answer::{Answer, Refusal, empty_answer, json_answer, read_object};
use crate::front::{self, Service, query_value, segments};
use crate::id::{IdForm, IdSource};
use crate::shelf::Shelf;
use boot::{Boot, ImageSource};
use record::{Order, Server, Status};

/// The header that is passed on unless told otherwise, and always given back.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// How many servers may wait to be built after their answer.
const BUILDS_MAX: usize = 1024;

/// How one compute service is run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name in `X-Sample-Site` and in `booted_at`.
    pub site: String,
    /// What ids look like.
    pub ids: IdForm,
    /// Where images are fetched: `http://host:port`, with a path or not.
    pub image_url: Uri,
    /// The headers of a request that go along to the image service.
    pub passed_on: Vec<HeaderName>,
}

impl Config {
    /// The usual settings: UUIDs, `X-Request-Id` passed on.
    pub fn new(site: impl Into<String>, image_url: Uri) -> Config {
        let passed_on = vec![HeaderName::from_static(REQUEST_ID_HEADER)];
        Config {
            site: site.into(),
            ids: IdForm::Uuid,
            image_url,
            passed_on,
        }
    }
}

/// Serves servers on `listener` until the future is dropped or the listener fails. Servers that
/// are being built are left so when it ends.
pub async fn serve(listener: TcpListener, config: Config) -> io::Result<()> {
    let images = ImageSource::new(&config.image_url)?;
    let servers = Arc::new(Mutex::new(Shelf::new()));
    let (builds, orders) = mpsc::channel(BUILDS_MAX);
    let compute = Compute {
        ids: IdSource::new(config.ids),
        site: config.site.clone(),
        passed_on: config.passed_on,
        images: images.clone(),
        servers: servers.clone(),
        builds,
    };
    tokio::select! {
        ended = front::serve(listener, &config.site, compute) => ended,
        () = boot::build_later(images, servers, orders) => Ok(()),
    }
}

type Servers = Arc<Mutex<Shelf<Server>>>;

struct Compute {
    ids: IdSource,
    site: String,
    passed_on: Vec<HeaderName>,
    images: ImageSource,
    servers: Servers,
    builds: mpsc::Sender<Boot>,
}

impl Service for Compute {
    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let request_id = request.headers().get(REQUEST_ID_HEADER).cloned();
        let mut answer = self
            .route(request)
            .await
            .unwrap_or_else(Refusal::into_answer);
        if let Some(request_id) = request_id {
            answer.headers_mut().insert(REQUEST_ID_HEADER, request_id);
        }
        Ok(answer)
    }
}

impl Compute {
    async fn route(&self, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        match (segments(&path).as_slice(), method) {
            (["servers"], Method::GET) => Ok(self.list()),
            (["servers"], Method::POST) => self.create(request).await,
            (["servers"], _) => Err(Refusal::BadMethod("GET, HEAD, POST")),
            (["servers", id], Method::GET) => self.show(id),
            (["servers", id], Method::DELETE) => self.delete(id),
            (["servers", _], _) => Err(Refusal::BadMethod("DELETE, GET, HEAD")),
            _ => Err(Refusal::NotFound("no such path".into())),
        }
    }

    fn servers(&self) -> MutexGuard<'_, Shelf<Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> Answer {
        let servers: Vec<_> = self.servers().iter().map(Server::to_json).collect();
        json_answer(StatusCode::OK, &json!({ "servers": servers }))
    }

    fn show(&self, id: &str) -> Result<Answer, Refusal> {
        let servers = self.servers();
        let server = servers.get(id).ok_or_else(|| unknown(id))?;
        Ok(json_answer(StatusCode::OK, &server.to_json()))
    }

    fn delete(&self, id: &str) -> Result<Answer, Refusal> {
        self.servers().remove(id).ok_or_else(|| unknown(id))?;
        Ok(empty_answer(StatusCode::NO_CONTENT))
    }

    async fn create(&self, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let later = query_value(&request, "async").is_some_and(|value| value == "true");
        let (head, body) = request.into_parts();
        let order = Order::try_from(read_object(&head.headers, body).await?)?;
        let headers = self.passed_on(&head.headers);
        if later {
            self.accept(order, headers)
        } else {
            self.boot(order, headers).await
        }
    }

    async fn boot(&self, order: Order, headers: HeaderMap) -> Result<Answer, Refusal> {
        let image = self.images.fetch(&order.image_id, &headers).await;
        let image = image.map_err(Refusal::FailedDependency)?;
        let server = Server::new(self.ids.next(), order, &self.site, Status::Active(image));
        Ok(self.keep(StatusCode::CREATED, server))
    }

    fn accept(&self, order: Order, headers: HeaderMap) -> Result<Answer, Refusal> {
        let place = self.builds.try_reserve().map_err(|_| Refusal::Busy)?;
        let server = Server::new(self.ids.next(), order, &self.site, Status::Build);
        let image_id = server.order.image_id.clone();
        let boot = Boot {
            server: server.id.to_string(),
            image_id,
            headers,
        };
        let answer = self.keep(StatusCode::ACCEPTED, server);
        place.send(boot);
        Ok(answer)
    }

    fn keep(&self, status: StatusCode, server: Server) -> Answer {
        let mut answer = json_answer(status, &server.to_json());
        let location = format!("/servers/{}", server.id);
        let location = HeaderValue::from_str(&location).expect("an id fits a header");
        answer.headers_mut().insert(LOCATION, location);
        self.servers().insert(server.id.to_string(), server);
        answer
    }

    fn passed_on(&self, headers: &HeaderMap) -> HeaderMap {
        let mut passed_on = HeaderMap::new();
        for name in &self.passed_on {
            for value in headers.get_all(name) {
                passed_on.append(name, value.clone());
            }
        }
        passed_on
    }
}

fn unknown(id: &str) -> Refusal {
    Refusal::NotFound(format!("no server {id}"))
}
