//! What an agent uses, as its system tells.

use std::path::Path;

use anyhow::Context;

use super::super::stage::Site;

/// Resident memory of a site's agent.
pub(super) fn memory_mib(site: &Site) -> anyhow::Result<f64> {
    let pid = site.pid().context("the agent is gone")?;
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.context("no VmRSS")? / 1024.0)
}

/// Everything below a folder.
pub(super) fn disk_mib(folder: &Path) -> f64 {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => bytes += found.len(),
                // Removed a moment ago.
                Err(_) => (),
            }
        }
    }
    bytes as f64 / f64::from(1 << 20)
}
