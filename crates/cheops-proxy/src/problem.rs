//! Errors of the agent itself, as RFC 9457 problems. The only place here that chooses a status.

use std::time::Duration;

use bytes::Bytes;
use cheops_model::{ServiceName, SiteName};
use cheops_scope::ScopeError;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::body::Body;
use crate::guard::Refusal;
use crate::headers;

/// What went wrong; the words are part of the contract.
#[derive(Clone, Debug)]
pub(crate) enum Problem {
    /// The scope is wrong; nothing happened.
    Scope(Box<ScopeError>),
    /// Another site cannot be reached; nothing happened and nothing will.
    SiteUnreachable(SiteName),
    /// No site of an `a; b` can be used; nothing happened and nothing will.
    NoUsableSite(Vec<SiteName>),
    /// That site does not run the service.
    ServiceNotAtSite { service: String, site: SiteName },
    /// The service could not be called or gave no answer; nothing happened.
    ServiceFailed { site: SiteName, detail: String },
    /// Sent, and no answer: it may still happen.
    OutcomeUnknown { site: SiteName, detail: String },
    /// The request came back to where it was, or the workflow calls itself for ever.
    Loop(String),
    /// Two live scopes meet on one correlation value.
    ScopeAmbiguous(String),
    /// This site does not allow it.
    ForbiddenByPolicy(String),
    /// Sites are in a tree, and it goes another way than down.
    ForbiddenByTopology(String),
    /// A plan that this version does not carry out.
    NotImplemented(String),
    /// An id of this mesh that this site has no record of.
    UnknownReplicant { id: String },
    /// It was deleted.
    Gone { id: String },
    /// This site's replica is not there yet.
    ReplicaPending { id: String, sites: Vec<SiteName> },
    /// Only that site orders its operations, and cannot be reached; nothing happened.
    NotLeader(SiteName),
    /// Nothing happened and nothing will; later it may.
    NotNow(String),
    /// Sent, and no answer: the operation can be asked for.
    OperationUnknown { operation: String },
    /// Somebody else has changed what it changes, or decided otherwise.
    Conflict(String),
    /// The id that the client chose is in use.
    IdTaken,
    /// It names something that one of its sites does not have.
    Lacking { id: String, site: SiteName },
    /// A change under `a & b` to what is no replicant.
    NoReplicant,
    /// The sites run different versions of the service.
    VersionMismatch(String),
    /// The disk is full.
    NoRoom,
    /// The resource is not as the client saw it.
    PreconditionFailed,
    /// Another request had the same key.
    KeyReused,
    /// The body is not what it should be.
    BadBody(String),
    /// The body is longer than is replicated.
    BodyTooLarge { bytes_max: usize },
    /// The request is not one of HTTP.
    BadRequest(String),
    /// Nothing here answers for it.
    NotFound(String),
    /// As many calls as may be are under way there; nothing happened.
    Overloaded {
        service: ServiceName,
        site: SiteName,
    },
    /// The service there gave no answer lately; nothing happened.
    CircuitOpen {
        service: ServiceName,
        site: SiteName,
        left: Duration,
    },
    /// As many clients as may be are connected.
    TooManyConnections,
}

#[derive(Serialize)]
struct Wire<'a> {
    r#type: String,
    code: &'a str,
    title: &'a str,
    status: u16,
    detail: String,
    sites: Vec<&'a str>,
    #[serde(flatten)]
    scope: Option<ScopeMembers<'a>>,
}

#[derive(Serialize)]
struct ScopeMembers<'a> {
    position: cheops_scope::Span,
    expected: &'a [String],
    suggestion: &'a Option<String>,
}

