//! What can be typed. The words are part of the contract; the work is in `commands`.

pub(crate) mod bench;
pub(crate) mod replicas;

use std::path::PathBuf;

use cheops_control::client::{Client, DEFAULT_ADMIN};
use cheops_model::SiteName;
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
    /// Run one site's agent
    Agent(AgentArgs),
    /// Measure this machine: the project's own load generator
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Run sites and sample services on this machine, ready to try
    Demo(DemoArgs),
    /// Make a mesh: a certificate authority and an identity for each site
    Init(InitArgs),
    /// Check configurations and profiles: exit 0 if all is well, 1 to look at something, 2 if one cannot be used
    Lint {
        /// A configuration or a profile; may be repeated
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Show every site: exit 0 if all are connected, 1 if not
    Status {
        #[command(flatten)]
        admin: AdminArgs,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Resources that live on several sites
    #[command(subcommand)]
    Resource(replicas::ResourceCommand),
    /// Operations and their state on each site
    #[command(subcommand)]
    Op(replicas::OpCommand),
    /// What somebody has to decide
    #[command(subcommand)]
    Conflict(replicas::ConflictCommand),
    /// Why a resource or an operation is where and how it is: exit 1 if something is to be done
    Why(replicas::OneArgs),
    /// Wait for sites or resources: exit 0 when it is so, 1 if not in time
    Wait(replicas::WaitArgs),
    /// List, show and operate sites
    #[command(subcommand)]
    Site(SiteCommand),
    /// The round trip between any two sites, with its error
    Rtt {
        /// From this site
        from: SiteName,
        /// To this one
        to: SiteName,
        #[command(flatten)]
        admin: AdminArgs,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Check, format or explain a scope, before any agent runs
    #[command(subcommand)]
    Scope(ScopeCommand),
}

#[derive(Subcommand)]
pub(crate) enum SiteCommand {
    /// List every site
    Ls {
        /// As a tree of parents
        #[arg(long)]
        tree: bool,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Show one site, and how it was when it last told
    Show(SiteArgs),
    /// Refuse mutations from other sites, at this agent's own site
    Hold(SiteArgs),
    /// Take them again
    Release(SiteArgs),
    /// Take a site out on purpose; what waits for it is kept
    Detach(SiteArgs),
    /// Bring a site back that was detached, fenced or removed
    Attach(SiteArgs),
    /// Shut a site out
    Fence(SiteArgs),
    /// Say that a site has failed, until it is heard again
    Fail(SiteArgs),
    /// Take a site out for good; needs a majority of the mesh
    Remove {
        /// Also without a majority
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        site: SiteArgs,
    },
    /// Give this agent's own site another parent
    Move {
        /// The new parent
        #[arg(long, value_name = "SITE", required_unless_present = "top")]
        parent: Option<SiteName>,
        /// No parent
        #[arg(long, conflicts_with = "parent")]
        top: bool,
        #[command(flatten)]
        site: SiteArgs,
    },
}

#[derive(Args)]
pub(crate) struct SiteArgs {
    /// The site
    pub(crate) site: SiteName,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Args)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
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
    /// Ask the agent at this address [env: CHEOPS_ADMIN, unless --world is given]
    #[arg(long, value_name = "URL", conflicts_with = "world")]
    pub(crate) admin: Option<String>,
    /// The site where the request enters
    #[arg(long, value_name = "SITE")]
    pub(crate) at: Option<String>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    /// The scope, or - for standard input
    pub(crate) scope: String,
}

#[derive(Args)]
pub(crate) struct AgentArgs {
    /// The site's configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Read it, say what is wrong with it, start nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// Stop when standard input ends: for programs that start agents
    #[arg(long, hide = true)]
    pub(crate) watch_stdin: bool,
}

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// How many sites
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=6))]
    pub(crate) sites: u8,
    /// Tell the story of sharing and of replicas, check each answer, and stop
    #[arg(long)]
    pub(crate) script: bool,
    /// Show what the agents log
    #[arg(long)]
    pub(crate) verbose: bool,
}

#[derive(Args)]
pub(crate) struct InitArgs {
    /// The name of the mesh
    #[arg(long, value_name = "NAME")]
    pub(crate) mesh: String,
    /// The folder to make; run again, it keeps what is there and adds sites
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// A site; may be repeated
    #[arg(long, value_name = "SITE", required = true)]
    pub(crate) site: Vec<SiteName>,
}

#[derive(Args)]
pub(crate) struct AdminArgs {
    /// The agent's admin address
    #[arg(long, value_name = "URL", env = "CHEOPS_ADMIN", default_value = DEFAULT_ADMIN)]
    pub(crate) admin: String,
}

impl AdminArgs {
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.admin)
    }
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
