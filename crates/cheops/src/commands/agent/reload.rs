//! SIGHUP: the file is read again, and what changed is taken over without dropping a connection.
//!
//! All or nothing: a file that is wrong, or changes what cannot change while the agent runs, is
//! refused with a word in the log, and everything stays as it was.

use std::path::PathBuf;

use anyhow::bail;
use cheops_engine::LocalService;
use cheops_engine::mesh::Mesh;
use cheops_engine::replication::Replication;
use cheops_proxy::Proxy;
use tokio::sync::watch;

use super::backends::{Backends, Watched};
use super::{announcement, local, replicated};
use crate::config::Config;

/// A running agent, and what it runs by.
pub(super) struct Running {
    pub(super) file: PathBuf,
    pub(super) config: Config,
    pub(super) incarnation: u64,
    pub(super) proxy: Proxy,
    pub(super) mesh: Mesh,
    pub(super) local: watch::Sender<Vec<LocalService>>,
    pub(super) backends: Backends,
    /// What reports tell of.
    pub(super) watched: watch::Sender<Vec<Watched>>,
    pub(super) replication: Replication,
}

impl Running {
    /// Reads the file again and goes by it, or says why not.
    pub(super) async fn reload(&mut self) {
        match self.try_reload().await {
            Ok(()) => {
                let (services, listeners) =
                    (self.config.services.len(), self.config.listeners.len());
                tracing::info!(services, listeners, "configuration reloaded");
            }
            Err(fault) => {
                let fault = format!("{fault:#}");
                tracing::error!(fault, "configuration not reloaded; the old one stays");
            }
        }
    }

    async fn try_reload(&mut self) -> anyhow::Result<()> {
        let next = Config::load(&self.file)?;
        refuse_fixed(&self.config, &next)?;
        let said = announcement(&next, self.incarnation);
        said.check()?;
        let (proxy_config, backends) = self.backends.proxy_config(&next).await;
        let replicated = proxy_config.services.iter().map(replicated).collect();
        self.proxy.reload(proxy_config).await?;
        self.replication.set_services(replicated);
        self.replication.set_blobs(next.blobs.clone());
        self.backends = backends;
        self.watched.send_replace(self.backends.watched());
        self.local.send_replace(local(&next));
        self.mesh.announce(said).await?;
        self.config = next;
        Ok(())
    }
}

/// What an agent is started with stays until it is started again.
fn refuse_fixed(now: &Config, next: &Config) -> anyhow::Result<()> {
    let same = [
        ("site", now.site == next.site),
        ("data", now.data == next.data),
        ("threads", now.threads == next.threads),
        ("admin.listen", now.admin == next.admin),
        ("mesh.listen", now.mesh.listen == next.mesh.listen),
        ("mesh.identity", now.mesh.identity == next.mesh.identity),
        ("mesh.join", now.mesh.join == next.mesh.join),
        ("mesh.routes", now.mesh.routes == next.mesh.routes),
    ];
    match same.iter().find(|(_, same)| !same) {
        Some((key, _)) => bail!("key `{key}` changes with a restart only"),
        None => Ok(()),
    }
}
