//! Looking without touching: whether a create was done, and how a resource is now.

use cheops_core::operation::{DoubtBy, Fields, Found};
use cheops_core::{Operation, Outcome, ReplicantId};
use cheops_rest::{Answer, Body, Id, Side, Step};
use hyper::header;

use super::super::LocalAnswer;
use super::super::http::Heard;
use super::super::index::Known;
use super::super::limits::PROBE_BYTES_MAX;
use super::super::wire::Asked;
use super::create::mark_of;
use super::{Caller, Desk, With, pairs, request};

impl Caller {
    /// A resource of this site as its service shows it, in the ids that clients see.
    pub(in super::super) async fn read(
        &self,
        known: &Known,
        create: &Asked,
    ) -> Option<LocalAnswer> {
        let service = self.service(&known.service)?;
        let desk = Desk {
            inner: &self.0,
            service: &service,
            replicant: known.id,
            create: None,
            latest: None,
            desired: Fields::new(),
            sites: Vec::new(),
        };
        let item = desk.item(create, known.local.as_deref()?);
        let heard = desk.get(&item, create, PROBE_BYTES_MAX).await.ok()?;
        Some(desk.local_answer(&heard, create))
    }
}

impl Caller {
    /// What a service of this site shows at a path of its own, in the ids that clients see. None if it
    /// does not answer.
    pub(in super::super) async fn show(
        &self,
        service: &str,
        path: &str,
        headers: &[(String, Vec<u8>)],
    ) -> Option<LocalAnswer> {
        let service = self.service(service)?;
        let desk = Desk {
            inner: &self.0,
            service: &service,
            replicant: ReplicantId(0),
            create: None,
            latest: None,
            desired: Fields::new(),
            sites: Vec::new(),
        };
        let meaning = service.api.classify("GET", path);
        let kind = meaning.spot().map_or("", |spot| spot.kind);
        let name = Asked {
            method: "GET".to_owned(),
            path: path.to_owned(),
            headers: headers.to_vec(),
            body: Vec::new(),
            collection: String::new(),
            kind: kind.to_owned(),
            scope: None,
            created_ms: 0,
            content: None,
        };
        let heard = desk.get(path, &name, PROBE_BYTES_MAX).await.ok()?;
        Some(desk.local_answer(&heard, &name))
    }
}

impl Desk<'_> {
    /// The path of a resource of this site.
    pub(super) fn item(&self, asked: &Asked, local: &str) -> String {
        let collection = self.local_path(&asked.collection);
        format!("{}/{local}", collection.trim_end_matches('/'))
    }

    pub(super) async fn get(
        &self,
        target: &str,
        name: &Asked,
        bytes_max: usize,
    ) -> Result<Heard, Outcome> {
        let request = request("GET", target, name, &With::Rights, Vec::new());
        let mut request = request.ok_or(Outcome::NotSent)?;
        // What is kept to the byte is asked for in the form in which it was written.
        if let Some(media) = name.header("content-type")
            && self.api().is_opaque(&name.kind)
            && let Ok(media) = header::HeaderValue::from_bytes(media)
        {
            request.headers_mut().insert(header::ACCEPT, media);
        }
        self.ask(request, bytes_max).await
    }

    fn local_answer(&self, heard: &Heard, asked: &Asked) -> LocalAnswer {
        let header = |name| heard.headers.get(name).and_then(|v| v.to_str().ok());
        LocalAnswer {
            status: heard.status.as_u16(),
            body: self.in_meta_ids(heard, asked),
            etag: header(header::ETAG).map(str::to_owned),
            modified: header(header::LAST_MODIFIED).map(str::to_owned),
        }
    }

    /// An answer's body with the ids that clients see; empty if it cannot be read.
    pub(super) fn in_meta_ids(&self, heard: &Heard, asked: &Asked) -> Vec<u8> {
        let header = |name| heard.headers.get(name).and_then(|v| v.to_str().ok());
        let body = Body {
            side: Side::Answer,
            kind: Some(&asked.kind),
            media: header(header::CONTENT_TYPE),
            encoding: header(header::CONTENT_ENCODING),
            bytes: heard.body.as_deref().unwrap_or_default(),
        };
        let map = |id: &Id<'_>| self.to_meta(id, None);
        let body = self.api().rewrite_body(&body, map);
        body.unwrap_or_default().into_owned()
    }

    /// Looks for what a create may have made. What cannot be looked at now is looked at later.
    pub(super) async fn probe(&self, how: DoubtBy, op: &Operation, fields: &Fields) -> Outcome {
        let Some(asked) = self.asked(op) else {
            return Outcome::Found(Found::Several);
        };
        let api = self.api();
        let how = match how {
            DoubtBy::Mark => cheops_rest::DoubtBy::Mark,
            DoubtBy::Match => cheops_rest::DoubtBy::Match,
            DoubtBy::Nothing => return Outcome::Found(Found::Several),
        };
        let collection = self.local_path(&asked.collection);
        let chosen = self.chosen(&asked);
        let mut search = api.search(
            how,
            &asked.kind,
            &collection,
            fields,
            chosen.as_deref(),
            &mark_of(op),
        );
        let mut next = search.ask().to_owned();
        loop {
            let heard = match self.get(&next, &asked, PROBE_BYTES_MAX).await {
                Ok(heard) => heard,
                Err(_) => return Outcome::NotSent,
            };
            if heard.body.is_none() {
                return Outcome::Found(Found::Several);
            }
            let body = self.in_meta_ids(&heard, &asked);
            let index = &self.inner.index;
            let mapped = |id: &str| index.find(&self.service.name, id).is_some();
            let headers = pairs(&heard.headers);
            let answer = Answer {
                headers: &headers,
                body: &body,
            };
            match search.read(api, heard.status.as_u16(), &answer, mapped) {
                Step::Ask(more) => next = more,
                Step::AskAgain => return Outcome::NotSent,
                Step::Done(cheops_rest::Found::Ours(local)) => {
                    return Outcome::Found(Found::Ours(local));
                }
                Step::Done(cheops_rest::Found::None) => return Outcome::Found(Found::None),
                Step::Done(cheops_rest::Found::Several) => return Outcome::Found(Found::Several),
            }
        }
    }
}
