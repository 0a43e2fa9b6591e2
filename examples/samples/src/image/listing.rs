//! Pages of the list of images.

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde_json::json;

use super::record::Image;
use crate::answer::{Answer, Refusal, json_answer};
use crate::front::query_value;
use crate::shelf::Shelf;

/// The images with `name`, at most `limit`, after `marker`; `next` leads on if there are more.
pub(crate) fn page(images: &Shelf<Image>, request: &Request<Incoming>) -> Result<Answer, Refusal> {
    let name = query_value(request, "name");
    let limit = limit(request)?;
    let marker = query_value(request, "marker");
    let from: Box<dyn Iterator<Item = &Image>> = match &marker {
        None => Box::new(images.iter()),
        Some(id) => Box::new(images.iter_after(id).ok_or_else(|| bad_marker(id))?),
    };
    let mut matching = from
        .filter(|image| name.is_none() || image.name() == name.as_deref())
        .peekable();
    let page: Vec<&Image> = matching
        .by_ref()
        .take(limit.unwrap_or(usize::MAX))
        .collect();

    let mut object =
        json!({ "images": page.iter().map(|image| image.to_json()).collect::<Vec<_>>() });
    if let (Some(limit), Some(last), Some(_)) = (limit, page.last(), matching.peek()) {
        object["next"] = next_link(name.as_deref(), limit, last).into();
    }
    Ok(json_answer(StatusCode::OK, &object))
}

fn limit(request: &Request<Incoming>) -> Result<Option<usize>, Refusal> {
    let Some(text) = query_value(request, "limit") else {
        return Ok(None);
    };
    match text.parse() {
        Ok(limit) if limit > 0 => Ok(Some(limit)),
        _ => Err(Refusal::BadRequest(format!(
            "`limit` is a positive number, not {text:?}"
        ))),
    }
}

fn next_link(name: Option<&str>, limit: usize, last: &Image) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(name) = name {
        query.append_pair("name", name);
    }
    query.append_pair("limit", &limit.to_string());
    query.append_pair("marker", &last.id.to_string());
    format!("/images?{}", query.finish())
}

fn bad_marker(id: &str) -> Refusal {
    Refusal::BadRequest(format!("no image {id} to start after"))
}
