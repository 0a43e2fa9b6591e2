//! `cheops wait`: for scripts. Exit 0 when it has come to be, 1 when it has not in time.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use cheops_control::client::Client;
use cheops_engine::api::Sites;
use cheops_engine::replication::api::{List, OperationItem, Resource};

use super::{escape, get};
use crate::cli::replicas::{WaitArgs, What};
use crate::commands::block_on;
use crate::terminal;

/// How often is asked: a person does not notice, an agent does not mind.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &WaitArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client = args.admin.client();
        let until = Instant::now() + args.timeout;
        loop {
            let missing = match args.what {
                What::Converged => diverging(&client, &args.names).await?,
                What::Connected => disconnected(&client, &args.names).await?,
            };
            let Some(missing) = missing else {
                return Ok(ExitCode::SUCCESS);
            };
            if Instant::now() >= until {
                terminal::error(&format!("not within {:?}: {missing}", args.timeout));
                return Ok(ExitCode::from(1));
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// What is not the same everywhere yet.
async fn diverging(client: &Client, names: &[String]) -> anyhow::Result<Option<String>> {
    for name in names {
        let resource: Resource = get(client, &format!("/v1/resources/{}", escape(name))).await?;
        if !resource.converged {
            return Ok(Some(format!(
                "{name} is not the same everywhere; see `cheops resource show {name}`"
            )));
        }
    }
    if !names.is_empty() {
        return Ok(None);
    }
    let late: List<Resource> = get(client, "/v1/resources?converged=false&limit=1").await?;
    if let Some(resource) = late.items.first() {
        let id = &resource.id;
        return Ok(Some(format!(
            "{id} is not the same everywhere; see `cheops resource ls`"
        )));
    }
    // What has no name yet, or waits for a leader, is no resource's business.
    for state in ["prepared", "queued"] {
        let path = format!("/v1/operations?state={state}&limit=1");
        let open: List<OperationItem> = get(client, &path).await?;
        if let Some(op) = open.items.first() {
            let id = &op.id;
            return Ok(Some(format!(
                "operation {id} is {state}; see `cheops op show {id}`"
            )));
        }
    }
    Ok(None)
}

async fn disconnected(client: &Client, names: &[String]) -> anyhow::Result<Option<String>> {
    let sites: Sites = get(client, "/v1/sites").await?;
    for name in names {
        if !sites.items.iter().any(|site| site.name.as_str() == name) {
            return Ok(Some(format!("{name} is not known; see `cheops status`")));
        }
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let mut others = sites.items.iter().filter(|site| wanted(site.name.as_str()));
    let missing = others.find(|site| site.mark != "connected");
    Ok(missing.map(|site| format!("{} is {}; see `cheops status`", site.name, site.mark)))
}
