//! `cheops demo --script`: the story of sharing and of replicas, each answer checked.

use std::process::ExitCode;
use std::time::Instant;

use super::super::stage::Stage;
use super::http::{Answer, ask};
use crate::terminal;

/// Tells the story. Exit 0 only if every answer was as it has to be.
pub(super) async fn tell(stage: &Stage) -> anyhow::Result<ExitCode> {
    let mut story = Story { stage, wrong: 0 };
    story.boot_locally().await?;
    let image_id = story.share().await?;
    story.cut(&image_id).await?;
    story.otherwise().await?;
    story.heal(&image_id).await?;
    story.replicate().await?;
    if story.wrong > 0 {
        terminal::print(&format!(
            "\n{} answers were not as they have to be",
            story.wrong
        ));
        return Ok(ExitCode::FAILURE);
    }
    terminal::print("\nevery answer was as it has to be");
    Ok(ExitCode::SUCCESS)
}

pub(super) struct Story<'a> {
    pub(super) stage: &'a Stage,
    wrong: u32,
}

const SHARE: &str = "compute: site1, image: site2";
const OTHERWISE: &str = "image: site2; site1";

impl Story<'_> {
    async fn boot_locally(&mut self) -> anyhow::Result<()> {
        say("1. Local first: an image and a server at site1, no scope.");
        let id = self.upload(0, "local").await?;
        let answer = self.boot(None, &id).await?;
        self.check(
            "the server boots at site1",
            answer.status == 201 && answer.served_by == "site1",
        );
        Ok(())
    }

    async fn share(&mut self) -> anyhow::Result<String> {
        say("2. Sharing: the image is at site2 only.");
        let id = self.upload(1, "debian").await?;
        let answer = self.boot(None, &id).await?;
        self.check(
            "without a scope, site1 does not have it",
            answer.status == 424,
        );
        let answer = self.boot(Some(SHARE), &id).await?;
        let booted = answer.body["booted_at"] == "site1" && answer.body["image_name"] == "debian";
        self.check(
            "with it, site1 boots from the image of site2",
            answer.status == 201 && booted,
        );
        Ok(id)
    }

    async fn cut(&mut self, image_id: &str) -> anyhow::Result<()> {
        say("3. Site2 is cut off.");
        self.stage.cut(1);
        self.stage.wait_mark(0, 1, "autonomous").await?;
        let started = Instant::now();
        let answer = self.boot(Some(SHARE), image_id).await?;
        let told = answer.body.to_string().contains("site-unreachable");
        self.check(
            "the same boot fails and says why",
            answer.status == 424 && told,
        );
        let at_once = started.elapsed().as_millis();
        self.check(&format!("at once ({at_once} ms)"), at_once < 500);
        let id = self.upload(0, "local").await?;
        let answer = self.boot(None, &id).await?;
        self.check("local boots go on", answer.status == 201);
        Ok(())
    }

    async fn otherwise(&mut self) -> anyhow::Result<()> {
        say("4. Otherwise: `image: site2; site1` while site2 is cut off.");
        let image = self.stage.sites[0].image;
        let answer = self
            .send("POST", image, "/images", Some(OTHERWISE), NAMED)
            .await?;
        self.check(
            "site1 takes it",
            answer.status == 201 && answer.served_by == "site1",
        );
        Ok(())
    }

    async fn heal(&mut self, image_id: &str) -> anyhow::Result<()> {
        say("5. Site2 is back.");
        let started = Instant::now();
        self.stage.heal(1)?;
        self.stage.wait_mark(0, 1, "connected").await?;
        let back_ms = started.elapsed().as_millis();
        self.check(&format!("it is found again ({back_ms} ms)"), back_ms < 5000);
        let answer = self.boot(Some(SHARE), image_id).await?;
        self.check(
            "site1 boots from the image of site2 again",
            answer.status == 201,
        );
        let image = self.stage.sites[0].image;
        let answer = self
            .send("POST", image, "/images", Some(OTHERWISE), NAMED)
            .await?;
        self.check("`site2; site1` is site2 again", answer.served_by == "site2");
        Ok(())
    }

    async fn upload(&mut self, place: usize, name: &str) -> anyhow::Result<String> {
        let image = self.stage.sites[place].image;
        let body = format!("{{\"name\":\"{name}\"}}");
        let made = self.send("POST", image, "/images", None, &body).await?;
        let id = made.body["id"].as_str().unwrap_or_default().to_owned();
        let path = format!("/images/{id}/file");
        let sent = ask("PUT", image, &path, None, "the bits of a disk").await?;
        let site = self.stage.sites[place].name.clone();
        self.check(
            &format!("{site} has the image {name}"),
            made.status == 201 && sent.status == 204,
        );
        Ok(id)
    }

    async fn boot(&mut self, scope: Option<&str>, image_id: &str) -> anyhow::Result<Answer> {
        let body = format!("{{\"name\":\"vm\",\"image_id\":\"{image_id}\"}}");
        self.send(
            "POST",
            self.stage.sites[0].compute,
            "/servers",
            scope,
            &body,
        )
        .await
    }

    pub(super) async fn send(
        &mut self,
        method: &str,
        address: std::net::SocketAddr,
        path: &str,
        scope: Option<&str>,
        body: &str,
    ) -> anyhow::Result<Answer> {
        let scoped = scope
            .map(|scope| format!("   X-Scope: {scope}"))
            .unwrap_or_default();
        terminal::print(&format!("   {method} http://{address}{path}{scoped}"));
        let answer = ask(method, address, path, scope, body).await?;
        terminal::print(&format!(
            "     {} served by {}",
            answer.status, answer.served_by
        ));
        Ok(answer)
    }

    pub(super) fn check(&mut self, what: &str, held: bool) {
        terminal::print(&format!(
            "   {} {what}",
            if held { "ok   " } else { "WRONG" }
        ));
        self.wrong += u32::from(!held);
    }
}

const NAMED: &str = "{\"name\":\"spare\"}";

pub(super) fn say(text: &str) {
    terminal::print(&format!("\n{text}"));
}
