//! `cheops`: one binary, one agent per site. This file only chooses the command; see
//! ARCHITECTURE.md for the way a request takes.

mod cli;
mod commands;
mod terminal;
mod world_file;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Scope(command) => commands::scope::run(command),
    };
    outcome.unwrap_or_else(|error| {
        terminal::error(&format!("error: {error:#}"));
        ExitCode::from(2)
    })
}
