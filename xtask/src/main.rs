//! Chores of the project: `cargo xtask NAME`. No build step and no test of a user needs one.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod tidy;

/// Chores of the project.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check layers, purity and the habits that no compiler checks
    Tidy,
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().chore {
        Chore::Tidy => tidy::run(),
    }
}
