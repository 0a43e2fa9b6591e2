//! The figures of the book, as Markdown tables and an SVG.

use std::fmt::Write;
use std::io;

use crate::matrix::Matrix;
use crate::places::{By, Found, Places};
use crate::reporting::report_bytes;
use crate::scenarios::{Ways, detection, false_marks, isolation, median, partial_cut, traffic};
use crate::world::Settings;
use cheops_plot::{Across, Scale, Series, chart};

fn settings(sites: u16, loss_permille: u64, seed: u64) -> Settings {
    Settings {
        sites,
        loss_permille,
        seed,
    }
}

/// Bytes per site and second: a table and a chart.
pub fn traffic_table(sizes: &[u16], seconds: u64) -> (String, String) {
    let mut table = String::from("| sites | no loss | 3 % | 7 % |\n| --- | --- | --- | --- |\n");
    let losses = [0, 30, 70];
    let mut series: Vec<Series> = losses
        .iter()
        .map(|loss| Series {
            name: format!("{} % loss", loss / 10),
            points: Vec::new(),
        })
        .collect();
    for sites in sizes {
        let _ = write!(table, "| {sites} ");
        for (place, loss) in losses.iter().enumerate() {
            let bytes = traffic(settings(*sites, *loss, 11), seconds);
            let _ = write!(table, "| {bytes:.0} ");
            series[place].points.push((f64::from(*sites), bytes));
        }
        table.push_str("|\n");
    }
    let _ = write!(table, "\nOf them reports:");
    for sites in sizes {
        let _ = write!(
            table,
            " {:.0} at {sites} sites;",
            report_bytes(*sites, 0, 11, 120)
        );
    }
    table.push('\n');
    let across = Across {
        name: "sites",
        scale: Scale::Logarithmic,
    };
    let title = "Bytes sent per site and second";
    let chart = chart(title, across, "bytes/s", 1500.0, &series);
    (table, chart)
}

/// How soon a dead site is known.
pub fn detection_table(sizes: &[u16], deaths: u16) -> String {
    let mut table = String::from(
        "| sites | loss | first knows | half know | every other knows (median) | (slowest death) |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for sites in sizes {
        for loss in [0, 30, 70] {
            let found = detection(settings(*sites, loss, 5), deaths);
            let s = |times: &[u64]| median(times) as f64 / 1000.0;
            let worst = found.all_ms.iter().max().copied().unwrap_or_default() as f64 / 1000.0;
            let _ = writeln!(
                table,
                "| {sites} | {} % | {:.1} s | {:.1} s | {:.1} s | {worst:.1} s |",
                loss / 10,
                s(&found.first_ms),
                s(&found.half_ms),
                s(&found.all_ms),
            );
        }
    }
    table
}

/// Live sites marked `autonomous`: at each loss of a thousand, watched for so many minutes. Row by
/// row, because it takes long.
pub fn tell_false(out: &mut impl io::Write, sites: u16, watched: &[(u64, u64)]) -> io::Result<()> {
    writeln!(
        out,
        "| sites | loss | site-hours | false `autonomous` | per 1,000 site-hours |\n| --- | --- | --- | --- | --- |"
    )?;
    for (loss, minutes) in watched {
        let found = false_marks(settings(sites, *loss, 3), *minutes);
        let rate = found.events as f64 / found.site_hours * 1000.0;
        writeln!(
            out,
            "| {sites} | {} % | {:.0} | {} | {rate:.2} |",
            loss / 10,
            found.site_hours,
            found.events,
        )?;
    }
    Ok(())
}

/// How a cut that leaves a way around is tried: in a mesh of so many sites, so many from as many
/// others, for so many minutes. In a large mesh a site is probed less often by any one other.
const CUTS: [(u16, u16, u64); 2] = [(50, 5, 15), (1000, 20, 40)];

/// Cuts that leave a way around, and one that leaves none. Row by row.
pub fn tell_cuts(out: &mut impl io::Write) -> io::Result<()> {
    writeln!(
        out,
        "| sites | what is cut | loss | pairs | `indirect` | `one-way` | seen after (median) | false `autonomous` | flaps |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )?;
    for (sites, cut, minutes) in CUTS {
        for (name, ways) in [("both ways", Ways::Both), ("one way", Ways::One)] {
            for loss in [70, 0] {
                let seen = partial_cut(settings(sites, loss, 9), cut, ways, minutes);
                writeln!(
                    out,
                    "| {sites} | {cut} from {cut}, {name} | {} % | {} | {} | {} | {:.0} s | {} | {} |",
                    loss / 10,
                    seen.pairs,
                    seen.indirect,
                    seen.one_way,
                    median(&seen.seen_ms) as f64 / 1000.0,
                    seen.false_marks,
                    seen.flaps,
                )?;
            }
        }
    }
    let lone = isolation(settings(1000, 70, 2));
    writeln!(
        out,
        "\nOne of 1,000 sites cut off for two minutes at 7 % loss: it shows nobody `connected` after {:.0} s; mended, \
         everybody has it back after {:.0} s; others doubted because of it: {}.",
        lone.alone_ms as f64 / 1000.0,
        lone.back_ms as f64 / 1000.0,
        lone.doubted,
    )
}

/// Coordinates against the measured matrices.
pub fn places_table(samples: u64) -> String {
    let mut table = String::from(
        "| matrix | median error of coordinates | a site's ways 80 ms longer: its error at once / after 50 samples / after 100 |\n\
         | --- | --- | --- |\n",
    );
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    for matrix in [Matrix::azure(), Matrix::multicloud(), Matrix::planetlab()] {
        let mut places = Places::new(&matrix, 1);
        places.sample(samples);
        let error = places.median_error(None);
        places.step(0, 80.0);
        let mut after = vec![places.median_error(Some(0))];
        for _ in 0..2 {
            places.sample(50);
            after.push(places.median_error(Some(0)));
        }
        let after: Vec<_> = after.into_iter().map(percent).collect();
        let (name, after) = (matrix.name, after.join(" / "));
        let _ = writeln!(table, "| {name} | {:.1} % | {after} |", error * 100.0);
    }
    table
}

/// What `around` finds: precision and recall.
pub fn around_table(samples: &[u64]) -> String {
    let mut table = String::from(
        "| matrix | samples per site | radius | coordinates alone | asked at x | asked elsewhere |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    let both = |found: Found| {
        let percent = |share: f64| (share * 100.0).round();
        format!("{} / {}", percent(found.precision), percent(found.recall))
    };
    for matrix in [Matrix::azure(), Matrix::multicloud(), Matrix::planetlab()] {
        let mut places = Places::new(&matrix, 1);
        let mut done = 0;
        for samples in samples {
            places.sample(samples - done);
            done = *samples;
            for radius in [20.0, 50.0] {
                let by = [By::Places, By::Itself, By::Another];
                let [alone, here, there] = by.map(|by| both(places.around(radius, by)));
                let _ = writeln!(
                    table,
                    "| {} | {samples} | {radius} ms | {alone} | {here} | {there} |",
                    matrix.name
                );
            }
        }
    }
    table
}
