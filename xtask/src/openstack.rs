//! `cargo xtask openstack up|down|test|status`: real OpenStack sites behind agents.
//!
//! The work is done by `testbed/openstack`, in the language of what it installs.

use std::path::Path;
use std::process::{Command, ExitCode};

pub(crate) fn run(words: &[String]) -> anyhow::Result<ExitCode> {
    let testbed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbed/openstack");
    let python = Command::new("python3").arg(testbed).args(words).status();
    let Ok(ended) = python else {
        let said = b"skipped: needs python3\n";
        std::io::Write::write_all(&mut std::io::stdout().lock(), said)?;
        return Ok(ExitCode::SUCCESS);
    };
    Ok(match ended.code() {
        Some(0) => ExitCode::SUCCESS,
        Some(2) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}
