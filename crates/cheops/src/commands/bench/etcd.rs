//! Three members of etcd, for comparison: what they are asked goes through their HTTP gateway.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::load::{Ask, Client};

const MEMBERS: usize = 3;

/// A cluster, running.
pub(super) struct Etcd {
    /// Of the first member.
    pub(super) address: SocketAddr,
    _members: Vec<Child>,
    _folder: TempDir,
}

impl Etcd {
    /// None if there is no such program.
    pub(super) async fn start(program: &Path) -> anyhow::Result<Option<Etcd>> {
        let folder = tempfile::tempdir()?;
        let free = || anyhow::Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?);
        let addresses: Vec<(SocketAddr, SocketAddr)> = (0..MEMBERS)
            .map(|_| Ok((free()?, free()?)))
            .collect::<anyhow::Result<_>>()?;
        let cluster: Vec<String> = addresses
            .iter()
            .enumerate()
            .map(|(number, (_, peer))| format!("m{number}=http://{peer}"))
            .collect();
        let mut members = Vec::new();
        for (number, (client, peer)) in addresses.iter().enumerate() {
            let name = format!("m{number}");
            let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
            let started = Command::new(program)
                .args(["--name", &name, "--data-dir", &name, "--log-level", "error"])
                .args([
                    "--listen-client-urls",
                    &client,
                    "--advertise-client-urls",
                    &client,
                ])
                .args([
                    "--listen-peer-urls",
                    &peer,
                    "--initial-advertise-peer-urls",
                    &peer,
                ])
                .args([
                    "--initial-cluster",
                    &cluster.join(","),
                    "--initial-cluster-state",
                    "new",
                ])
                .current_dir(folder.path())
                .env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn();
            match started {
                Ok(member) => members.push(member),
                Err(_) => return Ok(None),
            }
        }
        let etcd = Etcd {
            address: addresses[0].0,
            _members: members,
            _folder: folder,
        };
        etcd.wait().await?;
        Ok(Some(etcd))
    }

    async fn wait(&self) -> anyhow::Result<()> {
        let until = Instant::now() + Duration::from_secs(20);
        while Instant::now() < until {
            if let Ok(mut client) = Client::connect(self.address).await
                && let Ok(answer) = client.ask(&put("ready", "")).await
                && answer.status == 200
            {
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
        bail!("etcd did not start")
    }
}

/// Writes a value, the same for a create and for an update.
pub(super) fn put(key: &str, value: &str) -> Ask {
    Ask {
        method: "POST",
        path: "/v3/kv/put".to_owned(),
        scope: None,
        body: format!(
            "{{\"key\":\"{}\",\"value\":\"{}\"}}",
            base64(key),
            base64(value)
        ),
    }
}

fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | u32::from(*part.get(at).unwrap_or(&0))
        });
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at > part.len() { '=' } else { letter as char });
        }
    }
    out
}

/// The program, wherever it is.
pub(super) fn program(given: Option<&Path>) -> anyhow::Result<std::path::PathBuf> {
    match given {
        Some(path) => std::fs::canonicalize(path).with_context(|| path.display().to_string()),
        None => Ok("etcd".into()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn keys_and_values_are_written_in_base64() {
        for (text, expected) in [
            ("", ""),
            ("a", "YQ=="),
            ("ab", "YWI="),
            ("abc", "YWJj"),
            ("abcd", "YWJjZA=="),
        ] {
            assert_eq!(super::base64(text), expected);
        }
    }
}
