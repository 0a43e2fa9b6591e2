//! Where clients come in: each service's own listener, the shared one, the forward proxy.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use cheops_engine::identity::listener_tls;
use cheops_proxy::{ClientLimits, Door, ListenerConfig, limits};

use super::raw::{RawClients, RawListener, RawTls};
use super::service::{ServiceSettings, time};
use super::{MeshSettings, address};

/// Every listener for clients.
pub(super) fn check(
    services: &[ServiceSettings],
    shared: Option<RawListener>,
    forward: Option<RawListener>,
) -> anyhow::Result<Vec<ListenerConfig>> {
    let own = |service: &ServiceSettings| {
        Some(ListenerConfig {
            key: format!("service.{}.listen", service.name),
            address: service.listen?,
            tls: service.tls.clone(),
            door: Door::Service(service.name.clone()),
        })
    };
    let mut all: Vec<ListenerConfig> = services.iter().filter_map(own).collect();
    let more = [
        ("shared", shared, Door::Shared),
        ("forward", forward, Door::Forward),
    ];
    for (section, raw, door) in more {
        let Some(raw) = raw else { continue };
        let key = format!("{section}.listen");
        all.push(ListenerConfig {
            address: address(&raw.listen, &key)?,
            tls: tls(raw.tls).with_context(|| format!("key `{section}.tls`"))?,
            key,
            door,
        });
    }
    Ok(all)
}

/// TLS of a listener.
pub(super) fn tls(raw: Option<RawTls>) -> anyhow::Result<Option<Arc<rustls::ServerConfig>>> {
    let read = raw.map(|raw| listener_tls(Path::new(&raw.cert), Path::new(&raw.key)));
    Ok(read.transpose()?)
}

/// No two may listen at one address.
pub(super) fn once(
    listeners: &[ListenerConfig],
    mesh: &MeshSettings,
    admin: SocketAddr,
) -> anyhow::Result<()> {
    let mut seen = vec![("admin.listen", admin), ("mesh.listen", mesh.listen)];
    seen.extend(listeners.iter().map(|l| (l.key.as_str(), l.address)));
    for (place, (key, address)) in seen.iter().enumerate() {
        let same = |(_, other): &&(&str, SocketAddr)| other == address && address.port() != 0;
        if let Some((first, _)) = seen[..place].iter().find(same) {
            bail!("key `{key}`: {address} is also `{first}`; each needs a port of its own");
        }
    }
    Ok(())
}

/// What clients may take.
pub(super) fn clients(raw: &RawClients) -> anyhow::Result<ClientLimits> {
    let connections = raw.connections.unwrap_or(limits::CLIENT_CONNECTIONS);
    let connections = NonZeroUsize::new(connections);
    Ok(ClientLimits {
        idle: time(raw.idle.as_deref(), limits::CLIENT_IDLE_TIME).context("`idle`")?,
        connections: connections.ok_or_else(|| anyhow!("`connections`: at least 1"))?,
    })
}
