//! A small line chart as SVG, light enough to be kept beside the text. Text in, text out: no I/O.

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

/// How far apart values of x stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As they are.
    Linear,
    /// By their ratio; all above 0.
    Logarithmic,
}

/// What is drawn along x.
#[derive(Clone, Copy, Debug)]
pub struct Across<'a> {
    /// What it is.
    pub name: &'a str,
    /// How it is spaced.
    pub scale: Scale,
}

/// Values of x that are written below the chart: all if they are few, else so many, evenly chosen.
const TICKS_MAX: usize = 9;

/// A chart with a y axis from 0 to `y_max`.
pub fn chart(
    title: &str,
    across: Across<'_>,
    y_name: &str,
    y_max: f64,
    series: &[Series],
) -> String {
    let xs = || {
        series
            .iter()
            .flat_map(|s| s.points.iter().map(|point| point.0))
    };
    let (low, high) = xs().fold((f64::MAX, f64::MIN), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    let x_of = |x: f64| {
        let share = match across.scale {
            Scale::Linear => (x - low) / (high - low).max(f64::MIN_POSITIVE),
            Scale::Logarithmic => {
                (x.ln() - low.ln()) / (high.ln() - low.ln()).max(f64::MIN_POSITIVE)
            }
        };
        LEFT + share * (WIDTH - LEFT - RIGHT)
    };
    let y_of = |y: f64| HEIGHT - BOTTOM - y / y_max * (HEIGHT - TOP - BOTTOM);
    let mut out = String::new();
    let x_name = across.name;
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#333\">\n<title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"14\">{title}</text>\n\
         <text x=\"{LEFT}\" y=\"{}\" dx=\"{}\" text-anchor=\"middle\">{x_name}</text>\n\
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
    let every = ticks.len().div_ceil(TICKS_MAX).max(1);
    for x in ticks.into_iter().step_by(every) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_has_its_line_and_its_name_and_few_ticks_are_written() {
        let points = (1..=100).map(|x| (f64::from(x), f64::from(x))).collect();
        let one = Series {
            name: "one".to_owned(),
            points,
        };
        let two = Series {
            name: "two".to_owned(),
            points: vec![(1.0, 50.0), (100.0, 0.0)],
        };
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let across = Across {
                name: "seconds",
                scale,
            };
            let drawn = chart("T", across, "MB", 100.0, &[one.clone(), two.clone()]);
            assert_eq!(drawn.matches("<polyline").count(), 2);
            assert!(drawn.contains(">one</text>") && drawn.contains(">two</text>"));
            assert!(drawn.contains(">seconds</text>") && drawn.contains(">MB</text>"));
            assert!(drawn.matches("text-anchor=\"middle\"").count() <= TICKS_MAX + 2);
            assert!(!drawn.contains("NaN"));
        }
    }
}
