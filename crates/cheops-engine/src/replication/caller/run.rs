//! Changing and removing what is there.

use cheops_core::operation::{Fields, Kind, Refusal};
use cheops_core::{Operation, Outcome, ReplicantId};
use cheops_rest::{CallKind, Class, Ready};

use super::super::limits::{ANSWER_BYTES_MAX, PROBE_BYTES_MAX};
use super::super::wire::Asked;
use super::{Desk, Local, UNPROCESSABLE, With, refused, request};

/// The resource is not as it was when it was taken for ours.
const PRECONDITION_FAILED: u16 = 412;
/// It is as it is to be.
const NOT_MODIFIED: u16 = 304;
/// Something lies below it.
const CONFLICT: u16 = 409;
/// Nothing is there.
const NOT_FOUND: u16 = 404;
/// Not yet ready to be worked on.
const TOO_EARLY: u16 = 425;

impl Desk<'_> {
    /// Runs an operation as its client asked for it.
    pub(super) async fn run(&self, op: &Operation, local: Option<&str>) -> Outcome {
        let Some(asked) = self.asked(op) else {
            return refused(Refusal::Verdict, UNPROCESSABLE);
        };
        if let (Some(local), true) = (local, self.api().awaits_ready(&asked.kind))
            && let Some(outcome) = self.await_ready(&asked, local).await
        {
            return outcome;
        }
        self.bring(&asked).await;
        let Local { target, body } = match self.localise(&asked, local) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
        let body = match local.filter(|_| op.kind == Kind::Update) {
            Some(local) => match self.of_own_version(&asked, local, body).await {
                Ok(body) => body,
                Err(outcome) => return outcome,
            },
            None => body,
        };
        let with = With::All(self.api());
        let Some(request) = request(&asked.method, &target, &asked, &with, body) else {
            return refused(Refusal::Verdict, UNPROCESSABLE);
        };
        let call = match op.kind {
            Kind::Create => CallKind::Create,
            Kind::Update => CallKind::Update,
            Kind::Delete => CallKind::Delete,
            // A rescope calls no service.
            Kind::Action | Kind::Rescope => CallKind::Action,
        };
        match self.send(request, asked.content.as_ref(), call).await {
            Ok(heard) => self.outcome(call, &heard, &asked, None),
            Err(outcome) => outcome,
        }
    }

    /// The body with the versions that the resource has here, if it names any: whoever leads has compared those that its
    /// client expected.
    async fn of_own_version(
        &self,
        asked: &Asked,
        local: &str,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Outcome> {
        if self.api().expected_versions(&body).is_empty() {
            return Ok(body);
        }
        let item = self.item(asked, local);
        let heard = self.get(&item, asked, ANSWER_BYTES_MAX).await;
        let heard = heard.map_err(|_| Outcome::NotSent)?;
        let shown = heard.body.as_deref().unwrap_or_default();
        Ok(self.api().with_versions(&body, shown).into_owned())
    }

    /// Why it has to wait, if it has to.
    async fn await_ready(&self, asked: &Asked, local: &str) -> Option<Outcome> {
        let item = self.item(asked, local);
        let heard = match self.get(&item, asked, ANSWER_BYTES_MAX).await {
            Ok(heard) => heard,
            Err(_) => return Some(Outcome::NotSent),
        };
        let body = heard.body.as_deref().unwrap_or_default();
        if !heard.status.is_success() {
            return None;
        }
        match self.api().ready(&asked.kind, body) {
            Ready::Yes | Ready::Failed => None,
            Ready::NotYet => Some(refused(Refusal::NotReady, TOO_EARLY)),
        }
    }

    /// Writes what differs, the best way the service takes.
    pub(super) async fn settle(&self, local: &str, fields: &Fields, unset: &[String]) -> Outcome {
        let (Some(made), Some(name)) = (&self.create, self.name()) else {
            return refused(Refusal::Verdict, UNPROCESSABLE);
        };
        if let Some(waits) = self.lacks(fields) {
            return waits;
        }
        let item = self.item(made, local);
        let fields = match self.differing(&item, made, name, fields).await {
            Ok(fields) => fields,
            Err(outcome) => return outcome,
        };
        if fields.is_empty() && unset.is_empty() {
            return Outcome::Applied {
                status: NOT_MODIFIED,
                local: None,
                body: Vec::new(),
            };
        }
        let fields = &fields;
        let mut last = refused(Refusal::Verdict, UNPROCESSABLE);
        for way in self.api().updates(&made.kind) {
            let calls =
                self.api()
                    .update_calls(&made.kind, way, &item, fields, unset, &self.desired);
            let Ok(calls) = calls else {
                continue;
            };
            let mut unwanted = false;
            for call in &calls {
                let heard = match self.write(call, name).await {
                    Ok(heard) => heard,
                    Err(outcome) => return outcome,
                };
                // It does not know this way; nothing was done.
                unwanted = matches!(heard.status.as_u16(), 405 | 415 | 501);
                last = self.outcome(CallKind::Update, &heard, name, None);
                if !matches!(last, Outcome::Applied { .. }) {
                    break;
                }
            }
            if !unwanted {
                return last;
            }
        }
        last
    }

    /// Of these fields, those that the service does not show as they are to be.
    async fn differing(
        &self,
        item: &str,
        made: &Asked,
        name: &Asked,
        fields: &Fields,
    ) -> Result<Fields, Outcome> {
        let heard = self
            .get(item, name, ANSWER_BYTES_MAX)
            .await
            .map_err(|_| Outcome::NotSent)?;
        if heard.status.as_u16() == NOT_FOUND {
            return Err(refused(Refusal::Verdict, NOT_FOUND));
        }
        if !heard.status.is_success() || heard.body.is_none() {
            // It cannot be read: everything is written.
            return Ok(fields.clone());
        }
        let body = self.in_meta_ids(&heard, made);
        Ok(self.api().differing(&made.kind, &body, fields))
    }

    /// Removes it; gone already is as good.
    pub(super) async fn delete(
        &self,
        local: &str,
        only_if: Option<&Fields>,
        knows: &[ReplicantId],
    ) -> Outcome {
        let below = self.inner.index.below(self.replicant);
        if below.iter().any(|child| !knows.contains(child)) {
            return refused(Refusal::Children, CONFLICT);
        }
        let (Some(made), Some(name)) = (&self.create, self.name()) else {
            return refused(Refusal::Verdict, UNPROCESSABLE);
        };
        let item = self.item(made, local);
        if let Some(fields) = only_if {
            match self.still_ours(&item, made, name, fields).await {
                Ok(true) => (),
                Ok(false) => return refused(Refusal::Verdict, PRECONDITION_FAILED),
                Err(outcome) => return outcome,
            }
        }
        let asked_to = self
            .latest
            .as_ref()
            .filter(|asked| asked.method == "DELETE");
        let target = asked_to.and_then(|asked| self.localise(asked, Some(local)).ok());
        let target = target.map_or(item, |local| local.target);
        let target = match self.api().delete_by(&made.kind) {
            Some(header) => match self.named_by(header, &target, made).await {
                Ok(Some(target)) => target,
                Ok(None) => return gone(),
                Err(outcome) => return outcome,
            },
            None => target,
        };
        let with = With::All(self.api());
        let Some(request) = request("DELETE", &target, name, &with, Vec::new()) else {
            return refused(Refusal::Verdict, UNPROCESSABLE);
        };
        match self.ask(request, ANSWER_BYTES_MAX).await {
            Ok(heard) => self.outcome(CallKind::Delete, &heard, name, None),
            Err(outcome) => outcome,
        }
    }

    /// The item by the name that its service deletes it by; none if it is not there.
    async fn named_by(
        &self,
        header: &str,
        item: &str,
        made: &Asked,
    ) -> Result<Option<String>, Outcome> {
        let heard = self.get(item, made, PROBE_BYTES_MAX).await;
        let heard = heard.map_err(|_| Outcome::NotSent)?;
        if heard.status.as_u16() == NOT_FOUND {
            return Ok(None);
        }
        let name = heard.headers.get(header).and_then(|v| v.to_str().ok());
        let (Some(name), Some((folder, _))) = (name, item.rsplit_once('/')) else {
            return Err(Outcome::NotSent);
        };
        Ok(Some(format!("{folder}/{name}")))
    }

    async fn still_ours(
        &self,
        item: &str,
        made: &Asked,
        name: &Asked,
        fields: &Fields,
    ) -> Result<bool, Outcome> {
        let heard = self
            .get(item, name, ANSWER_BYTES_MAX)
            .await
            .map_err(|_| Outcome::NotSent)?;
        let body = heard.body.as_deref().unwrap_or_default();
        match self
            .api()
            .class(CallKind::Read, heard.status.as_u16(), body)
        {
            Class::Applied => {
                let body = self.in_meta_ids(&heard, made);
                Ok(self.api().still_has(&made.kind, &body, fields))
            }
            // Gone: nothing is left to be careful about.
            _ if heard.status.as_u16() == NOT_FOUND => Ok(true),
            _ => Err(Outcome::NotSent),
        }
    }
}

/// What is not there need not be deleted.
fn gone() -> Outcome {
    Outcome::Applied {
        status: NOT_FOUND,
        local: None,
        body: Vec::new(),
    }
}
