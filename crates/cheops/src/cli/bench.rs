//! What can be typed of `cheops bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Resources on several sites: throughput beside etcd, latency, catching up, scale
    Replication(ReplicationArgs),
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// Creates and updates per second, beside etcd in the same run
    Throughput,
    /// How long a create takes, by round trip
    Latency,
    /// A site comes back to a long queue while its own clients go on
    Drain,
    /// Memory, start and disk by the number of replicants
    Many,
    /// The same of replicants that nothing is under way with, written beforehand: for a million of them
    Shelf,
    /// One replicant, updated again and again
    One,
    /// A site away for longer than its queue is kept
    Absence,
}

#[derive(Args)]
pub(crate) struct ReplicationArgs {
    /// What to measure
    #[arg(value_enum, default_values_t = [Measure::Throughput, Measure::Latency])]
    pub(crate) measures: Vec<Measure>,
    /// Sites to replicate over; several numbers are measured one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [2, 3, 5], value_parser = clap::value_parser!(u8).range(2..=5))]
    pub(crate) sites: Vec<u8>,
    /// Operations per round
    #[arg(long, default_value_t = 4_000)]
    pub(crate) operations: usize,
    /// Replicants, where they are counted
    #[arg(long, default_value_t = 1_000)]
    pub(crate) replicants: usize,
    /// Connections of the clients
    #[arg(long, default_value_t = 64)]
    pub(crate) connections: usize,
    /// Rounds; each measures everything once
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Round trips between the sites, in milliseconds
    #[arg(long, value_delimiter = ',', default_values_t = [2, 20, 100])]
    pub(crate) rtt: Vec<u64>,
    /// Creates per round trip
    #[arg(long, default_value_t = 200)]
    pub(crate) samples: usize,
    /// The program of etcd, if it is not on the path
    #[arg(long)]
    pub(crate) etcd: Option<PathBuf>,
    /// Also draw pictures, into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Show what the agents log
    #[arg(long)]
    pub(crate) verbose: bool,
}
