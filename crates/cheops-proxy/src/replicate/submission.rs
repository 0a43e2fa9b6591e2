//! A request turned into an operation: ids as clients see them, fields, key, patience.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cheops_core::limits::PASSING_WAIT_MS_MAX;
use cheops_core::operation::{
    DoubtBy, Fields, Form, Handover, Kind, Mode, Naming, Repeat, Submission,
};
use cheops_core::{Operation, OperationId, Position, ReplicantId, Shape};
use cheops_engine::replication::{
    Asked, Content, ENTRY, FOREIGN, HOMES, Known, encode, lasting_id, opaque_reference, passing_id,
    unix_ms,
};
use cheops_model::{Failover, Guarantee, SiteName};
use cheops_rest::{
    Body as RestBody, Chosen, FieldFault, Given, Id, Meaning, RewriteError, Side, Written,
};
use http::{HeaderMap, header};

use super::read::text;
use super::write::Wanted;
use super::{Replicas, Spread, precondition, target};
use crate::here::Call;
use crate::problem::Problem;

/// In place of the reference to a content that is still coming in. No JSON, as a reference is none.
const STREAMING: &str = "streaming";

/// Of a request that may change something, before anybody has decided about it.
pub(super) struct Draft<'a> {
    pub(super) replicas: &'a Replicas,
    pub(super) call: &'a Call,
    pub(super) body: Bytes,
    pub(super) scope: Option<String>,
    /// Where its workflow entered.
    pub(super) entry: Option<String>,
    /// Where the values that it shows are at home.
    pub(super) homes: Vec<String>,
    /// How long the service may take.
    pub(super) patience_ms: u64,
    /// In place of the body, of which only the beginning is here.
    pub(super) content: Option<Content>,
}

