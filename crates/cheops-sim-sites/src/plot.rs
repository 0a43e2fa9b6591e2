//! A small line chart as SVG, light enough to be kept beside the text.

use std::fmt::Write;

/// One line of a chart.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// Points, in order of x.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 40.0;
const COLOURS: [&str; 4] = ["#1b6ca8", "#c8553d", "#3a7d44", "#6b4e9b"];
const DASHES: [&str; 4] = ["none", "6 3", "2 3", "8 3 2 3"];

/// A chart with a logarithmic x axis and a y axis from 0 to `y_max`.
pub fn chart(title: &str, y_name: &str, y_max: f64, series: &[Series]) -> String {
    let xs = || {
        series
            .iter()
            .flat_map(|s| s.points.iter().map(|point| point.0))
    };
    let (low, high) = xs().fold((f64::MAX, f64::MIN), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    let x_of = |x: f64| {
        let share = (x.ln() - low.ln()) / (high.ln() - low.ln()).max(f64::MIN_POSITIVE);
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let y_of = |y: f64| HEIGHT - BOTTOM - y / y_max * (HEIGHT - TOP - BOTTOM);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#333\">\n<title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"14\">{title}</text>\n\
         <text x=\"{LEFT}\" y=\"{}\" dx=\"{}\" text-anchor=\"middle\">sites</text>\n\
         <text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{y_name}</text>",
        HEIGHT - 6.0,
        (WIDTH - LEFT - RIGHT) / 2.0,
        HEIGHT / 2.0,
    );
    for step in 0..=5 {
        let value = y_max * f64::from(step) / 5.0;
        let y = y_of(value);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{value:.0}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
        );
    }
    let mut ticks: Vec<f64> = xs().collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    for x in ticks {
        let y = HEIGHT - BOTTOM + 16.0;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{y}\" text-anchor=\"middle\">{x:.0}</text>",
            x_of(x)
        );
    }
    for (index, line) in series.iter().enumerate() {
        let (colour, dash) = (COLOURS[index % COLOURS.len()], DASHES[index % DASHES.len()]);
        let at = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", x_of(*x), y_of(*y));
        let points: Vec<_> = line.points.iter().map(at).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
            points.join(" "),
        );
        if let Some((x, y)) = line.points.last() {
            let (x, y) = (x_of(*x) + 8.0, y_of(*y) + 4.0);
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{}</text>",
                line.name
            );
        }
    }
    out.push_str("</svg>\n");
    out
}
