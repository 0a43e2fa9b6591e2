//! An ordinary resource of this site becomes a replicant: its service is not called for it, the others
//! make theirs from what it shows.

use std::collections::BTreeSet;
use std::sync::Arc;

use cheops_core::operation::{DoubtBy, Handover, Kind, Mode, Naming};
use cheops_core::{Operation, ReplicantId, Submission};
use cheops_model::{Failover, SiteName};
use cheops_rest::{Api, CallBody, Chosen, Meaning, Spot};
use serde::{Deserialize, Serialize};

use super::super::limits::{ADOPTED_BYTES_MAX, ORDER_TIME_MAX};
use super::super::wire::{self, Asked};
use super::super::{LocalAnswer, Replication, lasting_id, unix_ms};
use super::Resource;
use super::orders::{NotDone, done};

/// What is to be adopted.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Whose.
    pub service: String,
    /// Other names of the service: its collections are often called so.
    pub aliases: Vec<String>,
    /// What this site's service calls it.
    pub local_id: String,
    /// Where it is, if the profile does not say: `/images/7`.
    pub path: Option<String>,
    /// Members that it shows and nobody can write, where the profile does not say so: `size`.
    pub without: Vec<String>,
    /// In whose name it is read here and made elsewhere. Never shown.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Where it is to live; this site is one of them.
    pub sites: Vec<SiteName>,
    /// As it was asked for.
    pub scope: String,
    /// Who takes over.
    pub failover: Option<Failover>,
}

/// What adopting comes to, shown before it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionPlan {
    /// Which API.
    pub service: String,
    /// What it is.
    pub kind: String,
    /// Where this site's service has it.
    pub path: String,
    /// Who leads: this site.
    pub leader: SiteName,
    /// Who makes it.
    pub joining: Vec<SiteName>,
    /// What they write, by name. What lies below it is not taken along.
    pub fields: Vec<String>,
}

/// What was found, and the operation that would have made it.
struct Found {
    asked: Asked,
    fields: cheops_rest::Fields,
    naming: Naming,
    parent: Option<ReplicantId>,
    path: String,
}

impl Replication {
    /// What adopting it would do.
    pub async fn plan_adoption(&self, wanted: &Adoption) -> Result<AdoptionPlan, NotDone> {
        let found = self.find_ordinary(wanted).await?;
        let here = &self.0.here;
        let others = wanted.sites.iter().filter(|site| *site != here);
        Ok(AdoptionPlan {
            service: wanted.service.clone(),
            kind: found.asked.kind,
            path: found.path,
            leader: here.clone(),
            joining: others.cloned().collect(),
            fields: found.fields.into_keys().collect(),
        })
    }

    /// Adopts it. This site leads.
    pub async fn adopt(&self, wanted: &Adoption) -> Result<Resource, NotDone> {
        let _turn = self.0.adopting.lock().await;
        let found = self.find_ordinary(wanted).await?;
        let here = &self.0.here;
        let id = lasting_id();
        let api = self.api(&wanted.service)?;
        let doubt = match api.doubt_by(&found.asked.kind) {
            cheops_rest::DoubtBy::Mark => DoubtBy::Mark,
            cheops_rest::DoubtBy::Match => DoubtBy::Match,
            cheops_rest::DoubtBy::Nothing => DoubtBy::Nothing,
        };
        let op = Operation {
            fields: found.fields,
            rest: wire::encode(&found.asked),
            ..Operation::new(id, ReplicantId::from(id), Kind::Create, here.clone())
        };
        let submission = Submission {
            doubt,
            handover: match wanted.failover {
                Some(Failover::Auto) => Handover::Auto,
                None => Handover::ByHand,
            },
            naming: found.naming,
            parent: found.parent,
            attempt: rand::random(),
            mode: Mode::Wait(ORDER_TIME_MAX.as_millis() as u64),
            ..Submission::new(op, wanted.sites.clone(), &wanted.service, 0)
        };
        let url = format!("ask for operation {:032x}", id.0);
        done(self.submit(submission).await, &url)?;
        let known = self.index().get(ReplicantId::from(id));
        let known = known.ok_or(NotDone::Gone)?;
        self.resource(&known).await.ok_or(NotDone::Gone)
    }

    fn api(&self, service: &str) -> Result<Arc<Api>, NotDone> {
        let missing = || NotDone::Refused(format!("this site runs no service `{service}`"));
        self.0.caller.api(service).ok_or_else(missing)
    }

