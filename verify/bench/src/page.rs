//! The picture of a report: one self-contained page, a bar for each ratio on a logarithmic scale, its interval, its goal, and what it was in
//! an older report. It fetches nothing and has no script. Called by the command line.

use std::fmt::Write;

use crate::report::{BenchReport, Goal, Row, Verdict};

const STYLE: &str = include_str!("page.css");
/// Width of a plot in its own units.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 22.0;
/// The scale has one power of ten more on each side than the ratios, at most these.
const POWERS: [f64; 2] = [-4.0, 6.0];

/// The page of `report`, beside `old` where there is one.
pub fn page(report: &BenchReport, old: Option<&BenchReport>) -> String {
    let scale = Scale::of(report);
    let mut text = String::new();
    let _ = write!(
        text,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\"><title>openwddm bench</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n\
         <p class=\"brand\">openwddm bench</p>\n<h1>{}</h1>\n<p class=\"quiet\">{}</p>\n",
        headline(report),
        escaped(&report.machine.to_string()),
    );
    if let Some(old) = old {
        let _ = writeln!(text, "<p class=\"quiet\">Hollow marks: before, on {}</p>", escaped(&old.machine.to_string()));
    }
    text.push_str(
        "<p class=\"quiet\">Each ratio is ours against a peer or a limit of the same run: the dot is the median of the rounds, the line its \
         95 % interval, the tick the goal; the shaded side misses it. The scale is logarithmic and the same in all rows.</p>\n\
         <table><tr><th>measure</th><th>ours</th><th>peer or limit</th><th class=\"n\">ratio</th><th>",
    );
    text.push_str(&scale.axis());
    text.push_str("</th><th class=\"n\">goal</th></tr>\n");
    for row in &report.rows {
        let before = old.and_then(|old| old.rows.iter().find(|other| other.measure == row.measure));
        text.push_str(&line(row, before, &scale));
    }
    text.push_str("</table>\n</main></body></html>\n");
    text
}

fn headline(report: &BenchReport) -> String {
    let count = |verdict| report.rows.iter().filter(|row| row.verdict() == verdict).count();
    let (reached, missed) = (count(Verdict::Reached), count(Verdict::Missed));
    match count(Verdict::Broken) {
        0 => format!("{reached} goals reached, {missed} missed"),
        broken => format!("{broken} promises broken; {reached} goals reached, {missed} missed"),
    }
}

fn line(row: &Row, before: Option<&Row>, scale: &Scale) -> String {
    let class = match row.verdict() {
        Verdict::Printed => "printed",
        Verdict::Reached => "reached",
        Verdict::Missed | Verdict::Broken => "missed",
    };
    let ratio = row.ratio.map_or("-".into(), |ratio| format!("{:.2}", ratio.value));
    let plot = row.ratio.map_or(String::new(), |_| scale.plot(row, before));
    let [measure, ours, peer] = [&row.measure, &row.ours, &row.peer].map(|text| escaped(text));
    format!(
        "<tr class=\"{class}\"><td>{measure}</td><td>{ours}</td><td>{peer}</td><td class=\"n\">{ratio}</td><td>{plot}</td>\
         <td class=\"n\">{}</td></tr>\n",
        escaped(&row.goal.to_string())
    )
}

