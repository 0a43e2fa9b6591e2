//! Bounds of calls, and which requests are for which service where several share an address.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cheops_model::ServiceName;
use cheops_proxy::{Breaker, CallLimits, Claim, HostClaim, PathClaim, limits};

use super::raw::RawCalls;
use super::service::{Backend, time};

/// Calls of this site's own service: unbounded unless told otherwise. A service that is gone says
/// so itself, at once.
pub(super) fn local(raw: &RawCalls) -> anyhow::Result<CallLimits> {
    check(raw, 0, 0, limits::REMOTE_PAUSE)
}

/// Calls of a service at another site.
pub(super) fn remote(raw: &RawCalls) -> anyhow::Result<CallLimits> {
    let (concurrency, failures) = (limits::REMOTE_CONCURRENCY, limits::REMOTE_FAILURES);
    check(raw, concurrency, failures, limits::REMOTE_PAUSE)
}

/// Zero means no bound.
fn check(
    raw: &RawCalls,
    concurrency: u32,
    failures: u32,
    pause: Duration,
) -> anyhow::Result<CallLimits> {
    let pause = time(raw.pause.as_deref(), pause).context("`pause`")?;
    let failures = NonZeroU32::new(raw.failures.unwrap_or(failures));
    Ok(CallLimits {
        concurrency: NonZeroU32::new(raw.concurrency.unwrap_or(concurrency)),
        breaker: failures.map(|failures| Breaker { failures, pause }),
    })
}

/// What a service answers for, besides at its own listener.
pub(super) fn claim(
    name: &ServiceName,
    aliases: &[ServiceName],
    hosts: &[String],
    paths: &[String],
    backend: &Backend,
) -> anyhow::Result<Claim> {
    let host = |text: &String| {
        text.parse::<HostClaim>()
            .map_err(|fault| anyhow!("{fault}"))
    };
    let path = |text: &String| {
        text.parse::<PathClaim>()
            .map_err(|fault| anyhow!("{fault}"))
    };
    let really: Vec<String> = match backend {
        Backend::Addresses(addresses) => addresses.iter().map(ToString::to_string).collect(),
        Backend::Names(names) => names.clone(),
    };
    // A name may have blanks, which no host has: such a service is reached by its `hosts`.
    let names = std::iter::once(name).chain(aliases);
    let names = names.filter_map(|name| name.as_str().parse::<HostClaim>().ok());
    let really = really
        .iter()
        .map(host)
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Claim {
        hosts: hosts.iter().map(host).collect::<anyhow::Result<_>>()?,
        paths: paths.iter().map(path).collect::<anyhow::Result<_>>()?,
        known_as: names.chain(really).collect(),
    })
}

/// A service that nothing leads to is a mistake, and so are two that claim the same.
pub(super) fn reachable(
    services: &[super::ServiceSettings],
    shared: bool,
    forward: bool,
) -> anyhow::Result<()> {
    for service in services {
        let claims = !service.claim.hosts.is_empty() || !service.claim.paths.is_empty();
        let name = &service.name;
        if claims && !shared && !forward {
            bail!(
                "key `service.{name}`: `hosts` and `paths` are for `[shared]` or `[forward]`, and neither is there"
            );
        }
        if service.listen.is_none() && !(shared && claims) && !forward {
            bail!("key `service.{name}.listen` is missing, and no shared listener leads to it");
        }
    }
    let claims = services
        .iter()
        .map(|service| (&service.name, &service.claim));
    match cheops_proxy::same_claim(claims) {
        Some((one, two)) => bail!("key `service.{two}`: it claims the same host and path as {one}"),
        None => Ok(()),
    }
}
