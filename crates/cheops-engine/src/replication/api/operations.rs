//! Operations as they are told.

use std::time::Instant;

use cheops_core::eventual::{OperationView, Progress, Step};
use cheops_core::operation::Form;
use cheops_core::{Answer, OperationId, ReplicantId, Site, Wait};

use super::super::blobs::{Arrived, Blobs};
use super::super::shard::NotTaken;
use super::super::wire::Content;
use super::super::{Replication, unix_ms};
use super::{ContentItem, List, OperationItem, Page, SiteStep, asked, rfc3339, word};

/// Which operations are wanted. Empty is all.
#[derive(Clone, Debug, Default)]
pub struct OperationFilter {
    /// About this resource, as clients call it.
    pub resource: Option<String>,
    /// Of this API.
    pub service: Option<String>,
    /// In this state on some site.
    pub state: Option<String>,
}

/// Why an operation goes on as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRetried {
    /// Nothing is known of it.
    Unknown,
    /// Some site may have been called for it.
    TooLate,
    /// The agent has too much to do, or stops.
    NotNow,
}

/// What an operation is told with: two clocks, read at once.
#[derive(Clone, Copy)]
struct Clock {
    monotonic_ms: u64,
    unix_ms: u64,
}

impl Replication {
    /// A page of what is not finished everywhere, newest first.
    pub async fn operations(&self, filter: OperationFilter, page: Page) -> List<OperationItem> {
        let (wanted, clock) = (page.clone(), self.clock());
        let blobs = self.0.blobs.clone();
        let parts = self.look_everywhere(move |site| {
            let items = site.every_operation().filter_map(|view| {
                let created_ms = view.op.as_ref().and_then(asked).map(|a| a.created_ms);
                let id = view.op.as_ref()?.id;
                let item = item(site, id, &view, clock, &blobs);
                fits(&item, &filter).then(|| (key(created_ms.unwrap_or(0), id), item))
            });
            wanted.cut(items)
        });
        page.list(parts.await)
    }

    /// One operation, while anything is known of it.
    pub async fn operation(&self, id: &str) -> Option<OperationItem> {
        self.operation_with_scope(id).await.map(|(item, _)| item)
    }

    /// The same, with the scope it came with.
    pub async fn operation_with_scope(&self, id: &str) -> Option<(OperationItem, Option<String>)> {
        let (op, clock) = (operation_id(id)?, self.clock());
        let blobs = self.0.blobs.clone();
        let look = move |site: &Site| {
            let view = site.operation(op)?;
            let scope = view.op.as_ref().and_then(asked).and_then(|made| made.scope);
            Some((item(site, op, &view, clock, &blobs), scope))
        };
        // What makes a replicant is where that is.
        let first = self.look(ReplicantId::from(op), look.clone());
        if let Some(found) = first.await.flatten() {
            return Some(found);
        }
        let mut found = self.look_everywhere(look).await.into_iter().flatten();
        found.next()
    }

    /// Credentials of its caller, in place of those that it came with.
    pub fn renew(&self, id: &str, headers: Vec<(String, Vec<u8>)>) -> Result<(), NotRetried> {
        let op = operation_id(id).ok_or(NotRetried::Unknown)?;
        self.0.caller.renew(op, headers);
        Ok(())
    }

    /// Gives an operation up, if no site was called for it.
    pub async fn cancel_operation(&self, id: &str) -> Result<(), NotRetried> {
        let op = operation_id(id).ok_or(NotRetried::Unknown)?;
        match self.cancel(op).await {
            Ok(Some(Answer::Cancelled)) => Ok(()),
            Ok(Some(_)) => Err(NotRetried::TooLate),
            Ok(None) => Err(NotRetried::Unknown),
            Err(NotTaken::Busy | NotTaken::NoRoom | NotTaken::Stopped) => Err(NotRetried::NotNow),
        }
    }

    fn clock(&self) -> Clock {
        Clock {
            monotonic_ms: Instant::now().duration_since(self.0.started).as_millis() as u64,
            unix_ms: unix_ms(),
        }
    }
}

/// 32 hex digits.
pub(super) fn operation_id(text: &str) -> Option<OperationId> {
    let plain = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let number = plain.then(|| u128::from_str_radix(text, 16).ok())??;
    Some(OperationId(number))
}

/// Newest first.
fn key(created_ms: u64, id: OperationId) -> Vec<u8> {
    let age = (u64::MAX - created_ms).to_be_bytes();
    [&age[..], &id.0.to_be_bytes()].concat()
}

fn fits(item: &OperationItem, filter: &OperationFilter) -> bool {
    let same = |is: &Option<String>, wanted: &Option<String>| wanted.is_none() || is == wanted;
    let state = filter.state.as_deref();
    same(&item.resource, &filter.resource)
        && same(&item.service, &filter.service)
        && state.is_none_or(|state| item.sites.values().any(|step| step.state == state))
}

