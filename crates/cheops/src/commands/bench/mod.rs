//! `cheops bench replication`: the project's own load generator for what lives on several sites.
//!
//! Each measurement sets up its own sites on this machine, prints one table and, if asked, draws a picture. All clients
//! and sample services share one process beside the agents: on a small machine, read the ratios.

mod absence;
mod drain;
mod etcd;
mod latency;
mod load;
mod many;
mod one;
mod process;
mod settled;
mod shelf;
mod throughput;

use std::process::ExitCode;

use cheops_plot::{Across, Scale, Series, chart};

use crate::cli::bench::{BenchCommand, Measure, ReplicationArgs};
use crate::terminal;

pub(crate) fn run(command: &BenchCommand) -> anyhow::Result<ExitCode> {
    let BenchCommand::Replication(args) = command;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        for measure in &args.measures {
            match measure {
                Measure::Throughput => throughput::run(args).await?,
                Measure::Latency => latency::run(args).await?,
                Measure::Drain => drain::run(args).await?,
                Measure::Many => many::run(args).await?,
                Measure::Shelf => shelf::run(args).await?,
                Measure::One => one::run(args).await?,
                Measure::Absence => absence::run(args).await?,
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Numbers that are not worth their digits are rounded: `12`, `3.4`.
fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Of values in microseconds, the one below which that share of them lies; in milliseconds.
fn percentile_ms(latencies_us: &[u64], share: f64) -> f64 {
    let mut sorted = latencies_us.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let place = ((sorted.len() as f64 * share) as usize).min(last);
    sorted.get(place).map_or(0.0, |us| *us as f64 / 1e3)
}

/// Draws a picture where the arguments say so.
fn draw(
    args: &ReplicationArgs,
    name: &str,
    title: &str,
    x_name: &str,
    y_name: &str,
    series: &[Series],
) -> anyhow::Result<()> {
    let Some(folder) = &args.plots else {
        return Ok(());
    };
    let highest = series
        .iter()
        .flat_map(|line| line.points.iter().map(|point| point.1))
        .fold(f64::MIN_POSITIVE, f64::max);
    let across = Across {
        name: x_name,
        scale: Scale::Linear,
    };
    let file = folder.join(format!("{name}.svg"));
    std::fs::write(&file, chart(title, across, y_name, highest * 1.1, series))?;
    terminal::print(&format!("picture: {}", file.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_are_of_what_was_seen() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        let seen: Vec<u64> = (1..=100).map(|ms| ms * 1_000).collect();
        assert_eq!(percentile_ms(&seen, 0.5), 51.0);
        assert_eq!(percentile_ms(&seen, 0.99), 100.0);
        assert_eq!(percentile_ms(&[], 0.99), 0.0);
        assert_eq!(
            (short(123.4), short(12.34), short(1.234)),
            ("123".to_owned(), "12.3".to_owned(), "1.23".to_owned())
        );
    }
}
