//! Waiting until every site has everything.

use std::time::Duration;

use anyhow::bail;
use cheops_control::client::Client;
use cheops_engine::api::Sites;
use tokio::time::{Instant, sleep};

use super::super::stage::Stage;

/// How far the sites of a stage are behind, as the first one knows.
pub(super) async fn behind(stage: &Stage) -> anyhow::Result<u64> {
    let client = Client::new(&stage.sites[0].admin.to_string());
    let (_, body) = client.get("/v1/sites").await?;
    let sites: Sites = serde_json::from_slice(&body)?;
    Ok(sites
        .items
        .iter()
        .map(|site| site.behind + site.queued)
        .sum())
}

/// Waits until no site is behind.
pub(super) async fn wait(stage: &Stage, patience: Duration) -> anyhow::Result<()> {
    let until = Instant::now() + patience;
    loop {
        let left = behind(stage).await?;
        if left == 0 {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("{left} operations are still on their way after {patience:?}");
        }
        sleep(Duration::from_millis(20)).await;
    }
}
