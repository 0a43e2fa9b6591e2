//! One list from the lists of several sites, replicas once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use cheops_model::SiteName;
use cheops_rest::{Answer, MergeFault};
use http::response::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Response, StatusCode, header};

use super::body::whole;
use super::read::{kind_of, set_target};
use crate::body::Body;
use crate::headers;
use crate::here::Call;
use crate::problem::Problem;
use crate::route::Journey;

/// Pages that are fetched of all sites together. A longer list is asked for site by site.
const PAGES_MAX: usize = 64;

/// One page of one site.
struct Page {
    head: Parts,
    body: Bytes,
}

/// What a site said to a request for a page.
enum Said {
    Page(Box<Page>),
    /// The service refuses the request itself.
    Refusal(Box<Response<Body>>),
    Nothing,
}

/// Asks every site that can be reached, all at once, and joins what they say. Sites that did not
/// answer are named.
pub(super) async fn merged(
    journey: &Journey<'_>,
    sites: &[SiteName],
    mut call: Call,
) -> Result<Response<Body>, Problem> {
    let replicas = &journey.service.replicas;
    let kind = kind_of(replicas, &call).unwrap_or_default();
    let picture = journey.worker.picture();
    let name = &journey.service.config.name;
    // Ids are found in plain bytes only.
    let identity = HeaderValue::from_static("identity");
    call.head.headers.insert(header::ACCEPT_ENCODING, identity);
    let usable = sites.iter().filter(|site| picture.usable(site, name));
    let asking = usable.clone().map(|site| page(journey, site, &call, None));
    let mut lists: Vec<(&SiteName, Vec<Page>)> = Vec::new();
    for (site, said) in usable.zip(all(asking.collect()).await) {
        match said {
            Said::Page(page) => lists.push((site, vec![*page])),
            Said::Refusal(response) => return Ok(*response),
            Said::Nothing => (),
        }
    }
    for _ in 0..PAGES_MAX {
        if lists.is_empty() {
            break;
        }
        match join(replicas, &kind, &lists) {
            Ok(body) => return Ok(answer(sites, &mut lists, body)),
            Err(MergeFault::Paged { site, next }) => {
                let of = lists[site].0;
                match page(journey, of, &call, Some(&next)).await {
                    Said::Page(page) => lists[site].1.push(*page),
                    Said::Refusal(_) | Said::Nothing => drop(lists.remove(site)),
                }
            }
            // Half a list, or none: that site is missing.
            Err(MergeFault::NoList(site)) => drop(lists.remove(site)),
        }
    }
    if lists.is_empty() {
        return Err(Problem::NoUsableSite(sites.to_vec()));
    }
    Err(Problem::NotImplemented(format!(
        "lists of several sites are joined up to {PAGES_MAX} pages; ask for longer pages, or for one site"
    )))
}

async fn page(journey: &Journey<'_>, site: &SiteName, call: &Call, next: Option<&str>) -> Said {
    let mut one = Call {
        head: call.head.clone(),
        body: Body::empty(),
        upgrade: None,
        asker: call.asker,
    };
    if let Some(next) = next {
        let Ok(target) = PathAndQuery::try_from(next) else {
            return Said::Nothing;
        };
        set_target(&mut one, target);
    }
    let Ok(response) = journey.to(site, one).await else {
        return Said::Nothing;
    };
    if response.status().is_client_error() {
        return Said::Refusal(Box::new(response));
    }
    if response.status() != StatusCode::OK {
        return Said::Nothing;
    }
    let (head, body) = response.into_parts();
    let bytes_max = cheops_rest::limits::BODY_BYTES_MAX;
    match whole(journey.worker, &journey.patience, body, bytes_max).await {
        Ok(body) => Said::Page(Box::new(Page { head, body })),
        Err(_) => Said::Nothing,
    }
}

fn join(
    replicas: &super::Replicas,
    kind: &str,
    lists: &[(&SiteName, Vec<Page>)],
) -> Result<Vec<u8>, MergeFault> {
    let pages = || lists.iter().flat_map(|(_, pages)| pages);
    let headers: Vec<Vec<(&str, &str)>> = pages()
        .map(|page| {
            let pairs = page.head.headers.iter();
            pairs
                .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
                .collect()
        })
        .collect();
    let answers: Vec<Answer<'_>> = pages()
        .zip(&headers)
        .map(|(page, headers)| Answer {
            headers,
            body: &page.body,
        })
        .collect();
    let mut left = &answers[..];
    let mut by_site = Vec::new();
    for (_, pages) in lists {
        let (of_site, rest) = left.split_at(pages.len());
        by_site.push(of_site);
        left = rest;
    }
    replicas.api.merge(kind, &by_site)
}

fn answer(
    sites: &[SiteName],
    lists: &mut [(&SiteName, Vec<Page>)],
    body: Vec<u8>,
) -> Response<Body> {
    let names = |sites: &mut Vec<&str>| {
        sites.sort_unstable();
        sites.join(", ")
    };
    let mut served: Vec<&str> = lists.iter().map(|(site, _)| site.as_str()).collect();
    let missing = sites.iter().map(SiteName::as_str);
    let mut missing: Vec<&str> = missing.filter(|site| !served.contains(site)).collect();
    let mut response = Response::new(Body::full(body.into()));
    let out = response.headers_mut();
    *out = std::mem::take(&mut lists[0].1[0].head.headers);
    for of_one in [header::CONTENT_LENGTH, header::ETAG, header::LINK] {
        out.remove(of_one);
    }
    headers::put(out, headers::SERVED_BY, &names(&mut served));
    if !missing.is_empty() {
        headers::put(out, headers::PARTIAL, &names(&mut missing));
    }
    response
}

/// Runs futures side by side; their results in order.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, slot) in running.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let Poll::Ready(output) = future.as_mut().poll(cx)
            {
                *slot = Some(output);
            }
        }
        match done.iter().all(Option::is_some) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    done.into_iter().flatten().collect()
}
