//! What can be typed. The words are part of the contract; the work is in `commands`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Geo-distribute an unmodified application over many edge sites.
#[derive(Parser)]
#[command(
    name = "cheops",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Check, format or explain a scope, before any agent runs
    #[command(subcommand)]
    Scope(ScopeCommand),
}

#[derive(Subcommand)]
pub(crate) enum ScopeCommand {
    /// Say whether a scope is valid: exit 0, or 2 with a diagnostic
    Check(CheckArgs),
    /// Print the canonical form
    Fmt {
        /// The scope, or - for standard input
        scope: String,
    },
    /// Show the plan, round trips, and what happens when a site is cut off
    Explain(ExplainArgs),
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// A file that stands in for a running mesh: names are looked up in it too
    #[arg(long, value_name = "FILE")]
    pub(crate) world: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    /// The scope, or - for standard input
    pub(crate) scope: String,
}

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// A file that stands in for a running mesh
    #[arg(long, value_name = "FILE")]
    pub(crate) world: Option<PathBuf>,
    /// The site where the request enters
    #[arg(long, value_name = "SITE")]
    pub(crate) at: Option<String>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    /// The scope, or - for standard input
    pub(crate) scope: String,
}

#[derive(Args)]
pub(crate) struct FormatArgs {
    /// How to print
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a person
    Text,
    /// For a program
    Json,
}
