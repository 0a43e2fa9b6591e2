//! docker-registry: images pushed by skopeo, which knows nothing of scopes, to two sites.

use std::fs;
use std::io::{Seek, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::json;

use super::RealArgs;
use super::http::{Answer, Ask};
use super::install;
use super::stage::{Cast, Stage};
use super::story::{Tally, eventually};
use crate::bench::say;

const BOTH: &str = "registry: site1 & site2";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A stock client sends no scope: the sites' rules say where pushes go.
const RULES: &str = "[[rule]]\nmatch = { service = \"registry\", path = \"/v2/shared\" }\n\
                     scope = \"registry: site1 & site2\"\n";

pub(super) fn tell(args: &RealArgs) -> anyhow::Result<Tally> {
    fs::create_dir_all(&args.cache)?;
    let root = install::debian(
        &args.cache,
        &["docker-registry", "skopeo", "libgpgme11", "libassuan0"],
    )?;
    let program = install::program(&root, "docker-registry")?;
    let skopeo = install::program(&root, "skopeo")?;
    let cast = Cast {
        service: "registry",
        profile: "docker-registry",
        rules: RULES,
    };
    let stage = Stage::set(&args.agent, &cast, |address, folder| {
        serve(&program, address, folder)
    })?;
    let images = tempfile::tempdir()?;
    let mut story = Story {
        stage: &stage,
        tally: Tally::default(),
        skopeo,
        libraries: root.join("usr/lib/x86_64-linux-gnu"),
        images: images.path().to_owned(),
    };
    story.tell()?;
    Ok(story.tally)
}

fn serve(program: &Path, address: SocketAddr, folder: &Path) -> anyhow::Result<Command> {
    let (file, data) = (folder.join("config.yml"), folder.join("data"));
    let text = format!(
        "version: 0.1\nlog: {{level: warn}}\nstorage:\n  filesystem: {{rootdirectory: {data:?}}}\n  \
         delete: {{enabled: true}}\nhttp:\n  addr: {address}\n  secret: of-{address}\n"
    );
    fs::write(&file, text)?;
    let mut command = Command::new(program);
    command.arg("serve").arg(file);
    Ok(command)
}

struct Story<'a> {
    stage: &'a Stage,
    tally: Tally,
    skopeo: PathBuf,
    libraries: PathBuf,
    images: PathBuf,
}

