//! Memory and descriptors over time, as a picture and as a verdict.

use std::fmt::Write;

use super::stage::REMEMBERING;

/// One look at one agent.
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) site: usize,
    pub(super) memory_mb: f64,
    pub(super) descriptors: usize,
}

/// Whether anything grows.
pub(super) struct Growth {
    pub(super) grows: bool,
    pub(super) text: String,
}

/// What an agent may remember of requests by their headers: 262,144 of them, some 400 bytes each.
const CORRELATIONS_MB: f64 = 105.0;

/// Compares the second sixth of the time, when everything is warm, with the last.
pub(super) fn growth(samples: &[Sample]) -> Growth {
    let end = samples.iter().map(|s| s.seconds).fold(1.0, f64::max);
    let (mut grows, mut text) = (false, String::new());
    for site in [1, 2] {
        let within = |from: f64, to: f64, value: fn(&Sample) -> f64| {
            let of_time = |s: &&Sample| s.seconds >= from * end && s.seconds <= to * end;
            let own = samples.iter().filter(|s| s.site == site).filter(of_time);
            crate::bench::median(own.map(value).collect())
        };
        let memory_slack = if site == REMEMBERING {
            CORRELATIONS_MB
        } else {
            3.0
        };
        for (what, value, slack) in [
            (
                "memory MB",
                (|s: &Sample| s.memory_mb) as fn(&Sample) -> f64,
                memory_slack,
            ),
            ("descriptors", |s: &Sample| s.descriptors as f64, 16.0),
        ] {
            let (early, late) = (
                within(1.0 / 6.0, 2.0 / 6.0, value),
                within(5.0 / 6.0, 1.0, value),
            );
            let more = late > early * 1.1 + slack;
            grows |= more;
            let word = if more { "grows" } else { "does not grow" };
            let _ = writeln!(
                text,
                "site{site} {what}: {early:.1} early, {late:.1} late: {word}"
            );
        }
    }
    Growth { grows, text }
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 60.0;
const COLOURS: [&str; 2] = ["#2563eb", "#c2410c"];

/// Two panels: memory above, descriptors below; solid for site1, dashed for site2.
pub(super) fn draw(samples: &[Sample]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>Memory and descriptors of two agents during the soak</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        WIDTH + LEFT + 20.0,
        2.0 * (HEIGHT + 60.0),
    );
    panel(&mut out, samples, 30.0, "memory, MB", |s| s.memory_mb);
    panel(&mut out, samples, HEIGHT + 90.0, "descriptors", |s| {
        s.descriptors as f64
    });
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, samples: &[Sample], top: f64, what: &str, value: fn(&Sample) -> f64) {
    let end = samples.iter().map(|s| s.seconds).fold(1.0, f64::max);
    let most = samples.iter().map(value).fold(1.0, f64::max) * 1.1;
    let bottom = top + HEIGHT;
    let right = LEFT + WIDTH;
    let _ = writeln!(
        out,
        "<path d=\"M{LEFT} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#666\"/>\n\
         <text x=\"{LEFT}\" y=\"{}\">{what} (site1 solid, site2 dashed)</text>\n\
         <text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{most:.0}</text>\n\
         <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{:.0} min</text>",
        top - 8.0,
        LEFT - 6.0,
        LEFT - 6.0,
        top + 10.0,
        bottom + 16.0,
        end / 60.0,
    );
    for (site, colour) in (1..).zip(COLOURS) {
        let point = |s: &Sample| {
            let (x, y) = (
                LEFT + s.seconds / end * WIDTH,
                bottom - value(s) / most * HEIGHT,
            );
            format!("{x:.1},{y:.1}")
        };
        let points: Vec<_> = samples
            .iter()
            .filter(|s| s.site == site)
            .map(point)
            .collect();
        let dash = if site == 1 {
            ""
        } else {
            " stroke-dasharray=\"5 3\""
        };
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"{dash}/>",
            points.join(" ")
        );
    }
}
