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
    /// A plan that this version does not carry out.
    NotImplemented(String),
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
            Problem::ForbiddenByPolicy(_) => StatusCode::FORBIDDEN,
            Problem::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
            Problem::NotFound(_) => StatusCode::NOT_FOUND,
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
            Problem::NotImplemented(_) => "not-implemented",
            Problem::BadRequest(_) => "bad-request",
            Problem::NotFound(_) => "not-found",
            Problem::Overloaded { .. } | Problem::TooManyConnections => "overloaded",
            Problem::CircuitOpen { .. } => "circuit-open",
        }
    }

    /// True if the service cannot have seen the request.
    pub(crate) fn nothing_happened(&self) -> bool {
        !matches!(self, Problem::OutcomeUnknown { .. })
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
            Problem::NotImplemented(_) => "not built yet",
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
            | Problem::BadRequest(detail)
            | Problem::NotFound(detail)
            | Problem::NotImplemented(detail) => detail.clone(),
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
            | Problem::OutcomeUnknown { site, .. } => vec![site.as_str()],
            Problem::NoUsableSite(sites) => sites.iter().map(SiteName::as_str).collect(),
            Problem::Scope(_)
            | Problem::Loop(_)
            | Problem::ScopeAmbiguous(_)
            | Problem::ForbiddenByPolicy(_)
            | Problem::NotImplemented(_)
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