impl Story<'_> {
    fn tell(&mut self) -> anyhow::Result<()> {
        say("docker-registry, three sites, images on site1 and site2, pushed and pulled by skopeo");
        self.push()?;
        self.two_repositories()?;
        self.update()?;
        self.seen_elsewhere()?;
        self.cut()?;
        self.delete()
    }

    /// An OCI image with one layer of those bytes, as a folder that skopeo reads.
    fn image(&self, name: &str, layer: &[u8]) -> anyhow::Result<PathBuf> {
        let folder = self.images.join(name);
        let blobs = folder.join("blobs/sha256");
        fs::create_dir_all(&blobs)?;
        let put = |bytes: &[u8]| -> anyhow::Result<(String, usize)> {
            let digest = sha256(bytes)?;
            fs::write(blobs.join(&digest), bytes)?;
            Ok((format!("sha256:{digest}"), bytes.len()))
        };
        let layer = put(&gzip(layer)?)?;
        let config = json!({"architecture": "amd64", "os": "linux", "config": {},
            "rootfs": {"type": "layers", "diff_ids": [layer.0]}, "created_by": name});
        let config = put(config.to_string().as_bytes())?;
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config.0, "size": config.1},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": layer.0, "size": layer.1}]});
        let manifest = put(manifest.to_string().as_bytes())?;
        let index = json!({"schemaVersion": 2,
            "manifests": [{"mediaType": MANIFEST, "digest": manifest.0, "size": manifest.1}]});
        fs::write(folder.join("index.json"), index.to_string())?;
        fs::write(
            folder.join("oci-layout"),
            "{\"imageLayoutVersion\":\"1.0.0\"}",
        )?;
        Ok(folder)
    }

    /// Runs skopeo; what it says is shown if it fails.
    fn skopeo(&self, words: &[&str]) -> anyhow::Result<Result<String, String>> {
        let ended = Command::new(&self.skopeo)
            .env("LD_LIBRARY_PATH", &self.libraries)
            .args(["--insecure-policy", "--command-timeout", "60s"])
            .args(words)
            .stdin(Stdio::null())
            .output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(match ended.status.success() {
            true => Ok(text(&ended.stdout)),
            false => Err(text(&ended.stderr)),
        })
    }

    fn pushed(&mut self, what: &str, folder: &Path, place: usize, tag: &str) -> anyhow::Result<()> {
        let from = format!("oci:{}", folder.display());
        let to = format!("docker://{}/{tag}", self.stage.sites[place].geo);
        let words = ["copy", "-q", "--dest-tls-verify=false", &from, &to];
        let pushed = self.skopeo(&words)?;
        self.tally
            .check(what, pushed.is_ok(), || pushed.err().unwrap_or_default());
        Ok(())
    }

    /// Pulls from the server itself, without an agent; true if the layer is what was pushed.
    fn pulls(&self, address: SocketAddr, tag: &str, layer: &[u8]) -> anyhow::Result<bool> {
        let folder = tempfile::tempdir_in(&self.images)?;
        let from = format!("docker://{address}/{tag}");
        let to = format!("dir:{}", folder.path().display());
        let words = ["copy", "-q", "--src-tls-verify=false", &from, &to];
        if self.skopeo(&words)?.is_err() {
            return Ok(false);
        }
        let found = fs::read(folder.path().join(sha256(&gzip(layer)?)?)).unwrap_or_default();
        Ok(found == gzip(layer)?)
    }

    fn everywhere(&mut self, tag: &str, layer: &[u8]) -> anyhow::Result<()> {
        for place in [0, 1] {
            let (server, geo) = (self.stage.sites[place].server, self.stage.sites[place].geo);
            let there = eventually(|| self.pulls(server, tag, layer))?;
            let what = format!("  pulled whole from the server of site{}", place + 1);
            self.tally.check(&what, there, String::new);
            let what = format!("  and through the agent of site{}", place + 1);
            let there = self.pulls(geo, tag, layer)?;
            self.tally.check(&what, there, String::new);
        }
        let alone = self.pulls(self.stage.sites[2].server, tag, layer)?;
        self.tally
            .check("  the server of site3 has none", !alone, String::new);
        Ok(())
    }

    fn push(&mut self) -> anyhow::Result<()> {
        let layer = noise(1, 20_000);
        let image = self.image("one", &layer)?;
        self.pushed("push at site1", &image, 0, "shared/app:v1")?;
        self.everywhere("shared/app:v1", &layer)?;
        self.same("shared/app/manifests/v1")
    }

    fn same(&mut self, id: &str) -> anyhow::Result<()> {
        let id = id.replace('/', "%2F");
        let converged = self.stage.converged(0, &id)?;
        let diff = self.stage.told(0, &format!("/v1/resources/{id}/diff"))?;
        self.tally
            .check("diff is empty", converged && diff["same"] == true, || {
                diff.to_string()
            });
        Ok(())
    }

    /// The same tag in another repository is another image. Its layer is larger than what a log takes.
    fn two_repositories(&mut self) -> anyhow::Result<()> {
        let layer = noise(2, 300_000);
        let image = self.image("other", &layer)?;
        self.pushed(
            "push at site2, another repository, the same tag",
            &image,
            1,
            "shared/other:v1",
        )?;
        self.everywhere("shared/other:v1", &layer)?;
        let first = self.pulls(
            self.stage.sites[0].server,
            "shared/app:v1",
            &noise(1, 20_000),
        )?;
        self.tally
            .check("the first is as it was", first, String::new);
        Ok(())
    }

    fn update(&mut self) -> anyhow::Result<()> {
        let layer = noise(3, 20_000);
        let image = self.image("two", &layer)?;
        self.pushed(
            "push another image to the tag at site2, which does not lead",
            &image,
            1,
            "shared/app:v1",
        )?;
        self.everywhere("shared/app:v1", &layer)?;
        self.same("shared/app/manifests/v1")
    }

    /// A client that can say a scope, at a site that is not involved.
    fn seen_elsewhere(&mut self) -> anyhow::Result<()> {
        let layer = noise(4, 10_000);
        let image = self.image("far", &layer)?;
        self.pushed(
            "push at site3, which is not involved",
            &image,
            2,
            "shared/far:v1",
        )?;
        self.everywhere("shared/far:v1", &layer)?;
        let pulled = self.pulls(self.stage.sites[2].geo, "shared/far:v1", &layer)?;
        self.tally
            .check("pull at site3 through its agent", pulled, String::new);
        let read = self.manifest("GET", 2, "shared/far", "v1")?;
        let resource = read.header("x-cheops-resource").map(str::to_owned);
        let right = resource.as_deref() == Some("shared/far/manifests/v1");
        self.tally.check("its manifest is a replicant", right, || {
            format!("{resource:?} {}", read.told())
        });
        Ok(())
    }

    fn manifest(
        &self,
        method: &str,
        place: usize,
        repository: &str,
        tag: &str,
    ) -> anyhow::Result<Answer> {
        let path = format!("/v2/{repository}/manifests/{tag}");
        Ask::new(method, &path).scope(BOTH).send_with(
            self.stage.sites[place].geo,
            &format!("Accept: {MANIFEST}\r\n"),
        )
    }

    fn cut(&mut self) -> anyhow::Result<()> {
        let noticed = self.stage.cut(1, 0)?;
        self.tally.check("site2 is cut off", noticed, String::new);
        let layer = noise(5, 20_000);
        let image = self.image("three", &layer)?;
        self.pushed("push to the tag at site1", &image, 0, "shared/app:v1")?;
        let old = self.pulls(self.stage.sites[1].geo, "shared/app:v1", &noise(3, 20_000))?;
        self.tally
            .check("site2 gives what it has", old, String::new);
        self.stage.heal(1)?;
        self.everywhere("shared/app:v1", &layer)?;
        self.same("shared/app/manifests/v1")
    }

    fn delete(&mut self) -> anyhow::Result<()> {
        for (place, repository) in [(0, "shared/app"), (1, "shared/other"), (2, "shared/far")] {
            let answer = self.manifest("DELETE", place, repository, "v1")?;
            let what = format!("delete a tag at site{}", place + 1);
            self.tally
                .check(&what, answer.status == 202, || answer.told());
            for place in [0, 1] {
                let path = format!("/v2/{repository}/manifests/v1");
                let server = self.stage.sites[place].server;
                let gone = eventually(|| Ok(Ask::new("GET", &path).send(server)?.status == 404))?;
                let what = format!("  gone from the server of site{}", place + 1);
                self.tally.check(&what, gone, String::new);
            }
        }
        Ok(())
    }
}

/// Bytes that no compression makes smaller, another row for each seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn sha256(bytes: &[u8]) -> anyhow::Result<String> {
    let said = filter("sha256sum", &[], bytes)?;
    let text = String::from_utf8_lossy(&said);
    Ok(text
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned())
}

/// As skopeo would: it compresses what is not, and leaves what is.
fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    filter("gzip", &["-nc"], bytes)
}

fn filter(program: &str, words: &[&str], bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    let ended = Command::new(program)
        .args(words)
        .stdin(file)
        .output()
        .with_context(|| format!("needs {program}"))?;
    Ok(ended.stdout)
}
