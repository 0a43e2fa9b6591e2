//! User instructions of one request, counted by callgrind: the steadiest figure there is, and the slowest to get.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use super::load::Load;
use super::peers::{self, Skipped};
use super::{origin, say};

const CONNECTIONS: usize = 32;
const LOAD: Duration = Duration::from_secs(10);

/// One line of the table, or a plain word where there is no valgrind.
pub(super) fn count(agent: &Path) -> anyhow::Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        say("| instructions per request | skipped: valgrind is not installed |");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let counted = counted(folder.path(), agent)?;
    let origin = origin::Origin::start()?;
    let started = peers::start_agent(folder.path(), origin.address, 1, &counted);
    let peer = started.map_err(|Skipped(why)| anyhow::anyhow!(why))?;
    let load = |time| Load {
        address: peer.address,
        connections: CONNECTIONS,
        time,
    };
    load(LOAD / 5).run()?;
    control("-z", peer.pid)?;
    let answers = load(LOAD).run()?.answers;
    control("-d", peer.pid)?;
    let total = total(folder.path())?;
    say(&format!(
        "| instructions per request, by callgrind | {:.1} k ({answers} requests, {CONNECTIONS} connections, one thread; all that the agent did meanwhile) |",
        total / answers as f64 / 1000.0
    ));
    Ok(())
}

/// The agent under callgrind, started as it would be without.
fn counted(folder: &Path, agent: &Path) -> anyhow::Result<PathBuf> {
    let agent = fs::canonicalize(agent).with_context(|| agent.display().to_string())?;
    let (agent, out) = (agent.display(), folder.join("counts.%p"));
    let valgrind = format!(
        "valgrind -q --tool=callgrind --callgrind-out-file='{}'",
        out.display()
    );
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = agent ]; then exec {valgrind} '{agent}' \"$@\"; fi\nexec '{agent}' \"$@\"\n"
    );
    let path = folder.join("counted");
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn control(order: &str, pid: u32) -> anyhow::Result<()> {
    let done = Command::new("callgrind_control")
        .args([order, &pid.to_string()])
        .output()
        .context("callgrind_control")?;
    if !done.status.success() {
        bail!("{}", String::from_utf8_lossy(&done.stdout));
    }
    Ok(())
}

/// Of the one dump that was asked for.
fn total(folder: &Path) -> anyhow::Result<f64> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("counts.") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
        if let Some(total) = totals.and_then(|total| total.trim().parse().ok()) {
            return Ok(total);
        }
    }
    bail!("callgrind has left no totals")
}