impl Problem {
    /// A call that its bounds did not allow.
    pub(crate) fn refused(refusal: Refusal, service: &ServiceName, site: &SiteName) -> Problem {
        let (service, site) = (service.clone(), site.clone());
        match refusal {
            Refusal::Overloaded => Problem::Overloaded { service, site },
            Refusal::Open(left) => Problem::CircuitOpen {
                service,
                site,
                left,
            },
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Problem::Scope(_) | Problem::ServiceNotAtSite { .. } | Problem::BadRequest(_) => {
                StatusCode::BAD_REQUEST
            }
            Problem::SiteUnreachable(_)
            | Problem::NoUsableSite(_)
            | Problem::Overloaded { .. }
            | Problem::CircuitOpen { .. }
            | Problem::TooManyConnections => StatusCode::SERVICE_UNAVAILABLE,
            Problem::ServiceFailed { .. } => StatusCode::BAD_GATEWAY,
            Problem::OutcomeUnknown { .. } => StatusCode::GATEWAY_TIMEOUT,
            Problem::Loop(_) => StatusCode::LOOP_DETECTED,
            Problem::ScopeAmbiguous(_) => StatusCode::CONFLICT,
            Problem::ForbiddenByPolicy(_) | Problem::ForbiddenByTopology(_) => {
                StatusCode::FORBIDDEN
            }
            Problem::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
            Problem::NotFound(_) | Problem::UnknownReplicant { .. } | Problem::Gone { .. } => {
                StatusCode::NOT_FOUND
            }
            Problem::ReplicaPending { .. } | Problem::NotLeader(_) | Problem::NotNow(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Problem::OperationUnknown { .. } => StatusCode::GATEWAY_TIMEOUT,
            Problem::Conflict(_)
            | Problem::IdTaken
            | Problem::NoReplicant
            | Problem::VersionMismatch(_) => StatusCode::CONFLICT,
            Problem::NoRoom => StatusCode::INSUFFICIENT_STORAGE,
            Problem::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Problem::KeyReused | Problem::Lacking { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Problem::BadBody(_) => StatusCode::BAD_REQUEST,
            Problem::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    pub(crate) fn code(&self) -> &'static str {
        match self {
            Problem::Scope(error) => error.kind.word(),
            Problem::SiteUnreachable(_) => "site-unreachable",
            Problem::NoUsableSite(_) => "no-usable-site",
            Problem::ServiceNotAtSite { .. } => "service-not-at-site",
            Problem::ServiceFailed { .. } => "service-failed",
            Problem::OutcomeUnknown { .. } => "outcome-unknown",
            Problem::Loop(_) => "loop",
            Problem::ScopeAmbiguous(_) => "scope-ambiguous",
            Problem::ForbiddenByPolicy(_) => "forbidden-by-policy",
            Problem::ForbiddenByTopology(_) => "forbidden-by-topology",
            Problem::NotImplemented(_) => "not-implemented",
            Problem::UnknownReplicant { .. } | Problem::Gone { .. } | Problem::Lacking { .. } => {
                "unknown-replicant"
            }
            Problem::ReplicaPending { .. } => "replica-pending",
            Problem::NotLeader(_) => "not-leader",
            Problem::NotNow(_) => "no-usable-site",
            Problem::OperationUnknown { .. } => "outcome-unknown",
            Problem::Conflict(_) | Problem::NoReplicant => "conflict",
            Problem::IdTaken => "id-taken",
            Problem::VersionMismatch(_) => "version-mismatch",
            Problem::NoRoom | Problem::BodyTooLarge { .. } => "no-room",
            Problem::PreconditionFailed => "precondition-failed",
            Problem::KeyReused => "key-reused",
            Problem::BadBody(_) => "bad-body",
            Problem::BadRequest(_) => "bad-request",
            Problem::NotFound(_) => "not-found",
            Problem::Overloaded { .. } | Problem::TooManyConnections => "overloaded",
            Problem::CircuitOpen { .. } => "circuit-open",
        }
    }

    /// True if the service cannot have seen the request.
    pub(crate) fn nothing_happened(&self) -> bool {
        !matches!(
            self,
            Problem::OutcomeUnknown { .. } | Problem::OperationUnknown { .. }
        )
    }

    fn title(&self) -> &str {
        match self {
            Problem::Scope(error) => &error.title,
            Problem::SiteUnreachable(_) => "the site cannot be reached; nothing happened",
            Problem::NoUsableSite(_) => "no site of the scope can be used; nothing happened",
            Problem::ServiceNotAtSite { .. } => "the site does not run this service",
            Problem::ServiceFailed { .. } => "the service failed",
            Problem::OutcomeUnknown { .. } => "no answer in time; it may still happen",
            Problem::Loop(_) => "the request goes round in circles",
            Problem::ScopeAmbiguous(_) => "two scopes share one correlation value",
            Problem::ForbiddenByPolicy(_) => "this site does not allow it",
            Problem::ForbiddenByTopology(_) => "operations go down the tree of sites",
            Problem::NotImplemented(_) => "not built yet",
            Problem::UnknownReplicant { .. } => "this site has no record of it",
            Problem::Gone { .. } => "it was deleted",
            Problem::ReplicaPending { .. } => "it is not on this site yet",
            Problem::NotLeader(_) => "its leader cannot be reached; nothing happened",
            Problem::NotNow(_) => "not now; nothing happened",
            Problem::OperationUnknown { .. } => "no answer in time; it may still happen",
            Problem::Conflict(_) => "in conflict with another change",
            Problem::IdTaken => "the id is taken",
            Problem::NoReplicant => "it names no replicated resource",
            Problem::Lacking { .. } => "a site does not have what it names",
            Problem::VersionMismatch(_) => "the sites run different versions",
            Problem::NoRoom => "no room on disk; nothing happened",
            Problem::PreconditionFailed => "it has changed since",
            Problem::KeyReused => "another request had this Idempotency-Key",
            Problem::BadBody(_) => "the body cannot be read",
            Problem::BodyTooLarge { .. } => "the body is too long to be replicated",
            Problem::BadRequest(_) => "not a request that can be passed on",
            Problem::NotFound(_) => "nothing here answers for it",
            Problem::Overloaded { .. } | Problem::TooManyConnections => {
                "too much at once; nothing happened"
            }
            Problem::CircuitOpen { .. } => "the service gave no answer lately; nothing happened",
        }
    }

    fn detail(&self) -> String {
        match self {
            Problem::Scope(error) => match &error.suggestion {
                Some(meant) => format!("{}; did you mean `{meant}`?", error.title),
                None => error.title.clone(),
            },
            Problem::SiteUnreachable(site) => {
                format!("{site} is cut off; name another site, or `{site}; other` to fall back")
            }
            Problem::NoUsableSite(sites) => {
                let names: Vec<_> = sites.iter().map(SiteName::as_str).collect();
                format!("none of {} can be used now", names.join(", "))
            }
            Problem::ServiceNotAtSite { service, site } => {
                format!("{site} announces no service `{service}`; name a site that runs it")
            }
            Problem::ServiceFailed { detail, .. } | Problem::OutcomeUnknown { detail, .. } => {
                detail.clone()
            }
            Problem::Loop(detail)
            | Problem::ScopeAmbiguous(detail)
            | Problem::ForbiddenByPolicy(detail)
            | Problem::ForbiddenByTopology(detail)
            | Problem::BadRequest(detail)
            | Problem::NotFound(detail)
            | Problem::NotImplemented(detail) => detail.clone(),
            Problem::UnknownReplicant { id } => {
                format!(
                    "{id} is of this mesh and not on this site; name one of its sites in the scope"
                )
            }
            Problem::Gone { id } => format!("{id} was deleted"),
            Problem::ReplicaPending { id, sites } => {
                let names: Vec<_> = sites.iter().map(SiteName::as_str).collect();
                format!("{id} is on its way; {} has it", names.join(", "))
            }
            Problem::NotLeader(leader) => format!(
                "{leader} orders its operations and is cut off; `Prefer: respond-async` leaves the request with this site"
            ),
            Problem::OperationUnknown { operation } => {
                format!("ask for /.cheops/v1/operations/{operation}")
            }
            Problem::NotNow(detail)
            | Problem::Conflict(detail)
            | Problem::VersionMismatch(detail)
            | Problem::BadBody(detail) => detail.clone(),
            Problem::NoReplicant => {
                "make it with `a & b`, or take it in with `cheops resource adopt`".to_owned()
            }
            Problem::Lacking { id, site } => {
                format!(
                    "{site} does not have {id}; bring that there with `cheops resource rescope`, or name other sites"
                )
            }
            Problem::IdTaken => "what has it is not overwritten; choose another id".to_owned(),
            Problem::NoRoom => "make room on this site's disk".to_owned(),
            Problem::PreconditionFailed => "read it again".to_owned(),
            Problem::KeyReused => "a key stands for one request; use another".to_owned(),
            Problem::BodyTooLarge { bytes_max } => {
                format!("at most {bytes_max} bytes are kept in a log")
            }
            Problem::Overloaded { service, site } => {
                format!("{service} of {site} has as many calls under way as may be; try again")
            }
            Problem::CircuitOpen { service, site, .. } => {
                format!(
                    "{service} of {site} gave no answer to the last calls; it is tried again soon"
                )
            }
            Problem::TooManyConnections => "too many clients are connected".to_owned(),
        }
    }

    /// In whole seconds, as HTTP wants it.
    fn retry_after(&self) -> HeaderValue {
        match self {
            Problem::CircuitOpen { left, .. } => {
                let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                HeaderValue::from(seconds.max(1))
            }
            Problem::Overloaded { .. } | Problem::TooManyConnections => HeaderValue::from(1),
            _ => HeaderValue::from(2),
        }
    }

    fn sites(&self) -> Vec<&str> {
        match self {
            Problem::SiteUnreachable(site)
            | Problem::ServiceNotAtSite { site, .. }
            | Problem::ServiceFailed { site, .. }
            | Problem::Overloaded { site, .. }
            | Problem::CircuitOpen { site, .. }
            | Problem::Lacking { site, .. }
            | Problem::OutcomeUnknown { site, .. } => vec![site.as_str()],
            Problem::NotLeader(site) => vec![site.as_str()],
            Problem::NoUsableSite(sites) | Problem::ReplicaPending { sites, .. } => {
                sites.iter().map(SiteName::as_str).collect()
            }
            Problem::Scope(_)
            | Problem::Loop(_)
            | Problem::ScopeAmbiguous(_)
            | Problem::ForbiddenByPolicy(_)
            | Problem::ForbiddenByTopology(_)
            | Problem::NotImplemented(_)
            | Problem::UnknownReplicant { .. }
            | Problem::Gone { .. }
            | Problem::NotNow(_)
            | Problem::OperationUnknown { .. }
            | Problem::Conflict(_)
            | Problem::IdTaken
            | Problem::NoReplicant
            | Problem::VersionMismatch(_)
            | Problem::NoRoom
            | Problem::PreconditionFailed
            | Problem::KeyReused
            | Problem::BadBody(_)
            | Problem::BodyTooLarge { .. }
            | Problem::BadRequest(_)
            | Problem::TooManyConnections
            | Problem::NotFound(_) => Vec::new(),
        }
    }

    /// The answer to the client, or to the agent that forwarded the request.
    pub(crate) fn into_response(self) -> Response<Body> {
        let scope = match &self {
            Problem::Scope(error) => Some(ScopeMembers {
                position: error.position,
                expected: &error.expected,
                suggestion: &error.suggestion,
            }),
            _ => None,
        };
        let wire = Wire {
            r#type: format!("urn:cheops:problem:{}", self.code()),
            code: self.code(),
            title: self.title(),
            status: self.status().as_u16(),
            detail: self.detail(),
            sites: self.sites(),
            scope,
        };
        let text = serde_json::to_vec(&wire).unwrap_or_default();
        let mut response = Response::new(Body::full(Bytes::from(text)));
        *response.status_mut() = self.status();
        let out = response.headers_mut();
        out.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            out.insert(header::RETRY_AFTER, self.retry_after());
        }
        if let Problem::OperationUnknown { operation } = &self {
            let url = crate::replicate::operation_url(operation);
            headers::put(out, headers::OPERATION, operation);
            headers::put(out, headers::OPERATION_URL, &url);
        }
        if self.nothing_happened() {
            out.insert(headers::NOTHING_HAPPENED, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<ScopeError> for Problem {
    fn from(error: ScopeError) -> Problem {
        Problem::Scope(Box::new(error))
    }
}
