//! The second half of the story: one image on two sites, through a cut.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cheops_control::client::Client;
use serde_json::Value;
use tokio::time::sleep;

use super::story::{Story, say};

const BOTH: &str = "image: site1 & site2";

/// Far more than anything takes here.
const PATIENCE: Duration = Duration::from_secs(20);

impl Story<'_> {
    pub(super) async fn replicate(&mut self) -> anyhow::Result<()> {
        say("6. Replication: one image on site1 and site2.");
        let (first, second) = (self.stage.sites[0].image, self.stage.sites[1].image);
        let body = "{\"name\":\"shared\",\"description\":\"first\"}";
        let made = self
            .send("POST", first, "/images", Some(BOTH), body)
            .await?;
        let id = made.body["id"].as_str().unwrap_or_default().to_owned();
        self.check(
            "site1 answers",
            made.status == 201 && made.served_by == "site1",
        );
        self.wait_converged(&id).await?;
        let path = format!("/images/{id}");
        for (address, site) in [(first, "site1"), (second, "site2")] {
            let read = self.send("GET", address, &path, None, "").await?;
            let there = read.status == 200 && read.served_by == site && read.body["id"] == *id;
            self.check(&format!("{site} has its own, under the same id"), there);
        }

        say("7. Site2 is cut off, and site1 writes on.");
        self.stage.cut(1);
        self.stage.wait_mark(0, 1, "autonomous").await?;
        let body = "{\"description\":\"second\"}";
        let changed = self.send("PATCH", first, &path, None, body).await?;
        self.check("the change is taken at once", changed.status == 200);
        let read = self.send("GET", second, &path, None, "").await?;
        let old = read.status == 200 && read.body["description"] == "first";
        self.check("site2 still reads what it has", old);

        say("8. Site2 is back, and gets what it missed.");
        let started = Instant::now();
        self.stage.heal(1)?;
        self.wait_converged(&id).await?;
        let took_ms = started.elapsed().as_millis();
        let read = self.send("GET", second, &path, None, "").await?;
        let new = read.body["description"] == "second";
        self.check(&format!("site2 has the change ({took_ms} ms)"), new);
        let diff = self.told(&format!("/v1/resources/{id}/diff")).await?;
        self.check("no service differs from the other", diff["same"] == true);
        Ok(())
    }

    /// Waits until site1 knows that both sites have applied everything.
    async fn wait_converged(&self, id: &str) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.told(&format!("/v1/resources/{id}")).await?["converged"] != true {
            if Instant::now() > until {
                bail!("the image never was the same on both sites; try --verbose");
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// What the agent of site1 tells.
    async fn told(&self, path: &str) -> anyhow::Result<Value> {
        let client = Client::new(&self.stage.sites[0].admin.to_string());
        let (_, body) = client.get(path).await?;
        serde_json::from_slice(&body).context("the agent's answer is not JSON")
    }
}
