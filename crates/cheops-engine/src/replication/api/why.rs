//! Why a resource or an operation is where and how it is, in sentences.

use cheops_model::SiteName;
use serde::{Deserialize, Serialize};

use super::{OperationItem, Replica, Resource, SiteStep};

/// `GET /v1/why/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasons {
    /// What was asked for.
    pub id: String,
    /// `resource` or `operation`.
    pub about: String,
    /// Which API.
    pub service: Option<String>,
    /// The scope it came with.
    pub scope: Option<String>,
    /// What there is to say, site by site.
    pub reasons: Vec<Reason>,
}

/// One thing, and why it is so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Where; null for what holds everywhere.
    pub site: Option<SiteName>,
    /// In one word.
    pub state: String,
    /// In a sentence.
    pub why: String,
    /// A command that may help.
    pub next: Option<String>,
}

impl Reasons {
    /// Of a resource.
    pub fn of_resource(resource: &Resource) -> Reasons {
        let sites: Vec<&str> = resource.replicas.keys().map(SiteName::as_str).collect();
        let scope = resource.scope.as_deref().unwrap_or("not known any more");
        let mut reasons = vec![
            everywhere(
                "placed",
                format!("its scope is `{scope}`: it lives on {}", sites.join(", ")),
            ),
            everywhere(
                "led",
                format!(
                    "{} orders its operations, in epoch {}",
                    resource.leader, resource.epoch
                ),
            ),
        ];
        if resource.conflicts > 0 {
            reasons.push(Reason {
                next: Some("cheops conflict ls".to_owned()),
                ..everywhere(
                    "conflict",
                    format!("{} parked: somebody has to decide", resource.conflicts),
                )
            });
        }
        let replicas = resource.replicas.iter();
        reasons.extend(replicas.map(|(site, replica)| of_replica(resource, site, replica)));
        Reasons {
            id: resource.id.clone(),
            about: "resource".to_owned(),
            service: Some(resource.service.clone()),
            scope: resource.scope.clone(),
            reasons,
        }
    }

    /// Of an operation, with the scope it came with.
    pub fn of_operation(item: &OperationItem, scope: Option<String>) -> Reasons {
        let said = (item.method.as_deref()).zip(item.path.as_deref());
        let said = said.map_or_else(
            || "its request is not known any more".to_owned(),
            |(method, path)| format!("somebody asked for {method} {path}"),
        );
        let mut reasons = vec![everywhere("asked", said)];
        reasons.push(match item.position {
            Some(position) => everywhere("ordered", format!("it has position {position}")),
            None => everywhere(
                "unordered",
                "it has no position, or all have done it".to_owned(),
            ),
        });
        let steps = item.sites.iter();
        reasons.extend(steps.map(|(site, step)| of_step(item, site, step)));
        Reasons {
            id: item.id.clone(),
            about: "operation".to_owned(),
            service: item.service.clone(),
            scope,
            reasons,
        }
    }
}

fn everywhere(state: &str, why: String) -> Reason {
    Reason {
        site: None,
        state: state.to_owned(),
        why,
        next: None,
    }
}

fn of_replica(resource: &Resource, site: &SiteName, replica: &Replica) -> Reason {
    let (at, last) = (replica.position, resource.position);
    let mend = |how: &str| {
        let id = &resource.id;
        Some(format!(
            "cheops resource repair {id} --site {site} --how {how}"
        ))
    };
    let (why, next) = match (replica.state.as_str(), &replica.waiting) {
        ("diverged", Some(why)) => (why.clone(), mend("retry|skip|settle")),
        ("in-doubt", Some(why)) => (why.clone(), mend("retry|skip|settle")),
        ("diverged", None) => ("an operation was skipped here".to_owned(), mend("settle")),
        (_, Some(why)) => (
            why.clone(),
            Some(format!("cheops op ls --resource {}", resource.id)),
        ),
        ("pending", None) => ("it was not made there yet".to_owned(), None),
        ("deleted", None) => ("clients have deleted it".to_owned(), None),
        _ if at < last => (
            format!("it has {at} of {last} operations; the rest is on its way"),
            None,
        ),
        _ => (format!("it has all {last} operations"), None),
    };
    Reason {
        site: Some(site.clone()),
        state: replica.state.clone(),
        why,
        next,
    }
}

fn of_step(item: &OperationItem, site: &SiteName, step: &SiteStep) -> Reason {
    let usual = || match step.state.as_str() {
        "prepared" => "its service is being asked whether it will".to_owned(),
        "queued" => "it is not there yet".to_owned(),
        "sent" => "it is there, and next".to_owned(),
        "applied" => match step.status {
            Some(status) => format!("its service answered {status}"),
            None => "its service has done it".to_owned(),
        },
        "covered" => "its effect is there by another way".to_owned(),
        "void" => "there was nothing to do".to_owned(),
        "cancelled" => "it was given up before any site was called".to_owned(),
        _ => "nothing more is known".to_owned(),
    };
    let stuck = matches!(step.state.as_str(), "refused" | "waiting" | "in-doubt");
    Reason {
        site: Some(site.clone()),
        state: step.state.clone(),
        why: step.error.clone().unwrap_or_else(usual),
        next: stuck.then(|| format!("cheops op retry {}", item.id)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_stuck_is_told_with_what_may_help() {
        let site = |name: &str| SiteName::new(name).unwrap();
        let step = |state: &str, error: Option<&str>| SiteStep {
            state: state.to_owned(),
            status: None,
            attempts: None,
            next_try: None,
            error: error.map(str::to_owned),
            received: None,
        };
        let item = OperationItem {
            id: "7".to_owned(),
            resource: None,
            service: None,
            kind: None,
            method: None,
            path: None,
            created: None,
            expires: None,
            position: Some(3),
            content: None,
            sites: BTreeMap::from([
                (site("a"), step("applied", None)),
                (site("b"), step("waiting", Some("credentials"))),
            ]),
        };
        let told = Reasons::of_operation(&item, None);
        let last = told.reasons.last().unwrap();
        assert_eq!(last.why, "credentials");
        assert_eq!(last.next.as_deref(), Some("cheops op retry 7"));
        assert_eq!(told.reasons[2].why, "its service has done it");
        assert_eq!(told.reasons[2].next, None);
    }
}