/// The powers of ten that the plots reach from and to.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(report: &BenchReport) -> Scale {
        let values = report.rows.iter().filter_map(|row| row.ratio).map(|ratio| ratio.value.log10());
        let powers = values.filter(|power| power.is_finite()).map(|power| power.clamp(POWERS[0], POWERS[1]));
        let (low, high) = powers.fold((0.0, 0.0), |(low, high): (f64, f64), power| (low.min(power), high.max(power)));
        Scale { low: (low - 0.1).floor(), high: (high + 0.1).ceil() }
    }

    fn x(&self, ratio: f64) -> f64 {
        let power = ratio.max(f64::MIN_POSITIVE).log10().clamp(self.low, self.high);
        (power - self.low) / (self.high - self.low) * WIDTH
    }

    fn powers(&self) -> impl Iterator<Item = i32> {
        // CAST: between the two of POWERS.
        self.low as i32..=self.high as i32
    }

    fn axis(&self) -> String {
        let mut text = svg("the scale");
        for power in self.powers() {
            let x = self.x(10f64.powi(power));
            let anchor = if x < 1.0 {
                "start"
            } else if x > WIDTH - 1.0 {
                "end"
            } else {
                "middle"
            };
            let value = 10f64.powi(power);
            let _ = write!(text, "<text x=\"{x:.1}\" y=\"15\" text-anchor=\"{anchor}\">{value}</text>");
        }
        text + "</svg>"
    }

    fn plot(&self, row: &Row, before: Option<&Row>) -> String {
        let Some(ratio) = row.ratio else { return String::new() };
        let mut text = svg(&format!("{}: {:.2}", row.measure, ratio.value));
        let middle = HEIGHT / 2.0;
        match row.goal {
            Goal::AtMost(limit) => text.push_str(&wrong_side(self.x(limit), WIDTH)),
            Goal::AtLeast(limit) => text.push_str(&wrong_side(0.0, self.x(limit))),
            Goal::None | Goal::Zero { .. } => {}
        }
        for power in self.powers() {
            let x = self.x(10f64.powi(power));
            let _ = write!(text, "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{HEIGHT}\"/>");
        }
        if let Goal::AtMost(limit) | Goal::AtLeast(limit) = row.goal {
            let x = self.x(limit);
            let _ =
                write!(text, "<line class=\"goal\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"2\" y2=\"{:.0}\"/>", HEIGHT - 2.0);
        }
        if let Some([low, high]) = ratio.interval {
            let (from, to) = (self.x(low), self.x(high));
            let _ =
                write!(text, "<line class=\"range\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle}\" y2=\"{middle}\"/>");
        }
        if let Some(older) = before.and_then(|row| row.ratio) {
            let _ = write!(text, "<circle class=\"old\" cx=\"{:.1}\" cy=\"{middle}\" r=\"4.5\"/>", self.x(older.value));
        }
        let _ = write!(text, "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{middle}\" r=\"3.5\"/>", self.x(ratio.value));
        text + "</svg>"
    }
}

fn svg(label: &str) -> String {
    format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\">",
        escaped(label)
    )
}

fn wrong_side(from: f64, to: f64) -> String {
    format!("<rect class=\"wrong\" x=\"{from:.1}\" y=\"0\" width=\"{:.1}\" height=\"{HEIGHT}\"/>", (to - from).max(0.0))
}

/// Text of a page: a report may come from a file that another program wrote.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::statistic::Ratio;

    fn report(value: f64) -> BenchReport {
        let ratio = Some(Ratio { value, interval: Some([value / 2.0, value * 2.0]), rounds: 31 });
        let (ours, peer) = ("80 ns".to_owned(), "<script>".to_owned());
        let rows = vec![Row { measure: "hop".into(), ours, peer, ratio, goal: Goal::AtMost(2.5) }];
        BenchReport { machine: Machine::unknown(), rows }
    }

    #[test]
    fn a_page_has_the_ratio_its_goal_its_interval_and_what_it_was() {
        let text = page(&report(10.0), Some(&report(1.0)));
        assert!(text.contains("0 goals reached, 1 missed") && !text.contains("<script>"), "{text}");
        // From 1 to 100: ten is in the middle, and one at its begin.
        let scale = Scale::of(&report(10.0));
        assert_eq!((scale.x(1.0), scale.x(10.0), scale.x(100.0)), (WIDTH / 3.0, 2.0 * WIDTH / 3.0, WIDTH));
        for mark in ["class=\"goal\"", "class=\"range\"", "class=\"old\"", "class=\"dot\""] {
            assert_eq!(text.matches(mark).count(), 1, "{mark}");
        }
        assert_eq!(page(&report(10.0), None).matches("class=\"old\"").count(), 0);
    }

    #[test]
    fn a_ratio_that_is_not_finite_stays_on_the_scale() {
        let scale = Scale::of(&report(f64::INFINITY));
        assert!([0.0, f64::INFINITY, 1e300].map(|ratio| scale.x(ratio)).iter().all(|x| (0.0..=WIDTH).contains(x)));
    }
}
