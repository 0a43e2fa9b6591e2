//! `cheops init`: a mesh's certificate authority, and an identity per site.

use std::process::ExitCode;

use cheops_engine::identity;

use crate::cli::InitArgs;
use crate::terminal;

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<ExitCode> {
    let report = identity::init(&args.mesh, &args.out, &args.site)?;
    let out = args.out.display();
    if !report.ca_kept {
        terminal::print(&format!(
            "made the authority of mesh {} in {out}",
            report.mesh
        ));
    }
    for site in &report.added {
        terminal::print(&format!(
            "made {out}/{site}: copy it to that site, and nowhere else"
        ));
    }
    for site in &report.kept {
        terminal::print(&format!("kept {out}/{site}, which was there"));
    }
    Ok(ExitCode::SUCCESS)
}