impl Draft<'_> {
    /// Makes something, on these sites.
    pub(super) fn create(&self, spread: &Spread) -> Result<Submission, Problem> {
        let mut asked = self.asked()?;
        let id = self.operation_id(&asked)?;
        let naming = self.name(&mut asked, ReplicantId::from(id));
        let api = &self.replicas.api;
        let index = self.replicas.engine.index();
        let service = self.replicas.service.as_str();
        if let Some((needed, site)) = index.lacking(service, api, &asked, &spread.sites) {
            return Err(Problem::Lacking {
                id: needed.meta.to_string(),
                site,
            });
        }
        let media = content_type(&asked);
        let written = api.written_by_create(&asked.kind, media, self.seen(&asked));
        let fields = self.fields(written.map_err(bad_body)?, &Fields::new(), &asked);
        let (ttl_ms, handover) = match &spread.guarantee {
            Guarantee::Eventual { ttl, failover } => (
                ttl.map(|ttl| ttl.as_millis() as u64),
                match failover {
                    Some(Failover::Auto) => Handover::Auto,
                    None => Handover::ByHand,
                },
            ),
            _ => (None, Handover::ByHand),
        };
        let here = self.replicas.here.clone();
        let op = Operation {
            fields,
            digest: digest(&asked),
            rest: encode(&asked),
            ttl_ms,
            ..Operation::new(id, ReplicantId::from(id), Kind::Create, here)
        };
        let doubt = match api.doubt_by(&asked.kind) {
            cheops_rest::DoubtBy::Mark => DoubtBy::Mark,
            cheops_rest::DoubtBy::Match => DoubtBy::Match,
            cheops_rest::DoubtBy::Nothing => DoubtBy::Nothing,
        };
        Ok(Submission {
            doubt,
            handover,
            naming,
            parent: spread.parent,
            ..self.submission(op, spread.sites.clone())
        })
    }

    /// Changes a replicant, whatever the scope says. `desired` is what clients wrote so far.
    pub(super) fn change(
        &self,
        known: &Known,
        wanted: &Wanted,
        desired: &Fields,
    ) -> Result<Submission, Problem> {
        let asked = self.asked()?;
        let fields = match wanted.kind {
            Kind::Update => self.updated(&asked, desired)?,
            Kind::Create | Kind::Delete | Kind::Action | Kind::Rescope => Fields::new(),
        };
        // An update that says which values its fields are to have does no harm when it is done again.
        let repeat = match (wanted.kind, fields.is_empty()) {
            (Kind::Update, false) => Repeat::Safe,
            _ => wanted.repeat,
        };
        let here = self.replicas.here.clone();
        let id = match self.is_passing(repeat) {
            true => passing_id(),
            false => self.operation_id(&asked)?,
        };
        let knows = match wanted.kind {
            Kind::Delete => self.replicas.engine.index().below(known.id),
            _ => Vec::new(),
        };
        let op = Operation {
            fields,
            digest: digest(&asked),
            rest: encode(&asked),
            repeat,
            knows,
            ..Operation::new(id, known.id, wanted.kind, here)
        };
        Ok(self.submission(op, known.sites.to_vec()))
    }

    /// Something for another site, which knows its own ids: kept as it came.
    pub(super) fn queued(&self, site: &SiteName, ttl: Duration) -> Result<Submission, Problem> {
        let (method, target) = (self.call.head.method.as_str(), target(self.call));
        let meaning = self.replicas.classify(method, target);
        let spot = meaning.spot();
        let asked = Asked {
            method: method.to_owned(),
            path: target.to_owned(),
            headers: self.kept_headers(),
            body: self.body.to_vec(),
            collection: spot.map_or("", |spot| spot.collection).to_owned(),
            kind: spot.map_or("", |spot| spot.kind).to_owned(),
            scope: self.scope.clone(),
            created_ms: unix_ms(),
            content: None,
        };
        let kind = match &meaning {
            Meaning::Create { .. } => Kind::Create,
            Meaning::Update { .. } => Kind::Update,
            Meaning::Delete(_) => Kind::Delete,
            Meaning::Action(_) | Meaning::Other | Meaning::List(_) | Meaning::Read(_) => {
                Kind::Action
            }
        };
        let repeat = match self.call.head.method.is_idempotent() {
            true => Repeat::Safe,
            false => Repeat::Never,
        };
        let (here, service) = (&self.replicas.here, self.replicas.service.as_str());
        let queue = self.replicas.engine.queue_for(service, site);
        let op = Operation {
            digest: digest(&asked),
            rest: encode(&asked),
            ttl_ms: Some(ttl.as_millis() as u64),
            repeat,
            ..Operation::new(self.operation_id(&asked)?, queue, kind, here.clone())
        };
        Ok(Submission {
            form: Form::Queue,
            mode: Mode::Async,
            ..self.submission(op, vec![site.clone()])
        })
    }

    /// The position that the request depends on.
    pub(super) async fn expects(&self, known: &Known) -> Result<Option<Position>, Problem> {
        let headers = &self.call.head.headers;
        precondition::position(self.replicas, known, headers, &self.asked()?).await
    }

    fn submission(&self, op: Operation, sites: Vec<SiteName>) -> Submission {
        Submission {
            attempt: rand::random(),
            mode: self.mode(),
            ..Submission::new(op, sites, self.replicas.service.as_str(), 0)
        }
    }

    /// Who names what a create makes. Where clients may choose an id and this one did not, the
    /// agent does: every site has it under the same id, and one can tell whether it is there.
    fn name(&self, asked: &mut Asked, replicant: ReplicantId) -> Naming {
        let api = &self.replicas.api;
        if api.chosen(&asked.kind) == Chosen::Never {
            return Naming::Minted;
        }
        let in_path = match self.replicas.classify(&asked.method, &asked.path) {
            Meaning::Create { chosen, .. } => chosen.map(str::to_owned),
            Meaning::Update { item, .. } => Some(item.id.to_owned()),
            _ => None,
        };
        let of_client = in_path.or_else(|| api.asked_id(&asked.kind, &asked.body));
        if let Some(id) = of_client {
            return Naming::Chosen(id);
        }
        if asked.content.is_some() {
            // There is no place in it for an id.
            return Naming::Minted;
        }
        let shape = match api.given(&asked.kind) {
            None => return Naming::Minted,
            Some(Given::Uuid) => Shape::Uuid,
            Some(Given::Hex) => Shape::Hex,
        };
        let id = self.replicas.engine.key().meta_id(replicant, shape);
        asked.body = api.with_id(&asked.kind, &asked.body, &id);
        match api.asked_id(&asked.kind, &asked.body) {
            Some(id) => Naming::Chosen(id),
            None => Naming::Minted,
        }
    }

    /// How soon the client wants to hear.
    fn mode(&self) -> Mode {
        let mut wait_ms = self.patience_ms;
        for word in self.call.head.headers.get_all("prefer") {
            for preference in word.to_str().unwrap_or_default().split(',') {
                let preference = preference.trim();
                if preference.eq_ignore_ascii_case("respond-async") {
                    return Mode::Async;
                }
                let seconds = preference.strip_prefix("wait=").map(str::parse::<u64>);
                if let Some(Ok(seconds)) = seconds {
                    wait_ms = wait_ms.min(seconds.saturating_mul(1_000));
                }
            }
        }
        Mode::Wait(wait_ms)
    }

    fn updated(&self, asked: &Asked, desired: &Fields) -> Result<Fields, Problem> {
        let api = &self.replicas.api;
        let meaning = self.replicas.classify(&asked.method, &asked.path);
        let Some(item) = meaning.item() else {
            return Ok(Fields::new());
        };
        let media = content_type(asked);
        let body = self.seen(asked);
        let written = api.written_by_update(item, &asked.method, media, body, desired);
        Ok(self.fields(written.map_err(bad_body)?, desired, asked))
    }

    fn fields(&self, mut written: Written, desired: &Fields, asked: &Asked) -> Fields {
        if let Some(opaque) = &written.opaque {
            let reference = match &self.content {
                None => opaque_reference(&asked.body),
                Some(Content::Blob(of)) => of.to_string(),
                Some(Content::Streaming(_)) => STREAMING.to_owned(),
            };
            written.fields.insert(opaque.clone(), reference);
        }
        written.over(desired)
    }

    /// The body, in the ids that clients see, or the beginning of a content.
    fn seen<'b>(&'b self, asked: &'b Asked) -> &'b [u8] {
        match &self.content {
            None => &asked.body,
            Some(_) => &self.body,
        }
    }

    /// The request in the ids that clients see.
    fn asked(&self) -> Result<Asked, Problem> {
        let Replicas { api, .. } = self.replicas;
        let ids = self.replicas.ids();
        let foreign = RefCell::new(BTreeSet::new());
        let map = |id: &Id<'_>| {
            if ids.is_foreign(id) {
                foreign.borrow_mut().insert(id.text.to_string());
            }
            ids.to_meta(id)
        };
        let headers = &self.call.head.headers;
        let method = self.call.head.method.as_str();
        let path = api.rewrite_target(target(self.call), map).into_owned();
        let meaning = self.replicas.classify(method, &path);
        let (collection, kind) = match meaning.spot() {
            Some(spot) => (spot.collection.to_owned(), spot.kind.to_owned()),
            None => return Err(Problem::NoReplicant),
        };
        let body = RestBody {
            side: Side::Request,
            kind: Some(&kind),
            media: text(headers, header::CONTENT_TYPE),
            encoding: text(headers, header::CONTENT_ENCODING),
            bytes: &self.body,
        };
        let body = match &self.content {
            None => api
                .rewrite_body(&body, map)
                .map_err(unclear_body)?
                .into_owned(),
            Some(_) => Vec::new(),
        };
        let mut kept = self.kept_headers();
        let foreign = foreign.into_inner();
        if !foreign.is_empty() {
            let ids: Vec<String> = foreign.into_iter().collect();
            kept.push((FOREIGN.to_owned(), ids.join(",").into_bytes()));
        }
        Ok(Asked {
            method: method.to_owned(),
            body,
            content: self.content.clone(),
            headers: kept,
            path,
            collection,
            kind,
            scope: self.scope.clone(),
            created_ms: unix_ms(),
        })
    }

    /// Those of the client, and what agents have to know.
    fn kept_headers(&self) -> Vec<(String, Vec<u8>)> {
        let mut kept = kept(&self.call.head.headers);
        if !self.homes.is_empty() {
            kept.push((HOMES.to_owned(), self.homes.join(";").into_bytes()));
        }
        if let Some(entry) = &self.entry {
            kept.push((ENTRY.to_owned(), entry.clone().into_bytes()));
        }
        kept
    }

    /// True if nobody asks for it again once its client has given up, and if it does no harm when it is done again.
    fn is_passing(&self, repeat: Repeat) -> bool {
        let keyed = self.call.head.headers.contains_key("idempotency-key");
        let waits = matches!(self.mode(), Mode::Wait(ms) if ms <= PASSING_WAIT_MS_MAX);
        repeat == Repeat::Safe && waits && !keyed
    }

    /// Fixed by the client's key, so that a retry anywhere joins the first.
    fn operation_id(&self, asked: &Asked) -> Result<OperationId, Problem> {
        let mut keys = self.call.head.headers.get_all("idempotency-key").iter();
        let Some(key) = keys.next() else {
            return Ok(lasting_id());
        };
        if keys.next().is_some() {
            return Err(Problem::BadBody(
                "Idempotency-Key is given twice".to_owned(),
            ));
        }
        let mut caller = blake3::Hasher::new();
        let api = &self.replicas.api;
        for (name, value) in asked
            .headers
            .iter()
            .filter(|(name, _)| api.is_credential(name))
        {
            caller.update(name.as_bytes());
            caller.update(value);
        }
        let caller = caller.finalize().to_hex();
        let key = String::from_utf8_lossy(key.as_bytes());
        let service = self.replicas.service.as_str();
        let keys = self.replicas.engine.key();
        Ok(keys.operation_of(&caller, service, &key))
    }
}

