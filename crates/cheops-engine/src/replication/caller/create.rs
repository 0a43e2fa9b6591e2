//! Making a resource: as its client asked for it, or again from what clients wrote since.

use cheops_core::operation::{Fields, Refusal};
use cheops_core::{Operation, Outcome};
use cheops_rest::{Answer, CallBody, CallKind, Chosen, Class, Meaning};

use super::super::http::Heard;
use super::super::wire::{Asked, Content};
use super::{Desk, Local, UNPROCESSABLE, With, pairs, refused, request};

impl Desk<'_> {
    pub(super) async fn create(&self, op: &Operation, fields: &Fields) -> Outcome {
        let Some(asked) = self.asked(op) else {
            return refused(Refusal::Verdict, UNPROCESSABLE);
        };
        if *fields == op.fields {
            return self.create_as_asked(op, &asked).await;
        }
        self.create_again(op, &asked, fields).await
    }

    async fn create_as_asked(&self, op: &Operation, asked: &Asked) -> Outcome {
        self.bring(asked).await;
        // It has the id that was chosen for it before it is there.
        let chosen = self.chosen(asked);
        let Local { target, body } = match self.localise(asked, chosen.as_deref()) {
            Ok(local) => local,
            Err(outcome) => return outcome,
        };
        let body = match asked.content {
            None => self.api().marked(&asked.kind, &body, &mark_of(op)),
            Some(_) => body,
        };
        let with = With::All(self.api());
        let Some(mut request) = request(&asked.method, &target, asked, &with, body) else {
            return refused(Refusal::Verdict, UNPROCESSABLE);
        };
        if asked.method == "PUT" {
            // What exists already is never overwritten.
            let any = hyper::header::HeaderValue::from_static("*");
            request
                .headers_mut()
                .insert(hyper::header::IF_NONE_MATCH, any);
        }
        let content = asked.content.as_ref();
        match self.send(request, content, CallKind::Create).await {
            Ok(heard) => self.created(asked, &heard),
            Err(outcome) => outcome,
        }
    }

    /// What was made. A service that does not say leaves everybody in doubt.
    fn created(&self, asked: &Asked, heard: &Heard) -> Outcome {
        let status = heard.status.as_u16();
        let body = heard.body.as_deref().unwrap_or_default();
        if self.api().class(CallKind::Create, status, body) != Class::Applied {
            if self.chosen(asked).is_some() && self.api().is_id_taken(&asked.kind, status) {
                return self.said_no(Refusal::Taken, heard, asked);
            }
            return self.outcome(CallKind::Create, heard, asked, None);
        }
        let headers = pairs(&heard.headers);
        let answer = Answer {
            headers: &headers,
            body,
        };
        let in_path = self.chosen_in_path(asked);
        match self
            .api()
            .created(&asked.kind, in_path, &asked.body, &answer)
        {
            Ok(created) => self.outcome(CallKind::Create, heard, asked, Some(&created.id)),
            Err(_) => Outcome::Unknown,
        }
    }

    /// The id that the client put into the path.
    fn chosen_in_path<'a>(&'a self, asked: &'a Asked) -> Option<&'a str> {
        match self.api().classify(&asked.method, &asked.path) {
            Meaning::Create { chosen, .. } => chosen,
            Meaning::Update { item, .. } => Some(item.id),
            _ => None,
        }
    }

    /// The id that the client wants it to have.
    pub(super) fn chosen(&self, asked: &Asked) -> Option<String> {
        let api = self.api();
        if api.chosen(&asked.kind) == Chosen::Never {
            return None;
        }
        let in_path = self.chosen_in_path(asked).map(str::to_owned);
        in_path.or_else(|| api.asked_id(&asked.kind, &asked.body))
    }

    /// What clients have written since is in it from the beginning.
    async fn create_again(&self, op: &Operation, asked: &Asked, fields: &Fields) -> Outcome {
        if let Some(waits) = self.lacks(fields) {
            return waits;
        }
        let api = self.api();
        let collection = self.local_path(&asked.collection);
        let chosen = self.chosen(asked);
        let mark = mark_of(op);
        let calls = api.create_calls(
            &asked.kind,
            &collection,
            fields,
            chosen.as_deref(),
            Some(&mark),
        );
        let Ok(calls) = calls else {
            return refused(Refusal::Verdict, UNPROCESSABLE);
        };
        let mut calls = calls.into_iter();
        let Some(first) = calls.next() else {
            return refused(Refusal::Verdict, UNPROCESSABLE);
        };
        let made = match self.write(&first, asked).await {
            Ok(heard) => self.created(asked, &heard),
            Err(outcome) => return outcome,
        };
        let Outcome::Applied { local, .. } = &made else {
            return made;
        };
        let Some(local) = local.clone() else {
            return made;
        };
        for mut call in calls {
            call.target = call.target.replace("{id}", &local);
            // It is there; what is below it is settled if this fails.
            if self.write(&call, asked).await.is_err() {
                break;
            }
        }
        made
    }

    /// Makes a call whose body is in meta-ids and whose target is in the ids of this site.
    pub(super) async fn write(
        &self,
        call: &cheops_rest::Call,
        asked: &Asked,
    ) -> Result<Heard, Outcome> {
        let mut content = None;
        let body = match &call.body {
            CallBody::None => Vec::new(),
            CallBody::Json(body) => body.clone(),
            CallBody::Opaque(reference) => match (reference.parse(), self.opaque(reference)) {
                (Ok(of), _) => {
                    content = Some(Content::Blob(of));
                    Vec::new()
                }
                (Err(_), Some(body)) => body,
                (Err(_), None) => return Err(refused(Refusal::Verdict, UNPROCESSABLE)),
            },
        };
        let written = Asked {
            method: call.method.clone(),
            path: call.target.clone(),
            headers: call
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), value.clone().into_bytes()))
                .collect(),
            body,
            content: None,
            ..asked.clone()
        };
        self.bring(&written).await;
        let local = self.localise(&written, None)?;
        let request = request(
            &call.method,
            &local.target,
            asked,
            &With::Rights,
            local.body,
        );
        let Some(mut request) = request else {
            return Err(refused(Refusal::Verdict, UNPROCESSABLE));
        };
        for (name, value) in &written.headers {
            let pair = hyper::header::HeaderName::try_from(name.as_str())
                .ok()
                .zip(hyper::header::HeaderValue::from_bytes(value).ok());
            if let Some((name, value)) = pair {
                request.headers_mut().insert(name, value);
            }
        }
        if content.is_some() {
            let octets = hyper::header::HeaderValue::from_static("application/octet-stream");
            let headers = request.headers_mut();
            headers.entry(hyper::header::CONTENT_TYPE).or_insert(octets);
        }
        self.send(request, content.as_ref(), CallKind::Update).await
    }

    /// A body that is not JSON: kept only by the requests that brought it.
    fn opaque(&self, reference: &str) -> Option<Vec<u8>> {
        let kept = [self.latest.as_ref(), self.create.as_ref()];
        let found = kept
            .into_iter()
            .flatten()
            .find(|asked| super::super::opaque_reference(&asked.body) == reference);
        found.map(|asked| asked.body.clone())
    }
}

/// The operation as it stands in a tag or field of the service.
pub(super) fn mark_of(op: &Operation) -> String {
    format!("{:032x}", op.id.0)
}