fn item(
    site: &Site,
    id: OperationId,
    view: &OperationView,
    clock: Clock,
    blobs: &Blobs,
) -> OperationItem {
    let glance = view.replicant.and_then(|id| site.glance(id));
    let op = view.op.as_ref();
    let made = op.and_then(asked);
    let created_ms = made.as_ref().map(|made| made.created_ms);
    let ttl_ms = op.and_then(|op| op.ttl_ms);
    let expires_ms = created_ms
        .zip(ttl_ms)
        .map(|(at, ttl)| at.saturating_add(ttl));
    let told = match &view.answer {
        Some(Answer::Service { meta, .. }) => meta.clone(),
        _ => None,
    };
    let glance = glance.as_ref();
    let meta = glance.and_then(|glance| glance.meta()).map(str::to_owned);
    let queued = glance.is_some_and(|glance| glance.form() == Form::Queue);
    let late = queued && expires_ms.is_some_and(|at| at <= clock.unix_ms);
    let steps = view
        .sites
        .iter()
        .filter(|(at, _)| !queued || *at != site.name());
    let content = made.as_ref().and_then(|made| made.content.clone());
    let step = |(site, step): (&cheops_model::SiteName, &Step)| {
        // Its target will not run it, whenever it is back.
        let expired = late && step.progress == Progress::Queued;
        let step = match expired {
            true => Step {
                progress: Progress::Expired,
                ..step.clone()
            },
            false => step.clone(),
        };
        let arrived = content.as_ref().map(|content| blobs.arrived(content, site));
        let arrived = arrived.unwrap_or_default();
        (site.clone(), told_step(&step, clock, arrived))
    };
    OperationItem {
        id: format!("{:032x}", id.0),
        resource: meta.or(told),
        service: glance.map(|glance| glance.service().to_owned()),
        kind: op.map(|op| word(op.kind).to_owned()),
        method: made.as_ref().map(|made| made.method.clone()),
        path: made.as_ref().map(|made| made.path.clone()),
        created: created_ms.and_then(rfc3339),
        expires: expires_ms.and_then(rfc3339),
        position: view.index,
        content: content.as_ref().map(told_content),
        sites: steps.map(step).collect(),
    }
}

/// Why an operation cannot run now.
fn waiting(status: Option<u16>, arrived: &Arrived) -> String {
    let is = |wait: Wait| status == Some(wait.status());
    match status {
        _ if is(Wait::Credentials) => {
            "credentials: they have lapsed; give others with `cheops op retry`".to_owned()
        }
        _ if is(Wait::Dependency) => "dependency: what it names is not there yet".to_owned(),
        _ if is(Wait::Held) => "the site is held: it takes no changes from elsewhere".to_owned(),
        _ if is(Wait::Blob) => {
            let why = arrived.trouble.unwrap_or("its content is not there yet");
            why.to_owned()
        }
        Some(status) => format!("the service there cannot now ({status})"),
        None => "the service there cannot now".to_owned(),
    }
}

fn told_content(content: &Content) -> ContentItem {
    match content {
        Content::Streaming(_) => ContentItem {
            hash: None,
            bytes: None,
        },
        Content::Blob(of) => ContentItem {
            hash: Some(of.name()),
            bytes: Some(of.bytes),
        },
    }
}

fn told_step(step: &Step, clock: Clock, arrived: Arrived) -> SiteStep {
    let next_try = step.next_try_ms.and_then(|at| {
        let wait_ms = at.saturating_sub(clock.monotonic_ms);
        rfc3339(clock.unix_ms.saturating_add(wait_ms))
    });
    let state = match step.progress {
        Progress::Prepared => "prepared",
        Progress::Queued => "queued",
        Progress::Sent => "sent",
        Progress::Applied => "applied",
        Progress::Covered => "covered",
        Progress::Held => "held",
        Progress::Refused => "refused",
        Progress::Waiting => "waiting",
        Progress::InDoubt => "in-doubt",
        Progress::Expired => "expired",
        Progress::Void => "void",
        Progress::Cancelled => "cancelled",
    };
    let said = step
        .status
        .map_or_else(String::new, |status| format!(" ({status})"));
    let error = match step.progress {
        Progress::Refused => Some(format!("the service there will not{said}")),
        Progress::Waiting => Some(waiting(step.status, &arrived)),
        Progress::InDoubt => Some("it may have been done; nobody can tell".to_owned()),
        Progress::Held => Some("something before it is in its way there".to_owned()),
        Progress::Expired => Some("it was too late to run it".to_owned()),
        Progress::Prepared
        | Progress::Queued
        | Progress::Sent
        | Progress::Applied
        | Progress::Covered
        | Progress::Void
        | Progress::Cancelled => None,
    };
    SiteStep {
        state: state.to_owned(),
        status: step.status,
        attempts: (step.attempts > 0).then_some(step.attempts),
        next_try,
        error,
        received: arrived.bytes,
    }
}
