//! What a process and its children have used.

use std::fs;

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this process, and all that it starts from now on, to the last processor it may use: the first has more to do for
/// others.
pub(crate) fn keep_to_one_processor() -> anyhow::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    let mut one = CpuSet::new();
    one.set(last.context("no processor")?);
    Ok(sched_setaffinity(None, &one)?)
}

/// User and system time so far, in microseconds.
pub(crate) fn cpu_us(pid: u32) -> anyhow::Result<f64> {
    // Nanoseconds on a CPU per thread: finer than the ticks of /proc/PID/stat.
    let mut total_ns = 0.0;
    for pid in family(pid) {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("the proxy is gone")?;
        for task in tasks.flatten() {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let on_cpu = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
            total_ns += on_cpu.unwrap_or_default();
        }
    }
    Ok(total_ns / 1e3)
}

/// Resident memory, in megabytes.
pub(crate) fn memory_mb(pid: u32) -> anyhow::Result<f64> {
    let mut total_kb = 0.0;
    for pid in family(pid) {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        total_kb += kb.unwrap_or_default();
    }
    Ok(total_kb / 1e3)
}

/// The most memory it ever held, in megabytes.
pub(crate) fn memory_peak_mb(pid: u32) -> anyhow::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kb.unwrap_or_default() / 1e3)
}

/// How many descriptors a process holds.
pub(crate) fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The process and its children: some proxies serve from a child.
fn family(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    std::iter::once(pid)
        .chain(children.split_whitespace().filter_map(|c| c.parse().ok()))
        .collect()
}
