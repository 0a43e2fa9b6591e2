//! One file per command.

pub(crate) mod agent;
pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod lint;
pub(crate) mod replicas;
pub(crate) mod rtt;
pub(crate) mod scope;
pub(crate) mod site;
mod stage;
pub(crate) mod status;

/// Runs a command that asks over the network.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}
