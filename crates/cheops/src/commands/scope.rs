//! `cheops scope check | fmt | explain`.

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, bail};
use cheops_control::client::{Client, DEFAULT_ADMIN};
use cheops_model::SiteName;
use cheops_scope::{
    Argument, Call, Checked, Explanation, Location, Scope, ScopeError, World, limits, parse_bytes,
    render,
};
use http::StatusCode;
use serde::Serialize;

use crate::cli::{CheckArgs, ExplainArgs, Format, ScopeCommand};
use crate::terminal;
use crate::world_file;

pub(crate) fn run(command: ScopeCommand) -> anyhow::Result<ExitCode> {
    match command {
        ScopeCommand::Check(args) => check(&args),
        ScopeCommand::Fmt { scope } => fmt(&scope),
        ScopeCommand::Explain(args) => explain(&args),
    }
}

fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let text = text_of(&args.scope)?;
    let world = args
        .world
        .as_deref()
        .map(|file| world_file::load(file, None))
        .transpose()?;
    let checked = read(&text).and_then(|scope| match &world {
        Some(world) => scope.resolve(world).map(|_| scope),
        None => Ok(scope),
    });
    match checked {
        Ok(scope) => {
            if args.format.format == Format::Json {
                terminal::print(&json(&Valid {
                    scope: scope.scope().to_string(),
                })?);
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => refuse(&error, &text, args.format.format),
    }
}

fn fmt(scope: &str) -> anyhow::Result<ExitCode> {
    let text = text_of(scope)?;
    match read(&text) {
        Ok(scope) => {
            terminal::print(&scope.scope().to_string());
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => refuse(&error, &text, Format::Text),
    }
}

fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let text = text_of(&args.scope)?;
    let at = args.at.as_deref();
    let explained = match &args.world {
        Some(file) => {
            let world = world_file::load(file, at)?;
            read(&text).and_then(|scope| Explanation::of(&scope, &world))
        }
        None => match read(&text) {
            Ok(scope) => match ask_agent(args, &String::from_utf8_lossy(&text))? {
                Some(told) => return told.print(&text, args.format.format),
                None => Explanation::of(&scope, &assumed_world(scope.scope(), at)?),
            },
            Err(error) => Err(error),
        },
    };
    match (explained, args.format.format) {
        (Ok(explanation), Format::Json) => terminal::print(&json(&explanation)?),
        (Ok(explanation), Format::Text) => terminal::print(&explanation.text()),
        (Err(error), format) => return refuse(&error, &text, format),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a running agent says. `None` if none was named and none runs at the usual address.
fn ask_agent(args: &ExplainArgs, text: &str) -> anyhow::Result<Option<Told>> {
    let question = serde_json::json!({ "scope": text, "at": args.at });
    // Not clap's `env`: a variable would count as given, and so exclude `--world`.
    let named = args
        .admin
        .clone()
        .or_else(|| std::env::var("CHEOPS_ADMIN").ok());
    let client = Client::new(named.as_deref().unwrap_or(DEFAULT_ADMIN));
    let asked = client.post("/v1/scope/explain", question.to_string().into_bytes());
    match super::block_on(async { Ok(asked.await?) }) {
        Ok((status, body)) => Ok(Some(Told {
            status,
            body: serde_json::from_slice(&body)?,
        })),
        Err(_) if named.is_none() => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// An agent's answer.
struct Told {
    status: StatusCode,
    body: serde_json::Value,
}

impl Told {
    fn print(mut self, text: &[u8], format: Format) -> anyhow::Result<ExitCode> {
        let words = self
            .body
            .as_object_mut()
            .and_then(|members| members.remove("text"));
        if let Some(error) = self.body.get("error").cloned() {
            let error: ScopeError = serde_json::from_value(error)?;
            return refuse(&error, text, format);
        }
        if !self.status.is_success() {
            bail!(
                "the agent answered {}: {}",
                self.status,
                self.body["detail"]
            );
        }
        match (format, words) {
            (Format::Text, Some(words)) => terminal::print(words.as_str().unwrap_or_default()),
            _ => terminal::print(&json(&self.body)?),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read(text: &[u8]) -> Result<Checked, ScopeError> {
    parse_bytes(text)?.check()
}

/// The text itself, or standard input for `-`.
fn text_of(scope: &str) -> anyhow::Result<Vec<u8>> {
    if scope != "-" {
        return Ok(scope.as_bytes().to_vec());
    }
    // Enough to see that it is too long, and to say by how much.
    let most = limits::TEXT_BYTES_MAX as u64 * 16;
    let mut text = Vec::new();
    std::io::stdin()
        .lock()
        .take(most)
        .read_to_end(&mut text)
        .context("cannot read the scope")?;
    Ok(text)
}

fn refuse(error: &ScopeError, text: &[u8], format: Format) -> anyhow::Result<ExitCode> {
    match format {
        Format::Json => terminal::print(&json(&Refused { error })?),
        Format::Text => {
            let text = String::from_utf8_lossy(text);
            terminal::error(&render(error, &text, terminal::error_paint()));
        }
    }
    Ok(ExitCode::from(2))
}

fn json<T: Serialize>(value: &T) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)?)
}

#[derive(Serialize)]
struct Valid {
    scope: String,
}

#[derive(Serialize)]
struct Refused<'a> {
    error: &'a ScopeError,
}

/// With no file and no agent to ask: the world is what the scope names, and nothing more.
fn assumed_world(scope: &Scope, at: Option<&str>) -> anyhow::Result<World> {
    let mut sites = Vec::new();
    scope
        .bindings
        .iter()
        .for_each(|binding| named_sites(&binding.location, &mut sites));
    let here = match (at, sites.first()) {
        (Some(at), _) => SiteName::new(at).with_context(|| format!("--at {at:?}"))?,
        (None, Some(first)) => first.clone(),
        (None, None) => bail!("the scope names no site: say where it enters with --at SITE"),
    };
    terminal::error("note: no --world given; assuming the sites and services that the scope names");
    let mut world = World::builder(here);
    for site in sites {
        world.site(site);
    }
    for binding in &scope.bindings {
        world.service(binding.service.clone(), []);
    }
    Ok(world.build())
}

fn named_sites(location: &Location, sites: &mut Vec<SiteName>) {
    match location {
        Location::Site(name, _) => sites.push(name.clone()),
        Location::Here(_) => (),
        Location::First(of) | Location::Span(of) | Location::Replicate(of) => {
            of.iter().for_each(|member| named_sites(member, sites));
        }
        Location::Call(Call { arguments, .. }) => {
            for argument in arguments {
                if let Argument::Location(inner) = argument {
                    named_sites(inner, sites);
                }
            }
        }
    }
}
