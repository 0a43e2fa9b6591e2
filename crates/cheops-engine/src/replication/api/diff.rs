//! What the services of all sites answer for one resource, and where they differ.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::index::Known;
use super::super::wire::Asked;
use super::super::{LocalAnswer, Replication};
use super::asked;

/// Something to ask at another site: of its service, or of its agent (`/.cheops/v1/…`).
#[derive(Clone, Debug)]
pub struct Question {
    /// Where.
    pub site: SiteName,
    /// Whose listener it would be asked on.
    pub service: String,
    /// `GET`.
    pub method: &'static str,
    /// Path and query, in the ids that clients see.
    pub path: String,
    /// In whose name. Never shown.
    pub headers: Vec<(String, Vec<u8>)>,
    /// JSON, or nothing.
    pub body: Vec<u8>,
}

/// What was answered.
#[derive(Clone, Debug)]
pub struct SiteAnswer {
    /// As it was said.
    pub status: u16,
    /// Who said it.
    pub by: Said,
    /// In the ids that clients see.
    pub body: Vec<u8>,
}

/// Who answered a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The service.
    Service,
    /// The agent before it.
    Agent,
}

/// Asks another site, in bounded time. `Err` says why there is no answer.
pub type AskSite = Arc<
    dyn Fn(Question) -> Pin<Box<dyn Future<Output = Result<SiteAnswer, String>> + Send>>
        + Send
        + Sync,
>;

/// `GET /v1/resources/{id}/diff`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// What clients call it.
    pub id: String,
    /// Which API.
    pub service: String,
    /// What it is.
    pub kind: String,
    /// Whether all are the same in what clients wrote; null if some could not be asked and the
    /// others are.
    pub same: Option<bool>,
    /// What each site's service answers.
    pub sites: BTreeMap<SiteName, Shown>,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// One site's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// As its service said.
    pub status: Option<u16>,
    /// In the ids that clients see: JSON, else text.
    pub body: Value,
    /// Why it was not compared.
    pub error: Option<String>,
}

/// One field that is not the same everywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Its name.
    pub field: String,
    /// By site; null where there is none.
    pub values: BTreeMap<SiteName, Value>,
}

const GONE: [u16; 2] = [404, 410];

impl Replication {
    /// Asks every site's service. None if there is no record any more.
    pub async fn diff(&self, known: &Known, ask: &AskSite) -> Option<Diff> {
        let id = known.id;
        let seen = self.look(id, move |site| {
            let view = site.replicant(id)?;
            let create = view.create.as_ref().and_then(asked)?;
            let deleted = view.deleted;
            Some((create, view.desired, deleted, site.name().clone()))
        });
        let (create, desired, deleted, here) = seen.await.flatten()?;
        let answers = self.ask_all(known, &create, &here, ask).await;
        let mut diff = Diff {
            id: known.meta.to_string(),
            service: known.service.to_string(),
            kind: known.kind.to_string(),
            same: None,
            sites: BTreeMap::new(),
            differences: Vec::new(),
        };
        let mut bodies: Vec<(SiteName, Vec<u8>)> = Vec::new();
        let mut gone = Vec::new();
        for (site, answer) in answers {
            let shown = shown(&answer);
            match answer {
                Ok(said) if (200..300).contains(&said.status) => {
                    bodies.push((site.clone(), said.body));
                }
                Ok(said) if GONE.contains(&said.status) => gone.push(site.clone()),
                _ => (),
            }
            diff.sites.insert(site, shown);
        }
        let api = self.0.caller.api(&known.service)?;
        let raw: Vec<&[u8]> = bodies.iter().map(|(_, body)| body.as_slice()).collect();
        for found in api.diff(&known.kind, &raw, Some(&desired)) {
            let values = bodies.iter().zip(found.values);
            let value = |raw: Option<String>| raw.and_then(|raw| serde_json::from_str(&raw).ok());
            diff.differences.push(Difference {
                field: found.field,
                values: values
                    .map(|((site, _), raw)| (site.clone(), value(raw).unwrap_or_default()))
                    .collect(),
            });
        }
        let (there, missing) = match deleted {
            true => (gone.len(), bodies.len()),
            false => (bodies.len(), gone.len()),
        };
        diff.same = match (missing > 0 || !diff.differences.is_empty(), there) {
            (true, _) => Some(false),
            (false, there) if there == diff.sites.len() => Some(true),
            (false, _) => None,
        };
        Some(diff)
    }

    /// All at once: the slowest says how long it takes.
    async fn ask_all(
        &self,
        known: &Known,
        create: &Asked,
        here: &SiteName,
        ask: &AskSite,
    ) -> Vec<(SiteName, Result<LocalAnswer, String>)> {
        let collection = create.collection.trim_end_matches('/');
        let path = format!("{collection}/{}", known.meta);
        // What is kept to the byte is asked for in the form in which it was written.
        let api = self.0.caller.api(&known.service);
        let media = create.header("content-type");
        let media = media.filter(|_| api.is_some_and(|api| api.is_opaque(&create.kind)));
        let mut headers = create.rights();
        headers.extend(media.map(|media| ("accept".to_owned(), media.to_vec())));
        let mut asking = tokio::task::JoinSet::new();
        for site in known.sites.iter().filter(|site| *site != here) {
            let question = Question {
                site: site.clone(),
                service: known.service.to_string(),
                method: "GET",
                path: path.clone(),
                headers: headers.clone(),
                body: Vec::new(),
            };
            let (site, asked) = (site.clone(), ask(question));
            asking.spawn(async move { (site, asked.await) });
        }
        let mut answers = Vec::new();
        if known.sites.contains(here) {
            let own = self.read_local(known, create).await;
            let own = own.ok_or_else(|| match known.local {
                None => "it is not there yet".to_owned(),
                Some(_) => "the service did not answer".to_owned(),
            });
            answers.push((here.clone(), own));
        }
        while let Some(Ok((site, answer))) = asking.join_next().await {
            let answer = answer.and_then(|answer| match answer.by {
                Said::Service => Ok(LocalAnswer {
                    status: answer.status,
                    body: answer.body,
                    etag: None,
                    modified: None,
                }),
                Said::Agent => Err(detail(&answer)),
            });
            answers.push((site, answer));
        }
        answers
    }
}

/// What an agent's problem says.
fn detail(answer: &SiteAnswer) -> String {
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    match problem["detail"].as_str() {
        Some(detail) => detail.to_owned(),
        None => format!("its agent answered {}", answer.status),
    }
}

fn shown(answer: &Result<LocalAnswer, String>) -> Shown {
    let said = match answer {
        Ok(said) => said,
        Err(why) => {
            return Shown {
                status: None,
                body: Value::Null,
                error: Some(why.clone()),
            };
        }
    };
    let compared = (200..300).contains(&said.status) || GONE.contains(&said.status);
    let text = || Value::String(String::from_utf8_lossy(&said.body).into_owned());
    Shown {
        status: Some(said.status),
        body: serde_json::from_slice(&said.body).unwrap_or_else(|_| text()),
        error: (!compared).then(|| format!("the service answered {}", said.status)),
    }
}
