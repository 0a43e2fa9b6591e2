//! Words about what lives on several sites.

use std::time::Duration;

use cheops_model::SiteName;
use clap::{Args, Subcommand, ValueEnum};

use super::{AdminArgs, AskArgs};

/// One resource.
#[derive(Args)]
pub(crate) struct OneArgs {
    /// Its id, as clients see it or as this site's service calls it
    pub(crate) id: String,
    /// The service, where one id fits several
    #[arg(long, value_name = "SERVICE")]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Of this service only
    #[arg(long, value_name = "SERVICE")]
    pub(crate) service: Option<String>,
    /// With this state on some site
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Subcommand)]
pub(crate) enum ResourceCommand {
    /// List them: exit 1 if one needs attention
    Ls(ListArgs),
    /// Show one, with its replica on each site: exit 1 if it needs attention
    Show(OneArgs),
    /// Compare what the services of its sites answer: exit 0 if all are the same
    Diff(OneArgs),
    /// Mend the replica of one site
    Repair {
        #[command(flatten)]
        one: OneArgs,
        /// The site whose replica it is
        #[arg(long, value_name = "SITE")]
        site: SiteName,
        /// What to do
        #[arg(long, value_enum)]
        how: How,
    },
    /// Make a site the one that orders its operations
    Promote {
        #[command(flatten)]
        one: OneArgs,
        /// The site that is to lead
        #[arg(long, value_name = "SITE")]
        site: SiteName,
    },
    /// Make an ordinary resource of this site live on several
    Adopt {
        /// Its id, as this site's service calls it
        id: String,
        /// Its service
        #[arg(long, value_name = "SERVICE")]
        service: String,
        /// Where it is to live
        #[arg(long, value_name = "SCOPE")]
        scope: String,
        /// Where this site's service has it, if its profile does not say: /images/7
        #[arg(long, value_name = "PATH")]
        path: Option<String>,
        /// A member that it shows and nobody can write, such as size
        #[arg(long, value_name = "MEMBER")]
        without: Vec<String>,
        #[command(flatten)]
        rights: RightsArgs,
        /// Show what would be done, and do nothing
        #[arg(long)]
        plan: bool,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Change where it lives
    Rescope {
        #[command(flatten)]
        one: OneArgs,
        /// Where it is to live
        #[arg(long, value_name = "SCOPE")]
        scope: String,
        /// Show what would be done, and do nothing
        #[arg(long)]
        plan: bool,
    },
}

/// In whose name a service is called.
#[derive(Args)]
pub(crate) struct RightsArgs {
    /// A header with credentials, such as 'Authorization: Bearer …'; `@FILE` reads lines of them
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum How {
    /// Call the service again, also for what may have been done
    Retry,
    /// Go on with the next operation
    Skip,
    /// Write what clients have written, and go on
    Settle,
}

#[derive(Subcommand)]
pub(crate) enum OpCommand {
    /// List what is not finished everywhere, newest first: exit 1 if one is stuck
    Ls {
        #[command(flatten)]
        list: ListArgs,
        /// About this resource only
        #[arg(long, value_name = "ID")]
        resource: Option<String>,
    },
    /// Show one, with its state on each site: exit 1 if it is stuck
    Show(ByIdArgs),
    /// Try again where it is stuck
    Retry {
        #[command(flatten)]
        one: ByIdArgs,
        #[command(flatten)]
        rights: RightsArgs,
    },
    /// Give it up, if no site was called for it
    Cancel(ByIdArgs),
}

#[derive(Subcommand)]
pub(crate) enum ConflictCommand {
    /// List what somebody has to decide: exit 1 if there is any
    Ls(AskArgs),
    /// Show one, and what may be taken
    Show(ByIdArgs),
    /// Decide it
    Resolve {
        #[command(flatten)]
        one: ByIdArgs,
        /// `current` to leave everything as it is, or the conflict's id to do after all what it wanted
        #[arg(long, value_name = "VERSION")]
        take: String,
    },
}

#[derive(Args)]
pub(crate) struct ByIdArgs {
    /// Its id
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Args)]
pub(crate) struct WaitArgs {
    /// What to wait for
    #[arg(long = "for", value_enum, value_name = "STATE")]
    pub(crate) what: What,
    /// Resources or sites; all, if none is named
    pub(crate) names: Vec<String>,
    /// How long: 500ms, 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Resources: every site has applied everything
    Converged,
    /// Sites: in reach, with no backlog
    Connected,
}

fn duration(text: &str) -> Result<Duration, String> {
    cheops_model::duration::parse_duration(text)
        .ok_or_else(|| "not a time; write 500ms, 30s, 5m or 1h".to_owned())
}