    async fn find_ordinary(&self, wanted: &Adoption) -> Result<Found, NotDone> {
        let (service, local) = (wanted.service.as_str(), wanted.local_id.as_str());
        let api = self.api(service)?;
        if !wanted.sites.contains(&self.0.here) {
            return Err(NotDone::Refused(format!(
                "scope: {} has it and has to be one of its sites",
                self.0.here
            )));
        }
        if local.is_empty() || local.contains(|c: char| "/?#%".contains(c) || c.is_whitespace()) {
            return Err(NotDone::Refused("local_id: no id can be that".to_owned()));
        }
        let (path, shown) = self.shown(&api, wanted).await?;
        let meaning = api.classify("GET", &path);
        let Some(spot) = meaning
            .spot()
            .filter(|_| matches!(meaning, Meaning::Read(_)))
        else {
            return Err(NotDone::Refused(format!("{path} names no one resource")));
        };
        let known = self.index().find(service, local);
        if let Some(known) = known.filter(|known| cheops_rest::kinds_agree(&known.kind, spot.kind))
        {
            return Err(NotDone::Refused(format!(
                "it lives on several sites already, as {}; rescope that",
                known.meta
            )));
        }
        let (parent, collection) = self.above(service, spot)?;
        let fields = api.written_like(spot.kind, &shown.body, local);
        let mut fields = fields.map_err(|_| {
            NotDone::Refused(
                "what the service shows of it is not JSON: nobody can tell how to make it"
                    .to_owned(),
            )
        })?;
        fields.retain(|name, _| {
            !name
                .split('/')
                .any(|member| wanted.without.iter().any(|w| w == member))
        });
        let (naming, chosen) = match api.chosen(spot.kind) {
            Chosen::Never => (Naming::Adopted(local.to_owned()), None),
            Chosen::Once | Chosen::Again => (Naming::Kept(local.to_owned()), Some(local)),
        };
        let calls = api.create_calls(spot.kind, &collection, &fields, chosen, None);
        let first = calls.ok().and_then(|calls| calls.into_iter().next());
        let Some((call, CallBody::Json(body))) = first.map(|call| (call.clone(), call.body)) else {
            return Err(NotDone::Refused(format!(
                "the profile does not say how {} are made",
                spot.kind
            )));
        };
        if body.len() > ADOPTED_BYTES_MAX {
            return Err(NotDone::Refused(format!(
                "it is longer than {ADOPTED_BYTES_MAX} bytes, which is kept in a log"
            )));
        }
        let mut headers = wanted.headers.clone();
        let of_content = call
            .headers
            .into_iter()
            .filter(|(name, _)| name.starts_with("content-"));
        headers.extend(of_content.map(|(name, value)| (name, value.into_bytes())));
        let asked = Asked {
            method: call.method,
            path: call.target,
            headers,
            body,
            collection,
            kind: spot.kind.to_owned(),
            scope: Some(wanted.scope.clone()),
            created_ms: unix_ms(),
            content: None,
        };
        if let Some((needed, site)) = self.index().lacking(service, &api, &asked, &wanted.sites) {
            return Err(NotDone::Refused(format!(
                "{site} does not have {}, which it names; bring that there first",
                needed.meta
            )));
        }
        Ok(Found {
            asked,
            fields,
            naming,
            parent,
            path,
        })
    }

    /// What it lies below has to be known to all, and the collection is told in its name.
    fn above(
        &self,
        service: &str,
        spot: &Spot<'_>,
    ) -> Result<(Option<ReplicantId>, String), NotDone> {
        let Some((_, id)) = spot.parent else {
            return Ok((None, spot.collection.to_owned()));
        };
        let Some(parent) = self.index().find(service, id) else {
            return Err(NotDone::Refused(format!(
                "it lies below {id}, which lives here alone; adopt that first"
            )));
        };
        let named = format!("/{id}/");
        let collection = spot
            .collection
            .replacen(&named, &format!("/{}/", parent.meta), 1);
        Ok((Some(parent.id), collection))
    }

    /// Where the service shows it, and how.
    async fn shown(&self, api: &Api, wanted: &Adoption) -> Result<(String, LocalAnswer), NotDone> {
        let mut found: Option<(String, LocalAnswer)> = None;
        for path in self.places(api, wanted).await {
            let answer = self
                .0
                .caller
                .show(&wanted.service, &path, &wanted.headers)
                .await;
            let answer = answer.ok_or_else(|| {
                NotDone::NotNow(format!("{} of this site does not answer", wanted.service))
            })?;
            match (answer.status, &found) {
                (200..300, None) => found = Some((path, answer)),
                (200..300, Some((other, _))) => {
                    return Err(NotDone::Refused(format!(
                        "{other} and {path} are both there; say which with `path`"
                    )));
                }
                (401 | 403, _) => {
                    return Err(NotDone::Refused(format!(
                        "{path}: the service answered {}; give credentials with `headers`",
                        answer.status
                    )));
                }
                _ => (),
            }
        }
        found.ok_or_else(|| {
            NotDone::Refused(format!(
                "{} of this site shows no {}; say where it is with `path`",
                wanted.service, wanted.local_id
            ))
        })
    }

    /// Where it may be: as it was said, else in the collections of the profile, else in those that were seen,
    /// else in one that is called like the service.
    async fn places(&self, api: &Api, wanted: &Adoption) -> Vec<String> {
        if let Some(path) = &wanted.path {
            return vec![path.clone()];
        }
        let mut collections: Vec<String> = api.collections().collect();
        if collections.is_empty() {
            let service = wanted.service.clone();
            let seen = self.look_everywhere(move |site| {
                let of_service = site.glances().filter(|glance| glance.service() == service);
                let made = of_service.filter_map(|glance| glance.create().and_then(super::asked));
                // Below something else an id says nothing.
                let plain = made.map(|made| made.collection);
                plain
                    .filter(|at| at.matches('/').count() < 4)
                    .collect::<BTreeSet<_>>()
            });
            collections = seen.await.into_iter().flatten().collect();
            for name in [&wanted.service].into_iter().chain(&wanted.aliases) {
                collections.extend([format!("/{name}s"), format!("/{name}")]);
            }
        }
        collections.sort();
        collections.dedup();
        let place = |collection: String| format!("{collection}/{}", wanted.local_id);
        collections.into_iter().map(place).collect()
    }
}
