//! `cheops-sim-sites [traffic|detection|false|cuts|places|around] [SVG]`: the figures of the book, each or all.

use std::io::{self, Write};
use std::process::ExitCode;

use cheops_sim_sites::report;

const SIZES: [u16; 5] = [100, 300, 1000, 2000, 5000];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next();
    let chart_file = arguments.next();
    let known = ["traffic", "detection", "false", "cuts", "places", "around"];
    if wanted.as_deref().is_some_and(|word| !known.contains(&word)) {
        let _ = writeln!(io::stderr(), "say one of: {}", known.join(", "));
        return ExitCode::from(2);
    }
    match tell(wanted.as_deref(), chart_file.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            let _ = writeln!(io::stderr(), "error: {fault}");
            ExitCode::from(2)
        }
    }
}

fn tell(wanted: Option<&str>, chart_file: Option<&str>) -> io::Result<()> {
    let is = |word: &str| wanted.is_none_or(|wanted| wanted == word);
    let mut out = io::stdout().lock();
    if is("places") {
        writeln!(out, "{}", report::places_table(100))?;
    }
    if is("around") {
        writeln!(out, "{}", report::around_table(&[100, 1000]))?;
    }
    if is("traffic") {
        let (table, chart) = report::traffic_table(&SIZES, 30);
        writeln!(out, "{table}")?;
        if let Some(file) = chart_file {
            std::fs::write(file, chart)?;
        }
    }
    if is("detection") {
        writeln!(out, "{}", report::detection_table(&[100, 1000], 9))?;
        writeln!(out, "{}", report::detection_table(&[5000], 3))?;
    }
    if is("cuts") {
        report::tell_cuts(&mut out)?;
    }
    if is("false") {
        // None in 4,000 site-hours says: fewer than one in 1,000, at 98 %.
        let watched = [(0, 60), (30, 60), (70, 240)];
        report::tell_false(&mut out, 1000, &watched)?;
    }
    Ok(())
}
