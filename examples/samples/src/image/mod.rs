//! The image service: a store of described files, in the manner of OpenStack's Glance.
//!
//! `/images` lists and creates, `/images/{id}` reads, changes and deletes, `/images/{id}/file`
//! takes and gives the content. It calls no other service.

mod content;
mod listing;
mod range;
mod record;

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::body::Incoming;
use hyper::header::{HeaderValue, LOCATION};
use hyper::{Method, Request, StatusCode};
use tokio::net::TcpListener;

use crate::answer::{Answer, Refusal, empty_answer, json_answer, read_object};
use crate::front::{self, Service, segments};
use crate::id::{IdForm, IdSource};
use crate::shelf::Shelf;
use record::Image;

/// How one image service is run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name in `X-Sample-Site`.
    pub site: String,
    /// What ids look like.
    pub ids: IdForm,
    /// The largest content that is kept, per image. A larger one is hashed and dropped, and reads
    /// as that many zero bytes; 0 drops everything (discard mode), so that huge files can be tried.
    pub kept_bytes_max: u64,
}

impl Config {
    /// The usual settings: UUIDs, contents up to 256 MiB kept.
    pub fn new(site: impl Into<String>) -> Config {
        Config {
            site: site.into(),
            ids: IdForm::Uuid,
            kept_bytes_max: 256 << 20,
        }
    }
}

/// Serves images on `listener` until the future is dropped or the listener fails.
pub async fn serve(listener: TcpListener, config: Config) -> io::Result<()> {
    let store = Store {
        ids: IdSource::new(config.ids),
        kept_bytes_max: config.kept_bytes_max,
        images: Mutex::new(Shelf::new()),
    };
    front::serve(listener, &config.site, store).await
}

struct Store {
    ids: IdSource,
    kept_bytes_max: u64,
    images: Mutex<Shelf<Image>>,
}

impl Service for Store {
    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        match (segments(&path).as_slice(), method) {
            (["images"], Method::GET) => listing::page(&self.images(), &request),
            (["images"], Method::POST) => self.create(request).await,
            (["images"], _) => Err(Refusal::BadMethod("GET, HEAD, POST")),
            (["images", id], Method::GET) => self.show(id),
            (["images", id], Method::PATCH) => self.change(id, request, Image::merge).await,
            (["images", id], Method::PUT) => self.change(id, request, Image::replace).await,
            (["images", id], Method::DELETE) => self.delete(id),
            (["images", _], _) => Err(Refusal::BadMethod("DELETE, GET, HEAD, PATCH, PUT")),
            (["images", id, "file"], Method::GET) => self.download(id, &request),
            (["images", id, "file"], Method::PUT) => self.upload(id, request).await,
            (["images", _, "file"], _) => Err(Refusal::BadMethod("GET, HEAD, PUT")),
            _ => Err(Refusal::NotFound("no such path".into())),
        }
    }
}

type Change = fn(&mut Image, record::Fields) -> Result<(), Refusal>;

impl Store {
    fn images(&self) -> MutexGuard<'_, Shelf<Image>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn create(&self, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let (head, body) = request.into_parts();
        let fields = read_object(&head.headers, body).await?;
        let image = Image::new(self.ids.next(), fields)?;
        let mut answer = json_answer(StatusCode::CREATED, &image.to_json());
        let location = HeaderValue::from_str(&image.path()).expect("an id fits a header");
        answer.headers_mut().insert(LOCATION, location);
        self.images().insert(image.id.to_string(), image);
        Ok(answer)
    }

    fn show(&self, id: &str) -> Result<Answer, Refusal> {
        let images = self.images();
        let image = images.get(id).ok_or_else(|| unknown(id))?;
        Ok(json_answer(StatusCode::OK, &image.to_json()))
    }

    async fn change(
        &self,
        id: &str,
        request: Request<Incoming>,
        change: Change,
    ) -> Result<Answer, Refusal> {
        let (head, body) = request.into_parts();
        let fields = read_object(&head.headers, body).await?;
        let mut images = self.images();
        let image = images.get_mut(id).ok_or_else(|| unknown(id))?;
        change(image, fields)?;
        Ok(json_answer(StatusCode::OK, &image.to_json()))
    }

    fn delete(&self, id: &str) -> Result<Answer, Refusal> {
        self.images().remove(id).ok_or_else(|| unknown(id))?;
        Ok(empty_answer(StatusCode::NO_CONTENT))
    }

    async fn upload(&self, id: &str, request: Request<Incoming>) -> Result<Answer, Refusal> {
        self.images().get(id).ok_or_else(|| unknown(id))?;
        let file = content::receive(request.into_body(), self.kept_bytes_max).await?;
        self.images().get_mut(id).ok_or_else(|| unknown(id))?.file = Some(file);
        Ok(empty_answer(StatusCode::NO_CONTENT))
    }

    /// An image without content answers 204, as Glance does.
    fn download(&self, id: &str, request: &Request<Incoming>) -> Result<Answer, Refusal> {
        let file = self
            .images()
            .get(id)
            .ok_or_else(|| unknown(id))?
            .file
            .clone();
        let Some(file) = file else {
            return Ok(empty_answer(StatusCode::NO_CONTENT));
        };
        Ok(content::send(&file, request.headers()))
    }
}

fn unknown(id: &str) -> Refusal {
    Refusal::NotFound(format!("no image {id}"))
}