/// Headers that the applier of every site sends again. What frames the message, what is between
/// client and agent, and what says where to answer does not belong to the operation.
fn kept(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let passes = |name: &str| {
        !matches!(
            name,
            "content-length"
                | "transfer-encoding"
                | "expect"
                | "prefer"
                | "idempotency-key"
                | "accept-encoding"
                | "forwarded"
                | "via"
                | "x-scope"
        )
    };
    let pair = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().to_owned(), value.as_bytes().to_vec())
    };
    let kept = headers.iter().filter(|(name, _)| passes(name.as_str()));
    kept.map(pair).collect()
}

fn content_type(asked: &Asked) -> Option<&str> {
    let value = asked.header("content-type")?;
    std::str::from_utf8(value).ok()
}

/// Of what the request asks for, to tell a retry from another request with the same key.
fn digest(asked: &Asked) -> u64 {
    let mut hasher = blake3::Hasher::new();
    let content = match &asked.content {
        Some(Content::Blob(of)) => of.to_string(),
        Some(Content::Streaming(_)) | None => String::new(),
    };
    let body = match &asked.content {
        Some(_) => content.as_bytes(),
        None => &asked.body,
    };
    for part in [asked.method.as_bytes(), asked.path.as_bytes(), body] {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let hash = hasher.finalize();
    u64::from_be_bytes(hash.as_bytes()[..8].try_into().expect("32 bytes hold 8"))
}

fn bad_body(fault: FieldFault) -> Problem {
    Problem::BadBody(fault.to_string())
}

fn unclear_body(fault: RewriteError) -> Problem {
    match fault {
        RewriteError::TooLarge { .. } => Problem::BodyTooLarge {
            bytes_max: cheops_rest::limits::BODY_BYTES_MAX,
        },
        RewriteError::NotJson { .. } | RewriteError::Encoded => Problem::BadBody(fault.to_string()),
    }
}
