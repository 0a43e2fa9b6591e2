//! Carries a plan out: here, at another site, or at the first of several that can be used.

use cheops_model::SiteName;
use http::{Response, StatusCode};

use crate::body::{Body, Kept};
use crate::correlation::Trail;
use crate::headers;
use crate::here::Call;
use crate::peer;
use crate::problem::Problem;
use crate::pulse::Patience;
use crate::replicate;
use crate::scope::Route;
use crate::service::Service;
use crate::worker::Worker;

/// What is known of the request besides itself.
pub(crate) struct Journey<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) service: &'a Service,
    pub(crate) trail: Option<&'a Trail>,
    /// How long the service may take.
    pub(crate) patience: Patience,
}

impl Journey<'_> {
    pub(crate) async fn take(&self, route: &Route, call: Call) -> Result<Response<Body>, Problem> {
        match route {
            Route::Here => self.to_this_site(call).await,
            Route::Site(site) => self.to(site, call).await,
            Route::FirstOf(sites) => self.to_first_of(sites, call).await,
            Route::Replicate(spread) => replicate::spread(self, spread, call).await,
            Route::Queue(queue) => replicate::carry(self, queue, call).await,
            Route::NotYet(plan) => Err(Problem::NotImplemented(format!(
                "no agent carries out {plan} yet"
            ))),
        }
    }

    async fn to_this_site(&self, call: Call) -> Result<Response<Body>, Problem> {
        replicate::here(self, call).await
    }

    pub(crate) async fn to(&self, site: &SiteName, call: Call) -> Result<Response<Body>, Problem> {
        if *site == self.worker.here {
            return self.to_this_site(call).await;
        }
        peer::send(self, site, call).await
    }

    pub(crate) async fn to_first_of(
        &self,
        sites: &[SiteName],
        call: Call,
    ) -> Result<Response<Body>, Problem> {
        let picture = self.worker.picture();
        let usable: Vec<_> = sites
            .iter()
            .filter(|site| picture.usable(site, &self.service.config.name))
            .collect();
        let Some((last, earlier)) = usable.split_last() else {
            return Err(Problem::NoUsableSite(sites.to_vec()));
        };
        // Whoever was left out is as much out of reach as the last one tried.
        let none = |problem| match problem {
            Problem::SiteUnreachable(_) => Problem::NoUsableSite(sites.to_vec()),
            other => other,
        };
        if earlier.is_empty() {
            return self.to(last, call).await.map_err(none);
        }
        let mut kept = match call.body {
            Body::Request(incoming, pulse) => Kept::new(incoming, pulse),
            body => return self.to(usable[0], Call { body, ..call }).await,
        };
        let Call {
            head,
            upgrade,
            asker,
            has_baggage,
            ..
        } = call;
        let repeatable = head.method.is_idempotent();
        for site in earlier {
            let try_one = Call {
                head: head.clone(),
                body: Body::Kept(kept.clone()),
                upgrade: upgrade.clone(),
                asker,
                has_baggage,
            };
            let outcome = self.to(site, try_one).await;
            match (self.falls_through(&outcome, repeatable), kept.again()) {
                (true, Some(again)) => kept = again,
                _ => return outcome,
            }
        }
        let last_try = Call {
            head,
            body: Body::Kept(kept),
            upgrade,
            asker,
            has_baggage,
        };
        self.to(last, last_try).await.map_err(none)
    }

    /// Whether the next site is tried: only if the request cannot have been executed, or may be
    /// executed twice.
    fn falls_through(&self, outcome: &Result<Response<Body>, Problem>, repeatable: bool) -> bool {
        match outcome {
            Err(Problem::SiteUnreachable(_) | Problem::ServiceNotAtSite { .. }) => true,
            Err(Problem::ServiceFailed { .. }) => true,
            Err(Problem::Overloaded { .. } | Problem::CircuitOpen { .. }) => true,
            Err(Problem::OutcomeUnknown { .. }) => repeatable,
            Err(_) => false,
            Ok(response) => {
                let status = response.status();
                let gateway = matches!(
                    status,
                    StatusCode::BAD_GATEWAY
                        | StatusCode::SERVICE_UNAVAILABLE
                        | StatusCode::GATEWAY_TIMEOUT
                );
                let unharmed = response.headers().contains_key(headers::NOTHING_HAPPENED);
                self.service.config.no_room.contains(&status)
                    || (gateway && (repeatable || unharmed))
            }
        }
    }
}
